"""The grammar of window functions: TUMBLE(TABLE s, DESCRIPTOR(ts), size), GROUP BY window(ts, size)."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from everview.sql import ast
from everview.sql.join_grammar import JoinParser

# The lengths that each function takes after its table and its time line, in Flink's order and by its names.
WINDOW_FUNCTIONS = {"TUMBLE": ("SIZE", "OFFSET"), "HOP": ("SLIDE", "SIZE", "OFFSET"), "SESSION": ("GAP",)}
_EXAMPLES = {
    "TUMBLE": "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
    "HOP": "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
    "SESSION": "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
}
_INSTEAD = {"CUMULATE": "use [FIXED 1 DAY], which shows a section while it grows"}


class WindowFunctionParser(JoinParser):
    """TUMBLE, HOP and SESSION in FROM, as Flink writes them; window(…) after GROUP BY, as Spark does."""

    def _at_window_function(self) -> bool:
        opens = bool(self._next) and self._next.token_type == TokenType.L_PAREN
        if opens and self._word() in _INSTEAD:
            self._fail(f"{self._word()}(…) is not available", next_step=_INSTEAD[self._word()])
        return opens and self._word() in WINDOW_FUNCTIONS

    def _window_function(self) -> exp.Expr:
        """Parse a window function from its name to its closing bracket."""
        kind = self._word()
        self._advance(2)
        wanted = f"write {_EXAMPLES[kind]}"
        relation = self._windowed_relation(wanted)
        keys = self._partition_keys() if kind == "SESSION" else None
        self._comma(wanted)
        self._argument_name("TIMECOL")
        if not self._match_text_seq("DESCRIPTOR") or not self._match(TokenType.L_PAREN):
            self._fail("expected DESCRIPTOR and the time line in brackets", next_step=wanted)
        line = self._name("the time line")
        self._match_r_paren()
        lengths: dict[str, exp.Expr] = {}
        places = iter(WINDOW_FUNCTIONS[kind])
        while self._match(TokenType.COMMA):
            first, name = self._curr, self._argument_name(*WINDOW_FUNCTIONS[kind]) or next(places, "")
            if not name:
                self._fail(f"{kind} takes no further argument", first, next_step=wanted)
            if name in lengths:
                self._fail(f"{name} stands twice", first)
            lengths[name] = self._duration()
        for name in WINDOW_FUNCTIONS[kind]:
            if name not in lengths and name != "OFFSET":
                self._fail(f"{kind} needs its {name}", next_step=wanted)
        if not self._match(TokenType.R_PAREN):
            self._fail("expected a comma or )", next_step=wanted)
        made = {name.lower(): length for name, length in lengths.items()}
        return ast.WindowFunctionSyntax(kind=kind, this=relation, line=line, keys=keys, **made)

    def _windowed_relation(self, wanted: str) -> exp.Expr:
        """Parse TABLE name, or a query in brackets; a window may follow."""
        self._argument_name("DATA")
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            return self._needed(self._parse_table(), "a query in brackets")
        if not self._match_text_seq("TABLE"):
            self._fail("expected TABLE and the name of a stream or a view", next_step=wanted)
        relation = exp.Table(this=self._name("a stream or a view"))
        self._window_brackets(relation)
        return relation

    def _partition_keys(self) -> list[exp.Identifier] | None:
        """Parse PARTITION BY a, b or PARTITION BY (a, b), before the comma of the next argument."""
        if not self._match(TokenType.PARTITION_BY):
            return None
        wrapped = self._match(TokenType.L_PAREN)
        keys = [self._name("a column")]
        while (
            self._curr
            and self._curr.token_type == TokenType.COMMA
            and (not self._next or self._next.text.upper() not in ("DESCRIPTOR", "TIMECOL"))
        ):
            self._advance()
            keys.append(self._name("a column"))
        if wrapped:
            self._match_r_paren()
        return keys

    def _comma(self, wanted: str) -> None:
        if not self._match(TokenType.COMMA):
            self._fail("expected a comma", next_step=wanted)

    def _argument_name(self, *names: str) -> str | None:
        """Parse the name of an argument, as in SIZE => INTERVAL '10' MINUTE, if there is one."""
        if not self._next or self._next.token_type != TokenType.FARROW:
            return None
        name = self._curr.text.upper()
        if name not in names:
            self._fail(f"there is no argument '{self._curr.text}' here", choices=names)
        self._advance(2)
        return name

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        """Parse GROUP BY; sqlglot takes window(…) in the first place for the clause WINDOW."""
        after = self._tokens[self._index + 1 : self._index + 3]
        window_call = len(after) == 2 and (after[0].text.upper(), after[1].token_type) == (
            "WINDOW",
            TokenType.L_PAREN,
        )
        if not window_call or skip_group_by_token or not self._match(TokenType.GROUP_BY):
            return super()._parse_group(skip_group_by_token)
        return exp.Group(expressions=self._parse_csv(self._parse_disjunction))
