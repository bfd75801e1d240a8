"""The worked queries in steps: what is known after each run, and what becomes visible in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from everview.algebra.changes import Record
from everview.catalog import StreamEntry
from everview.reference.events import Bag, EventInputs, emitted_rows, visible_rows
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, StreamLine
from tests.events.harness import EventScript
from tests.events.test_worked_queries import QUERIES, at, table_of


@dataclass(frozen=True)
class Run:
    """The numbers of the rows that a run inserts, by stream; bounds after it; what becomes visible in it.

    `store` is the bound of the store after it, where the table says so; `late` are the rows that were late.
    """

    inserted: dict[str, list[int]]
    bounds: dict[str, str]
    new: dict[str, list[tuple[str, ...]]]
    store: str | None = None
    late: dict[str, list[int]] = field(default_factory=dict)


FINISH: dict[str, list[int]] = {}

TABLES: dict[str, list[Run]] = {
    "E1": [
        Run({"fire": [0], "brigade": [0], "exits": [0, 1]}, {"evacuated.arrived": "10:00"}, {}),
        Run(
            {"fire": [1], "brigade": [1], "exits": [2, 3, 4]},
            {"evacuated.arrived": "10:30"},
            {"evacuated": [("1", "10:20:00", "2")]},
        ),
        Run({"brigade": [2]}, {"evacuated.arrived": "10:30"}, {}),
        Run(FINISH, {}, {"evacuated": [("1", "10:50:00", "3")]}),
    ],
    "E2": [
        Run(
            {"fire": [0, 1], "brigade": [0, 1], "exits": [0, 1, 2, 3, 4]},
            {"unanswered.deadline": "10:50"},
            {},
            store="10:30",
        ),
        Run(
            {"brigade": [2]},
            {"unanswered.deadline": "11:30"},
            {"unanswered": [("2", "10:30:00", "11:30:00")]},
            store="10:30",
        ),
        Run(FINISH, {}, {}),
    ],
    "E6": [
        Run(
            {"placed": [0, 1, 3], "paid": [0], "cancelled": [0], "shipped": [2]},
            {"unpaid.deadline": "09:05"},
            {},
        ),
        Run(
            {"placed": [2], "paid": [1, 2], "cancelled": [1], "shipped": [1, 0]},
            {"unpaid.deadline": "09:17:00.000001"},
            {},
            late={"placed": [2]},
        ),
        Run(FINISH, {}, {"unpaid": [("4", "09:18:00")]}),
    ],
    "E9": [
        Run(
            {"clicks": [0, 1, 2, 3, 5]},
            {"starts.ts": "08:40", "ends.ts": "08:10", "sessions.ended": "08:10"},
            {
                "starts": [("ann", "08:00:00"), ("bob", "08:05:00")],
                "ends": [("bob", "08:05:00")],
                "sessions": [("bob", "08:05:00", "08:05:00", "1")],
            },
        ),
        Run(
            {"clicks": [4]},
            {
                "starts.ts": "09:10:00.000001",
                "ends.ts": "08:40:00.000001",
                "sessions.ended": "08:40:00.000001",
            },
            {
                "starts": [("ann", "09:10:00.000001")],
                "ends": [("ann", "08:40:00")],
                "sessions": [("ann", "08:00:00", "08:40:00", "4")],
            },
        ),
        Run(
            {"clicks": [6, 7]},
            {"starts.ts": "11:29:59", "ends.ts": "10:59:59", "sessions.ended": "10:59:59"},
            {
                "starts": [("bob", "11:00:00")],
                "ends": [("ann", "09:10:00.000001")],
                "sessions": [("ann", "09:10:00.000001", "09:10:00.000001", "1")],
            },
        ),
        Run(
            FINISH,
            {},
            {"ends": [("bob", "11:29:59")], "sessions": [("bob", "11:00:00", "11:29:59", "2")]},
        ),
    ],
    "E12": [
        Run(
            {"tickets": [0, 1, 2], "replies": [0]},
            {"breached.due": "09:04", "answered.replied": "09:02"},
            {},
            store="06:59",
        ),
        Run(
            {"tickets": [3], "replies": [1, 2]},
            {"breached.due": "09:07", "answered.replied": "09:03"},
            {"breached": [("2", "08:59:00", "09:06:00")]},
            store="07:03",
        ),
        Run(
            {"replies": [3]},
            {"breached.due": "09:08", "answered.replied": "09:03"},
            {"breached": [("4", "09:03:00", "09:08:00")]},
        ),
        Run(
            FINISH,
            {},
            {
                "answered": [
                    ("1", "08:00:00", "09:04:00"),
                    ("2", "08:59:00", "09:06:00.000001"),
                    ("3", "07:30:00", "09:07:00"),
                    ("4", "09:03:00", "09:30:00"),
                ]
            },
        ),
    ],
}


class StepDriver:
    """Streams that are fed by INSERT: a run moves each line to the newest timestamp, less its lateness."""

    def __init__(self, script: EventScript) -> None:
        self.script = script
        self.known: dict[str, list[Record]] = {name: [] for name in script.rows}
        self.late: dict[str, list[int]] = {}
        self.bounds: dict[StreamLine, int] = {}
        self.shown: dict[str, Bag] = {entry.name: Counter() for entry in script.queries}

    def run(self, inserted: dict[str, list[int]], finish: bool) -> None:
        """Take in rows that are not late, and move the bounds; those of the store and of all time lines."""
        self.late = {}
        for name in self.script.rows:
            entry = self.script.catalog.get(name)
            assert isinstance(entry, StreamEntry)
            for number in inserted.get(name, ()):
                row = self.script.rows[name][number]
                if not any(
                    self._time(row, name, t.column) <= self.bounds.get(StreamLine(name, t.column), NOT_BEGUN)
                    for t in entry.timelines
                ):
                    self.known[name].append(row)
                else:
                    self.late.setdefault(name, []).append(number)
            for line in entry.timelines:
                key = StreamLine(name, line.column)
                newest = [self._time(row, name, line.column) - line.lateness for row in self.known[name]]
                moved = max([self.bounds.get(key, NOT_BEGUN), *newest])
                self.bounds[key] = ENDED if finish else moved
        self.bounds[STORE_BOUND] = min(self._first_bounds())
        for query in self.script.queries:
            found = self.script.timing(query.name).bounds(self.bounds)
            self.bounds |= {StreamLine(query.name, line): bound for line, bound in found.items()}

    def _first_bounds(self) -> Iterator[int]:
        for name in self.script.rows:
            entry = self.script.catalog.get(name)
            assert isinstance(entry, StreamEntry)
            yield self.bounds[StreamLine(name, entry.timelines[0].column)]

    def _time(self, row: Record, stream: str, column: str) -> int:
        entry = self.script.catalog.get(stream)
        assert isinstance(entry, StreamEntry)
        value = row[entry.columns.names.index(column)]
        assert isinstance(value, int)
        return value

    def new(self) -> dict[str, list[tuple[str, ...]]]:
        """Return what has become visible of each query since it was asked last."""
        rows: dict[str, list[Record]] = dict(self.known)
        found = {}
        for query in self.script.queries:
            timing = self.script.timing(query.name).timing
            emitted = emitted_rows(timing, EventInputs(rows, {}, self.bounds))
            rows[query.name] = list(emitted.elements())
            schema = timing.node.schema
            lines = [schema.index(schema.find(line)) for line in query.timelines]
            bounds = [self.bounds[StreamLine(query.name, line)] for line in query.timelines]
            visible = visible_rows(emitted, lines, bounds)
            if fresh := visible - self.shown[query.name]:
                found[query.name] = table_of(fresh, schema)
            self.shown[query.name] = visible
        return found


@pytest.mark.parametrize("name", TABLES)
def test_steps(name: str) -> None:
    driver = StepDriver(EventScript.of(QUERIES[name].sql))
    for number, run in enumerate(TABLES[name], 1):
        driver.run(run.inserted, finish=run.inserted is FINISH)
        for line, clock in run.bounds.items():
            stream, _, column = line.partition(".")
            assert driver.bounds[StreamLine(stream, column)] == at(clock), f"run {number}: {line}"
        if run.store is not None:
            assert driver.bounds[STORE_BOUND] == at(run.store), f"run {number}: b1"
        if run.inserted is FINISH:
            assert set(driver.bounds.values()) == {ENDED}
        assert driver.late == run.late, f"run {number}"
        assert driver.new() == run.new, f"run {number}"
