"""Parquet files as any tool writes them: Spark finds the files, and tasks read them with Arrow.

Spark's own reader takes only files whose types are just those declared. Here each file has a schema of its
own: columns are found by name, and values that fit their column are taken, whatever type the file has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow.lib import ArrowException  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra.schema import Field, Schema
from everview.catalog import FedEntry, Source
from everview.errors import StoreError
from everview.execute.catalyst import spark_type
from everview.execute.spark_errors import file_name
from everview.ingest.arrow_values import object_texts
from everview.ingest.columns import null_column
from everview.ingest.csv_header import Placement
from everview.ingest.differences import ColumnDifference, find_differences
from everview.ingest.fit import fit_file_column
from everview.ingest.reading import (
    BLOCK,
    FILE,
    FILE_POSITION,
    ORIGINAL,
    PLACE_OF_FILES,
    REASON,
    TIME,
    columns_sql,
    file_options,
    load_files,
    place_of,
    required_columns,
    strict_columns,
)
from everview.operators.base import column
from everview.operators.columnar.frame import Frame

_LISTED = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_BATCH = 20_000  # rows
_ARROW = {FILE: pa.string(), TIME: pa.int64(), BLOCK: pa.int64()}
_PARTITION = re.compile(r"([^/=]+)=([^/]*)/")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_parquet(
    session: SparkSession,
    entry: FedEntry,
    source: Source,
    found_columns: Accumulator[frozenset[ColumnDifference]],
    files: Sequence[str] | None = None,
) -> DataFrame:
    """Return the rows of Parquet files. Spark only lists the files: no column of theirs is selected."""
    listed = load_files(session, entry, "binaryFile", file_options(entry), _LISTED, files)
    fields = [S.StructField(column(i), spark_type(f.type)) for i, f in enumerate(entry.columns)]
    told = [S.StructField(name, S.StringType()) for name in (REASON, ORIGINAL)]
    place = place_of(entry)
    types = {"STRING": S.StringType(), "BIGINT": S.LongType()}
    kept = [S.StructField(name, types[FILE_POSITION[name]]) for name in place]
    task = ParquetTask(
        entry.columns,
        required_columns(entry),
        tuple(place),
        entry.name,
        found_columns,
        strict_columns(entry),
    )
    schema = S.StructType(fields + told + kept)
    return listed.selectExpr(*columns_sql(PLACE_OF_FILES)).mapInArrow(task, schema)


@dataclass(frozen=True)
class ParquetTask:
    """Reads the files that it is given, one after the other, in batches of rows."""

    columns: Schema
    required: dict[str, str]
    keeps: tuple[str, ...] = ()  # columns about its file that pass through with every row
    stream: str = ""
    found_columns: Accumulator[frozenset[ColumnDifference]] | None = None
    strict: int | None = None  # values of later columns may be NULL if they cannot be read

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                for rows in self._rows_of_file(file[FILE]):
                    yield rows if not self.keeps else self._with_place(rows, file)

    def _with_place(self, rows: pa.RecordBatch, file: Mapping[str, object]) -> pa.RecordBatch:
        place = [pa.repeat(pa.scalar(file[name], _ARROW[name]), rows.num_rows) for name in self.keeps]
        return pa.RecordBatch.from_arrays([*rows.columns, *place], names=[*rows.schema.names, *self.keeps])

    def _rows_of_file(self, path: str) -> Iterator[pa.RecordBatch]:
        name = file_name(path)
        try:
            with _open_parquet_file(path) as handle:
                parquet = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us", pre_buffer=True)
                file = _File.of(name, parquet.schema_arrow.names, path, self)
                if self.found_columns is not None:
                    self.found_columns.add(find_differences(self.stream, file.known, self.columns.names))
                # All columns are read only if there are rows to refuse.
                wholes = enumerate(parquet.iter_batches(_BATCH))
                for number, rows in enumerate(parquet.iter_batches(_BATCH, columns=file.columns)):
                    shown, refused = file.placed(rows)
                    text = _constant(None, rows.num_rows)
                    if refused.null_count() < len(refused):
                        whole = next(all_columns for i, all_columns in wholes if i == number)
                        text = pl.select(pl.when(refused.is_not_null()).then(_texts(whole))).to_series()
                    told = [refused.alias(REASON), text.alias(ORIGINAL)]
                    yield _batch(shown.with_columns(told))
        except FileNotFoundError as error:
            raise StoreError(
                f"{name} was there and is gone, before it was read", next_step="put it back and run again"
            ) from error
        except (OSError, ArrowException) as error:
            raise StoreError(
                f"{name} cannot be read as Parquet: {(str(error).splitlines() or [''])[0]}",
                next_step="write it again, or take it away, and run again",
            ) from error


@dataclass(frozen=True)
class _File:
    """Where the declared columns are in one file: among its own, or in the names of its folders."""

    name: str
    task: ParquetTask
    place: Placement
    known: list[str]
    columns: list[str]  # those to read
    folders: dict[str, str | None]

    @classmethod
    def of(cls, name: str, own: list[str], path: str, task: ParquetTask) -> _File:
        """Return a file with columns of its own."""
        declared = task.columns.names
        folders = {} if set(declared) <= set(own) else _folders(path)
        known = [*own, *(n for n in folders if n not in own)]
        place = Placement.of(known, declared, frozenset(task.required), name, task.strict)
        needed = {known[p] for p in place.positions if p is not None} & set(own)
        return cls(name, task, place, known, sorted(needed), folders)

    def placed(self, rows: pa.RecordBatch) -> tuple[Frame, pl.Series]:
        """Return the declared columns, and the reasons why rows are refused."""
        if self.place.refused is not None:
            none = [null_column(rows.num_rows, field.type) for field in self.task.columns]
            return _frame(none), _constant(self.place.refused, rows.num_rows)
        shown: dict[str, pl.Series] = {}
        reasons: list[pl.Series] = []
        for i, (field, position) in enumerate(zip(self.task.columns, self.place.positions, strict=True)):
            values, reason = self._values(rows, field, None if position is None else self.known[position])
            shown[field.name] = values
            strict = self.task.strict is None or i < self.task.strict
            reasons += [reason] if reason is not None and strict else []
        for name, why in self.task.required.items():
            if shown[name].null_count():
                missing = pl.when(shown[name].is_null()).then(pl.lit(f"{name}: {why}"))
                reasons.append(pl.select(missing).to_series())
        refused = pl.select(pl.coalesce([*reasons, _constant(None, rows.num_rows)])).to_series()
        return _frame(list(shown.values())), refused

    def _values(
        self, rows: pa.RecordBatch, field: Field, name: str | None
    ) -> tuple[pl.Series, pl.Series | None]:
        """Return the values of a column, and why rows are refused for it."""
        if name is None:
            return null_column(rows.num_rows, field.type), None
        if name not in self.folders or name in rows.schema.names:
            return fit_file_column(rows.column(name), field, self.name)
        text = pa.repeat(pa.scalar(self.folders[name], pa.string()), rows.num_rows)
        return fit_file_column(text, field, self.name, of_folder=True)


def _frame(columns: list[pl.Series]) -> Frame:
    return pl.DataFrame([values.alias(column(i)) for i, values in enumerate(columns)])


def _constant(text: str | None, size: int) -> pl.Series:
    return pl.Series([text], dtype=pl.String).new_from_index(0, size)


def _open_parquet_file(path: str) -> pa.NativeFile:
    if path.startswith("file:"):
        return arrow_fs.LocalFileSystem().open_input_file(file_name(path))
    filesystem, name = arrow_fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    return filesystem.open_input_file(name)


def _folders(path: str) -> dict[str, str | None]:
    """Return the columns in the names of partition folders, in which special characters are URI-encoded.

    >>> _folders("file:/in/day=2026-01-01/place=a%2520b/x.parquet")
    {'day': '2026-01-01', 'place': 'a b'}
    """
    pairs = _PARTITION.findall(unquote(path))
    return {k: None if v == _NO_VALUE else unquote(v) for k, v in pairs}


def _texts(rows: pa.RecordBatch) -> pl.Series:
    """Return the rows as they are in the file, as texts."""
    return object_texts(rows.schema.names, rows.columns, rows.num_rows)


def _batch(frame: Frame) -> pa.RecordBatch:
    """Return a frame as Spark takes it: one batch, without views of strings."""
    table = frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    [batch] = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return batch
