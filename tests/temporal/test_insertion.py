"""What SYNC ON takes: whatever is inserted into it, is inserted at the instant in its time line."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.expressions import Column, Comparison, Expression, Literal
from everview.algebra.time import Grid
from everview.algebra.types import INT
from everview.algebra.windows import Range, Rows
from everview.errors import AlgebraError, EverviewError, TemporalError
from everview.reference.meaning import _insertions, meaning
from everview.sql import plan_of
from everview.temporal.insertion import is_inserted_on_time
from everview.temporal.runnable import require_runnable
from tests.sql.oracle import catalog
from tests.streams import DOMAIN, NRR, R, S, T, arrivals_of, conditions, row_windows, time_windows

CATALOG = catalog()
Input = dict[str, list[ChangeRow]]


def inputs(rng: random.Random) -> Input:
    """Rows that often meet. Tables are never updated: what updates insert are no points."""

    def arrivals() -> list[ChangeRow]:
        tops = (2, 3, rng.choice([2, 8]))
        return arrivals_of([tuple(map(rng.randrange, tops)) for _ in range(rng.randrange(9))])

    def lasting() -> list[ChangeRow]:
        ids = [rng.choice([None, 0, 1, 2]) for _ in range(rng.randrange(3))]
        return [ChangeRow((i, "x"), DOMAIN.start, DOMAIN.stop) for i in ids]

    return {"s": arrivals(), "r": arrivals(), "t": lasting(), "nrr": lasting()}


def numbers(node: N.Node) -> list[Column]:
    return [Column.to(field) for field in node.schema if field.type.is_numeric]


def grouped(draw: st.DrawFn, node: N.Node) -> N.Node:
    columns = numbers(node)
    keys = [("ts", timeline(node))]
    if columns and draw(st.booleans()):
        keys.append(("k", draw(st.sampled_from(columns))))
    call = AggregateCall("count")
    if columns and draw(st.booleans()):
        call = AggregateCall(draw(st.sampled_from(["sum", "min", "max"])), draw(st.sampled_from(columns)))
    groups = N.Aggregate(node, tuple(keys), (("n", call),))
    return filtered(draw, groups) if draw(st.booleans()) else groups


def filtered(draw: st.DrawFn, node: N.Node) -> N.Node:
    column = draw(st.sampled_from(numbers(node) or [timeline(node)]))
    operator = draw(st.sampled_from(["=", "<", ">=", "<>"]))
    return N.Filter(node, Comparison(operator, column, Literal(draw(st.integers(0, 2)), column.type)))


def projected(draw: st.DrawFn, node: N.Node) -> N.Node:
    kept = draw(st.lists(st.sampled_from(numbers(node)), max_size=2, unique=True)) if numbers(node) else []
    columns: list[tuple[str, Expression]] = [("ts", timeline(node))]
    return N.Project(node, tuple(columns + [(f"c{i}", c) for i, c in enumerate(kept)]))


def joined(draw: st.DrawFn, node: N.Node) -> N.Node:
    left = N.Alias(node, "x")
    condition = same(left, T, draw) if draw(st.booleans()) else same(left, NRR, draw)
    table = T if any(c.relation == "t" for c in condition.columns()) else NRR
    return projected(draw, N.TableJoin(left, table, condition, table.retroactive, draw(st.booleans())))


def same(left: N.Node, right: N.Node, draw: st.DrawFn) -> Expression:
    here, there = numbers(left), numbers(right)
    if not here or not there:
        return Comparison("=", Literal(1, INT), Literal(1, INT))
    return Comparison("=", draw(st.sampled_from(here)), draw(st.sampled_from(there)))


def combined(draw: st.DrawFn, node: N.Node) -> N.Node:
    kinds: list[Callable[[N.Node, N.Node], N.Node]] = [
        N.Union, N.MaxUnion, N.Intersection, N.Difference, N.StrictDifference,
    ]  # fmt: skip
    others = [node, S, N.Project(R, (("ts", R.column("ts")),)), N.Filter(node, draw(conditions("ts")))]
    return draw(st.sampled_from(kinds))(node, draw(st.sampled_from(others)))


def paired(draw: st.DrawFn, node: N.Node) -> N.Node:
    left, right = N.Alias(node, "x"), N.Alias(N.Window(R, Range(draw(st.integers(1, 6)))), "y")
    condition = same(left, right, draw)
    kinds = [
        N.Join(left, right, condition), N.SemiJoin(left, right, condition),
        N.AntiJoin(left, right, condition), N.OuterJoin(left, right, condition, "LEFT"),
    ]  # fmt: skip
    return projected(draw, draw(st.sampled_from(kinds)))


def windowed(draw: st.DrawFn, node: N.Node) -> N.Node:
    return N.Window(node, draw(time_windows() | row_windows()))


def timeline(node: N.Node) -> Column:
    line = node.schema.timeline
    if line is None:
        raise AlgebraError("no time line")
    return Column.to(line)


OPERATORS = (
    grouped, grouped, filtered, projected, joined, combined, paired, windowed,
    lambda draw, node: N.Distinct(node), lambda draw, node: N.IStream(node),
)  # fmt: skip


@st.composite
def points(draw: st.DrawFn) -> N.Node:
    """A random relation, a few operators deep, projected to its time line."""
    starts = [
        S,
        N.Tagged(S, ("k",)),
        N.Window(S, Rows(3)),
        N.Window(S, Range(4)),
        N.Window(S, Rows(1, ("k",))),
    ]
    node = draw(st.sampled_from(starts))
    try:
        for operator in draw(st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=4)):
            node = operator(draw, node)
        return N.Project(node, (("ts", timeline(node)),))
    except AlgebraError:  # it has lost its time line, or the columns of two sides do not fit
        return N.Project(S, (("ts", S.column("ts")),))


@given(points(), st.integers(0, 10**6))
@settings(max_examples=5 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_whatever_sync_on_takes_is_inserted_on_time(plan: N.Node, seed: int) -> None:
    try:
        require_runnable(N.SynchronizeOn(S, plan))
    except TemporalError:
        return
    rng = random.Random(seed)
    for given_ in [inputs(rng) for _ in range(10)]:
        assert not late(plan, given_)


def late(plan: N.Node, given_: Input) -> list[tuple[object, int]]:
    """The rows that are inserted at another instant than theirs, with the instant."""
    return [(e, t) for e, t in _insertions(meaning(plan, given_, DOMAIN), DOMAIN) if e != (t,)]


TAKEN = [
    "SELECT ts FROM s GROUP BY ts HAVING COUNT(*) = 1",
    "SELECT ts FROM s [RANGE 5 MICROSECONDS] GROUP BY ts HAVING COUNT(*) = 1",
    "SELECT ts FROM s [ROWS 3] GROUP BY ts",
    "SELECT ts FROM s [ROWS 3] GROUP BY ts, k HAVING k = 1",
    "SELECT ts FROM (SELECT ts, COUNT(*) AS n FROM latest GROUP BY ts)",
    "SELECT DISTINCT ts FROM latest",
    "SELECT ts FROM (SELECT DISTINCT ts, COUNT(*) AS n FROM latest GROUP BY ts)",
    "SELECT ts FROM ISTREAM(SELECT ts, k FROM s [ROWS 2])",
    "SELECT at FROM ISTREAM(SELECT k, COUNT(*) AS n FROM s [ROWS 3] GROUP BY k)",
    "SELECT at FROM DSTREAM(SELECT k FROM s [RANGE 5 MICROSECONDS])",
    "SELECT at FROM RSTREAM(SELECT k FROM latest) SYNC EVERY INTERVAL '2' MICROSECOND",
    "SELECT s.ts FROM s [ROWS 3] JOIN t ON s.k = t.id",
    "SELECT ts FROM s INTERSECT ALL SELECT ts FROM r",
    "SELECT ts FROM s [RANGE 5 MICROSECONDS] INTERSECT SELECT ts FROM r [RANGE 3 MICROSECONDS]",
    "SELECT ts FROM s [ROWS 3] INTERSECT ALL SELECT ts FROM latest",
    "SELECT ts FROM (SELECT ts, k FROM s INTERSECT SELECT ts, v FROM r)",
    "SELECT ts FROM (SELECT ts, COUNT(*) AS n FROM s [ROWS 3] GROUP BY ts) INTERSECT SELECT ts FROM r",
]
REFUSED = [
    "SELECT ts FROM s [ROWS 3] GROUP BY ts HAVING COUNT(*) = 1",
    "SELECT ts FROM latest GROUP BY ts HAVING COUNT(*) = 1",
    "SELECT ts FROM (SELECT ts, MAX(v) AS v FROM rooms GROUP BY ts) WHERE v = 1",
    "SELECT ts FROM (SELECT ts, k, COUNT(*) AS n FROM s [ROWS 4] GROUP BY ts, k) GROUP BY ts, n",
    "SELECT ts FROM (SELECT DISTINCT ts, COUNT(*) AS n FROM s [ROWS 4] GROUP BY ts, k)",
    "SELECT ts FROM ISTREAM(SELECT ts, COUNT(*) AS n FROM s [ROWS 3] GROUP BY ts)",
    "SELECT p.ts FROM (SELECT ts, COUNT(*) AS n FROM s [ROWS 3] GROUP BY ts) p JOIN t ON p.n = t.id",
    "SELECT ts FROM s EXCEPT SELECT ts FROM r [RANGE 3 MICROSECONDS]",
    "SELECT ts FROM s INTERSECT SELECT ts FROM r SYNC EVERY INTERVAL '3' MICROSECOND",
    "SELECT ts FROM s [RANGE 3 MICROSECONDS LAG 2 MICROSECONDS] INTERSECT ALL SELECT ts FROM r",
    "SELECT ts FROM (SELECT ts, COUNT(*) AS n FROM s [ROWS 3] GROUP BY ts"
    " INTERSECT SELECT ts, COUNT(*) AS n FROM r GROUP BY ts)",
]


@st.composite
def sides(draw: st.DrawFn) -> N.Node:
    """A random relation with a time line and a number, on time or not."""
    base = draw(st.sampled_from([S, R]))
    node: N.Node = draw(st.sampled_from([base, N.Tagged(base, ("k",))]))
    match draw(st.sampled_from(["bare", "window", "grid", "groups", "groups of rows"])):
        case "window":
            node = N.Window(base, draw(time_windows() | row_windows()))
        case "grid":
            node = N.Synchronize(base, Grid(3))
        case "groups":
            node = N.Aggregate(node, (("ts", timeline(node)),), (("k", AggregateCall("count")),))
        case "groups of rows":
            rows = N.Window(base, Rows(3))
            node = N.Aggregate(rows, (("ts", timeline(rows)),), (("k", AggregateCall("count")),))
    return N.Project(node, (("ts", timeline(node)), ("k", Column.to(node.schema.find("k")))))


@given(st.sampled_from([N.Intersection, N.MaxUnion]), sides(), sides(), st.integers(0, 10**6))
@settings(max_examples=4 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_both_sides_of_a_set_operation_are_on_time(
    kind: Callable[[N.Node, N.Node], N.Node], left: N.Node, right: N.Node, seed: int
) -> None:
    both = kind(left, right)
    plan = N.Project(both, (("ts", timeline(both)),))
    if not is_inserted_on_time(plan):
        return
    rng = random.Random(seed)
    assert not any(late(plan, inputs(rng)) for _ in range(10))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late_side", "taken"), [(N.Window(R, Range(4)), True), (N.Synchronize(R, Grid(3)), False)]
)
def test_a_max_union_is_taken_if_both_sides_are(late_side: N.Node, taken: bool) -> None:
    ours, theirs = (N.Project(n, (("ts", timeline(n)),)) for n in (S, late_side))
    for plan in (N.MaxUnion(ours, theirs), N.MaxUnion(theirs, ours)):
        assert is_inserted_on_time(plan) == taken
        assert any(late(plan, inputs(random.Random(seed))) for seed in range(300)) != taken


@pytest.mark.parametrize("sql", TAKEN)
def test_taken(sql: str) -> None:
    assert is_inserted_on_time(plan_of(sql, CATALOG))


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(sql: str) -> None:
    """Each has a row that is inserted after the instant in it."""
    assert any(late(plan_of(sql, CATALOG), inputs(random.Random(seed))) for seed in range(1000))
    plan = plan_of(f"WITH p AS ({sql}) SELECT k FROM s SYNC ON p", CATALOG)
    with pytest.raises(EverviewError) as refused:
        require_runnable(plan)
    assert str(refused.value) == (
        "SYNC ON needs rows that are inserted at the instant in their time line, "
        "and these may be inserted later\n"
        "  next: select the time line of a stream, without SLIDE, LAG, SYNC and joins of streams"
    )
