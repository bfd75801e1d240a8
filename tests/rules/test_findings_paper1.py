"""What is printed in paper 1 and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does; docs/findings.md tells the same in
prose. The papers were read as text made from the printed pages: a lost hat or indentation may be the copy's
fault, and is called so. Streams are little tables `k v ts`.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Logical, Record, coalesce, from_logical
from everview.algebra.time import INFINITY, Interval
from everview.algebra.windows import Fixed, Range
from tests.rules import paper1_algorithms as A
from tests.rules.findings import K_EQUAL, a, b, c, count, logical, seen, streams
from tests.rules.paper1_algorithms import Element
from tests.streams import R, S, arrivals_of, keep, rows, same

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
