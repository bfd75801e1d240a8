"""Which part of a join's condition is a band: an expression of one side between two of the other.

`a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR` bounds a.ts twice, `l.x < r.y` has one bound.
The kernel finds the pairs in a band by binary search; a filter evaluates the rest of the condition on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.expressions import Comparison, Expression
from everview.algebra.types import STRING, DataType, wider_type

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


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
