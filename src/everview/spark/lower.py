"""Algebra to the physical plan: composite operators become joins, distincts and sums of change rows.

Semi joins, anti joins and outer joins are not kernels of their own: over change rows, where n may be
negative, they are a join, a distinct and a difference (DESIGN section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    Case,
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
)  # fmt: skip
from everview.algebra.schema import Schema
from everview.algebra.types import BOOLEAN, INT, VOID, DataType, wider
from everview.algebra.windows import Rows
from everview.errors import PlanError
from everview.kernels.accumulate import FUNCTIONS, Aggregate
from everview.spark import physical as P
from everview.temporal.patterns import edge


@singledispatch
def lower(node: N.Node) -> P.Physical:
    """The physical plan of an algebra plan."""
    raise TypeError(f"no physical plan for {type(node).__name__}")


# Leaves and what passes through


@lower.register(N.Stream)
@lower.register(N.Table)
def _(node: N.Stream | N.Table) -> P.Physical:
    return P.Scan(node.name, node.schema.types)


@lower.register
def _(node: N.Values) -> P.Physical:
    return P.Constant(node.rows, node.schema.types)


@lower.register
def _(node: N.View) -> P.Physical:
    return lower(node.definition)


@lower.register(N.Alias)
@lower.register(N.Coalesce)
@lower.register(N.Split)
def _(node: N.Alias | N.Coalesce | N.Split) -> P.Physical:
    """No snapshot changes: kernels coalesce what they emit anyway."""
    return lower(node.input)


# Row by row


@lower.register
def _(node: N.Filter) -> P.Physical:
    return P.Select(lower(node.input), _positional(node.condition, node.input.schema))


@lower.register
def _(node: N.Project) -> P.Physical:
    return P.Compute(lower(node.input), tuple(_positional(e, node.input.schema) for _, e in node.columns))


@lower.register
def _(node: N.GroupMember) -> P.Physical:
    by = _positional(node.by, node.input.schema)
    return P.Select(lower(node.input), Comparison("=", by, Literal(node.value, by.type)))


@lower.register
def _(node: N.Union) -> P.Physical:
    left, right = _sides(node)
    return P.Merge(left, right)


@lower.register
def _(node: N.Synchronize) -> P.Physical:
    return P.Warp(lower(node.input), node.grid)


def _positional(expression: Expression, schema: Schema, offset: int = 0) -> Expression:
    """The expression over columns by position."""
    by_position: dict[Expression, Expression] = {
        Column.to(f): Column(P.column(offset + i), f.type) for i, f in enumerate(schema)
    }
    return substitute(expression, by_position)


def _sides(node: N.Node) -> tuple[P.Physical, P.Physical]:
    """Both inputs of a set operation, their values widened to the result's types."""
    left, right = (_cast(lower(side), node.schema.types) for side in node.inputs)
    return left, right


def _cast(plan: P.Physical, types: Sequence[DataType]) -> P.Physical:
    if plan.types == tuple(types):
        return plan
    return P.Compute(plan, tuple(_as(c, t) for c, t in zip(plan.columns, types, strict=True)))


def _as(expression: Expression, type_: DataType) -> Expression:
    return expression if expression.type == type_ else Cast(expression, type_)


# Windows and time


@lower.register
def _(node: N.Window) -> P.Physical:
    below = lower(node.input)
    schema = node.input.schema
    line = schema.timeline
    if line is None:
        return below
    if not isinstance(node.window, Rows):
        return P.Restrict(below, schema.index(line), node.window)
    partition = tuple(schema.index(schema.find(name)) for name in node.window.partition_by)
    return P.RowsKernel(below, node.window.count, partition, _arrival_order(node.input))


def _arrival_order(node: N.Node) -> tuple[int, ...]:
    """The time line, the SEQUENCE BY columns, all columns."""
    base = N.base_of(node)
    sequence = base.sequence if isinstance(base, N.Stream) else ()
    line = node.schema.timeline
    first = [] if line is None else [node.schema.index(line)]
    named = [node.schema.index(node.schema.find(name)) for name in sequence]
    return tuple(dict.fromkeys([*first, *named, *range(len(node.schema))]))


@lower.register
def _(node: N.Tagged) -> P.Physical:
    below = lower(node.input)
    schema = node.input.schema
    deletes = Literal(False, BOOLEAN) if node.delete_when is None else _positional(node.delete_when, schema)
    marked = P.Compute(below, (*below.columns, deletes))
    key = tuple(schema.index(schema.find(name)) for name in node.key)
    return P.LatestKernel(marked, key, _arrival_order(node.input))


@lower.register
def _(node: N.SynchronizeOn) -> P.Physical:
    return P.PointsKernel(lower(node.input), P.InsertionsKernel(lower(node.points), deletions=False))


@lower.register
def _(node: N.IStream) -> P.Physical:
    return P.InsertionsKernel(lower(node.input), deletions=False)


@lower.register
def _(node: N.DStream) -> P.Physical:
    return P.InsertionsKernel(lower(node.input), deletions=True)


@lower.register
def _(node: N.RStream) -> P.Physical:
    return P.RelationKernel(lower(node.input), node.grid)


# Counts


@lower.register
def _(node: N.Distinct) -> P.Physical:
    return P.DistinctKernel(lower(node.input), edge(node.input).signed)


@lower.register(N.Difference)
@lower.register(N.Intersection)
@lower.register(N.MaxUnion)
def _(node: N.Difference | N.Intersection | N.MaxUnion) -> P.Physical:
    names = {N.Difference: "difference", N.Intersection: "intersection", N.MaxUnion: "max_union"}
    left, right = _sides(node)
    return P.CountsKernel(left, right, names[type(node)])


@lower.register
def _(node: N.StrictDifference) -> P.Physical:
    """What does not occur on the right at all: the left side less those of its rows that do."""
    left, right = _sides(node)
    once = P.DistinctKernel(right, edge(node.right).signed)
    return _lonely(left, once)


@lower.register
def _(node: N.Aggregate) -> P.Physical:
    below = lower(node.input)
    schema = node.input.schema
    keys = [_positional(e, schema) for _, e in node.keys]
    arguments: list[Expression] = []
    aggregates = []
    for position, (_, call) in enumerate(node.calls):
        if call.function not in FUNCTIONS:
            raise PlanError(f"the aggregate '{call.function}' has a meaning but no kernel yet")
        argument = None if call.argument is None else _positional(call.argument, schema)
        if call.where is not None:
            shown = Literal(1, INT) if argument is None else argument
            argument = Case(((_positional(call.where, schema), shown),), Literal(None, shown.type))
        name = None
        if argument is not None:
            name = P.column(len(keys) + len(arguments))
            arguments.append(argument)
        type_ = call.type
        output = P.column(len(keys) + position)
        aggregates.append(
            Aggregate(call.function, name, f"={output}", call.distinct, type_.precision, type_.scale)
        )
    computed = P.Compute(below, (*keys, *arguments))
    results = tuple(call.type for _, call in node.calls)
    return P.SweepKernel(computed, len(keys), tuple(aggregates), results, edge(node.input).signed)


# Joins


@lower.register
def _(node: N.Join) -> P.Physical:
    return _join(lower(node.left), lower(node.right), _over_both(node, node.condition))


@lower.register
def _(node: N.SemiJoin) -> P.Physical:
    return _semi(node)


@lower.register
def _(node: N.AntiJoin) -> P.Physical:
    return P.Merge(lower(node.left), P.Negative(_semi(node)))


@lower.register
def _(node: N.OuterJoin) -> P.Physical:
    """The join, and each kept side's rows without a partner padded with NULLs."""
    left, right = lower(node.left), lower(node.right)
    condition = _over_both(node, node.condition)
    result = _join(left, right, condition)
    if node.kind in ("LEFT", "FULL"):
        lonely = _lonely(left, _partners(left, right, condition, keep_left=True, signed=_signed(node)))
        result = P.Merge(result, P.Compute(lonely, (*lonely.columns, *_nulls(right.types))))
    if node.kind in ("RIGHT", "FULL"):
        lonely = _lonely(right, _partners(left, right, condition, keep_left=False, signed=_signed(node)))
        result = P.Merge(result, P.Compute(lonely, (*_nulls(left.types), *lonely.columns)))
    return result


@lower.register
def _(node: N.TableJoin) -> P.Physical:
    left, right = lower(node.left), lower(node.right)
    condition = _over_both(node, node.condition)
    if node.retroactive:
        joined = _join(left, right, condition)
    else:
        line = node.left.schema.timeline
        timestamp = 0 if line is None else node.left.schema.index(line)
        joined = _join(left, right, condition, timestamp)
    if not node.outer:
        return joined
    signed = node.retroactive or edge(node.left).signed
    met = P.DistinctKernel(P.Compute(joined, joined.columns[: len(left.types)]), signed)
    lonely = _lonely(left, met)
    return P.Merge(joined, P.Compute(lonely, (*lonely.columns, *_nulls(right.types))))


def _signed(node: N.OuterJoin | N.SemiJoin | N.AntiJoin) -> bool:
    return edge(node.left).signed or edge(node.right).signed


def _nulls(types: Sequence[DataType]) -> list[Expression]:
    return [Literal(None, t) for t in types]


def _over_both(
    node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin, condition: Expression
) -> Expression:
    both = Schema(node.left.schema.fields + node.right.schema.fields)
    return _positional(condition, both)


def _semi(node: N.SemiJoin | N.AntiJoin) -> P.Physical:
    """The left rows that have a partner, as often as they are."""
    left, right = lower(node.left), lower(node.right)
    condition = _over_both(node, node.condition)
    keys, rest = _split(condition, len(left.types))
    if keys and not rest:
        # A pure equality: the different keys of the right side are enough.
        once = P.DistinctKernel(P.Compute(right, tuple(r for _, r, _ in keys)), edge(node.right).signed)
        size = len(left.types)
        equal = [
            Comparison("<=>" if safe else "=", here, Column(P.column(size + i), there.type))
            for i, (here, there, safe) in enumerate(keys)
        ]
        joined = _join(left, once, conjunction(list(equal)))
        return P.Compute(joined, joined.columns[:size])
    return _matched(left, _partners(left, right, condition, keep_left=True, signed=_signed(node)))


def _partners(
    left: P.Physical, right: P.Physical, condition: Expression, keep_left: bool, signed: bool
) -> P.Physical:
    """The different rows of one side that have a partner on the other."""
    if keep_left:
        joined = _join(P.DistinctKernel(left, signed), right, condition)
        kept = joined.columns[: len(left.types)]
    else:
        joined = _join(left, P.DistinctKernel(right, signed), condition)
        kept = joined.columns[len(left.types) :]
    return P.DistinctKernel(P.Compute(joined, kept), signed)


def _matched(rows: P.Physical, once: P.Physical) -> P.Physical:
    """The rows that occur in a set of rows; NULLs are equal."""
    size = len(rows.types)
    every = tuple(range(size))
    joined = P.JoinKernel(rows, once, every, every, nulls_equal=True)
    return P.Compute(joined, joined.columns[:size])


def _lonely(rows: P.Physical, met: P.Physical) -> P.Physical:
    """The rows that do not occur in a set of rows."""
    return P.Merge(rows, P.Negative(_matched(rows, met)))


Key = tuple[Expression, Expression, bool]  # left, right, whether NULLs are equal


def _split(condition: Expression, size: int) -> tuple[list[Key], list[Expression]]:
    """The equalities between the two sides, and the other conditions."""
    keys: list[Key] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        key = _key(part, size)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return keys, rest


def _key(part: Expression, size: int) -> Key | None:
    if not isinstance(part, Comparison) or part.operator not in ("=", "<=>"):
        return None
    sides = [_side(e, size) for e in (part.left, part.right)]
    if sorted(sides) != ["left", "right"]:
        return None
    left, right = (part.left, part.right) if sides[0] == "left" else (part.right, part.left)
    common = wider(left.type, right.type)
    if common is None or common == VOID:
        return None
    return _as(left, common), _as(_shifted(right, -size), common), part.operator == "<=>"


def _side(expression: Expression, size: int) -> str:
    positions = {int(c.name[1:]) for c in expression.columns()}
    if not positions:
        return "none"
    if max(positions) < size:
        return "left"
    return "right" if min(positions) >= size else "both"


def _shifted(expression: Expression, by: int) -> Expression:
    moved: dict[Expression, Expression] = {
        c: Column(P.column(int(c.name[1:]) + by), c.type) for c in expression.columns()
    }
    return substitute(expression, moved)


def _join(
    left: P.Physical, right: P.Physical, condition: Expression, timestamp: int | None = None
) -> P.Physical:
    """The join on its equalities; what else the condition says is a filter on the pairs."""
    sizes = len(left.types), len(right.types)
    keys, rest = _split(condition, sizes[0])
    safe = any(k[2] for k in keys)
    if safe:  # NULLs meet in the kernel; where they must not, they are left out before
        left = _present(left, [k[0] for k in keys if not k[2]])
        right = _present(right, [k[1] for k in keys if not k[2]])
    here = _with_keys(left, [k[0] for k in keys])
    there = _with_keys(right, [k[1] for k in keys])
    left_keys = tuple(range(sizes[0], sizes[0] + len(keys)))
    right_keys = tuple(range(sizes[1], sizes[1] + len(keys)))
    joined: P.Physical
    if timestamp is None:
        joined = P.JoinKernel(here, there, left_keys, right_keys, safe)
    else:
        joined = P.VersionKernel(here, there, timestamp, left_keys, right_keys)
    gap = len(here.types)
    columns = joined.columns
    if keys:
        joined = P.Compute(joined, (*columns[: sizes[0]], *columns[gap : gap + sizes[1]]))
    return P.Select(joined, conjunction(rest)) if rest else joined


def _present(plan: P.Physical, keys: list[Expression]) -> P.Physical:
    return P.Select(plan, conjunction([Not(IsNull(k)) for k in keys])) if keys else plan


def _with_keys(plan: P.Physical, keys: list[Expression]) -> P.Physical:
    return P.Compute(plan, (*plan.columns, *keys)) if keys else plan
