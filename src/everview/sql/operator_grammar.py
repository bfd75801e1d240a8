"""How operators bind: Spark's levels, tightest first.

    * / % DIV    + - ||    << >> >>>    &    ^    |    = <> < <= > >= <=>    IS IN LIKE BETWEEN    NOT AND OR

sqlglot has all bit operators and || on one level, and two levels of comparisons.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from everview.sql.places import PlacedParser

_COMPARISONS = {**SparkParser.EQUALITY, **SparkParser.COMPARISON}
_SUMS = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}
# Shifts are several tokens, the longest first.
_SHIFTS = (
    (TokenType.GT, ">>>"),
    (TokenType.GT, ">>"),
    (TokenType.LT, "<<"),
)
_LEVELS = {"|": 0, "^": 1, "&": 2, "<<": 3, ">>": 3, ">>>": 3}
_BIT_OPERATORS: dict[str, type[exp.Binary]] = {
    "|": exp.BitwiseOr,
    "^": exp.BitwiseXor,
    "&": exp.BitwiseAnd,
    "<<": exp.BitwiseLeftShift,
    ">>": exp.BitwiseRightShift,
}


class OperatorParser(PlacedParser):
    """Spark's order of operators, from sums to comparisons and predicates."""

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """Parse comparisons from left to right, and a predicate over all of them."""
        this = self._parse_bitwise()
        while self._match_set(_COMPARISONS):
            kind = _COMPARISONS[self._prev.token_type]
            this = self._build_predicate(kind, this, self._parse_bitwise())
        if this is None or not parse_is:
            return this
        before = self._index
        this = self._parse_range(this, parse_is=True)
        if self._index > before and self._curr and self._curr.token_type in _COMPARISONS:
            self._fail(
                "IS, IN, LIKE or BETWEEN cannot be compared without brackets",
                next_step="put the condition before this sign into brackets",
            )
        return this

    def _parse_bitwise(self, loosest: int = 0) -> exp.Expr | None:
        """Parse bit operators that bind at least this tightly, over sums."""
        this = self._parse_term()
        while (sign := self._bit_operator()) and _LEVELS[sign] >= loosest:
            self._advance(len(sign))
            operand = self._parse_bitwise(_LEVELS[sign] + 1)
            if sign == ">>>":
                operands = [this, self._needed(operand, "a number of bits")]
                this = exp.Anonymous(this="shiftrightunsigned", expressions=operands)
            else:
                this = self.expression(_BIT_OPERATORS[sign](this=this, expression=operand))
        return this

    def _bit_operator(self) -> str | None:
        """Return the bit operator at the current token; each of its characters is a token."""
        for token, sign in _SHIFTS:
            start = self._curr.start if self._curr else 0
            if self._curr and self._curr.token_type == token and self.sql.startswith(sign, start):
                return sign
        return self._curr.text if self._curr and self._curr.token_type in self.BITWISE else None

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        """Parse sums and ||, from left to right."""
        this = self._parse_factor(parse_mod=parse_mod)
        while self._match_set(_SUMS):
            kind = _SUMS[self._prev.token_type]
            this = self.expression(kind(this=this, expression=self._parse_factor(parse_mod=parse_mod)))
        return this
