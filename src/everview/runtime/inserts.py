"""Rows that a person inserts: dicts, records, pandas, Arrow or Polars tables, as frames of change rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from everview.algebra.schema import Schema
from everview.catalog import StreamEntry, TableEntry
from everview.errors import EverviewError, StoreError
from everview.kernels.frame import FROM, INFINITY, UNTIL, Frame, N
from everview.runtime.rows import frame_of, frame_type, record_of
from everview.spark.physical import column


def table_rows(rows: object, entry: StreamEntry | TableEntry, begin: int | None) -> Frame:
    """The rows as change rows: from `begin` on, or each from its own time line on."""
    columns = entry.columns
    if isinstance(rows, (list, tuple)) and all(isinstance(r, tuple) for r in rows):
        frame = frame_of(rows, columns.types, [0] * len(rows))
    elif isinstance(rows, Iterable) and not _is_table(rows):
        records = [record_of(_mapping(row), columns, entry.defaults) for row in rows]
        frame = frame_of(records, columns.types, [0] * len(records))
    else:
        frame = _from_table(_polars(rows), columns, dict(entry.defaults))
    _require_values(frame, entry)
    if isinstance(entry, TableEntry):
        return frame.with_columns(pl.lit(begin, pl.Int64).alias(FROM))
    lines = [columns.names.index(line.column) for line in entry.timelines]
    for line in lines:
        if frame[column(line)].null_count():
            raise StoreError(
                f"a row for '{entry.name}' has no timestamp in '{columns.names[line]}'",
                next_step="give every row one",
            )
    return frame.with_columns(pl.col(column(lines[0])).cast(pl.Int64).alias(FROM))


def _require_values(frame: Frame, entry: StreamEntry | TableEntry) -> None:
    """Refuses NULL in a column that is declared NOT NULL."""
    for name in entry.not_null:
        nulls = frame[column(entry.columns.names.index(name))].is_null()
        if nulls.any():
            raise StoreError(
                f"row {nulls.arg_max() + 1} for '{entry.name}' has no value for '{name}', which is NOT NULL",  # type: ignore[operator]
                next_step="give every row one",
            )


def _mapping(row: object) -> Mapping[str, object]:
    if isinstance(row, Mapping):
        return row
    raise StoreError(
        f"a row is a dict with the names of the columns, not {type(row).__name__}",
        next_step="give dicts, or a pandas, Arrow, Polars or Spark table",
    )


def _is_table(rows: object) -> bool:
    return isinstance(rows, (pl.DataFrame, pl.LazyFrame)) or hasattr(rows, "__dataframe__")


def _polars(rows: Any) -> Frame:
    """A table of another library, without a row of it in Python."""
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if isinstance(rows, pl.DataFrame):
        return rows
    if hasattr(rows, "to_batches") or type(rows).__module__.startswith("pandas"):
        made = pl.from_pandas(rows) if type(rows).__module__.startswith("pandas") else pl.from_arrow(rows)
        if isinstance(made, pl.DataFrame):
            return made
    raise StoreError(
        f"rows cannot be taken from {type(rows).__name__}",
        next_step="give dicts, or a pandas, Arrow, Polars or Spark table",
    )


def _from_table(table: Frame, columns: Schema, defaults: Mapping[str, object]) -> Frame:
    """The columns of a table by their names, each as its type; what does not fit is refused."""
    given = {columns.find(name).name: name for name in table.columns}
    shown: dict[str, pl.Series] = {}
    for i, field in enumerate(columns):
        type_ = frame_type(field.type)
        if field.name not in given:
            default = frame_of([(defaults.get(field.name),)], [field.type], [0])[column(0)]
            shown[column(i)] = default.new_from_index(0, table.height)
            continue
        values = table[given[field.name]]
        try:
            shown[column(i)] = _cast(values, type_)
        except (pl.exceptions.PolarsError, EverviewError) as error:
            raise StoreError(
                f"the column '{field.name}' takes {field.type}, and holds {values.dtype}: "
                f"{str(error).splitlines()[0]}",
                next_step="convert the column, or declare another type",
            ) from None
    times = {FROM: 0, UNTIL: INFINITY, N: 1}
    return pl.DataFrame(shown).with_columns(pl.lit(t, pl.Int64).alias(name) for name, t in times.items())


def _cast(values: pl.Series, type_: pl.DataType) -> pl.Series:
    if isinstance(type_, pl.Datetime):
        if values.dtype == pl.String:
            return values.str.to_datetime(time_unit="us", time_zone="UTC")
        if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None:
            return values.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    if values.dtype.is_numeric() and isinstance(type_, (pl.Datetime, pl.Date, pl.Duration, pl.String)):
        raise StoreError("a number is none")
    return values.cast(type_, strict=True)
