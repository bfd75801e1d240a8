"""What sinks are given, worked out on Polars, is the difference of snapshots, by the definition."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from everview.operators.columnar.frame import make_frame
from everview.sinks.tags import (
    answer_frame,
    net_frames,
    repeated_key,
    tagged_frame,
    touched_keys,
    upsert_frames,
)

Row = tuple[int | None, int | None, int, int, int]  # k, v, from, until, n

_values = st.one_of(st.none(), st.integers(0, 2))
_rows = st.lists(
    st.tuples(_values, _values, st.integers(0, 6), st.integers(1, 4), st.integers(1, 2)), max_size=8
)


@st.composite
def change_rows(draw: st.DrawFn) -> list[Row]:
    """Rows of which some are taken back later: no snapshot is negative."""
    found: list[Row] = []
    for k, v, begin, length, n in draw(_rows):
        found.append((k, v, begin, begin + length, n))
        if length > 1 and draw(st.booleans()):
            cut = draw(st.integers(begin + 1, begin + length - 1))
            found.append((k, v, cut, begin + length, -n))
    return draw(st.permutations(found))


def frame(rows: list[Row]) -> pl.DataFrame:
    times = [row[2:] for row in rows]
    made = make_frame({"c0": [r[0] for r in rows], "c1": [r[1] for r in rows]}, times)
    return made.cast({"c0": pl.Int64, "c1": pl.Int64})


def snapshot(rows: list[Row], t: int) -> Counter[tuple[int | None, int | None]]:
    found: Counter[tuple[int | None, int | None]] = Counter()
    for k, v, begin, end, n in rows:
        if begin <= t < end:
            found[k, v] += n
    return +found


@given(change_rows(), st.integers(-1, 5), st.integers(0, 6), st.booleans())
def test_tags_lead_from_snapshot_to_snapshot(rows: list[Row], after: int, length: int, keyed: bool) -> None:
    upto = after + length
    tagged = tagged_frame(frame(rows), 2, (0,) if keyed else None, after, upto)
    now = snapshot(rows, after)
    seen = after
    for tag, at, k, v, old in tagged.rows():
        while seen < at - 1:
            seen += 1
            assert now == snapshot(rows, seen)
        assert after < at <= upto
        if tag == "u":
            assert keyed
            assert old["c0"] == k
            assert now[old["c0"], old["c1"]] > 0
            now[old["c0"], old["c1"]] -= 1
        else:
            assert old is None
        now[k, v] += -1 if tag == "-" else 1
        assert min(now.values()) >= 0
        now = +now
    assert now == snapshot(rows, upto)
    if keyed:  # a key that goes and comes at one instant is one u
        for at in {row[1] for row in tagged.rows()}:
            for k in {row[2] for row in tagged.rows()}:
                tags = {row[0] for row in tagged.rows() if row[1:3] == (at, k)}
                assert not {"-", "+"} <= tags


@given(change_rows(), st.integers(-1, 5), st.integers(0, 6))
def test_upserts_lead_from_one_step_to_another(rows: list[Row], after: int, length: int) -> None:
    upto = after + length
    before, then = snapshot(rows, after), snapshot(rows, upto)
    gone, come = upsert_frames(frame(rows), 2, (0,), after, upto)
    touched = {k for k, _ in set(before) | set(then) if _of(before, k) != _of(then, k)}
    assert set(touched_keys(frame(rows), 2, (0,), after, upto)["c0"]) == touched
    assert Counter(come.rows()) == Counter({r: n for r, n in then.items() if r[0] in touched})
    assert set(gone["c0"]) == {k for k in touched if not _of(then, k)}
    assert gone.height == len(set(gone["c0"]))
    assert Counter(answer_frame(frame(rows), 2, upto).rows()) == then
    several = {k for k in touched if sum(_of(then, k).values()) > 1}
    twice = repeated_key(come, (0,))
    assert (twice is not None) == bool(several)


@given(change_rows(), st.integers(-1, 5), st.integers(0, 6))
def test_where_the_key_is_one_the_changes_suffice(rows: list[Row], after: int, length: int) -> None:
    upto = after + length
    before, then = snapshot(rows, after), snapshot(rows, upto)
    table = dict(before.keys())
    if any(sum(_of(s, k).values()) > 1 for s in (before, then) for k, _ in s):
        return
    gone, come = net_frames(frame(rows), 2, (0,), after, upto)
    for (k,) in gone.rows():
        del table[k]
    table |= dict(come.rows())
    assert table == dict(then.keys())


def _of(
    records: Counter[tuple[int | None, int | None]], key: int | None
) -> Counter[tuple[int | None, int | None]]:
    return Counter({r: n for r, n in records.items() if r[0] == key})
