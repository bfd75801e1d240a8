"""Sources that have columns of their own: Kafka, rate, socket, and all others of Structured Streaming."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra.schema import names_beside
from everview.algebra.text import name_sql, string_sql
from everview.catalog import FedEntry, Source
from everview.errors import StoreError, nearest
from everview.execute.catalyst import spark_type
from everview.execute.guards import try_cast_sql
from everview.ingest.read_kafka import OffsetRange, open_ranges
from everview.ingest.reading import (
    ORIGINAL,
    REASON,
    case_sql,
    columns_sql,
    file_options,
    load_files,
    part_of,
    path_pattern,
    place_of,
    reads_files,
    required_columns,
    source_name,
    strict_columns,
    unreadable_reason,
)
from everview.operators.base import column


def open_typed(
    session: SparkSession,
    entry: FedEntry,
    source: Source,
    files: Sequence[str] | None = None,
    ranges: Sequence[OffsetRange] | None = None,
) -> DataFrame:
    """Return the rows of a source whose columns are found by their names, each cast to its declared type."""
    if reads_files(entry):
        fields = [S.StructField(f.name, spark_type(f.type)) for f in entry.columns]
        frame = load_files(session, entry, source.format, file_options(entry), S.StructType(fields), files)
    else:
        frame = load_records(session, entry, source, ranges)
    there = {name.casefold(): name for name in frame.columns}
    missing = [name for name in entry.columns.names if name.casefold() not in there]
    if missing:
        raise StoreError(
            f"the source {source.format} of '{entry.name}' has no column '{missing[0]}'",
            meant=nearest(missing[0], frame.columns),
            choices=frame.columns,
            next_step="declare the columns that the source has",
        )
    wrong, columns = [], []
    for i, field in enumerate(entry.columns):
        name = there[field.name.casefold()]
        given, type_ = name_sql(name), frame.schema[name].dataType
        cast = try_cast_sql(given, field.type, isinstance(type_, S.StringType))
        columns.append(f"{cast} AS {column(i)}")
        if type_ != spark_type(field.type) and i < strict_columns(entry):
            why = unreadable_reason(field.name, f"CAST({given} AS STRING)", str(field.type))
            wrong.append(f"WHEN {given} IS NOT NULL AND {cast} IS NULL THEN {why}")
    required = required_columns(entry)
    nulls = [(name_sql(there[n.casefold()]), f"{n}: {why}") for n, why in required.items()]
    reason = case_sql([*wrong, *(f"WHEN {n} IS NULL THEN {string_sql(why)}" for n, why in nulls)])
    place = place_of(entry, frame.columns) | part_of(entry)
    # A user's columns may have any name, also those that we give to ours.
    why_name, *placed = names_beside(frame.columns, REASON, *place)
    text = f"to_json(struct({', '.join(map(name_sql, frame.columns))}))"
    if len(frame.columns) == len(entry.columns):
        text = f"CASE WHEN {why_name} IS NOT NULL THEN {text} END"  # a late row is shown by its columns
    marked = frame.selectExpr(
        "*", f"{reason} AS {why_name}", *columns_sql(dict(zip(placed, place.values(), strict=True)))
    )
    named = columns_sql(dict(zip(place, placed, strict=True)))
    return marked.selectExpr(*columns, f"{why_name} AS {REASON}", f"{text} AS {ORIGINAL}", *named)


def load_records(
    session: SparkSession, entry: FedEntry, source: Source, ranges: Sequence[OffsetRange] | None = None
) -> DataFrame:
    """Return the rows of a source as Spark has them: as a stream, or those of ranges of Kafka's offsets."""
    if ranges is not None:
        return open_ranges(session, entry, ranges)
    reader = session.readStream.format(source.format).options(**dict(source.options))
    reader = reader.name(source_name(entry))
    return reader.load() if source.path is None else reader.load(path_pattern(source))
