"""Corrections, rows that begin after their own timestamp: plans give them their meaning, or refuse them."""

from __future__ import annotations

import random

import pytest

from everview.algebra.changes import ChangeRow
from everview.plan.corrections import refuse_correction
from everview.plan.lower import lower
from everview.plan.strategies import STRATEGIES
from everview.sql import plan_of
from everview.temporal.runnable import require_runnable
from tests.lanes import one_in
from tests.plan.test_lower import CATALOG, check
from tests.sql.oracle import random_inputs
from tests.sql.queries import CASES

STREAMS = ("s", "r", "m")


def corrected_inputs(rng: random.Random) -> dict[str, list[ChangeRow]]:
    """Return random inputs of which some rows came too late: they begin when they were re-admitted."""
    found = random_inputs(rng)
    for name in STREAMS:
        found[name] = [
            row._replace(from_=max(row.from_, rng.randrange(16))) if rng.random() < 0.4 else row
            for row in found[name]
        ]
    return found


def refused(sql: str) -> list[str]:
    """Return why a query refuses corrections of each stream that it reads."""
    plan = lower(plan_of(sql, CATALOG))
    return [why for name in STREAMS if (why := refuse_correction(plan, name)) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("case", one_in(20, CASES, lambda c: c.sql))
def test_corrections_mean_what_the_reference_says(case) -> None:  # type: ignore[no-untyped-def]
    """Where they are taken: `test_most_queries_take_corrections` counts how often that is."""
    if refused(case.sql):
        return
    plan = plan_of(case.sql, CATALOG)
    require_runnable(plan)
    for seed in range(2):
        check({"v": plan}, len(case.sql) + seed, STRATEGIES[seed], corrected_inputs)


@pytest.mark.slow
def test_most_queries_take_corrections() -> None:
    assert 3 * sum(not refused(case.sql) for case in CASES) > 2 * len(CASES)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k FROM s [ROWS 2]", "a window of rows"),
        ("SELECT s.k, name FROM s JOIN nrr ON s.k = nrr.id", "a join with a table as it was"),
        ("SELECT s.k, name FROM s LEFT JOIN nrr ON s.k = nrr.id", "a join with a table as it was"),
    ],
)
def test_what_looks_at_the_timestamp_refuses(sql: str, why: str) -> None:
    assert [found.startswith(why) for found in refused(sql)] == [True]


def test_the_other_side_takes_them() -> None:
    sql = "SELECT a.k FROM (SELECT k FROM s [ROWS 2]) AS a JOIN r [RANGE 5 SECONDS] ON a.k = r.k"
    plan = lower(plan_of(sql, CATALOG))
    assert refuse_correction(plan, "s") is not None
    assert refuse_correction(plan, "r") is None
