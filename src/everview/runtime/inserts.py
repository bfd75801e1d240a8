"""Rows that a person inserts: dicts, records, pandas, Arrow or Polars tables, as frames of change rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from everview.algebra.changes import Record
from everview.algebra.schema import Schema
from everview.catalog import StreamEntry, TableEntry
from everview.errors import StoreError
from everview.kernels.frame import FROM, INFINITY, UNTIL, Frame, N
from everview.runtime.arrow_values import arrow_of
from everview.runtime.columns import fitted_column
from everview.runtime.rows import frame_of, record_by_position, record_of
from everview.spark.physical import column
from everview.sql.statements import Insert


def table_rows(rows: object, entry: StreamEntry | TableEntry, begin: int | None) -> Frame:
    """The rows as change rows: from `begin` on, or each from its own time line on."""
    columns = entry.columns
    if isinstance(rows, Insert):
        frame = frame_of(rows.rows, columns.types, [0] * len(rows.rows))
    elif isinstance(rows, Iterable) and not _is_table(rows):
        records = [_record(row, number, entry) for number, row in enumerate(rows, 1)]
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


def _record(row: object, number: int, entry: StreamEntry | TableEntry) -> Record:
    """A row, by the names of its columns or by their order."""
    try:
        if isinstance(row, Mapping):
            return record_of(row, entry.columns, entry.defaults)
        if isinstance(row, tuple):
            return record_by_position(row, entry.columns)
    except StoreError as error:
        error.what = f"row {number}: {error.what}"
        raise
    raise StoreError(
        f"a row is a dict with the names of the columns, or a tuple, not {type(row).__name__}",
        next_step="give dicts or tuples, or a pandas, Arrow, Polars or Spark table",
    )


def _is_table(rows: object) -> bool:
    return isinstance(rows, (pl.DataFrame, pl.LazyFrame)) or hasattr(rows, "__dataframe__")


def _polars(rows: Any) -> Frame:
    """A table of another library, without a row of it in Python."""
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if isinstance(rows, pl.DataFrame):
        return rows
    if type(rows).__module__.startswith("pandas"):
        return _from_pandas(rows)
    if hasattr(rows, "to_batches"):
        made = pl.from_arrow(rows)
        if isinstance(made, pl.DataFrame):
            return made
    raise StoreError(
        f"rows cannot be taken from {type(rows).__name__}",
        next_step="give dicts, or a pandas, Arrow, Polars or Spark table",
    )


def _from_pandas(rows: Any) -> Frame:
    """A frame of pandas; NaN in a column of numbers is NaN, as it is in a dict."""
    numbers = [name for name in rows.columns if str(rows[name].dtype) in ("float32", "float64")]
    made = pl.from_pandas(rows)
    return made.with_columns(pl.Series(str(name), rows[name].to_numpy()) for name in numbers)


def _from_table(table: Frame, columns: Schema, defaults: Mapping[str, object]) -> Frame:
    """The columns of a table by their names, each as its type; what does not fit is refused."""
    given = {columns.find(name).name: name for name in table.columns}
    shown: dict[str, pl.Series] = {}
    for i, field in enumerate(columns):
        if field.name in given:
            shown[column(i)] = fitted_column(arrow_of(table[given[field.name]]), field)
        else:
            default = frame_of([(defaults.get(field.name),)], [field.type], [0])[column(0)]
            shown[column(i)] = default.new_from_index(0, table.height)
    times = {FROM: 0, UNTIL: INFINITY, N: 1}
    return pl.DataFrame(shown).with_columns(pl.lit(t, pl.Int64).alias(name) for name, t in times.items())
