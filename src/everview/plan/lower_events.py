"""Event queries as physical plans: from the timing of each node to operators that emit final rows only.

The waits of the analysis become waits of the operators (paper 3). A match goes out at once; NOT EXISTS, GROUP
BY, EXCEPT and padded sides hold their rows back until their clock has passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.algebra.time import INFINITY
from everview.operators.base import Growth, InputRows
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan import lower_joins as joins
from everview.plan.lower import compute_arguments, positioned_condition, widen_columns
from everview.plan.lower_joins import LoweredInput, MatchedSides
from everview.plan.positions import bind_positions
from everview.temporal.clocks import Clock, Wait
from everview.temporal.event_query import Timing
from everview.temporal.waits import clock_of

LowerSnapshot = Callable[[N.Node], P.Operator]  # the lowering of ISTREAM, which is no part of the events


def scan_istream(node: N.Node) -> P.Operator:
    """Return ISTREAM as a scan of arrivals, where its rows are given."""
    name = node.name if isinstance(node, N.View) else "ISTREAM"
    return P.ScanOperator(name, node.schema.types, P.ARRIVALS)


def lower_events(timing: Timing, snapshot: LowerSnapshot = scan_istream) -> P.Operator:
    """Return the physical plan of an event query; event streams that it reads are scans of arrivals."""
    return _lower(timing.node, timing, snapshot)


@singledispatch
def _lower(node: N.Node, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    raise TypeError(f"no event operator for {type(node).__name__}")


def _below(timing: Timing, snapshot: LowerSnapshot) -> list[P.Operator]:
    return [lower_events(each, snapshot) for each in timing.inputs]


def _wait(wait: Wait) -> P.EventWait:
    return P.EventWait(wait.column, wait.clock)


def _rows(wait: Wait, label: str) -> InputRows:
    """Return what EXPLAIN says of the rows that wait."""
    until = "until its wait is over" if wait.clock is None else f"until {wait.name} ≤ {wait.clock}"
    return InputRows(label, until=until, growth=Growth.BY_ROW if wait.clock is None else Growth.NO)


@_lower.register
def _(node: N.Stream, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    since = BEFORE_ALL if node.since is None else node.since
    return P.ScanOperator(node.name, node.schema.types, P.ARRIVALS, since)


@_lower.register(N.View)
@_lower.register(N.IStream)
def _(node: N.View | N.IStream, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    return snapshot(node)


@_lower.register
def _(node: N.Alias, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    return _below(timing, snapshot)[0]


@_lower.register
def _(node: N.Filter, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    return P.FilterOperator(_below(timing, snapshot)[0], bind_positions(node.condition, node.input.schema))


@_lower.register
def _(node: N.Project, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    outputs = tuple(bind_positions(e, node.input.schema) for _, e in node.columns)
    return P.ProjectOperator(_below(timing, snapshot)[0], outputs)


@_lower.register
def _(node: N.Union, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    left, right = (widen_columns(side, node.schema.types) for side in _below(timing, snapshot))
    return P.UnionOperator(left, right)


# Joins


def _match(timing: Timing, condition: Expression, sides: Sequence[P.Operator]) -> P.Operator:
    """Return the pairs of two inputs for which a condition holds."""
    left, right = timing.wait("left"), timing.wait("right")
    rows = _rows(left, "left input"), _rows(right, "right input")

    def make(of: MatchedSides) -> P.Operator:
        keys, waits = (of.left_keys, of.right_keys), (_wait(left), _wait(right))
        return P.MatchOperator(of.left, of.right, *keys, of.nulls_equal, *waits, of.bands, rows=rows)

    inputs = [LoweredInput(side, each) for side, each in zip(sides, rows, strict=True)]
    return joins.match(inputs[0], inputs[1], condition, make)


@_lower.register
def _(node: N.Join, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    return _match(timing, positioned_condition(node), _below(timing, snapshot))


@_lower.register
def _(node: N.SemiJoin, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    sides = _below(timing, snapshot)
    matched = joins.first_columns(_match(timing, positioned_condition(node), sides), len(sides[0].types))
    wait = timing.wait("left")
    return P.MetOperator(sides[0], matched, wait=_wait(wait), rows=(_rows(wait, "left input"),))


@_lower.register
def _(node: N.AntiJoin, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    sides = _below(timing, snapshot)
    matched = joins.first_columns(_match(timing, positioned_condition(node), sides), len(sides[0].types))
    return _unmet(sides[0], matched, timing.wait("left"), "left input")


def _unmet(rows: P.Operator, matched: P.Operator, wait: Wait, label: str) -> P.Operator:
    return P.UnmetOperator(rows, matched, wait=_wait(wait), rows=(_rows(wait, label),))


@_lower.register
def _(node: N.OuterJoin, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    """The pairs, and the rows of each preserved side without a match, padded with NULLs."""
    left, right = _below(timing, snapshot)
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
def _(node: N.TableJoin, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    """A row waits until the version of the table at its time is final, and then joins it."""
    (below,), wait = _below(timing, snapshot), timing.wait("rows")
    assert wait.column is not None
    held = P.HoldOperator(below, wait=_wait(wait), rows=(_rows(wait, "rows"),))
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
def _(node: N.Aggregate, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    (below,), wait = _below(timing, snapshot), timing.wait("groups")
    computed, aggregates = compute_arguments(node, below)
    results = tuple(call.type for _, call in node.calls)
    rows = (_rows(wait, "groups"),)
    return P.CollectOperator(computed, len(node.keys), aggregates, results, wait=_wait(wait), rows=rows)


@_lower.register
def _(node: N.Distinct, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    (below,), wait = _below(timing, snapshot), timing.wait("records")
    return P.OnceOperator(below, wait=_wait(wait), rows=(_rows(wait, "records"),))


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
def _(node: N.Node, timing: Timing, snapshot: LowerSnapshot) -> P.Operator:
    left, right = (widen_columns(side, node.schema.types) for side in _below(timing, snapshot))
    wait = timing.wait("records")
    rows = (_rows(wait, "records"),) * 2
    return P.CopiesOperator(left, right, _FUNCTIONS[type(node)], wait=_wait(wait), rows=rows)
