"""Paper 4, section 4.2: the properties of windowed operators.

Logical windows are time windows of every type, physical ones are ROWS and PARTITION BY … ROWS. A rule that
the paper denies has the smallest stream on which the two sides differ, and what they are. What is printed
wrong is in test_findings_paper4.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.expressions import Column, Comparison, Expression, Literal, conjunction
from everview.algebra.types import INT
from everview.algebra.windows import AnyWindow, Range, Rows, TimeWindow
from everview.reference.meaning import meaning
from tests.rules import paper1_algorithms as A
from tests.streams import (
    DOMAIN,
    LAST_ARRIVAL,
    Q,
    R,
    S,
    arrivals_of,
    at,
    conditions,
    filled,
    keep,
    row_windows,
    rows,
    same,
    time_windows,
    values,
)

Inputs = dict[str, list[ChangeRow]]
# Half and a quarter of what the profile asks for: `make fuzz` searches on.
HALF = settings(max_examples=settings.default.max_examples // 2)
FEWER = settings(max_examples=settings.default.max_examples // 4)

K_EQUAL = Comparison("=", S.column("k"), R.column("k"))
V_EQUAL = Comparison("=", R.column("v"), Q.column("v"))
any_window = st.one_of(time_windows(), row_windows())


def v_is(value: int, node: N.Node) -> Expression:
    return Comparison("=", node.column("v"), Literal(value, INT))


def arrivals_without_ties(most: int = 7) -> st.SearchStrategy[list[ChangeRow]]:
    """Base streams in which no two rows have the same timestamp."""
    times = st.lists(st.integers(0, LAST_ARRIVAL), unique=True, max_size=most)
    pair = st.tuples(values(), values())
    return times.flatmap(
        lambda ts: st.lists(pair, min_size=len(ts), max_size=len(ts)).map(
            lambda pairs: arrivals_of([(*pair, t) for pair, t in zip(pairs, ts, strict=True)])
        )
    )


# Projection and windows


@HALF
@given(filled(S), time_windows())
def test_projection_commutes_with_logical_windows(given: Inputs, w: TimeWindow) -> None:
    """π_L(W_E(S(τ))) = W_E(π_L(S(τ))); the timestamp is always kept."""
    assert same(keep(N.Window(S, w), "v", "ts"), N.Window(keep(S, "v", "ts"), w), given)


@HALF
@given(arrivals_without_ties(), st.integers(1, 4))
def test_projection_commutes_with_count_windows_without_ties(given_rows: list[ChangeRow], n: int) -> None:
    """The same for W_n, where timestamps say which rows are the most recent."""
    given = {"s": given_rows}
    assert same(keep(N.Window(S, Rows(n)), "v", "ts"), N.Window(keep(S, "v", "ts"), Rows(n)), given)


@HALF
@given(arrivals_without_ties(), st.integers(1, 4))
def test_projection_commutes_with_partitioned_windows_without_ties(
    given_rows: list[ChangeRow], n: int
) -> None:
    """The same for W_p, where L keeps the grouping attributes."""
    w = Rows(n, ("k",))
    assert same(keep(N.Window(S, w), "k", "ts"), N.Window(keep(S, "k", "ts"), w), {"s": given_rows})


# Selection and windows


@HALF
@given(filled(S), conditions(), time_windows())
def test_selection_commutes_with_logical_windows(given: Inputs, f: Expression, w: TimeWindow) -> None:
    """σ_F(W_E(S(τ))) = W_E(σ_F(S(τ)))."""
    assert same(N.Filter(N.Window(S, w), f), N.Window(N.Filter(S, f), w), given)


@HALF
@given(filled(S), conditions("k"), st.integers(1, 3))
def test_selection_of_partitions_commutes_with_partitioned_windows(
    given: Inputs, f: Expression, n: int
) -> None:
    """σ_F(W_p(S)) = W_p(σ_F(S)) where F reads grouping attributes only: not in the paper, but true."""
    w = Rows(n, ("k",))
    assert same(N.Filter(N.Window(S, w), f), N.Window(N.Filter(S, f), w), given)


@pytest.mark.parametrize("w", [Rows(1), Rows(1, ("k",))], ids=str)
def test_selection_does_not_commute_with_physical_windows(w: Rows) -> None:
    """The last row, if its v is 1; or the last row whose v is 1."""
    given = {"s": arrivals_of(rows("1 1 0\n1 2 1"))}
    f = v_is(1, S)
    assert at(meaning(N.Filter(N.Window(S, w), f), given, DOMAIN), 1) == {}
    assert at(meaning(N.Window(N.Filter(S, f), w), given, DOMAIN), 1) == {(1, 1, 0): 1}


# Duplicate elimination and windows


@HALF
@given(filled(S), time_windows())
def test_duplicate_elimination_commutes_with_logical_windows(given: Inputs, w: TimeWindow) -> None:
    """δ(W_E(S(τ))) = W_E(δ(S(τ))), where the timestamp is a column that δ compares as well."""
    assert same(N.Distinct(N.Window(S, w)), N.Window(N.Distinct(S), w), given)


def test_duplicate_elimination_does_not_commute_with_physical_windows() -> None:
    """The two last rows are equal; without duplicates, the two last rows are two."""
    given = {"s": arrivals_of(rows("2 2 0\n1 1 1\n1 1 1"))}
    assert at(meaning(N.Distinct(N.Window(S, Rows(2))), given, DOMAIN), 1) == {(1, 1, 1): 1}
    assert at(meaning(N.Window(N.Distinct(S), Rows(2)), given, DOMAIN), 1) == {(1, 1, 1): 1, (2, 2, 0): 1}


# Stateful operators and windows


@pytest.mark.parametrize("w", [Range(1), Rows(1)], ids=str)
def test_join_does_not_commute_with_windows(w: AnyWindow) -> None:
    """A pair whose right row has left its window, or was pushed out of it."""
    given = {"s": arrivals_of(rows("1 1 1")), "r": arrivals_of(rows("1 5 0\n2 6 1"))}
    windows_first = N.Join(N.Window(S, w), N.Window(R, w), K_EQUAL)
    assert at(meaning(windows_first, given, DOMAIN), 1) == {}
    assert at(meaning(N.Window(N.Join(S, R, K_EQUAL), w), given, DOMAIN), 1) == {(1, 1, 1, 1, 5, 0): 1}


def test_intersection_does_not_commute_with_windows() -> None:
    """Paper 4 gives results the time of their evaluation: at 1 both have had a 1, but not in one window."""
    given = {"s": arrivals_of(rows("1 1 0")), "r": arrivals_of(rows("1 1 1"))}
    windows_first = N.Intersection(keep(N.Window(S, Range(1)), "k"), keep(N.Window(R, Range(1)), "k"))
    assert meaning(windows_first, given, DOMAIN) == {}
    together = meaning(N.Intersection(keep(S, "k"), keep(R, "k")), given, DOMAIN)
    assert A.nonzero(A.sliding(together, 1)) == {((1,), 1): 1}


@HALF
@given(filled(S, R), time_windows())
def test_intersection_with_timestamps_commutes_with_logical_windows(given: Inputs, w: TimeWindow) -> None:
    """Where the timestamp is a column that ∩ compares as well, a window is a condition on the row."""
    assert same(N.Intersection(N.Window(S, w), N.Window(R, w)), N.Window(N.Intersection(S, R), w), given)


def test_aggregation_does_not_commute_with_windows() -> None:
    """The greatest v of the window; or the greatest v of all, which no window holds any more."""
    given = {"s": arrivals_of(rows("1 9 0\n1 5 1"))}

    def greatest(node: N.Node) -> N.Node:
        return N.Aggregate(node, (), (("max", AggregateCall("max", node.column("v"))),))

    assert at(meaning(greatest(N.Window(S, Range(1))), given, DOMAIN), 1) == {(5,): 1}
    assert at(A.nonzero(A.sliding(meaning(greatest(S), given, DOMAIN), 1)), 1) == {}


# Windowed joins


@FEWER
@given(filled(S, R), any_window, any_window)
def test_windowed_join_is_commutative(given: Inputs, w1: AnyWindow, w2: AnyWindow) -> None:
    """i) S1 ⋈w S2 = S2 ⋈w S1, up to the order of columns; any windows."""
    s, r = N.Window(S, w1), N.Window(R, w2)
    one = N.Join(s, r, K_EQUAL)
    columns = tuple((f"{f.relation}_{f.name}", Column.to(f)) for f in one.schema)
    assert same(N.Project(one, columns), N.Project(N.Join(r, s, K_EQUAL), columns), given)


@FEWER
@given(filled(S, R, Q), any_window, any_window, any_window)
def test_windowed_join_is_associative(given: Inputs, w1: AnyWindow, w2: AnyWindow, w3: AnyWindow) -> None:
    """ii) (S1 ⋈w S2) ⋈w S3 = S1 ⋈w (S2 ⋈w S3); any windows, each on its own stream."""
    s, r, q = N.Window(S, w1), N.Window(R, w2), N.Window(Q, w3)
    assert same(N.Join(N.Join(s, r, K_EQUAL), q, V_EQUAL), N.Join(s, N.Join(r, q, V_EQUAL), K_EQUAL), given)


@FEWER
@given(filled(S, R), conditions(relation="s"), conditions(relation="r"), time_windows(), time_windows())
def test_windowed_join_distributes_over_selection(
    given: Inputs, f1: Expression, f2: Expression, w1: TimeWindow, w2: TimeWindow
) -> None:
    """iii) σ_F(S1 ⋈w S2) = σ_F1(S1) ⋈w σ_F2(S2) for logical windows, F = F1 ∧ F2, each reading its side."""
    above = N.Filter(N.Join(N.Window(S, w1), N.Window(R, w2), K_EQUAL), conjunction([f1, f2]))
    below = N.Join(N.Window(N.Filter(S, f1), w1), N.Window(N.Filter(R, f2), w2), K_EQUAL)
    assert same(above, below, given)


def test_windowed_join_does_not_distribute_over_selection_for_physical_windows() -> None:
    """As for selections: the last row if its v is 1, or the last row whose v is 1."""
    given = {"s": arrivals_of(rows("1 1 0\n1 2 1")), "r": arrivals_of(rows("1 7 0"))}
    f, w = v_is(1, S), Rows(1)
    above = N.Filter(N.Join(N.Window(S, w), N.Window(R, w), K_EQUAL), f)
    below = N.Join(N.Window(N.Filter(S, f), w), N.Window(R, w), K_EQUAL)
    assert at(meaning(above, given, DOMAIN), 1) == {}
    assert at(meaning(below, given, DOMAIN), 1) == {(1, 1, 0, 1, 7, 0): 1}


@FEWER
@given(filled(S, R), time_windows(), time_windows())
def test_windowed_join_distributes_over_projection(given: Inputs, w1: TimeWindow, w2: TimeWindow) -> None:
    """iv) π_L(S1 ⋈w S2) = π_L(π_L1(S1) ⋈w π_L2(S2)); L1 and L2 hold L, the join's columns, the timestamps."""
    narrow = [N.Window(N.Alias(keep(node, "k", "ts"), node.name), w) for node, w in ((S, w1), (R, w2))]
    wanted = (("k", S.column("k")), ("when", R.column("ts")))
    wide = N.Join(N.Window(S, w1), N.Window(R, w2), K_EQUAL)
    assert same(N.Project(wide, wanted), N.Project(N.Join(*narrow, K_EQUAL), wanted), given)


@FEWER
@given(arrivals_without_ties(), arrivals_without_ties(), row_windows(), row_windows())
def test_windowed_join_distributes_over_projection_for_physical_windows_without_ties(
    s_rows: list[ChangeRow], r_rows: list[ChangeRow], w1: Rows, w2: Rows
) -> None:
    """iv) the same for W_n and W_p."""
    narrow = [N.Window(N.Alias(keep(node, "k", "ts"), node.name), w) for node, w in ((S, w1), (R, w2))]
    wanted = (("k", S.column("k")), ("when", R.column("ts")))
    wide = N.Join(N.Window(S, w1), N.Window(R, w2), K_EQUAL)
    given = {"s": s_rows, "r": r_rows}
    assert same(N.Project(wide, wanted), N.Project(N.Join(*narrow, K_EQUAL), wanted), given)


# Windowed union and intersection


@pytest.mark.parametrize("operation", [N.Union, N.Intersection])
@FEWER
@given(given=filled(S, R), w1=any_window, w2=any_window)
def test_windowed_union_and_intersection_are_commutative(
    operation: type[N.Union] | type[N.Intersection], given: Inputs, w1: AnyWindow, w2: AnyWindow
) -> None:
    """Any windows; timestamps are not compared."""
    s, r = keep(N.Window(S, w1), "k"), keep(N.Window(R, w2), "k")
    assert same(operation(s, r), operation(r, s), given)


@pytest.mark.parametrize("operation", [N.Union, N.Intersection])
@FEWER
@given(given=filled(S, R, Q), w1=any_window, w2=any_window, w3=any_window)
def test_windowed_union_and_intersection_are_associative(
    operation: type[N.Union] | type[N.Intersection],
    given: Inputs,
    w1: AnyWindow,
    w2: AnyWindow,
    w3: AnyWindow,
) -> None:
    """Any windows, each on its own stream."""
    s, r, q = (keep(N.Window(node, w), "k") for node, w in ((S, w1), (R, w2), (Q, w3)))
    assert same(operation(operation(s, r), q), operation(s, operation(r, q)), given)


@pytest.mark.parametrize("operation", [N.Union, N.Intersection, N.Difference])
@FEWER
@given(given=filled(S, R), f=conditions("k", "v"), w1=any_window, w2=any_window)
def test_selection_passes_through_set_operations_over_windows(
    operation: type[N.Union], given: Inputs, f: Expression, w1: AnyWindow, w2: AnyWindow
) -> None:
    """σ_F(W1(S1) ∘ W2(S2)) = σ_F(W1(S1)) ∘ σ_F(W2(S2)): any windows, as long as σ stays above them."""
    s, r = keep(N.Window(S, w1), "k", "v"), keep(N.Window(R, w2), "k", "v")
    assert same(N.Filter(operation(s, r), f), operation(N.Filter(s, f), N.Filter(r, f)), given)


@pytest.mark.parametrize(
    ("operation", "above", "below"), [(N.Union, 0, 2), (N.Intersection, 0, 1)], ids=["union", "intersection"]
)
def test_set_operations_do_not_distribute_over_selection_for_physical_windows(
    operation: type[N.Union], above: int, below: int
) -> None:
    """Both streams end with v = 2, and both have had a row with v = 1."""
    given = {"s": arrivals_of(rows("1 1 0\n1 2 1")), "r": arrivals_of(rows("1 1 0\n1 2 1"))}
    w, f = Rows(1), v_is(1, S)
    windows_first = N.Filter(operation(N.Window(S, w), N.Window(R, w)), f)
    selected_first = operation(N.Window(N.Filter(S, f), w), N.Window(N.Filter(R, v_is(1, R)), w))
    assert at(meaning(windows_first, given, DOMAIN), 1).get((1, 1, 0), 0) == above
    assert at(meaning(selected_first, given, DOMAIN), 1).get((1, 1, 0), 0) == below
