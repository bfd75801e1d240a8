"""The worked queries: accepted, with the bounds and the answers that stand in the fixture."""

from __future__ import annotations

import re

import pytest

from everview.algebra.changes import ChangeRow, Record
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST, format_timestamp, parse_timestamp
from everview.algebra.types import TIMESTAMP
from everview.reference.events import Bag, EventInputs, event_meaning
from tests.events.harness import EventScript, WorkedQuery, worked_queries

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


def test_tables_as_of_one_of_which_changes() -> None:
    """E22: the sensor moves at 10:03, between the two alarms."""
    first, second = QUERIES["E22"].sql.split("-- run; then")
    inserts = re.sub(r"UPDATE.*?;", "", second, flags=re.S)
    script = EventScript.of(first, inserts)
    moved = at("10:03:00")
    sensors = [
        ChangeRow((1, 7, 10), LEAST, moved),
        ChangeRow((1, 7, 88), moved, INFINITY),
        ChangeRow((2, 7, 14), LEAST, INFINITY),
        ChangeRow((3, 8, 50), LEAST, INFINITY),
    ]
    inputs = EventInputs(script.rows, {**script.tables, "sensors": sensors})
    found = event_meaning(script.plan("blocked"), inputs)
    assert table_of(found, script.plan("blocked").schema) == [
        ("7", "north", "10:00:20"),
        ("7", "south", "10:05:00"),
    ]
