"""Change rows and the papers' other forms of a stream: nothing but the form may change.

Paper 1, 2.5, 3.1.1, 4.1 and 4.2.4 (raw, physical, logical; coalesce, split), paper 2, 2.3 (positive and
negative tuples), paper 5, 4.1 and 6.2.2 (tagged streams and ξ).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.changes import (
    ChangeRow,
    Record,
    Snapshot,
    Tag,
    are_equivalent,
    coalesce,
    consolidate,
    from_logical,
    from_pairs,
    from_physical,
    from_raw,
    from_tags,
    profile,
    snapshot,
    split,
    to_logical,
    to_pairs,
    to_physical,
    to_tags,
)
from everview.algebra.time import INFINITY, Interval
from everview.errors import AlgebraError

LATEST = 16
INSTANTS = [*range(-1, LATEST + 2), INFINITY - 1]
RECORDS = st.tuples(st.sampled_from("ab"), st.integers(0, 1))
"""(key, value)"""


def change_rows(counts: st.SearchStrategy[int], for_ever: bool = True) -> st.SearchStrategy[list[ChangeRow]]:
    begin, length = st.integers(0, 8), st.integers(1, LATEST - 8)
    row = st.builds(lambda e, at, length, n: ChangeRow(e, at, at + length, n), RECORDS, begin, length, counts)
    endless = st.builds(ChangeRow, RECORDS, begin, st.just(INFINITY), counts)
    return st.lists(st.one_of(row, endless) if for_ever else row, max_size=7)


POSITIVE = change_rows(st.integers(1, 2))
SIGNED = change_rows(st.sampled_from([-2, -1, 1, 2]))
"""Any change rows, even such as have negative snapshots."""


@st.composite
def retracted(draw: st.DrawFn) -> list[ChangeRow]:
    """Rows and retractions of parts of them: negative rows, but no negative snapshot."""
    rows = draw(POSITIVE)
    for record, from_, until, n in list(rows):
        if draw(st.booleans()):
            at = draw(st.integers(from_, min(until, LATEST) - 1))
            to = draw(st.sampled_from([until, at + 1]))
            rows.append(ChangeRow(record, at, to, -draw(st.integers(1, n))))
    return draw(st.permutations(rows))


def snapshots(rows: Sequence[ChangeRow]) -> list[Snapshot]:
    return [snapshot(rows, t) for t in INSTANTS]


# Snapshots, and what leaves them as they are


@given(SIGNED, st.sampled_from(INSTANTS))
def test_a_snapshot_adds_up_what_holds(rows: list[ChangeRow], t: int) -> None:
    copies = [
        (r.record, 1 if r.n > 0 else -1) for r in rows for _ in range(abs(r.n)) if t in Interval(*r[1:3])
    ]
    total = {e: sum(sign for record, sign in copies if record == e) for e, _ in copies}
    assert snapshot(rows, t) == {e: n for e, n in total.items() if n}
    assert snapshot(rows, INFINITY) == {}


@given(SIGNED)
def test_a_profile_has_maximal_pieces_of_constant_count(rows: list[ChangeRow]) -> None:
    pieces = profile(rows)
    rebuilt = [ChangeRow(e, *piece) for e, steps in pieces.items() for piece in steps]
    assert snapshots(rebuilt) == snapshots(rows)
    for steps in pieces.values():
        assert steps
        assert all(from_ < until and n for from_, until, n in steps)
        for (_, until, n), (from_, _, next_n) in pairwise(steps):
            assert until < from_ or (until == from_ and n != next_n)


@given(SIGNED, SIGNED)
def test_equivalent_asks_for_equal_snapshots(left: list[ChangeRow], right: list[ChangeRow]) -> None:
    assert are_equivalent(left, right) == (snapshots(left) == snapshots(right))
    minus_left = [row._replace(n=-row.n) for row in left]
    assert are_equivalent(left + right + minus_left, right)


@given(SIGNED)
def test_consolidate_sums_equal_rows(rows: list[ChangeRow]) -> None:
    found = consolidate(rows)
    assert snapshots(found) == snapshots(rows)
    assert all(row.n for row in found)
    assert len({row[:3] for row in found}) == len(found)


def adjacent(rows: Iterable[ChangeRow]) -> list[tuple[ChangeRow, ChangeRow]]:
    found = list(rows)
    return [
        (a, b)
        for a in found
        for b in found
        if a.record == b.record and a.until == b.from_ and (a.n > 0) == (b.n > 0)
    ]


@given(SIGNED)
def test_coalesce_leaves_nothing_to_join(rows: list[ChangeRow]) -> None:
    found = coalesce(rows)
    assert snapshots(found) == snapshots(rows)
    assert adjacent(found) == []


@given(SIGNED, st.integers(0, 9))
def test_coalesce_with_a_limit_joins_no_further_to_what_is_longer(rows: list[ChangeRow], limit: int) -> None:
    """ε in paper 1, algorithm 10: what is longer than ε is given out."""
    found = coalesce(rows, limit)
    assert snapshots(found) == snapshots(rows)
    assert all(a.until - a.from_ > limit for a, _ in adjacent(found))


def test_coalesce_stops_once_a_row_is_longer_than_the_limit() -> None:
    chain = [ChangeRow(("a",), t, t + 2) for t in range(0, 10, 2)]
    assert sorted(coalesce(chain, limit=3)) == [(("a",), 0, 4, 1), (("a",), 4, 8, 1), (("a",), 8, 10, 1)]
    assert sorted(coalesce(chain, limit=4)) == [(("a",), 0, 6, 1), (("a",), 6, 10, 1)]


@given(SIGNED, st.integers(1, 5))
def test_split_cuts_into_pieces_of_at_most_the_step(rows: list[ChangeRow], step: int) -> None:
    found = split(rows, step)
    assert snapshots(found) == snapshots(rows)
    assert all(r.until - r.from_ <= step for r in found if r.until < INFINITY)
    assert [r for r in found if r.until == INFINITY] == [r for r in rows if r.until == INFINITY]


@given(SIGNED, st.integers(1, 5))
def test_coalesce_undoes_split(rows: list[ChangeRow], step: int) -> None:
    assert are_equivalent(coalesce(split(rows, step)), rows)
    for row in rows:
        assert coalesce(split([row], step)) == [row]


@pytest.mark.parametrize("step", [0, -3])
def test_split_needs_a_step(step: int) -> None:
    with pytest.raises(AlgebraError) as refused:
        split([], step)
    assert str(refused.value) == f"an interval cannot be split into pieces of {step}"


# Raw, physical and logical streams


def test_raw_records_hold_from_their_timestamp_for_ever() -> None:
    raw: list[Record] = [("a", 3), ("b", 5), ("a", 3)]
    assert to_physical(from_raw(raw, lambda e: int(str(e[1])))) == [
        (("a", 3), Interval(3, INFINITY)),
        (("a", 3), Interval(3, INFINITY)),
        (("b", 5), Interval(5, INFINITY)),
    ]


@given(POSITIVE)
def test_physical_streams_and_change_rows_are_each_others_inverse(rows: list[ChangeRow]) -> None:
    elements = to_physical(rows)
    assert are_equivalent(from_physical(elements), rows)
    assert Counter(to_physical(from_physical(elements))) == Counter(elements)
    assert len(elements) == sum(row.n for row in rows)
    intervals = [(i.from_, i.until) for _, i in elements]
    assert intervals == sorted(intervals), "≤t: by start, then by end"


def test_a_physical_stream_has_no_negative_rows() -> None:
    with pytest.raises(AlgebraError) as refused:
        to_physical([ChangeRow(("a",), 0, 9), ChangeRow(("a",), 3, 9, -1)])
    assert str(refused.value) == "a physical stream has no negative rows\n  next: take its snapshots first"


@given(POSITIVE)
def test_a_logical_stream_counts_the_elements_at_every_instant(rows: list[ChangeRow]) -> None:
    """τ(M) = {(e, t, n) | n = |{(e, [tS, tE)) ∈ M | t ∈ [tS, tE)}|} (paper 1, 3.1.1)."""
    elements, domain = to_physical(rows), range(2, 12)
    counted = {(e, t): sum(t in i for x, i in elements if x == e) for e, _ in elements for t in domain}
    assert to_logical(rows, domain) == {key: n for key, n in counted.items() if n}


@given(change_rows(st.sampled_from([-2, -1, 1, 2]), for_ever=False))
def test_logical_streams_and_change_rows_are_each_others_inverse(rows: list[ChangeRow]) -> None:
    logical = to_logical(rows, range(LATEST + 1))
    back = from_logical(logical)
    assert are_equivalent(back, rows)
    assert to_logical(back, range(LATEST + 1)) == logical
    assert adjacent(back) == [], "ζ(ι(S)) is coalesced (paper 1, 4.1)"


# Tagged streams


def applied(tags: Sequence[Tag], t: int) -> Snapshot:
    """R[S(T)]: the stream's operations up to t applied in the order of time (paper 5, 4.1)."""
    relation: Counter[Record] = Counter()
    for tag in sorted(tags, key=lambda tag: tag.at):
        if tag.at <= t:
            gone = {"+": None, "-": tag.record, "u": tag.old}[tag.tag]
            if gone is not None:
                assert relation[gone] > 0, "only what is there can go"
                relation[gone] -= 1
            if tag.tag != "-":
                relation[tag.record] += 1
    return {e: n for e, n in relation.items() if n}


KEYS = st.sampled_from([None, (0,), (0, 1)])


@given(retracted(), KEYS)
def test_tags_lead_from_snapshot_to_snapshot(rows: list[ChangeRow], key: tuple[int, ...] | None) -> None:
    tags = to_tags(rows, key)
    assert [applied(tags, t) for t in INSTANTS] == snapshots(rows)
    assert are_equivalent(from_tags(tags), rows)
    assert are_equivalent(from_tags(to_tags(from_tags(tags), key)), rows)


@given(SIGNED)
def test_tags_keep_even_negative_counts(rows: list[ChangeRow]) -> None:
    assert are_equivalent(from_tags(to_tags(rows)), rows)


@given(retracted(), KEYS)
def test_tags_are_the_least_set(rows: list[ChangeRow], key: tuple[int, ...] | None) -> None:
    """ξ produces the minimum possible set of tuples (paper 5, 6.2.2).

    A tag takes away one record and adds one, of the same key if it does both: fewer cannot do.
    """
    made = Counter(tag.at for tag in to_tags(rows, key))
    for t in range(LATEST + 1):
        after, before = Counter(snapshot(rows, t)), Counter(snapshot(rows, t - 1))
        come, gone = after - before, before - after
        if key is None:
            assert made[t] == come.total() + gone.total()
        else:
            groups = {tuple(e[i] for i in key) for e in come | gone}
            assert made[t] == sum(max(_of(come, key, g), _of(gone, key, g)) for g in groups)


def _of(bag: Counter[Record], key: Sequence[int], group: Record) -> int:
    return sum(n for e, n in bag.items() if tuple(e[i] for i in key) == group)


@st.composite
def keyed(draw: st.DrawFn) -> list[ChangeRow]:
    """A relation with a key: at every instant at most one record of each key."""
    rows: list[ChangeRow] = []
    for key in "ab":
        times = sorted(draw(st.sets(st.integers(0, LATEST), max_size=6)))
        for at, to in pairwise([*times, INFINITY]):
            value = draw(st.one_of(st.none(), st.integers(0, 1)))
            rows += [] if value is None else [ChangeRow((key, value), at, to)]
    return rows


@given(keyed())
def test_tags_with_a_key_follow_the_three_rules(rows: list[ChangeRow]) -> None:
    """Deleted, inserted, or changed: one tuple for every key value k (paper 5, 6.2.2)."""
    expected = []
    for t in range(LATEST + 1):
        before, after = ({e[0]: e for e in snapshot(rows, at)} for at in (t - 1, t))
        for k in "ab":
            if k in before and k not in after:
                expected.append(Tag("-", before[k], t))
            elif k not in before and k in after:
                expected.append(Tag("+", after[k], t))
            elif k in before and before[k] != after[k]:
                expected.append(Tag("u", after[k], t, before[k]))
    assert Counter(to_tags(rows, key=[0])) == Counter(expected)


@given(retracted(), st.integers(0, LATEST))
def test_tags_up_to_a_bound(rows: list[ChangeRow], until: int) -> None:
    assert to_tags(rows, until=until) == [tag for tag in to_tags(rows) if tag.at < until]


def test_an_update_knows_the_old_record() -> None:
    with pytest.raises(AlgebraError) as refused:
        from_tags([Tag("u", ("a", 1), 3)])
    assert str(refused.value) == "an update carries the old values"


# Positive and negative tuples


@given(retracted())
def test_intervals_and_pairs_are_each_others_inverse(rows: list[ChangeRow]) -> None:
    pairs = to_pairs(rows)
    assert are_equivalent(pairs, rows)
    assert all(row.until == INFINITY for row in pairs)
    back = from_pairs(pairs)
    assert are_equivalent(back, rows)
    assert all(row.n == 1 and row.from_ < row.until for row in back)


@given(POSITIVE)
def test_every_end_costs_a_second_tuple(rows: list[ChangeRow]) -> None:
    """Twice as many tuples, as every one of a window expires (paper 2, 2.3.1)."""
    ended = [row for row in rows if row.until < INFINITY]
    assert len(to_pairs(rows)) == len(rows) + len(ended)


def test_an_end_closes_the_oldest_open_row() -> None:
    two = [ChangeRow(("a",), 1, 6), ChangeRow(("a",), 4, 9)]
    assert sorted(from_pairs(to_pairs(two))) == two


def test_pairs_with_an_end_too_many_are_refused() -> None:
    with pytest.raises(AlgebraError) as refused:
        from_pairs([ChangeRow(("a",), 3, INFINITY, -1)])
    assert str(refused.value) == "a record would occur -1 times at 3"


def test_a_key_that_is_no_number_is_a_key() -> None:
    nan = float("nan")
    rows = [ChangeRow((nan, 1), 0, 5), ChangeRow((float("nan"), 2), 5, INFINITY)]
    assert [t.tag for t in to_tags(rows, key=[0])] == ["+", "u"]
