"""Joins of all kinds as physical plans: inner joins, semi joins, anti joins.

Over change rows, where n may be negative, a semi join is a join with the distinct matches, and an anti join
is all rows minus the semi join (DESIGN section 3). Equalities become keys of a kernel. Conditions on one side
are evaluated before the exchange, conditions on both sides on the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everview import operators as P
from everview.algebra.expressions import (
    Cast,
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    conjunction,
    conjuncts,
    substitute,
)
from everview.algebra.types import VOID, DataType, wider_type
from everview.operators.base import Growth, InputRows, position_of
from everview.operators.columnar.time_bands import TimeBand
from everview.plan.bands import BandCondition, find_band, join_time_bands, to_time_band


@dataclass(frozen=True)
class LoweredInput:
    """An input of an operator, and how its rows come and go."""

    plan: P.Operator
    rows: InputRows

    def distinct(self) -> LoweredInput:
        """Return the input with every record once."""
        plan = P.DistinctOperator(self.plan, self.rows.signed, rows=(self.rows,))
        return LoweredInput(plan, replace(self.rows, in_order=False, coalesces=not self.rows.signed))

    def keys(self, outputs: tuple[Expression, ...]) -> LoweredInput:
        """Return the distinct keys of the input."""
        growth = min(self.rows.growth, Growth.BY_RECORD)
        rows = replace(self.rows, label=f"keys of the {self.rows.label.removeprefix('the ')}", growth=growth)
        return LoweredInput(P.ProjectOperator(self.plan, outputs), rows).distinct()


def cast_to(expression: Expression, type_: DataType) -> Expression:
    """Return the expression as a value of the type."""
    return expression if expression.type == type_ else Cast(expression, type_)


@dataclass(frozen=True)
class EqualityKey:
    """An equality between the two sides: an expression on each, and whether NULLs are equal."""

    left: Expression
    right: Expression
    nulls_equal: bool


@dataclass(frozen=True)
class JoinCondition:
    """A condition on pairs, in parts: the equalities, the conditions on one side only, the rest.

    Without an equality, a band may be moved out of the rest; bands of times always, for an event query. The
    left side has `size` columns.
    """

    size: int
    keys: tuple[EqualityKey, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    rest: tuple[Expression, ...]
    band: BandCondition | None = None
    times: tuple[TimeBand, ...] = ()

    @classmethod
    def of(cls, condition: Expression, size: int) -> JoinCondition:
        """Return the parts of a condition over both sides, of which the left one has `size` columns."""
        keys: list[EqualityKey] = []
        parts: dict[str, list[Expression]] = {"left": [], "right": [], "both": [], "none": []}
        for part in conjuncts(condition):
            key = _to_key(part, size)
            if key is None:
                parts[_side_of(part, size)].append(part)
            else:
                keys.append(key)
        right = tuple(_shift_columns(e, -size) for e in parts["right"])
        return cls(size, tuple(keys), tuple(parts["left"]), right, (*parts["both"], *parts["none"]))

    def with_band(self) -> JoinCondition:
        """Return the condition with a band, if it has no equality and the rest contains a bound."""
        sided = [
            (part, _side_of(part.left, self.size), _side_of(part.right, self.size))
            for part in self.rest
            if isinstance(part, Comparison)
        ]
        band = None if self.keys else find_band(sided)
        if band is None:
            return self
        return replace(self, band=band, rest=tuple(p for p in self.rest if p not in band.parts))

    def with_time_bands(self) -> JoinCondition:
        """Return the condition with all bands of times that the rest contains."""
        found = {part: to_time_band(part, self.size) for part in self.rest}
        bands = join_time_bands([band for band in found.values() if band is not None])
        return replace(self, times=bands, rest=tuple(p for p in self.rest if found[p] is None))

    @property
    def computed(self) -> tuple[list[Expression], list[Expression]]:
        """The columns of each side that the kernel needs: keys, or the value of a band and its bounds."""
        if self.band is None:
            return [k.left for k in self.keys], [k.right for k in self.keys]
        value = [cast_to(self.band.value, self.band.type)]
        bounds = [cast_to(e, self.band.type) for e in self.band.bounds]
        left, right = (value, bounds) if self.band.value_on_left else (bounds, value)
        return left, [_shift_columns(e, -self.size) for e in right]


def _to_key(part: Expression, size: int) -> EqualityKey | None:
    if not isinstance(part, Comparison) or part.operator not in ("=", "<=>"):
        return None
    sides = [_side_of(e, size) for e in (part.left, part.right)]
    if sorted(sides) != ["left", "right"]:
        return None
    left, right = (part.left, part.right) if sides[0] == "left" else (part.right, part.left)
    common = wider_type(left.type, right.type)
    if common is None or common == VOID:
        return None
    return EqualityKey(
        cast_to(left, common), cast_to(_shift_columns(right, -size), common), part.operator == "<=>"
    )


def _side_of(expression: Expression, size: int) -> str:
    positions = {position_of(c) for c in expression.columns()}
    if not positions:
        return "none"
    if max(positions) < size:
        return "left"
    return "right" if min(positions) >= size else "both"


def _shift_columns(expression: Expression, by: int) -> Expression:
    moved: dict[Expression, Expression] = {
        c: Column(P.column(position_of(c) + by), c.type) for c in expression.columns()
    }
    return substitute(expression, moved)


@dataclass(frozen=True)
class VersionInstant:
    """The column with the instant of the version that a row joins, and the age of that instant at most."""

    timestamp: int
    age: int


def join(
    left: LoweredInput, right: LoweredInput, condition: Expression, as_of: VersionInstant | None = None
) -> P.Operator:
    """Return the pairs for which the condition holds; with `as_of`, those with the table's version at it."""
    parts = JoinCondition.of(condition, len(left.plan.types))
    parts = parts.with_band() if as_of is None else parts
    here, there = _prepare_sides(left, right, parts)
    return _apply_rest(_join_kernel(here, there, parts, as_of), here, (left, right), parts)


@dataclass(frozen=True)
class MatchedSides:
    """Both sides of a match, the positions of their keys, whether NULLs are equal, and the bands of times."""

    left: P.Operator
    right: P.Operator
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool
    bands: tuple[TimeBand, ...]


def match(
    left: LoweredInput, right: LoweredInput, condition: Expression, make: Callable[[MatchedSides], P.Operator]
) -> P.Operator:
    """Return the pairs for which the condition holds, from a kernel that matches keys and times."""
    parts = JoinCondition.of(condition, len(left.plan.types)).with_time_bands()
    here, there = _prepare_sides(left, right, parts)
    safe = any(k.nulls_equal for k in parts.keys)
    if safe:
        strict = [i for i, k in enumerate(parts.keys) if not k.nulls_equal]
        here, there = _drop_null_keys(here, strict), _drop_null_keys(there, strict)
    sides = MatchedSides(here.side.plan, there.side.plan, here.keys, there.keys, safe, parts.times)
    pairs = make(sides)
    return _apply_rest(pairs, here, (left, right), parts)


def _prepare_sides(
    left: LoweredInput, right: LoweredInput, parts: JoinCondition
) -> tuple[_KeyedInput, _KeyedInput]:
    """Return both sides, each filtered by its own conditions and with the columns that the kernel needs."""
    here, there = parts.computed
    return _add_keys(_filter_side(left, parts.left), here), _add_keys(_filter_side(right, parts.right), there)


def _apply_rest(
    pairs: P.Operator, here: _KeyedInput, sides: tuple[LoweredInput, LoweredInput], parts: JoinCondition
) -> P.Operator:
    """Return the pairs for which the rest of the condition holds, without the columns added for keys."""
    gap, left, right = len(here.side.plan.types), *(len(s.plan.types) for s in sides)
    shown = (*pairs.columns[:left], *pairs.columns[gap : gap + right])
    found = pairs if shown == pairs.columns else P.ProjectOperator(pairs, shown)
    return P.FilterOperator(found, conjunction(list(parts.rest))) if parts.rest else found


@dataclass(frozen=True)
class _KeyedInput:
    """A side whose keys are columns, at these positions."""

    side: LoweredInput
    keys: tuple[int, ...]


def _filter_side(side: LoweredInput, conditions: Sequence[Expression]) -> LoweredInput:
    return (
        replace(side, plan=P.FilterOperator(side.plan, conjunction(list(conditions)))) if conditions else side
    )


def _add_keys(side: LoweredInput, keys: Sequence[Expression]) -> _KeyedInput:
    """Return the side with its keys as columns; keys that are expressions become new columns."""
    plan = side.plan
    known = list(plan.columns)
    outputs: list[Expression] = [*known]
    positions = []
    for key in keys:
        if key not in outputs:
            outputs.append(key)
        positions.append(outputs.index(key))
    wide = plan if len(outputs) == len(known) else P.ProjectOperator(plan, tuple(outputs))
    return _KeyedInput(replace(side, plan=wide), tuple(positions))


def _join_kernel(
    here: _KeyedInput, there: _KeyedInput, parts: JoinCondition, as_of: VersionInstant | None = None
) -> P.Operator:
    """Return the kernel of a join.

    If NULLs are equal for some keys, the kernel treats them as equal for all; rows with NULL in the other
    keys are dropped before.
    """
    if parts.band is not None:
        return _band_kernel(here, there, parts.band)
    safe = any(k.nulls_equal for k in parts.keys)
    if safe:
        strict = [i for i, k in enumerate(parts.keys) if not k.nulls_equal]
        here, there = _drop_null_keys(here, strict), _drop_null_keys(there, strict)
    rows = (here.side.rows, there.side.rows)
    left, right = here.side.plan, there.side.plan
    if as_of is None:
        return P.JoinOperator(left, right, here.keys, there.keys, safe, rows=rows)
    at, age = as_of.timestamp, as_of.age
    return P.VersionJoinOperator(left, right, at, here.keys, there.keys, safe, age, rows=rows)


def _band_kernel(here: _KeyedInput, there: _KeyedInput, band: BandCondition) -> P.Operator:
    """Return the kernel of a band join, with the value on its right side."""
    if band.value_on_left:
        pairs = _band_kernel(there, here, replace(band, value_on_left=False))
        gap = len(there.side.plan.types)
        return P.ProjectOperator(pairs, (*pairs.columns[gap:], *pairs.columns[:gap]))
    positions = iter(here.keys)
    lower, upper = (None if bound is None else next(positions) for bound in (band.lower, band.upper))
    return P.BandJoinOperator(
        here.side.plan,
        there.side.plan,
        there.keys[0],
        lower,
        upper,
        band.lower is not None and band.lower.strict,
        band.upper is not None and band.upper.strict,
        rows=(here.side.rows, there.side.rows),
    )


def _drop_null_keys(keyed: _KeyedInput, which: Sequence[int]) -> _KeyedInput:
    plan = keyed.side.plan
    conditions: list[Expression] = [Not(IsNull(plan.columns[keyed.keys[i]])) for i in which]
    return replace(keyed, side=_filter_side(keyed.side, conditions))


def semi_join(
    left: LoweredInput, right: LoweredInput, condition: Expression
) -> tuple[P.Operator, P.Operator]:
    """Return the left rows, and those of them that have a match, as often as they occur.

    The left rows are returned as well because their plan may have more columns: within one stage, they and
    the rows that are subtracted from them then come from the same port.
    """
    size = len(left.plan.types)
    parts = JoinCondition.of(condition, size)
    if parts.keys and not parts.rest:
        # A pure equality: the distinct keys of the right side are enough.
        here = _add_keys(left, [k.left for k in parts.keys])
        there = _filter_side(right, parts.right)
        keys = there.keys(tuple(k.right for k in parts.keys))
        filtered = replace(here, side=_filter_side(here.side, parts.left))
        pairs = _join_kernel(filtered, _KeyedInput(keys, tuple(range(len(parts.keys)))), parts)
        return first_columns(here.side.plan, size), first_columns(pairs, size)
    parts = parts.with_band()
    here, there_keyed = _prepare_sides(left, right, parts)
    here = replace(here, side=here.side.distinct())
    pairs = _apply_rest(_join_kernel(here, there_keyed, parts), here, (left, right), parts)
    matched = LoweredInput(first_columns(pairs, size), _matched_rows(left.rows, right.rows))
    return left.plan, keep_occurring(left, matched.distinct())


def _matched_rows(left: InputRows, right: InputRows) -> InputRows:
    """Return what is known of the left rows with a match: they last as long as the shorter of both inputs."""
    known = [length for length in (left.lasts, right.lasts) if length is not None]
    ahead = [wait for wait in (left.waits, right.waits) if wait is not None]
    return InputRows(
        "matched rows",
        min(known, default=None),
        max(ahead) if len(ahead) == 2 else None,
        signed=left.signed or right.signed,
        growth=left.growth,
        coalesces=left.coalesces or right.coalesces,
    )


def keep_occurring(rows: LoweredInput, once: LoweredInput) -> P.Operator:
    """Return the rows that occur in a set of rows; NULLs are equal."""
    size = len(rows.plan.types)
    every = tuple(range(size))
    pairs = P.JoinOperator(rows.plan, once.plan, every, every, nulls_equal=True, rows=(rows.rows, once.rows))
    return first_columns(pairs, size)


def subtract_rows(rows: P.Operator, some: P.Operator) -> P.Operator:
    """Return the rows minus some of them."""
    return P.UnionOperator(rows, P.NegateOperator(some))


def first_columns(plan: P.Operator, size: int) -> P.Operator:
    """Return the first columns of a plan."""
    return plan if size == len(plan.types) else P.ProjectOperator(plan, plan.columns[:size])


def anti_join(left: LoweredInput, right: LoweredInput, condition: Expression) -> P.Operator:
    """Return the left rows without a match."""
    return subtract_rows(*semi_join(left, right, condition))


def swap_sides(condition: Expression, sizes: tuple[int, int]) -> Expression:
    """Return a condition over the columns of both sides, with the sides in the other order."""
    left, right = sizes
    moved: dict[Expression, Expression] = {}
    for column in condition.columns():
        at = position_of(column)
        moved[column] = Column(P.column(at + right if at < left else at - left), column.type)
    return substitute(condition, moved)


def null_columns(types: Sequence[DataType]) -> tuple[Expression, ...]:
    """Return a NULL for each column."""
    return tuple(Literal(None, t) for t in types)
