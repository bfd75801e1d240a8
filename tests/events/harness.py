"""Event queries for tests: a script with its rows, fed in steps, and the fixture of worked queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record
from everview.algebra.time import INFINITY, LEAST
from everview.catalog import Catalog, EventStreamEntry, StreamEntry
from everview.compile import event_plan, stream_facts
from everview.reference.events import Bag, EventInputs, event_meaning
from everview.sql import bind_script, declare
from everview.sql import statements as S
from everview.temporal.clocks import LineBounds, StreamLine
from everview.temporal.event_query import StreamFacts
from everview.temporal.output_bounds import EventTiming, event_timing

WORKED = Path(__file__).parent / "worked_queries.md"


@dataclass
class EventScript:
    """A script of streams, tables, rows and event queries; an update of a table takes its AT."""

    catalog: Catalog = field(default_factory=Catalog)
    rows: dict[str, list[Record]] = field(default_factory=dict)
    tables: dict[str, list[ChangeRow]] = field(default_factory=dict)

    @classmethod
    def of(cls, *scripts: str) -> EventScript:
        made = cls()
        for script in scripts:
            made.run(script)
        return made

    def run(self, script: str) -> None:
        for statement in bind_script(script, self.catalog):
            declare(statement, self.catalog)
            match statement:
                case S.Create(entry) if isinstance(entry, StreamEntry):
                    self.rows.setdefault(entry.name, [])
                case S.Insert(target, rows) if target in self.rows:
                    self.rows[target] += rows
                case S.Insert(target, rows, at):
                    begin = LEAST if at is None else at
                    self.tables.setdefault(target, [])
                    self.tables[target] += [ChangeRow(row, begin, INFINITY) for row in rows]

    @property
    def facts(self) -> dict[str, StreamFacts]:
        return stream_facts(self.catalog)

    @property
    def queries(self) -> list[EventStreamEntry]:
        return [e for e in self.catalog if isinstance(e, EventStreamEntry)]

    def plan(self, name: str) -> N.Node:
        entry = self.catalog.get(name)
        assert isinstance(entry, EventStreamEntry)
        return event_plan(entry, self.catalog)

    def timing(self, name: str) -> EventTiming:
        entry = self.catalog.get(name)
        assert isinstance(entry, EventStreamEntry)
        found = event_timing(event_plan(entry, self.catalog), entry.timelines, self.facts)
        assert found is not None, f"{name} was refused"
        return found

    def answers(self) -> dict[str, Bag]:
        """Return E(R) of every event query over all rows."""
        rows: dict[str, Sequence[Record]] = dict(self.rows)
        found = {}
        for entry in self.queries:
            found[entry.name] = event_meaning(self.plan(entry.name), EventInputs(rows, self.tables))
            rows[entry.name] = list(found[entry.name].elements())
        return found


def all_bounds(script: EventScript, base: LineBounds) -> dict[StreamLine, int]:
    """Return the bounds of the base streams and, from them, those of the event streams, in their order."""
    known = dict(base)
    for entry in script.queries:
        bounds = script.timing(entry.name).bounds(known)
        known |= {StreamLine(entry.name, line): bound for line, bound in bounds.items()}
    return known


@dataclass(frozen=True)
class WorkedQuery:
    """One section of the fixture: its SQL, and the answer and bounds of each of its event streams."""

    title: str
    sql: str
    answers: Mapping[str, tuple[tuple[str, ...], ...]]
    bounds: tuple[str, ...]


def worked_queries() -> list[WorkedQuery]:
    """Return the sections of the fixture; streams and rows that one takes from another come first."""
    found: dict[str, WorkedQuery] = {}
    for section in WORKED.read_text().split("\n#### ")[1:]:
        title = section.splitlines()[0]
        sql = re.search(r"```sql\n(.*?)```", section, re.S)
        assert sql is not None
        text = sql[1]
        if earlier := re.search(r"-- streams.* as in (E\d+)", text):
            whole = found[earlier[1]].sql
            text = (whole if "and `unpaid`" in text else _given(whole)) + text
        answers = {}
        for name, table in re.findall(r"`SELECT \* FROM (\w+)` after `--finish`:\n\n((?:\|.*\n)+)", section):
            lines = [tuple(c.strip() for c in line.strip("|").split("|")) for line in table.splitlines()]
            answers[name] = tuple(lines[2:])
        bounds = tuple(re.findall(r"^bound of .*$", section, re.M))
        found[title.split()[0]] = WorkedQuery(title, text, answers, bounds)
    return list(found.values())


def _given(sql: str) -> str:
    """Return the statements of a script that are no event queries."""
    return "".join(
        s + ";\n" for s in sql.split(";\n") if s.strip() and not re.search(r"TIMELINE \w+ AS\b", s)
    )
