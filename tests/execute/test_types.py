"""Spark is the judge of the tables in `tests/sql/typed.py`: of the types, and of the answers."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.sql.typed import AGGREGATES, ANSWERS, COLUMNS, EXPRESSIONS, ROWS, SET_OPERATIONS, same_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _relations(spark: SparkSession) -> None:
    """The relations that the tables read."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    spark.createDataFrame([], columns).createOrReplaceTempView("e")
    for header, rows in ROWS.items():
        name, _, schema = header.partition(" ")
        spark.createDataFrame(rows, schema.strip("()")).createOrReplaceTempView(name)


def spark_types(frame: DataFrame) -> list[str]:
    """The types of a frame's columns; Everview has one INTERVAL for Spark's several."""
    names = [field.dataType.simpleString().upper() for field in frame.schema.fields]
    return ["INTERVAL" if name.startswith("INTERVAL") else name for name in names]


def test_the_types_of_expressions(spark: SparkSession) -> None:
    wrong = []
    for aggregated in (False, True):
        table = {e: t for e, t in EXPRESSIONS.items() if (e in AGGREGATES) == aggregated}
        items = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(table))
        found = spark_types(spark.sql(f"SELECT {items} FROM e"))
        wrong += [(e, t, s) for (e, t), s in zip(table.items(), found, strict=True) if t != s]
    assert not wrong


def test_the_types_of_set_operations(spark: SparkSession) -> None:
    wrong = []
    for (left, right), expected in SET_OPERATIONS.items():
        for words in ("UNION ALL", "EXCEPT", "INTERSECT ALL"):
            found = spark_types(spark.sql(f"SELECT {left} AS r FROM e {words} SELECT {right} FROM e"))
            if found != [expected]:
                wrong.append((left, words, right, expected, found))
    assert not wrong


@pytest.mark.parametrize("sql", ANSWERS)
def test_answers(spark: SparkSession, sql: str) -> None:
    found = [tuple(row) for row in spark.sql(sql).collect()]
    assert same_rows(found, ANSWERS[sql]), found
