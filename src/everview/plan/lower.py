"""Algebra to the physical plan: composite operators become joins, distincts and sums of change rows.

Three strategies (paper 2, sections 2.3 and 5). UPA takes what the update patterns allow: δ* and expiry
buckets where rows are never taken back, MIN and MAX that forget. DIRECT has intervals, but asks no pattern.
NT knows no ends: each row of a window is taken back by a negative row when its end has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import Case, Column, Comparison, Expression, Literal, substitute
from everview.algebra.schema import Schema
from everview.algebra.text import name_sql
from everview.algebra.types import BOOLEAN, INT, DataType
from everview.algebra.windows import Rows
from everview.errors import PlanError
from everview.operators.aggregates.accumulators import AGGREGATE_FUNCTIONS, AggregateColumn
from everview.operators.base import Growth, InputRows, stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan import lower_joins as joins
from everview.plan.lower_joins import Side, as_type
from everview.temporal.ages import age
from everview.temporal.life import life
from everview.temporal.patterns import Pattern, edge

STRATEGIES = ("UPA", "DIRECT", "NT")


def lower(plan: N.Node, strategy: str = "UPA") -> P.Operator:
    """The physical plan of an algebra plan."""
    if strategy not in STRATEGIES:
        raise PlanError(f"there is no strategy '{strategy}'", choices=STRATEGIES)
    return Lowering(strategy)(plan)


@dataclass(frozen=True)
class Lowering:
    """One lowering: its strategy, and what was lowered already; equal parts of a plan are walked once."""

    strategy: str
    done: dict[int, tuple[N.Node, P.Operator]] = field(default_factory=dict)

    def __call__(self, node: N.Node) -> P.Operator:
        if id(node) not in self.done:
            self.done[id(node)] = node, _lowered(node, self)  # the node stays alive as long as its id is used
        return self.done[id(node)][1]

    def own_operators(self, node: N.Node) -> list[P.StatefulOperator]:
        """Return the operators with state that a node becomes, without those that its inputs become."""
        below = set(stateful_operators(map(self, node.inputs)))
        return [operator for operator in stateful_operators([self(node)]) if operator not in below]

    def side(self, node: N.Node, label: str = "its input", until: str = "until retracted") -> Side:
        """Return the plan of an input, with what is known of its rows; EXPLAIN calls them `label`."""
        if self.strategy != "UPA":
            return Side(self(node), InputRows(label, until=until))
        flow, rows = edge(node), life(node)
        growth = Growth.NO
        if rows.grows:
            growth = Growth.BY_RECORD if node.schema.timeline is None else Growth.BY_ROW
        in_order = flow.pattern <= Pattern.WKS
        return Side(
            self(node), InputRows(label, rows.lasts, rows.waits, in_order, flow.signed, growth, until=until)
        )

    def both_sides(
        self, node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin
    ) -> tuple[Side, Side]:
        """Return both inputs of a join."""
        if isinstance(node, N.TableJoin):
            return self.side(node.left, "left input"), self.side(node.right, "the table", "until replaced")
        return self.side(node.left, "left input"), self.side(node.right, "right input")

    def with_intervals(self, node: N.Node) -> P.Operator:
        """The plan of an input whose rows must not be taken back: under NT, too, with the ends of windows."""
        return Lowering("DIRECT")(node) if self.strategy == "NT" else self(node)

    def ended(self, plan: P.Operator) -> P.Operator:
        """The rows of a window: under NT taken back at their end."""
        return P.NegativeTuplesOperator(plan) if self.strategy == "NT" else plan


@singledispatch
def _lowered(node: N.Node, lower: Lowering) -> P.Operator:
    raise TypeError(f"no physical plan for {type(node).__name__}")


# Leaves and what passes through


@_lowered.register
def _(node: N.Stream, lower: Lowering) -> P.Operator:
    since = BEFORE_ALL if node.since is None else node.since
    return P.ScanOperator(node.name, node.schema.types, since=since)


@_lowered.register
def _(node: N.Table, lower: Lowering) -> P.Operator:
    return P.ScanOperator(node.name, node.schema.types)


@_lowered.register
def _(node: N.Values, lower: Lowering) -> P.Operator:
    return P.ConstantOperator(node.rows, node.schema.types)


@_lowered.register
def _(node: N.View, lower: Lowering) -> P.Operator:
    return lower(node.definition)


@_lowered.register(N.Alias)
@_lowered.register(N.Coalesce)
@_lowered.register(N.Split)
def _(node: N.Alias | N.Coalesce | N.Split, lower: Lowering) -> P.Operator:
    """No snapshot changes: kernels coalesce what they emit anyway."""
    return lower(node.input)


# Row by row


@_lowered.register
def _(node: N.Filter, lower: Lowering) -> P.Operator:
    return P.FilterOperator(lower(node.input), _positional(node.condition, node.input.schema))


@_lowered.register
def _(node: N.Project, lower: Lowering) -> P.Operator:
    return P.ProjectOperator(
        lower(node.input), tuple(_positional(e, node.input.schema) for _, e in node.columns)
    )


@_lowered.register
def _(node: N.GroupMember, lower: Lowering) -> P.Operator:
    by = _positional(node.by, node.input.schema)
    return P.FilterOperator(lower(node.input), Comparison("=", by, Literal(node.value, by.type)))


@_lowered.register
def _(node: N.Union, lower: Lowering) -> P.Operator:
    left, right = _sides(node, lower)
    return P.UnionOperator(left.plan, right.plan)


@_lowered.register
def _(node: N.Synchronize, lower: Lowering) -> P.Operator:
    return P.SyncEveryOperator(lower(node.input), node.grid)


def _positional(expression: Expression, schema: Schema) -> Expression:
    """The expression over columns by position."""
    by_position: dict[Expression, Expression] = {
        Column.to(f): Column(P.column(i), f.type) for i, f in enumerate(schema)
    }
    return substitute(expression, by_position)


def _sides(node: N.Node, lower: Lowering) -> tuple[Side, Side]:
    """Both inputs of a set operation, their values widened to the result's types."""
    sides = lower.side(node.inputs[0], "left input"), lower.side(node.inputs[1], "right input")
    left, right = (replace(side, plan=_cast(side.plan, node.schema.types)) for side in sides)
    return left, right


def _cast(plan: P.Operator, types: Sequence[DataType]) -> P.Operator:
    if plan.types == tuple(types):
        return plan
    return P.ProjectOperator(plan, tuple(as_type(c, t) for c, t in zip(plan.columns, types, strict=True)))


# Windows and time


@_lowered.register
def _(node: N.Window, lower: Lowering) -> P.Operator:
    schema = node.input.schema
    line = schema.timeline
    if line is None:
        return lower(node.input)
    if not isinstance(node.window, Rows):
        return lower.ended(P.TimeWindowOperator(lower(node.input), schema.index(line), node.window))
    below = lower.with_intervals(node.input)
    partition = tuple(schema.index(schema.find(name)) for name in node.window.partition_by)
    count = "the last row" if node.window.count == 1 else f"the last {node.window.count} rows"
    per = f" per {', '.join(map(name_sql, node.window.partition_by))}" if partition else ""
    rows = InputRows(count + per, life(node).lasts, until="until pushed out")
    order = _arrival_order(node.input)
    return lower.ended(P.RowWindowOperator(below, node.window.count, partition, order, rows=(rows,)))


def _arrival_order(node: N.Node) -> tuple[int, ...]:
    """The time line, the SEQUENCE BY columns, all columns."""
    base = N.base_of(node)
    sequence = base.sequence if isinstance(base, N.Stream) else ()
    line = node.schema.timeline
    first = [] if line is None else [node.schema.index(line)]
    named = [node.schema.index(node.schema.find(name)) for name in sequence]
    return tuple(dict.fromkeys([*first, *named, *range(len(node.schema))]))


@_lowered.register
def _(node: N.Tagged, lower: Lowering) -> P.Operator:
    below = lower.with_intervals(node.input)
    schema = node.input.schema
    deletes = Literal(False, BOOLEAN) if node.delete_when is None else _positional(node.delete_when, schema)
    marked = P.ProjectOperator(below, (*below.columns, deletes))
    key = tuple(schema.index(schema.find(name)) for name in node.key)
    rows = InputRows(f"the latest row per {', '.join(map(name_sql, node.key))}", until="until replaced")
    return P.LatestPerKeyOperator(marked, key, _arrival_order(node.input), rows=(rows,))


@_lowered.register
def _(node: N.SynchronizeOn, lower: Lowering) -> P.Operator:
    points = lower.side(node.points)
    inserted = P.InsertionsOperator(points.plan, deletions=False, rows=(points.rows,))
    return P.SyncOnOperator(lower(node.input), inserted)


@_lowered.register(N.IStream)
@_lowered.register(N.DStream)
def _(node: N.IStream | N.DStream, lower: Lowering) -> P.Operator:
    below = lower.side(node.input)
    return P.InsertionsOperator(below.plan, isinstance(node, N.DStream), rows=(below.rows,))


@_lowered.register
def _(node: N.RStream, lower: Lowering) -> P.Operator:
    below = lower.side(node.input)
    return P.RelationStreamOperator(below.plan, node.grid, rows=(below.rows,))


# Counts


@_lowered.register
def _(node: N.Distinct, lower: Lowering) -> P.Operator:
    below = lower.side(node.input)
    if below.rows.growth == Growth.BY_RECORD:
        # As with a group, a record that is there for ever is kept once; only where records have a time line
        # are there ever more of them.
        below = replace(below, rows=replace(below.rows, growth=Growth.NO))
    return below.distinct().plan


@_lowered.register(N.Difference)
@_lowered.register(N.Intersection)
@_lowered.register(N.MaxUnion)
def _(node: N.Difference | N.Intersection | N.MaxUnion, lower: Lowering) -> P.Operator:
    names = {N.Difference: "difference", N.Intersection: "intersection", N.MaxUnion: "max_union"}
    left, right = _sides(node, lower)
    return P.MultisetOperator(left.plan, right.plan, names[type(node)], rows=(left.rows, right.rows))


@_lowered.register
def _(node: N.StrictDifference, lower: Lowering) -> P.Operator:
    """What does not occur on the right at all: the left side less those of its rows that do."""
    left, right = _sides(node, lower)
    return joins.without(left.plan, joins.occurring(left, right.distinct()))


@_lowered.register
def _(node: N.Aggregate, lower: Lowering) -> P.Operator:
    below = lower.side(node.input)
    schema = node.input.schema
    keys = [_positional(e, schema) for _, e in node.keys]
    arguments: list[Expression] = []
    aggregates = []
    for position, (_, call) in enumerate(node.calls):
        if call.function not in AGGREGATE_FUNCTIONS:
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
            AggregateColumn(call.function, name, f"={output}", call.distinct, type_.precision, type_.scale)
        )
    computed = P.ProjectOperator(below.plan, (*keys, *arguments))
    results = tuple(call.type for _, call in node.calls)
    rows = replace(below.rows, grows_groups=life(node).grows)
    return P.AggregateOperator(
        computed, len(keys), tuple(aggregates), results, below.rows.signed, rows=(rows,)
    )


# Joins


@_lowered.register
def _(node: N.Join, lower: Lowering) -> P.Operator:
    return joins.join(*lower.both_sides(node), _over_both(node))


@_lowered.register
def _(node: N.SemiJoin, lower: Lowering) -> P.Operator:
    return joins.semi_join(*lower.both_sides(node), _over_both(node))[1]


@_lowered.register
def _(node: N.AntiJoin, lower: Lowering) -> P.Operator:
    return joins.anti_join(*lower.both_sides(node), _over_both(node))


@_lowered.register
def _(node: N.OuterJoin, lower: Lowering) -> P.Operator:
    """The join, and each kept side's rows without a partner padded with NULLs."""
    left, right = lower.both_sides(node)
    condition = _over_both(node)
    result = joins.join(left, right, condition)
    if node.kind in ("LEFT", "FULL"):
        alone = joins.anti_join(left, right, condition)
        result = P.UnionOperator(
            result, P.ProjectOperator(alone, (*alone.columns, *joins.nulls(right.plan.types)))
        )
    if node.kind in ("RIGHT", "FULL"):
        other = joins.swapped(condition, (len(left.plan.types), len(right.plan.types)))
        alone = joins.anti_join(right, left, other)
        result = P.UnionOperator(
            result, P.ProjectOperator(alone, (*joins.nulls(left.plan.types), *alone.columns))
        )
    return result


@_lowered.register
def _(node: N.TableJoin, lower: Lowering) -> P.Operator:
    """⋈R is a join as any other. ⋈NRR leaves the intervals of the stream's rows as they are."""
    left, right = lower.both_sides(node)
    condition = _over_both(node)
    if node.retroactive:
        joined = joins.join(left, right, condition)
        alone = joins.anti_join(left, right, condition) if node.outer else None
    else:
        line = node.left.schema.timeline
        timestamp = 0 if line is None else node.left.schema.index(line)
        left = replace(left, plan=lower.with_intervals(node.left))
        joined = joins.join(left, right, condition, joins.AsOf(timestamp, age(node.left).emitted))
        met = joins.first_columns(joined, len(left.plan.types))
        alone = P.VersionAntiJoinOperator(left.plan, met) if node.outer else None
    if alone is not None:
        joined = P.UnionOperator(
            joined, P.ProjectOperator(alone, (*alone.columns, *joins.nulls(right.plan.types)))
        )
    return joined if node.retroactive else lower.ended(joined)


def _over_both(node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin) -> Expression:
    """The condition of a join over the columns of both sides by position."""
    return _positional(node.condition, Schema(node.left.schema.fields + node.right.schema.fields))
