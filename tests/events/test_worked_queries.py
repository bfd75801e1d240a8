"""The worked queries: accepted, with the bounds and the answers that stand in the fixture."""

from __future__ import annotations

import re

import pytest

from everview.algebra.changes import ChangeRow, Record
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST, format_timestamp, parse_timestamp
from everview.algebra.types import TIMESTAMP
from everview.compile_store import compile_store
from everview.reference.events import Bag, EventInputs, event_meaning
from everview.reference.meaning import meaning, snapshot_at
from tests.events.harness import WORKED, EventScript, WorkedQuery, worked_queries

QUERIES = {query.title.split()[0]: query for query in worked_queries()}
PLAIN = [query for name, query in QUERIES.items() if name not in ("E22", "E23")]


def text_of(row: Record, schema: Schema) -> tuple[str, ...]:
    """Return a row as it stands in the fixture: times of day, without zeros at the end."""

    def value(v: object, is_time: bool) -> str:
        if not is_time or not isinstance(v, int):
            return str(v)
        clock = format_timestamp(v)[len("2026-01-01T") :]
        return clock.removesuffix(".000000")

    return tuple(value(v, f.type == TIMESTAMP) for v, f in zip(row, schema, strict=True))


def table_of(rows: Bag, schema: Schema) -> list[tuple[str, ...]]:
    return sorted(text_of(row, schema) for row in rows.elements())


@pytest.mark.parametrize("query", QUERIES.values(), ids=lambda q: q.title.split()[0])
def test_bounds(query: WorkedQuery) -> None:
    script = EventScript.of(query.sql.split("-- run; then")[0])
    found = []
    for entry in script.queries:
        clocks = script.timing(entry.name).clocks.items()
        found.append("; ".join(f"bound of `{line}`: {clock}" for line, clock in clocks))
    assert tuple(found) == query.bounds or not query.bounds


@pytest.mark.parametrize("query", PLAIN, ids=lambda q: q.title.split()[0])
def test_answers(query: WorkedQuery) -> None:
    script = EventScript.of(query.sql)
    for name, rows in script.answers().items():
        assert table_of(rows, script.plan(name).schema) == sorted(query.answers[name]), name


def at(clock: str) -> int:
    found = parse_timestamp(f"2026-01-01 {clock}")
    assert found is not None
    return found


def alarm_script() -> EventScript:
    """Return E22 with the versions of its tables: the first sensor moves at 10:03, between the two alarms."""
    first, second = QUERIES["E22"].sql.split("-- run; then")
    inserts = re.sub(r"UPDATE.*?;", "", second, flags=re.S)
    script = EventScript.of(first, inserts)
    moved = at("10:03:00")
    script.tables["sensors"] = [
        ChangeRow((1, 7, 10), LEAST, moved),
        ChangeRow((1, 7, 88), moved, INFINITY),
        ChangeRow((2, 7, 14), LEAST, INFINITY),
        ChangeRow((3, 8, 50), LEAST, INFINITY),
    ]
    return script


def test_tables_as_of_one_of_which_changes() -> None:
    script = alarm_script()
    found = event_meaning(script.plan("blocked"), EventInputs(script.rows, script.tables))
    assert table_of(found, script.plan("blocked").schema) == [
        ("7", "north", "10:00:20"),
        ("7", "south", "10:05:00"),
    ]


def test_a_view_over_an_event_stream() -> None:
    """E23 by the reference, over the rows of the event stream; before the first of them the count is 0."""
    query = QUERIES["E23"]
    script = EventScript.of(query.sql)
    (table,) = re.findall(r"\| n \| from \| until \|\n\|[-|]+\|\n((?:\|.*\n)+)", WORKED.read_text())
    wanted = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()]
    unpaid = [ChangeRow(row, _instant(row[1]), INFINITY) for row in script.answers()["unpaid"]]
    times = sorted({t for _, from_, until in wanted for t in (from_, until) if t != "∞"})
    view = compile_store(script.catalog).views["open_timeouts"]
    domain = [at(times[0]) - 1, *map(at, times)]
    found = meaning(view.plan, {"unpaid": unpaid}, domain)
    assert [snapshot_at(found, t) for t in domain] == [
        {(0,): 1},
        *({(int(n),): 1} for n, _, _ in wanted),
    ]
    assert str(view.clock) == "min(b1, unpaid.deadline)", "before finish it is known up to there"


def _instant(value: object) -> int:
    assert isinstance(value, int)
    return value
