"""ALTER … RENAME TO: views go on with their state and their changes, and the old name is free."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from everview.maintenance import check_at
from tests.engine.reading import put
from tests.engine.test_changed_plans import answers, create, release, write

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


MADE = """
    CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO names VALUES (1, 'one'), (2, 'two');
    CREATE TAGGED STREAM latest OVER s KEY (k) DELETE WHEN s.v < 0;
    CREATE VIEW held AS SELECT s.k, s.v FROM s [RANGE 20 SECONDS];
    CREATE VIEW sums AS SELECT held.k, SUM(v) AS v FROM held GROUP BY held.k;
    CREATE COMPLETE VIEW named AS SELECT n.name, h.v FROM held h JOIN names n ON h.k = n.k;
    CREATE VIEW shares AS SELECT held.v, sums.v AS total FROM held JOIN sums ON held.k = sums.k;
    CREATE VIEW now_in AS SELECT k, v FROM latest;
    CREATE VIEW too_late AS SELECT k, _reason FROM s$late;
    CREATE STREAM again TIMELINE ts AS SELECT a.k, a.v, b.ts FROM s a
      JOIN s b ON a.k = b.k AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL '15' SECOND;
    CREATE STREAM alone TIMELINE until AS SELECT a.k, a.ts + INTERVAL '15' SECOND AS until FROM s a
      WHERE NOT EXISTS (SELECT 1 FROM again b WHERE b.k = a.k AND b.ts > a.ts
                        AND b.ts <= a.ts + INTERVAL '15' SECOND);
    CREATE VIEW agains AS SELECT a.k, COUNT(*) AS n FROM again [RANGE 10 SECONDS] a JOIN held ON held.k = a.k
      GROUP BY a.k;
"""
VIEWS = ("held", "sums", "shares", "named", "now_in", "too_late", "again", "alone", "agains")


def insert(db: Database, stream: str, *given: tuple[int, int, int]) -> None:
    db.insert(stream, [{"k": k, "v": v, "ts": at(second)} for k, v, second in given])
    db.run()


def everything(db: Database, names: dict[str, str]) -> dict[str, object]:
    found = {view: names.get(view, view) for view in VIEWS}
    return {
        v: (rows(db.query(f"SELECT * FROM `{name}`")), rows(db.changes(name))) for v, name in found.items()
    }


def test_views_go_on_with_their_state(spark: SparkSession, tmp_path: Path) -> None:
    """A store in which names change equals one in which they do not, also after a restart."""
    store = str(tmp_path / "store")
    names = {"held": "kept", "sums": "all sums", "named": "by_name", "again": "once more"}
    with (
        everview.connect(str(tmp_path / "always"), spark, partitions=2) as always,
        everview.connect(store, spark, partitions=2) as db,
    ):
        for each in (always, db):
            each.execute(MADE)
            insert(each, "s", (1, 5, 1), (2, 7, 5), (1, 1, 9))
            insert(each, "s", (3, 9, 2), (2, 1, 11))  # the first is late
            each.execute(f"""
                UPDATE names SET name = 'uno' WHERE k IN (SELECT MIN(k) FROM names) AT TIMESTAMP '{at(20)}'
            """)
        before = db.manifest()
        db.execute("""
            ALTER STREAM s RENAME TO `my stream`; ALTER VIEW held RENAME TO kept;
            ALTER TABLE names RENAME TO People; ALTER VIEW named RENAME TO by_name;
            ALTER VIEW sums RENAME TO `all sums`; -- `shares` joins its inputs in the order of names
            ALTER STREAM `my stream` RENAME TO t; ALTER STREAM latest RENAME TO newest;
            ALTER STREAM again RENAME TO `once more`;
        """)
        after = db.manifest()
        assert before.run_paths() == after.run_paths(), "no file of rows is written"
        assert everything(db, names) == everything(always, {})
        assert "FROM t$late" in str(db.execute("SHOW CREATE VIEW too_late"))
        assert "FROM kept h JOIN People n" in str(db.execute("SHOW CREATE VIEW by_name"))
        assert "t.v < 0" in str(db.execute("SHOW CREATE STREAM newest"))
    with everview.connect(store, spark) as db, everview.connect(str(tmp_path / "always"), spark) as always:
        for each, stream in ((always, "s"), (db, "t")):
            insert(each, stream, (2, 2, 13), (1, 1, 26))
            insert(each, stream, (2, 2, 14), (1, -1, 28))
        assert everything(db, names) == everything(always, {})
        assert db.manifest().counts["t"] == always.manifest().counts["s"]
        assert not db.manifest().next, "no plan is outdated"
        assert not any(kept.stays for kept in db.manifest().plans.values())
        assert rows(db.query("SELECT * FROM people")) == {(1, "uno"): 1, (2, "two"): 1}
        late = "SELECT k, v, _original FROM {}$late"
        assert rows(db.query(late.format("t"))) == rows(always.query(late.format("s")))
    assert check_at(store)[1], check_at(store)


def test_the_old_name_is_free(spark: SparkSession, tmp_path: Path) -> None:
    """A new stream, table or view of the old name starts empty, with state and a log of its own."""
    put(tmp_path / "in", "1.csv", f"1,5,{at(1)}\n2,7,{at(5)}\n")
    stream = f"CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in')"
    view = "CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s GROUP BY k"
    store = str(tmp_path / "store")
    with everview.connect(store, spark, partitions=1) as db:
        db.execute(f"{stream}; {view}; CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
        db.run()
        db.execute("ALTER STREAM s RENAME TO old; ALTER VIEW sums RENAME TO old_sums")
        db.execute("ALTER TABLE t RENAME TO u")
        assert db.run().rows == 0, "nothing is read again"
        assert rows(db.query("SELECT * FROM old_sums")) == {(1, 5): 1}
        db.execute(f"{stream}; {view}; CREATE TABLE t (k INT)")
        assert rows(db.query("SELECT * FROM t")) == {}
        assert rows(db.query("SELECT * FROM sums")) == {}
        put(tmp_path / "in", "2.csv", f"1,1,{at(20)}\n")
        db.run()
        put(tmp_path / "in", "3.csv", f"1,1,{at(30)}\n")
    with everview.connect(store, spark) as db:
        done = db.run()
        assert {n: a.rows for n, a in done.arrived.items()} == {"old": 1, "s": 1}
        assert {n: tuple(c) for n, c in db.manifest().counts.items() if n != "u"} == {
            "old": (4, 0, 0),
            "s": (3, 1, 0),
        }
        assert rows(db.query("SELECT * FROM old_sums")) == {(1, 6): 1, (2, 7): 1}
        assert rows(db.query("SELECT * FROM sums")) == {(1, 1): 1, (2, 7): 1}
        assert rows(db.query("SELECT * FROM u")) == {(1,): 1}
        logs = {path.name for path in Path(store, "checkpoint", "sources").iterdir()}
        assert {"s_73", "s_73_2"} <= logs
        # A view that is made now reads the files of the renamed stream again, without what was late.
        db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM old")
        db.execute("CREATE VIEW m AS SELECT COUNT(*) AS n FROM s")
        assert rows(db.query("SELECT * FROM n")) == {(3,): 1}
        assert rows(db.query("SELECT * FROM m")) == {(2,): 1}
    assert check_at(store)[1], check_at(store)


def test_a_name_changes_while_a_plan_does(spark: SparkSession, tmp_path: Path) -> None:
    """A plan that is to take over, and one that stays, have the state that they had."""
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, *range(9, 12))
        db.run()
        before = db.manifest()
        assert set(before.next) == {"pairs", "total"}
        db.execute("ALTER STREAM s RENAME TO t; ALTER VIEW pairs RENAME TO couples")
        assert set(db.manifest().next) == {"couples", "total"}
        assert len(db.manifest().of("state")) == len(before.of("state"))
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, *range(12, 30))
        db.run()
        assert not db.manifest().next
        assert db.manifest().plans["most"].stays
        db.execute("ALTER VIEW couples RENAME TO pairs")
        found = answers(db)
    with create(tmp_path / "always", spark, folder) as other:
        other.run()
        assert found == answers(other)
