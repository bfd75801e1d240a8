"""EXPLAIN of event queries names the operators and the state that there are after a run. No JVM.

The same compiled store is explained and run: event streams, event streams over them, views over both, and
ISTREAM. What EXPLAIN names is compared with the traces that ever had rows.
"""

from __future__ import annotations

import json
import random

import pytest

from everview.algebra import nodes as N
from everview.compile import stream_facts
from everview.compile_store import CompiledStore, compile_store
from everview.plan.explain import ExplainedPlan, explain_plans
from everview.sql import bind_script, declare
from tests.events.properties import random_catalog
from tests.events.random_queries import random_feed
from tests.events.test_staged import EventFeeder, compiled
from tests.lanes import seed_lanes

State = set[tuple[str, str]]  # the name of an operator, and of a part of its state


def explained(store: CompiledStore) -> State:
    """The operators and parts that EXPLAIN names, each once."""
    plans = []
    for name, view in store.views.items():
        events = store.events[name].explained(stream_facts(store.catalog)) if name in store.events else None
        plan = view.plan if events is not None else N.View(name, view.plan)
        kind = "view" if events is None else "event stream"
        plans.append(
            ExplainedPlan(kind, name, plan, view.rules, view.planned, events, physical=view.physical)
        )
    found = explain_plans(plans, store.catalog)
    data = json.loads(found.json())
    named = [
        (physical["name"].casefold(), part["part"])
        for operator in data["operators"]
        for physical in operator["operators"]
        for part in physical["state"]
    ]
    assert len(named) == len(set(named)), "an operator is named twice"
    text, picture = found.text(), found.svg()
    for operator in data["operators"]:
        if operator["kind"] != "View":
            assert bool(operator["keeps"]) == any(o["state"] for o in operator["operators"])
        for part in operator["keeps"]:
            assert part["how_long"] in text
    assert all(f"#{operator['id']}" in picture for operator in data["operators"])
    return set(named)


def kept(store: CompiledStore, seed: int, scale: int) -> State:
    """The operators and parts that have rows after any step of a run."""
    rng = random.Random(seed)
    feed = random_feed(rng, scale)
    feeder = EventFeeder(store, feed, rng, rng.choice([1, 3]))
    found: State = set()
    for number in range(len(feed.steps)):
        feeder.step(number)
        traces = feeder.pipeline.traces.items()
        found |= {(trace.owner, trace.part) for trace, runs in traces if trace.kind == "state" and runs}
    return found


@seed_lanes("seeds", 1, 15, 57)
def test_random_stores_keep_nothing_that_is_not_named(seeds: range) -> None:
    for seed in seeds:
        store, scale = compiled(seed)
        named = explained(store)
        found = kept(store, seed, scale)
        assert found <= named, f"{seed}: not named: {found - named}"


QUERIES = {
    "join": "SELECT a.k, b.ts FROM p a JOIN q b ON b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + {width}",
    "for ever": "SELECT a.k, b.ts FROM p a JOIN q b ON b.k = a.k AND b.ts >= a.ts",
    "semi join": "SELECT k, ts FROM p a WHERE EXISTS"
    " (SELECT 1 FROM q b WHERE b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + {width})",
    "anti join": "SELECT k, ts FROM p a WHERE NOT EXISTS"
    " (SELECT 1 FROM q b WHERE b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + {width})",
    "left join": "SELECT a.k, a.ts, b.due FROM p a LEFT JOIN q b"
    " ON b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + {width}",
    "group": "SELECT k, ts, COUNT(*) AS n FROM p GROUP BY k, ts",
    "distinct": "SELECT DISTINCT k, ts FROM p",
    "except": "SELECT k, ts FROM p EXCEPT ALL SELECT k, ts FROM q",
    "istream": "SELECT i.k, i.at AS ts FROM"
    " ISTREAM(SELECT k, COUNT(*) AS n FROM p [RANGE 2 MICROSECONDS] GROUP BY k) i"
    " JOIN q b ON b.ts BETWEEN i.at AND i.at + {width}",
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_queries_name_what_they_keep(query: str) -> None:
    catalog = random_catalog()
    sql = QUERIES[query].format(width="INTERVAL '3' MICROSECOND")
    for statement in bind_script(f"CREATE STREAM o TIMELINE ts AS {sql}", catalog):
        declare(statement, catalog)
    store = compile_store(catalog)
    named, found = explained(store), set[tuple[str, str]]()
    assert named
    for seed in range(40):
        found |= kept(store, seed, 1)
        assert found <= named, f"not named: {found - named}"
        if found == named:
            return
    raise AssertionError(f"named, but empty: {named - found}")
