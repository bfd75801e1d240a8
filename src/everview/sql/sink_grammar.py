"""The grammar of sinks, and of what they share with sources: formats and their options."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from everview.sql import ast
from everview.sql.column_grammar import ColumnParser


class SinkParser(ColumnParser):
    """CREATE SINK, DROP SINK, ALTER SINK, DESCRIBE; format(path, option => value, …)."""

    def _create_sink(self) -> exp.Expr:
        """Parse name FROM view INTO format(…) [MODE mode] [KEY (…)]."""
        name = self._new_name("the sink")
        if not self._match(TokenType.FROM):
            self._fail(
                "expected FROM and the view", next_step="write CREATE SINK s FROM v INTO parquet('out/')"
            )
        view = self._name("the view to write")
        self._expect("INTO")
        target = self._source()
        mode, key = None, None
        while self._curr:
            if self._match_text_seq("MODE"):
                self._require_once(mode)
                mode = self._name("the mode: changes, upsert or append")
            elif self._match_text_seq("KEY"):
                self._require_once(key)
                key = self._parse_wrapped_csv(lambda: self._name("a key column"))
            else:
                break
        return ast.CreateSinkSyntax(this=name, view=view, target=target, mode=mode, key=key)

    def _drop_sink(self) -> exp.Expr:
        exists = self._match_text_seq("IF", "EXISTS")
        return ast.DropSinkSyntax(this=self._name("the sink to drop"), exists=bool(exists))

    def _alter_sink(self) -> exp.Expr:
        name = self._name("the sink to alter")
        if not self._match_text_seq("RESUME"):
            self._fail("expected what to do with the sink", choices=("RESUME",))
        return ast.ResumeSinkSyntax(this=name)

    def _describe(self) -> exp.Expr:
        """Parse name, or SINK name; a stream may be called sink."""
        if self._word() == "SINK" and self._next and self._next.token_type != TokenType.SEMICOLON:
            self._advance()
            return ast.ShowSinkSyntax(this=self._name("the sink to describe"))
        return ast.DescribeSyntax(this=self._name("what to describe"))

    def _new_name(self, what: str) -> exp.Identifier:
        """Parse [IF NOT EXISTS] name; the name remembers whether the words stood before it."""
        exists = self._match_text_seq("IF", "NOT", "EXISTS")
        name = self._name(what)
        name.meta["if_not_exists"] = bool(exists)
        return name

    def _source(self) -> exp.Expr:
        name = self._name("a format, as in csv('data/*.csv')")
        if not self._curr or self._curr.token_type != TokenType.L_PAREN:
            self._fail(f"expected ( after {name.name}", next_step=f"write it as {name.name}('path')")
        arguments = self._parse_wrapped_csv(self._option)
        return ast.SourceSyntax(this=name, arguments=arguments)

    def _decoded_source(self) -> exp.Expr:
        """Parse format(…) [FORMAT name[(option => value, …)]]."""
        source = self._source()
        if self._match_text_seq("FORMAT"):
            source.set("format", self._name("a format: json, csv or debezium"))
            if self._curr and self._curr.token_type == TokenType.L_PAREN:
                source.set("format_arguments", self._parse_wrapped_csv(self._option))
        return source

    def _option(self) -> exp.Expr | None:
        index = self._index
        name = self._parse_id_var(any_token=False) if self._curr else None
        if isinstance(name, exp.Identifier):
            path = name.name
            while self._match(TokenType.DOT):
                path += "." + self._name("an option").name
            name.set("this", path)
            if self._match(TokenType.FARROW):
                value = self._needed(self._placed(self._parse_term), "a value")
                return ast.OptionSyntax(this=name, value=value)
        self._retreat(index)
        return self._parse_unary()
