"""Rows that are not taken, and what is said of them: the step, the reason, and the row as text.

Rows that do not parse come with their reason from the source. What only a step can tell is decided here:
a timestamp that is too far ahead of the clock, a key without a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from everview.algebra.time import duration_text, format_timestamp
from everview.catalog import StreamEntry, TableEntry
from everview.kernels.frame import FROM, INFINITY, UNTIL, Frame, N
from everview.spark.physical import column

REASON = "_reason"


def split_ahead(rows: Frame, entry: StreamEntry, now: int) -> tuple[Frame, Frame]:
    """The rows whose timestamps are plausible, and those too far ahead of the clock, with the reason.

    One such row would move the bound to a time that never comes, and every row after it would be late. All
    time lines count. A stream that is fed by INSERT is not compared with the clock.
    """
    limit = None if entry.source is None or entry.max_ahead is None else now + entry.max_ahead
    names = entry.columns.names
    lines = {line.column: column(names.index(line.column)) for line in entry.timelines}
    if limit is None or not any(_exceeds(rows, c, limit) for c in lines.values()):
        return rows, rows.clear().with_columns(pl.lit(None, pl.String).alias(REASON))
    remedy = (
        f" is more than {duration_text(limit - now).lower()} ahead of the clock, which said "
        f"{format_timestamp(now)}; mend the timestamp, or make the stream with a longer MAX AHEAD, or NONE"
    )
    reason = pl.coalesce(
        pl.when(pl.col(c).cast(pl.Int64) > limit).then(
            pl.concat_str(pl.lit(f"{name}: "), time_text(rows.get_column(c)), pl.lit(remedy))
        )
        for name, c in lines.items()
    )
    marked = rows.with_columns(reason.alias(REASON))
    return marked.filter(pl.col(REASON).is_null()).drop(REASON), marked.filter(pl.col(REASON).is_not_null())


def _exceeds(rows: Frame, name: str, limit: int) -> bool:
    greatest = rows.get_column(name).cast(pl.Int64).max()
    return isinstance(greatest, int) and greatest > limit


def split_keyless(rows: Frame, entry: TableEntry) -> tuple[Frame, Frame]:
    """The rows of a table that have a key, and those in which a column of it is NULL, with the reason."""
    names = entry.columns.names
    keys = {name: column(names.index(entry.columns.find(name).name)) for name in entry.key}
    without: list[pl.Expr] = [
        pl.when(pl.col(c).is_null()).then(pl.lit(f"{name}: a column of the PRIMARY KEY cannot be NULL"))
        for name, c in keys.items()
    ]
    marked = rows.with_columns(pl.coalesce(without or [pl.lit(None, pl.String)]).alias(REASON))
    return marked.filter(pl.col(REASON).is_null()).drop(REASON), marked.filter(pl.col(REASON).is_not_null())


def refused_rows(reason: pl.Series, text: pl.Series, step: int, begin: int) -> Frame:
    """Rows of `<name>$rejected`: the step, the reason, and how each came; known from an instant on."""
    said = pl.DataFrame([reason.cast(pl.String).alias(column(1)), text.cast(pl.String).alias(column(2))])
    counts = {FROM: begin, UNTIL: INFINITY, N: 1}
    times = [pl.lit(t, pl.Int64).alias(name) for name, t in counts.items()]
    return said.select(pl.lit(step, pl.Int64).alias(column(0)), pl.all(), *times)


def row_text(rows: Frame, names: Sequence[str]) -> pl.Series:
    """Each row as a JSON object, its columns c0, c1, … under their names."""
    shown = [_json_value(rows.get_column(column(i))).alias(name) for i, name in enumerate(names)]
    return pl.DataFrame(shown).select(pl.struct(pl.all()).struct.json_encode().alias("_")).to_series()


def shown_text(values: pl.Series) -> pl.Series:
    """A column as text."""
    return _json_value(values).cast(pl.String)


def _json_value(values: pl.Series) -> pl.Series:
    """A column as it stands in a text; bytes as Spark writes them."""
    if values.dtype == pl.Binary:
        return values.bin.encode("base64")
    return time_text(values) if values.dtype in (pl.Datetime, pl.Date) else values


def time_text(values: pl.Series) -> pl.Series:
    """Timestamps or dates as ISO 8601. Polars fails on years that Spark knows, beyond 262143; numpy does not.

    >>> time_text(pl.Series([None, 2**62], dtype=pl.Datetime("us"))).to_list()
    [None, '148108-07-06T17:07:07.387904']
    """
    unit, counts = ("D", pl.Int32) if values.dtype == pl.Date else ("us", pl.Int64)
    instants = values.cast(counts).cast(pl.Int64).fill_null(0).to_numpy().astype(f"datetime64[{unit}]")
    text = pl.DataFrame({"t": pa.array(np.datetime_as_string(instants), pa.large_string())})
    return text.select(pl.when(values.is_not_null()).then("t").alias(values.name)).to_series()
