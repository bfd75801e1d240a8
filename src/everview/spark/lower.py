"""Algebra to the physical plan: composite operators become joins, distincts and sums of change rows.

Three strategies (paper 2, sections 2.3 and 5). UPA takes what the update patterns allow: δ* and expiry
buckets where rows are never taken back, MIN and MAX that forget. DIRECT has intervals, but asks no pattern.
NT knows no ends: each row of a window is taken back by a negative row when its end has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Case, Column, Comparison, Expression, Literal, substitute
from everview.algebra.schema import Schema
from everview.algebra.types import BOOLEAN, INT, DataType
from everview.algebra.windows import Rows
from everview.errors import PlanError
from everview.kernels.accumulate import FUNCTIONS, Aggregate
from everview.kernels.frame import BEFORE_ALL
from everview.spark import joins
from everview.spark import physical as P
from everview.spark.joins import Side, as_type
from everview.temporal.ages import age
from everview.temporal.life import life
from everview.temporal.patterns import Pattern, edge

STRATEGIES = ("UPA", "DIRECT", "NT")


def lower(plan: N.Node, strategy: str = "UPA") -> P.Physical:
    """The physical plan of an algebra plan."""
    if strategy not in STRATEGIES:
        raise PlanError(f"there is no strategy '{strategy}'", choices=STRATEGIES)
    return Lowering(strategy)(plan)


@dataclass(frozen=True)
class Lowering:
    """One lowering: its strategy, and what was lowered already; equal parts of a plan are walked once."""

    strategy: str
    done: dict[int, P.Physical] = field(default_factory=dict)

    def __call__(self, node: N.Node) -> P.Physical:
        if id(node) not in self.done:
            self.done[id(node)] = _lowered(node, self)
        return self.done[id(node)]

    def side(self, node: N.Node) -> Side:
        """The plan of an input, with what may be known of its rows."""
        if self.strategy != "UPA":
            return Side(self(node))
        flows = edge(node)
        return Side(self(node), life(node).lasts, flows.pattern <= Pattern.WKS, flows.signed)

    def with_intervals(self, node: N.Node) -> P.Physical:
        """The plan of an input whose rows must not be taken back: under NT, too, with the ends of windows."""
        return Lowering("DIRECT")(node) if self.strategy == "NT" else self(node)

    def ended(self, plan: P.Physical) -> P.Physical:
        """The rows of a window: under NT taken back at their end."""
        return P.NegativeKernel(plan) if self.strategy == "NT" else plan


@singledispatch
def _lowered(node: N.Node, lower: Lowering) -> P.Physical:
    raise TypeError(f"no physical plan for {type(node).__name__}")


# Leaves and what passes through


@_lowered.register
def _(node: N.Stream, lower: Lowering) -> P.Physical:
    since = BEFORE_ALL if node.since is None else node.since
    return P.Scan(node.name, node.schema.types, since=since)


@_lowered.register
def _(node: N.Table, lower: Lowering) -> P.Physical:
    return P.Scan(node.name, node.schema.types)


@_lowered.register
def _(node: N.Values, lower: Lowering) -> P.Physical:
    return P.Constant(node.rows, node.schema.types)


@_lowered.register
def _(node: N.View, lower: Lowering) -> P.Physical:
    return lower(node.definition)


@_lowered.register(N.Alias)
@_lowered.register(N.Coalesce)
@_lowered.register(N.Split)
def _(node: N.Alias | N.Coalesce | N.Split, lower: Lowering) -> P.Physical:
    """No snapshot changes: kernels coalesce what they emit anyway."""
    return lower(node.input)


# Row by row


@_lowered.register
def _(node: N.Filter, lower: Lowering) -> P.Physical:
    return P.Select(lower(node.input), _positional(node.condition, node.input.schema))


@_lowered.register
def _(node: N.Project, lower: Lowering) -> P.Physical:
    return P.Compute(lower(node.input), tuple(_positional(e, node.input.schema) for _, e in node.columns))


@_lowered.register
def _(node: N.GroupMember, lower: Lowering) -> P.Physical:
    by = _positional(node.by, node.input.schema)
    return P.Select(lower(node.input), Comparison("=", by, Literal(node.value, by.type)))


@_lowered.register
def _(node: N.Union, lower: Lowering) -> P.Physical:
    left, right = _sides(node, lower)
    return P.Merge(left.plan, right.plan)


@_lowered.register
def _(node: N.Synchronize, lower: Lowering) -> P.Physical:
    return P.Warp(lower(node.input), node.grid)


def _positional(expression: Expression, schema: Schema) -> Expression:
    """The expression over columns by position."""
    by_position: dict[Expression, Expression] = {
        Column.to(f): Column(P.column(i), f.type) for i, f in enumerate(schema)
    }
    return substitute(expression, by_position)


def _sides(node: N.Node, lower: Lowering) -> tuple[Side, Side]:
    """Both inputs of a set operation, their values widened to the result's types."""
    left, right = (replace(s, plan=_cast(s.plan, node.schema.types)) for s in map(lower.side, node.inputs))
    return left, right


def _cast(plan: P.Physical, types: Sequence[DataType]) -> P.Physical:
    if plan.types == tuple(types):
        return plan
    return P.Compute(plan, tuple(as_type(c, t) for c, t in zip(plan.columns, types, strict=True)))


# Windows and time


@_lowered.register
def _(node: N.Window, lower: Lowering) -> P.Physical:
    schema = node.input.schema
    line = schema.timeline
    if line is None:
        return lower(node.input)
    if not isinstance(node.window, Rows):
        return lower.ended(P.Restrict(lower(node.input), schema.index(line), node.window))
    below = lower.with_intervals(node.input)
    partition = tuple(schema.index(schema.find(name)) for name in node.window.partition_by)
    return lower.ended(P.RowsKernel(below, node.window.count, partition, _arrival_order(node.input)))


def _arrival_order(node: N.Node) -> tuple[int, ...]:
    """The time line, the SEQUENCE BY columns, all columns."""
    base = N.base_of(node)
    sequence = base.sequence if isinstance(base, N.Stream) else ()
    line = node.schema.timeline
    first = [] if line is None else [node.schema.index(line)]
    named = [node.schema.index(node.schema.find(name)) for name in sequence]
    return tuple(dict.fromkeys([*first, *named, *range(len(node.schema))]))


@_lowered.register
def _(node: N.Tagged, lower: Lowering) -> P.Physical:
    below = lower.with_intervals(node.input)
    schema = node.input.schema
    deletes = Literal(False, BOOLEAN) if node.delete_when is None else _positional(node.delete_when, schema)
    marked = P.Compute(below, (*below.columns, deletes))
    key = tuple(schema.index(schema.find(name)) for name in node.key)
    return P.LatestKernel(marked, key, _arrival_order(node.input))


@_lowered.register
def _(node: N.SynchronizeOn, lower: Lowering) -> P.Physical:
    return P.PointsKernel(lower(node.input), P.InsertionsKernel(lower(node.points), deletions=False))


@_lowered.register
def _(node: N.IStream, lower: Lowering) -> P.Physical:
    return P.InsertionsKernel(lower(node.input), deletions=False)


@_lowered.register
def _(node: N.DStream, lower: Lowering) -> P.Physical:
    return P.InsertionsKernel(lower(node.input), deletions=True)


@_lowered.register
def _(node: N.RStream, lower: Lowering) -> P.Physical:
    below = lower.side(node.input)
    return P.RelationKernel(below.plan, node.grid, endings=(below.ending,))


# Counts


@_lowered.register
def _(node: N.Distinct, lower: Lowering) -> P.Physical:
    return lower.side(node.input).once().plan


@_lowered.register(N.Difference)
@_lowered.register(N.Intersection)
@_lowered.register(N.MaxUnion)
def _(node: N.Difference | N.Intersection | N.MaxUnion, lower: Lowering) -> P.Physical:
    names = {N.Difference: "difference", N.Intersection: "intersection", N.MaxUnion: "max_union"}
    left, right = _sides(node, lower)
    return P.CountsKernel(left.plan, right.plan, names[type(node)], endings=(left.ending, right.ending))


@_lowered.register
def _(node: N.StrictDifference, lower: Lowering) -> P.Physical:
    """What does not occur on the right at all: the left side less those of its rows that do."""
    left, right = _sides(node, lower)
    return joins.without(left.plan, joins.occurring(left, right.once()))


@_lowered.register
def _(node: N.Aggregate, lower: Lowering) -> P.Physical:
    below = lower.side(node.input)
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
            if argument not in arguments:
                arguments.append(argument)
            name = P.column(len(keys) + arguments.index(argument))
        type_ = call.type
        output = P.column(len(keys) + position)
        aggregates.append(
            Aggregate(call.function, name, f"={output}", call.distinct, type_.precision, type_.scale)
        )
    computed = P.Compute(below.plan, (*keys, *arguments))
    results = tuple(call.type for _, call in node.calls)
    return P.SweepKernel(
        computed, len(keys), tuple(aggregates), results, below.signed, endings=(below.ending,)
    )


# Joins


@_lowered.register
def _(node: N.Join, lower: Lowering) -> P.Physical:
    return joins.join(lower.side(node.left), lower.side(node.right), _over_both(node))


@_lowered.register
def _(node: N.SemiJoin, lower: Lowering) -> P.Physical:
    return joins.partnered(lower.side(node.left), lower.side(node.right), _over_both(node))[1]


@_lowered.register
def _(node: N.AntiJoin, lower: Lowering) -> P.Physical:
    return joins.lonely(lower.side(node.left), lower.side(node.right), _over_both(node))


@_lowered.register
def _(node: N.OuterJoin, lower: Lowering) -> P.Physical:
    """The join, and each kept side's rows without a partner padded with NULLs."""
    left, right = lower.side(node.left), lower.side(node.right)
    condition = _over_both(node)
    result = joins.join(left, right, condition)
    if node.kind in ("LEFT", "FULL"):
        alone = joins.lonely(left, right, condition)
        result = P.Merge(result, P.Compute(alone, (*alone.columns, *joins.nulls(right.plan.types))))
    if node.kind in ("RIGHT", "FULL"):
        other = joins.swapped(condition, (len(left.plan.types), len(right.plan.types)))
        alone = joins.lonely(right, left, other)
        result = P.Merge(result, P.Compute(alone, (*joins.nulls(left.plan.types), *alone.columns)))
    return result


@_lowered.register
def _(node: N.TableJoin, lower: Lowering) -> P.Physical:
    """⋈R is a join as any other. ⋈NRR leaves the intervals of the stream's rows as they are."""
    right = lower.side(node.right)
    condition = _over_both(node)
    if node.retroactive:
        left = lower.side(node.left)
        joined = joins.join(left, right, condition)
        alone = joins.lonely(left, right, condition) if node.outer else None
    else:
        line = node.left.schema.timeline
        timestamp = 0 if line is None else node.left.schema.index(line)
        left = replace(lower.side(node.left), plan=lower.with_intervals(node.left))
        joined = joins.join(left, right, condition, joins.AsOf(timestamp, age(node.left).emitted))
        met = joins.first_columns(joined, len(left.plan.types))
        alone = P.WithoutVersionKernel(left.plan, met) if node.outer else None
    if alone is not None:
        joined = P.Merge(joined, P.Compute(alone, (*alone.columns, *joins.nulls(right.plan.types))))
    return joined if node.retroactive else lower.ended(joined)


def _over_both(node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin) -> Expression:
    """The condition of a join over the columns of both sides by position."""
    return _positional(node.condition, Schema(node.left.schema.fields + node.right.schema.fields))
