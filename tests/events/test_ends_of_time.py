"""Rows of event queries near the ends of time: what is computed from their times may lie beyond (trap 21)."""

from __future__ import annotations

import random
from collections import Counter

from everview.algebra.time import INFINITY, LEAST
from everview.compile_store import CompiledStore, compile_store
from everview.execute.catalyst import Row
from everview.sql import bind_script, declare
from everview.temporal.clocks import ENDED, STORE_BOUND
from tests.events.properties import random_catalog
from tests.events.random_queries import COLUMNS, Feed, FeedStep, all_lines
from tests.events.test_staged import EventFeeder, totals

SCRIPT = """
CREATE STREAM later TIMELINE until, ts AS
  SELECT k, ts, ts + INTERVAL '5' MICROSECOND AS until FROM p WHERE NOT EXISTS
    (SELECT 1 FROM q WHERE q.k = p.k AND q.ts BETWEEN p.ts AND p.ts + INTERVAL '5' MICROSECOND);
CREATE STREAM again TIMELINE until AS SELECT k, until FROM later;
CREATE STREAM grouped TIMELINE until AS
  SELECT ts - INTERVAL '5' MICROSECOND AS until, COUNT(*) AS n FROM p GROUP BY ts - INTERVAL '5' MICROSECOND;
CREATE VIEW counted AS SELECT COUNT(*) AS n FROM later [UNBOUNDED];
"""


def compiled() -> CompiledStore:
    catalog = random_catalog()
    for statement in bind_script(SCRIPT, catalog):
        declare(statement, catalog)
    return compile_store(catalog)


def test_a_time_beyond_the_ends_is_in_no_event_stream() -> None:
    """Such a sum is NULL, as in Spark. The step goes on without that row, and no state is left."""
    store, last, first = compiled(), INFINITY - 3, LEAST + 3
    rows = {name: [] for name in COLUMNS} | {"p": [(1, None, first), (2, None, 100), (3, None, last)]}
    ended = FeedStep({name: [] for name in COLUMNS}, dict.fromkeys([*all_lines(), STORE_BOUND], ENDED))
    feed = Feed((FeedStep(rows, dict.fromkeys([*all_lines(), STORE_BOUND], 50)), ended), {"t": []})
    feeder = EventFeeder(store, feed, random.Random(1), 2)
    for number in range(len(feed.steps)):
        feeder.step(number)
    assert totals(feeder.rows["later"]) == Counter({(1, first, first + 5): 1, (2, 100, 105): 1})
    assert totals(feeder.rows["again"]) == Counter({(1, first + 5): 1, (2, 105): 1})
    assert totals(feeder.rows["grouped"]) == Counter({(95, 1): 1, (last - 5, 1): 1})
    assert not [t for t, runs in feeder.pipeline.traces.items() if t.owner.startswith("unmet") and runs]


def test_spark_leaves_the_same_rows_out() -> None:
    output = compiled().events["later"].output
    row = Row.of(["c0", "c1", "c2"], output.types).through(output)
    assert row.begin == "unix_micros(c2)"
    assert row.conditions == ("(c2 IS NOT NULL)", "(c1 IS NOT NULL)")
