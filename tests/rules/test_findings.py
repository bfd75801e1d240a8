"""What is printed in the papers and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does; docs/findings.md tells the same in
prose. The papers were read as text made from the printed pages: a lost hat or indentation may be the copy's
fault, and is called so. Streams are little tables `k v ts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical, Record, coalesce, from_logical, to_logical
from everview.algebra.expressions import TRUE, Arithmetic, Comparison, Expression, Literal, conjunction
from everview.algebra.reference import meaning
from everview.algebra.schema import Schema
from everview.algebra.scope import lower_landmark, scope, sliding
from everview.algebra.time import INFINITY, Grid, Interval
from everview.algebra.types import INT, INTERVAL, STRING, TIMESTAMP
from everview.algebra.windows import Band, Fixed, Range, Rows, TimeWindow
from everview.errors import AlgebraError
from tests.rules import paper1_algorithms as A
from tests.rules.paper1_algorithms import Element
from tests.streams import DOMAIN, R, S, arrivals_of, at, conditions, filled, keep, rows, same, time_windows

Inputs = dict[str, list[ChangeRow]]
HALF = settings(max_examples=settings.default.max_examples // 2)

a, b, c = ("a",), ("b",), ("c",)
K_EQUAL = Comparison("=", S.column("k"), R.column("k"))


def streams(s: str, r: str = "") -> Inputs:
    return {"s": arrivals_of(rows(s)), "r": arrivals_of(rows(r))}


def seen(plan: N.Node, given: Inputs, t: int) -> dict[Record, int]:
    """The snapshot of a plan at t."""
    return at(meaning(plan, given, DOMAIN), t)


def v_is(value: int, node: N.Node) -> Expression:
    return Comparison("=", node.column("v"), Literal(value, INT))


def logical(stream: Iterable[Element]) -> Logical:
    return to_logical(A.as_rows(stream), DOMAIN)


def count(node: N.Node, *keys: str) -> N.Node:
    return N.Aggregate(node, tuple((k, node.column(k)) for k in keys), (("n", AggregateCall("count")),))


# Paper 1, the logical algebra


def test_equation_2_8_9_10_leave_records_that_occur_zero_times() -> None:
    """Printed: n is a sum (2, 8) or a difference (9, 10) that may be 0, and no n > 0 is asked, as (5) asks.
    True: with such a triple δ, equation 4, brings a record back that has left its window.
    Everview: what occurs 0 times is not there.
    """
    one = {(a, t): 1 for t in range(3)}
    windowed = A.sliding(one, 1)
    assert windowed == {(a, 0): 1, (a, 1): 0, (a, 2): 0}

    def distinct(stream: Logical) -> Logical:
        return dict.fromkeys(stream, 1)

    assert distinct(windowed) == {(a, 0): 1, (a, 1): 1, (a, 2): 1}
    assert distinct(A.nonzero(windowed)) == {(a, 0): 1}


def test_equation_7_gives_groups_that_are_empty_a_row() -> None:
    """Printed: α_f has a row at every t, also f(∅); GROUP BY is ∪+ of α_f(π_j(γ(S))) over all j.
    True: then a group has a row, of count 0, while it has no record; algorithm 8 emits none.
    Everview: a group that is empty has no row; without GROUP BY there is always one, as in SQL.
    """
    given = streams("1 5 2")
    groups = [N.GroupMember(S, S.column("k"), j) for j in (1, 2)]
    printed = N.Union(count(groups[0]), count(groups[1]))
    assert seen(printed, given, 1) == {(0,): 2}
    assert seen(keep(count(S, "k"), "n"), given, 1) == {}
    assert seen(printed, given, 2) == {(0,): 1, (1,): 1}
    assert seen(keep(count(S, "k"), "n"), given, 2) == {(1,): 1}


def test_equation_9_goes_below_zero_over_a_stream_with_retractions() -> None:
    """Printed, with its precondition: every record is valid for ever; n = n(t) - n(t-w).
    True: over a result that shrinks, such as a view, n comes out negative.
    Everview: a window asks the row's own timestamp, and so has a meaning over views too.
    """
    shrinking = {(a, 0): 2, (a, 1): 1}
    assert A.sliding(shrinking, 1) == {(a, 0): 2, (a, 1): -1}
    given = {"s": arrivals_of(rows("1 1 0\n1 1 0")), "r": [ChangeRow((1, 1, 0), 1, INFINITY)]}
    view = N.Window(N.Difference(S, R), Range(2))
    assert [seen(view, given, t) for t in range(3)] == [{(1, 1, 0): 2}, {(1, 1, 0): 1}, {}]


def test_equation_12_semi_join_multiplies_by_the_distinct_partners() -> None:
    """Printed: S1 ⋉ S2 = S1 ⋈ δ(S2), projected on S1: "all elements of S1 that join with an element of S2".
    True: an element with two different partners comes out twice.
    Everview: the words. L ⋈ δ(π_key(R)) where θ is an equality, else by way of δ(π_L(δ(L) ⋈θ R)).
    """
    given = streams("1 0 0", "1 7 0\n1 8 0")
    joined = N.Join(S, N.Distinct(R), K_EQUAL)
    printed = N.Project(joined, tuple((f.name, S.column(f.name)) for f in S.schema))
    assert seen(printed, given, 0) == {(1, 0, 0): 2}
    assert seen(N.SemiJoin(S, R, K_EQUAL), given, 0) == {(1, 0, 0): 1}


def test_equation_15_strict_difference_keeps_duplicates() -> None:
    """Printed: −strict differs from − "by eliminating duplicates in the result", = S1 − (S1 ⋉= S2).
    True: the formula takes away all copies of what occurs in S2, and leaves every copy of what does not.
    Everview: StrictDifference is the formula; SQL's EXCEPT is that of δ(S1).
    """
    given = streams("1 1 0\n1 1 0\n2 2 0\n2 2 0", "2 2 0")
    assert seen(N.StrictDifference(S, R), given, 0) == {(1, 1, 0): 2}
    assert seen(N.Difference(S, R), given, 0) == {(1, 1, 0): 2, (2, 2, 0): 1}
    assert seen(N.StrictDifference(N.Distinct(S), R), given, 0) == {(1, 1, 0): 1}


def test_equation_16_coalescing_loses_a_copy() -> None:
    """Printed: two triples are merged into (e, [t_S, t̃_E), 1), which is added by set union.
    True: the second time the same triple is made it vanishes in the set: of two copies one is left.
    Everview: `coalesce` adds multiplicities.
    """
    twice: Logical = {(a, 0): 2, (a, 1): 2}
    printed = A.coalesce_set(frozenset((e, t, t + 1, n) for (e, t), n in twice.items()))
    assert printed == {frozenset({(a, 0, 2, 1)})}
    assert from_logical(twice) == [ChangeRow(a, 0, 2, 2)]


def test_filter_does_not_commute_with_window_if_it_reads_the_time() -> None:
    """Printed: σ_p(ω_w(S)) ≐ ω_w(σ_p(S)), where equation 1 lets p read t ("temporal filtering").
    True: for p = (t ≥ 1) the filter's result begins at 1, and the window counts from there. So with γ_f.
    Everview: conditions read the record only; the instant is not among its columns.
    """
    one = {(a, t): 1 for t in range(3)}

    def from_1_on(stream: Logical) -> Logical:
        return {(e, t): n for (e, t), n in stream.items() if t >= 1}

    assert from_1_on(A.nonzero(A.sliding(one, 1))) == {}
    assert A.nonzero(A.sliding(from_1_on(one), 1)) == {(a, 1): 1}


def test_union_is_called_stateful_and_yet_commutes_with_window() -> None:
    """Printed: ω "is not commutative with stateful operators", and ∪+ is one of them.
    True: ∪+ keeps state only to order its output; ω_w(S1 ∪+ S2) ≐ ω_w(S1) ∪+ ω_w(S2) always holds
    (test_union_commutes_with_window).
    Everview: a window may be pushed through UNION ALL.
    """
    given = streams("1 1 0\n1 1 2", "1 1 1")
    w = Range(2)
    assert same(N.Window(N.Union(S, R), w), N.Union(N.Window(S, w), N.Window(R, w)), given)


# Paper 1, the physical algebra


def test_inverse_intersect_of_disjoint_intervals() -> None:
    """Printed: ∅ if the two do not overlap; in words, "all subintervals of maximum size of its first argument
    that are not overlapped by the second".
    True: that is the whole first interval. The algorithms ask only where the two overlap.
    Everview: `Interval.subtract` follows the words.
    """
    assert A.inverse_intersect(Element(a, 0, 1), Element(a, 1, 2)) == []
    assert Interval(0, 1).subtract(Interval(1, 2)) == (Interval(0, 1),)


@pytest.mark.parametrize(
    ("t", "printed", "corrected"),
    [(0, [], [(0, 1)]), (1, [(1, 2)], [(1, 2)]), (2, [(2, 2), (2, 3)], [(2, 3)])],
)
def test_algorithm_4_emits_inside_the_loop(
    t: int, printed: list[tuple[int, int]], corrected: list[tuple[int, int]]
) -> None:
    """Printed (or its indentation lost): line 12, which emits, stands in the loop that finds the section.
    True: nothing comes out in the first section, and one element per section passed in later ones.
    Everview: FIXED is the closed form, until the next multiple of w.
    """
    stream = A.raw((a, t))
    assert [s[1:] for s in A.window(stream, 1, sliding=False, printed=True)] == printed
    assert [s[1:] for s in A.window(stream, 1, sliding=False)] == corrected
    assert Fixed(1).interval(t) == Interval(*corrected[0])


def test_algorithm_5_puts_the_columns_of_the_right_input_first() -> None:
    """Printed: line 10 makes e ∘ ê of the new element e and the stored ê, whichever input e came from.
    True: when the right element comes last the pair is the wrong way round; θ gets its sides swapped too.
    Everview: the left columns come first.
    """
    both = A.as_arrivals([Element(a, 0, 1)], [Element(b, 0, 1)])
    assert A.join(both, lambda *_: True, printed=True) == [Element(b + a, 0, 1)]
    assert A.join(both, lambda *_: True) == [Element(a + b, 0, 1)]
    assert A.join(both, lambda left, right: left < right, printed=True) == []
    assert A.join(both, lambda left, right: left < right) == [Element(a + b, 0, 1)]


def test_algorithm_7_removes_an_element_that_is_not_there() -> None:
    """Printed (or a hat lost): line 18 removes s̄, the part of the new element, from the other SweepArea.
    True: the stored element must go ("ŝ is removed from SA_k"); else it survives its own subtraction.
    Everview: EXCEPT ALL compares profiles of counts, and pairs no rows.
    """
    both = A.as_arrivals([Element(a, 0, 2)], [Element(a, 0, 1)])
    assert A.difference(both, printed=True) == [Element(a, 0, 2), Element(a, 1, 2)]
    assert A.difference(both) == [Element(a, 1, 2)]


def counted(old: Record | None, new: Record) -> Record:
    return (1,) if old is None else (int(str(old[0])) + 1,)


def test_algorithm_8_loses_the_past_and_counts_twice() -> None:
    """Printed (or a hat and an indentation lost): line 10 inserts [t_S, t_S); line 22 is in the else branch.
    True: line 10 must insert [t̂_S, t_S), or what held before is lost; line 22 must run for every element of
    `qualifies`, or line 23 counts the overlap as if nothing had been there.
    Everview: groups are swept by begins and ends.
    """
    stream = [Element(a, 0, 2), Element(b, 1, 2)]
    once, twice = (1,), (2,)
    assert A.aggregate(stream, counted, printed=True) == [
        Element(once, 1, 1), Element(twice, 1, 2), Element(once, 1, 2),
    ]  # fmt: skip
    assert A.aggregate(stream, counted) == [Element(once, 0, 1), Element(twice, 1, 2)]


def test_algorithm_8_example_keeps_what_is_already_out() -> None:
    """Printed: before the reorganization of the third element the state has five aggregates, the first until
    05:01:32, the second until 05:02:16; the reorganization then emits the first only.
    True: p_remove is t_S ≥ t̂_E, so the first goes when the second element comes at 05:01:32, and the second
    when the third comes at 05:02:16. The listing takes p_remove to be t_S > t̂_E.
    Everview: emits what is final by the end of the slice. Times here are seconds after 05:00:00.
    """
    minutes = 15 * 60
    stream = [Element((v,), t, t + minutes) for v, t in ((18.28, 8), (21.33, 92), (19.69, 136))]

    def average(old: Record | None, new: Record) -> Record:
        return (new,) if old is None else (*old, new)

    def listed(elements: list[Element]) -> list[tuple[float, int, int]]:
        return [(round(sum(v for (v,) in s.e) / len(s.e), 3), s.start, s.end) for s in elements]

    all_five = [
        (18.28, 8, 92), (19.805, 92, 136), (19.767, 136, 908), (20.51, 908, 992), (19.69, 992, 1036),
    ]  # fmt: skip
    assert listed(A.aggregate(stream, average)) == all_five
    assert listed(A.aggregate(stream[:2], average, drained=False)) == all_five[:1]
    assert listed(A.aggregate(stream, average, drained=False)) == all_five[:2]


def test_algorithm_10_forgets_the_earlier_start() -> None:
    """Printed (or a hat lost): line 9 inserts (e, [t_S, t_E)), the new element itself.
    True: by the words it is (e, [t̂_S, t_E)); else the stored half is lost.
    Everview: `coalesce` keeps both ends.
    """
    stream = [Element(a, 0, 1), Element(a, 1, 2)]
    assert A.coalesce(stream, limit=9, printed=True) == [Element(a, 1, 2)]
    assert A.coalesce(stream, limit=9) == [Element(a, 0, 2)]
    assert coalesce(A.as_rows(stream)) == [ChangeRow(a, 0, 2)]


def test_algorithm_11_breaks_the_order() -> None:
    """Printed: pieces go out while t_S ≥ t̂_S; "p_remove does not expire elements too early".
    True: a later element with the same start may end sooner than a piece that is out: ≤t is broken. t_S > t̂_S
    is right, as in the union.
    Everview: rows have no order. An interval that ends at ∞ would be cut for ever: `split` leaves it whole.
    """
    stream = [Element(a, 0, 4), Element(b, 2, 3), Element(c, 2, 3)]
    printed, corrected = A.split(stream, 2, printed=True), A.split(stream, 2)
    assert [s[1:] for s in printed] == [(0, 2), (2, 3), (2, 4), (2, 3)]
    assert [s[1:] for s in corrected] == [(0, 2), (2, 3), (2, 3), (2, 4)]
    assert not all(A.by_time(x) <= A.by_time(y) for x, y in pairwise(printed))
    assert logical(printed) == logical(corrected) == logical(stream)


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


# Paper 5, synchronization


def test_parking_lot_query_compares_the_times_of_entry_and_exit() -> None:
    """Printed: P1 is SELECT VID, VType FROM ℜ(S1) − ℜ(S2), and the schema of ℜ(S) ends with TS (4.1).
    True: a vehicle leaves later than it came, so no record of S1 is one of S2, and nobody ever leaves.
    Everview: EXCEPT compares the columns of its two SELECTs; the timestamp is one only if asked for.
    """
    given = streams("7 1 0", "7 1 3")
    printed = keep(N.Difference(S, R), "k", "v")
    meant = N.Difference(keep(S, "k", "v"), keep(R, "k", "v"))
    assert seen(printed, given, 3) == {(7, 1): 1}
    assert seen(meant, given, 2) == {(7, 1): 1}
    assert seen(meant, given, 3) == {}


def test_window_join_predicate_leaves_out_what_is_exactly_5_apart() -> None:
    """Printed: "joined only if they are at most 5 time units apart": S_i.TS - 5 < S_j.TS < S_i.TS + 5 (4.4).
    True: the predicate means less than 5 apart.
    Everview: does what the condition says; "at most" is written with <=.
    """
    s_ts, r_ts = S.column("ts"), R.column("ts")

    def within_5(less: str) -> Expression:
        five = Literal(5, INTERVAL)
        return conjunction(
            [
                Comparison(less, Arithmetic("-", s_ts, five), r_ts),
                Comparison(less, r_ts, Arithmetic("+", s_ts, five)),
            ]
        )

    given = streams("1 1 0", "1 2 5")
    assert seen(N.Join(S, R, within_5("<")), given, 5) == {}
    assert seen(N.Join(S, R, within_5("<=")), given, 5) == {(1, 1, 0, 1, 2, 5): 1}


def sync(node: N.Node, step: int, origin: int = 0) -> N.Node:
    return N.Synchronize(node, Grid(step, origin))


def test_theorem_1_is_stated_with_the_wrong_synchronization_outside() -> None:
    """Printed: ℜ_Sync_i(S) can be derived from ℜ_Sync_j(ξ(ℜ_Sync_j(S))); the proof ends with Sync_i outside.
    True: with Sync_j outside it is ℜ_Sync_j(S) again; Sync_i must be applied, as the proof does.
    Everview: the proof's form.
    """
    given = streams("1 1 0\n2 2 2")
    assert same(sync(sync(S, 2), 2), sync(S, 2), given)
    assert seen(sync(sync(S, 2), 2), given, 2) == {(1, 1, 0): 1, (2, 2, 2): 1}
    assert seen(sync(S, 4), given, 2) == {(1, 1, 0): 1}
    assert same(sync(sync(S, 2), 4), sync(S, 4), given)


def test_theorem_2_needs_a_first_point() -> None:
    """Printed: for any unary operator, Θ(ℜ_Sync(S)) and ℜ_Sync(ξ(Θ(ℜ(S)))) agree; T̃ = max(t ∈ Sync, t < T).
    True: before the first point T̃ does not exist. If the relation is empty there, a count without groups is 0
    on the left, and not yet there on the right.
    Everview: a relation is empty before its first point; SYNC may not move through an aggregate without keys.
    """
    given = streams("1 1 0")
    assert seen(count(sync(S, 2, origin=1)), given, 0) == {(0,): 1}
    assert seen(sync(count(S), 2, origin=1), given, 0) == {}
    assert seen(count(sync(S, 2, origin=1)), given, 1) == seen(sync(count(S), 2, origin=1), given, 1)


def test_example_10_calls_equal_what_agrees_at_full_points_only() -> None:
    """Printed: σ(ℜ_Sync1(S1) ⋈ ℜ_Sync2(S2)) = ℜ_Sync1∩Sync2(ξ(σ(ℜ(S1) ⋈ ℜ(S2)))).
    True: at full points. Between them the sides differ, and where Sync1 and Sync2 have no point in common the
    peeled form is empty for ever.
    Everview: two synchronizations may be peeled only if they are equal.
    """
    given = streams("1 1 0", "1 2 1")
    apart = N.Filter(N.Join(sync(S, 2), sync(R, 2, origin=1), K_EQUAL), TRUE)
    assert seen(apart, given, 1) == {(1, 1, 0, 1, 2, 1): 1}
    assert Grid(2).common(Grid(2, origin=1)) is None
    empty = N.Stream("empty", Schema.of(("point", TIMESTAMP), timeline="point"))
    peeled = N.SynchronizeOn(N.Join(S, R, K_EQUAL), empty)
    assert meaning(peeled, {**given, "empty": []}, DOMAIN) == {}


def test_example_9_leaves_out_the_point_0() -> None:
    """Printed: with ticks every 2 and every 3 the output "is refreshed at time points 2, 3, 4, and 6".
    True: 0 is a point of both (example 5 begins Sync_2 with it, and the output at 2 reads R[S3(0)]): up to 6
    there are five points, and 0 is a full one like 6.
    Everview: a grid has all its points.
    """
    points = [t for t in range(7) if t in Grid(2) or t in Grid(3)]
    assert points == [0, 2, 3, 4, 6]
    given = {name: arrivals_of([(1, t, t) for t in range(7)]) for name in "sr"}
    output = meaning(N.Join(sync(S, 2), sync(R, 3), K_EQUAL), given, DOMAIN)
    assert [t for t in range(7) if at(output, t) != at(output, t - 1)] == points
    finest = meaning(N.Join(S, R, K_EQUAL), given, DOMAIN)
    assert [t for t in range(6) if at(output, t) == at(finest, t)] == [0]


def test_full_points_are_defined_in_two_ways() -> None:
    """Printed: T is full iff the relation reflects all tuples up to T; "basically" these are Sync's (6.1).
    Definition 1 calls all other T partial, definition 2 says they are no synchronization points at all.
    True: where nothing came since the last point, the relation is up to date although T ∉ Sync.
    Everview: full points are the points.
    """
    given = streams("1 1 0")
    assert 1 not in Grid(2)
    assert seen(sync(S, 2), given, 1) == seen(S, given, 1)


def test_example_11_applies_the_mappings_in_the_wrong_order() -> None:
    """Printed: T4 = σ_Temp>100(ξ(ℜ(HotRooms2))), then ℜ_Sync4(ξ(…)) around it.
    True: HotRooms2 is a relation, ξ maps a relation to a stream and ℜ a stream to a relation, and σ needs a
    relation: it must be σ(ℜ(ξ(HotRooms2))). A stream has tags, which no σ over temperatures reads.
    Everview: a view is read as a relation, without either mapping.
    """
    columns = Schema.of(("room", STRING), ("v", INT), ("ts", TIMESTAMP), timeline="ts")
    rooms = N.Stream("rooms", columns)
    given = {"rooms": arrivals_of(rows("a 99 1\na 120 2\na 90 3"))}
    relation = N.Tagged(rooms, ("room",))

    def hot(node: N.Node, least: int) -> N.Node:
        return N.Filter(node, Comparison(">", node.column("v"), Literal(least, INT)))

    view = hot(sync(relation, 2), 80)
    assert seen(sync(hot(view, 100), 4), given, 4) == seen(hot(sync(relation, 4), 100), given, 4) == {}
    assert seen(hot(view, 100), given, 2) == {("a", 120, 2): 1}
