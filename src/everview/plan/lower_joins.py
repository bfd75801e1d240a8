"""Joins of all kinds as physical plans: pairs, rows with a partner, rows without one.

Over change rows, where n may be negative, a semi join is a join with the different partners, and what has no
partner is the whole less what has one (DESIGN section 3). Equalities become keys of a kernel; what else a
condition says of one side is asked before the exchange, and of both sides of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from everview.plan.bands import BandCondition, find_band


@dataclass(frozen=True)
class Side:
    """An input of an operator, and how its rows come and go."""

    plan: P.Operator
    rows: InputRows

    def distinct(self) -> Side:
        """Return the side with every record once."""
        plan = P.DistinctOperator(self.plan, self.rows.signed, rows=(self.rows,))
        return Side(plan, replace(self.rows, in_order=False))

    def keys(self, outputs: tuple[Expression, ...]) -> Side:
        """Return the distinct keys of the side."""
        growth = min(self.rows.growth, Growth.BY_RECORD)
        rows = replace(self.rows, label=f"keys of the {self.rows.label.removeprefix('the ')}", growth=growth)
        return Side(P.ProjectOperator(self.plan, outputs), rows).distinct()


def as_type(expression: Expression, type_: DataType) -> Expression:
    """The expression as a value of the type."""
    return expression if expression.type == type_ else Cast(expression, type_)


@dataclass(frozen=True)
class Key:
    """An equality between the two sides: an expression on each, and whether NULLs are equal."""

    left: Expression
    right: Expression
    nulls_equal: bool


@dataclass(frozen=True)
class Condition:
    """A condition on pairs, in parts: the equalities, what concerns one side only, the rest.

    Where there is no equality, a band may be taken from the rest.
    """

    size: int
    keys: tuple[Key, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    rest: tuple[Expression, ...]
    band: BandCondition | None = None

    @classmethod
    def of(cls, condition: Expression, size: int) -> Condition:
        """The parts of a condition over the columns of both sides, of which the left one has so many."""
        keys: list[Key] = []
        parts: dict[str, list[Expression]] = {"left": [], "right": [], "both": [], "none": []}
        for part in conjuncts(condition):
            key = _key(part, size)
            if key is None:
                parts[_side(part, size)].append(part)
            else:
                keys.append(key)
        right = tuple(_shifted(e, -size) for e in parts["right"])
        return cls(size, tuple(keys), tuple(parts["left"]), right, (*parts["both"], *parts["none"]))

    def with_band(self) -> Condition:
        """The same, with a band if there is no equality but one of the rest is a bound."""
        sided = [
            (part, _side(part.left, self.size), _side(part.right, self.size))
            for part in self.rest
            if isinstance(part, Comparison)
        ]
        band = None if self.keys else find_band(sided)
        if band is None:
            return self
        return replace(self, band=band, rest=tuple(p for p in self.rest if p not in band.parts))

    @property
    def computed(self) -> tuple[list[Expression], list[Expression]]:
        """What the kernel needs as columns of each side: keys, or the value of a band and its bounds."""
        if self.band is None:
            return [k.left for k in self.keys], [k.right for k in self.keys]
        value = [as_type(self.band.value, self.band.type)]
        bounds = [as_type(e, self.band.type) for e in self.band.bounds]
        left, right = (value, bounds) if self.band.value_on_left else (bounds, value)
        return left, [_shifted(e, -self.size) for e in right]


def _key(part: Expression, size: int) -> Key | None:
    if not isinstance(part, Comparison) or part.operator not in ("=", "<=>"):
        return None
    sides = [_side(e, size) for e in (part.left, part.right)]
    if sorted(sides) != ["left", "right"]:
        return None
    left, right = (part.left, part.right) if sides[0] == "left" else (part.right, part.left)
    common = wider_type(left.type, right.type)
    if common is None or common == VOID:
        return None
    return Key(as_type(left, common), as_type(_shifted(right, -size), common), part.operator == "<=>")


def _side(expression: Expression, size: int) -> str:
    positions = {position_of(c) for c in expression.columns()}
    if not positions:
        return "none"
    if max(positions) < size:
        return "left"
    return "right" if min(positions) >= size else "both"


def _shifted(expression: Expression, by: int) -> Expression:
    moved: dict[Expression, Expression] = {
        c: Column(P.column(position_of(c) + by), c.type) for c in expression.columns()
    }
    return substitute(expression, moved)


@dataclass(frozen=True)
class AsOf:
    """Where a row has the instant whose version it meets, and how old that can be when the row comes."""

    timestamp: int
    age: int


def join(left: Side, right: Side, condition: Expression, as_of: AsOf | None = None) -> P.Operator:
    """The pairs for which the condition holds; with an instant, those with the table's version at it."""
    parts = Condition.of(condition, len(left.plan.types))
    parts = parts.with_band() if as_of is None else parts
    here, there = _prepared(left, right, parts)
    return _shown(_pairs(here, there, parts, as_of), here, (left, right), parts)


def _prepared(left: Side, right: Side, parts: Condition) -> tuple[_Keyed, _Keyed]:
    """Both sides with what concerns each alone asked, and what the kernel needs as columns."""
    here, there = parts.computed
    return _keyed(_where(left, parts.left), here), _keyed(_where(right, parts.right), there)


def _shown(pairs: P.Operator, here: _Keyed, sides: tuple[Side, Side], parts: Condition) -> P.Operator:
    """The pairs for which the rest of the condition holds, without the columns that keys had added."""
    gap, left, right = len(here.side.plan.types), *(len(s.plan.types) for s in sides)
    shown = (*pairs.columns[:left], *pairs.columns[gap : gap + right])
    found = pairs if shown == pairs.columns else P.ProjectOperator(pairs, shown)
    return P.FilterOperator(found, conjunction(list(parts.rest))) if parts.rest else found


@dataclass(frozen=True)
class _Keyed:
    """A side whose keys are columns, at these positions."""

    side: Side
    keys: tuple[int, ...]


def _where(side: Side, conditions: Sequence[Expression]) -> Side:
    return (
        replace(side, plan=P.FilterOperator(side.plan, conjunction(list(conditions)))) if conditions else side
    )


def _keyed(side: Side, keys: Sequence[Expression]) -> _Keyed:
    """The side with its keys as columns: those that it has, and new ones for expressions."""
    plan = side.plan
    known = list(plan.columns)
    outputs: list[Expression] = [*known]
    positions = []
    for key in keys:
        if key not in outputs:
            outputs.append(key)
        positions.append(outputs.index(key))
    wide = plan if len(outputs) == len(known) else P.ProjectOperator(plan, tuple(outputs))
    return _Keyed(replace(side, plan=wide), tuple(positions))


def _pairs(here: _Keyed, there: _Keyed, parts: Condition, as_of: AsOf | None = None) -> P.Operator:
    """The kernel. If NULLs are to meet for some keys, they meet for all; for the others they go before."""
    if parts.band is not None:
        return _in_band(here, there, parts.band)
    safe = any(k.nulls_equal for k in parts.keys)
    if safe:
        strict = [i for i, k in enumerate(parts.keys) if not k.nulls_equal]
        here, there = _present(here, strict), _present(there, strict)
    rows = (here.side.rows, there.side.rows)
    left, right = here.side.plan, there.side.plan
    if as_of is None:
        return P.JoinOperator(left, right, here.keys, there.keys, safe, rows=rows)
    at, age = as_of.timestamp, as_of.age
    return P.VersionJoinOperator(left, right, at, here.keys, there.keys, safe, age, rows=rows)


def _in_band(here: _Keyed, there: _Keyed, band: BandCondition) -> P.Operator:
    """The kernel for a band: it has the value on its right side, whichever that is in the query."""
    if band.value_on_left:
        pairs = _in_band(there, here, replace(band, value_on_left=False))
        gap = len(there.side.plan.types)
        return P.ProjectOperator(pairs, (*pairs.columns[gap:], *pairs.columns[:gap]))
    places = iter(here.keys)
    lower, upper = (None if bound is None else next(places) for bound in (band.lower, band.upper))
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


def _present(keyed: _Keyed, which: Sequence[int]) -> _Keyed:
    plan = keyed.side.plan
    conditions: list[Expression] = [Not(IsNull(plan.columns[keyed.keys[i]])) for i in which]
    return replace(keyed, side=_where(keyed.side, conditions))


def semi_join(left: Side, right: Side, condition: Expression) -> tuple[P.Operator, P.Operator]:
    """Return the left rows, and those of them that have a match, as often as they occur.

    The left rows are given again because they may come from a plan that has more columns: in one stage they
    then come from the same rows as what is taken from them.
    """
    size = len(left.plan.types)
    parts = Condition.of(condition, size)
    if parts.keys and not parts.rest:
        # A pure equality: the different keys of the right side are enough.
        here = _keyed(left, [k.left for k in parts.keys])
        there = _where(right, parts.right)
        keys = there.keys(tuple(k.right for k in parts.keys))
        asked = replace(here, side=_where(here.side, parts.left))
        pairs = _pairs(asked, _Keyed(keys, tuple(range(len(parts.keys)))), parts)
        return first_columns(here.side.plan, size), first_columns(pairs, size)
    parts = parts.with_band()
    here, there_keyed = _prepared(left, right, parts)
    here = replace(here, side=here.side.distinct())
    pairs = _shown(_pairs(here, there_keyed, parts), here, (left, right), parts)
    matched = Side(first_columns(pairs, size), _matched_rows(left.rows, right.rows))
    return left.plan, occurring(left, matched.distinct())


def _matched_rows(left: InputRows, right: InputRows) -> InputRows:
    """Describe the left rows while they have a match: they last as long as the shorter of both."""
    known = [length for length in (left.lasts, right.lasts) if length is not None]
    ahead = [wait for wait in (left.waits, right.waits) if wait is not None]
    return InputRows(
        "matched rows",
        min(known, default=None),
        max(ahead) if len(ahead) == 2 else None,
        signed=left.signed or right.signed,
        growth=left.growth,
    )


def occurring(rows: Side, once: Side) -> P.Operator:
    """The rows that occur in a set of rows; NULLs are equal."""
    size = len(rows.plan.types)
    every = tuple(range(size))
    pairs = P.JoinOperator(rows.plan, once.plan, every, every, nulls_equal=True, rows=(rows.rows, once.rows))
    return first_columns(pairs, size)


def without(rows: P.Operator, some: P.Operator) -> P.Operator:
    """The rows less some of them."""
    return P.UnionOperator(rows, P.NegateOperator(some))


def first_columns(plan: P.Operator, size: int) -> P.Operator:
    """The first columns of a plan."""
    return plan if size == len(plan.types) else P.ProjectOperator(plan, plan.columns[:size])


def anti_join(left: Side, right: Side, condition: Expression) -> P.Operator:
    """Return the left rows without a match."""
    return without(*semi_join(left, right, condition))


def swapped(condition: Expression, sizes: tuple[int, int]) -> Expression:
    """A condition over the columns of both sides, for the sides in the other order."""
    left, right = sizes
    moved: dict[Expression, Expression] = {}
    for column in condition.columns():
        at = position_of(column)
        moved[column] = Column(P.column(at + right if at < left else at - left), column.type)
    return substitute(condition, moved)


def nulls(types: Sequence[DataType]) -> tuple[Expression, ...]:
    """A NULL for each column."""
    return tuple(Literal(None, t) for t in types)
