"""FORMAT: the columns of a stream or table from the value of each record of its source.

A record of Kafka has a value, bytes that only its reader knows how to take apart, and metadata beside it. The
value is decoded as a line of a JSON or CSV file would be, by the same code. The
change events of Debezium are JSON with the row before and after a change: of a deleted row that is the row
before, else the one after it. What does not decode is refused, with the whole value.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.algebra.text import name_sql, string_sql
from everview.catalog import Decoding, FedEntry, Source, entry_without
from everview.errors import StoreError, nearest
from everview.execute.guards import try_cast_sql
from everview.ingest.csv_header import EMPTY, FIELD_COUNT, RECORD, REFUSED, text_column
from everview.ingest.read_csv import CsvValues
from everview.ingest.read_json import JSON_LINE, JsonValues
from everview.ingest.read_kafka import OffsetRange
from everview.ingest.read_typed import load_records
from everview.ingest.reading import (
    ORIGINAL,
    REASON,
    case_sql,
    columns_sql,
    load_files,
    part_of,
    place_of,
    reads_files,
    required_columns,
)
from everview.operators.base import column

_VALUE, _PAYLOAD = "_everview_value", "_everview_payload"
_OPERATIONS = ("c", "u", "d", "r")
_UNITS = {"ts_ms": "timestamp_millis", "ts_us": "timestamp_micros"}
_MORE = 8  # columns of CSV that are read beyond those that are declared


def open_decoded(
    session: SparkSession,
    entry: FedEntry,
    source: Source,
    files: Sequence[str] | None = None,
    ranges: Sequence[OffsetRange] | None = None,
) -> DataFrame:
    """Return the rows of a source with FORMAT: decoded columns, metadata, the reason, the value as text."""
    if reads_files(entry):
        frame = load_files(session, entry, source.format, dict(source.options), files=files)
    else:
        frame = load_records(session, entry, source, ranges)
    return decode_records(frame, entry, source)


def decode_records(frame: DataFrame, entry: FedEntry, source: Source) -> DataFrame:
    """Return the columns of an entry from records that have a value."""
    decoding = source.decoding
    assert decoding is not None
    kind = frame.schema["value"].dataType if "value" in frame.columns else None
    if not isinstance(kind, (S.StringType, S.BinaryType)):
        raise StoreError(
            f"the source {source.format} of '{entry.name}' has no column 'value' of text or bytes to decode",
            choices=frame.columns,
            next_step="leave FORMAT out, and declare the columns that the source has",
        )
    metadata = dict(decoding.metadata)
    place = place_of(entry, frame.columns) | part_of(entry)
    is_text = "is_valid_utf8(CAST(value AS STRING))"
    text = f"IF({is_text}, CAST(value AS STRING), make_valid_utf8(CAST(value AS STRING)))"
    found = {f.name: (f"_everview_metadata{i}", f) for i, f in enumerate(entry.columns) if f.name in metadata}
    records = frame.selectExpr("*", f"{text} AS {_VALUE}")
    if decoding.format == "debezium":
        whole = f"coalesce(get_json_object({_VALUE}, '$.payload'), {_VALUE})"
        # After a deletion Debezium sends a record without a value, for the compaction of the topic alone.
        records = records.where("value IS NOT NULL").selectExpr("*", f"{whole} AS {_PAYLOAD}")
    held = {at: _metadata_sql(metadata[name], field, records, entry) for name, (at, field) in found.items()}
    beside = [*place, *held]
    payload = [_PAYLOAD] if decoding.format == "debezium" else []
    records = records.selectExpr(_VALUE, *payload, *columns_sql(place), *columns_sql(held))
    inner = entry_without(entry, tuple(metadata))
    values = _decode(records, inner, decoding, [_VALUE, *beside])
    own, given = [], iter(range(len(inner.columns)))
    for i, field in enumerate(entry.columns):
        at = found[field.name][0] if field.name in found else column(next(given))
        own.append(f"{at} AS {column(i)}")
    required = required_columns(entry)
    nulls = [
        f"WHEN {at} IS NULL THEN {string_sql(f'{name}: {required[name]}')}"
        for name, (at, _) in found.items()
        if name in required
    ]
    missing = f"WHEN {_VALUE} IS NULL THEN 'there is no value'"
    reason = case_sql([missing, f"WHEN {REASON} IS NOT NULL THEN {REASON}", *nulls])
    return values.selectExpr(*own, f"{reason} AS {REASON}", f"{_VALUE} AS {ORIGINAL}", *place)


def _decode(records: DataFrame, entry: FedEntry, decoding: Decoding, beside: list[str]) -> DataFrame:
    """Return the columns of an entry without metadata: c0, c1, …, REASON, and the columns beside them."""
    source = Source(decoding.format, None, decoding.options)
    if decoding.format == "json":
        lines = records.selectExpr(f"{_VALUE} AS {JSON_LINE}", *beside)
        return JsonValues(entry, source, of_files=False).values(lines, beside)
    if decoding.format == "csv":
        return _decode_csv(records, entry, source, beside)
    operation = f"get_json_object({_PAYLOAD}, '$.op')"
    image = f"get_json_object({_PAYLOAD}, IF({operation} = 'd', '$.before', '$.after'))"
    kept = [*beside, _PAYLOAD]
    lines = records.selectExpr(f"{image} AS {JSON_LINE}", *kept)
    values = JsonValues(entry, source, of_files=False).values(lines, kept)
    known = ", ".join(map(string_sql, _OPERATIONS))
    wrong = [
        f"WHEN {operation} IS NULL THEN 'it is no change event: it has no op'",
        f"WHEN {operation} NOT IN ({known}) THEN concat('op: ', {operation}, ' is none of c, u, d and r')",
        f"WHEN {ORIGINAL} IS NULL THEN "
        f"concat('the event has no row ', IF({operation} = 'd', 'before', 'after'), ' the change')",
    ]
    reason = case_sql([*wrong, f"ELSE {REASON}"])
    columns = [column(i) for i in range(len(entry.columns))]
    return values.selectExpr(*columns, f"{reason} AS {REASON}", *beside)


def _decode_csv(records: DataFrame, entry: FedEntry, source: Source, beside: list[str]) -> DataFrame:
    """Return the columns of one CSV record in each value, by position."""
    csv = CsvValues(entry, source)
    texts = [text_column(i) for i in range(len(entry.columns) + _MORE)]
    schema = string_sql(", ".join(f"{name} STRING" for name in texts))
    given = {"escape": csv.dialect.escape, "emptyvalue": EMPTY, **csv.options, "mode": "PERMISSIVE"}
    options = ", ".join(f"{string_sql(k)}, {string_sql(v)}" for k, v in given.items())
    parsed = f"from_csv({_VALUE}, {schema}, map({options}))"
    frame = records.selectExpr(f"{parsed} AS _everview_csv", f"{_VALUE} AS {RECORD}", *beside)
    fields = [f"_everview_csv.{name} AS {name}" for name in texts[: len(entry.columns)]]
    facts = (f"{len(entry.columns)} AS {FIELD_COUNT}", f"CAST(NULL AS STRING) AS {REFUSED}")
    return csv.values(frame.selectExpr(*fields, RECORD, *facts, *beside), beside)


def _metadata_sql(what: str, field: Field, frame: DataFrame, entry: FedEntry) -> str:
    """Return the value of a METADATA column as SQL over a record."""
    first, _, rest = what.partition(".")
    if first == "headers" and "headers" in frame.columns:
        pair = "named_struct('key', h.key, 'value', CAST(h.value AS STRING))"
        text = f"to_json(transform(headers, h -> {pair}))"
        if rest:
            of_name = f"filter(headers, h -> h.key = {string_sql(rest)})"
            text = f"CAST(try_element_at({of_name}, -1).value AS STRING)"
        return try_cast_sql(text, field.type, is_text=True)
    if _PAYLOAD in frame.columns and what not in frame.columns:
        text = f"get_json_object({_PAYLOAD}, {string_sql(f'$.{what}')})"
        unit = _UNITS.get(what.rpartition(".")[2])
        if unit is not None and field.type == T.TIMESTAMP:
            return f"{unit}(try_cast({text} AS BIGINT))"
        return try_cast_sql(text, field.type, is_text=True)
    if what not in frame.columns:
        raise StoreError(
            f"a record of '{entry.name}' has no metadata '{what}'",
            meant=nearest(what, frame.columns),
            choices=[name for name in frame.columns if not name.startswith("_everview")],
        )
    kind = frame.schema[what].dataType
    if isinstance(kind, S.BinaryType) and field.type != T.BINARY:
        return try_cast_sql(f"CAST({name_sql(what)} AS STRING)", field.type, is_text=True)
    return try_cast_sql(name_sql(what), field.type, isinstance(kind, S.StringType))
