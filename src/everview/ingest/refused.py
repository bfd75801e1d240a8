"""Rejected rows: the step, the reason, and the row as text.

Rows that do not parse come with their reason from the source. Other reasons are found here: a timestamp that
is too far ahead of the clock, NULL in a column that must have a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from everview.algebra.time import INFINITY, duration_text, format_timestamp
from everview.catalog import StreamEntry, TableEntry
from everview.ingest.arrow_values import arrow_of, object_texts, texts
from everview.ingest.reading import ORIGINAL
from everview.operators.base import column
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, N

REJECTION_REASON = "_reason"
AFTER_THE_END = "the store was run to its end, and its tables cannot change any more"
_NO_KEY = "a column of the PRIMARY KEY cannot be NULL"
_NOT_NULL = "NULL, and the column is NOT NULL"
AHEAD = " ahead of the clock, which said "  # in the reason of a row that would move the bound too far
# In the reason of a row that was taken, and left out when the store was taken back in time.
LEFT_BEHIND = ", after which rows were left out when the store was taken back in time"


def split_refused(rows: Frame, entry: StreamEntry | TableEntry, now: int, begin: int) -> tuple[Frame, Frame]:
    """Return the rows that may be taken, and those that are rejected, with the reason.

    `now` is what the clock says, `begin` when the rows of a table hold from: in a store that was run to its
    end there is no such time left.
    """
    if isinstance(entry, StreamEntry):
        cases = [*_without_value(rows, entry, entry.not_null), *_ahead(rows, entry, now)]
    elif begin == INFINITY:
        cases = [pl.lit(AFTER_THE_END)]
    else:
        cases = _without_value(rows, entry, (*entry.key, *entry.not_null))
    if not cases:
        return rows, rows.clear()
    marked = rows.with_columns(pl.coalesce(cases).alias(REJECTION_REASON))
    return marked.filter(pl.col(REJECTION_REASON).is_null()).drop(REJECTION_REASON), marked.filter(
        pl.col(REJECTION_REASON).is_not_null()
    )


def _without_value(rows: Frame, entry: StreamEntry | TableEntry, required: Sequence[str]) -> list[pl.Expr]:
    """Return the reason for rows with NULL in a column that must have a value."""
    names = entry.columns.names
    places = {name: column(names.index(entry.columns.find(name).name)) for name in required}
    keys = entry.key if isinstance(entry, TableEntry) else ()
    return [
        pl.when(pl.col(c).is_null()).then(pl.lit(f"{name}: {_NO_KEY if name in keys else _NOT_NULL}"))
        for name, c in places.items()
        if rows.get_column(c).null_count()
    ]


def _ahead(rows: Frame, entry: StreamEntry, now: int) -> list[pl.Expr]:
    """Return the reason for rows with a timestamp that is too far ahead of the clock, on any time line.

    One such row would move the bound to a time that never comes, and every row after it would be late. A
    stream whose rows come from INSERT is not compared with the clock.
    """
    if entry.source is None or entry.max_ahead is None:
        return []
    limit = now + entry.max_ahead
    remedy = (
        f" is more than {duration_text(entry.max_ahead).lower()}{AHEAD}"
        f"{format_timestamp(now)}; mend the timestamp, or make the stream with a longer MAX AHEAD, or NONE"
    )
    names = entry.columns.names
    given = [line.column for line in entry.timelines if not line.arrival]
    lines = {line: rows.get_column(column(names.index(line))) for line in given}
    return [
        pl.when(times.cast(pl.Int64) > limit).then(
            pl.concat_str(pl.lit(f"{name}: "), shown_text(times), pl.lit(remedy))
        )
        for name, times in lines.items()
        if _greatest(times) > limit
    ]


def _greatest(times: pl.Series) -> int:
    greatest = times.cast(pl.Int64).max()
    return greatest if isinstance(greatest, int) else BEFORE_ALL


def refused_rows(reason: pl.Series, text: pl.Series, step: int, begin: int) -> Frame:
    """Return rows of `<name>$rejected`: the step, the reason, and how each came; known from an instant on."""
    said = pl.DataFrame([reason.cast(pl.String).alias(column(1)), text.cast(pl.String).alias(column(2))])
    counts = {FROM: begin, UNTIL: INFINITY, N: 1}
    times = [pl.lit(t, pl.Int64).alias(name) for name, t in counts.items()]
    return said.select(pl.lit(step, pl.Int64).alias(column(0)), pl.all(), *times)


def row_text(rows: Frame, names: Sequence[str]) -> pl.Series:
    """Return each row as it came, or else as a JSON object, its columns c0, c1, … under their names."""
    if ORIGINAL in rows.columns and not rows.get_column(ORIGINAL).null_count():
        return rows.get_column(ORIGINAL)
    shown = [rows.get_column(column(i)).alias(name) for i, name in enumerate(names)]
    text = row_texts(pl.DataFrame(shown))
    if ORIGINAL not in rows.columns:
        return text
    return pl.select(pl.coalesce(rows.get_column(ORIGINAL), text)).to_series()


def row_texts(rows: Frame) -> pl.Series:
    """Return each row as a JSON object.

    >>> row_texts(pl.DataFrame({"k": [1, None], "b": [b"\\xff", b""]})).to_list()
    ['{"k":1,"b":"/w=="}', '{"k":null,"b":""}']
    """
    columns = [arrow_of(values) for values in rows.get_columns()]
    return object_texts(rows.columns, columns, rows.height)


def shown_text(values: pl.Series) -> pl.Series:
    """Return a column as text: bytes as Spark writes them, times in ISO 8601."""
    return texts(arrow_of(values))
