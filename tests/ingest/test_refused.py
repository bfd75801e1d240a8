"""Rows that are not taken: timestamps too far ahead of the clock, keys without a value, rows as text."""

from __future__ import annotations

import json

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.schema import Schema
from everview.algebra.time import DAY, HOUR, INFINITY
from everview.algebra.types import INT, STRING, TIMESTAMP
from everview.catalog import Lateness, Source, StreamEntry, TableEntry, stream_columns
from everview.ingest.refused import REJECTION_REASON, row_text, split_refused

NOW = 1_767_225_600_000_000  # 2026-01-01
LINES = ("ts", "seen")
TIME = pl.Datetime("us", "UTC")
# Whatever a 64-bit timestamp can be, and often what is near the clock.
instants = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1), st.integers(NOW - 2 * DAY, NOW + 2 * DAY), st.just(NOW * 1000)
)


def stream(max_ahead: int | None = DAY, inserted: bool = False) -> StreamEntry:
    source = None if inserted else Source("csv", "in")
    columns = Schema.of(("k", INT), ("ts", TIMESTAMP), ("seen", TIMESTAMP))
    lines = tuple(Lateness(name) for name in LINES)
    return StreamEntry(
        "s", stream_columns(columns.fields, list(LINES)), lines, source=source, max_ahead=max_ahead
    )


def frame(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    columns = [pl.Series(f"c{i}", [r[i] for r in rows], dtype=pl.Int64) for i in range(3)]
    return pl.DataFrame([columns[0].cast(pl.Int32), *(c.cast(TIME) for c in columns[1:])])


@given(
    st.lists(st.tuples(st.integers(0, 9), instants, instants), max_size=8),
    st.sampled_from([None, 1, HOUR, DAY]),
    st.booleans(),
)
def test_rows_ahead_of_the_clock(
    rows: list[tuple[int, int, int]], max_ahead: int | None, inserted: bool
) -> None:
    """All time lines count; nothing is lost, nothing changed; the reason names a line that is ahead."""
    entry = stream(max_ahead, inserted)
    good, ahead = split_refused(frame(rows), entry, NOW, 0)
    free = inserted or max_ahead is None
    limit = NOW + (max_ahead or 0)
    assert _counts(good) == [r for r in rows if free or max(r[1:]) <= limit]
    wrong = [r for r in rows if not free and max(r[1:]) > limit]
    assert _counts(ahead.drop(REJECTION_REASON, strict=False)) == wrong
    for reason, row in zip(ahead[REJECTION_REASON] if wrong else (), wrong, strict=True):
        assert row[1 + LINES.index(reason.split(":")[0])] > limit
    assert row_text(ahead, entry.columns.names).len() == len(wrong)


def _counts(rows: pl.DataFrame) -> list[tuple[int, ...]]:
    return rows.select(pl.all().cast(pl.Int64)).rows()


def test_what_is_said_of_a_row_ahead() -> None:
    _, ahead = split_refused(frame([(1, NOW, NOW * 1000)]), stream(HOUR), NOW, 0)
    assert ahead[REJECTION_REASON].to_list() == [
        "seen: 57971-02-25T00:00:00.000000 is more than 1 hour ahead of the clock, which said "
        "2026-01-01T00:00:00.000000; mend the timestamp, or make the stream with a longer MAX AHEAD, or NONE"
    ]
    assert row_text(ahead, ["k", "ts", "seen"]).to_list() == [
        '{"k":1,"ts":"2026-01-01T00:00:00.000000","seen":"57971-02-25T00:00:00.000000"}'
    ]


def test_rows_as_text() -> None:
    """Years that Polars does not know, bytes, and values that are not there."""
    rows = pl.DataFrame(
        {
            "c0": pl.Series([2**63 - 2, -(2**63) + 1, None], dtype=pl.Int64).cast(TIME),
            "c1": pl.Series([2**31 - 1, None, 0], dtype=pl.Int32).cast(pl.Date),
            "c2": pl.Series([b"\xff", None, b""], dtype=pl.Binary),
        }
    )
    assert [json.loads(text) for text in row_text(rows, ["t", "d", "b"])] == [
        {"t": "294247-01-10T04:00:54.775806", "d": "5881580-07-11", "b": "/w=="},
        {"t": "-290308-12-21T19:59:05.224193", "d": None, "b": None},
        {"t": None, "d": "1970-01-01", "b": ""},
    ]


def test_columns_without_a_value() -> None:
    columns = Schema.of(("a", INT), ("name", STRING), ("b", INT))
    entry = TableEntry("t", columns, ("a", "b"), source=Source("csv", "in"), not_null=("name",))
    rows = pl.DataFrame({"c0": [1, None, 1, 1], "c1": ["x", None, "y", None], "c2": [1, None, None, 2]})
    good, wrong = split_refused(rows, entry, NOW, 0)
    assert good.rows() == [(1, "x", 1)]
    assert wrong.rows() == [
        (None, None, None, "a: a column of the PRIMARY KEY cannot be NULL"),
        (1, "y", None, "b: a column of the PRIMARY KEY cannot be NULL"),
        (1, None, 2, "name: NULL, and the column is NOT NULL"),
    ]
    ended, wrong = split_refused(good, entry, NOW, INFINITY)
    assert ended.is_empty()
    assert wrong[REJECTION_REASON].to_list() == [
        "the store was run to its end, and its tables cannot change any more"
    ]
