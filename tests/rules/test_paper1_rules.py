"""Paper 1: every transformation rule of section 5.3, and the derived operations of 3.4 to 3.8 as identities.

A rule that the paper states is a property over random streams. A rule that it denies has the smallest stream
on which the two sides differ, and what they are. Misprints are in test_findings_paper1.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical
from everview.algebra.expressions import Arithmetic, Comparison, Expression, conjunction
from everview.algebra.windows import Fixed, Range, TimeWindow
from everview.reference.meaning import meaning
from tests.rules import paper1_algorithms as A
from tests.streams import (
    DOMAIN,
    Q,
    R,
    S,
    arrivals,
    arrivals_of,
    at,
    conditions,
    filled,
    keep,
    rows,
    same,
    time_windows,
)

Inputs = dict[str, list[ChangeRow]]
# Half and a quarter of what the profile asks for: `make fuzz` searches on.
HALF = settings(max_examples=settings.default.max_examples // 2)
FEWER = settings(max_examples=settings.default.max_examples // 4)

K_EQUAL = Comparison("=", S.column("k"), R.column("k"))
V_EQUAL = Comparison("=", R.column("v"), Q.column("v"))
WHOLE_RECORD = conjunction([Comparison("<=>", S.column(f.name), R.column(f.name)) for f in S.schema])


def group_by_k(node: N.Node, *calls: tuple[str, AggregateCall]) -> N.Node:
    calls = calls or (("n", AggregateCall("count")), ("sum", AggregateCall("sum", node.column("v"))))
    return N.Aggregate(node, (("k", node.column("k")),), calls)


# 5.3, the rules that are printed


@FEWER
@given(filled(S, R, Q))
def test_product_is_associative(given: Inputs) -> None:
    """(S1 × S2) × S3 ≐ S1 × (S2 × S3)."""
    assert same(N.Join(N.Join(S, R), Q), N.Join(S, N.Join(R, Q)), given)


@HALF
@given(filled(S, R), conditions())
def test_filter_passes_through_union(given: Inputs, p: Expression) -> None:
    """σ_p(S1 ∪+ S2) ≐ σ_p(S1) ∪+ σ_p(S2)."""
    assert same(N.Filter(N.Union(S, R), p), N.Union(N.Filter(S, p), N.Filter(R, p)), given)


@HALF
@given(filled(S, R, Q), conditions(), st.lists(st.sampled_from([S, R, Q]), min_size=1, max_size=5))
def test_filter_passes_through_union_of_many(given: Inputs, p: Expression, many: list[N.Node]) -> None:
    """σ_p(S1 ∪+ … ∪+ Sn) ≐ σ_p(S1) ∪+ … ∪+ σ_p(Sn)."""
    together = N.Filter(reduce(N.Union, many), p)
    apart = reduce(N.Union, [N.Filter(node, p) for node in many])
    assert same(together, apart, given)


@FEWER
@given(filled(S, R))
def test_distinct_passes_through_product(given: Inputs) -> None:
    """δ(S1 × S2) ≐ δ(S1) × δ(S2)."""
    left, right = keep(S, "k"), keep(R, "v")
    assert same(N.Distinct(N.Join(left, right)), N.Join(N.Distinct(left), N.Distinct(right)), given)


@HALF
@given(filled(S), time_windows())
def test_group_by_is_a_union_of_aggregates_of_groups(given: Inputs, w: TimeWindow) -> None:
    """GROUP BY is ∪+(α_f(π_1(γ_g(S))), …, α_f(π_k(γ_g(S))))."""
    windowed = N.Window(S, w)
    groups = [N.GroupMember(windowed, S.column("k"), j) for j in (None, 0, 1, 2)]
    assert same(group_by_k(windowed), reduce(N.Union, [group_by_k(group) for group in groups]), given)


@FEWER
@given(filled(S, R, Q), time_windows(), time_windows())
def test_join_reordering(given: Inputs, w1: TimeWindow, w2: TimeWindow) -> None:
    """Of the rules taken over from Slivinskas et al.: (S1 ⋈ S2) ⋈ S3 ≐ S1 ⋈ (S2 ⋈ S3)."""
    s, r, q = N.Window(S, w1), N.Window(R, w2), N.Window(Q, w1)
    assert same(N.Join(N.Join(s, r, K_EQUAL), q, V_EQUAL), N.Join(s, N.Join(r, q, V_EQUAL), K_EQUAL), given)


@FEWER
@given(filled(S, R), conditions(relation="s"), conditions(relation="r"), time_windows())
def test_predicate_push_down(given: Inputs, p: Expression, q: Expression, w: TimeWindow) -> None:
    """Of the same: σ_p∧q(S1 ⋈ S2) ≐ σ_p(S1) ⋈ σ_q(S2), where p reads S1 only and q reads S2 only."""
    s, r = N.Window(S, w), N.Window(R, w)
    above = N.Filter(N.Join(s, r, K_EQUAL), conjunction([p, q]))
    assert same(above, N.Join(N.Filter(s, p), N.Filter(r, q), K_EQUAL), given)


@HALF
@given(filled(S), st.integers(1, 5))
def test_coalesce_and_split_change_nothing(given: Inputs, size: int) -> None:
    """4.2.4: neither has an impact on the semantics of a query."""
    assert same(N.Distinct(N.Coalesce(N.Window(S, Range(4)), size)), N.Distinct(N.Window(S, Range(4))), given)
    assert same(N.Distinct(N.Split(N.Window(S, Range(4)), size)), N.Distinct(N.Window(S, Range(4))), given)


# 3.4 to 3.8, the derived operations


@FEWER
@given(filled(S, R), time_windows())
def test_equation_11_theta_join(given: Inputs, w: TimeWindow) -> None:
    """⋈_p,f = μ_f(σ_p(S1 × S2))."""
    s, r = N.Window(S, w), N.Window(R, w)
    product = N.Filter(N.Join(s, r), K_EQUAL)
    columns = (("v", S.column("v")), ("other", R.column("v")))
    assert same(N.Project(N.Join(s, r, K_EQUAL), columns), N.Project(product, columns), given)


@FEWER
@given(filled(S, R), time_windows())
def test_equation_12_semi_join(given: Inputs, w: TimeWindow) -> None:
    """⋉_p = μ_S1(S1 ⋈_p δ(S2)), if δ is taken of the columns that a pure equality p compares."""
    s, r = N.Window(S, w), N.Window(R, w)
    keys = N.Distinct(N.Alias(keep(r, "k"), "r"))
    joined = N.Project(N.Join(s, keys, K_EQUAL), tuple((f.name, S.column(f.name)) for f in S.schema))
    assert same(N.SemiJoin(s, r, K_EQUAL), joined, given)


@HALF
@given(filled(S, R), time_windows())
def test_equation_13_intersection(given: Inputs, w: TimeWindow) -> None:
    """∩ = S1 − (S1 − S2)."""
    s, r = keep(N.Window(S, w), "k"), keep(N.Window(R, w), "k")
    assert same(N.Intersection(s, r), N.Difference(s, N.Difference(s, r)), given)


@HALF
@given(filled(S, R), time_windows())
def test_equation_14_max_union(given: Inputs, w: TimeWindow) -> None:
    """∪max = (S1 − S2) ∪+ (S2 − S1) ∪+ (S1 ∩ S2)."""
    s, r = keep(N.Window(S, w), "k"), keep(N.Window(R, w), "k")
    parts = N.Union(N.Union(N.Difference(s, r), N.Difference(r, s)), N.Intersection(s, r))
    assert same(N.MaxUnion(s, r), parts, given)


@HALF
@given(filled(S, R), time_windows())
def test_equation_15_strict_difference(given: Inputs, w: TimeWindow) -> None:
    """−strict = S1 − (S1 ⋉= S2)."""
    s, r = N.Window(S, w), N.Window(R, w)
    assert same(N.StrictDifference(s, r), N.Difference(s, N.SemiJoin(s, r, WHOLE_RECORD)), given)


# 5.3.1, the window operator and stateless operators: sliding, fixed, with slide and lag, landmarks, bands


@HALF
@given(filled(S), conditions(), time_windows())
def test_filter_commutes_with_window(given: Inputs, p: Expression, w: TimeWindow) -> None:
    """σ_p(ω_w(S)) ≐ ω_w(σ_p(S)), for a p that reads the record only."""
    assert same(N.Filter(N.Window(S, w), p), N.Window(N.Filter(S, p), w), given)


@HALF
@given(filled(S), time_windows())
def test_map_commutes_with_window(given: Inputs, w: TimeWindow) -> None:
    """μ_f(ω_w(S)) ≐ ω_w(μ_f(S)), for an f that keeps the time line."""

    def mapped(node: N.Node) -> N.Node:
        total = Arithmetic("+", node.column("k"), node.column("v"))
        return N.Project(node, (("total", total), ("ts", node.column("ts"))))

    assert same(mapped(N.Window(S, w)), N.Window(mapped(S), w), given)


@HALF
@given(filled(S), time_windows())
def test_group_commutes_with_window(given: Inputs, w: TimeWindow) -> None:
    """γ_f(ω_w(S)) ≐ (ω_w(π_1(γ_f(S))), …, ω_w(π_k(γ_f(S))))."""
    for j in (None, 0, 1, 2):
        windowed = N.GroupMember(N.Window(S, w), S.column("k"), j)
        assert same(windowed, N.Window(N.GroupMember(S, S.column("k"), j), w), given)


@pytest.mark.parametrize(("omega", "kind"), [(A.sliding, Range), (A.fixed, Fixed)])
@HALF
@given(given_rows=arrivals(), w=st.integers(1, 9))
def test_map_commutes_with_window_even_if_it_drops_the_timestamp(
    omega: Callable[[Logical, int], Logical],
    kind: type[Range] | type[Fixed],
    given_rows: list[ChangeRow],
    w: int,
) -> None:
    """The same with the windows of equations 9 and 10, which look at multiplicities and need no timestamp."""
    given = {"s": given_rows}
    windowed_first = meaning(keep(N.Window(S, kind(w)), "k"), given, DOMAIN)
    assert windowed_first == A.nonzero(omega(meaning(keep(S, "k"), given, DOMAIN), w))


@HALF
@given(filled(S, R), time_windows())
def test_union_commutes_with_window(given: Inputs, w: TimeWindow) -> None:
    """ω_w(S1 ∪+ S2) ≐ ω_w(S1) ∪+ ω_w(S2): not in the paper, which counts ∪+ among the stateful operators."""
    assert same(N.Window(N.Union(S, R), w), N.Union(N.Window(S, w), N.Window(R, w)), given)


# 5.3.1: "it is not commutative with stateful operators". ω is equation 9, for records without a timestamp.

ONE_RECORD_TWICE = {"s": arrivals_of(rows("1 1 0\n1 1 1")), "r": []}


def snapshots(stream: Logical, until: int) -> list[dict[tuple[object, ...], int]]:
    return [at(stream, t) for t in range(until)]


def omega(node: N.Node, w: int, given: Inputs) -> Logical:
    """ω^s_w over what a plan means."""
    return A.nonzero(A.sliding(meaning(node, given, DOMAIN), w))


def test_duplicate_elimination_does_not_commute_with_window() -> None:
    """s: k v ts, window of 1: δ first hides the second arrival, which then is in no window."""
    k = keep(S, "k")
    windowed_first = N.Distinct(keep(N.Window(S, Range(1)), "k"))
    assert snapshots(meaning(windowed_first, ONE_RECORD_TWICE, DOMAIN), 3) == [{(1,): 1}, {(1,): 1}, {}]
    assert snapshots(omega(N.Distinct(k), 1, ONE_RECORD_TWICE), 3) == [{(1,): 1}, {}, {}]


def test_product_does_not_commute_with_window() -> None:
    """Two rows one instant apart, windows of 1: they never meet, but their pair has a window of its own."""
    given = {"s": arrivals_of(rows("1 1 0")), "r": arrivals_of(rows("2 2 1"))}
    windowed_first = N.Join(keep(N.Window(S, Range(1)), "k"), keep(N.Window(R, Range(1)), "v"))
    assert meaning(windowed_first, given, DOMAIN) == {}
    assert omega(N.Join(keep(S, "k"), keep(R, "v")), 1, given) == {((1, 2), 1): 1}


def test_difference_does_not_commute_with_window() -> None:
    """What is subtracted leaves its window too, one instant after what it was subtracted from came."""
    given = {"s": arrivals_of(rows("1 1 1")), "r": arrivals_of(rows("1 1 0"))}
    windowed_first = N.Difference(keep(N.Window(S, Range(1)), "k"), keep(N.Window(R, Range(1)), "k"))
    assert meaning(windowed_first, given, DOMAIN) == {((1,), 1): 1}
    assert omega(N.Difference(keep(S, "k"), keep(R, "k")), 1, given) == {}


def test_aggregation_does_not_commute_with_window() -> None:
    """The count of what is in the window, or the window of the counts."""
    count = ("n", AggregateCall("count"))
    windowed_first = keep(group_by_k(N.Window(S, Range(1)), count), "n")
    assert snapshots(meaning(windowed_first, ONE_RECORD_TWICE, DOMAIN), 3) == [{(1,): 1}, {(1,): 1}, {}]
    counted_first = keep(group_by_k(S, count), "n")
    assert snapshots(omega(counted_first, 1, ONE_RECORD_TWICE), 3) == [{(1,): 1}, {(2,): 1}, {}]
