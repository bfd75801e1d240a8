"""Names that come and go on a store that has run: from when they answer, and that the others lose nothing."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError, StoreError
from everview.storage.runs import TraceId

pytestmark = pytest.mark.spark

BEFORE = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE TABLE t (k INT, name STRING);
INSERT INTO t VALUES (0, 'zero'), (1, 'one');
CREATE VIEW held AS SELECT k, v FROM s [RANGE 20 SECONDS];
CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM held GROUP BY k;
"""
LATER = {
    "doubled": "SELECT k, 2 * v AS v FROM sums",
    "named": "SELECT name, v FROM sums LEFT JOIN t ON sums.k = t.k",
    "counted": "SELECT COUNT(*) AS n, MAX(v) AS v FROM held",
    "rest": "SELECT k FROM s [RANGE 30 SECONDS] EXCEPT ALL SELECT k FROM held",
    "once": "SELECT DISTINCT k FROM s [RANGE 12 SECONDS]",
    "latest": "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
}


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def batch(rng: random.Random, start: int) -> list[dict[str, object]]:
    seconds = sorted(rng.randrange(start, start + 10) for _ in range(12))
    return [
        {"k": rng.randrange(3), "v": rng.randrange(9), "ts": f"2026-01-01 00:{s // 60:02}:{s % 60:02}"}
        for s in seconds
    ]


def test_a_view_made_later_answers_as_if_it_had_always_been(spark: SparkSession, tmp_path: Path) -> None:
    """All inputs are kept here; so from its making on, a view agrees with one made at the start."""
    rng = random.Random(11)
    batches = [batch(rng, 10 * i + 1) for i in range(4)]
    views = "".join(f"CREATE VIEW {name} AS {sql};" for name, sql in LATER.items())
    with (
        everview.connect(str(tmp_path / "early"), spark, partitions=2) as early,
        everview.connect(str(tmp_path / "late"), spark, partitions=2) as late,
    ):
        early.execute(BEFORE + views)
        late.execute(BEFORE)
        for i, new in enumerate(batches):
            for db in (early, late):
                db.insert("s", new)
                db.run()
            if i == 1:
                since = late.run().bound
                late.execute(views)
            if i >= 1:
                for name in LATER:
                    sql = f"SELECT * FROM {name}"
                    assert rows(late.query(sql)) == rows(early.query(sql)), (name, i)
        assert since > 0
        for name in LATER:
            sql = f"SELECT * FROM {name}"
            for second in ("03", "09", "15"):
                at = f"2026-01-01 00:00:{second}"
                assert rows(late.query(sql, as_of=at)) == rows(early.query(sql, as_of=at)), (name, second)
        tags = late.changes("doubled").collect()
        assert {r.tag for r in tags[:2]} == {"+"}
        replayed: Counter[tuple[object, object]] = Counter()
        for r in tags:
            replayed[(r.k, r.v)] += 1 if r.tag in "+u" else -1
            if r.tag == "u":
                replayed[(r.old.k, r.old.v)] -= 1
        assert +replayed == rows(late.query("SELECT k, v FROM doubled"))
        assert rows(early.changes("sums")) == rows(late.changes("sums"))


def test_dropping_a_view_frees_what_only_it_had(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(BEFORE + "CREATE VIEW big AS SELECT DISTINCT v FROM s [RANGE 1 HOUR];")
        db.insert("s", batch(rng, 1))
        db.run()
        with pytest.raises(EverviewError, match="sums"):
            db.execute("DROP VIEW held")
        before = rows(db.query("SELECT * FROM sums"))
        manifest = db._pipeline.store.manifest()
        db.execute("DROP VIEW big")
        after = db._pipeline.store.manifest()
        assert len(after.of("state")) < len(manifest.of("state"))
        assert not after.of("view", "big")
        assert rows(db.query("SELECT * FROM sums")) == before
        db.insert("s", batch(rng, 20))
        db.run()
        assert rows(db.query("SELECT v FROM held")) != before


def test_the_history_of_a_view_ends_where_it_was_told_to(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW brief WITH (history => INTERVAL '20' SECOND) AS SELECT k FROM s [RANGE 5 SECONDS];
            CREATE VIEW ever AS SELECT k FROM s [RANGE 5 SECONDS];
            CREATE COMPLETE VIEW ready AS SELECT k FROM s [RANGE 5 SECONDS];
        """)
        for second in range(0, 60, 3):
            db.insert("s", [{"k": second, "ts": f"2026-01-01 00:00:{second:02}"}])
            if second % 12 == 0:
                db.run()
        db.run()
        assert rows(db.query("SELECT k FROM ever", as_of="2026-01-01 00:00:04")) == {(0,): 1, (3,): 1}
        assert rows(db.query("SELECT k FROM ready", as_of="2026-01-01 00:00:04")) == {(0,): 1, (3,): 1}
        assert rows(db.query("SELECT k FROM ready")) == {(54,): 1, (57,): 1}
        manifest = db._pipeline.store.manifest()
        kept = {
            kind: sum(r.rows for r in manifest.runs(TraceId(kind, "ready"))) for kind in ("view", "complete")
        }
        assert kept["complete"] < kept["view"], "the present answer has no past"
        assert rows(db.query("SELECT k FROM brief", as_of="2026-01-01 00:00:45")) == {(42,): 1, (45,): 1}
        with pytest.raises(StoreError, match="history of the view 'brief' is kept from 2026-01-01T00:00:37"):
            db.query("SELECT k FROM brief", as_of="2026-01-01 00:00:04")
        with pytest.raises(StoreError, match="lies after the bound"):
            db.query("SELECT k FROM brief", as_of="2027-01-01 00:00:00")
        assert {r.k for r in db.changes("brief", "intervals").collect()} == {33, 36, 39, 42, 45, 48, 51}
        steps = db._pipeline.store.manifest().step
        assert {r.k for r in db.changes("ever", since=steps - 4).collect() if r.tag == "+"} == {51, 54, 57}


def test_questions_to_streams_windows_and_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    """What is inserted is kept, so its windows can be asked; ad hoc SYNC and stream functions look back."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CLOCK EVERY INTERVAL '2' SECOND;
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TAGGED STREAM latest OVER s KEY (k);
            INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01'), (2, TIMESTAMP '2026-01-01 00:00:04'),
                                 (1, TIMESTAMP '2026-01-01 00:00:07');
            CREATE VIEW ticks AS SELECT COUNT(*) AS n FROM clock;
        """)
        db.run()
        assert rows(db.query("SELECT k FROM s [RANGE 4 SECONDS]")) == {(1,): 1, (2,): 1}
        assert rows(db.query("SELECT k FROM s [ROWS 1]")) == {(1,): 1}
        assert rows(db.query("SELECT COUNT(*) FROM s")) == {(3,): 1}
        earlier = db.query("SELECT k FROM s [RANGE 4 SECONDS]", as_of="2026-01-01 00:00:04")
        assert rows(earlier) == {(1,): 1, (2,): 1}
        assert rows(db.query("SELECT k FROM latest [RANGE 4 SECONDS]")) == {(1,): 1, (2,): 1}
        assert rows(db.query("SELECT k FROM s SYNC EVERY INTERVAL '5' SECOND")) == {(1,): 1, (2,): 1}
        assert rows(db.query("SELECT n FROM ticks")) == {(3,): 1}, "at 2, 4 and 6 s"
        assert rows(db.query("SELECT COUNT(*) FROM clock")) == {(3,): 1}
