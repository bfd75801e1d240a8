"""Event streams and what is built on them, compiled as a store: stages, partitions, state in runs. No JVM.

An event stream over an event stream contains its plan; a view over event streams goes by the clock of its
domain; ISTREAM of such a view is an event again. All run in one step, beside views that read no events.
"""

from __future__ import annotations

import random
from collections import Counter

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record
from everview.algebra.time import INFINITY, LEAST
from everview.compile_store import CompiledStore, compile_store
from everview.errors import EverviewError
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.operators.step_slices import StepSlices
from everview.reference.events import EventInputs, emitted_rows, event_meaning
from everview.reference.meaning import meaning, snapshot_at
from everview.sql import bind_script, declare
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.clocks import ENDED, STORE_BOUND, LineBounds
from tests.events.properties import random_accepted, random_catalog
from tests.events.random_queries import COLUMNS, LATEST, LINES, Feed, random_feed
from tests.lanes import seed_lanes
from tests.pipeline import StagedPipeline

PARTS = """
CREATE STREAM o TIMELINE {lines} AS {sql};
CREATE STREAM oo TIMELINE {line} AS
  SELECT x.{line}, y.k AS yk FROM o x JOIN q y
    ON y.ts BETWEEN x.{line} - INTERVAL '{scale}' MICROSECOND AND x.{line} WHERE y.k <> 1 OR y.k IS NULL;
CREATE VIEW counted AS SELECT COUNT(*) AS n, MAX({line}) AS newest FROM o [RANGE {scale} MICROSECONDS];
CREATE VIEW met AS SELECT y.k, COUNT(*) AS n FROM o [RANGE {scale} MICROSECONDS] x
  JOIN p [RANGE {scale} MICROSECONDS] y ON x.{line} >= y.ts GROUP BY y.k;
CREATE VIEW highest AS SELECT MAX(n) AS most FROM counted;
CREATE VIEW both_streams AS SELECT COUNT(*) AS n FROM o [RANGE {scale} MICROSECONDS] x
  JOIN oo [RANGE {scale} MICROSECONDS] y ON x.{line} = y.{line};
CREATE VIEW plain AS SELECT y.k, COUNT(*) AS n FROM p [RANGE {scale} MICROSECONDS] y GROUP BY y.k;
CREATE STREAM inserted TIMELINE {line} AS
  SELECT i.{line}, y.v FROM ISTREAM(SELECT {line} FROM o [RANGE {scale} MICROSECONDS]) i
    JOIN p y ON y.ts = i.{line};
CREATE STREAM stamped TIMELINE at AS
  SELECT i.n, i.at, y.v FROM ISTREAM(SELECT n FROM met) i JOIN p y ON y.ts = i.at;
CREATE STREAM stamped_late TIMELINE {line}, at AS
  SELECT i.{line}, i.at, y.k AS yk
  FROM ISTREAM(SELECT {line} FROM o [RANGE {scale} MICROSECONDS SLIDE 2 MICROSECONDS LAG 1 MICROSECOND]) i
    JOIN q y ON y.ts BETWEEN i.{line} AND i.at;
"""


def compiled(seed: int) -> tuple[CompiledStore, int]:
    """Return a store with a random event stream `o` and what is built on it, and the unit of its time."""
    rng = random.Random(seed)
    while True:
        query = random_accepted(rng).query
        catalog = random_catalog()
        parts = {"lines": ", ".join(query.lines), "line": query.lines[0], "sql": query.sql}
        try:
            for statement in bind_script(PARTS.format(**parts, scale=4 * query.scale), catalog):
                declare(statement, catalog)
            return compile_store(catalog), query.scale
        except EverviewError:  # a column of the query may be called as one of ours, or never be NOT NULL
            continue


class EventFeeder:
    """Runs a feed through a compiled store, and keeps what each event stream and view has emitted."""

    def __init__(self, store: CompiledStore, feed: Feed, rng: random.Random, partitions: int) -> None:
        self.store, self.feed = store, feed
        plans = {name: decode_plan(encode_plan(plan)) for name, plan in store.plans.items()}
        self.pipeline = StagedPipeline(plans, rng, partitions)
        self.before: LineBounds = {STORE_BOUND: BEFORE_ALL}
        self.rows: dict[str, list[ChangeRow]] = {name: [] for name in plans}

    def bounds(self, base: LineBounds) -> dict:
        known = dict(base)
        for event in self.store.events.values():
            known |= {line: clock.value(known) for line, clock in event.line_clocks().items()}
        return known

    def step(self, number: int) -> dict:
        """Run a step; return the bounds after it."""
        step = self.feed.steps[number]
        now = self.bounds(step.bounds)
        b0, b1 = self.before[STORE_BOUND], now[STORE_BOUND]
        given = {f"{name} arrivals": arrivals(rows) for name, rows in step.arrived.items()}
        given |= {
            name: [r for r in streamed(name, rows) if b0 < r.from_ <= b1]
            for name, rows in self.feed.rows(number).items()
        }
        given |= {f"{name} in domain": streamed(name, rows) for name, rows in self.feed.rows(number).items()}
        given |= {name: [v for v in rows if b0 < v.from_ <= b1] for name, rows in self.feed.tables.items()}
        slice_ = Slice(b0, b1, first=b0 == BEFORE_ALL < b1)
        slices = StepSlices(slice_, self.before, now, b1 == ENDED)
        for name, rows in self.pipeline.step(given, slices).items():
            self.rows[name] += rows
        self.before = now
        return now


def arrivals(rows: list[Record]) -> list[ChangeRow]:
    return [ChangeRow(row, LEAST, INFINITY) for row in rows]


def streamed(name: str, rows: list[Record]) -> list[ChangeRow]:
    position = COLUMNS[name].index(LINES[name][0])
    return [ChangeRow(row, int(str(row[position])), INFINITY) for row in rows]


def event_rows(plan: N.Node, records: Counter, line: str) -> list[ChangeRow]:
    position = plan.schema.index(plan.schema.find(line))
    return [ChangeRow(row, int(str(row[position])), INFINITY, n) for row, n in records.items()]


def check(seed: int) -> None:
    store, scale = compiled(seed)
    rng = random.Random(seed)
    feed = random_feed(rng, scale)
    feeder = EventFeeder(store, feed, rng, rng.choice([1, 3]))
    answers = expected(store, feed, scale)
    instants = range(-1, (LATEST + 12) * scale, max(1, scale // 3))
    views = {name: view for name, view in store.views.items() if name not in store.events}
    wanted = {name: meaning(view.plan, answers, instants) for name, view in views.items()}
    before: dict[str, Counter] = {name: Counter() for name in store.events}
    for number, step in enumerate(feed.steps):
        now = feeder.step(number)
        known = EventInputs(feed.rows(number), feed.tables, step.bounds)
        emitted = emitted_rows(store.events["o"].timing.timing, known)
        assert totals(feeder.rows["o"]) == emitted, f"{seed}: step {number}"
        for name, event in store.events.items():
            found, first = totals(feeder.rows[name]), event.output.first_line
            answer = Counter({row.record: row.n for row in answers[name]})
            assert found <= answer, f"{seed}: {name} has wrong rows in step {number}"
            bound = now[event.first_line]
            upto = {row: n for row, n in answer.items() if row[first] <= bound}  # type: ignore[operator]
            assert upto.items() <= found.items(), f"{seed}: {name} is not complete in step {number}"
            assert before[name] <= found
            before[name] = found
        for name, view in views.items():
            bound = now[STORE_BOUND] if view.clock is None else view.clock.value(now)
            for t in instants:
                if t <= bound:
                    found = snapshot(feeder.rows[name], t)
                    assert found == snapshot_at(wanted[name], t), f"{seed}: {name} at {t} in step {number}"
    left = {t.owner: r for t, r in feeder.pipeline.traces.items() if t.kind == "state" and r}
    events = {"match", "met", "unmet", "collect", "once", "copies", "hold"}
    assert not {owner for owner in left if owner.split("-")[0] in events}, f"{seed}: state is left: {left}"


def instants_of(rows: dict[str, list[ChangeRow]], scale: int) -> set[int]:
    """Return the instants at which a view below ISTREAM may change: its windows begin and end there."""
    times = {row.from_ for each in rows.values() for row in each}
    return {t + late + lasts for t in times for late in range(4) for lasts in (0, 4 * scale)}


def expected(store: CompiledStore, feed: Feed, scale: int) -> dict[str, list[ChangeRow]]:
    """Return the rows of all streams in the end: E(R) of each event stream, over those before it."""
    found: dict[str, list[ChangeRow]] = {name: streamed(name, rows) for name, rows in feed.rows().items()}
    records: dict[str, list[Record]] = dict(feed.rows())
    for name, event in store.events.items():
        plan = event.timing.timing.node
        answer = event_meaning(plan, EventInputs(records, feed.tables, instants=instants_of(found, scale)))
        found[name] = event_rows(plan, answer, event.lines[0])
        records[name] = list(answer.elements())
    return {**found, **feed.tables}


def totals(rows: list[ChangeRow]) -> Counter:
    found: Counter = Counter()
    for row in rows:
        assert row.n > 0, "a row was taken back"
        found[row.record] += row.n
    return found


def snapshot(rows: list[ChangeRow], t: int) -> dict[Record, int]:
    found: Counter = Counter()
    for row in rows:
        if row.from_ <= t < row.until:
            found[row.record] += row.n
    return {record: n for record, n in found.items() if n}


@seed_lanes("seeds", 1, 15, 60)
def test_a_store_of_events_and_views_over_them(seeds: range) -> None:
    """Properties 2 to 5, 9 and 10 of whole stores, through stages and runs."""
    for seed in seeds:
        check(seed)


def test_what_runs_together() -> None:
    store, _ = compiled(0)
    assert store.views["plain"].clock is None
    assert str(store.views["counted"].clock) == f"min(b1, o.{store.events['o'].lines[0]})"
    assert store.views["highest"].clock == store.views["counted"].clock
