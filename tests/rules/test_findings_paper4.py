"""What is printed in paper 4 and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does; docs/findings.md tells the same in
prose. The papers were read as text made from the printed pages: a lost hat or indentation may be the copy's
fault, and is called so. Streams are little tables `k v ts`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.expressions import Comparison, Expression, Literal
from everview.algebra.types import INT
from everview.algebra.windows import Band, Fixed, Range, Rows, TimeWindow
from everview.errors import AlgebraError
from everview.reference.scope import lower_landmark, scope, sliding
from tests.rules.findings import HALF, K_EQUAL, Inputs, a, b, count, seen, streams, v_is
from tests.streams import R, S, conditions, filled, keep, rows, same, time_windows

# Paper 4, windows


def contents(given: str, tau: int) -> list[Record]:
    """S(τ): the records `k v ts` that have come up to τ (definition 4)."""
    return [e for e in rows(given) if e[-1] <= tau]


def since(stream: list[Record], tau_1: int) -> int:
    """|{s ∈ S(τ) : τ1 ≤ s.Aτ ≤ τ}|."""
    return sum(1 for e in stream if e[-1] >= tau_1)


def test_count_window_formula_never_holds() -> None:
    """Printed: {s ∈ S(τ) : ∃τ1 (τ1 ≤ τ ∧ |…τ1…| ≤ N) ∧ ∀τ2 ∈ T (τ2 < τ1 ∧ |…τ2…| > N)}.
    True: "∀τ2 (τ2 < τ1 ∧ …)" is false, as τ1 itself is not before τ1. With ⇒ for ∧, s is not tied to τ1, and
    the window is all of S(τ); where no more than N rows exist it is empty, unless time has a first instant.
    Tied to τ1, it leaves out the whole batch of the border.
    Everview: ROWS N is the N last rows by (ts, SEQUENCE BY, all columns), or all of fewer.
    """

    def literal(stream: list[Record], tau: int) -> list[Record]:
        found = any(
            since(stream, t1) <= 1 and all(t2 < t1 and since(stream, t2) > 1 for t2 in range(-9, 9))
            for t1 in range(-8, tau + 1)
        )
        return stream if found else []

    def with_arrow(
        stream: list[Record], tau: int, first: int | None = None, tied: bool = False
    ) -> list[Record]:
        """∀τ2 (τ2 < τ1 ⇒ …); time begins at `first`, or never: then -9 is before every τ1 that is tried."""
        begin = -9 if first is None else first
        borders = [
            t1 for t1 in range(-8 if first is None else first, tau + 1)
            if since(stream, t1) <= 1 and all(since(stream, t2) > 1 for t2 in range(begin, t1))
        ]  # fmt: skip
        return [s for s in stream if any(not tied or s[-1] >= t1 for t1 in borders)]

    one, two, tie = (rows(text) for text in ("1 1 0", "1 1 0\n1 2 1", "1 1 0\n1 2 1\n1 3 1"))
    assert literal(two, 1) == []
    assert with_arrow(two, 1) == two
    assert with_arrow(one, 1) == []
    assert with_arrow(one, 1, first=0) == one
    assert with_arrow(two, 1, tied=True) == [(1, 2, 1)]
    assert with_arrow(tie, 2, tied=True) == []
    given = streams("1 1 0\n1 2 1\n1 3 1")
    assert seen(N.Window(S, Rows(1)), given, 1) == {(1, 3, 1): 1}
    assert seen(N.Window(S, Rows(9)), given, 1) == {(1, 1, 0): 1, (1, 2, 1): 1, (1, 3, 1): 1}


def newest(stream: list[Record], itself: bool) -> list[Record]:
    """δ(S(τ)) of paper 4: rows without an equal one that is at least as recent; `itself` counts, or not."""
    return [
        s for s in stream
        if not any(x[:-1] == s[:-1] and (x[-1] >= s[-1] if itself else x[-1] > s[-1]) for x in stream)
    ]  # fmt: skip


def test_windowed_duplicate_elimination_formula_is_always_empty() -> None:
    """Printed: {s : ∄s′ ∈ W(S(τ)), all attributes equal ∧ s′.Aτ ≥ s.Aτ}, "the most recent appearance".
    True: s′ may be s itself, so nothing is ever left; with > two equal rows of one instant both stay.
    Everview: δ is paper 1's: one copy of every record while there is any.
    """
    stream = contents("1 1 0\n1 1 2\n1 1 2", 2)
    assert newest(stream, itself=True) == []
    assert newest(stream, itself=False) == [(1, 1, 2), (1, 1, 2)]
    assert seen(N.Distinct(keep(S, "k", "v")), streams("1 1 0\n1 1 2\n1 1 2"), 2) == {(1, 1): 1}


def windowed(stream: list[Record], w: TimeWindow, tau: int) -> list[Record]:
    covered = scope(w, tau, 0)
    return [s for s in stream if covered is not None and covered[0] <= s[-1] <= covered[1]]


@pytest.mark.parametrize("w", [Range(9, lag=1), Range(9, slide=2), Band(upper=0)], ids=str)
def test_duplicate_elimination_does_not_commute_with_windows_that_end_in_the_past(w: TimeWindow) -> None:
    """Printed: δ(W_E(S(τ))) = W_E(δ(S(τ))) for logical windows; δ keeps the most recent appearance.
    True: only while the window reaches up to τ. With a lag, between slides, or after an upper landmark, δ
    first keeps the appearance that the window does not see yet, or never.
    Everview: δ over a stream compares the timestamp too, and commutes; over projected rows it stays above.
    """
    stream = contents("1 1 0\n1 1 1", 1)
    assert newest(windowed(stream, w, 1), itself=False) == [(1, 1, 0)]
    assert windowed(newest(stream, itself=False), w, 1) == []


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 9)), max_size=6),
    st.integers(0, 12),
    st.sampled_from([Range(1), Range(4), Fixed(3), Band(), Band(lower=4)]),
)
def test_duplicate_elimination_commutes_with_windows_that_end_now(
    records: list[Record], tau: int, w: TimeWindow
) -> None:
    """What is left of the printed rule."""
    stream = [e for e in records if e[-1] <= tau]
    both = newest(windowed(stream, w, tau), itself=False), windowed(newest(stream, itself=False), w, tau)
    assert Counter(both[0]) == Counter(both[1])


def test_projection_commutes_with_physical_windows_only_without_ties() -> None:
    """Printed: "it is obvious that projection is commutative with both logical and physical windows".
    True: among rows of one instant something must choose. The paper chooses at random, and no rule survives
    that; an order by the columns changes with the columns.
    Everview: ties go by SEQUENCE BY, then all columns; π may go below ROWS only if it keeps that order.
    """
    given = streams("1 2 0\n2 1 0")
    assert seen(keep(N.Window(S, Rows(1)), "v", "ts"), given, 0) == {(1, 0): 1}
    assert seen(N.Window(keep(S, "v", "ts"), Rows(1)), given, 0) == {(2, 0): 1}


def test_selection_of_whole_partitions_commutes_with_partitioned_windows() -> None:
    """Printed: selection commutes "with logical time-based windows only, but not physical ones".
    True: where F reads only the grouping attributes, it takes or leaves whole partitions, and commutes
    (test_selection_of_partitions_commutes_with_partitioned_windows).
    Everview: such a filter may go below PARTITION BY … ROWS.
    """
    given = streams("1 1 0\n2 2 1\n1 3 2")
    f, w = Comparison("=", S.column("k"), Literal(2, INT)), Rows(1, ("k",))
    assert seen(N.Filter(N.Window(S, w), f), given, 2) == {(2, 2, 1): 1}
    assert same(N.Filter(N.Window(S, w), f), N.Window(N.Filter(S, f), w), given)


def test_join_distributes_over_selection_only_if_the_condition_splits() -> None:
    """Printed: σ_F(S1 ⋈w S2) = σ_F(S1) ⋈w σ_F(S2).
    True: F of one side's attribute, asked of both sides, loses pairs; F that compares the sides fits neither.
    Everview: a conjunct may go to the side whose columns it reads.
    """
    given = streams("1 1 0", "1 2 0")
    w = Range(1)
    s, r = N.Window(S, w), N.Window(R, w)
    above = N.Filter(N.Join(s, r, K_EQUAL), v_is(1, S))
    assert seen(above, given, 0) == {(1, 1, 0, 1, 2, 0): 1}
    assert seen(N.Join(N.Filter(s, v_is(1, S)), N.Filter(r, v_is(1, R)), K_EQUAL), given, 0) == {}
    with pytest.raises(AlgebraError, match=r"there is no column 'r\.v'"):
        N.Filter(s, Comparison("=", S.column("v"), R.column("v")))


def test_join_is_associative_only_with_windows_on_the_streams() -> None:
    """Printed: (S1 ⋈w S2) ⋈w S3 = S1 ⋈w (S2 ⋈w S3), where X ⋈w Y is W1(X) ⋈ W2(Y).
    True: taken so, a join's result is windowed again; ROWS 2 drops two of four pairs, and none of two.
    Everview: a window is written on a stream; the windows stay there when joins are reordered.
    """
    q = N.Alias(R, "q")
    given = streams("1 1 0\n2 2 0", "3 3 0\n4 4 0")

    def last_two(node: N.Node) -> N.Node:
        return N.Window(node, Rows(2))

    one_of_q = N.Filter(last_two(q), Comparison("=", q.column("k"), Literal(3, INT)))
    left_first = N.Join(last_two(N.Join(last_two(S), last_two(R))), one_of_q)
    right_first = N.Join(last_two(S), last_two(N.Join(last_two(R), one_of_q)))
    assert sum(seen(left_first, given, 0).values()) == 2
    assert sum(seen(right_first, given, 0).values()) == 4


@pytest.mark.parametrize("operation", [N.Union, N.Intersection])
@HALF
@given(given=filled(S, R), f=conditions(), w1=time_windows(), w2=time_windows())
def test_set_operations_distribute_over_selection_for_logical_windows(
    operation: type[N.Union], given: Inputs, f: Expression, w1: TimeWindow, w2: TimeWindow
) -> None:
    """Printed: for union and intersection "commutativity and associativity hold, but not distribution over
    selection".
    True: it fails for physical windows only (test_paper4_rules.py); for logical windows it holds.
    Everview: a filter may go through UNION, INTERSECT and time windows.
    """
    above = N.Filter(operation(N.Window(S, w1), N.Window(R, w2)), f)
    below = operation(N.Window(N.Filter(S, f), w1), N.Window(N.Filter(R, f), w2))
    assert same(above, below, given)


def test_windowed_union_formula_admits_any_count() -> None:
    """Printed: {⟨s, τ, k⟩ : ∃k1, k2 (⟨s, k1⟩ ∈ W1(S1) ∨ ⟨s, k2⟩ ∈ W2(S2)) ∧ k = k1 + k2 ∧ k ≠ 0}.
    True: because of the "or", the k of a side is free where the other side holds s: every larger k qualifies.
    Everview: the side that does not hold s counts 0.
    """
    w1, w2 = {a: 1}, {b: 1}
    numbers = range(4)
    printed = {
        k1 + k2 for k1 in numbers for k2 in numbers if (w1.get(a) == k1 or w2.get(a) == k2) and k1 + k2 != 0
    }
    assert printed == {1, 2, 3, 4}
    given = streams("1 1 0", "2 2 0")
    assert seen(N.Union(S, R), given, 0) == {(1, 1, 0): 1, (2, 2, 0): 1}


def test_windowed_difference_formula_keeps_only_what_both_have() -> None:
    """Printed: {⟨s, τ, k⟩ : ∃k1, k2 (⟨s, k1⟩ ∈ W1(S1) ∧ ⟨s, k2⟩ ∈ W2(S2)) ∧ k = max(0, k1 - k2) ∧ k ≠ 0}.
    True: a tuple that the second window does not have at all is in no result, though nothing was
    subtracted, unless ⟨s, 0⟩ counts as being there.
    Everview: the side that does not hold s counts 0 (paper 1, equation 5).
    """
    w1, w2 = Counter({a: 2, b: 1}), Counter({a: 1})
    printed = {s: max(0, w1[s] - w2[s]) for s in w1.keys() & w2.keys() if w1[s] > w2[s]}
    assert printed == {a: 1}
    given = streams("1 1 0\n1 1 0\n2 2 0", "1 1 0")
    assert seen(N.Difference(S, R), given, 0) == {(1, 1, 0): 1, (2, 2, 0): 1}


def test_windowed_aggregation_formula_applies_f_to_the_group_key() -> None:
    """Printed: {⟨a_i, …, a_n, f(a_i, …, a_n), τ⟩ : a_k = s.A_k for an s ∈ W(S(τ))}.
    True: f gets the grouping values and not the group's tuples: a group of two has COUNT 1, as one of one.
    Everview: f gets the tuples of the group.
    """
    stream = contents("1 5 0\n1 6 0\n2 7 0", 0)
    printed = {(k, len([k])) for k, _, _ in stream}
    assert printed == {(1, 1), (2, 1)}
    assert seen(count(S, "k"), streams("1 5 0\n1 6 0\n2 7 0"), 0) == {(1, 2): 1, (2, 1): 1}


def test_landmark_scope_has_no_branch_for_a_landmark_in_the_past() -> None:
    """Printed: scope_l(τ) = ∅ if τ0 ≤ τ < τ_l, [τ_l, τ] if τ0 ≤ τ_l ≤ τ.
    True: for τ_l < τ0, a landmark before the query was put, neither branch applies.
    Everview: SINCE counts from the landmark, whenever the query was put.
    """

    def printed(tau: int, tau_0: int, tau_l: int) -> tuple[int, int] | str | None:
        if tau_0 <= tau < tau_l:
            return None
        return (tau_l, tau) if tau_0 <= tau_l <= tau else "no branch"

    assert [printed(tau, 1, 2) for tau in (1, 2)] == [lower_landmark(tau, 2) for tau in (1, 2)]
    assert printed(5, 1, 0) == "no branch"
    assert lower_landmark(5, 0) == (0, 5)


@given(st.integers(0, 4), st.integers(1, 6), st.integers(0, 4))
def test_sliding_scope_is_whole_at_its_borders(tau_0: int, extent: int, lag: int) -> None:
    """Checked and found right: where half-filled becomes full the two branches agree, and no instant is
    without one. (The text asks for a lag δ > 0 right after it sets δ = 0; 0 is meant to be allowed.)
    """
    last_half_filled = tau_0 + lag + extent - 1
    full = (last_half_filled - lag - extent + 1, last_half_filled - lag)
    assert sliding(last_half_filled, tau_0, extent, 1, lag) == full
    ends = [sliding(tau, tau_0, extent, 1, lag) for tau in range(tau_0, tau_0 + lag + extent + 3)]
    assert ends[:lag] == [None] * lag
    assert all(end is not None for end in ends[lag:])
    assert ends[-1] == (tau_0 + 3, tau_0 + extent + 2)
