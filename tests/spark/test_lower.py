"""Whole queries through the physical plan and its kernels, in random slices, equal the reference. No JVM."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.reference import meaning
from everview.errors import TemporalError
from everview.kernels.frame import BEFORE_ALL, Slice
from everview.spark.lower import lower
from everview.sql import plan_of
from everview.temporal.patterns import require_runnable
from tests.pipeline import Pipeline
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

CATALOG = catalog()


def check(plan: N.Node, seed: int) -> None:
    """A plan over random inputs in random slices: every instant as the reference says."""
    rng = random.Random(seed)
    inputs = random_inputs(rng)
    bounds = [*sorted(rng.randrange(-2, DOMAIN.stop) for _ in range(rng.randrange(1, 5))), DOMAIN.stop + 50]
    pipeline = Pipeline(lower(plan), rng)
    emitted: list[ChangeRow] = []
    b0 = BEFORE_ALL
    for number, b1 in enumerate(bounds):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        for rows in new.values():
            rng.shuffle(rows)
        step = pipeline.step(new, Slice(b0, b1, first=number == 0))
        assert all(r.from_ > b0 for r in step), "a row begins before the slice"
        emitted += step
        b0 = b1
    found, wanted = to_logical(emitted, DOMAIN), meaning(plan, inputs, DOMAIN)
    assert found == wanted, f"seed {seed} bounds {bounds}\ninputs {inputs}\nfound {found}\nwanted {wanted}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_queries(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, CATALOG)
    require_runnable(plan)
    check(plan, seed=len(case.sql))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_queries_many_times(case) -> None:  # type: ignore[no-untyped-def]
    for seed in range(100, 120):
        check(plan_of(case.sql, CATALOG), seed)


@given(queries(), st.integers(0, 10**6))
@settings(max_examples=20)
def test_random_queries(sql: str, seed: int) -> None:
    plan = plan_of(sql, CATALOG)
    try:
        require_runnable(plan)
    except TemporalError:
        return
    check(plan, seed)
