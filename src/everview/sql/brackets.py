"""The grammar of window brackets, of lengths of time and of instants."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from everview.sql import ast
from everview.sql.operator_grammar import OperatorParser
from everview.sql.places import WORDS


class WindowParser(OperatorParser):
    """[RANGE 15 MINUTES], 15 MINUTES, TIMESTAMP '…'."""

    def _window_brackets(self, relation: exp.Expr) -> None:
        """Parse the windows of a relation; each further one restricts what the one before holds."""
        while self._match(TokenType.L_BRACKET):
            relation.meta.setdefault("windows", []).append(self._placed(self._window_bracket))
            if not self._match(TokenType.R_BRACKET):
                self._fail("expected ] after the window")

    def _window_bracket(self) -> exp.Expr:
        kind = self._word()
        parse = _WINDOWS.get(kind)
        if parse is None:
            self._fail("no window begins like this", choices=[w for w in _WINDOWS if w not in _WINDOW_PARTS])
            raise AssertionError
        self._advance()
        return parse(self, kind)

    def _time_window(self, kind: str) -> exp.Expr:
        """Parse RANGE, TUMBLE or FIXED with its extent; SLIDE, LAG and ORIGIN follow in any order."""
        parts: dict[str, exp.Expr | None] = {}
        first, word = self._prev, kind
        while True:
            key = word.lower() if word in _WINDOW_PARTS else "extent"
            if key in parts:
                self._fail(f"{word} stands twice", self._prev)
            parts[key] = self._instant() if key == "origin" else self._duration()
            word = self._word()
            if word not in ("RANGE", *_WINDOW_PARTS):
                break
            self._advance()
        if "extent" not in parts:
            self._fail(f"a window with a {kind} needs a RANGE", first, next_step="add RANGE 15 MINUTES")
        return ast.WindowBracketSyntax(kind=kind if kind in ("TUMBLE", "FIXED") else "RANGE", **parts)

    def _rows_window(self, kind: str) -> exp.Expr:
        keys = None
        if kind == "PARTITION BY":
            keys = self._parse_csv(lambda: self._name("a column"))
            if not self._match_text_seq("ROWS"):
                self._fail("expected ROWS: a window with PARTITION BY counts rows")
        count = self._needed(self._parse_unary(), "a number of rows")
        slide = self._row_slide() if self._match_text_seq("SLIDE") else None
        return ast.WindowBracketSyntax(kind="ROWS", count=count, keys=keys, row_slide=slide)

    def _row_slide(self) -> exp.Expr:
        slide = self._needed(self._parse_unary(), "a number of rows")
        if self._curr and self._curr.token_type in WORDS:
            self._fail("a window of ROWS slides by rows, not by time", next_step="write ROWS 100 SLIDE 10")
        return slide

    def _session_window(self, kind: str) -> exp.Expr:
        """Parse SESSION gap [PARTITION BY columns]."""
        gap, keys = self._duration(), None
        if self._match(TokenType.PARTITION_BY):
            keys = self._parse_csv(lambda: self._name("a column"))
        return ast.WindowBracketSyntax(kind="SESSION", extent=gap, keys=keys)

    def _bare_window(self, kind: str) -> exp.Expr:
        return ast.WindowBracketSyntax(kind=kind)

    def _since_window(self, kind: str) -> exp.Expr:
        return ast.WindowBracketSyntax(kind="BAND", lower=self._instant())

    def _until_window(self, kind: str) -> exp.Expr:
        return ast.WindowBracketSyntax(kind="BAND", upper=self._instant())

    def _between_window(self, kind: str) -> exp.Expr:
        lower = self._instant()
        self._expect("AND")
        return ast.WindowBracketSyntax(kind="BAND", lower=lower, upper=self._instant())

    def _instant(self) -> exp.Expr:
        """Parse an instant: TIMESTAMP '2026-01-31 23:59:59'."""
        return self._needed(self._parse_unary(), "an instant, as TIMESTAMP '2026-01-31 23:59:59'")

    def _duration(self) -> exp.Expr:
        """Parse a length of time: 15 MINUTES, or INTERVAL '15' MINUTE."""
        return self._placed(self._parse_duration)  # type: ignore[no-any-return]

    def _parse_duration(self) -> exp.Expr:
        if self._word() == "INTERVAL":
            found = self._parse_interval()
            if found is not None:
                return found
        if placeholder := self._parse_placeholder():
            return placeholder
        sign = self._match(TokenType.DASH)
        token = self._curr
        if not self._match(TokenType.NUMBER):
            self._fail("expected a length of time, as 15 MINUTES")
        unit = self._curr
        if not self._match_set(WORDS) and not self._advance_any():
            self._fail("expected a unit of time, as MINUTES", unit)
        length = exp.Interval(this=exp.Literal.number(token.text), unit=exp.Var(this=unit.text.upper()))
        return exp.Neg(this=length) if sign else length


_WINDOW_PARTS = ("SLIDE", "LAG", "ORIGIN")
_WINDOWS: dict[str, Callable[[WindowParser, str], exp.Expr]] = {
    "RANGE": WindowParser._time_window,
    "TUMBLE": WindowParser._time_window,
    "FIXED": WindowParser._time_window,
    "NOW": WindowParser._bare_window,
    "UNBOUNDED": WindowParser._bare_window,
    "SINCE": WindowParser._since_window,
    "UNTIL": WindowParser._until_window,
    "BETWEEN": WindowParser._between_window,
    "ROWS": WindowParser._rows_window,
    "PARTITION BY": WindowParser._rows_window,
    "SESSION": WindowParser._session_window,
    "SLIDE": WindowParser._time_window,
    "LAG": WindowParser._time_window,
    "ORIGIN": WindowParser._time_window,
}
