"""Views that differ in a condition share a join where that costs less; shared ≡ unshared. No JVM."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview import operators as P
from everview.algebra.changes import ChangeRow, to_logical
from everview.catalog import Catalog, QueryEntry
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.views import ViewStart
from everview.reference.meaning import meaning
from everview.rewrite import RULES, lift_conditions, rewrite
from everview.sql import bind_script, declare, plan_of
from tests.lanes import one_in
from tests.pipeline import StagedPipeline
from tests.plan.measured import draw_rows, run_measured
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES

JOIN = "FROM a [RANGE 6 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k"
LARGE = f"SELECT a.k, a.v, b.v AS w {JOIN} WHERE a.v > {{}}"
FEW = f"SELECT a.k, a.v, b.v AS w {JOIN} WHERE a.u = {{}}"
ONE_KEY = f"SELECT a.k, a.v, b.v AS w {JOIN} WHERE a.k = {{}}"


def streams(views: dict[str, str], keys: int = 50) -> Catalog:
    """Two streams with declared rates, and some views."""
    known = f"WITH (rate => 60, distinct(k) => {keys}, distinct(v) => 10, distinct(u) => 50)"
    script = "".join(
        f"CREATE STREAM {name} (k INT, v INT, u INT, ts TIMESTAMP, TIMELINE ts) {known};" for name in "ab"
    )
    script += "".join(f"CREATE VIEW {name} AS {sql};" for name, sql in views.items())
    made = Catalog()
    for statement in bind_script(script, made):
        declare(statement, made)
    return made


def by_constant(sql: str, count: int) -> dict[str, str]:
    return {f"v{i}": sql.format(i) for i in range(count)}


def joins(store: CompiledStore) -> list[str]:
    return [o.kind for o in stateful_operators(store.plans.values())]


def test_ten_views_that_differ_in_a_constant_have_one_join() -> None:
    store = compile_store(streams(by_constant(LARGE, 10)))
    assert joins(store) == ["Join"]
    view = store.views["v3"]
    assert view.rules[-1] == "lift_conditions"
    [choice] = view.choices
    assert choice.what == "sharing"
    assert choice.chosen.text.startswith("one join for 10 views, with filters above it: a.v > 0, a.v > 1")
    assert choice.chosen.cost < choice.rejected[0].cost


def test_filters_that_drop_most_rows_stay_below_a_join_of_each_view() -> None:
    """Figure 15 of paper 5: what is shared would be more than what all views need."""
    store = compile_store(streams(by_constant(ONE_KEY, 5)))
    assert joins(store) == ["Join"] * 5
    [choice] = store.views["v0"].choices
    assert choice.chosen.text == "a join for each view, over filtered inputs"
    assert choice.rejected[0].text.startswith("one join for 5 views")
    assert choice.chosen.cost < choice.rejected[0].cost


@pytest.mark.slow
def test_from_how_many_views_on_a_join_is_shared() -> None:
    """The cross-over of paper 5: later where filters let few rows through, and never where hardly any."""
    shared = {
        sql: [
            len(joins(compile_store(streams(by_constant(sql, n)), answers=False))) == 1 for n in (2, 4, 6, 9)
        ]
        for sql in (LARGE, FEW, ONE_KEY)
    }
    assert shared == {
        LARGE: [False, True, True, True],
        FEW: [False, False, True, True],
        ONE_KEY: [False] * 4,
    }


def test_only_the_conditions_that_differ_are_lifted() -> None:
    views = {f"v{i}": f"{LARGE.format(i)} AND b.u = 3" for i in range(6)}
    store = compile_store(streams(views))
    assert joins(store) == ["Join"]
    plan = store.views["v0"].compiled
    filters = [p for p in parts(plan) if isinstance(p, P.FilterOperator)]
    assert len(filters) == 2, "u = 3 below the join, v > 0 above it"


def parts(plan: P.Operator) -> list[P.Operator]:
    return [plan, *(p for below in plan.inputs for p in parts(below))]


def test_a_view_without_conditions_serves_the_others() -> None:
    views = {"pairs": LARGE.partition(" WHERE")[0], "some": LARGE.format(4)}
    assert joins(compile_store(streams(views))) == ["Join"]


# A store that has run


def run(store: CompiledStore) -> StoredViews:
    """The views as a store that has run keeps them."""
    plans = {plan.digest: plan for plan in store.plans.values()}
    kept = {name: view.keep() for name, view in store.views.items()}
    return StoredViews(kept, {}, (), plans.__getitem__)


@pytest.mark.slow
def test_views_that_run_keep_their_joins_and_new_ones_share() -> None:
    first = compile_store(streams(by_constant(LARGE, 1)))
    stored = run(first)
    for count in range(2, 11):
        store = compile_store(streams(by_constant(LARGE, count)), stored=stored)
        assert not store.outdated
        stored = run(store)
    assert joins(store).count("Join") <= 6, "a few of their own, before it was worth a shared one"
    fewer = {name: sql for name, sql in by_constant(LARGE, 10).items() if name == "v9"}
    alone = compile_store(streams(fewer), stored=stored)
    assert not alone.outdated, "the last one that shares a join stays with it"
    assert alone.views["v9"].shares


def test_a_view_that_begins_later_shares_no_join_with_older_ones() -> None:
    views = by_constant(LARGE, 4)
    starts = {name: ViewStart(5, ("a", "b")) for name in ("v2", "v3")}
    store = compile_store(streams(views), starts, answers=False)
    assert len(joins(store)) >= 2
    assert store.views["v0"].physical != store.views["v2"].physical


# Shared is unshared


@pytest.mark.parametrize("case", one_in(20, CASES, lambda c: c.sql))
def test_conditions_above_a_join_mean_the_same(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, catalog())
    rules = tuple(rule for rule in RULES if rule.__name__ != "prune_columns")
    inputs = random_inputs(random.Random(len(case.sql)))
    wanted = None
    for lifted in lift_conditions(rewrite(plan, rules).plan):
        wanted = meaning(plan, inputs, DOMAIN) if wanted is None else wanted
        assert lifted.plan.schema == plan.schema
        assert meaning(lifted.plan, inputs, DOMAIN) == wanted


SMALL = "FROM s [RANGE 6 MICROSECONDS] JOIN r [RANGE 9 MICROSECONDS] ON s.k = r.k"
LIVES = (
    f"SELECT s.k, s.v, r.v AS w {SMALL} WHERE s.v > {{}}",
    f"SELECT s.k, COUNT(*) AS n {SMALL} WHERE s.v <= {{}} AND r.v IS NOT NULL GROUP BY s.k",
    f"SELECT DISTINCT r.v {SMALL} WHERE r.v = {{}}",
    f"SELECT s.v, r.v AS w {SMALL} WHERE s.v + r.v > {{}} AND s.ts > TIMESTAMP '1970-01-01 00:00:00.000004'",
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples)
@given(st.integers(0, 1_000_000))
def test_views_that_come_and_go_and_share_joins_answer_as_the_reference(seed: int) -> None:
    """Each step may create, drop or replace views; a new one is computed from the start, as in a backfill."""
    rng = random.Random(seed)
    inputs = random_inputs(rng)
    known = catalog()
    for entry in reversed([e for e in known if isinstance(e, QueryEntry)]):
        known.drop(entry.name)
    pipeline = StagedPipeline({}, rng, rng.randrange(1, 3))
    emitted: dict[str, list[ChangeRow]] = {}
    stored = StoredViews({}, {}, (), {}.__getitem__)
    b0, number = BEFORE_ALL, 0
    for b1 in (*sorted(rng.sample(range(-1, DOMAIN.stop), 4)), DOMAIN.stop + 50):
        for name in [n for n in emitted if rng.random() < 0.2]:
            known.drop(name)
            del emitted[name]
        new = []
        for _ in range(rng.randrange(4)):
            number += 1
            name, sql = f"n{number}", rng.choice(LIVES).format(rng.randrange(3))
            [made] = bind_script(f"CREATE VIEW {name} AS {sql}", known)
            declare(made, known)
            emitted[name] = []
            new.append(name)
        store = compile_store(known, stored=stored)
        assert not store.outdated
        running = {o.name.casefold() for o in stateful_operators(pipeline.plans.values())}
        if new and b0 > BEFORE_ALL:
            beside = StagedPipeline(
                {n: store.plans[n] for n in new}, rng, pipeline.partitions, files=pipeline.files
            )
            beside.salt, beside.number = pipeline.salt, 1_000 * (pipeline.number + 1)
            missed = inputs_between(inputs, BEFORE_ALL, b0)
            for name, rows in beside.step(missed, Slice(BEFORE_ALL, b0, first=True)).items():
                emitted[name] += rows
            pipeline.traces |= {t: r for t, r in beside.traces.items() if t.owner not in running}
        pipeline.plans = store.plans
        left = {o.name.casefold() for o in stateful_operators(store.plans.values())} | set(store.plans)
        pipeline.traces = {t: runs for t, runs in pipeline.traces.items() if t.owner in left}
        came = inputs_between(inputs, b0, b1)
        for name, rows in pipeline.step(came, Slice(b0, b1, first=b0 == BEFORE_ALL)).items():
            emitted[name] += rows
        stored, b0 = run(store), b1
    for name, rows in emitted.items():
        wanted = meaning(store.views[name].meaning, inputs, DOMAIN)
        assert to_logical(rows, DOMAIN) == wanted, store.views[name].meaning


def inputs_between(inputs: dict[str, list[ChangeRow]], b0: int, b1: int) -> dict[str, list[ChangeRow]]:
    return {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}


# What it saves


@pytest.mark.slow
def test_ten_views_cost_less_than_twice_the_work_and_1_3_times_the_state_of_one() -> None:
    """Rows that operators with state emit and write, and keep; ten views with joins of their own beside."""
    known = streams(by_constant(LARGE, 10))
    rows = draw_rows(known, 12, random.Random(3))
    found = {}
    for name, wanted in {"one": 1, "ten": 10}.items():
        store = compile_store(streams(by_constant(LARGE, wanted)))
        work, state = {}, {}
        for plan in store.plans.values():
            ran = run_measured(plan, rows, 6, 12)
            for node in ran.states:
                work[node] = ran.emitted[node] + ran.written[node]
                state[node] = sum(ran.kept(node).values())
        found[name] = sum(work.values()), sum(state.values())
    (one, small), (ten, large) = found["one"], found["ten"]
    assert ten < 2 * one
    assert large < 1.3 * small
