"""The grammar of queries: what stands in FROM, brackets, VALUES, WITH, and the stream functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from everview.algebra.text import name_sql
from everview.sql import ast
from everview.sql.places import WORDS
from everview.sql.window_function_grammar import WINDOW_FUNCTIONS, WindowFunctionParser

STREAM_FUNCTIONS = ("ISTREAM", "DSTREAM", "RSTREAM")


class QueryParser(WindowFunctionParser):
    """Spark's queries, with windows and synchronization behind relations."""

    def _is_query_start(self) -> bool:
        if not self._curr:
            return False
        starts = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES, TokenType.FROM)
        return self._curr.token_type in starts or self._at_stream_function()

    def _parse_full_query(self) -> exp.Expr:
        """Parse a query: SELECT … with set operations, or a stream function around one."""
        if self._match(TokenType.L_PAREN):
            brackets = exp.Subquery(this=self._parse_full_query())
            self._match_r_paren()
            self._window_brackets(brackets)
            self._take_sync(brackets)
            query: exp.Expr | None = brackets
        else:
            query = self._parse_select() if self._is_query_start() else None
        if query is None:
            self._fail("expected a SELECT")
            raise AssertionError
        query = self._parse_set_operations(query) or query
        if (
            isinstance(query, ast.StreamFunctionSyntax)
            and self._curr
            and self._curr.token_type in _QUERY_ENDS
        ):
            query = exp.Subquery(this=query)  # which takes ORDER BY, LIMIT and OFFSET
        return self._parse_query_modifiers(query) or query

    def _parse_select(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        if self._at_stream_function():
            return self._placed(self._parse_stream_function)  # type: ignore[no-any-return]
        return super()._parse_select(*arguments, **named)

    def _parse_select_query(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        """Parse a SELECT, or WITH and any query: sqlglot would drop the brackets after WITH."""
        clause = self._parse_with()
        if clause is None:
            return super()._parse_select_query(*arguments, **named)
        if not self._curr:
            self._fail("expected a SELECT after WITH")
        if not self._is_query_start():
            self._fail(
                f"WITH stands before a SELECT, not before {self._curr.text.upper()}",
                next_step="put WITH before the SELECT",
            )
        query = self._parse_full_query()
        if not isinstance(query, (exp.Select, exp.SetOperation, exp.Subquery)) or query.args.get("with_"):
            query = exp.Subquery(this=query)
        query.set("with_", clause)
        return query

    def _at_stream_function(self) -> bool:
        return self._word() in STREAM_FUNCTIONS and self._next.token_type == TokenType.L_PAREN

    def _parse_stream_function(self) -> exp.Expr:
        kind = self._word()
        self._advance(2)
        query = self._parse_full_query()
        self._match_r_paren()
        return ast.StreamFunctionSyntax(kind=kind, this=query, sync=self._sync())

    def _parse_function_call(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        """Parse a call; EXISTS has a query in its brackets, in brackets of its own or not."""
        if self._word() == "EXISTS" and self._next.token_type == TokenType.L_PAREN:
            return self._placed(self._parse_exists_query)  # type: ignore[no-any-return]
        return super()._parse_function_call(*arguments, **named)

    def _parse_exists_query(self) -> exp.Expr:
        self._advance(2)
        query = self._parse_full_query()
        self._match_r_paren()
        return exp.Exists(this=query)

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        self.raise_error("|> is not available")
        return None

    def _parse_as_of(self, query: exp.Expr) -> exp.Expr:
        if not self._match_text_seq("AS", "OF"):
            return query
        node = ast.AsOfSyntax(this=query, at=self._instant())
        if self._curr and self._curr.token_type != TokenType.R_PAREN:
            self._fail("nothing can follow AS OF and its instant", next_step="put AS OF at the end")
        return node

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        """Parse a relation in FROM: name [window] [SYNC …] [AS alias] [SYNC …]."""
        found: exp.Expr | None = None
        if not schema and self._at_relation_name():
            found = self._relation()
        elif not schema:
            found = self._streamed_relation() or self._window_relation()
        if found is not None:
            for join in self._parse_joins() if joins else ():
                found.append("joins", join)
            return found
        parsed = super()._parse_table(
            schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
        )
        if isinstance(parsed, exp.Subquery):
            self._take_sync(parsed)
        return parsed

    def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:
        """Parse WITH name AS (query), …. sqlglot merges the names of a WITH in brackets with those
        around it; here each clause is still known by itself."""
        clause = super()._parse_with(skip_with_token)
        seen: set[str] = set()
        for cte in clause.expressions if clause is not None else ():
            if cte.alias.casefold() in seen:
                raise self._refused(f"WITH names '{cte.alias}' twice", cte.args["alias"])
            seen.add(cte.alias.casefold())
        return clause

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
        """Parse VALUES (…), (…) [AS name (columns)]; brackets around it are those of any query."""
        return self._placed(self._values) if self._word() == "VALUES" else None

    def _values(self) -> exp.Values:
        self._advance()
        rows = self._parse_csv(lambda: self._placed(self._parse_value))
        if not rows:
            self._fail("expected a row of values", next_step="write VALUES (1, 'a'), (2, 'b')")
        return exp.Values(expressions=rows, alias=self._parse_table_alias())

    def _streamed_relation(self) -> exp.Expr | None:
        """Parse ISTREAM(query) in FROM."""
        if not self._at_stream_function():
            return None
        subquery = exp.Subquery(this=self._placed(self._parse_stream_function))
        self._window_brackets(subquery)
        if alias := self._parse_table_alias():
            subquery.set("alias", alias)
        self._take_sync(subquery)
        return subquery

    def _window_relation(self) -> exp.Expr | None:
        """Parse TUMBLE(…), HOP(…) or SESSION(…) in FROM, perhaps in TABLE(…)."""
        wrapped = self._word() == "TABLE" and self._next and self._next.token_type == TokenType.L_PAREN
        if wrapped:
            self._advance(2)
        if not self._at_window_function():
            if wrapped:
                self._fail("expected a window function", choices=WINDOW_FUNCTIONS)
            return None
        relation: exp.Expr = self._placed(self._window_function)
        if wrapped:
            self._match_r_paren()
        self._window_brackets(relation)
        self._take_sync(relation)
        if alias := self._parse_table_alias():
            relation.set("alias", alias)
        self._take_sync(relation)
        return relation

    def _at_relation_name(self) -> bool:
        if not self._curr or self._next.token_type in (TokenType.L_PAREN, TokenType.DOT):
            return False
        return self._curr.token_type in (TokenType.IDENTIFIER, TokenType.VAR) or (
            self._curr.token_type in self.TABLE_ALIAS_TOKENS and self._curr.token_type not in _NOT_NAMES
        )

    def _relation(self) -> exp.Table:
        table = exp.Table(this=self._name("a stream, a table or a view"))
        self._window_brackets(table)
        version = self._parse_version()
        self._take_sync(table)
        if alias := self._parse_table_alias():
            table.set("alias", alias)
            self._refuse_late_window(table)
        table.set("version", version or self._parse_version())
        self._take_sync(table)
        self._parse_pivots()
        return table

    def _refuse_late_window(self, table: exp.Table) -> None:
        """Refuse a window after the alias of a relation."""
        if self._curr and self._curr.token_type == TokenType.L_BRACKET:
            example = f"write {name_sql(table.name)} [RANGE 5 MINUTES] AS {name_sql(table.alias)}"
            self._fail("a window stands before the alias", next_step=example)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if (self._word(), self._next.text.upper() if self._next else "") in _AFTER_RELATION:
            return None
        self._parse_pivots()
        return super()._parse_table_alias(alias_tokens)

    def _parse_pivots(self) -> None:
        """Refuse PIVOT and UNPIVOT behind a relation, with and without an alias before them."""
        instead = _INSTEAD_OF_PIVOT.get(self._word())
        if instead is not None and self._next.token_type in (TokenType.L_PAREN, *WORDS):
            self._fail(f"{self._word()} is not available", next_step=instead)

    def _take_sync(self, relation: exp.Expr) -> None:
        """Parse SYNC after a relation, before or after its alias, but only once."""
        if sync := self._sync():
            if relation.meta.get("sync"):
                raise self._refused("SYNC stands twice", sync, next_step="leave one of them out")
            relation.meta["sync"] = sync

    def _sync(self) -> exp.Expr | None:
        return self._placed(self._parse_sync)  # type: ignore[no-any-return]

    def _parse_sync(self) -> exp.Expr | None:
        if not self._match_text_seq("SYNC"):
            return None
        if self._match_text_seq("EVERY"):
            every = self._duration()
            origin = self._instant() if self._match_text_seq("ORIGIN") else None
            return ast.SyncSyntax(every=every, origin=origin)
        if not self._match_text_seq("ON"):
            self._fail("expected SYNC EVERY interval or SYNC ON name")
        return ast.SyncSyntax(on=self._name("a synchronization stream"))

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        """Parse (query) [window] [SYNC …] AS alias."""
        opens = self._curr and self._curr.token_type == TokenType.L_BRACKET
        if this is None or not (opens or self._word() == "SYNC"):
            return super()._parse_subquery(this, parse_alias)
        subquery = exp.Subquery(this=this)
        self._window_brackets(subquery)
        self._take_sync(subquery)
        if parse_alias and (alias := self._parse_table_alias()):
            subquery.set("alias", alias)
        return subquery


_NOT_NAMES = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN)
_QUERY_ENDS = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)
_INSTEAD_OF_PIVOT = {
    "PIVOT": "aggregate with FILTER (WHERE …), once for each value",
    "UNPIVOT": "UNION ALL one SELECT for each column",
}
# Two words that follow a relation and are no alias.
_AFTER_RELATION = (("SYNC", "EVERY"), ("SYNC", "ON"), ("AS", "OF"), ("AT", "TIMESTAMP"))
