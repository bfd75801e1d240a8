"""At which instant a question is answered, and which rows of an event stream are shown. No JVM."""

from __future__ import annotations

from typing import Any

import pytest

from everview.algebra.time import INFINITY, parse_timestamp
from everview.catalog import Catalog
from everview.compile_store import compile_store
from everview.execute.kept import Kept
from everview.ingest.bounds import LAST
from everview.query.questions import StoreSnapshot, visible_sql
from everview.sql import bind_script, declare, plan_of
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId
from everview.temporal.clocks import StreamLine

SCRIPT = """
CREATE STREAM placed (id INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM paid (id INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM unpaid TIMELINE deadline, ts AS
  SELECT o.id, o.ts, o.ts + INTERVAL '15' MINUTE AS deadline FROM placed o
  WHERE NOT EXISTS (SELECT 1 FROM paid p
                    WHERE p.id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '15' MINUTE);
CREATE VIEW timeouts AS SELECT COUNT(*) AS n FROM unpaid [RANGE 1 HOUR];
CREATE VIEW orders AS SELECT COUNT(*) AS n FROM placed [RANGE 1 HOUR];
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    for statement in bind_script(SCRIPT, made):
        declare(statement, made)
    return made


def at(clock: str) -> int:
    found = parse_timestamp(f"2026-01-01 {clock}")
    assert found is not None
    return found


def snapshot(catalog: Catalog, bound: int, deadline: int) -> StoreSnapshot:
    """Return a store whose newest row came at 09:03, with a timeout at 09:18."""
    due = at("09:18")
    run = Run("run", 1, INFINITY, INFINITY, due, due, 1)
    manifest = Manifest(
        step=1,
        bound=bound,
        present=at("09:03"),
        event_bounds={"unpaid": {"deadline": deadline, "ts": deadline}},
        traces={TraceId("view", "unpaid"): (run,)},
    )
    nobody: Any = None  # neither a session nor files are needed to know the instant
    return StoreSnapshot(Kept(nobody, nobody, manifest, catalog), compile_store(catalog), 1)


@pytest.mark.parametrize(
    ("sql", "finished", "running"),
    [
        ("SELECT * FROM unpaid", "09:18", "09:05"),
        ("SELECT * FROM timeouts", "09:18", "09:02"),
        ("SELECT t.n FROM timeouts t, orders o", "09:18", "09:02"),
        ("SELECT * FROM orders", "09:03", "09:02"),
    ],
)
def test_the_present_of_event_streams(catalog: Catalog, sql: str, finished: str, running: str) -> None:
    """A timeout after the newest row taken in is seen in the end; the present of other views stays."""
    plan = plan_of(sql, catalog)
    assert snapshot(catalog, LAST, LAST)._instant(plan, None) == at(finished)
    assert snapshot(catalog, at("09:02"), at("09:05"))._instant(plan, None) == at(running)


def test_a_row_is_shown_when_one_of_its_time_lines_is_known(catalog: Catalog) -> None:
    """It may have been emitted before that (paper 3, definition 26)."""
    event = compile_store(catalog).events["unpaid"]
    bounds = {StreamLine("unpaid", "deadline"): 7, StreamLine("unpaid", "ts"): 5}
    assert visible_sql(event, bounds) == "(unix_micros(c2) <= 7L OR unix_micros(c1) <= 5L)"
    assert visible_sql(event, {}) == "(FALSE)"
