"""Update patterns and signs of every operator (paper 2, 5.2; DESIGN section 3)."""

from __future__ import annotations

import inspect

import pytest

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import TRUE, Comparison
from everview.algebra.schema import Field, Schema
from everview.algebra.time import Grid
from everview.algebra.types import TIMESTAMP
from everview.algebra.windows import Band, Fixed, Range, Rows, tumble
from everview.errors import TemporalError
from everview.reference.meaning import _insertions, meaning
from everview.temporal.insertion import is_inserted_on_time
from everview.temporal.runnable import require_runnable
from everview.temporal.update_patterns import Edge, Pattern, edge
from tests.streams import DOMAIN, NRR, Q, R, S, T, arrivals_of

W = N.Window(S, Range(5))
V = N.Window(R, Range(5))
OTHER = N.Window(R, Range(7))
GROUPED = N.Aggregate(W, (("k", S.column("k")),), (("n", AggregateCall("count")),))
POINTS = N.Project(Q, (("ts", Q.column("ts")),))
SAME = Comparison("=", S.column("k"), R.column("k"))

CASES: list[tuple[N.Node, str]] = [
    (S, "MON"),
    (T, "STR±"),
    (N.Values(S.columns, ()), "MON"),
    (N.View("v", W), "WKS"),
    (N.Alias(GROUPED, "g"), "WK±"),
    (N.Filter(W, TRUE), "WKS"),
    (N.Project(W, (("k", S.column("k")),)), "WKS"),
    (N.GroupMember(W, S.column("k"), 1), "WKS"),
    (N.Coalesce(W), "WKS"),
    (N.Split(W, 2), "WKS"),
    (W, "WKS"),
    (N.Window(S, tumble(5)), "WKS"),
    (N.Window(S, Fixed(5)), "WKS"),
    (N.Window(S, Band(3, 9)), "MON"),
    (N.Window(S, Rows(3)), "WKS±"),
    (N.Window(S, Rows(3, ("k",))), "WK±"),
    (N.Window(N.Window(S, Range(5)), Range(3)), "WKS"),
    (N.Tagged(S, ("k",)), "WK±"),
    (N.Synchronize(W, Grid(3)), "WKS"),
    (N.SynchronizeOn(W, POINTS), "WK±"),
    (N.Union(S, R), "MON"),
    (N.Union(W, V), "WKS"),
    (N.Union(W, OTHER), "WK"),
    (N.Union(W, R), "WK"),
    (N.Union(W, N.Difference(W, V)), "STR±"),
    (N.Join(S, R), "MON"),
    (N.Join(W, V), "WK"),
    (N.Join(W, N.Alias(N.Difference(V, V), "d")), "STR±"),
    (N.SemiJoin(W, V, SAME), "WK"),
    (N.AntiJoin(W, V, SAME), "STR±"),
    (N.OuterJoin(W, V, SAME, "LEFT"), "STR±"),
    (N.TableJoin(W, T, TRUE), "STR±"),
    (N.TableJoin(W, NRR, TRUE, retroactive=False), "WKS"),
    (N.TableJoin(N.Tagged(S, ("k",)), NRR, TRUE, retroactive=False), "WK±"),
    (N.Distinct(S), "MON"),
    (N.Distinct(W), "WK"),
    (N.Distinct(N.Difference(W, V)), "STR±"),
    (N.Intersection(W, V), "WK"),
    (N.MaxUnion(W, V), "WK"),
    (N.Difference(W, V), "STR±"),
    (N.StrictDifference(W, V), "STR±"),
    (GROUPED, "WK±"),
    (N.IStream(GROUPED), "MON"),
    (N.DStream(GROUPED), "MON"),
    (N.RStream(GROUPED, Grid(3)), "MON"),
]


@pytest.mark.parametrize(
    ("plan", "wanted"), CASES, ids=lambda v: v if isinstance(v, str) else type(v).__name__
)
def test_pattern(plan: N.Node, wanted: str) -> None:
    assert str(edge(plan)) == wanted


def test_every_operator_has_a_case() -> None:
    kinds = {
        c for _, c in inspect.getmembers(N, inspect.isclass) if issubclass(c, N.Node) and c is not N.Node
    }
    assert kinds == {type(plan) for plan, _ in CASES}


def test_figure_6_of_paper_2() -> None:
    """The two plans of query 5: pulling the negation up leaves a weak edge below it."""
    third = N.Window(Q, Range(5))
    pulled_up = N.Difference(
        N.Project(N.Join(W, third), (("k", S.column("k")),)), N.Project(V, (("k", R.column("k")),))
    )
    pushed_down = N.Join(
        N.Alias(
            N.Difference(N.Project(W, (("k", S.column("k")),)), N.Project(V, (("k", R.column("k")),))), "d"
        ),
        third,
    )
    assert [str(edge(n)) for n in (pulled_up, pulled_up.left)] == ["STR±", "WK"]
    assert [str(edge(n)) for n in (pushed_down, pushed_down.left)] == ["STR±", "STR±"]


def test_monotonic_means_that_nothing_ends() -> None:
    rows = {"s": arrivals_of([(1, 0, 2), (2, 0, 4)]), "r": arrivals_of([(1, 0, 3)])}
    for plan in (S, N.Join(S, R), N.Distinct(S), N.Window(S, Band(1, 9)), N.Union(S, R)):
        assert edge(plan) == Edge(Pattern.MON)
        stream = meaning(plan, rows, DOMAIN)
        came = sum(_insertions(stream, DOMAIN).values())
        there = sum(n for (_, t), n in stream.items() if t == DOMAIN[-1])
        assert came == there > 0


def test_rows_over_rows_that_are_taken_back_are_refused() -> None:
    with pytest.raises(TemporalError) as refused:
        require_runnable(N.Distinct(N.Window(N.Filter(N.Tagged(S, ("k",)), TRUE), Rows(3))))
    assert str(refused.value) == (
        "[ROWS 3] needs rows that are never taken back, and those of its input may do otherwise\n"
        "  next: put the window on the stream below, or use a time window"
    )


def test_rows_over_rows_that_end_out_of_order_are_refused() -> None:
    with pytest.raises(TemporalError, match="end in the order in which they came"):
        require_runnable(N.Window(N.Union(W, OTHER), Rows(3)))
    require_runnable(N.Window(W, Rows(3)))


HOURLY = N.View("hourly", N.Project(N.Window(R, Range(4, slide=4)), (("ts", R.column("ts")),)))
PAIRS = N.View("pairs", N.Project(N.Join(S, R), (("ts", S.column("ts")),)))
ALARM = N.View("alarm", N.Project(N.Tagged(S, ("k",)), (("ts", S.column("ts")),)))


@pytest.mark.parametrize("points", [HOURLY, PAIRS, N.Synchronize(ALARM, Grid(3))])
def test_points_that_are_inserted_later_than_they_say_are_refused(points: N.Node) -> None:
    name = f" {points.name}" if isinstance(points, N.View) else ""
    with pytest.raises(TemporalError) as refused:
        require_runnable(N.SynchronizeOn(S, points))
    assert str(refused.value) == (
        f"SYNC ON{name} needs rows that are inserted at the instant in their time line, "
        "and these may be inserted later\n"
        "  next: select the time line of a stream, without SLIDE, LAG, SYNC and joins of streams"
    )
    require_runnable(N.SynchronizeOn(S, ALARM))


def test_all_points_count_where_rows_are_inserted_on_time() -> None:
    """Every insertion into what SYNC ON takes is one at the instant in the row."""
    rows = {"s": arrivals_of([(1, 0, 2), (2, 0, 4), (1, 1, 5)]), "r": arrivals_of([(1, 0, 3)])}
    ts = (("ts", S.column("ts")),)
    for plan in (
        ALARM, N.Project(S, ts), N.Project(N.Window(S, Range(2)), ts), N.Project(N.Window(S, Rows(1)), ts),
        N.Union(N.Project(S, ts), N.Project(R, (("ts", R.column("ts")),))),
    ):  # fmt: skip
        assert is_inserted_on_time(plan)
        assert all(e == (t,) for e, t in _insertions(meaning(plan, rows, DOMAIN), DOMAIN))


def test_a_version_as_of_another_time_line_is_refused() -> None:
    """Up to the bound a stream is known by its first time line; on others rows may lie ahead."""
    columns = (Field("ts", TIMESTAMP, timeline=0), Field("received", TIMESTAMP, timeline=1))
    two = N.Stream("two", Schema(columns))
    both = N.TableJoin(two, NRR, TRUE, retroactive=False)
    require_runnable(both)
    second = N.Project(two, (("received", two.column("received")),))
    with pytest.raises(TemporalError) as refused:
        require_runnable(N.TableJoin(second, NRR, TRUE, retroactive=False))
    assert str(refused.value) == (
        "a table is joined as of the first time line of a stream, and received is another one\n"
        "  next: select the first time line of the stream below too"
    )
