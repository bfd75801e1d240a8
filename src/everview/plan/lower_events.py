"""Event queries as physical plans: from the timing of each node to operators that emit final rows only.

The waits of the analysis become waits of the operators (paper 3). A match goes out at once; NOT EXISTS, GROUP
BY, EXCEPT and padded sides hold their rows back until their clock has passed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.algebra.time import INFINITY
from everview.operators.base import Growth, InputRows
from everview.plan import lower_joins as joins
from everview.plan.lower import bind_positions, compute_arguments, positioned_condition, widen_columns
from everview.plan.lower_joins import LoweredInput
from everview.temporal.clocks import Clock, Wait
from everview.temporal.event_query import Timing
from everview.temporal.waits import clock_of

ARRIVALS = "arrivals"  # the source of a scan: the rows that came in a step, whatever their timestamps


def lower_events(timing: Timing) -> P.Operator:
    """Return the physical plan of an event query."""
    return _lower(timing.node, timing)


@singledispatch
def _lower(node: N.Node, timing: Timing) -> P.Operator:
    raise TypeError(f"no event operator for {type(node).__name__}")


def _below(timing: Timing) -> list[P.Operator]:
    return [lower_events(each) for each in timing.inputs]


def _wait(wait: Wait) -> P.EventWait:
    return P.EventWait(wait.column, wait.clock)


def _rows(wait: Wait, label: str) -> InputRows:
    """Return what EXPLAIN says of the rows that wait."""
    until = "until its wait is over" if wait.clock is None else f"until {wait.name} ≤ {wait.clock}"
    return InputRows(label, until=until, growth=Growth.BY_ROW if wait.clock is None else Growth.NO)


@_lower.register(N.Stream)
@_lower.register(N.View)
@_lower.register(N.IStream)
def _(node: N.Stream | N.View | N.IStream, timing: Timing) -> P.Operator:
    name = "ISTREAM" if isinstance(node, N.IStream) else node.name
    return P.ScanOperator(name, node.schema.types, ARRIVALS)


@_lower.register
def _(node: N.Alias, timing: Timing) -> P.Operator:
    return _below(timing)[0]


@_lower.register
def _(node: N.Filter, timing: Timing) -> P.Operator:
    return P.FilterOperator(_below(timing)[0], bind_positions(node.condition, node.input.schema))


@_lower.register
def _(node: N.Project, timing: Timing) -> P.Operator:
    outputs = tuple(bind_positions(e, node.input.schema) for _, e in node.columns)
    return P.ProjectOperator(_below(timing)[0], outputs)


@_lower.register
def _(node: N.Union, timing: Timing) -> P.Operator:
    left, right = (widen_columns(side, node.schema.types) for side in _below(timing))
    return P.UnionOperator(left, right)


# Joins


def _match(timing: Timing, condition: Expression, sides: Sequence[P.Operator]) -> P.Operator:
    """Return the pairs of two inputs for which a condition holds."""
    left, right = timing.wait("left"), timing.wait("right")
    rows = _rows(left, "left input"), _rows(right, "right input")

    def make(
        one: P.Operator, other: P.Operator, keys: tuple[int, ...], others: tuple[int, ...], nulls_equal: bool
    ) -> P.Operator:
        return P.MatchOperator(one, other, keys, others, nulls_equal, _wait(left), _wait(right), rows=rows)

    inputs = [LoweredInput(side, each) for side, each in zip(sides, rows, strict=True)]
    return joins.join_by_keys(inputs[0], inputs[1], condition, make)


@_lower.register
def _(node: N.Join, timing: Timing) -> P.Operator:
    return _match(timing, positioned_condition(node), _below(timing))


@_lower.register
def _(node: N.SemiJoin, timing: Timing) -> P.Operator:
    sides = _below(timing)
    matched = joins.first_columns(_match(timing, positioned_condition(node), sides), len(sides[0].types))
    wait = timing.wait("left")
    return P.MetOperator(sides[0], matched, _wait(wait), rows=(_rows(wait, "left input"),))


@_lower.register
def _(node: N.AntiJoin, timing: Timing) -> P.Operator:
    sides = _below(timing)
    matched = joins.first_columns(_match(timing, positioned_condition(node), sides), len(sides[0].types))
    return _unmet(sides[0], matched, timing.wait("left"), "left input")


def _unmet(rows: P.Operator, matched: P.Operator, wait: Wait, label: str) -> P.Operator:
    return P.UnmetOperator(rows, matched, _wait(wait), rows=(_rows(wait, label),))


@_lower.register
def _(node: N.OuterJoin, timing: Timing) -> P.Operator:
    """The pairs, and the rows of each preserved side without a match, padded with NULLs."""
    left, right = _below(timing)
    pairs = _match(timing, positioned_condition(node), (left, right))
    result, size = pairs, len(left.types)
    if node.kind in ("LEFT", "FULL"):
        alone = _unmet(left, joins.first_columns(pairs, size), timing.wait("left"), "left input")
        padded = (*alone.columns, *joins.null_columns(right.types))
        result = P.UnionOperator(result, P.ProjectOperator(alone, padded))
    if node.kind in ("RIGHT", "FULL"):
        matched = P.ProjectOperator(pairs, pairs.columns[size:])
        alone = _unmet(right, matched, timing.wait("right"), "right input")
        padded = (*joins.null_columns(left.types), *alone.columns)
        result = P.UnionOperator(result, P.ProjectOperator(alone, padded))
    return result


@_lower.register
def _(node: N.TableJoin, timing: Timing) -> P.Operator:
    """A row waits until the version of the table at its time is final, and then joins it."""
    (below,), wait = _below(timing), timing.wait("rows")
    assert wait.column is not None
    held = P.HoldOperator(below, _wait(wait), rows=(_rows(wait, "rows"),))
    table = N.base_of(node.right)
    assert isinstance(table, N.Table)
    sides = (
        LoweredInput(held, InputRows()),
        LoweredInput(P.ScanOperator(table.name, table.schema.types), InputRows("versions of the table")),
    )
    instant = joins.VersionInstant(wait.column, _version_age(timing.inputs[0], wait.column))
    joined = joins.join(*sides, positioned_condition(node), instant)
    if not node.outer:
        return joined
    at_once = Wait("rows", None, "", Clock())
    alone = _unmet(held, joins.first_columns(joined, len(below.types)), at_once, "rows")
    padded = (*alone.columns, *joins.null_columns(node.right.schema.types))
    return P.UnionOperator(joined, P.ProjectOperator(alone, padded))


def _version_age(rows: Timing, column: int) -> int:
    """Return how far behind the bound of the store a row can be; ∞ if it depends on another time line.

    The bound of the store is at or before the bound of the first time line of every stream.
    """
    clock = clock_of(column, [(case, case.requirements) for case in rows.cases])
    firsts = {
        (n.name, n.schema.timeline.name)
        for n in rows.node.walk()
        if isinstance(n, N.Stream) and n.schema.timeline is not None
    }
    if clock is None or not all((line.stream, line.column) in firsts for line in clock.lines if line.stream):
        return INFINITY
    return max(0, clock.lag)


# State of one input, set operations


@_lower.register
def _(node: N.Aggregate, timing: Timing) -> P.Operator:
    (below,), wait = _below(timing), timing.wait("groups")
    computed, aggregates = compute_arguments(node, below)
    results = tuple(call.type for _, call in node.calls)
    rows = (_rows(wait, "groups"),)
    return P.CollectOperator(computed, len(node.keys), aggregates, results, _wait(wait), rows=rows)


@_lower.register
def _(node: N.Distinct, timing: Timing) -> P.Operator:
    (below,), wait = _below(timing), timing.wait("records")
    return P.OnceOperator(below, _wait(wait), rows=(_rows(wait, "records"),))


_FUNCTIONS: dict[type[N.Node], str] = {
    N.Difference: "difference",
    N.StrictDifference: "strict_difference",
    N.Intersection: "intersection",
    N.MaxUnion: "max_union",
}


@_lower.register(N.Difference)
@_lower.register(N.StrictDifference)
@_lower.register(N.Intersection)
@_lower.register(N.MaxUnion)
def _(node: N.Node, timing: Timing) -> P.Operator:
    left, right = (widen_columns(side, node.schema.types) for side in _below(timing))
    wait = timing.wait("records")
    rows = (_rows(wait, "records"),) * 2
    return P.CopiesOperator(left, right, _FUNCTIONS[type(node)], _wait(wait), rows=rows)
