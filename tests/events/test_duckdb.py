"""DuckDB as the batch witness: an event query means what the same SQL means over all rows of its streams."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import duckdb
import pytest

from everview.algebra.changes import Record
from everview.algebra.schema import Schema
from everview.algebra.types import BOOLEAN, STRING, TIMESTAMP, DataType
from everview.reference.events import Bag, EventInputs, event_meaning
from tests.events.harness import EventScript
from tests.events.properties import CATALOG, random_accepted
from tests.events.random_queries import COLUMNS, random_feed
from tests.events.test_worked_queries import PLAIN, WorkedQuery
from tests.lanes import seed_lanes

CONNECTION = duckdb.connect()


def _type(type_: DataType) -> str:
    return {TIMESTAMP: "TIMESTAMP", STRING: "VARCHAR", BOOLEAN: "BOOLEAN"}.get(type_, "INT")


def create(name: str, schema: Schema, rows: Sequence[Record]) -> None:
    """Make a table of the rows of a stream; times are numbers in records."""
    columns = ", ".join(f'"{f.name}" {_type(f.type)}' for f in schema)
    CONNECTION.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
    values = ", ".join("make_timestamp(?::BIGINT)" if f.type == TIMESTAMP else "?" for f in schema)
    for row in rows:
        CONNECTION.execute(f"INSERT INTO {name} VALUES ({values})", list(row))


def answer(sql: str, schema: Schema) -> Bag:
    shown = ", ".join(f"epoch_us(c{i})" if f.type == TIMESTAMP else f"c{i}" for i, f in enumerate(schema))
    names = ", ".join(f"c{i}" for i in range(len(schema)))
    return Counter(CONNECTION.execute(f"SELECT {shown} FROM ({sql}) AS o ({names})").fetchall())


@pytest.mark.parametrize("query", PLAIN, ids=lambda q: q.title.split()[0])
def test_worked_queries(query: WorkedQuery) -> None:
    script = EventScript.of(query.sql)
    for name, rows in script.rows.items():
        create(name, script.catalog.get(name).columns, rows)  # type: ignore[union-attr]
    for entry in script.queries:
        schema, found = script.plan(entry.name).schema, script.answers()[entry.name]
        assert answer(entry.sql, schema) == found, entry.name
        create(entry.name, schema, list(found.elements()))


@seed_lanes("seeds", 5, 50, 100)
def test_random_queries(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed + 50_000)
        accepted = random_accepted(rng)
        while "AS OF" in accepted.query.sql:
            accepted = random_accepted(rng)
        feed = random_feed(rng, accepted.query.scale)
        rows: Mapping[str, Sequence[Record]] = feed.rows()
        for name in COLUMNS:
            create(name, CATALOG.get(name).columns, rows[name])  # type: ignore[union-attr]
        found = event_meaning(accepted.plan, EventInputs(rows, feed.tables))
        assert answer(accepted.query.sql, accepted.plan.schema) == found, accepted.query
