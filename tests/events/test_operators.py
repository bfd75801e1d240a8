"""The operators of event queries against the model: the same rows in the same steps, and nothing left."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.schema import Field
from everview.catalog import stream_columns
from everview.plan.lower_events import lower_events
from everview.reference.events import Bag, EventInputs, emitted_rows
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.clocks import NOT_BEGUN, STORE_BOUND, StreamLine
from everview.temporal.event_query import StreamFacts
from everview.temporal.output_bounds import event_timing
from tests.events.driver import EventDriver
from tests.events.harness import EventScript
from tests.events.properties import Accepted, accept, random_accepted
from tests.events.random_queries import Feed, FeedStep, RandomQuery, random_feed
from tests.events.test_steps import FINISH, TABLES, Run, StepDriver
from tests.events.test_worked_queries import QUERIES, table_of
from tests.lanes import seed_lanes

lanes = seed_lanes("seeds", 2, 20, 60)


def run_feed(accepted: Accepted, feed: Feed, seed: int, collect: bool = True) -> list[Bag]:
    """Run a feed through the operators; compare what each step emits with the model."""
    driver = EventDriver(lower_events(accepted.timing.timing), random.Random(seed), collect)
    before = emitted_rows(accepted.timing.timing, EventInputs(dict.fromkeys(feed.rows(), ()), feed.tables))
    steps = []
    for number, step in enumerate(feed.steps):
        found = driver.step(step.arrived, step.bounds, feed.tables)
        known = EventInputs(feed.rows(number), feed.tables, step.bounds)
        emitted = emitted_rows(accepted.timing.timing, known)
        assert found == emitted - before, f"step {number} of {accepted.query}\n{feed}"
        before = emitted
        steps.append(found)
    if collect:
        assert driver.rows() == 0, f"state is left after finish: {accepted.query}\n{driver.state}"
    return steps


@lanes
def test_operators_emit_what_the_model_does(seeds: range) -> None:
    """Properties 2 to 6 by way of the model, and nothing left after finish."""
    for seed in seeds:
        rng = random.Random(seed + 10_000)
        accepted = random_accepted(rng)
        for _ in range(2):
            run_feed(accepted, random_feed(rng, accepted.query.scale), seed)


@pytest.mark.slow
@given(st.integers(0, 2**40))
def test_fresh_queries(seed: int) -> None:
    """The same on seeds that hypothesis chooses: as many as its profile says, in `make fuzz` new ones."""
    rng = random.Random(seed)
    accepted = random_accepted(rng)
    run_feed(accepted, random_feed(rng, accepted.query.scale), seed)


@lanes
def test_dropping_state_changes_nothing(seeds: range) -> None:
    """Property 8: the same rows in the same steps where no state is ever dropped."""
    for seed in seeds[: max(1, len(seeds) // 5)]:
        rng = random.Random(seed + 20_000)
        accepted = random_accepted(rng)
        feed = random_feed(rng, accepted.query.scale)
        assert run_feed(accepted, feed, seed) == run_feed(accepted, feed, seed, collect=False)


@lanes
def test_batches_and_bounds_change_no_row(seeds: range) -> None:
    """Properties 9 and 11: all in one step, row by row, or with slack: in the end the same rows."""
    for seed in seeds[: max(1, len(seeds) // 5)]:
        rng = random.Random(seed + 30_000)
        accepted = random_accepted(rng)
        feed = random_feed(rng, accepted.query.scale, eager=True)
        whole = sum(run_feed(accepted, feed, seed), Counter())
        assert sum(run_feed(accepted, at_once(feed), seed), Counter()) == whole
        assert sum(run_feed(accepted, with_slack(feed), seed), Counter()) == whole


@lanes
def test_partitions_and_restarts_change_nothing(seeds: range) -> None:
    """Property 9: three partitions, and a plan that is stored and read again before every step."""
    for seed in seeds[: max(1, len(seeds) // 5)]:
        rng = random.Random(seed + 40_000)
        accepted = random_accepted(rng)
        feed = random_feed(rng, accepted.query.scale)
        plan = lower_events(accepted.timing.timing)
        driver = EventDriver(plan, random.Random(seed), partitions=3)
        for step, wanted in zip(feed.steps, run_feed(accepted, feed, seed), strict=True):
            driver.plan = decode_plan(encode_plan(driver.plan))
            assert driver.plan == plan
            assert driver.step(step.arrived, step.bounds, feed.tables) == wanted, accepted.query
        assert driver.rows() == 0


def at_once(feed: Feed) -> Feed:
    """Return all rows in one step, the last."""
    return replace(feed, steps=(FeedStep(feed.rows(), feed.steps[-1].bounds),))


def with_slack(feed: Feed) -> Feed:
    """Return the same rows in the same steps, with bounds that are three chronons behind."""
    late = []
    for step in feed.steps[:-1]:
        behind = {line: max(NOT_BEGUN, bound - 3) for line, bound in step.bounds.items()}
        late.append(replace(step, bounds=behind))
    return replace(feed, steps=(*late, feed.steps[-1]))


# Worked queries


def run_worked(name: str, runs: list[Run]) -> tuple[list[dict[str, Bag]], dict[str, EventDriver]]:
    """Run a worked query through the operators, event streams over event streams included."""
    steps = StepDriver(EventScript.of(QUERIES[name].sql))
    queries = steps.script.queries
    drivers = {q.name: EventDriver(lower_events(steps.script.timing(q.name).timing)) for q in queries}
    taken = dict.fromkeys(steps.known, 0)
    emitted = []
    for run in runs:
        steps.run(run.inserted, finish=run.inserted is FINISH)
        arrived = {stream: rows[taken[stream] :] for stream, rows in steps.known.items()}
        taken = {stream: len(rows) for stream, rows in steps.known.items()}
        found: dict[str, Bag] = {}
        for query in queries:
            found[query.name] = drivers[query.name].step(arrived, dict(steps.bounds), {})
            arrived[query.name] = list(found[query.name].elements())
        emitted.append(found)
    return emitted, drivers


@pytest.mark.parametrize("name", TABLES)
def test_worked_queries_in_steps(name: str) -> None:
    emitted, drivers = run_worked(name, TABLES[name])
    script = EventScript.of(QUERIES[name].sql)
    for query in script.queries:
        found = sum((step[query.name] for step in emitted), Counter())
        shown = sorted(row for run in TABLES[name] for row in run.new.get(query.name, ()))
        assert table_of(found, script.plan(query.name).schema) == shown
        assert drivers[query.name].rows() == 0, query.name


def test_the_state_of_the_sessions() -> None:
    """E9 after its third run: starts keeps the clicks of the last 30 minutes, ends those that wait."""
    _, drivers = run_worked("E9", TABLES["E9"][:3])
    kept = {name: {n.split("-")[0]: {p: f.height for p, f in parts.items()} for n, parts in d.state.items()}
            for name, d in drivers.items()}  # fmt: skip
    assert kept["starts"]["Match"] == {"left": 0, "right": 2}
    assert kept["starts"]["Unmet"] == {"rows": 0, "met": 0}
    assert kept["ends"]["Match"] == {"left": 2, "right": 0}
    assert kept["ends"]["Unmet"] == {"rows": 2, "met": 1}, "one row can still go out"
    assert kept["sessions"]["Collect"] == {"groups": 0}


def test_a_step_reads_what_is_due_and_no_more() -> None:
    """The rows of queues that are read over a long feed: each one once, when its wait is over."""
    sql = (
        "SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM q x1 WHERE x1.k = x0.k "
        "AND x1.ts BETWEEN x0.ts AND x0.ts + INTERVAL '10' MICROSECOND)"
    )
    accepted = accept(RandomQuery(sql, ("t0",)))
    assert accepted is not None
    driver = EventDriver(lower_events(accepted.timing.timing))
    for now in range(40):
        rows = {"p": [(now, 0, now)], "q": [(now - 8, now, None)] if now % 2 else []}
        bounds = {StreamLine("p", "ts"): now, StreamLine("q", "ts"): now, STORE_BOUND: now}
        driver.step(rows, bounds, {})
        assert driver.rows() <= 30  # the look-back twice, and the records that are met
    met = [now - 8 for now in range(40) if now % 2 and now >= 8]
    assert driver.touched == 30 + sum(1 for key in met if key < 30)


# Composition


@lanes
def test_a_query_split_in_two_event_streams(seeds: range) -> None:
    """Property 12: an event stream over an event stream has the rows and the bounds of the first one."""
    for seed in seeds[: max(1, len(seeds) // 5)]:
        rng = random.Random(seed + 60_000)
        accepted = random_accepted(rng)
        names, lines = accepted.plan.schema.names, accepted.query.lines
        columns = stream_columns(tuple(Field(f.name, f.type) for f in accepted.plan.schema), list(lines))
        first = N.Stream("o", columns)
        second = N.Project(first, tuple((name, first.column(name)) for name in names))
        timing = event_timing(second, lines, {"o": StreamFacts(query=accepted.plan)})
        assert timing is not None
        feed = random_feed(rng, accepted.query.scale)
        below, above = (EventDriver(lower_events(t.timing)) for t in (accepted.timing, timing))
        for step in feed.steps:
            found = below.step(step.arrived, step.bounds, feed.tables)
            known = accepted.timing.bounds(step.bounds)
            bounds = {StreamLine("o", line): bound for line, bound in known.items()}
            assert all(bound >= known[line] for line, bound in timing.bounds(bounds).items())
            assert above.step({"o": list(found.elements())}, bounds, {}) == found
