"""PERCENTILE is Spark's to the bit: many groups of odd values, with Spark's batch answer as the witness."""

from __future__ import annotations

import math
import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from everview.algebra.aggregates import percentile
from everview.execute.session import prepare_session

pytestmark = pytest.mark.spark

FRACTIONS = (0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.99, 1.0)


def value(rng: random.Random) -> float:
    odd = (rng.random(), float(rng.randrange(5)), 1e300 * rng.random(), math.inf, -math.inf, -0.0)
    return rng.choice(odd) if rng.random() < 0.3 else rng.gauss(0, 3)


def is_same(one: float | None, other: float) -> bool:
    """Return whether two values are the same; 0.0 and -0.0 are, and NaN is itself."""
    return one is not None and (one == other or (math.isnan(one) and math.isnan(other)))


def test_percentiles_are_those_of_spark(spark: SparkSession) -> None:
    rng = random.Random(1)
    groups = [[value(rng) for _ in range(rng.randrange(1, 9))] for _ in range(100)]
    rows = [(i, x) for i, values in enumerate(groups) for x in values]
    frame = prepare_session(spark).createDataFrame(rows, "i INT, x DOUBLE")
    found = frame.groupBy("i").agg(*(F.expr(f"percentile(x, {f}D)") for f in FRACTIONS))
    answers = {r[0]: tuple(r)[1:] for r in found.collect()}
    for i, values in enumerate(groups):
        wanted = [percentile(values, fraction) for fraction in FRACTIONS]
        assert all(map(is_same, wanted, answers[i])), (values, wanted, answers[i])
