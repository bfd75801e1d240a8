"""Parameters: `:name` stands for a value, as a literal of its type. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra import types as T
from everview.algebra.evaluate import evaluate
from everview.catalog import Catalog, ViewEntry
from everview.errors import EverviewError
from everview.sql import bind_script, declare, plan_of
from everview.sql import statements as S

SCRIPT = """
CREATE STREAM s (car STRING, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k));
"""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**37), 10**37),
    st.floats(),
    st.text(),
    st.sampled_from(["'", "\\", "\\'; DROP STREAM s; --", ":car", "a\nb", "--", "/*", "`", "\x00"]),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(timezone(timedelta(hours=-5)))),
    st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
)


def catalog() -> Catalog:
    names = Catalog()
    for statement in bind_script(SCRIPT, names):
        declare(statement, names)
    return names


def bound(sql: str, **values: object) -> S.Statement:
    (statement,) = bind_script(sql, catalog(), values)
    return statement


def same(a: object, b: object) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)


def expected(value: object) -> tuple[object, str]:
    match value:
        case None:
            return None, "VOID"
        case bool():
            return value, "BOOLEAN"
        case int():
            small, middle = -(2**31) <= value < 2**31, -(2**63) <= value < 2**63
            return value, "INT" if small else "BIGINT" if middle else "DECIMAL"
        case float():
            return value, "DOUBLE"
        case Decimal():
            return value, "DECIMAL"
        case str():
            return value, "STRING"
        case bytes():
            return value, "BINARY"
        case datetime():
            aware = value.replace(tzinfo=value.tzinfo or UTC)
            return (aware - EPOCH) // timedelta(microseconds=1), "TIMESTAMP"
        case date():
            return (value - EPOCH.date()).days, "DATE"
        case timedelta():
            return value // timedelta(microseconds=1), "INTERVAL"
    raise AssertionError(value)


@given(VALUES)
def test_a_value_is_a_literal_of_its_type(value: object) -> None:
    statement = bound("SELECT :p AS x", p=value)
    assert isinstance(statement, S.Select)
    plan = statement.query.plan
    want, name = expected(value)
    assert plan.schema.types[0].name == name
    project = next(n for n in plan.walk() if isinstance(n, N.Project))
    found = evaluate(project.columns[0][1], project.input.schema, ())
    assert same(found, want), (found, want)


@given(VALUES.filter(lambda v: v is not None), VALUES.filter(lambda v: v is not None))
def test_a_view_keeps_the_values_in_its_text(first: object, second: object) -> None:
    sql = "CREATE VIEW w AS SELECT :b AS y, v - :a AS q, :a AS x, ':a' AS z FROM s" if _number(first) else (
        "CREATE VIEW w AS SELECT :b AS y, :a AS x, /* :a */ ':a' AS z, car FROM s -- :b"
    )  # fmt: skip
    statement = bound(sql, a=first, b=second)
    assert isinstance(statement, S.Create)
    assert isinstance(statement.entry, ViewEntry)
    assert statement.plan == plan_of(statement.entry.sql, catalog())


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**40


def test_everywhere_a_constant_may_stand() -> None:
    at = datetime(2026, 1, 1)
    asked = bound("SELECT v FROM s [RANGE :w] LIMIT :n AS OF :at", w=timedelta(minutes=5), n=3, at=at)
    plain = bound("SELECT v FROM s [RANGE 5 MINUTES] LIMIT 3 AS OF TIMESTAMP '2026-01-01 00:00:00'")
    assert asked == plain
    inserted = bound("INSERT INTO t VALUES (:k, :name), (2, 'b')", k=1, name="it's")
    assert inserted == bound("INSERT INTO t VALUES (1, 'it\\'s'), (2, 'b')")
    assert bound("DELETE FROM t WHERE k = :k AT :at", k=-1, at=at) == bound(
        "DELETE FROM t WHERE k = (-1) AT TIMESTAMP '2026-01-01 00:00:00'"
    )
    assert bound("UPDATE t SET name = :n", n=None) == bound("UPDATE t SET name = NULL")
    assert bound("SELECT v FROM s WHERE car IN (:a, :b)", a="x", b="y") == bound(
        "SELECT v FROM s WHERE car IN ('x', 'y')"
    )


def test_a_value_beside_another_type_is_read_as_that_type() -> None:
    assert bound("SELECT v FROM s WHERE v = :v", v="5") == bound("SELECT v FROM s WHERE v = '5'")
    assert bound("SELECT v FROM s LIMIT :n OFFSET :m", n="5", m="2") == bound(
        "SELECT v FROM s LIMIT 5 OFFSET 2"
    )


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (
            lambda: bound("SELECT v FROM s WHERE car = :car"),
            "the parameter :car has no value\n  line 1, column 29\n    SELECT v FROM s WHERE car = :car\n"
            "                                ^^^^\n  next: give one: car=…",
        ),
        (
            lambda: bound("SELECT v FROM s WHERE car = :car", car="a", kar=1),
            "no parameter is called :kar\n  did you mean ':car'?\n  choices: :car",
        ),
        (
            lambda: bound("SELECT v FROM s", car="a"),
            "no parameter is called :car\n  next: write :car where its value belongs",
        ),
        (
            lambda: bound("SELECT v FROM s WHERE v = ?"),
            "a parameter needs a name\n  line 1, column 27\n    SELECT v FROM s WHERE v = ?\n"
            "                              ^\n  next: write it as :name",
        ),
        (
            lambda: bound("SELECT :x AS x", x=[1]),
            "the parameter :x is list, which has no type in SQL\n"
            "  next: give one of str, int, float, bool, Decimal, datetime, date, timedelta, bytes, None",
        ),
        (
            lambda: bound("SELECT :x AS x", x=Decimal("NaN")),
            "the parameter :x is NaN, which no DECIMAL can be\n  next: give a float",
        ),
        (
            lambda: bound("SELECT :x AS x", x=10**38),
            "the parameter :x has 39 digits\n  next: give a float",
        ),
        (
            lambda: bound("SELECT v FROM :t", t="s"),
            "the parameter :t is a value, and here a name belongs\n  line 1, column 15\n"
            "    SELECT v FROM :t\n                  ^^",
        ),
        (
            lambda: bound("CREATE VIEW w AS SELECT v FROM s WHERE v > :v"),
            "the parameter :v has no value\n  line 1, column 44\n"
            "    CREATE VIEW w AS SELECT v FROM s WHERE v > :v\n"
            "                                               ^^\n  next: give one: v=…",
        ),
    ],
)
def test_what_is_wrong_is_said(work: Callable[[], object], said: str) -> None:
    with pytest.raises(EverviewError) as caught:
        work()
    assert str(caught.value) == said


def test_types_are_those_of_the_algebra() -> None:
    statement = bound("SELECT :d AS d", d=Decimal("1.50"))
    assert isinstance(statement, S.Select)
    assert statement.query.plan.schema.types == (T.decimal(3, 2),)
