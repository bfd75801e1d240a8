"""Rows of every library that a person inserts: taken alike, or refused with one message."""

from __future__ import annotations

import math
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.ingest.inserts import table_rows
from tests.ingest import random_arrow

TYPES = (
    *(T.BOOLEAN, T.TINYINT, T.INT, T.BIGINT, T.FLOAT, T.DOUBLE, T.decimal(5, 2), T.decimal(38, 2)),
    *(T.STRING, T.BINARY, T.DATE, T.TIMESTAMP, T.INTERVAL),
)
FIT = "convert the value, or declare another type"
ONCE = "give each column once"
Two = namedtuple("Two", ["s", "k"])


def entry(*columns: tuple[str, T.DataType]) -> TableEntry:
    return TableEntry("t", Schema.of(*columns))


TABLE = entry(("k", T.INT), ("s", T.STRING), ("ts", T.TIMESTAMP), ("d", T.DATE))


def stored(rows: object, table: TableEntry = TABLE) -> list[tuple[object, ...]]:
    """What is kept of the rows, in Arrow's values."""
    frame = table_rows(rows, table, 0).select(f"c{i}" for i in range(len(table.columns)))
    return [tuple(row.values()) for row in frame.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pd.DataFrame({"k": [1, "a"]}), f"row 2: the column 'k' takes INT, not 'a'\n  next: {FIT}"),
        (pd.DataFrame([[1, 2]], columns=["k", "k"]), f"the column 'k' is given twice\n  next: {ONCE}"),
        (
            pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"]),
            f"the column 'k' is given twice\n  next: {ONCE}",
        ),
        (
            pl.DataFrame({"k": [1], "K": [2]}),
            f"the column 'k' is given twice, as 'k' and as 'K'\n  next: {ONCE}",
        ),
        (
            [{"k": 0}, {"k": 1, "K": 2}],
            f"row 2: the column 'k' is given twice, as 'k' and as 'K'\n  next: {ONCE}",
        ),
        (
            pl.DataFrame({"ts": pl.Series([2**62]).cast(pl.Datetime("ms"))}),
            f"row 1: the column 'ts' takes TIMESTAMP, not 146140482-04-24T15:36:27.904\n  next: {FIT}",
        ),
        (
            pl.DataFrame({"ts": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)}),
            f"row 1: the column 'ts' takes TIMESTAMP, not 5881580-07-11\n  next: {FIT}",
        ),
        (
            pa.table({"k": pa.array([Decimal(2**40)], pa.decimal256(50, 0))}),
            f"row 1: the column 'k' takes INT, not Decimal('1099511627776')\n  next: {FIT}",
        ),
        ([{1: "x"}], "row 1: a column is named by text, not by 1\n  choices: k, s, ts, d"),
        (pd.DataFrame([[1]]), "a column is named by text, not by 0\n  choices: k, s, ts, d"),
        ([{"s": "\ud800"}], f"row 1: the column 's' takes STRING, not '\\ud800'\n  next: {FIT}"),
        (
            pd.DataFrame({"s": ["\ud800"]}),
            f"row 1: the column 's' takes STRING, not '\\ud800'\n  next: {FIT}",
        ),
        (
            pl.DataFrame({"ts": ["2026-01-01 00:00:60"]}),
            f"row 1: the column 'ts' takes TIMESTAMP, not '2026-01-01 00:00:60'\n  next: {FIT}",
        ),
        ([{"k": 10**5000}], f"row 1: the column 'k' takes INT, not a very long int\n  next: {FIT}"),
        ([{"k": "x" * 999}], f"row 1: the column 'k' takes INT, not '{'x' * 99}…\n  next: {FIT}"),
        (
            [{"k": np.float64(1.5)}],
            f"row 1: the column 'k' takes INT, not np.float64(1.5)\n  next: {FIT}",
        ),
        (
            pd.DataFrame({"k": pd.period_range("2026", periods=1, freq="D")}),
            f"row 1: the column 'k' takes INT, not 20454\n  next: {FIT}",
        ),
    ],
)
def test_what_is_said_of_rows_that_are_refused(rows: object, said: str) -> None:
    with pytest.raises(StoreError) as refused:
        table_rows(rows, TABLE, 0)
    assert str(refused.value) == said


def test_a_missing_column_of_a_named_tuple() -> None:
    other = namedtuple("other", ["k", "name"])
    with pytest.raises(Exception, match="there is no column 'name'"):
        table_rows([other(1, "a")], TABLE, 0)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([Two("a", 1)], (1, "a", None, None)),
        ([Row(s="a", k=1)], (1, "a", None, None)),
        ([{"k": np.int64(5), "s": np.str_("x")}], (5, "x", None, None)),
        ([{"k": np.float64(5.0), "s": pd.NA, "ts": pd.NaT}], (5, None, None, None)),
        ([{"ts": np.datetime64("NaT")}], (None, None, None, None)),
        (
            [{"ts": np.datetime64("2026-01-01T00:00:01"), "d": np.datetime64("2026-01-02")}],
            (None, None, datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), date(2026, 1, 2)),
        ),
        (
            [{"ts": np.datetime64(-1, "ns")}],
            (None, None, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), None),
        ),
        (pa.RecordBatch.from_pylist([{"k": 1, "s": "a"}]), (1, "a", None, None)),
        (pa.table({"k": [1], "s": ["a"]}).to_reader(), (1, "a", None, None)),
        (pa.table({"k": pa.array([Decimal(7)], pa.decimal256(60, 20))}), (7, None, None, None)),
    ],
)
def test_rows_that_are_taken(rows: object, kept: tuple[object, ...]) -> None:
    assert stored(rows) == [kept]


def test_rows_of_spark_without_names_go_by_position() -> None:
    assert stored([Row(1, "a", None, None)]) == [(1, "a", None, None)]


@pytest.mark.parametrize(
    ("value", "type_", "kept"),
    [
        (np.bool_(True), T.BOOLEAN, True),
        (np.float32(0.5), T.DOUBLE, 0.5),
        (np.timedelta64(5, "s"), T.INTERVAL, timedelta(seconds=5)),
        (Decimal("1E-999999999"), T.decimal(5, 2), Decimal("0.00")),
        (np.bytes_(b"x"), T.BINARY, b"x"),
    ],
)
def test_a_value_of_another_library(value: object, type_: T.DataType, kept: object) -> None:
    assert stored([{"v": value}], entry(("v", type_))) == [(kept,)]


@pytest.mark.parametrize(
    ("value", "type_"),
    [(timedelta.max, T.INTERVAL), (Decimal("1E+999999999"), T.DOUBLE), (np.datetime64(2**62, "us"), T.DATE)],
)
def test_a_value_out_of_range(value: object, type_: T.DataType) -> None:
    with pytest.raises(StoreError, match=f"row 1: the column 'v' takes {type_}, not "):
        stored([{"v": value}], entry(("v", type_)))


def test_a_refused_struct_that_python_cannot_have() -> None:
    """Two fields of one name make no dictionary, and one is an extension, of which no array can be made."""
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    values = pa.StructArray.from_arrays([pa.array([1.5]), uuids], ["a", "a"])
    with pytest.raises(StoreError) as caught:
        table_rows(pa.table({"v": values}), entry(("v", T.BOOLEAN)), 0)
    text = '{"a":1.5,"a":"AAAAAAAAAAAAAAAAAAAAAA=="}'
    assert caught.value.what == f"row 1: the column 'v' takes BOOLEAN, not {text}"


def outcome(rows: object, type_: T.DataType) -> object:
    try:
        return [repr(value) for value in table_rows(rows, entry(("v", type_)), 0)["c0"].to_arrow()]
    except StoreError as error:
        return error.what.partition(", not ")[0]


VALUES = st.one_of(
    st.sampled_from(
        (
            *(None, True, 1, -1, 2**31, 2**63, 2**70, 10**400, 1.0, 1.5, 1e300, math.inf, Decimal("1.005")),
            *(
                Decimal(7),
                "a",
                "1",
                "",
                "\ud800",
                "2026-01-01 00:00:60",
                "2026-01-01",
                b"a",
                date(2026, 1, 1),
            ),
            *(date(2026, 1, 1), datetime(2026, 1, 1, 12), datetime(2026, 1, 1, tzinfo=UTC), timedelta(1)),
            *(np.int64(5), np.float32(0.1), np.bool_(False), np.datetime64("2026-01-01", "s"), pd.NaT),
            *(timedelta.max, [1], {"a": 1}, object()),
        )
    ),
    *(st.integers(), st.decimals(allow_nan=False), st.text(max_size=3), st.floats(allow_nan=False)),
)


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from(TYPES))
@settings(max_examples=4 * settings().max_examples)
def test_values_of_python_are_taken_alike(values: list[Any], type_: T.DataType) -> None:
    wanted = outcome([{"v": value} for value in values], type_)
    assert outcome([(value,) for value in values], type_) == wanted
    assert outcome([Row(v=value) for value in values], type_) == wanted
    assert outcome(pd.DataFrame({"v": pd.Series(values, dtype="object")}), type_) == wanted
    assert outcome(pl.DataFrame({"v": pl.Series(values, dtype=pl.Object)}), type_) == wanted


@pytest.mark.slow
@given(random_arrow.cases(TYPES))
@settings(max_examples=4 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_columns_of_arrow_are_taken_as_their_values(case: tuple[pa.Array, T.DataType]) -> None:
    values, type_ = case
    found = outcome(pa.table({"v": values}), type_)
    assert outcome(pa.RecordBatch.from_arrays([values], ["v"]), type_) == found
    try:
        plain = values.to_pylist()
    except (ValueError, OverflowError):
        return  # Python has no such values
    if not isinstance(values.type, pa.BaseExtensionType) and "NaT" not in map(str, plain):
        assert outcome([{"v": value} for value in plain], type_) == found
