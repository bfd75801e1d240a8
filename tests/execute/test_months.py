"""Dates and timestamps with INTERVAL MONTH and YEAR beside them are Spark's, and never raise an error."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from everview.algebra import types as T
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Column
from everview.algebra.schema import Schema
from everview.execute.guards import catalyst_sql
from everview.execute.session import prepare_session
from everview.sql.times import add_months_to

pytestmark = pytest.mark.spark

MONTHS = (0, 1, -1, 12, 13, -25, 1200, -119_988, 11_999_988)
COLUMNS = Schema.of(("day", T.DATE), ("ts", T.TIMESTAMP))
MICROS_OF_DAY = 86_400_000_000


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_months_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    """Within the years of Python's own dates, Spark adds an interval of years and months itself."""
    chance = random.Random(seed)
    days = [chance.randint(-500_000, 2_500_000) for _ in range(60)]
    rows = [(day, day * MICROS_OF_DAY + chance.randrange(MICROS_OF_DAY)) for day in days]
    frame = prepare_session(spark).createDataFrame(rows, "d INT, t BIGINT")
    frame = frame.selectExpr("date_from_unix_date(d) AS day", "timestamp_micros(t) AS ts")
    for column, read in (("day", "unix_date"), ("ts", "unix_micros")):
        near = [m for m in MONTHS if abs(m) <= 1200]
        ours = [add_months_to(Column.to(COLUMNS.find(column)), m) for m in near]
        theirs = [f"{read}({column} + make_ym_interval(0, {m}))" for m in near]
        found = frame.selectExpr(*(f"{read}({catalyst_sql(e)})" for e in ours), *theirs).collect()
        for row, answer in zip(rows, found, strict=True):
            wanted = [evaluate(e, COLUMNS, row) for e in ours]
            assert list(answer) == [*wanted, *wanted], (column, row)


def test_times_out_of_range_are_null(spark: SparkSession) -> None:
    """Nothing raises at the ends of time; the reference and Spark agree where the answer is NULL."""
    rows = [
        (2**31 - 1, 2**63 - 1), (-(2**31), -(2**63)), (106_751_991, 106_751_991 * MICROS_OF_DAY),
        (-106_751_991, -106_751_991 * MICROS_OF_DAY), (None, None),
    ]  # fmt: skip
    frame = prepare_session(spark).createDataFrame(rows, "d INT, t BIGINT")
    frame = frame.selectExpr("date_from_unix_date(d) AS day", "timestamp_micros(t) AS ts")
    for column, read in (("day", "unix_date"), ("ts", "unix_micros")):
        ours = [add_months_to(Column.to(COLUMNS.find(column)), m) for m in MONTHS]
        found = frame.selectExpr(*(f"{read}({catalyst_sql(e)})" for e in ours)).collect()
        wanted = [[evaluate(e, COLUMNS, row) for e in ours] for row in rows]
        assert [list(answer) for answer in found] == wanted
