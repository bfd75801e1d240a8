"""Paper 1, section 4.3.2: the algorithms, corrected, against the definitions of section 3.

For every one: the output is snapshot-equivalent to the logical operator, and ordered by ≤t. What the printed
versions do is in test_findings_paper1.py.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical, Record, to_logical
from everview.algebra.changes import coalesce as coalesce_rows
from everview.algebra.changes import split as split_rows
from everview.algebra.expressions import Comparison, Literal
from everview.algebra.schema import Schema
from everview.algebra.time import Interval
from everview.algebra.types import INT
from everview.algebra.windows import Fixed, Range
from everview.reference.meaning import meaning
from tests.rules import paper1_algorithms as A
from tests.streams import DOMAIN, S, arrivals

# Physical streams as the state of relations with one column.
L = N.Table("l", Schema.of(("x", INT)))
M = N.Table("m", Schema.of(("x", INT)))
EQUAL = Comparison("=", L.column("x"), M.column("x"))
LESS = Comparison("<", L.column("x"), M.column("x"))


def streams(most: int = 8) -> st.SearchStrategy[list[A.Element]]:
    """Ordered physical streams of few records: duplicates, overlaps and adjacent intervals among them."""
    element = st.builds(
        lambda x, start, length: A.Element((x,), start, start + length),
        st.integers(0, 1), st.integers(0, 9), st.integers(1, 6),
    )  # fmt: skip
    return st.lists(element, max_size=most).map(lambda elements: sorted(elements, key=A.by_time))


@st.composite
def arrivals_of_two(draw: st.DrawFn) -> list[A.Arrival]:
    """Two ordered streams in any interleaving: one may run far ahead of the other."""
    waiting = {1: draw(streams(6)), 2: draw(streams(6))}
    order = draw(st.permutations([j for j, stream in waiting.items() for _ in stream]))
    return [(j, waiting[j].pop(0)) for j in order]


def logical(stream: list[A.Element]) -> Logical:
    return to_logical(A.as_rows(stream), DOMAIN)


def expected(plan: N.Node, stream: list[A.Element] | list[A.Arrival]) -> Logical:
    """The reference's meaning of a plan over L (and M)."""
    both: dict[str, list[ChangeRow]] = {"l": [], "m": []}
    for item in stream:
        j, s = (1, item) if isinstance(item, A.Element) else item
        both["l" if j == 1 else "m"] += A.as_rows([s])
    return meaning(plan, both, DOMAIN)


def in_order(stream: list[A.Element]) -> bool:
    return all(A.by_time(a) <= A.by_time(b) for a, b in pairwise(stream))


@given(arrivals(), st.integers(1, 9), st.booleans())
def test_algorithm_4_window(given_rows: list[ChangeRow], w: int, is_sliding: bool) -> None:
    stream = A.raw(*((row.record, row.from_) for row in given_rows))
    out = A.window(stream, w, is_sliding)
    plan = N.Window(S, Range(w) if is_sliding else Fixed(w))
    assert logical(out) == meaning(plan, {"s": given_rows}, DOMAIN)
    assert in_order(out)


@given(arrivals_of_two())
def test_algorithm_5_product(both: list[A.Arrival]) -> None:
    out = A.join(both, lambda a, b: True)
    assert logical(out) == expected(N.Join(L, M), both)
    assert in_order(out)


@given(arrivals_of_two())
def test_algorithm_5_join(both: list[A.Arrival]) -> None:
    for condition, theta in ((EQUAL, lambda a, b: a == b), (LESS, lambda a, b: a < b)):
        out = A.join(both, theta)
        assert logical(out) == expected(N.Join(L, M, condition), both)
        assert in_order(out)


@given(streams())
def test_algorithm_6_duplicate_elimination(stream: list[A.Element]) -> None:
    out = A.eliminate_duplicates(stream)
    assert logical(out) == expected(N.Distinct(L), stream)
    assert in_order(out)


@given(arrivals_of_two())
def test_algorithm_7_difference(both: list[A.Arrival]) -> None:
    out = A.difference(both)
    assert logical(out) == expected(N.Difference(L, M), both)
    assert in_order(out)


def sum_and_count(old: Record | None, new: Record) -> Record:
    """f(⊥, s) and f(ŝ, s): one group, its sum and its count."""
    total, count = (0, 0) if old is None else old[1:]
    return (0, total + new[0], count + 1)


@given(streams())
def test_algorithm_8_aggregation(stream: list[A.Element]) -> None:
    out = A.aggregate(stream, sum_and_count)
    calls = (("sum", AggregateCall("sum", L.column("x"))), ("count", AggregateCall("count")))
    # A group, because the algorithm emits nothing while nothing is there (see findings, equation 7).
    plan = N.Aggregate(L, (("one", Literal(0, INT)),), calls)
    assert logical(out) == expected(plan, stream)
    assert in_order(out)


@given(arrivals_of_two())
def test_algorithm_9_union(both: list[A.Arrival]) -> None:
    out = A.union(both)
    assert logical(out) == expected(N.Union(L, M), both)
    assert in_order(out)


@given(streams(), st.integers(0, 12))
def test_algorithm_10_coalesce(stream: list[A.Element], limit: int) -> None:
    out = A.coalesce(stream, limit)
    assert logical(out) == logical(stream) == to_logical(coalesce_rows(A.as_rows(stream), limit), DOMAIN)
    assert in_order(out)
    # ε holds: nothing that is longer than ε was joined to a further element.
    assert max((s.end - s.start for s in out), default=0) <= limit + 6


@given(streams())
def test_algorithm_10_coalesce_joins_all_that_is_adjacent(stream: list[A.Element]) -> None:
    out = A.coalesce(stream, limit=99)
    assert len(out) == sum(row.n for row in coalesce_rows(A.as_rows(stream)))


@given(streams(), st.integers(1, 5))
def test_algorithm_11_split(stream: list[A.Element], size: int) -> None:
    out = A.split(stream, size)
    assert sorted(A.as_rows(out)) == sorted(split_rows(A.as_rows(stream), size))
    assert logical(out) == logical(stream)
    assert in_order(out)


@given(streams(2).filter(lambda stream: len(stream) == 2))
def test_interval_functions(stream: list[A.Element]) -> None:
    """overlaps, intersect and, where they overlap, intersect⁻¹ are those of `Interval`."""
    s, x = stream
    for a, b in ((s, x), (x, s)):
        one, other = Interval(a.start, a.end), Interval(b.start, b.end)
        assert A.overlaps(a, b) == one.overlaps(other)
        if A.overlaps(a, b):
            assert Interval(*A.intersect(a, b)) == one.intersect(other)
            assert tuple(Interval(*part) for part in A.inverse_intersect(a, b)) == one.subtract(other)
