"""Whole queries through the physical plan and its kernels, in random slices, equal the reference. No JVM.

Every query runs node by node, in stages with each kernel routed by its whole key, and in fused stages, on a
random number of partitions; under the strategies NT and DIRECT, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, to_logical
from everview.errors import PlanError, TemporalError
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.lower import lower
from everview.plan.strategies import STRATEGIES
from everview.reference.meaning import meaning
from everview.rewrite import rewrite
from everview.sql import plan_of
from everview.temporal.runnable import require_runnable
from tests.lanes import one_in
from tests.pipeline import Pipeline, StagedPipeline
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

CATALOG = catalog()

Inputs = Mapping[str, Sequence[ChangeRow]]
Step = Callable[[Inputs, Slice], dict[str, list[ChangeRow]]]


def node_by_node(plans: Mapping[str, N.Node], rng: random.Random, strategy: str) -> Step:
    pipelines = {view: Pipeline(lower(plan, strategy), rng) for view, plan in plans.items()}
    return lambda new, slice_: {view: p.step(new, slice_) for view, p in pipelines.items()}


def in_stages(plans: Mapping[str, N.Node], rng: random.Random, strategy: str) -> Step:
    lowered = {view: lower(plan, strategy) for view, plan in plans.items()}
    return StagedPipeline(lowered, rng, rng.randrange(1, 4), fused=False).step


def fused(plans: Mapping[str, N.Node], rng: random.Random, strategy: str) -> Step:
    lowered = {view: lower(plan, strategy) for view, plan in plans.items()}
    return StagedPipeline(lowered, rng, rng.randrange(1, 4)).step


def sometimes_fused(plans: Mapping[str, N.Node], rng: random.Random, strategy: str) -> Step:
    """State is found again where it lies, whatever runs together."""
    lowered = {view: lower(plan, strategy) for view, plan in plans.items()}
    pipeline = StagedPipeline(lowered, rng, rng.randrange(1, 4))

    def step(new: Inputs, slice_: Slice) -> dict[str, list[ChangeRow]]:
        pipeline.fused = rng.random() < 0.5
        return pipeline.step(new, slice_)

    return step


WAYS = (node_by_node, in_stages, fused, sometimes_fused)


def check(
    plans: Mapping[str, N.Node],
    seed: int,
    strategy: str = "UPA",
    draw_inputs: Callable[[random.Random], Inputs] = random_inputs,
) -> None:
    """Plans over random inputs in random slices: every instant as the reference says."""
    given = draw_inputs(random.Random(seed))
    meanings = {view: meaning(plan, given, DOMAIN) for view, plan in plans.items()}
    for way in WAYS:
        rng = random.Random(seed)
        inputs = draw_inputs(rng)
        steps = sorted(rng.randrange(-2, DOMAIN.stop) for _ in range(rng.randrange(1, 5)))
        bounds = [*steps, DOMAIN.stop + 50]
        step = way(plans, rng, strategy)
        emitted: dict[str, list[ChangeRow]] = {view: [] for view in plans}
        b0 = BEFORE_ALL
        for number, b1 in enumerate(bounds):
            new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
            for rows in new.values():
                rng.shuffle(rows)
            for view, rows in step(new, Slice(b0, b1, first=number == 0)).items():
                assert all(r.from_ > b0 for r in rows), "a row begins before the slice"
                emitted[view] += rows
            b0 = b1
        for view, wanted in meanings.items():
            found = to_logical(emitted[view], DOMAIN)
            assert found == wanted, (
                f"{way.__name__} {strategy} seed {seed} bounds {bounds}\n"
                f"inputs {inputs}\nfound {found}\nwanted {wanted}"
            )


@pytest.mark.parametrize(
    "case",
    one_in(20, CASES, lambda c: c.sql),
)
def test_queries(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, CATALOG)
    require_runnable(plan)
    check({"v": plan}, seed=len(case.sql))
    for seed in seeds(0, 3):  # in `make fuzz` only
        check({"v": plan}, seed + 100)
        check({"v": plan}, seed + 100, STRATEGIES[seed])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s != "UPA"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_queries_by_other_strategies(case, strategy: str) -> None:  # type: ignore[no-untyped-def]
    check({"v": plan_of(case.sql, CATALOG)}, len(case.sql) + 1, strategy)


@pytest.mark.slow
@given(st.lists(queries(), min_size=1, max_size=3), st.integers(0, 10**6), st.sampled_from(STRATEGIES))
@settings(max_examples=settings().max_examples // 2)
def test_random_queries(sqls: list[str], seed: int, strategy: str) -> None:
    """Several views at once: they share work, and each is right."""
    plans = {}
    for number, sql in enumerate(sqls):
        plan = plan_of(sql, CATALOG)
        try:
            require_runnable(plan)
        except TemporalError:
            continue
        plans[f"v{number}"] = plan
    check(plans, seed, strategy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.topic in ("rank", "over", "window function", "session")],
    ids=lambda c: c.sql,
)
def test_rewritten_queries(case) -> None:  # type: ignore[no-untyped-def]
    """With rules: a condition on a rank becomes a limit, conditions move below windows, a session has no
    end that is not read."""
    plan = rewrite(plan_of(case.sql, CATALOG)).plan
    for seed in range(3):
        check({"v": plan}, seed, STRATEGIES[seed % 3])


@given(queries(1), st.integers(0, 10**6))
@settings(max_examples=settings().max_examples // 2)
def test_rewritten_random_queries(sql: str, seed: int) -> None:
    plan = rewrite(plan_of(sql, CATALOG)).plan
    try:
        require_runnable(plan)
    except TemporalError:
        return
    check({"v": plan}, seed)


def test_a_strategy_that_there_is_not() -> None:
    with pytest.raises(PlanError, match=r"no strategy 'EAGER'\n  choices: UPA, DIRECT, NT"):
        lower(plan_of("SELECT * FROM s", CATALOG), "EAGER")
