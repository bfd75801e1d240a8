"""Stores that are taken back in time go on as if they had never been further."""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from everview.errors import StoreError
from everview.maintenance import check_at, repair
from everview.operators.columnar.frame import BEFORE_ALL
from tests.engine.test_faults_of_views import damage

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1)
Row = tuple[int, int, int]  # k, v, second

VIEWS = {
    "held": "SELECT k, v FROM s [RANGE 8 SECONDS]",
    "sums": "SELECT k, SUM(v) AS v, COUNT(*) AS n FROM held GROUP BY k",
    "named": "SELECT s.k, name FROM s [RANGE 6 SECONDS] JOIN t ON s.k = t.k",
    "rest": "SELECT k FROM s [RANGE 9 SECONDS] EXCEPT ALL SELECT k FROM h [RANGE 5 SECONDS]",
    "now_and_then": "SELECT k, v FROM latest SYNC EVERY INTERVAL '4' SECOND",
    "last": "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "most": "SELECT MAX(v) AS v FROM sums",
}


def rows(answer: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: float) -> str:
    return (START + timedelta(seconds=second)).isoformat(sep=" ")


def script(folder: Path) -> str:
    return f"""
        CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' SECOND)
          FROM csv('{folder}');
        CREATE STREAM h (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '1' SECOND);
        CREATE TAGGED STREAM latest OVER h KEY (k) DELETE WHEN v = 0;
        CREATE TABLE t (k INT, name STRING);
        INSERT INTO t VALUES (0, 'zero'), (1, 'one');
        {"".join(f"CREATE VIEW {name} AS {sql};" for name, sql in VIEWS.items())}
    """


def put(path: Path, lines: list[Row]) -> None:
    """Write a file that was changed a while ago: Spark reads files in the order of their times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{k},{v},{at(t)}\n" for k, v, t in lines))
    os.utime(path, (1_700_000_000 + int(path.stem),) * 2)


def insert(db: Database, name: str, lines: list[Row]) -> None:
    if lines:
        db.insert(name, [(k, v, START + timedelta(seconds=t)) for k, v, t in lines])


def late_rows(db: Database, name: str) -> Counter[Row]:
    found = db.query(f"SELECT k, v, ts FROM {name}$late").collect()
    return Counter((k, v, int((ts - START).total_seconds())) for k, v, ts in found)


@pytest.fixture
def quiet() -> Iterator[None]:
    """No note may be given: every view is complete, and no file has changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.parametrize("seed", range(2))
def test_a_store_goes_on_as_if_it_had_never_been_further(
    spark: SparkSession, tmp_path: Path, quiet: None, seed: int
) -> None:
    """It equals a store that took, at once, all rows but those that stay late up to the instant."""
    rng = random.Random(seed)
    sent: dict[str, list[Row]] = {"s": [], "h": []}

    def send(db: Database, number: int) -> None:
        for name in sent:
            times = [8 * number + rng.randrange(10) for _ in range(6)]
            times += [rng.randrange(8 * number + 1) for _ in range(2)]  # late, as a rule
            new = [(rng.randrange(3), rng.randrange(4), t) for t in times]
            sent[name] += new
            if name == "s":
                put(tmp_path / "in" / f"{number}.csv", new)
            else:
                insert(db, "h", new)
        db.run(finish=number == finish)

    finish = rng.choice([2, 3, -1])
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(script(tmp_path / "in"))
        changes = [f"INSERT INTO t VALUES (2, 'two') AT TIMESTAMP '{at(rng.randrange(5, 40))}'"]
        changes += [f"UPDATE t SET name = 'ONE' WHERE k = 1 AT TIMESTAMP '{at(rng.randrange(5, 40))}'"]
        for change in changes:
            db.execute(change)
        for number in range(4):
            send(db, number)
        to = rng.randrange(1, 26)
        then = {view: rng.choice([to, to // 2]) for view in VIEWS}
        earlier = {v: rows(db.query(f"SELECT * FROM {v}", as_of=at(t))) for v, t in then.items()}
        step = db.manifest().step
        report = str(db.rewind(at(to)))
        assert "done: the store is known to" in report
        manifest = db.manifest()
        assert not manifest.finished
        assert max([manifest.bound, *(b for own in manifest.bounds.values() for b in own.values())]) <= (
            (START + timedelta(seconds=to)) - datetime(1970, 1, 1)
        ) // timedelta(microseconds=1)
        for view, answer in earlier.items():
            assert rows(db.query(f"SELECT * FROM {view}", as_of=at(then[view]))) == answer, view
        for name in sent:
            assert all(t <= to for _, _, t in late_rows(db, name)), name
        with pytest.raises(StoreError, match=f"changes up to step {step} count no longer"):
            db.changes("sums", since=step)
        for number in range(4, 6):
            send(db, number)
        db.execute("CREATE VIEW later AS SELECT k, SUM(v + 0) AS v, COUNT(*) AS n FROM held GROUP BY k")
        db.run(finish=True)
        assert rows(db.changes("later")) == rows(db.changes("sums"))
        taken = {name: Counter(sent[name]) - late_rows(db, name) for name in sent}
        assert {name: db.manifest().counts[name][0] for name in sent} == {
            name: sum(number.values()) for name, number in taken.items()
        }
        with everview.connect(str(tmp_path / "anew"), spark, partitions=2) as anew:
            put(tmp_path / "anew_in" / "0.csv", list(taken["s"].elements()))
            anew.execute(script(tmp_path / "anew_in"))
            for change in changes:
                anew.execute(change)
            insert(anew, "h", list(taken["h"].elements()))
            anew.run(finish=True)
            for view in VIEWS:
                assert rows(db.changes(view, "intervals")) == rows(anew.changes(view, "intervals")), view


def test_a_wrong_row_that_moved_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """The file is mended, the store is taken back: the rows that were late since are taken in."""
    folder, store = tmp_path / "in", tmp_path / "store"
    put(folder / "1.csv", [(1, 1, 1), (2, 2, 2)])
    put(folder / "2.csv", [(1, 3, 3), (2, 4, 4_000_000)])
    (folder / "2.csv").write_text((folder / "2.csv").read_text() + "broken\n")
    os.utime(folder / "2.csv", (1_700_000_002,) * 2)
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}');
            CREATE COMPLETE VIEW sums AS SELECT k, SUM(v) AS v FROM s GROUP BY k;
        """)
        db.run()
        put(folder / "3.csv", [(1, 5, 5), (2, 6, 6), (7, 7, 1)])
        db.run()
        assert db.manifest().counts["s"] == (4, 3, 1)
        assert "take the next run to 2026-02-16T07:06:39.999999, as far as before" in str(db.rewind(at(2)))
        db.run()
        far = db.manifest().bound
        db.rewind(at(2), reject_after=at(1000))
        db.run()
        db.execute("CREATE VIEW without AS SELECT k, SUM(v - 0) AS v FROM s GROUP BY k")
        assert rows(db.query("SELECT * FROM sums")) == rows(db.query("SELECT * FROM without"))
        assert rows(db.query("SELECT * FROM sums")) == {(1, 9): 1, (2, 2): 1}
        assert db.manifest().counts["s"] == (5, 1, 2)
        assert str(db.execute("REPLAY s$rejected WHERE _reason LIKE '%taken back in time'")).startswith(
            "1 row"
        )
        db.run()
        assert db.manifest().bound == far, "the row counts again"
        put(folder / "2.csv", [(1, 3, 3), (2, 4, 4)])
        os.utime(folder / "2.csv", (1_700_000_009,) * 2)
        db.run()
        assert "was changed after it was found" in str(db.query("SELECT _reason FROM s$rejected").collect())
        report = str(db.rewind(at(2), dry_run=True))
        assert "2.csv, which was changed since 's' read it, is read anew" in report
        assert db.manifest().bound == far, "nothing was done"
        report = str(db.rewind(at(2)))
        assert "the rows that are there take the next run to 2026-01-01T00:00:05.999999" in report
        assert rows(db.query("SELECT * FROM sums")) == {(1, 1): 1, (2, 2): 1}
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            db.run()
            db.execute("CREATE VIEW later AS SELECT k, SUM(v + 0) AS v FROM s GROUP BY k")
            db.run(finish=True)
        expected = {(1, 9): 1, (2, 12): 1}
        assert rows(db.query("SELECT * FROM sums")) == rows(db.query("SELECT * FROM later")) == expected
        assert rows(db.changes("sums")) == rows(db.changes("later"))
        assert late_rows(db, "s") == {(7, 7, 1): 1}
        assert rows(db.query("SELECT * FROM s$rejected")) == {}
        assert db.manifest().counts["s"] == (6, 1, 0)
    assert check_at(str(store))[1]


def test_a_rewind_that_is_interrupted_has_done_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a file that was written before the end is, the store is the one of before."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM h (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM h;
        """)
        with pytest.raises(StoreError, match="has not run yet"):
            db.rewind(at(1))
        insert(db, "h", [(1, 1, t) for t in range(1, 6)])
        db.run(finish=True)
        insert(db, "h", [(2, 1, 3), (2, 1, 6)])
        with pytest.raises(StoreError, match="nothing can change any more") as refused:
            db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
        assert "everview rewind --to" in str(refused.value)
        before = db.manifest()
        store = db._pipeline.store

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(store), "write_manifest", fail)
            with pytest.raises(KeyboardInterrupt):
                db.rewind(at(4))
        assert db.manifest() == before
        assert rows(db.query("SELECT * FROM n")) == {(5,): 1}
        db.rewind(at(4))
        assert rows(db.query("SELECT * FROM n")) == {(4,): 1}
        assert late_rows(db, "h") == {(2, 1, 3): 1}
        assert "there is nothing to take back" in str(db.rewind(at(4)))
        db.run()
        assert rows(db.query("SELECT * FROM n")) == {(6,): 1}
        step = db.manifest().step
        insert(db, "h", [(3, 1, 9)])
        db.run()
        assert rows(db.changes("n", since=step).select("n")) == {(7,): 1}
        insert(db, "h", [(4, 4, 5000)])
        db.run()
        insert(db, "h", [(5, 5, 10)])
        with pytest.raises(StoreError, match="after which rows are rejected, is before"):
            db.rewind(at(9), reject_after=at(8))
        db.rewind(at(9), reject_after=at(100))
        db.run()
        assert rows(db.query("SELECT * FROM n")) == {(8,): 1}
        found = db.query("SELECT _original FROM h$rejected").collect()
        assert [text for (text,) in found] == ['{"k":4,"v":4,"ts":"2026-01-01T01:23:20.000Z"}']
    assert repair(str(tmp_path / "store"), spark=spark)[1]


def test_names_that_changed_and_views_that_were_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Up to the instant, a replaced view answers as it did; one that was set aside stays so."""
    folder, store = tmp_path / "in", tmp_path / "store"
    put(folder / "1.csv", [(1, 1, 1), (2, 2, 4)])
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM old (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}');
            CREATE VIEW v AS SELECT COUNT(*) AS n FROM old;
        """)
        db.run()
        db.execute("ALTER STREAM old RENAME TO s; ALTER STREAM s ADD COLUMN w INT")
        put(folder / "2.csv", [(1, 5, 6)])
        (folder / "3.csv").write_text(f"2,1,{at(9)},7\n")
        db.run()
        db.execute("CREATE OR REPLACE VIEW v AS SELECT 10 * COUNT(*) AS n FROM s")
        db.execute("CREATE VIEW wide AS SELECT k, v, w FROM s")
        put(folder / "4.csv", [(1, 5, 12)])
        db.run()
        db.execute("CREATE VIEW odd AS SELECT k, SUM(v) AS v FROM s GROUP BY k")
        put(folder / "5.csv", [(1, 5, 8)])
        damage(db, "odd")
        with pytest.warns(UserWarning, match="the view 'odd' was set aside"):
            db.run(finish=True)
        assert "the view 'odd' stays set aside" in str(db.rewind(at(5)))
        assert rows(db.query("SELECT * FROM v", as_of=at(4))) == {(2,): 1}
        with pytest.raises(StoreError, match="lies after the bound"):
            db.query("SELECT * FROM v", as_of=at(6))
        db.backup(str(tmp_path / "backup"))
        db.run(finish=True)
        assert rows(db.query("SELECT * FROM v", as_of=at(5))) == {(2,): 1}
        assert rows(db.query("SELECT * FROM v", as_of=at(6))) == {(30,): 1}
        expected = {(1, 1, None): 1, (2, 2, None): 1, (1, 5, None): 3, (2, 1, 7): 1}
        assert rows(db.query("SELECT * FROM wide")) == expected
        assert rows(db.query("SELECT * FROM v")) == {(60,): 1}
        db.execute("ALTER VIEW odd RESUME")
        assert rows(db.query("SELECT * FROM odd")) == {(1, 16): 1, (2, 3): 1}
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "copy"))
    with everview.connect(str(tmp_path / "copy"), spark) as db:
        db.run(finish=True)
        assert rows(db.query("SELECT * FROM wide")) == expected


def test_a_source_that_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (timestamp TIMESTAMP, value BIGINT, TIMELINE timestamp)
              FROM rate(rowsPerSecond => 20);
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
        """)
        db.start("200 milliseconds")
        while db.manifest().bound == BEFORE_ALL or db.manifest().step < 3:
            db.status()
        bound = db.manifest().bound
        to = datetime(1970, 1, 1) + timedelta(microseconds=bound - 100_000)
        refused = str(db.rewind(to))
        assert "lost: the rows of 's' after" in refused
        assert "lost: the view 'n' before" in refused
        assert refused.endswith("nothing was done: --yes accepts what is lost")
        assert db.manifest().bound >= bound
        done = str(db.rewind(to, accept_losses=True))
        assert "done: the store is known to" in done
        db.stop()
        assert "complete since: 2" in str(db.execute("DESCRIBE n"))
        assert rows(db.query("SELECT * FROM n"))
