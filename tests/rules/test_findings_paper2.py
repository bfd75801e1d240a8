"""What is printed in paper 2 and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does; docs/findings.md tells the same in
prose. Figure 6 is in tests/engine/test_papers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.expressions import Comparison
from everview.algebra.time import INFINITY
from everview.algebra.windows import Range
from everview.operators import DistinctOperator
from everview.plan.lower import lower
from everview.reference.meaning import meaning
from everview.temporal.update_patterns import edge
from tests.rules.findings import K_EQUAL, seen, streams
from tests.streams import DOMAIN, NRR, R, S, keep

Span = tuple[int, int]


def negation_as_printed(left: Sequence[Span], right: Sequence[Span], until: int) -> list[Span]:
    """The answer at an instant by the words of section 2.1, for tuples of one value with these lifetimes."""
    w1: list[Span] = []
    w2: list[Span] = []
    answer: list[Span] = []
    for t in range(until + 1):
        for span in [s for s in w1 if s[1] == t]:
            w1.remove(span)
            answer = [s for s in answer if s != span]
        for span in [s for s in w2 if s[1] == t]:
            w2.remove(span)
            if w1 and len(w1) >= len(w2):
                answer.append(max(w1))  # the youngest
        for span in [s for s in left if s[0] == t]:
            w1.append(span)
            if len(w1) > len(w2):
                answer.append(span)
        for span in [s for s in right if s[0] == t]:
            w2.append(span)
            if len(w2) <= len(w1):
                answer.remove(min(answer))  # the oldest
    return answer


def test_negation_does_not_keep_its_own_equation() -> None:
    """Printed: a tuple that expires from W1 is removed and v1 decremented, nothing else (2.1).
    True: with v2 > 0 another result must then go, by equation 1.
    Everview: EXCEPT ALL compares the counts of both sides at every instant.
    """
    left, right = [(0, 5), (2, 7)], [(1, 6)]
    assert len(negation_as_printed(left, right, 4)) == 1
    assert len(negation_as_printed(left, right, 5)) == 1  # v1 = 1, v2 = 1: there should be none
    window = [N.Window(s, Range(5)) for s in (S, R)]
    plan = N.Difference(keep(window[0], "k"), keep(window[1], "k"))
    given = streams("1 1 0\n1 1 2", "1 1 1")
    assert [seen(plan, given, t) for t in (4, 5, 6)] == [{(1,): 1}, {}, {(1,): 1}]


def distinct_as_printed(spans: Sequence[Span], at: int) -> list[Span]:
    """δ* by the words of section 5.3.1: the output and, beside it, the youngest duplicate."""
    output: Span | None = None
    youngest: Span | None = None
    for t in range(at + 1):
        if output is not None and output[1] == t:
            output, youngest = youngest, None
            if output is not None and output[1] <= t:
                output = None
        for span in [s for s in spans if s[0] == t]:
            if output is None:
                output = span
            else:
                youngest = span
    return [] if output is None else [output]


def test_the_youngest_duplicate_is_not_the_one_that_lasts() -> None:
    """Printed: δ* keeps beside each result the youngest tuple of its value, for WKS and WK input (5.3.1).
    True: over WK input a younger tuple may end earlier; the one that ends last must be kept.
    Everview: δ* keeps what is covered.
    """
    spans = [(0, 3), (1, 4), (2, 3)]
    assert distinct_as_printed(spans, 2) == [(0, 3)]
    assert distinct_as_printed(spans, 3) == []
    rows = {"s": [ChangeRow((1, 1, a), a, b) for a, b in spans]}
    assert seen(N.Distinct(keep(S, "k")), rows, 3) == {(1,): 1}


def test_a_union_of_unequal_windows_is_not_first_in_first_out() -> None:
    """Printed: a union of WKS inputs is WKS (rule 2, 5.2).
    True: only if both windows are equal.
    Everview: WKS for equal windows and synchronizations, else WK.
    """
    long, short = N.Window(S, Range(5)), N.Window(R, Range(1))
    plan = N.Union(long, short)
    given = streams("1 1 0", "2 2 1")
    assert seen(plan, given, 1) == {(1, 1, 0): 1, (2, 2, 1): 1}
    assert seen(plan, given, 2) == {(1, 1, 0): 1}  # what came last went first
    assert str(edge(plan)) == "WK"
    assert str(edge(N.Union(long, N.Window(R, Range(5))))) == "WKS"


def test_group_by_is_weak_only_by_convention() -> None:
    """Printed: the output of group-by is WK whatever its input is (rule 4), and δ* serves WK input (5.3.1).
    True: a value ends when the group's next one comes, which nobody knows before; δ* would have to be told.
    Everview: pattern and sign are two facts; a group-by is WK±, and δ over it keeps its input.
    """
    # Counts of the groups a, b, c: each becomes 1; then c's and a's are replaced. b's 1 still holds.
    ends = {"a": 5, "b": INFINITY, "c": 4}
    output, youngest = "a", "c"
    assert ends[output] == 5
    assert ends[youngest] == 4
    counts = N.Aggregate(S, (("k", S.column("k")),), (("n", AggregateCall("count")),))
    plan = N.Distinct(keep(counts, "n"))
    given = streams("1 0 0\n2 0 1\n3 0 2\n3 0 4\n1 0 5")
    assert seen(plan, given, 5) == {(1,): 1, (2,): 1}
    assert str(edge(counts)) == "WK±"
    kernel = lower(plan)
    assert isinstance(kernel, DistinctOperator)
    assert kernel.signed


def test_the_cost_of_a_join_is_what_it_probes() -> None:
    """Printed: a join costs λ1·N1 + λ2·N2 per unit of time (5.4.1).
    True: a new tuple of one side probes the state of the other: λ1·N2 + λ2·N1.
    Everview: has no cost model yet; what a join probes is the other side.
    """
    rates, windows = (10, 1), (1, 100)  # so many tuples an instant, in windows of so many instants
    sizes = [rate * window for rate, window in zip(rates, windows, strict=True)]
    probed = 0
    for side, other in ((0, 1), (1, 0)):
        for _ in range(rates[side]):
            probed += sizes[other]
    assert probed == rates[0] * sizes[1] + rates[1] * sizes[0] == 1010
    assert rates[0] * sizes[0] + rates[1] * sizes[1] == 200


def test_the_version_of_a_table_at_the_time_of_generation_depends_on_the_plan() -> None:
    """Printed: a result reflects the NRR at its generation time (definition 2), and joins with an NRR may be
    reordered unless their input is STR (5.4.2).
    True: a is generated at 0, the pair of a and b at 2; in between the table may change.
    Everview: the version at the row's own timestamp, whichever join comes first.
    """
    table = {"nrr": [ChangeRow((1, "old"), 0, 1), ChangeRow((1, "new"), 1, INFINITY)]}
    given = {**streams("1 1 0", "1 1 2"), **table}
    versions = {
        t: name
        for row in table["nrr"]
        for t in DOMAIN
        if row.from_ <= t < row.until
        for name in row.record[1:]
    }
    generated = {"table first": 0, "table last": 2}
    assert [versions[t] for t in generated.values()] == ["old", "new"]
    on = Comparison("=", S.column("k"), NRR.column("id"))
    first = N.Join(N.TableJoin(S, NRR, on, retroactive=False), R, K_EQUAL)
    last = N.TableJoin(N.Join(S, R, K_EQUAL), NRR, on, retroactive=False)
    names = [
        {r[p.schema.index(p.schema.find("name"))] for r, _ in meaning(p, given, DOMAIN)}
        for p in (first, last)
    ]
    assert names == [{"old"}, {"old"}]
