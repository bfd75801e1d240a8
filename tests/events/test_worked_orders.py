"""The worked queries in any order: rows in random steps, with random bounds that make no row late.

After every step the properties 2 to 5 hold of what the operators have emitted. Queries that are split in two
event streams mean the same, and are known up to the same instants (property 12).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from everview.algebra.changes import Record
from everview.catalog import StreamEntry
from everview.plan.lower_events import lower_events
from everview.reference.events import Bag, EventInputs, event_meaning
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, LineBounds, StreamLine
from everview.temporal.output_bounds import EventTiming
from tests.events.driver import EventDriver
from tests.events.harness import EventScript
from tests.events.random_queries import FeedStep
from tests.events.test_worked_queries import PLAIN, QUERIES, WorkedQuery, alarm_script, at
from tests.lanes import seed_lanes

lanes = seed_lanes("orders", 1, 4, 11)


def random_steps(script: EventScript, rng: random.Random) -> list[FeedStep]:
    """Return the rows of a script in random steps, with random bounds; after the last one all has ended."""
    count, lines = rng.randrange(2, 5), base_lines(script)
    placed = [(name, row, rng.randrange(count)) for name, rows in script.rows.items() for row in rows]
    found, before = [], dict.fromkeys(lines, NOT_BEGUN)
    for number in range(count):
        bounds = {}
        for line, position in lines.items():
            later = [_time(row, position) for name, row, n in placed if name == line.stream and n > number]
            most = min(later, default=at("23:00")) - 1
            chosen = most if rng.random() < 0.4 else rng.randrange(at("07:00"), at("13:00"))
            bounds[line] = max(before[line], min(most, chosen))
        before = bounds
        arrived: dict[str, list[Record]] = {name: [] for name in script.rows}
        for name, row, n in placed:
            if n == number:
                arrived[name].append(row)
        found.append(FeedStep(arrived, {**bounds, STORE_BOUND: _store_bound(bounds)}))
    ended = dict.fromkeys([*lines, STORE_BOUND], ENDED)
    return [*found, FeedStep({name: [] for name in script.rows}, ended)]


def base_lines(script: EventScript) -> dict[StreamLine, int]:
    """Return the time lines of the streams that get rows, with the positions of their columns."""
    found = {}
    for name in script.rows:
        entry = script.catalog.get(name)
        assert isinstance(entry, StreamEntry)
        for line in entry.timelines:
            found[StreamLine(name, line.column)] = entry.columns.names.index(line.column)
    return found


def _store_bound(bounds: LineBounds) -> int:
    firsts: dict[str, int] = {}
    for line, bound in bounds.items():
        firsts.setdefault(line.stream, bound)
    return min(firsts.values())


def _time(row: Record, position: int) -> int:
    value = row[position]
    assert isinstance(value, int)
    return value


class OperatorRun:
    """The event streams of a script, run by their operators; each reads what those before it emit."""

    def __init__(self, script: EventScript, answers: Mapping[str, Bag]) -> None:
        self.script, self.answers = script, answers
        self.timings: dict[str, EventTiming] = {q.name: script.timing(q.name) for q in script.queries}

    def bounds(self, base: LineBounds) -> dict[StreamLine, int]:
        known = dict(base)
        for name, timing in self.timings.items():
            known |= {StreamLine(name, line): bound for line, bound in timing.bounds(known).items()}
        return known

    def check(self, steps: Sequence[FeedStep]) -> None:
        """Check the properties 2 to 5 after every step."""
        drivers = {name: EventDriver(lower_events(t.timing)) for name, t in self.timings.items()}
        emitted: dict[str, Bag] = {name: Counter() for name in drivers}
        old: dict[StreamLine, int] = {}
        for number, step in enumerate(steps):
            bounds, arrived = self.bounds(step.bounds), dict(step.arrived)
            for name, driver in drivers.items():
                new = driver.step(arrived, bounds, self.script.tables)
                arrived[name] = list(new.elements())
                emitted[name] += new
                self._check_step(name, new, emitted[name], old, bounds, f"{name} in step {number} of {steps}")
            old = bounds
        assert emitted == self.answers, "5 whole"
        assert {name: driver.rows() for name, driver in drivers.items()} == dict.fromkeys(drivers, 0)

    def _check_step(
        self, name: str, new: Bag, emitted: Bag, old: LineBounds, bounds: LineBounds, where: str
    ) -> None:
        answer, schema = self.answers[name], self.timings[name].timing.node.schema
        assert emitted <= answer, f"2 never wrong: {where}"
        for column in self.timings[name].clocks:
            line, position = StreamLine(name, column), schema.index(schema.find(column))
            late = [row for row in new if _time(row, position) <= old.get(line, NOT_BEGUN)]
            assert not late, f"3 never late: {late} {where}"
            due = {row: n for row, n in answer.items() if _time(row, position) <= bounds[line]}
            assert Counter(due) <= emitted, f"4 complete: {where}"


@lanes
@pytest.mark.parametrize("query", PLAIN, ids=lambda q: q.title.split()[0])
def test_any_order(query: WorkedQuery, orders: range) -> None:
    script = EventScript.of(query.sql)
    run = OperatorRun(script, script.answers())
    for seed in orders:
        run.check(random_steps(script, random.Random(seed)))


@lanes
def test_any_order_with_tables(orders: range) -> None:
    """E22: the alarms come in any order; the sensor moves at 10:03, whenever they come."""
    script = alarm_script()
    answer = event_meaning(script.plan("blocked"), EventInputs(script.rows, script.tables))
    run = OperatorRun(script, {"blocked": answer})
    for seed in orders:
        run.check(random_steps(script, random.Random(seed)))


# A worked query, its event stream, and the same as two event streams, the second called `split`.
SPLIT = {
    "E1": (
        "evacuated",
        """
        CREATE STREAM reached TIMELINE arrived AS
          SELECT f.station, f.ts AS began, a.ts AS arrived
          FROM fire f JOIN brigade a
            ON a.station = f.station AND a.ts >= f.ts AND a.ts <= f.ts + INTERVAL '1' HOUR;
        CREATE STREAM split TIMELINE arrived AS
          SELECT r.station, r.arrived, COUNT(*) AS people
          FROM reached r JOIN exits x ON x.station = r.station AND x.ts BETWEEN r.began AND r.arrived
          GROUP BY r.station, r.began, r.arrived;
        """,
    ),
    "E5": (
        "clean",
        """
        CREATE STREAM sent TIMELINE shipped_at AS
          SELECT p.id, p.ts AS paid_at, s.ts AS shipped_at
          FROM paid p JOIN shipped s ON s.id = p.id AND s.ts > p.ts AND s.ts <= p.ts + INTERVAL '1' DAY;
        CREATE STREAM split TIMELINE shipped_at AS
          SELECT s.id, s.paid_at, s.shipped_at FROM sent s
          WHERE NOT EXISTS (SELECT 1 FROM cancelled c
                            WHERE c.id = s.id AND c.ts > s.paid_at AND c.ts < s.shipped_at);
        """,
    ),
    "E11": (
        "used",
        """
        CREATE STREAM periods TIMELINE off_at AS
          SELECT o.machine, o.ts AS on_at, f.ts AS off_at
          FROM switches o JOIN switches f
            ON f.machine = o.machine AND f.ts > o.ts AND f.ts <= o.ts + INTERVAL '8' HOUR
          WHERE o.on_ AND NOT f.on_
            AND NOT EXISTS (SELECT 1 FROM switches g WHERE g.machine = o.machine AND NOT g.on_
                            AND g.ts > o.ts AND g.ts < f.ts);
        CREATE STREAM split TIMELINE off_at AS
          SELECT p.machine, p.on_at, p.off_at, SUM(m.wh) AS wh, COUNT(*) AS readings
          FROM periods p JOIN meter m ON m.machine = p.machine AND m.ts >= p.on_at AND m.ts < p.off_at
          GROUP BY p.machine, p.on_at, p.off_at;
        """,
    ),
}


@lanes
@pytest.mark.parametrize("name", SPLIT)
def test_a_query_in_two_event_streams(name: str, orders: range) -> None:
    """Property 12: the same rows, known up to the same instants."""
    whole, sql = SPLIT[name]
    script = EventScript.of(QUERIES[name].sql, sql)
    answers = script.answers()
    assert answers["split"] == answers[whole]
    run = OperatorRun(script, answers)
    (line,) = run.timings[whole].clocks
    for seed in orders:
        steps = random_steps(script, random.Random(seed))
        run.check(steps)
        for bounds in (run.bounds(step.bounds) for step in steps):
            assert bounds[StreamLine("split", line)] == bounds[StreamLine(whole, line)]
