"""Algebra to the physical plan: composite operators become joins, distincts and sums of change rows.

Three strategies (paper 2, sections 2.3 and 5). UPA uses what the update patterns allow: δ* and expiry
buckets where rows are never retracted, MIN and MAX that drop rows. DIRECT uses intervals, but no patterns.
NT uses no ends: a negative row retracts each row of a window when its end has come.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import Case, Comparison, Expression, Literal
from everview.algebra.over import Over, Rank
from everview.algebra.schema import Schema
from everview.algebra.session import Session
from everview.algebra.text import name_sql
from everview.algebra.types import BOOLEAN, INT, DataType
from everview.algebra.windows import Rows
from everview.errors import PlanError
from everview.operators.aggregates.accumulators import AGGREGATE_FUNCTIONS, AggregateColumn
from everview.operators.base import Growth, InputRows
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan import lower_joins as joins
from everview.plan.copies import estimate_copies
from everview.plan.lower_joins import LoweredInput, cast_to
from everview.plan.lower_over import lower_over, lower_rank
from everview.plan.positions import bind_positions
from everview.plan.strategies import find_strategy
from everview.temporal.ages import age
from everview.temporal.life import life
from everview.temporal.update_patterns import Pattern, edge

_MANY_COPIES = 16  # rows of a record; measured, see docs/performance.md


def lower(plan: N.Node, strategy: str = "UPA") -> P.Operator:
    """Return the physical plan of an algebra plan."""
    return Lowering(find_strategy(strategy))(plan)


@dataclass(frozen=True)
class Lowering:
    """One lowering: its strategy, and the nodes that are lowered already; each is lowered once.

    With `first`, the techniques are those of the releases that kept no plans with a store. `counted` says of
    nodes whether copies are counted, by cost (`negation.py`); of others it is assumed by the plan alone.
    The inputs of the joins in `negative` have no ends.
    """

    strategy: str
    done: dict[int, tuple[N.Node, P.Operator]] = field(default_factory=dict)
    first: bool = False
    counted: Mapping[N.Node, bool] = field(default_factory=dict)
    negative: Container[N.Node] = frozenset()

    def __call__(self, node: N.Node) -> P.Operator:
        if id(node) not in self.done:
            self.done[id(node)] = (
                node,
                _lower_node(node, self),
            )  # the node stays alive as long as its id is used
        return self.done[id(node)][1]

    def lower_input(
        self, node: N.Node, label: str = "its input", until: str = "until retracted"
    ) -> LoweredInput:
        """Return the plan of an input, with what is known of its rows; EXPLAIN calls them `label`."""
        if self.strategy != "UPA":
            return LoweredInput(self(node), InputRows(label, until=until))
        flow, rows = edge(node), life(node)
        growth = Growth.NO
        if rows.grows:
            growth = Growth.BY_RECORD if node.schema.timeline is None else Growth.BY_ROW
        in_order = flow.pattern <= Pattern.WKS
        plan = self(node)
        waits = 0 if _emits_open_rows(plan) else rows.waits
        coalesces = not flow.signed and _rows_coalesce(plan)
        return LoweredInput(
            plan,
            InputRows(
                label, rows.lasts, waits, in_order, flow.signed, growth, until=until, coalesces=coalesces
            ),
        )

    def has_signed_rows(self, node: N.Node) -> bool:
        """Return whether a technique for rows that may be retracted is used for a node's output."""
        return self.strategy == "UPA" and not self.first and edge(node).signed

    def lower_inputs(
        self, node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin
    ) -> tuple[LoweredInput, LoweredInput]:
        """Return both inputs of a join."""
        if isinstance(node, N.TableJoin):
            return self.lower_input(node.left, "left input"), self.lower_input(
                node.right, "the table", "until replaced"
            )
        return self.lower_input(node.left, "left input"), self.lower_input(node.right, "right input")

    def lower_with_intervals(self, node: N.Node) -> P.Operator:
        """Return the plan of an input whose rows must not be retracted: windows have ends, also under NT."""
        return Lowering("DIRECT")(node) if self.strategy == "NT" else self(node)

    def retract_at_end(self, plan: P.Operator) -> P.Operator:
        """Return the plan of a window, under NT with its rows retracted at their end."""
        return P.NegativeTuplesOperator(plan) if self.strategy == "NT" else plan


@singledispatch
def _lower_node(node: N.Node, lower: Lowering) -> P.Operator:
    raise TypeError(f"no physical plan for {type(node).__name__}")


# Leaves, and nodes that become no operator


@_lower_node.register
def _(node: N.Stream, lower: Lowering) -> P.Operator:
    since = BEFORE_ALL if node.since is None else node.since
    return P.ScanOperator(node.name, node.schema.types, since=since)


@_lower_node.register
def _(node: N.Table, lower: Lowering) -> P.Operator:
    return P.ScanOperator(node.name, node.schema.types)


@_lower_node.register
def _(node: N.Values, lower: Lowering) -> P.Operator:
    return P.ConstantOperator(node.rows, node.schema.types)


@_lower_node.register
def _(node: N.View, lower: Lowering) -> P.Operator:
    return lower(node.definition)


@_lower_node.register(N.Alias)
@_lower_node.register(N.Coalesce)
@_lower_node.register(N.Split)
def _(node: N.Alias | N.Coalesce | N.Split, lower: Lowering) -> P.Operator:
    """No snapshot changes: kernels coalesce their output in any case."""
    return lower(node.input)


# Row by row


@_lower_node.register
def _(node: N.Filter, lower: Lowering) -> P.Operator:
    return P.FilterOperator(lower(node.input), bind_positions(node.condition, node.input.schema))


@_lower_node.register
def _(node: N.Project, lower: Lowering) -> P.Operator:
    return P.ProjectOperator(
        lower(node.input), tuple(bind_positions(e, node.input.schema) for _, e in node.columns)
    )


@_lower_node.register
def _(node: N.GroupMember, lower: Lowering) -> P.Operator:
    by = bind_positions(node.by, node.input.schema)
    return P.FilterOperator(lower(node.input), Comparison("=", by, Literal(node.value, by.type)))


@_lower_node.register
def _(node: N.Union, lower: Lowering) -> P.Operator:
    left, right = _set_inputs(node, lower)
    return P.UnionOperator(left.plan, right.plan)


@_lower_node.register
def _(node: N.Synchronize, lower: Lowering) -> P.Operator:
    """Rows that may be retracted wait for their point, so that they cancel; others go on at once.

    The rows of a tagged stream wait before they are tagged: of each key only the last one counts.
    """
    tagged = _tagged_stream(node.input)
    if tagged is not None and lower.has_signed_rows(node.input):
        latest = lower(tagged)
        assert isinstance(latest, P.LatestPerKeyOperator)
        return P.SyncedLatestOperator(
            latest.input, latest.key, latest.order, grid=node.grid, rows=latest.rows
        )
    if lower.has_signed_rows(node.input):
        below = lower.lower_input(node.input)
        one = isinstance(below.plan, P.StatefulOperator) and not below.plan.keys
        return P.SummedSyncOperator(below.plan, node.grid, one, rows=(below.rows,))
    return P.SyncEveryOperator(lower(node.input), node.grid)


def _rows_coalesce(plan: P.Operator) -> bool:
    """Return whether rows of a plan may begin where others of the same record end."""
    match plan:
        case P.DistinctOperator() | P.MultisetOperator() | P.SessionOperator():
            return True
        case P.VersionJoinOperator():
            return _rows_coalesce(plan.inputs[0])
        case (
            P.FilterOperator() | P.ProjectOperator() | P.UnionOperator()
            | P.JoinOperator() | P.BandJoinOperator() | P.SyncEveryOperator()
        ):  # fmt: skip
            return any(_rows_coalesce(below) for below in plan.inputs)
    return False


def _tagged_stream(node: N.Node) -> N.Tagged | None:
    """Return the tagged stream that a node is, perhaps under other names."""
    match node:
        case N.Tagged():
            return node
        case N.View(_, below) | N.Alias(below):
            return _tagged_stream(below)
    return None


def _emits_open_rows(plan: P.Operator) -> bool:
    """Return whether no row of a plan begins or ends after the slice in which it is emitted."""
    match plan:
        case P.CopyCountsOperator() | P.NegativeTuplesOperator() | P.SyncedLatestOperator():
            return True
        case P.SummedSyncOperator():
            return plan.rows_of(0).waits == 0
        case P.FilterOperator() | P.ProjectOperator() | P.UnionOperator() | P.JoinOperator():
            return all(_emits_open_rows(below) for below in plan.inputs)
    return False


def _set_inputs(node: N.Node, lower: Lowering) -> tuple[LoweredInput, LoweredInput]:
    """Return both inputs of a set operation, their values widened to the result's types."""
    sides = lower.lower_input(node.inputs[0], "left input"), lower.lower_input(node.inputs[1], "right input")
    left, right = (replace(side, plan=widen_columns(side.plan, node.schema.types)) for side in sides)
    return left, right


def widen_columns(plan: P.Operator, types: Sequence[DataType]) -> P.Operator:
    if plan.types == tuple(types):
        return plan
    return P.ProjectOperator(plan, tuple(cast_to(c, t) for c, t in zip(plan.columns, types, strict=True)))


# Windows and time


@_lower_node.register
def _(node: N.Window, lower: Lowering) -> P.Operator:
    schema = node.input.schema
    line = schema.timeline
    if line is None:
        return lower(node.input)
    if not isinstance(node.window, Rows):
        return lower.retract_at_end(P.TimeWindowOperator(lower(node.input), schema.index(line), node.window))
    below = lower.lower_with_intervals(node.input)
    partition = tuple(schema.index(schema.find(name)) for name in node.window.partition_by)
    count = "the last row" if node.window.count == 1 else f"the last {node.window.count} rows"
    per = f" per {', '.join(map(name_sql, node.window.partition_by))}" if partition else ""
    rows = InputRows(count + per, life(node).lasts, until="until pushed out")
    order = _arrival_order(node.input)
    if node.window.slide > 1:
        kept = replace(rows, label=f"{rows.label}, and those that wait for the next slide")
        return P.SlidingRowWindowOperator(
            below, node.window.count, node.window.slide, partition, order, rows=(kept,)
        )
    return lower.retract_at_end(P.RowWindowOperator(below, node.window.count, partition, order, rows=(rows,)))


@_lower_node.register
def _(node: Session, lower: Lowering) -> P.Operator:
    schema = node.input.schema
    partition = tuple(schema.index(schema.find(name)) for name in node.partition_by)
    per = f" per {', '.join(map(name_sql, node.partition_by))}" if partition else ""
    rows = InputRows(f"the rows of the open session{per}", until="until it is over")
    below = lower.lower_with_intervals(node.input)
    return lower.retract_at_end(P.SessionOperator(below, node.gap, partition, node.with_end, rows=(rows,)))


def _arrival_order(node: N.Node) -> tuple[int, ...]:
    """Return the columns that order rows: the time line, the SEQUENCE BY columns, then all others."""
    stream = N.stream_of(node)
    sequence = () if stream is None else stream.sequence
    line = node.schema.timeline
    first = [] if line is None else [node.schema.index(line)]
    named = [node.schema.index(node.schema.find(name)) for name in sequence]
    return tuple(dict.fromkeys([*first, *named, *range(len(node.schema))]))


@_lower_node.register
def _(node: N.Tagged, lower: Lowering) -> P.Operator:
    below = lower.lower_with_intervals(node.input)
    schema = node.input.schema
    deletes = (
        Literal(False, BOOLEAN) if node.delete_when is None else bind_positions(node.delete_when, schema)
    )
    marked = P.ProjectOperator(below, (*below.columns, deletes))
    key = tuple(schema.index(schema.find(name)) for name in node.key)
    rows = InputRows(f"the latest row per {', '.join(map(name_sql, node.key))}", until="until replaced")
    return P.LatestPerKeyOperator(marked, key, _arrival_order(node.input), rows=(rows,))


@_lower_node.register
def _(node: N.SynchronizeOn, lower: Lowering) -> P.Operator:
    points = lower.lower_input(node.points)
    inserted = P.InsertionsOperator(points.plan, deletions=False, rows=(points.rows,))
    return P.SyncOnOperator(lower(node.input), inserted)


@_lower_node.register(N.IStream)
@_lower_node.register(N.DStream)
def _(node: N.IStream | N.DStream, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    changes = P.InsertionsOperator(below.plan, isinstance(node, N.DStream), rows=(below.rows,))
    return P.StampOperator(changes) if node.stamped else changes


@_lower_node.register
def _(node: N.RStream, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    shown = P.RelationStreamOperator(below.plan, node.grid, rows=(below.rows,))
    return P.StampOperator(shown) if node.stamped else shown


# Counts


@_lower_node.register
def _(node: N.Distinct, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    if below.rows.growth == Growth.BY_RECORD:
        # As with a group, a record that never ends is kept once. Without a time line the number of different
        # records does not grow for ever.
        below = replace(below, rows=replace(below.rows, growth=Growth.NO))
    return below.distinct().plan


@_lower_node.register(N.Difference)
@_lower_node.register(N.Intersection)
@_lower_node.register(N.MaxUnion)
def _(node: N.Difference | N.Intersection | N.MaxUnion, lower: Lowering) -> P.Operator:
    """By the profile, or by counting copies where results may be retracted in any case (STR).

    The profile emits results with their ends, and reads all rows of each record that changes. Where no left
    row ends by itself there are no such ends, and copies are counted. Else that is less work only if records
    occur often, and results end early: the profile then retracts much of what it emitted.
    """
    names = {N.Difference: "difference", N.Intersection: "intersection", N.MaxUnion: "max_union"}
    left, right = _set_inputs(node, lower)
    often = lower.counted.get(node)
    if often is None or left.rows.waits == 0:
        often = left.rows.waits == 0 or estimate_copies(node.left) >= _MANY_COPIES
    counts = often and lower.has_signed_rows(node)
    made = P.CopyCountsOperator if counts else P.MultisetOperator
    return made(left.plan, right.plan, names[type(node)], rows=(left.rows, right.rows))


@_lower_node.register
def _(node: N.StrictDifference, lower: Lowering) -> P.Operator:
    """The left rows that do not occur on the right: all left rows minus those that do."""
    left, right = _set_inputs(node, lower)
    return joins.subtract_rows(left.plan, joins.keep_occurring(left, right.distinct()))


@_lower_node.register
def _(node: N.Aggregate, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    computed, aggregates = compute_arguments(node, below.plan)
    results = tuple(call.type for _, call in node.calls)
    rows = replace(below.rows, grows_groups=life(node).grows)
    return P.AggregateOperator(computed, len(node.keys), aggregates, results, below.rows.signed, rows=(rows,))


@_lower_node.register
def _(node: Rank, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    return lower_rank(node, below.plan, below.rows)


@_lower_node.register
def _(node: Over, lower: Lowering) -> P.Operator:
    below = lower.lower_input(node.input)
    return lower_over(node, below.plan, below.rows)


def compute_arguments(node: N.Aggregate, below: P.Operator) -> tuple[P.Operator, tuple[AggregateColumn, ...]]:
    """Return the keys and the arguments of the aggregates as columns, and the aggregates over them."""
    schema = node.input.schema
    keys = [bind_positions(e, schema) for _, e in node.keys]
    arguments: list[Expression] = []
    aggregates = []
    for position, (_, call) in enumerate(node.calls):
        if call.function not in AGGREGATE_FUNCTIONS:
            raise PlanError(f"the aggregate '{call.function}' has a meaning but no kernel yet")
        argument = None if call.argument is None else bind_positions(call.argument, schema)
        by = None if call.by is None else bind_positions(call.by, schema)
        if call.where is not None:  # what is NULL does not count
            shown = argument or Literal(1, INT) if by is None else by
            filtered = Case(((bind_positions(call.where, schema), shown),), Literal(None, shown.type))
            argument, by = (filtered, None) if by is None else (argument, filtered)
        columns = [e for e in (argument, by) if e is not None]
        arguments += dict.fromkeys(e for e in columns if e not in arguments)
        name, compared = (
            None if e is None else P.column(len(keys) + arguments.index(e)) for e in (argument, by)
        )
        type_ = call.type
        output = P.column(len(keys) + position)
        aggregates.append(
            AggregateColumn(
                call.function,
                name,
                f"={output}",
                call.distinct,
                type_.precision,
                type_.scale,
                compared,
                call.fraction,
            )
        )
    return P.ProjectOperator(below, (*keys, *arguments)), tuple(aggregates)


# Joins


@_lower_node.register
def _(node: N.Join, lower: Lowering) -> P.Operator:
    left, right = lower.lower_inputs(node)
    if node in lower.negative:
        left, right = _without_ends(left), _without_ends(right)
    return joins.join(left, right, positioned_condition(node))


def _without_ends(side: LoweredInput) -> LoweredInput:
    """Return an input with negative rows in place of ends."""
    if side.rows.waits == 0:
        return side
    return LoweredInput(P.NegativeTuplesOperator(side.plan), InputRows(side.rows.label, waits=0))


@_lower_node.register
def _(node: N.SemiJoin, lower: Lowering) -> P.Operator:
    return joins.semi_join(*lower.lower_inputs(node), positioned_condition(node))[1]


@_lower_node.register
def _(node: N.AntiJoin, lower: Lowering) -> P.Operator:
    return joins.anti_join(*lower.lower_inputs(node), positioned_condition(node))


@_lower_node.register
def _(node: N.OuterJoin, lower: Lowering) -> P.Operator:
    """The inner join, and the rows of each preserved side without a match, padded with NULLs."""
    left, right = lower.lower_inputs(node)
    condition = positioned_condition(node)
    result = joins.join(left, right, condition)
    if node.kind in ("LEFT", "FULL"):
        alone = joins.anti_join(left, right, condition)
        result = P.UnionOperator(
            result, P.ProjectOperator(alone, (*alone.columns, *joins.null_columns(right.plan.types)))
        )
    if node.kind in ("RIGHT", "FULL"):
        other = joins.swap_sides(condition, (len(left.plan.types), len(right.plan.types)))
        alone = joins.anti_join(right, left, other)
        result = P.UnionOperator(
            result, P.ProjectOperator(alone, (*joins.null_columns(left.plan.types), *alone.columns))
        )
    return result


@_lower_node.register
def _(node: N.TableJoin, lower: Lowering) -> P.Operator:
    """⋈R is an ordinary join. ⋈NRR keeps the intervals of the stream's rows."""
    left, right = lower.lower_inputs(node)
    condition = positioned_condition(node)
    if node.retroactive:
        joined = joins.join(left, right, condition)
        alone = joins.anti_join(left, right, condition) if node.outer else None
    else:
        timestamp = node.left.schema.index(node.version_line)
        left = replace(left, plan=lower.lower_with_intervals(node.left))
        joined = joins.join(left, right, condition, joins.VersionInstant(timestamp, age(node.left).emitted))
        met = joins.first_columns(joined, len(left.plan.types))
        alone = P.VersionAntiJoinOperator(left.plan, met) if node.outer else None
    if alone is not None:
        joined = P.UnionOperator(
            joined, P.ProjectOperator(alone, (*alone.columns, *joins.null_columns(right.plan.types)))
        )
    return joined if node.retroactive else lower.retract_at_end(joined)


def positioned_condition(node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin | N.TableJoin) -> Expression:
    """Return the condition of a join over the columns of both sides, by position."""
    return bind_positions(node.condition, Schema(node.left.schema.fields + node.right.schema.fields))
