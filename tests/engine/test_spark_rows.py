"""A Spark frame follows the rule of dicts: what one refuses the other does, and both store the same."""

from __future__ import annotations

from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.algebra.text import type_sql
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.ingest.inserts import table_rows
from everview.ingest.spark_rows import cast_rows

pytestmark = pytest.mark.spark

TYPES = (
    *(T.BOOLEAN, T.TINYINT, T.INT, T.BIGINT, T.FLOAT, T.DOUBLE, T.decimal(5, 2)),
    *(T.STRING, T.DATE, T.TIMESTAMP),
)
GIVEN: dict[str, object] = {
    "26.5D": 26.5,
    "26.0D": 26.0,
    "1e300D": 1e300,
    "1.005D": 1.005,
    "CAST('NaN' AS DOUBLE)": float("nan"),
    "300": 300,
    "3000000000L": 3000000000,
    "' 12 '": " 12 ",
    "'12.0'": "12.0",
    "'12.5'": "12.5",
    "'1e400'": "1e400",
    "'x'": "x",
    "'2026-01-31'": "2026-01-31",
    "true": True,
    "CAST(NULL AS STRING)": None,
}


def test_every_value_into_every_type(spark: SparkSession) -> None:
    cases = [(sql, value, type_) for sql, value in GIVEN.items() for type_ in TYPES]
    frames = []
    for number, (sql, _, type_) in enumerate(cases):
        frame = cast_rows(spark.sql(f"SELECT {sql} AS x"), _entry(type_), "why", lossless=True)
        frames.append(frame.selectExpr(f"{number} AS i", "CAST(c0 AS STRING) AS x", "why"))
    found = {row.i: row for row in reduce(DataFrame.unionAll, frames).collect()}
    stored = []
    for number, (_, value, type_) in enumerate(cases):
        try:
            kept = table_rows([{"x": value}], _entry(type_), 0).select(x="c0")
        except StoreError:
            assert found[number].why is not None, cases[number]
        else:
            assert found[number].why is None, cases[number]
            arrow = spark.createDataFrame(kept.to_arrow())
            text = arrow.selectExpr(f"{number} AS i", f"CAST(CAST(x AS {type_sql(type_)}) AS STRING) AS x")
            stored.append(text)
    for row in reduce(DataFrame.unionAll, stored).collect():
        assert found[row.i].x == row.x, cases[row.i]


def test_a_frame_with_two_columns_of_one_name(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    for sql in ("SELECT 1 AS x, 2 AS x", "SELECT 1 AS x, 2 AS X"):
        with pytest.raises(StoreError, match="the column 'x' is given twice"):
            cast_rows(spark.sql(sql), _entry(T.INT), "why", lossless=True)
    assert capfd.readouterr() == ("", "")


def _entry(type_: T.DataType) -> TableEntry:
    return TableEntry("t", Schema.of(("x", type_)))
