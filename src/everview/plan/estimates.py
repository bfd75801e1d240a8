"""Estimates of a physical plan: the rows that each operator emits and keeps (`rewrite/cost.py`).

Each physical operator has one function here: its output as a flow, and the rows of each part of its state.
An operator without one hands its input on, and keeps what its parts say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import (
    And,
    Comparison,
    Expression,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    conjuncts,
)
from everview.algebra.time import INFINITY, SECOND
from everview.algebra.types import DataType
from everview.algebra.windows import Fixed, Range
from everview.operators.base import position_of, source_column
from everview.plan.lower import Lowering
from everview.plan.statistics import Statistics
from everview.rewrite.cost import Flow, FlowOf, Work, count_occurring, join_flow, join_work, rewritten_rows

_OTHER_ROWS = 0.4  # the part of all rows, or pairs, that fulfil a condition of which nothing is known
_NULLS = 0.05
_CHANGE_BYTES = 32  # of begin, end, multiplicity and the hash of the key


@dataclass(frozen=True)
class OperatorEstimate:
    """What an operator emits, does in a second, and keeps: the rows of each part of its state, and bytes."""

    flow: Flow
    work: Work = field(default_factory=Work)
    state: Mapping[str, float] = field(default_factory=dict)
    row_bytes: int = 0

    @property
    def state_rows(self) -> float:
        return sum(self.state.values())

    @property
    def state_bytes(self) -> float:
        return self.state_rows * self.row_bytes


@dataclass(frozen=True)
class Estimates:
    """The estimates of operators by some statistics; each operator is estimated once."""

    statistics: Statistics
    done: dict[P.Operator, OperatorEstimate] = field(default_factory=dict)

    def __call__(self, plan: P.Operator) -> OperatorEstimate:
        if plan not in self.done:
            inputs = [self(below).flow for below in plan.inputs]
            self.done[plan] = _estimate(plan, inputs, self.statistics)
        return self.done[plan]

    def flow(self, plan: P.Operator) -> Flow:
        """Return what a plan emits."""
        return self(plan).flow


def all_operators(plan: P.Operator) -> set[P.Operator]:
    """Return the operators of a plan, each once."""
    found: set[P.Operator] = set()

    def walk(each: P.Operator) -> None:
        if each not in found:
            found.add(each)
            for below in each.inputs:
                walk(below)

    walk(plan)
    return found


def flow_of_nodes(find_statistics: Callable[[], Statistics]) -> FlowOf:
    """Return a function that estimates what a node emits, by the operators that it becomes.

    Most queries leave nothing to choose: statistics are looked up when the first flow is asked for.
    """
    lowering, known = Lowering("UPA"), list[Estimates]()

    def flow_of(node: N.Node) -> Flow:
        if not known:
            known.append(Estimates(find_statistics()))
        return known[0].flow(lowering(node))

    return flow_of


def row_bytes(types: Sequence[DataType]) -> int:
    """Return how many bytes a row of a state takes, roughly: text is taken to have 16.

    >>> from everview.algebra.types import INT, STRING
    >>> row_bytes([INT, STRING])
    52
    """
    return _CHANGE_BYTES + sum(
        t.bits // 8 if t.is_integer else 16 if str(t) == "STRING" else 8 for t in types
    )


def _touched(values: float, changes: float, step: float) -> float:
    """Return how many keys change in a step, by the second: each may change several times."""
    return count_occurring(values, changes * step) / step


@singledispatch
def _estimate(operator: P.Operator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """Return the estimate of an operator that has no formula of its own: its first input, kept as it says."""
    flow = replace(inputs[0], values=_fit_values(inputs[0].values, operator.types))
    if not isinstance(operator, P.StatefulOperator):
        return OperatorEstimate(flow, Work(flow.rate))
    state = {part.name: _kept(part, inputs[0]) for part in operator.state}
    return _with_state(operator, flow, inputs, state, probed=inputs[0].rate)


def _kept(part: P.StatePart, flow: Flow) -> float:
    """Return how many rows of a flow a part of a state keeps, by how long it keeps a row."""
    if part.lasts is None or part.lasts >= INFINITY:
        return flow.kept
    return min(flow.kept, flow.rate * part.lasts / SECOND)


def _fit_values(values: tuple[float, ...], types: Sequence[DataType]) -> tuple[float, ...]:
    return (*values, *[math.inf] * len(types))[: len(types)]


def _with_state(
    operator: P.Operator, flow: Flow, inputs: Sequence[Flow], state: Mapping[str, float], probed: float
) -> OperatorEstimate:
    """Return the estimate of an operator that writes its inputs to its state."""
    written = sum(each.rate for each in inputs)
    work = Work(flow.rate, probed, written, rewritten_rows(written, sum(state.values())))
    width = max(row_bytes(below.types) for below in operator.inputs)
    return OperatorEstimate(flow, work, state, width)


# Leaves


@_estimate.register
def _(operator: P.ScanOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    found = known.of(operator.relation, operator.types)
    rows = found.rate * known.span if found.rows is None else found.rows
    values = tuple(math.inf if count is None else count for count in found.values)
    flow = Flow(found.rate, found.rate, rows, rows, _fit_values(values, operator.types))
    return OperatorEstimate(flow)


@_estimate.register
def _(operator: P.ConstantOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    rows = float(len(operator.records))
    return OperatorEstimate(Flow(0.0, 0.0, rows, rows, (rows,) * len(operator.types)))


# Row by row


@_estimate.register
def _(operator: P.FilterOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    (flow,) = inputs
    share = estimate_share(operator.condition, flow.values)
    values = list(flow.values)
    for part in conjuncts(operator.condition):
        match part:
            case Comparison("=", column, Literal()) | Comparison("=", Literal(), column):
                at = source_column(column)
                if at is not None:
                    values[at] = 1.0
    kept = replace(flow.thin(share), values=tuple(values))
    return OperatorEstimate(kept, Work(kept.rate))


def estimate_share(condition: Expression, values: Sequence[float]) -> float:
    """Return the part of all rows that fulfil a condition, by the different values of the columns."""
    match condition:
        case And(left, right):
            return estimate_share(left, values) * estimate_share(right, values)
        case Or(left, right):
            missing = (1 - estimate_share(left, values)) * (1 - estimate_share(right, values))
            return 1 - missing
        case Not(operand):
            return 1 - estimate_share(operand, values)
        case Comparison("=" | "<=>", left, right):
            return 1 / max(_value_count(left, values), _value_count(right, values))
        case Comparison("<>" | "!=", left, right):
            return 1 - 1 / max(_value_count(left, values), _value_count(right, values))
        case InList(operand, items):
            return min(len(items) / _value_count(operand, values), 1.0)
        case IsNull():
            return _NULLS
        case Literal(value):
            return 1.0 if value else 0.0
    return _OTHER_ROWS


def _value_count(expression: Expression, values: Sequence[float]) -> float:
    """Return how many different values an expression can have, at most as many as its columns together."""
    return max(math.prod(values[position_of(c)] for c in expression.columns()), 1.0)


@_estimate.register
def _(operator: P.ProjectOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    (flow,) = inputs
    values = tuple(_value_count(e, flow.values) for e in operator.outputs)
    return OperatorEstimate(replace(flow, values=values), Work(flow.rate))


@_estimate.register
def _(operator: P.UnionOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    one, other = inputs
    flow = Flow(
        one.rate + other.rate,
        one.events + other.events,
        max(one.holds + other.holds, 0.0),
        max(one.kept + other.kept, 0.0),
        tuple(map(max, one.values, other.values)),
        min(one.grain, other.grain),
    )
    return OperatorEstimate(flow, Work(flow.rate))


@_estimate.register
def _(operator: P.NegateOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """The rows are taken from those that they are united with: fewer hold, and more flow."""
    (flow,) = inputs
    return OperatorEstimate(replace(flow, holds=-flow.holds, kept=-flow.kept), Work(flow.rate))


# Windows and time


@_estimate.register
def _(operator: P.TimeWindowOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    (flow,) = inputs
    match operator.window:
        case Range(extent, slide, lag):
            length, grain, ahead = extent / SECOND, slide / SECOND if slide > 1 else 0.0, lag / SECOND
        case Fixed(extent):
            length, grain, ahead = extent / SECOND / 2, 0.0, 0.0
        case _:
            return OperatorEstimate(flow, Work(flow.rate))
    rate = flow.rate * min(length / grain, 1.0) if grain else flow.rate
    holds = min(flow.holds, rate * max(length, grain))
    kept = min(flow.kept, rate * (max(length, grain) + ahead + grain / 2))
    made = Flow(rate, 2 * rate, holds, kept, flow.values, max(grain, flow.grain))
    return OperatorEstimate(made, Work(rate))


@_estimate.register
def _(operator: P.SyncEveryOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """A row whose begin and end fall to the same point is dropped."""
    (flow,) = inputs
    grain = operator.grid.step / SECOND
    closed = flow.closed * min(flow.lasts / grain, 1.0)
    open_ = flow.rate - flow.closed
    made = Flow(
        closed + open_, 2 * closed + open_, flow.holds, flow.kept, flow.values, max(grain, flow.grain)
    )
    return OperatorEstimate(made, Work(made.rate))


@_estimate.register
def _(operator: P.SummedSyncOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """At a point each row that holds is replaced at most once; the state is as large as just before one."""
    (flow,) = inputs
    grain = operator.grid.step / SECOND
    rate = min(flow.rate, 2 * _touched(max(flow.holds, 1.0), flow.rate, grain))
    made = Flow(rate, rate, flow.holds, flow.holds, flow.values, max(grain, flow.grain))
    return _with_state(operator, made, inputs, {"waiting": rate * grain}, flow.rate)


@_estimate.register
def _(operator: P.RowWindowOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    (flow,) = inputs
    partitions = flow.distinct(operator.partition)
    holds = min(operator.count * count_occurring(partitions, flow.holds), flow.holds)
    full = holds / (operator.count * partitions)
    rate = flow.rate + full * min(flow.rate, holds / known.step)  # rows of earlier steps are retracted
    made = Flow(rate, 2 * flow.rate, holds, holds, flow.values, flow.grain)
    return _with_state(operator, made, inputs, {"open": holds}, flow.rate)


@_estimate.register
def _(
    operator: P.SlidingRowWindowOperator, inputs: Sequence[Flow], known: Statistics
) -> OperatorEstimate:  # fmt: skip
    """Of each slide, the last rows are seen; half a slide waits."""
    (flow,) = inputs
    partitions = count_occurring(flow.distinct(operator.partition), flow.holds)
    holds = min(operator.count * partitions, flow.holds)
    rate = 2 * flow.rate * min(1.0, operator.count / operator.slide)
    made = Flow(rate, rate, holds, holds, flow.values, flow.grain)
    waiting = min((operator.count + operator.slide / 2) * partitions, flow.holds)
    return _with_state(operator, made, inputs, {"open": waiting}, flow.rate)


@_estimate.register
def _(operator: P.SessionOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """Sessions are taken to be as long as their gap; a step emits what is open of the keys it touches."""
    (flow,) = inputs
    holds = min(2 * flow.rate * operator.gap / SECOND, flow.holds)
    emitted = flow.rate + min(flow.rate, holds / known.step)
    rate = emitted * (2 if operator.with_end else 1)
    values = (*flow.values, *[math.inf] * (len(operator.types) - len(operator.input.types)))
    made = Flow(rate, rate, holds, holds, values, flow.grain)
    return _with_state(operator, made, inputs, {"open": holds}, flow.rate)


@_estimate.register
def _(operator: P.LatestPerKeyOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    (flow,) = inputs
    keys = flow.distinct(operator.key)
    deletes = operator.input.outputs[-1] if isinstance(operator.input, P.ProjectOperator) else None
    kept = 1.0 if deletes is None else 1 - estimate_share(deletes, flow.values)
    holds = count_occurring(keys, flow.holds) * kept
    replaced = holds / keys * _touched(keys, flow.rate, known.step)  # the first of each key in a step
    rate = flow.rate * kept + replaced
    made = Flow(rate, 2 * flow.rate, holds, holds, flow.values[:-1], flow.grain)
    return _with_state(operator, made, inputs, {"open": holds}, flow.rate)


@_estimate.register
def _(operator: P.SyncedLatestOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """At a point each key that has new rows is replaced once; of its rows only the last one waits."""
    (flow,) = inputs
    grain = operator.grid.step / SECOND
    keys = flow.distinct(operator.key)
    deletes = operator.input.outputs[-1] if isinstance(operator.input, P.ProjectOperator) else None
    kept = 1.0 if deletes is None else 1 - estimate_share(deletes, flow.values)
    holds = count_occurring(keys, flow.holds) * kept
    changed = _touched(keys, flow.rate, grain)
    rate = changed * kept + holds / keys * changed
    made = Flow(rate, rate, holds, holds, flow.values[:-1], max(grain, flow.grain))
    return _with_state(operator, made, inputs, {"open": holds, "waiting": changed * grain}, flow.rate)


@_estimate.register
def _(operator: P.SyncOnOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    flow, points = inputs
    gap = 1 / points.rate if points.rate else known.span
    closed = flow.closed * min(flow.lasts / gap, 1.0)
    open_ = flow.rate - flow.closed
    made = Flow(
        2 * closed + open_, 2 * closed + open_, flow.holds, flow.kept, flow.values, max(gap, flow.grain)
    )
    return _with_state(operator, made, [flow], {"waiting": flow.kept + flow.rate * gap / 2}, flow.rate)


# Counts


@_estimate.register
def _(operator: P.RankOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """A change within the limit moves one row in and one out; with ranks, those behind it change too."""
    (flow,) = inputs
    partitions = count_occurring(flow.distinct(operator.partition), flow.holds)
    each = max(flow.holds / max(partitions, 1.0), 1.0)
    first = each if operator.limit is None else min(operator.limit.count, each)
    moved = 2.0 if not operator.ranks else 1.0 + first
    rate = flow.events * first / each * moved
    holds = first * partitions
    values = (*flow.values[: operator.width], *[first] * len(operator.ranks))
    kept = flow.kept
    if operator.limit is not None and not operator.signed:  # those that outlast all but a few better ones
        outlasting = 1 + math.log(each / first) if flow.closed else 1.0
        kept = min(first * outlasting * partitions, flow.kept)
    state = {part.name: holds if part.queue else kept for part in operator.state}
    return _with_state(operator, Flow(rate, rate, holds, holds, values, flow.grain), inputs, state, flow.rate)


@_estimate.register
def _(operator: P.OverOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """A change moves the rows whose frames it is in: all of its partition, those behind it, or a few."""
    (flow,) = inputs
    each = max(flow.holds / max(count_occurring(flow.distinct(operator.partition), flow.holds), 1.0), 1.0)
    moved = 2 * max(min(call.reach(each), each) for call in operator.calls)
    rate = flow.events * (1.0 + moved)
    values = (*flow.values[: operator.width], *[flow.holds] * len(operator.calls))
    state = {part.name: flow.holds if part.queue else flow.kept for part in operator.state}
    made = Flow(rate, rate, flow.holds, flow.holds, values, flow.grain)
    return _with_state(operator, made, inputs, state, flow.rate)


@_estimate.register
def _(operator: P.DistinctOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """δ* emits what is not yet covered, δ the changes between none and one."""
    (flow,) = inputs
    records = flow.distinct()
    holds = count_occurring(records, flow.holds)
    if operator.signed:
        rate = flow.rate * (holds / flow.holds if flow.holds > 0 else 1.0)
        made = Flow(
            rate, flow.events * rate / flow.rate if flow.rate else 0.0, holds, holds, flow.values, flow.grain
        )
        state = {"rows": flow.kept}
    elif flow.closed:
        # If ends come in any order, as of pairs of rows, only the row that ends last extends what is covered:
        # of the k·k pairs of k rows on each side, those of one in two new rows.
        copies = flow.holds / records
        later = 1.0 if operator.rows_of(0).in_order or copies < 0.25 else 0.5 / math.sqrt(copies)
        rate = _touched(records, flow.rate * later, known.step)
        made = Flow(rate, 2 * rate, holds, holds, flow.values, flow.grain, extends=True)
        state = {"covered": holds}
    else:
        rate = flow.rate * (1 - holds / records)  # a record that never ends is emitted once
        made = Flow(rate, rate, holds, holds, flow.values, flow.grain)
        state = {"covered": holds}
    return _with_state(operator, made, inputs, state, flow.rate)


@_estimate.register(P.MultisetOperator)
@_estimate.register(P.CopyCountsOperator)
def _(
    operator: P.MultisetOperator | P.CopyCountsOperator, inputs: Sequence[Flow], known: Statistics
) -> OperatorEstimate:
    left, right = inputs
    here, there = (
        n if math.isfinite(n) else max(side.holds, 1.0)
        for n, side in ((left.distinct(), left), (right.distinct(), right))
    )
    both = min(here, there)  # the records that can be on both sides
    one, other = left.holds / here, right.holds / there
    more, above = expect_excess(one, other)
    shared = {"difference": more, "intersection": one - more, "max_union": other + more}[operator.function]
    alone, other_alone = left.thin(1 - both / here), right.thin(1 - both / there)
    holds = both * shared
    if operator.function != "intersection":
        holds += alone.holds
    if operator.function == "max_union":
        holds += other_alone.holds
    # A left row changes a difference where no fewer left than right rows hold, a right one where more do:
    # in pieces, as both go up and down like a random walk.
    below = expect_excess(other, one)[1]
    pieces = 1 + 2 * math.sqrt(one + other) * above * below
    from_left, from_right = left.rate * both / here, right.rate * both / there
    match operator.function:
        case "difference":
            changes, apart = from_left * (1 - below) + from_right * above, [alone]
        case "intersection":
            changes, apart = from_left * (1 - above) + from_right * (1 - below), []
        case _:
            changes = from_left * (1 - below) + from_right * (1 - above)
            apart = [alone, other_alone]
    rate = changes * pieces + sum(side.rate for side in apart)
    ends = [side.kept / side.rate for side in inputs if side.rate and side.closed]
    grain = max(left.grain, right.grain)
    if isinstance(operator, P.CopyCountsOperator):
        # Results have no end: each begin and end that changes a count emits a row.
        both_ends = max((side.events / side.rate for side in inputs if side.rate), default=1.0)
        rate = changes * both_ends + sum(side.events for side in apart)
        made = Flow(rate, rate, holds, holds, left.values, grain)
        counted = sum(count_occurring(n, side.holds) for n, side in ((here, left), (there, right)))
        state = {"counts": counted, "queue": sum(side.kept for side in inputs if side.closed)}
        state = {part.name: state[part.name] for part in operator.state}
        return _with_state(operator, made, inputs, state, left.events + right.events)
    kept = max(holds, rate * min(ends, default=0.0) / 4)
    made = Flow(rate, 2 * rate, holds, kept, left.values, grain)
    state = {"left": left.kept, "right": right.kept}
    probed = left.rate * (one + other) + right.rate * (one + other)
    return _with_state(operator, made, inputs, state, probed)


def expect_excess(one: float, other: float) -> tuple[float, float]:
    """Return E[max(0, l - r)] and P(l > r) for two Poisson numbers with these means.

    >>> [round(x, 3) for x in expect_excess(0.1, 0.0)], [round(x, 3) for x in expect_excess(900, 400)]
    ([0.1, 0.095], [500.0, 1.0])
    """
    spread = math.sqrt(one + other)
    if one + other > 50:
        z = (one - other) / spread
        above = (1 + math.erf(z / math.sqrt(2))) / 2
        return (one - other) * above + spread * math.exp(-z * z / 2) / math.sqrt(2 * math.pi), above
    most = int(one + other + 12 * spread) + 2
    left, right = ([_poisson(mean, k) for k in range(most)] for mean in (one, other))
    pairs = [(i - j, p * q) for i, p in enumerate(left) for j, q in enumerate(right[:i])]
    return sum(n * p for n, p in pairs), sum(p for _, p in pairs)


def _poisson(mean: float, k: int) -> float:
    return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) if mean > 0 else float(k == 0)


@_estimate.register
def _(operator: P.AggregateOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    """Each begin and end changes the value of its group; the last value of a step is retracted later."""
    (flow,) = inputs
    possible = flow.distinct(range(operator.groups))
    groups = count_occurring(possible, flow.holds) if operator.groups else 1.0
    members = max(flow.holds / groups, 1.0) if groups else 1.0
    changes = flow.events
    if flow.grain:
        changes = _touched(possible, flow.events, flow.grain)
    if all(aggregate.extreme for aggregate in operator.aggregates) and operator.aggregates:
        changes /= members  # most rows are neither the least nor the greatest
    rate = changes + groups / possible * _touched(possible, changes, known.step)
    values = (*flow.values[: operator.groups], *[math.inf] * len(operator.results))
    made = Flow(rate, 2 * changes, groups, groups, values, flow.grain)
    ends = flow.closed / flow.rate * flow.kept if flow.rate else 0.0
    if flow.grain:
        ends = min(ends, groups * max(flow.lasts / flow.grain, 1.0))
    state = {}
    for part in operator.state:
        if part.name == "sums":
            state[part.name] = groups
        elif part.name == "queue":
            state[part.name] = ends
        elif part.name == "rows":  # of rows in random order, so many are greater than all that come after
            state[part.name] = flow.kept if operator.keeps_all_rows else groups * (math.log(members) + 0.58)
        else:
            state[part.name] = count_occurring(math.inf, flow.holds)
    return _with_state(operator, made, inputs, state, _touched(possible, flow.events, known.step))


# Joins


def _share_of_keys(left: Flow, right: Flow, left_keys: Sequence[int], right_keys: Sequence[int]) -> float:
    """Return the part of all pairs that have equal keys; unique values are as many as rows."""
    share = 1.0
    for i, j in zip(left_keys, right_keys, strict=True):
        values = [
            n if math.isfinite(n) else side.holds
            for n, side in ((left.values[i], left), (right.values[j], right))
        ]
        share /= max(*values, 1.0)
    return share


@_estimate.register
def _(operator: P.JoinOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    left, right = inputs
    share = _share_of_keys(left, right, operator.left_keys, operator.right_keys)
    return _join(operator, join_flow(left, right, share, known.step), left, right)


@_estimate.register
def _(operator: P.BandJoinOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    left, right = inputs
    return _join(operator, join_flow(left, right, _OTHER_ROWS, known.step), left, right)


def _join(operator: P.StatefulOperator, pairs: Flow, left: Flow, right: Flow) -> OperatorEstimate:
    state = {"left": left.kept, "right": right.kept}
    width = max(row_bytes(below.types) for below in operator.inputs)
    return OperatorEstimate(pairs, join_work(left, right, pairs), state, width)


@_estimate.register
def _(operator: P.VersionJoinOperator, inputs: Sequence[Flow], known: Statistics) -> OperatorEstimate:
    left, right = inputs
    share = _share_of_keys(left, right, operator.left_keys, operator.right_keys) * right.holds
    flow = replace(left.thin(share), values=left.values + right.values)
    return _with_state(operator, flow, [right], {"versions": right.kept}, flow.rate)
