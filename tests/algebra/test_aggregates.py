"""Aggregates by their plain meaning: exact sums, Spark's types, and a user's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import pytest

from everview.algebra import nodes as N
from everview.algebra.aggregates import AGGREGATES, AggregateCall, AggregateFunction, aggregate_function
from everview.algebra.expressions import Column
from everview.algebra.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, INTERVAL, STRING, DataType, decimal
from everview.catalog import Catalog
from everview.errors import PlanError
from everview.plan.lower import lower
from everview.reference.meaning import meaning
from everview.reference.work_out import work_out
from everview.sql import plan_of
from tests.streams import DOMAIN, S, arrivals_of

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("function", "type_", "values", "wanted"),
    [
        ("count", INT, [3, 3], 2),
        ("count", INT, [], 0),
        ("sum", INT, [], None),
        ("sum", INT, [2, 3], 5),
        ("sum", BIGINT, [2**63 - 1, 1], -(2**63)),
        ("sum", DOUBLE, [1e16, 0.1, -1e16], 0.1),
        ("sum", DOUBLE, [0.1] * 10, 1.0),
        ("sum", DOUBLE, [INF, 1.0], INF),
        ("sum", DOUBLE, [1e308, 1e308], INF),
        ("sum", decimal(5, 2), [Decimal("1.25"), Decimal("2.50")], Decimal("3.75")),
        ("avg", INT, [1, 2], 1.5),
        ("avg", decimal(5, 2), [Decimal("0.01"), Decimal("0.02"), Decimal("0.02")], Decimal("0.016667")),
        ("avg", INTERVAL, [3, 4], 4),
        ("avg", INTERVAL, [3, 3, 4], 3),
        ("avg", INTERVAL, [-3, -4], -4),
        ("avg", INTERVAL, [-3, -3, -4], -3),
        ("avg", INTERVAL, [0, -1], -1),
        ("min", DOUBLE, [NAN, 2.0], 2.0),
        ("max", DOUBLE, [2.0, INF], INF),
        ("min", STRING, [], None),
        ("stddev", DOUBLE, [5.0], None),
        ("stddev", DOUBLE, [1.0, 3.0], math.sqrt(2.0)),
        ("stddev", DOUBLE, [1e16, 1e16 + 2], math.sqrt(2.0)),
        ("stddev_pop", DOUBLE, [5.0], 0.0),
        ("var_pop", DOUBLE, [1e16, 1e16 + 2], 1.0),
        ("variance", INT, [2**62, 2**62 + 3], 4.5),
        ("median", DOUBLE, [3.0, NAN, 1.0, 2.0], 2.5),
        ("count_if", BOOLEAN, [], 0),
        ("every", BOOLEAN, [], None),
        ("every", BOOLEAN, [True, False], False),
        ("some", BOOLEAN, [False, False], False),
        ("any_value", STRING, ["b", "a"], "a"),
    ],
)
def test_meaning(function: str, type_: DataType, values: list[object], wanted: object) -> None:
    found = aggregate_function(function)
    result = found.result_type(type_)
    assert result is not None
    assert found.meaning(values, type_, result) == wanted


@pytest.mark.parametrize("values", [[INF, -INF], [NAN, 1.0]])
def test_a_sum_that_is_no_number(values: list[float]) -> None:
    found = aggregate_function("sum").meaning(values, DOUBLE, DOUBLE)
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("function", "argument", "wanted"),
    [
        ("sum", INT, "BIGINT"),
        ("sum", FLOAT, "DOUBLE"),
        ("sum", decimal(10, 2), "DECIMAL(20,2)"),
        ("avg", BIGINT, "DOUBLE"),
        ("avg", decimal(10, 2), "DECIMAL(14,6)"),
        ("min", STRING, "STRING"),
        ("count", STRING, "BIGINT"),
        ("stddev", INT, "DOUBLE"),
        ("var_pop", decimal(10, 2), "DOUBLE"),
        ("count_if", BOOLEAN, "BIGINT"),
        ("any_value", STRING, "STRING"),
    ],
)
def test_result_types(function: str, argument: DataType, wanted: str) -> None:
    assert str(AggregateCall(function, Column("x", argument)).type) == wanted


@pytest.fixture
def product() -> Iterator[None]:
    """A user's own aggregate, for the time of a test."""

    def meaning_(values, argument, result):  # type: ignore[no-untyped-def]
        return math.prod(values) if values else None

    AGGREGATES["product"] = AggregateFunction("product", lambda t: BIGINT if t.is_integer else None, meaning_)
    yield
    del AGGREGATES["product"]


@pytest.mark.usefixtures("product")
def test_an_aggregate_of_the_users_own() -> None:
    plan = N.Aggregate(S, (), (("p", AggregateCall("product", S.column("v"))),))
    stream = meaning(plan, {"s": arrivals_of([(0, 3, 1), (0, 4, 2)])}, DOMAIN)
    assert [e for e, t in sorted(stream, key=lambda x: x[1])][:3] == [(None,), (3,), (12,)]


@pytest.mark.usefixtures("product")
def test_an_aggregate_of_the_users_own_in_sql() -> None:
    answers = work_out("""
        CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW p AS SELECT PRODUCT(v) AS p FROM s [UNBOUNDED];
        INSERT INTO s VALUES (3, TIMESTAMP '1970-01-01 00:00:01'), (5, TIMESTAMP '1970-01-01 00:00:02');
    """)
    assert [r.record for r in answers[0].rows] == [(3,), (15,)]


@pytest.mark.usefixtures("product")
def test_an_aggregate_that_no_kernel_knows_is_refused() -> None:
    plan = plan_of("SELECT PRODUCT(LENGTH('abc')) AS p", Catalog())
    with pytest.raises(PlanError, match="the aggregate 'product' has a meaning but no kernel yet"):
        lower(plan)
