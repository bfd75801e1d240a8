"""Views that keep a length of time and a number of changes: what they answer, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.catalog import ViewEntry
from everview.database import Database
from everview.errors import StoreError
from everview.sql.statements import Create
from everview.storage.runs import TraceId

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)"
TOTALS = "CREATE VIEW totals AS SELECT k, SUM(v) AS v, COUNT(*) AS n FROM s GROUP BY k"


def create_with_limits(db: Database, sql: str, seconds: int, least: int) -> None:
    """Create a view that keeps the changes of some seconds, and a number of them however old."""
    for statement in db.statements(sql):
        assert isinstance(statement, Create)
        assert isinstance(statement.entry, ViewEntry)
        entry = replace(statement.entry, history=seconds * 1_000_000, least_changes=least)
        db.carry_out(replace(statement, entry=entry))


def clock(second: int) -> str:
    return f"2026-01-01 00:{second // 60:02}:{second % 60:02}"


def rows_of(second: int) -> list[dict[str, object]]:
    return [{"k": k, "v": second + k, "ts": clock(second)} for k in range(2)]


def expected(upto: int) -> set[tuple[int, ...]]:
    seconds = range(1, upto + 1)
    return {(k, sum(s + k for s in seconds), len(seconds)) for k in range(2)}


@pytest.fixture(scope="module")
def old_store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store after 40 steps of a second each; `totals` keeps 6 seconds, and 32 changes (8 seconds)."""
    path = tmp_path_factory.mktemp("history")
    with everview.connect(str(path / "store"), spark) as db:
        db.execute(f"{STREAM}; CREATE VIEW none WITH (history => 'none') AS SELECT MAX(v) AS v FROM s")
        create_with_limits(db, TOTALS, 6, 32)
        for second in range(1, 41):
            db.insert("s", rows_of(second))
            db.run()
        yield db


def test_what_is_kept_is_bounded(old_store: Database) -> None:
    runs = old_store.manifest().runs(TraceId("view", "totals"))
    assert sum(run.rows for run in runs) < 110, "and 158 changes there were"


def test_answers_inside_the_history_are_exact(old_store: Database) -> None:
    for second in (34, 37, 39):
        answer = old_store.query("SELECT * FROM totals", as_of=clock(second))
        assert {tuple(r) for r in answer.collect()} == expected(second)
    assert {tuple(r) for r in old_store.query("SELECT * FROM totals").collect()} == expected(40)


def test_an_instant_before_the_history_is_refused(old_store: Database) -> None:
    with pytest.raises(StoreError, match=r"the history of the view 'totals' is kept from .*00:00:3\d.* on"):
        old_store.query("SELECT * FROM totals", as_of=clock(15)).collect()


def test_changes_say_from_when_on_they_are_complete(old_store: Database) -> None:
    with pytest.warns(UserWarning, match=r"the changes of 'totals' are complete from .*00:00:3\d.* on"):
        changes = old_store.changes("totals")
    found: Counter[tuple[object, ...]] = Counter()
    for r in sorted(changes.collect(), key=lambda r: str(r["at"])):
        found[tuple(r)[2:-1]] += 1 if r.tag in "+u" else -1
        if r.tag == "u":
            found[tuple(r.old)] -= 1
    assert {row for row, n in found.items() if n} == expected(40)
    assert "; kept from 2026-01-01T00:00:3" in str(old_store.execute("DESCRIBE totals"))


def test_followers_that_are_too_late_are_told(old_store: Database) -> None:
    step = old_store.manifest().step
    assert old_store.changes("totals", since=step - 4).count() > 0
    with pytest.raises(StoreError, match=r"not all changes of 'totals' after step 20 are kept"):
        old_store.changes("totals", since=20)
    with pytest.raises(StoreError, match=r"not all changes of 'none' after step \d+ are kept"):
        old_store.changes("none", since=step - 2)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM ISTREAM(SELECT k FROM totals)",
        "SELECT * FROM totals SYNC EVERY INTERVAL '1' HOUR",
    ],
)
def test_questions_about_earlier_changes_are_refused(old_store: Database, sql: str) -> None:
    with pytest.raises(StoreError, match="needs earlier changes of the view 'totals'"):
        old_store.query(sql).collect()


def test_a_question_about_kept_changes_is_answered(old_store: Database) -> None:
    answer = old_store.query("SELECT * FROM totals SYNC EVERY INTERVAL '5' SECOND", as_of=clock(38))
    assert {tuple(r) for r in answer.collect()} == expected(35)


def test_a_view_over_it_is_complete(old_store: Database) -> None:
    """The rows of the stream are kept: it is computed from them, not from what is left of the changes."""
    old_store.execute("CREATE VIEW highest AS SELECT MAX(n) AS n FROM totals")
    assert old_store.query("SELECT * FROM highest", as_of=clock(5)).collect()[0].n == 5
    assert old_store.query("SELECT * FROM highest").collect()[0].n == 40


def test_replaced_with_a_longer_history(spark: SparkSession, tmp_path: Path) -> None:
    """What the view was before it was replaced is known as far back as its history had been, no further."""
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute(
            f"{STREAM}; CREATE VIEW v WITH (history => INTERVAL '3' SECOND) AS SELECT MAX(v) AS v FROM s"
        )
        for second in range(1, 9):
            db.insert("s", rows_of(second))
            db.run()
        db.execute("CREATE OR REPLACE VIEW v AS SELECT MIN(v) AS v FROM s")
        assert db.query("SELECT * FROM v", as_of=clock(7)).collect()[0].v == 8
        with pytest.raises(StoreError, match="the history of the view 'v' is kept from"):
            db.query("SELECT * FROM v", as_of=clock(2)).collect()
        db.insert("s", rows_of(40))
        db.run()
        assert db.query("SELECT * FROM v").collect()[0].v == 1
        with pytest.raises(StoreError, match="the history of the view 'v' is kept from"):
            db.query("SELECT * FROM v", as_of=clock(2)).collect()
