"""Full and partial points of every operator (paper 5, 6.1 to 6.3), judged by the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.expressions import TRUE, Comparison
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, MINUTE, SECOND, Grid
from everview.algebra.types import TIMESTAMP
from everview.algebra.windows import Band, Fixed, Range, Rows
from everview.reference.meaning import meaning
from everview.temporal.synchronization import EVERY, NEVER, Points, Synchronization, synchronization
from tests.streams import DOMAIN, LAST_ARRIVAL, Q, R, S, T, arrivals_of, at, filled, grids, time_windows

Inputs = dict[str, list[ChangeRow]]
HALF = settings(max_examples=settings.default.max_examples // 2)

POLICE = N.View("police", N.Stream("sync", Schema.of(("point", TIMESTAMP), timeline="point")))
SAME = Comparison("=", S.column("k"), R.column("k"))
TWO, THREE = Grid(2 * MINUTE), Grid(3 * MINUTE)


def every(node: N.Node, grid: Grid) -> N.Synchronize:
    return N.Synchronize(node, grid)


# Points


@given(grids(), grids())
def test_common_points_of_two_grids(one: Grid, other: Grid) -> None:
    """The closed form against enumeration: the least common multiple, if the origins allow it."""
    common = Points(one).common(Points(other))
    wanted = [t for t in range(-60, 60) if t in one and t in other]
    assert [t for t in range(-60, 60) if common.grid is not None and t in common.grid] == wanted
    assert (common == NEVER) == (not wanted)


@given(grids(), grids(), grids())
def test_common_is_an_intersection(one: Grid, other: Grid, third: Grid) -> None:
    a, b, c = Points(one), Points(other), Points(third)
    assert a.common(a) == a == a.common(EVERY)
    assert a.common(b) == b.common(a)
    assert a.common(b).common(c) == a.common(b.common(c))
    assert a.common(b).within(a)
    assert a.within(b) == (a.common(b) == a)
    assert a.common(NEVER) == NEVER
    assert NEVER.within(a)


@given(grids(), st.integers(-5, 5))
def test_equal_points_are_equal(grid: Grid, turns: int) -> None:
    assert Points(grid) == Points(Grid(grid.step, grid.origin + turns * grid.step))


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (EVERY, "every instant"),
        (NEVER, "none"),
        (Points(TWO), "every 2 minutes"),
        (Points(Grid(SECOND)), "every second"),
        (Points(Grid(MINUTE, SECOND)), "every minute from 1970-01-01T00:00:01.000000"),
        (Points(on=(POLICE,)), "the points of police"),
        (Points(TWO).common(Points(on=(POLICE,))), "every 2 minutes, where it is one of police"),
    ],
)
def test_points_in_words(points: Points, said: str) -> None:
    assert str(points) == said


# Nodes

COUNT = (("n", AggregateCall("count")),)
CASES: list[tuple[N.Node, str]] = [
    (S, "every instant"),
    (T, "every instant"),
    (N.Window(S, Range(5)), "every instant"),
    (N.View("v", N.Filter(every(S, TWO), TRUE)), "every 2 minutes"),
    (N.Aggregate(every(S, TWO), (), COUNT), "every 2 minutes"),
    (N.Join(every(S, TWO), every(R, TWO)), "every 2 minutes"),
    (
        N.Join(every(S, TWO), every(R, THREE)),
        "every 6 minutes; partial: every 2 minutes, every 3 minutes",
    ),
    (N.Join(every(S, TWO), R), "every 2 minutes; partial: every instant"),
    (N.Join(every(S, TWO), every(R, Grid(4 * MINUTE))), "every 4 minutes; partial: every 2 minutes"),
    (N.Join(every(S, TWO), N.Values(R.columns, ())), "every 2 minutes"),
    (
        N.Difference(every(S, TWO), every(R, Grid(2 * MINUTE, MINUTE))),
        "none; partial: every 2 minutes, every 2 minutes from 1970-01-01T00:01:00.000000",
    ),
    (every(every(S, TWO), THREE), "every 6 minutes; partial: every 3 minutes"),
    (every(N.Join(S, R), TWO), "every 2 minutes"),
    (N.SynchronizeOn(S, POLICE), "the points of police"),
    (
        N.Union(N.SynchronizeOn(S, POLICE), every(R, TWO)),
        "every 2 minutes, where it is one of police; partial: the points of police, every 2 minutes",
    ),
    (N.RStream(S, TWO), "every 2 minutes"),
    (N.Window(every(S, TWO), Range(5)), "every 2 minutes; partial: every instant"),
    (N.Window(every(S, TWO), Band(5)), "every 2 minutes"),
    (N.Window(every(S, TWO), Rows(5)), "every 2 minutes"),
    (N.Window(every(S, TWO), Fixed(THREE.step)), "every 2 minutes; partial: every 3 minutes"),
]


@pytest.mark.parametrize(("plan", "said"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_synchronization(plan: N.Node, said: str) -> None:
    assert str(synchronization(plan)) == said


def test_example_9() -> None:
    """Ticks every 2 and every 3: 6 is full, 2, 3 and 4 are partial."""
    found = synchronization(N.Join(every(S, Grid(2)), every(R, Grid(3))))
    assert found == Synchronization(Points(Grid(6)), (Points(Grid(2)), Points(Grid(3))))
    assert found.partial == found.changes


# The meaning of the points

unary: list[Callable[[N.Node], N.Node]] = [
    lambda node: N.Filter(node, Comparison("=", node.column("v"), node.column("k"))),
    N.Distinct,
    lambda node: N.Window(node, Range(3)),
    lambda node: N.Alias(node, "a"),
]
binary: list[Callable[[N.Node, N.Node], N.Node]] = [
    N.Union,
    N.Difference,
    N.StrictDifference,
    N.Intersection,
    N.MaxUnion,
    lambda left, right: N.SemiJoin(left, N.Alias(right, "right"), TRUE),
    lambda left, right: keep_left(N.Join(N.Alias(left, "left"), N.Alias(right, "right"))),
]


def keep_left(node: N.Join) -> N.Node:
    return N.Project(node, tuple((f.name, node.left.column(f.name)) for f in node.left.schema))


@st.composite
def plans(draw: st.DrawFn, depth: int = 3) -> N.Node:
    """A random plan over s, r and q, synchronized here and there; all nodes have the columns of COLUMNS."""
    if depth == 0:
        return draw(st.sampled_from([S, R, Q]))
    below = plans(depth - 1)
    match draw(st.integers(0, 4)):
        case 0:
            return every(draw(below), draw(grids()))
        case 1:
            return N.Window(draw(below), draw(time_windows()))
        case 2 | 3:
            left, right = draw(below), draw(below)
            return draw(st.sampled_from(binary))(left, right)
    return draw(st.sampled_from(unary))(draw(below))


def without_sync(node: N.Node) -> N.Node:
    """The same plan over the finest relations: the peeled form (paper 5, definition 3)."""
    if isinstance(node, N.Synchronize):
        return without_sync(node.input)
    return N.with_inputs(node, [without_sync(i) for i in node.inputs]) if node.inputs else node


@HALF
@given(plans(), filled(S, R, Q))
def test_at_full_points_a_query_is_up_to_date(plan: N.Node, given: Inputs) -> None:
    """At T ∈ Sync_i ∩ Sync_j the output is R[S_i(T)] Θ R[S_j(T)] (definitions 1 and 2, case 1)."""
    full = synchronization(plan).full
    found, finest = meaning(plan, given, DOMAIN), meaning(without_sync(plan), given, DOMAIN)
    for t in DOMAIN:
        if full.grid is not None and t in full.grid:
            assert at(found, t) == at(finest, t)


@HALF
@given(plans(), filled(S, R, Q))
def test_between_points_nothing_changes(plan: N.Node, given: Inputs) -> None:
    """At T ∉ Sync_i ∪ Sync_j the output is not modified (definition 2, case 4)."""
    changes = synchronization(plan).changes
    found = meaning(plan, given, DOMAIN)
    for t in DOMAIN[1:]:
        if not any(p.grid is not None and t in p.grid for p in changes):
            assert at(found, t) == at(found, t - 1)


@pytest.mark.slow
@pytest.mark.parametrize("theta", binary, ids=lambda f: getattr(f, "__name__", "join"))
@HALF
@given(given=filled(S, R), one=grids(), other=grids())
def test_at_partial_points_one_side_is_as_it_was(
    theta: Callable[[N.Node, N.Node], N.Node], given: Inputs, one: Grid, other: Grid
) -> None:
    """At T the output is R[S_i(T_i)] Θ R[S_j(T_j)], T_i the last point of Sync_i up to T (cases 1 to 3)."""
    found = meaning(theta(every(S, one), every(R, other)), given, DOMAIN)
    for t in DOMAIN:
        frozen = {
            name: [ChangeRow(e, 0, INFINITY, n) for e, n in held(given[name], grid, t).items()]
            for name, grid in (("s", one), ("r", other))
        }
        assert at(found, t) == at(meaning(theta(S, R), frozen, DOMAIN), t)


def held(rows: list[ChangeRow], grid: Grid, t: int) -> dict[tuple[object, ...], int]:
    """R[S(T)]: what a stream holds at the last point up to t."""
    last = max((p for p in range(t + 1) if p in grid), default=None)
    return {} if last is None else at(meaning(S, {"s": rows}, DOMAIN), last)


@HALF
@given(filled(S, R), grids(), st.sets(st.integers(0, LAST_ARRIVAL), max_size=6), st.sampled_from(binary))
def test_points_of_a_stream(
    given: Inputs, grid: Grid, ticks: set[int], theta: Callable[[N.Node, N.Node], N.Node]
) -> None:
    """Of a grid and a synchronization stream the full points are the instants that are points of both."""
    given = given | {"sync": arrivals_of([(t,) for t in sorted(ticks)])}
    plan = theta(every(S, grid), N.SynchronizeOn(R, POLICE))
    full = synchronization(plan).full
    assert full == Points(grid, (POLICE,))
    found, finest = meaning(plan, given, DOMAIN), meaning(theta(S, R), given, DOMAIN)
    for t in ticks:
        if t in grid:
            assert at(found, t) == at(finest, t)
