"""Parquet files of every type: no value stops the task; a row is taken as a dict would be, or refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.ingest.inserts import table_rows
from everview.ingest.read_parquet import ParquetTask
from everview.ingest.reading import FILE, ORIGINAL, REASON
from tests.ingest import random_arrow

TYPES = (
    *(T.BOOLEAN, T.TINYINT, T.INT, T.BIGINT, T.FLOAT, T.DOUBLE, T.decimal(5, 2), T.decimal(38, 2)),
    *(T.decimal(38, 30), T.STRING, T.BINARY, T.DATE, T.TIMESTAMP, T.INTERVAL),
)


def write(table: pa.Table, path: Path) -> None:
    try:
        pq.write_table(table, path)
    except pa.ArrowException:
        assume(False)  # Parquet has no such type


def read(path: Path, columns: Schema, required: dict[str, str] | None = None) -> list[pa.RecordBatch]:
    task = ParquetTask(columns, required or {})
    return list(task([pa.RecordBatch.from_pylist([{FILE: f"file:{path}"}])]))


def outcome(table: pa.Table, columns: Schema, path: Path) -> list[tuple[object, ...]]:
    """The rows of a file: values, reason, text."""
    pq.write_table(table, path)
    return [tuple(row.values()) for batch in read(path, columns) for row in batch.to_pylist()]


TS = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = Schema.of(("k", T.INT), ("ts", T.TIMESTAMP))


def test_a_timestamp_in_the_wrong_unit(tmp_path: Path) -> None:
    times = pa.array([1767225600000, 1767225600000000000], pa.timestamp("ms"))
    assert outcome(pa.table({"k": [1, 2], "ts": times}), COLUMNS, tmp_path / "a.parquet") == [
        (1, TS, None, None),
        (
            *(2, None, "ts: 56003119-12-04T00:00:00.000 is no TIMESTAMP"),
            '{"k":2,"ts":"56003119-12-04T00:00:00.000"}',
        ),
    ]


def test_bytes_in_a_list_of_another_column(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2**40], "tags": [[b"x"], [b"y", None]], "ts": [TS, TS]})
    assert outcome(table, COLUMNS, tmp_path / "a.parquet") == [
        (1, TS, None, None),
        (
            *(None, TS, "k: 1099511627776 is no INT"),
            '{"k":1099511627776,"tags":["eQ==",null],"ts":"2026-01-01T00:00:00.000000"}',
        ),
    ]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"])
    assert outcome(twice, COLUMNS, path) == [
        (None, None, f"k: {path} has 2 columns of this name", '{"k":1,"k":2}')
    ]
    others = pa.Table.from_arrays([pa.array([2**40]), pa.array([1]), pa.array([2])], ["k", "z", "z"])
    assert outcome(others, COLUMNS, path) == [
        (None, None, "k: 1099511627776 is no INT", '{"k":1099511627776,"z":1,"z":2}')
    ]


@pytest.mark.parametrize(
    ("values", "type_", "kept", "reason"),
    [
        (pa.array([Decimal("99.995")], pa.decimal128(5, 3)), T.decimal(6, 2), Decimal("100.00"), None),
        (pa.array([Decimal(5)], pa.decimal256(50, 0)), T.INT, 5, None),
        (pa.array([1e20]), T.decimal(38, 2), Decimal("100000000000000000000.00"), None),
        (pa.array([1e300]), T.FLOAT, None, "k: 1e+300 is no FLOAT"),
        (pa.array([math.inf]), T.FLOAT, math.inf, None),
        (
            pa.array([9 * 10**18], pa.timestamp("ms")),
            T.DATE,
            None,
            "k: 285200616-07-24T16:00:00.000 is no DATE",
        ),
    ],
)
def test_values_at_the_edge(
    tmp_path: Path, values: pa.Array, type_: T.DataType, kept: object, reason: str | None
) -> None:
    [row] = outcome(pa.table({"k": values}), Schema.of(("k", type_)), tmp_path / "a.parquet")
    assert row[:2] == (kept, reason)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 4))
    names = ["v", *draw(st.lists(st.sampled_from(("v", "V", "x", "y", 'q"')), max_size=2))]
    return pa.Table.from_arrays([draw(random_arrow.columns(size)) for _ in names], names)


@pytest.mark.slow
@given(tables(), st.sampled_from(TYPES))
@settings(max_examples=4 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_every_row_has_its_outcome(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, type_: T.DataType
) -> None:
    path = tmp_path_factory.mktemp("in") / "a.parquet"
    write(table, path)
    columns = Schema.of(("v", type_), ("w", T.INT))
    batches = read(path, columns, {"w": "NULL, and the column is NOT NULL"})
    found = [pair for batch in batches for pair in reason_and_text(batch)]
    assert len(found) == table.num_rows
    several = table.schema.names.count("v")
    for reason, text in found:
        # The column that must have a value is missing: each row is refused, and shown as it is.
        assert reason.startswith(f"v: {path} has {several} columns" if several > 1 else f"w: {path} has no")
        assert [name for name, _ in json.loads(text, object_pairs_hook=list)] == table.schema.names


def reason_and_text(batch: pa.RecordBatch) -> list[tuple[str, str]]:
    return list(zip(batch[REASON].to_pylist(), batch[ORIGINAL].to_pylist(), strict=True))


@given(random_arrow.cases(TYPES))
@settings(max_examples=4 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_a_value_is_taken_as_from_a_dict(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[pa.Array, T.DataType]
) -> None:
    values, type_ = case
    path = tmp_path_factory.mktemp("in") / "a.parquet"
    write(pa.table({"v": values}), path)
    [rows] = read(path, Schema.of(("v", type_)))
    given_ = pq.read_table(path).column(0)
    for value, kept, (reason, text) in zip(given_, rows["c0"], reason_and_text(rows), strict=True):
        assert (reason is None) == (text is None)
        assert reason is None or reason.startswith("v: ")
        assert kept.is_valid == (value.is_valid and reason is None)
        try:
            plain, found = value.as_py(), kept.as_py()
        except (ValueError, OverflowError):
            continue  # Python has no such value
        if str(plain) != "NaT" and not differs(plain, given_.type, type_):
            assert repr(found) == repr(from_dict(plain, type_)), (plain, given_.type)


def differs(value: object, source: pa.DataType, target: T.DataType) -> bool:
    """Whether files and dicts have rules of their own: text is no number in a file, and other things text."""
    match value:
        case str():
            return target != T.STRING
        case bytes():
            return target == T.STRING
        case datetime():
            return target == T.DATE
        case bool() | int():
            return target == T.STRING
    return isinstance(source, pa.BaseExtensionType)


def from_dict(value: object, type_: T.DataType) -> object:
    """What a dict with the value stores; None if it is refused."""
    try:
        kept = table_rows([{"v": value}], TableEntry("t", Schema.of(("v", type_))), 0)["c0"]
    except StoreError:
        return None
    return kept.to_arrow().to_pylist()[0]
