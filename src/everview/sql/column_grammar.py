"""The grammar of the columns of streams and tables: types, time lines, keys and conditions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from everview.sql import ast
from everview.sql.places import WORDS
from everview.sql.query_grammar import QueryParser

_TYPE_ENDS = (TokenType.COMMA, TokenType.R_PAREN)


class ColumnParser(QueryParser):
    """(name TYPE NOT NULL, …, TIMELINE …, PRIMARY KEY (…), CHECK (…))."""

    def _columns(
        self, timelines: bool, checks: list[exp.Expr] | None = None
    ) -> tuple[list[exp.Expr], list[exp.Expr], list[exp.Expr]]:
        """Parse (name TYPE, …, TIMELINE …, PRIMARY KEY (…), CHECK (…)); `checks` gets the conditions."""
        columns: list[exp.Expr] = []
        lines: list[exp.Expr] = []
        key: list[exp.Expr] = []
        if not self._match(TokenType.L_PAREN):
            more = "write (column TYPE, …, TIMELINE column); an event query: TIMELINE column AS SELECT …"
            self._fail("expected ( and the columns", next_step=more if timelines else None)
        while True:
            if timelines and self._word() == "TIMELINE" and self._next.token_type not in _TYPE_ENDS:
                self._advance()
                lines.append(self._timeline())
            elif self._check(checks, of_table=not timelines):
                pass
            elif self._word() == "TIMELINE" and self._next.token_type in WORDS:
                self._fail("a table has no TIMELINE", next_step="declare a STREAM")
            elif self._primary_key(key, of_table=not timelines):
                key = self._parse_wrapped_csv(lambda: self._name("a key column"))
            else:
                column = self._column(computed=timelines)
                columns.append(column)
                self._constraints(column, key, checks, of_table=not timelines)
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return columns, lines, key

    def _column(self, computed: bool = False) -> exp.Expr:
        """Parse name TYPE; `computed` columns are name [TYPE] [GENERATED ALWAYS] AS (expression)."""
        name = self._name("a column")
        start = self._curr
        if computed and self._begins_expression():
            return ast.ColumnDeclarationSyntax(this=name, computed=self._computed())
        kind = self._placed(self._parse_types)
        if not isinstance(kind, exp.DataType):
            if start and start.token_type in WORDS:
                self._unknown_type(start)
            self._fail(f"expected the type of the column '{name.name}'", start)
        found = ast.ColumnDeclarationSyntax(this=name, kind=kind)
        if self._begins_expression():
            if not computed:
                self._fail("only a column of CREATE STREAM can be computed", next_step="compute it in a view")
            found.set("computed", self._computed())
        elif self._match_text_seq("METADATA"):
            found.set("metadata", self._placed(self._metadata))
        return found

    def _metadata(self) -> exp.Expr:
        """Parse [FROM 'name'] of a METADATA column."""
        name = None
        if self._match(TokenType.FROM):
            name = self._needed(self._parse_string(), "what the column holds, as in METADATA FROM 'key'")
        return ast.MetadataSyntax(this=name)

    def _begins_expression(self) -> bool:
        """Return whether the expression of a computed column comes next."""
        return self._word() in ("AS", "GENERATED")

    def _computed(self) -> exp.Expr:
        """Parse [GENERATED ALWAYS] AS (expression); only a condition needs the parentheses."""
        if self._match_text_seq("GENERATED"):
            self._expect("ALWAYS")
        self._expect("AS")
        found, text = self._with_text(self._parse_bitwise)
        if isinstance(found, exp.Paren):
            return ast.ConditionSyntax(this=found.this, text=text[1:-1].strip())
        return ast.ConditionSyntax(this=self._needed(found, "an expression"), text=text)

    def _primary_key(self, before: list[exp.Expr], of_table: bool) -> bool:
        """Parse PRIMARY KEY if it comes next; refuse it for a stream, and a second one for a table."""
        if not self._match(TokenType.PRIMARY_KEY):
            return False
        if not of_table:
            self._fail(
                "a stream has no PRIMARY KEY",
                self._prev,
                next_step="make a TAGGED STREAM over it with a KEY",
            )
        if before:
            self._fail(
                "PRIMARY KEY stands twice",
                self._prev,
                next_step="write a key of several columns as PRIMARY KEY (a, b)",
            )
        return True

    def _check(self, checks: list[exp.Expr] | None, of_table: bool) -> bool:
        """Parse CHECK (condition) if it comes next; refuse it where there are no `checks`."""
        if self._word() != "CHECK" or not self._next or self._next.token_type != TokenType.L_PAREN:
            return False
        if checks is None and of_table:
            self._fail("a table has no CHECK", next_step="check its rows in a view, or declare a STREAM")
        if checks is None:
            self._fail("a CHECK cannot be added to a stream", next_step="test the condition in a view")
            raise AssertionError
        self._advance()
        self._match(TokenType.L_PAREN)
        checks.append(self._condition(self._parse_disjunction))
        self._match_r_paren()
        return True

    def _constraints(
        self, column: exp.Expr, key: list[exp.Expr], checks: list[exp.Expr] | None, of_table: bool
    ) -> None:
        """Parse PRIMARY KEY, NOT NULL, CHECK (…) and DEFAULT constant after a column, in any order."""
        while self._curr:
            if self._primary_key(key, of_table):
                key.append(column.this.copy())
            elif self._check(checks, of_table):
                continue
            elif self._match_text_seq("NOT"):
                if column.args.get("not_null"):
                    self._fail("NOT NULL stands twice", self._prev)
                if not self._match(TokenType.NULL):
                    self._fail("expected NOT NULL")
                column.set("not_null", True)
            elif self._match(TokenType.DEFAULT):
                self._require_once(column.args.get("default"))
                column.set("default", self._needed(self._parse_bitwise(), "a constant"))
            else:
                break

    def _timeline(self) -> exp.Expr:
        name = self._name("the time line's column")
        lateness, sequence, arrival = None, None, False
        while self._curr:
            if self._match_text_seq("LATENESS"):
                self._require_once(lateness)
                lateness = self._duration()
            elif self._match_text_seq("ARRIVAL"):
                self._require_once(arrival)
                arrival = True
            elif self._match_text_seq("SEQUENCE"):
                self._require_once(sequence)
                self._expect("BY")
                sequence = self._parse_wrapped_csv(lambda: self._name("a column"))
            else:
                break
        return ast.TimelineSyntax(this=name, lateness=lateness, sequence=sequence, arrival=arrival)

    def _condition(self, parse: Callable[[], exp.Expr | None]) -> exp.Expr:
        """Parse a condition that the catalog keeps as text."""
        condition, text = self._with_text(parse)
        return ast.ConditionSyntax(this=self._needed(condition, "a condition"), text=text)

    def _with_text(self, parse: Callable[[], exp.Expr | None]) -> tuple[exp.Expr | None, str]:
        """Return what was parsed, with its text."""
        start = self._curr.start if self._curr else len(self.sql)
        parsed = parse()
        if parsed is not None:
            parsed.meta["text_start"] = start
        return parsed, self.sql[start : self._prev.end + 1]
