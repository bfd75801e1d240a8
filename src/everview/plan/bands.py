"""Which part of a join's condition is a band: an expression of one side between two of the other.

`a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR` bounds a.ts twice, `l.x < r.y` has one bound.
The kernel finds the pairs in a band by binary search; a filter evaluates the rest of the condition on them.

In event queries, bands of times need no computed columns: they are the microseconds between two columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.expressions import Arithmetic, Column, Comparison, Expression, Literal, Negate, Not
from everview.algebra.types import INTERVAL, STRING, TIMESTAMP, DataType, wider_type
from everview.operators.base import position_of
from everview.operators.columnar.time_bands import TimeBand

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class BandBound:
    """A conjunct of the condition that bounds an expression of one side by one of the other."""

    value: Expression
    by: Expression
    upper: bool
    strict: bool
    part: Expression


@dataclass(frozen=True)
class BandCondition:
    """lower <= value <= upper, all as values of one type; the value may be on either side."""

    value: Expression
    lower: BandBound | None
    upper: BandBound | None
    value_on_left: bool
    type: DataType

    @property
    def parts(self) -> list[Expression]:
        """The conjuncts that it covers."""
        return [bound.part for bound in (self.lower, self.upper) if bound is not None]

    @property
    def bounds(self) -> list[Expression]:
        return [bound.by for bound in (self.lower, self.upper) if bound is not None]


def find_band(parts: Sequence[tuple[Comparison, str, str]]) -> BandCondition | None:
    """Return the best band that some comparisons form: one with two bounds before one with one.

    Each comparison is given with the sides of its operands: "left", "right", or another word.
    """
    found: list[BandCondition] = []
    for value_on_left in (False, True):
        bounds = [b for part in parts if (b := _to_bound(part, value_on_left)) is not None]
        for value in dict.fromkeys(b.value for b in bounds):
            found += _combine_bounds([b for b in bounds if b.value == value], value_on_left)
    return max(found, key=lambda band: len(band.parts), default=None)


def _to_bound(part: tuple[Comparison, str, str], value_on_left: bool) -> BandBound | None:
    condition, *sides = part
    if condition.operator not in _MIRRORED or sorted(sides) != ["left", "right"]:
        return None
    operator, value, by = condition.operator, condition.left, condition.right
    if (sides[0] == "left") != value_on_left:
        operator, value, by = _MIRRORED[operator], by, value
    return BandBound(value, by, operator in ("<", "<="), operator in ("<", ">"), condition)


def _combine_bounds(bounds: Sequence[BandBound], value_on_left: bool) -> list[BandCondition]:
    """Return the bands of one value: with each single bound, and with two that compare as the same type."""
    uppers: list[BandBound | None] = [None, *(b for b in bounds if b.upper)]
    lowers: list[BandBound | None] = [None, *(b for b in bounds if not b.upper)]
    found = []
    for lower in lowers:
        for upper in uppers:
            types = {wider_type(b.value.type, b.by.type) for b in (lower, upper) if b is not None}
            type_ = types.pop() if len(types) == 1 else None
            if type_ is not None and (type_.is_numeric or type_.is_temporal or type_ == STRING):
                found.append(BandCondition(bounds[0].value, lower, upper, value_on_left, type_))
    return found


@dataclass(frozen=True)
class _ShiftedTime:
    """A column of times plus a length of time; `added` says whether SQL adds it, even 0, to the column."""

    column: int
    by: int = 0
    added: bool = False

    @property
    def sums(self) -> tuple[int, ...]:
        return (self.by,) if self.added else ()


def to_time_band(part: Expression, size: int) -> TimeBand | None:
    """Return a comparison of a time of each side as a band; the left side has `size` columns.

    >>> left, right = Column("c1", TIMESTAMP), Column("c5", TIMESTAMP)
    >>> to_time_band(Comparison("<", right, Arithmetic("+", left, Literal(9, INTERVAL))), 4)
    TimeBand(left=1, right=1, low=None, high=8, left_added=(9,), right_added=())
    >>> to_time_band(Comparison(">=", Arithmetic("-", right, left), Literal(9, INTERVAL)), 4)
    TimeBand(left=1, right=1, low=9, high=9223372036854775807, left_added=(), right_added=())
    """
    if isinstance(part, Not) and isinstance(part.operand, Comparison):
        inner = part.operand
        if inner.operator not in _OPPOSITES:
            return None
        # A row passes only where the condition is true, and that a negated comparison with NULL never is.
        return to_time_band(Comparison(_OPPOSITES[inner.operator], inner.left, inner.right), size)
    if not isinstance(part, Comparison) or part.operator not in _MIRRORED:
        return None
    if part.left.type == INTERVAL:
        return _difference_band(part, size)
    later, earlier = _to_shifted(part.left), _to_shifted(part.right)
    if later is None or earlier is None or (later.column < size) == (earlier.column < size):
        return None
    low, high = _ends(part.operator, earlier.by - later.by)
    if later.column >= size:
        return TimeBand(earlier.column, later.column - size, low, high, earlier.sums, later.sums)
    return TimeBand(
        later.column,
        earlier.column - size,
        _negate_comparison(high),
        _negate_comparison(low),
        later.sums,
        earlier.sums,
    )


def _difference_band(part: Comparison, size: int) -> TimeBand | None:
    """Return later − earlier < length as a band; a difference that has no 64 bits is NULL."""
    match part:
        case Comparison(operator, Literal(int()) as length, Arithmetic("-") as difference):
            return _difference_band(Comparison(_MIRRORED[operator], difference, length), size)
        case Comparison(operator, Arithmetic("-", Column() as later, Column() as earlier), right):
            length_, columns = _to_length(right), (position_of(later), position_of(earlier))
            types = {later.type, earlier.type}
        case _:
            return None
    if length_ is None or types != {TIMESTAMP} or (columns[0] < size) == (columns[1] < size):
        return None
    low, high = _ends(operator, length_)
    low, high = -(2**63) if low is None else low, 2**63 - 1 if high is None else high
    if columns[0] >= size:
        return TimeBand(columns[1], columns[0] - size, low, high)
    return TimeBand(columns[0], columns[1] - size, -high, -low)


def _ends(operator: str, apart: int) -> tuple[int | None, int | None]:
    """Return the least and the greatest difference that is < apart, and so on."""
    match operator:
        case "<":
            return None, apart - 1
        case "<=":
            return None, apart
        case ">":
            return apart + 1, None
    return apart, None


def _negate_comparison(end: int | None) -> int | None:
    return None if end is None else -end


def _to_shifted(expression: Expression) -> _ShiftedTime | None:
    match expression:
        case Column() if expression.type == TIMESTAMP:
            return _ShiftedTime(position_of(expression))
        case Arithmetic("+", left, Column() as of) if left.type == INTERVAL:
            return _to_shifted(Arithmetic("+", of, left))
        case Arithmetic("+" | "-" as sign, Column() as of, right) if of.type == TIMESTAMP:
            by = _to_length(right)
            if by is None:
                return None
            return _ShiftedTime(position_of(of), by if sign == "+" else -by, added=True)
    return None


def _to_length(expression: Expression) -> int | None:
    """Return the microseconds of a constant interval; -2^63, which cannot be negated, is left to SQL."""
    match expression:
        case Literal(int(length)) if expression.type == INTERVAL and length != -(2**63):
            return length
        case Negate(operand):
            found = _to_length(operand)
            return None if found is None else -found
    return None


def join_time_bands(bands: Sequence[TimeBand]) -> tuple[TimeBand, ...]:
    """Return one band for all bands of the same two columns; those with two ends come first.

    >>> join_time_bands([TimeBand(0, 1, low=3), TimeBand(2, 1, high=5), TimeBand(2, 1, low=0, high=9)])
    ... # doctest: +NORMALIZE_WHITESPACE
    (TimeBand(left=2, right=1, low=0, high=5, left_added=(), right_added=()),
     TimeBand(left=0, right=1, low=3, high=None, left_added=(), right_added=()))
    """
    joined: list[TimeBand] = []
    for columns in dict.fromkeys((band.left, band.right) for band in bands):
        same = [band for band in bands if (band.left, band.right) == columns]
        lows = [band.low for band in same if band.low is not None]
        highs = [band.high for band in same if band.high is not None]
        added = (
            tuple(sorted({n for band in same for n in band.left_added})),
            tuple(sorted({n for band in same for n in band.right_added})),
        )
        joined.append(TimeBand(*columns, max(lows, default=None), min(highs, default=None), *added))
    return tuple(sorted(joined, key=lambda band: band.low is None or band.high is None))
