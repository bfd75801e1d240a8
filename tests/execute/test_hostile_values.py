"""No value can stop a pipeline: Spark raises no error on any expression, and yields what `evaluate` says."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.expressions import Arithmetic, Call, Case, Comparison, Expression, IsNull, Literal, Not
from everview.algebra.text_patterns import is_surely_valid, regex_problem
from everview.execute.guards import catalyst_sql
from tests.algebra.hostile import SCHEMA, answers, calls, casts, column, operations, records, with_constants
from tests.algebra.random_expressions import same
from tests.algebra.random_patterns import escapes, random_patterns
from tests.execute.test_expressions import INEXACT, readable, spark_frame
from tests.sql.documented_nulls import documented_nulls

pytestmark = pytest.mark.spark

ROWS = records()
Rows = Sequence[tuple[object, ...]]
TOGETHER = 120  # expressions in a query


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark_frame(spark, SCHEMA, ROWS).coalesce(2).cache()


def disagreements(frame: DataFrame, rows: Rows, expressions: Sequence[Expression]) -> list[str]:
    """Where Spark raises an error or yields something else than `evaluate`, one line for an expression."""
    parts = [expressions[i : i + TOGETHER] for i in range(0, len(expressions), TOGETHER)]
    return [line for part in parts for line in _disagreements(frame, rows, part)]


def _disagreements(frame: DataFrame, rows: Rows, expressions: Sequence[Expression]) -> list[str]:
    texts = [catalyst_sql(e) for e in expressions]
    shown = [readable(text, e.type) for text, e in zip(texts, expressions, strict=True)]
    try:
        theirs = frame.selectExpr(*shown).collect()
    except (PySparkException, Py4JJavaError) as error:
        if len(expressions) == 1:
            return [f"{texts[0]}: {str(error).strip()[:400]}"]
        half = len(expressions) // 2
        parts = expressions[:half], expressions[half:]
        return [line for part in parts for line in _disagreements(frame, rows, part)]
    found = []
    for i, e in enumerate(expressions):
        tolerance = 1e-13 if any(isinstance(x, Call) and x.name in INEXACT for x in e.walk()) else 0.0
        constant = any(isinstance(x, Literal) for x in e.walk())
        for row, mine, their in zip(rows, answers(e, rows), theirs, strict=True):
            value = bytes(their[i]) if isinstance(their[i], bytearray) else their[i]
            read = {c.name: row[SCHEMA.names.index(c.name)] for c in e.columns()}
            # Spark's optimizer takes the constants 0.0 and -0.0 to be the same.
            if same(mine, value, tolerance, signed_zero=not constant) or _is_split(e, read.values()):
                continue
            found.append(f"{texts[i]} with {read}: {mine!r} here, {value!r} in Spark"[:600])
            break
    return found


def _is_split(e: Expression, read: Iterable[object]) -> bool:
    """Java matches nothing also between the two halves of a character beyond U+FFFF."""
    regular = isinstance(e, Call) and e.name in ("regexp_replace", "regexp_count")
    constants = [x.value for x in e.walk() if isinstance(x, Literal)]
    return regular and any(isinstance(v, str) and max(v, default="") > "\uffff" for v in (*read, *constants))


def test_functions_of_columns(frame: DataFrame) -> None:
    assert not disagreements(frame, ROWS, list(calls()))


def test_operators_on_columns(frame: DataFrame) -> None:
    assert not disagreements(frame, ROWS, list(operations()))


def test_casts_of_columns(frame: DataFrame) -> None:
    assert not disagreements(frame, ROWS, list(casts()))


def test_constants(spark: SparkSession) -> None:
    """Where all or some operands are constants, Spark works out parts when it plans."""
    few = ROWS[:: len(ROWS) // 3]
    chance = random.Random(9)
    made = list(with_constants(chance, [*calls(), *operations()], 1))
    assert not disagreements(spark_frame(spark, SCHEMA, few), few, chance.sample(made, 1000))


TEXT, PATTERN, NUMBER = (column(t, i) for i, t in enumerate((T.STRING, T.STRING, T.INT)))
MATCHES = Call("rlike", (TEXT, PATTERN))
PART = Call("split_part", (TEXT, PATTERN, NUMBER))
LATER = Arithmetic("+", column(T.TIMESTAMP, 0), column(T.INTERVAL, 1))
SHARING = [
    MATCHES,
    Not(MATCHES),
    IsNull(MATCHES),
    Case(((MATCHES, PART),), Call("upper", (PART,))),
    Call("concat", (PART, Call("regexp_extract", (PART, PATTERN, NUMBER)))),
    Call("hour", (LATER,)),
    Comparison("<", LATER, Arithmetic("+", LATER, column(T.INTERVAL, 1))),
    Call("date_trunc", (TEXT, LATER)),
]


@pytest.mark.parametrize("mode", ["CODEGEN_ONLY", "NO_CODEGEN"])
@pytest.mark.parametrize("elimination", ["true", "false"])
def test_parts_that_occur_twice(spark: SparkSession, frame: DataFrame, mode: str, elimination: str) -> None:
    """Spark works out what expressions share beforehand: it must still be tried, not done."""
    settings = {
        "spark.sql.codegen.factoryMode": mode,
        "spark.sql.codegen.wholeStage": str(mode != "NO_CODEGEN").lower(),
        "spark.sql.subexpressionElimination.enabled": elimination,
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert not disagreements(frame, ROWS, SHARING)
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def test_java_reads_the_patterns_that_are_taken_to_be_valid(spark: SparkSession) -> None:
    """And what is refused when a query is bound, Java refuses too."""
    patterns = random_patterns(random.Random(4), 6000) + escapes()
    text = "try_reflect('java.util.regex.Pattern', 'compile', p) IS NOT NULL"
    valid = spark.createDataFrame([(p,) for p in patterns], "p STRING").selectExpr(text).collect()
    wrong = [
        (p, java, regex_problem(p))
        for p, (java,) in zip(patterns, valid, strict=True)
        if (java and regex_problem(p) is not None) or (not java and is_surely_valid(p))
    ]
    assert not wrong


def test_what_the_document_says_gives_null(spark: SparkSession) -> None:
    nulls = documented_nulls()
    (row,) = spark.range(1).selectExpr(*map(catalyst_sql, nulls.values())).collect()
    assert dict(zip(nulls, row, strict=True)) == dict.fromkeys(nulls)
