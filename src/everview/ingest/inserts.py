"""Inserted rows: dicts, records, pandas, Arrow or Polars tables, converted to frames of change rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from everview.algebra.changes import Record
from everview.algebra.schema import Field
from everview.algebra.time import INFINITY
from everview.catalog import StreamEntry, TableEntry, given_entry
from everview.errors import StoreError
from everview.ingest.arrow_values import arrow_of
from everview.ingest.clauses import StreamConditions, computed_table, judged_records, judged_table
from everview.ingest.columns import fit_column
from everview.ingest.reading import REASON
from everview.ingest.rows import (
    fit_value,
    frame_of,
    match_columns,
    record_by_position,
    record_of,
    series_of,
    why_made,
)
from everview.operators.base import column
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N
from everview.sql import with_computed_values
from everview.sql.statements import Insert

ColumnValues: TypeAlias = Any  # an array of Arrow, or a list where Arrow has no type for the values


def table_rows(
    rows: object,
    entry: StreamEntry | TableEntry,
    begin: int | None,
    session: Callable[[], SparkSession] | None = None,
) -> Frame:
    """Return the rows as change rows: from `begin` on, or each from its own time line on.

    Columns that are stamped on ARRIVAL are NULL yet.
    Rows of a stream with PUNCTUATE WHEN have PUNCTUATES beside them. Spark is needed where a stream has
    conditions or computed columns and the rows are a table.
    """
    columns = entry.columns
    records: Sequence[Record] | None = None
    if isinstance(rows, Insert):
        records = rows.rows
    elif isinstance(rows, Iterable) and not _is_table(rows):
        records = [_record(row, number, entry) for number, row in enumerate(rows, 1)]
    if records is not None:
        frame = frame_of(records, columns.types, [0] * len(records))
    else:
        frame = _from_table(*_columns(rows), entry)
    if isinstance(entry, StreamEntry) and not isinstance(rows, Insert):  # INSERT has computed its values
        _require_not_given(frame, entry)
        if entry.computed and records is not None:
            records = [with_computed_values(entry, record) for record in records]
            frame = frame_of(records, columns.types, [0] * len(records))
        elif entry.computed:
            assert session is not None
            frame = computed_table(frame, entry, session())
    _require_values(frame, entry)
    if isinstance(entry, TableEntry):
        return frame.with_columns(pl.lit(begin, pl.Int64).alias(FROM))
    if StreamConditions.of(entry):
        if records is not None:
            judged = judged_records(frame, records, entry)
        else:
            assert session is not None
            judged = judged_table(frame, entry, session())
        frame = _require_checks(judged, entry)
    lines = [columns.names.index(line.column) for line in entry.timelines]
    for line in lines:
        if frame[column(line)].null_count() and columns.names[line] not in entry.stamped:
            raise StoreError(
                f"a row for '{entry.name}' has no timestamp in '{columns.names[line]}'",
                next_step="give every row one",
            )
    return frame.with_columns(pl.col(column(lines[0])).cast(pl.Int64).alias(FROM))


def _require_not_given(frame: Frame, entry: StreamEntry) -> None:
    """Refuse values in columns that the clock stamps or that are computed."""
    for name in entry.made:
        given = frame[column(entry.columns.names.index(name))].is_not_null()
        if given.any():
            row = given.arg_max()
            assert row is not None
            raise StoreError(
                f"row {row + 1} for '{entry.name}' has a value for '{name}': {why_made(name, entry)}",
                next_step=f"leave '{name}' out",
            )


def _require_values(frame: Frame, entry: StreamEntry | TableEntry) -> None:
    """Refuse NULL in a column that is declared NOT NULL; what the clock stamps has a value later."""
    stamped = entry.stamped if isinstance(entry, StreamEntry) else ()
    for name in (n for n in entry.not_null if n not in stamped):
        nulls = frame[column(entry.columns.names.index(name))].is_null()
        if nulls.any():
            raise StoreError(
                f"row {nulls.arg_max() + 1} for '{entry.name}' has no value for '{name}', which is NOT NULL",  # type: ignore[operator]
                next_step="give every row one",
            )


def _require_checks(frame: Frame, entry: StreamEntry) -> Frame:
    """Return judged rows without the reason; refuse rows for which a CHECK is false."""
    refused = frame[REASON].is_not_null()
    if refused.any():
        first = refused.arg_max()
        raise StoreError(
            f"row {first + 1} for '{entry.name}' cannot be taken: {frame[REASON][first]}",  # type: ignore[operator, index]
            next_step="leave such rows out, or mend them",
        )
    return frame.drop(REASON)


def _record(row: object, number: int, entry: StreamEntry | TableEntry) -> Record:
    """Return a row, by the names of its columns or by their order."""
    try:
        if isinstance(row, Mapping):
            return record_of(list(row), list(row.values()), entry.columns, entry.defaults)
        if isinstance(row, tuple):
            # Named tuples and Spark rows have the names of their columns.
            names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
            if names is None:
                return _record_by_position(row, entry)
            return record_of(names, row, entry.columns, entry.defaults)
    except StoreError as error:
        error.what = f"row {number}: {error.what}"
        raise
    raise StoreError(
        f"a row is a dict with the names of the columns, or a tuple, not {type(row).__name__}",
        next_step="give dicts or tuples, or a pandas, Arrow, Polars or Spark table",
    )


def _record_by_position(row: tuple[object, ...], entry: StreamEntry | TableEntry) -> Record:
    """Return a row by the order of its columns, with or without those that are stamped on ARRIVAL."""
    given = given_entry(entry).columns
    if len(row) == len(entry.columns):
        return record_by_position(row, entry.columns)
    values = dict(zip(given.names, record_by_position(row, given), strict=True))
    return tuple(values.get(f.name) for f in entry.columns)


def _is_table(rows: object) -> bool:
    kinds = (pl.DataFrame, pl.LazyFrame, pa.RecordBatchReader)
    return isinstance(rows, kinds) or hasattr(rows, "__dataframe__")


def _columns(rows: Any) -> tuple[Sequence[object], list[ColumnValues], int]:
    """Return the names and the columns of a table of any library, and how many rows it has."""
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if isinstance(rows, pl.DataFrame):
        return rows.columns, [_of_polars(values) for values in rows.get_columns()], rows.height
    if type(rows).__module__.startswith("pandas"):
        return list(rows.columns), [_of_pandas(rows.iloc[:, i]) for i in range(rows.shape[1])], len(rows)
    if isinstance(rows, pa.RecordBatchReader):
        rows = rows.read_all()
    if isinstance(rows, pa.Table):
        return rows.column_names, [values.combine_chunks() for values in rows.columns], rows.num_rows
    if isinstance(rows, pa.RecordBatch):
        return rows.schema.names, rows.columns, rows.num_rows
    raise StoreError(
        f"rows cannot be taken from {type(rows).__name__}",
        next_step="give dicts, or a pandas, Arrow, Polars or Spark table",
    )


def _of_polars(values: pl.Series) -> ColumnValues:
    return values.to_list() if values.dtype == pl.Object else arrow_of(values)


def _of_pandas(values: Any) -> ColumnValues:
    """Return a column of pandas; NaN in a column of numbers is NaN, as it is in a dict.

    Arrow takes Python's values at once if they are of one kind; of several it would make one.
    """
    if str(values.dtype) in ("float32", "float64"):
        return pa.array(values.to_numpy())
    there = values.notna()
    if str(values.dtype) != "object" or len(set(map(type, values[there]))) <= 1:
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            pass  # values that Arrow does not have
    return [value if known else None for value, known in zip(values, there, strict=True)]


def _from_table(
    names: Sequence[object], given: Sequence[ColumnValues], size: int, entry: StreamEntry | TableEntry
) -> Frame:
    """Return the columns of a table by their names, each as its type; what does not fit is refused."""
    places = match_columns(names, entry.columns)
    defaults = dict(entry.defaults)
    shown: dict[str, pl.Series] = {}
    for i, field in enumerate(entry.columns):
        if field.name in places:
            shown[column(i)] = _fit_table_column(given[places[field.name]], field)
        else:
            default = series_of([defaults.get(field.name)], field.type)
            shown[column(i)] = default.new_from_index(0, size)
    times = {FROM: 0, UNTIL: INFINITY, N: 1}
    return pl.DataFrame(shown).with_columns(pl.lit(t, pl.Int64).alias(name) for name, t in times.items())


def _fit_table_column(values: ColumnValues, field: Field) -> pl.Series:
    if not isinstance(values, list):
        return fit_column(values, field)
    found: list[object] = []
    for number, value in enumerate(values, 1):
        try:
            found.append(fit_value(value, field))
        except StoreError as error:
            error.what = f"row {number}: {error.what}"
            raise
    return series_of(found, field.type)
