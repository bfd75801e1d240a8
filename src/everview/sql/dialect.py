"""The dialect: Spark SQL as sqlglot reads it, and what Everview adds.

Scalar functions are left as plain calls by name: `algebra/functions.py` knows them, not sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from everview.sql import ast
from everview.sql.sink_grammar import SinkParser

# Functions whose arguments have a grammar of their own: CAST(x AS t), EXTRACT(f FROM x), …
_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION")


class EverviewParser(SinkParser):
    """Spark's grammar with streams, windows, synchronization and our statements."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in _SPECIAL_FORMS
    }
    # There is no JSON, and so no -> into it.
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        token: SparkParser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)
    }
    # IF(a, b, c) is a function like any other.
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }

    # Statements

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        if self._match(TokenType.SEMICOLON):  # with a comment behind it
            return exp.Semicolon()
        for words, parse in _STATEMENTS:
            if self._match_text_seq(*words):
                return parse(self)
        if self._is_query_start():
            return self._parse_as_of(self._parse_full_query())
        self._fail("no statement begins like this", choices=_FIRST_WORDS)
        return None

    def _create(self) -> exp.Expr:
        replace = self._match_text_seq("OR", "REPLACE")
        if self._match_text_seq("TAGGED"):
            self._expect("STREAM")
            return self._create_tagged()
        if self._match_text_seq("NON"):
            self._expect("RETROACTIVE")
            self._expect("TABLE")
            return self._create_table(non_retroactive=True)
        complete = self._match_text_seq("COMPLETE")
        streamed = not complete and self._match_text_seq("STREAMED")
        if complete or streamed or self._word() == "VIEW":
            self._expect("VIEW")
            return self._create_view(bool(complete), bool(replace))
        if replace:
            self._fail("only a view can be replaced: expected VIEW")
        if self._match_text_seq("STREAM"):
            return self._create_stream()
        if self._match_text_seq("TABLE"):
            return self._create_table(non_retroactive=False)
        if self._match_text_seq("SINK"):
            return self._create_sink()
        self._fail("expected what to create", choices=("STREAM", "TAGGED STREAM", "TABLE", "VIEW", "SINK"))
        raise AssertionError

    def _create_stream(self) -> exp.Expr:
        name = self._new_name("the stream")
        if self._match_text_seq("TIMELINE"):
            named = self._parse_csv(lambda: self._name("a time line"))
            options = self._parse_wrapped_csv(self._option) if self._match(TokenType.WITH) else None
            self._expect("AS")
            query, text = self._with_text(self._parse_full_query)
            return ast.CreateEventStreamSyntax(
                this=name, timelines=named, options=options, query=query, text=text
            )
        checks: list[exp.Expr] = []
        columns, lines, _ = self._columns(timelines=True, checks=checks)
        source, idle, ahead, punctuate, options = None, None, None, None, None
        while self._curr:
            if self._match_text_seq("MAX"):
                self._require_once(ahead)
                self._expect("AHEAD")
                ahead = self._placed(self._max_ahead)
            elif self._match_text_seq("IDLE"):
                self._require_once(idle)
                self._expect("AFTER")
                idle = self._duration()
            elif self._match_text_seq("PUNCTUATE"):
                self._require_once(punctuate)
                self._expect("WHEN")
                punctuate = self._condition(self._parse_disjunction)
            elif self._match(TokenType.FROM):
                self._require_once(source)
                source = self._decoded_source()
            elif self._match(TokenType.WITH):
                self._require_once(options)
                options = self._parse_wrapped_csv(self._expectation)
            else:
                break
        return ast.CreateStreamSyntax(
            this=name,
            columns=columns,
            timelines=lines,
            source=source,
            idle=idle,
            ahead=ahead,
            checks=checks,
            punctuate=punctuate,
            options=options,
        )

    def _max_ahead(self) -> exp.Expr:
        """Parse NONE, or a length of time."""
        return exp.Null() if self._match_text_seq("NONE") else self._duration()

    def _create_table(self, non_retroactive: bool) -> exp.Expr:
        name = self._new_name("the table")
        if self._match_text_seq("AS"):
            query, text = self._with_text(lambda: self._parse_as_of(self._parse_full_query()))
            return ast.CreateTableAsSyntax(this=name, query=query, text=text, non_retroactive=non_retroactive)
        columns, _, key = self._columns(timelines=False)
        source = self._decoded_source() if self._match(TokenType.FROM) else None
        return ast.CreateTableSyntax(
            this=name, columns=columns, key=key, source=source, non_retroactive=non_retroactive
        )

    def _explain(self, cost: bool) -> exp.Expr:
        created = self._match_text_seq("CREATE")
        shown = self._create() if created else self._parse_as_of(self._parse_full_query())
        return ast.ExplainSyntax(this=shown, cost=cost)

    def _expectation(self) -> exp.Expr | None:
        """Parse distinct(column) => value, or another option."""
        index = self._index
        if self._match(TokenType.DISTINCT):
            name = exp.Identifier(this="distinct", quoted=False).update_positions(self._prev)
            column = None
            if self._match(TokenType.L_PAREN):
                column = self._name("a column")
                self._match_r_paren()
            if self._match(TokenType.FARROW):
                value = self._needed(self._placed(self._parse_term), "a value")
                return ast.OptionSyntax(this=name, value=value, column=column)
            self._retreat(index)
        return self._option()

    def _create_tagged(self) -> exp.Expr:
        name = self._new_name("the tagged stream")
        self._expect("OVER")
        over = self._name("the stream below")
        if not self._match_text_seq("KEY"):
            self._fail("a tagged stream needs a KEY", next_step="add KEY (column, …)")
        key = self._parse_wrapped_csv(lambda: self._name("a key column"), optional=True)
        delete, text = None, None
        if self._match_text_seq("DELETE"):
            self._expect("WHEN")
            delete, text = self._with_text(self._parse_disjunction)
            self._needed(delete, "a condition")
        return ast.CreateTaggedSyntax(this=name, over=over, key=key, delete=delete, text=text)

    def _create_view(self, complete: bool, replace: bool) -> exp.Expr:
        name = self._new_name("the view")
        if replace and name.meta["if_not_exists"]:
            self._fail("a view is replaced, or made if it does not exist: not both", self._prev)
        columns = None
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            columns = self._parse_wrapped_csv(lambda: self._name("a column"))
        options = None
        if self._match(TokenType.WITH):
            options = self._parse_wrapped_csv(self._option)
        self._expect("AS")
        query, text = self._with_text(lambda: self._parse_as_of(self._parse_full_query()))
        return ast.CreateViewSyntax(
            this=name,
            columns=columns,
            query=query,
            text=text,
            complete=complete,
            options=options,
            replace=replace,
        )

    def _insert(self) -> exp.Expr:
        self._expect("INTO")
        name = self._name("a stream or a table")
        columns = None
        if self._curr and self._curr.token_type == TokenType.L_PAREN and not self._next_is_query():
            columns = self._parse_wrapped_csv(lambda: self._name("a column"))
        if self._match(TokenType.VALUES):
            rows = self._parse_csv(lambda: self._placed(self._row))
            return ast.InsertSyntax(this=name, columns=columns, rows=rows, at=self._at())
        return ast.InsertSyntax(this=name, columns=columns, query=self._parse_full_query(), at=self._at())

    def _row(self) -> exp.Expr:
        return exp.Tuple(expressions=self._parse_wrapped_csv(self._value))

    def _value(self) -> exp.Expr | None:
        """Parse an expression, or DEFAULT."""
        return self._placed(self._default) or self._parse_disjunction()

    def _default(self) -> exp.Expr | None:
        return ast.DefaultSyntax() if self._match(TokenType.DEFAULT) else None

    def _assignment(self) -> exp.Expr | None:
        """Parse column = value."""
        index = self._index
        target = self._parse_column()
        if isinstance(target, exp.Column) and self._match(TokenType.EQ):
            return exp.EQ(this=target, expression=self._needed(self._value(), "a value"))
        self._retreat(index)
        return self._parse_equality()

    def _next_is_query(self) -> bool:
        return self._next.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)

    def _update(self) -> exp.Expr:
        name = self._name("a table")
        alias = None if self._word() == "SET" else self._alias()
        self._expect("SET")
        assignments = self._parse_csv(self._assignment)
        source, where = None, None
        if self._curr and self._curr.token_type == TokenType.FROM:
            source = exp.Select(expressions=[exp.Star()], from_=self._parse_from())
            self._parse_query_modifiers(source)
            where = source.args.pop("where", None)
        return ast.UpdateSyntax(
            this=name,
            alias=alias,
            assignments=assignments,
            source=source,
            where=where or self._parse_where(),
            at=self._at(),
        )

    def _alias(self) -> exp.Identifier | None:
        """Parse [AS] name after the table of an UPDATE or a DELETE."""
        start = self._curr
        alias = None if self._word() == "AT" else self._parse_table_alias()
        if alias is not None and (not isinstance(alias.this, exp.Identifier) or alias.columns):
            self._fail("a table has one name here", start)
        return None if alias is None else alias.this

    def _delete(self) -> exp.Expr:
        self._expect("FROM")
        name, alias = self._name("a table"), self._alias()
        return ast.DeleteSyntax(this=name, alias=alias, where=self._parse_where(), at=self._at())

    def _at(self) -> exp.Expr | None:
        return self._instant() if self._match_text_seq("AT") else None

    def _drop(self) -> exp.Expr:
        if self._match_text_seq("SINK"):
            return self._drop_sink()
        tagged = self._match_text_seq("TAGGED")
        kind = self._word()
        if kind not in ("STREAM", "TABLE", "VIEW") or (tagged and kind != "STREAM"):
            self._fail("expected what to drop", choices=("STREAM", "TABLE", "VIEW", "SINK"))
        self._advance()
        exists = self._match_text_seq("IF", "EXISTS")
        name = self._name("what to drop")
        cascade = self._match_text_seq("CASCADE")
        return ast.DropSyntax(kind=kind, this=name, exists=bool(exists), cascade=bool(cascade))

    def _show(self) -> exp.Expr:
        kind = self._word()
        if kind == "CREATE":
            return self._show_create()
        if kind not in ("STREAMS", "TABLES", "VIEWS", "SINKS"):
            self._fail("expected what to show", choices=("STREAMS", "TABLES", "VIEWS", "SINKS", "CREATE"))
        self._advance()
        return ast.ShowSyntax(kind=kind)

    def _show_create(self) -> exp.Expr:
        """Parse SHOW CREATE STREAM | TABLE | VIEW | SINK name."""
        self._advance()
        if self._match_text_seq("SINK"):
            return ast.ShowSinkSyntax(this=self._name("the sink to show"), sql=True)
        self._match_text_seq("TAGGED")
        if self._word() not in ("STREAM", "TABLE", "VIEW"):
            self._fail("expected what to show", choices=("STREAM", "TABLE", "VIEW", "SINK"))
        kind = self._word()
        self._advance()
        return ast.ShowCreateSyntax(kind=kind, this=self._name("what to show"))

    def _set(self) -> exp.Expr:
        """Parse SET setting = value."""
        name = self._name("a setting")
        if not self._match(TokenType.EQ):
            self._fail("expected =", next_step="write SET answer_from_views = off")
        if self._curr is None or self._curr.token_type == TokenType.SEMICOLON:
            self._fail("expected a value", choices=("on", "off"))
        value = exp.Identifier(this=self._curr.text, quoted=False).update_positions(self._curr)
        self._advance()
        return ast.SetSyntax(this=name, value=value)

    def _replay(self) -> exp.Expr:
        """Parse REPLAY stream$late | stream$rejected [WHERE …]."""
        return ast.ReplaySyntax(
            this=self._name("late or rejected rows, as s$late"), where=self._parse_where()
        )

    def _alter(self) -> exp.Expr:
        """Parse ALTER VIEW | STREAM name RESUME, and ALTER … name RENAME TO … | ADD COLUMNS …."""
        if self._match_text_seq("SINK"):
            return self._alter_sink()
        tagged = self._match_text_seq("TAGGED")
        kind = self._word()
        if kind not in ("STREAM", "TABLE", "VIEW") or (tagged and kind != "STREAM"):
            self._fail("expected what to alter", choices=("STREAM", "TABLE", "VIEW", "SINK"))
        self._advance()
        name = self._name(f"the {kind.lower()} to alter")
        if kind in ("VIEW", "STREAM") and self._match_text_seq("RESUME"):
            return ast.ResumeSyntax(this=name, kind=kind)
        if self._match_text_seq("RENAME", "TO"):
            return ast.RenameSyntax(this=name, kind=kind, to=self._name(f"the {kind.lower()}"))
        if self._match_text_seq("RENAME", "COLUMN"):
            self._fail(
                "a column cannot be renamed: files, INSERT and views find it by its name",
                self._prev,
                next_step="give it another name in a view, with AS",
            )
        if self._match_text_seq("ADD"):
            return self._add_columns(name, kind)
        actions = ("RENAME TO", "ADD COLUMN", *(("RESUME",) if kind in ("VIEW", "STREAM") else ()))
        self._fail(f"expected what to do with the {kind.lower()}", choices=actions)
        raise AssertionError

    def _add_columns(self, name: exp.Expr, kind: str) -> exp.Expr:
        """Parse ADD COLUMN [IF NOT EXISTS] name TYPE [DEFAULT constant], or several in brackets."""
        if not self._match_text_seq("COLUMN") and not self._match_text_seq("COLUMNS"):
            self._fail("expected COLUMN or COLUMNS")
        exists = bool(self._match_text_seq("IF", "NOT", "EXISTS"))

        def parse() -> exp.Expr:
            column = self._column()
            key: list[exp.Expr] = []
            self._constraints(column, key, None, of_table=kind == "TABLE")
            if key:
                self._fail("a column that is added cannot be the PRIMARY KEY", self._prev)
            return column

        wrapped = self._curr and self._curr.token_type == TokenType.L_PAREN
        columns = self._parse_wrapped_csv(parse) if wrapped else self._parse_csv(parse)
        return ast.AddColumnsSyntax(this=name, kind=kind, columns=columns, exists=exists)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[EverviewParser], exp.Expr]], ...] = (
    (("CREATE",), EverviewParser._create),
    (("INSERT",), EverviewParser._insert),
    (("UPDATE",), EverviewParser._update),
    (("DELETE",), EverviewParser._delete),
    (("DROP",), EverviewParser._drop),
    (("ALTER",), EverviewParser._alter),
    (("REPLAY",), EverviewParser._replay),
    (("SHOW",), EverviewParser._show),
    (("DESCRIBE",), EverviewParser._describe),
    (("DESC",), EverviewParser._describe),
    (("EXPLAIN", "COST"), lambda self: self._explain(cost=True)),
    (("EXPLAIN",), lambda self: self._explain(cost=False)),
    (("SET",), EverviewParser._set),
    (("CLOCK", "EVERY"), lambda self: ast.ClockEverySyntax(every=self._duration())),
)
_FIRST_WORDS = (
    "SELECT",
    "CREATE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "DROP",
    "ALTER",
    "REPLAY",
    "EXPLAIN",
    "SHOW",
    "DESCRIBE",
    "SET",
    "CLOCK",
)


class Everview(Spark):
    """The dialect's tokens are Spark's; only the grammar is ours."""

    SUPPORTS_ORDER_BY_ALL = False  # it would make ALL of x.all, too; sql/ordering.py knows ORDER BY ALL

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]  # it\'s and it''s
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}  # s$late, s$rejected

    Parser = EverviewParser
