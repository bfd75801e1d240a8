"""Paper 5, section 6.3: proposition 1 and theorems 1 to 3, for grids and for synchronization streams.

Which synchronization contains another, and how it is pulled out of operators.

The theorems speak of full synchronization points only; the proofs give the contents there. Where more is
true, between the points, that is a property as well; where it is not, there is a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical, from_logical, from_tags, to_logical, to_tags
from everview.algebra.expressions import Comparison, Literal
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, Grid
from everview.algebra.types import INT, TIMESTAMP
from everview.algebra.windows import Range, TimeWindow
from everview.reference.meaning import meaning
from tests.streams import (
    DOMAIN,
    LAST_ARRIVAL,
    R,
    S,
    arrivals_of,
    at,
    filled,
    grids,
    keep,
    rows,
    same,
    time_windows,
)

Inputs = dict[str, list[ChangeRow]]
# Half and a quarter of what the profile asks for: `make fuzz` searches on.
HALF = settings(max_examples=settings.default.max_examples // 2)
FEWER = settings(max_examples=settings.default.max_examples // 4)

# Synchronization streams: one column, its value the instant of insertion (5.3).
POINT = Schema.of(("point", TIMESTAMP), timeline="point")
SYNC_1 = N.Stream("sync_1", POINT)
SYNC_2 = N.Stream("sync_2", POINT)
COMMON = N.Intersection(SYNC_1, SYNC_2)

points = st.sets(st.integers(0, LAST_ARRIVAL), max_size=6)


def ticks(at_points: set[int]) -> list[ChangeRow]:
    """+<T>T for every point."""
    return arrivals_of([(t,) for t in sorted(at_points)])


def by_grid(grid: Grid) -> Callable[[N.Node], N.Node]:
    return lambda node: N.Synchronize(node, grid)


def by_stream(stream: N.Node) -> Callable[[N.Node], N.Node]:
    return lambda node: N.SynchronizeOn(node, stream)


V_IS_1 = Comparison("=", S.column("v"), Literal(1, INT))
K_EQUAL = Comparison("=", S.column("k"), R.column("k"))


def count_by_k(node: N.Node) -> N.Node:
    return N.Aggregate(node, (("k", node.column("k")),), (("n", AggregateCall("count")),))


UNARY: dict[str, Callable[[N.Node], N.Node]] = {
    "selection": lambda node: N.Filter(node, V_IS_1),
    "projection": lambda node: keep(node, "k"),
    "duplicate elimination": lambda node: N.Distinct(keep(node, "k")),
    "grouping": count_by_k,
}
BINARY: dict[str, Callable[[N.Node, N.Node], N.Node]] = {
    "join": lambda s, r: N.Join(s, r, K_EQUAL),
    "left outer join": lambda s, r: N.OuterJoin(s, r, K_EQUAL, "LEFT"),
    "anti join": lambda s, r: N.AntiJoin(s, r, K_EQUAL),
    "union": lambda s, r: N.Union(keep(s, "k"), keep(r, "k")),
    "intersection": lambda s, r: N.Intersection(keep(s, "k"), keep(r, "k")),
    "difference": lambda s, r: N.Difference(keep(s, "k"), keep(r, "k")),
}
unary = pytest.mark.parametrize("theta", UNARY.values(), ids=UNARY.keys())
binary = pytest.mark.parametrize("theta", BINARY.values(), ids=BINARY.keys())


def restricted(stream: Logical, instants: set[int]) -> Logical:
    return {(e, t): n for (e, t), n in stream.items() if t in instants}


# Proposition 1 and theorem 1


@HALF
@given(points, points)
def test_proposition_1(first: set[int], more: set[int]) -> None:
    """ℜ(Sync1) ⊆ ℜ(Sync2) at every instant, if every insert tuple of Sync1 is one of Sync2."""
    given = {"sync_1": ticks(first), "sync_2": ticks(first | more)}
    assert meaning(N.Difference(SYNC_1, SYNC_2), given, DOMAIN) == {}
    if not more <= first:
        assert meaning(N.Difference(SYNC_2, SYNC_1), given, DOMAIN) != {}


@HALF
@given(grids(), grids())
def test_proposition_1_for_grids(one: Grid, other: Grid) -> None:
    """`Grid.within` and `Grid.common` say what the points say."""
    instants = range(-60, 60)
    ours, theirs = ({t for t in instants if t in grid} for grid in (one, other))
    assert one.within(other) == (ours <= theirs)
    common = one.common(other)
    assert ours & theirs == (set() if common is None else {t for t in instants if t in common})


@HALF
@given(filled(S, R), grids(), st.integers(1, 4), st.integers(0, 3))
def test_theorem_1_for_grids(given: Inputs, fine: Grid, factor: int, shift: int) -> None:
    """If Sync_i ⊆ Sync_j, ℜ_Sync_i(S) is ℜ_Sync_i(ξ(ℜ_Sync_j(S))), at every instant."""
    coarse = Grid(fine.step * factor, fine.origin + fine.step * shift)
    assert coarse.within(fine)
    relation = N.Difference(keep(S, "k"), keep(R, "k"))
    assert same(by_grid(coarse)(by_grid(fine)(relation)), by_grid(coarse)(relation), given)


@HALF
@given(filled(S, R), points, points)
def test_theorem_1_for_streams(given: Inputs, coarse: set[int], more: set[int]) -> None:
    """The same for synchronization streams."""
    given = given | {"sync_1": ticks(coarse), "sync_2": ticks(coarse | more)}
    relation = N.Difference(keep(S, "k"), keep(R, "k"))
    derived = by_stream(SYNC_1)(by_stream(SYNC_2)(relation))
    assert same(derived, by_stream(SYNC_1)(relation), given)


def test_theorem_1_needs_containment() -> None:
    """Points 0, 2, 4, … do not hold 3: what came at 3 is not seen at 3."""
    given = {"s": arrivals_of(rows("1 1 3"))}
    derived = by_grid(Grid(3))(by_grid(Grid(2))(S))
    assert at(meaning(by_grid(Grid(3))(S), given, DOMAIN), 3) == {(1, 1, 3): 1}
    assert at(meaning(derived, given, DOMAIN), 3) == {}


@HALF
@given(filled(S, R), grids())
def test_a_relation_is_the_relation_of_its_own_stream(given: Inputs, grid: Grid) -> None:
    """ℜ(ξ(ℜ_Sync(S))) = ℜ_Sync(S): the theorems leave ξ out because it loses nothing (6.2.2)."""
    relation = meaning(by_grid(grid)(N.Difference(keep(S, "k"), keep(R, "k"))), given, DOMAIN)
    for key in (None, [0]):
        tags = to_tags(from_logical(relation), key, until=DOMAIN.stop)
        assert to_logical(from_tags(tags), DOMAIN) == relation
        assert all(tag.at in grid for tag in tags)


@HALF
@given(filled(S), grids())
def test_a_grid_is_a_synchronization_stream(given: Inputs, grid: Grid) -> None:
    """Sync_i over the clock stream (example 6), and the other way round."""
    given = given | {"sync_1": ticks({t for t in DOMAIN if t in grid})}
    assert same(by_stream(SYNC_1)(S), by_grid(grid)(S), given)


# Theorem 2


@unary
@FEWER
@given(given=filled(S), grid=grids())
def test_theorem_2_for_grids(theta: Callable[[N.Node], N.Node], given: Inputs, grid: Grid) -> None:
    """Θ(ℜ_Sync(S)) = ℜ_Sync(ξ(Θ(ℜ(S)))), at full points and between them."""
    assert same(theta(by_grid(grid)(S)), by_grid(grid)(theta(S)), given)


@unary
@FEWER
@given(given=filled(S), sync=points)
def test_theorem_2_for_streams(theta: Callable[[N.Node], N.Node], given: Inputs, sync: set[int]) -> None:
    """The same for synchronization streams."""
    given = given | {"sync_1": ticks(sync)}
    assert same(theta(by_stream(SYNC_1)(S)), by_stream(SYNC_1)(theta(S)), given)


@HALF
@given(filled(S), grids(), time_windows())
def test_windows_meet_synchronization_at_full_points(given: Inputs, grid: Grid, w: TimeWindow) -> None:
    """A window is no R2R operator, it looks at the clock; at full points the order does not matter."""
    full = {t for t in DOMAIN if t in grid}
    windowed_first = meaning(by_grid(grid)(N.Window(S, w)), given, DOMAIN)
    synchronized_first = meaning(N.Window(by_grid(grid)(S), w), given, DOMAIN)
    assert restricted(windowed_first, full) == restricted(synchronized_first, full)


def test_windows_do_not_commute_with_synchronization_between_points() -> None:
    """What is held until 2 leaves a window of 1 before that: SYNC applies after windows."""
    given = {"s": arrivals_of(rows("1 1 0"))}
    w, sync = Range(1), by_grid(Grid(2))
    assert at(meaning(sync(N.Window(S, w)), given, DOMAIN), 1) == {(1, 1, 0): 1}
    assert at(meaning(N.Window(sync(S), w), given, DOMAIN), 1) == {}


# Theorem 3


@binary
@FEWER
@given(given=filled(S, R), one=grids(), other=grids())
def test_theorem_3_for_grids(
    theta: Callable[[N.Node, N.Node], N.Node], given: Inputs, one: Grid, other: Grid
) -> None:
    """ℜ_Sync1(S1) Θ ℜ_Sync2(S2) = ℜ_Sync1∩Sync2(ξ(ℜ(S1) Θ ℜ(S2))) at the points of Sync1 ∩ Sync2."""
    common = one.common(other)
    if common is None:
        return
    full = {t for t in DOMAIN if t in common}
    apart = meaning(theta(by_grid(one)(S), by_grid(other)(R)), given, DOMAIN)
    peeled = meaning(by_grid(common)(theta(S, R)), given, DOMAIN)
    assert restricted(apart, full) == restricted(peeled, full)


@binary
@FEWER
@given(given=filled(S, R), one=points, other=points)
def test_theorem_3_for_streams(
    theta: Callable[[N.Node, N.Node], N.Node], given: Inputs, one: set[int], other: set[int]
) -> None:
    """The same for synchronization streams; Sync1 ∩ Sync2 is a stream again."""
    given = given | {"sync_1": ticks(one), "sync_2": ticks(other)}
    apart = meaning(theta(by_stream(SYNC_1)(S), by_stream(SYNC_2)(R)), given, DOMAIN)
    peeled = meaning(by_stream(COMMON)(theta(S, R)), given, DOMAIN)
    assert restricted(apart, one & other) == restricted(peeled, one & other)


@binary
@FEWER
@given(given=filled(S, R), grid=grids(), sync=points)
def test_theorem_3_between_points_for_equal_synchronizations(
    theta: Callable[[N.Node, N.Node], N.Node], given: Inputs, grid: Grid, sync: set[int]
) -> None:
    """With Sync1 = Sync2 the two sides are equal at every instant."""
    given = given | {"sync_1": ticks(sync)}
    for synchronized in (by_grid(grid), by_stream(SYNC_1)):
        assert same(theta(synchronized(S), synchronized(R)), synchronized(theta(S, R)), given)


def test_theorem_3_does_not_hold_between_points_for_other_synchronizations() -> None:
    """s every 2, r every 3: at 2 the query has s's second row, the peeled form waits for 6."""
    given = {"s": arrivals_of(rows("1 1 0\n1 2 2")), "r": arrivals_of(rows("1 7 0"))}
    apart = N.Join(by_grid(Grid(2))(S), by_grid(Grid(3))(R), K_EQUAL)
    peeled = by_grid(Grid(6))(N.Join(S, R, K_EQUAL))
    assert at(meaning(apart, given, DOMAIN), 2) == {(1, 1, 0, 1, 7, 0): 1, (1, 2, 2, 1, 7, 0): 1}
    assert at(meaning(peeled, given, DOMAIN), 2) == {(1, 1, 0, 1, 7, 0): 1}
    assert at(meaning(apart, given, DOMAIN), 6) == at(meaning(peeled, given, DOMAIN), 6)


# 7.2, the matching algorithm


@HALF
@given(filled(S), grids(), st.integers(1, 3))
def test_example_11_answering_a_query_from_a_view(given: Inputs, fine: Grid, factor: int) -> None:
    """T4 = ℜ_Sync4(ξ(σ_v>1(ℜ(ξ(HotRooms2))))), with HotRooms2 = σ_v>0(ℜ_Sync2(S))."""
    coarse = Grid(fine.step * factor, fine.origin)

    def above(node: N.Node, least: int) -> N.Node:
        return N.Filter(node, Comparison(">", node.column("v"), Literal(least, INT)))

    rooms = N.Tagged(S, ("k",))
    view = above(by_grid(fine)(rooms), 0)
    assert same(by_grid(coarse)(above(view, 1)), above(by_grid(coarse)(rooms), 1), given)


def test_points_are_insertions_and_stay() -> None:
    """5.3: a point is the instant of an insertion; that the row goes later takes nothing back."""
    given = {
        "s": arrivals_of(rows("1 1 0\n1 2 2")),
        "sync_1": [ChangeRow((1,), 1, 2), ChangeRow((9,), 4, INFINITY)],
    }
    seen = meaning(by_stream(SYNC_1)(S), given, DOMAIN)
    assert at(seen, 0) == {}
    assert at(seen, 1) == at(seen, 5) == {(1, 1, 0): 1}
