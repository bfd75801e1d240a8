"""ALTER in the life of a store: interrupted, while steps go on, with backups and repairs."""

from __future__ import annotations

import shutil
import tarfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from everview.maintenance import check_at, repair
from everview.storage.files import Files
from tests.engine.reading import put

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"2026-01-01 00:{second // 60:02}:{second % 60:02}"


class Interrupted(BaseException):
    """What stands for kill -9: nothing is written after it."""


def interrupt(monkeypatch: pytest.MonkeyPatch, call: int) -> list[str]:
    """Interrupt before the n-th write or deletion of a file; return the list of those that were done."""
    done: list[str] = []

    def watch(name: str) -> None:
        original = getattr(Files, name)

        def watched(files: Files, path: str, *args: Any) -> Any:
            if len(done) >= call:
                raise Interrupted(path)
            done.append(path)
            return original(files, path, *args)

        monkeypatch.setattr(Files, name, watched)

    watch("write")
    watch("delete")
    return done


ALTERS = {
    "rename": "ALTER STREAM s RENAME TO t",
    "column": "ALTER STREAM s ADD COLUMN b INT",
    "view": "ALTER VIEW held RENAME TO kept",
}


@pytest.mark.parametrize("kind", ALTERS)
def test_interrupted_at_each_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Before or after, never between; the store goes on either way."""
    first = tmp_path / "first"
    with everview.connect(str(first), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW held AS SELECT * FROM s [RANGE 50 SECONDS];
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM held;
        """)
        db.insert("s", [{"k": 1, "ts": at(1)}, {"k": 2, "ts": at(2)}])
        db.run()
        before = db.manifest()
    outcomes: list[bool] = []
    for call in range(20):
        store = tmp_path / f"store{call}"
        shutil.copytree(first, store)
        done: list[str] = []
        with everview.connect(str(store), spark) as db, monkeypatch.context() as crash:
            db.hold()
            done = interrupt(crash, call)
            with suppress(Interrupted):
                db.execute(ALTERS[kind])
        whole = len(done) < call
        with everview.connect(str(store), spark) as db:
            after = db.manifest().step > before.step
            assert after == ("t" in db.catalog or "kept" in db.catalog or "b INT" in _created(db))
            assert set(db.manifest().plans) == {e.name for e in db.catalog if e.kind == "view"}
            if (after and not any(outcomes)) or whole:
                _go_on(db, kind)
                assert check_at(str(store))[1], check_at(str(store))
            outcomes.append(after)
        if whole:
            break
    assert outcomes == sorted(outcomes), "from some write on it is done"
    assert outcomes[-1]
    assert not outcomes[0]


def _created(db: Database) -> str:
    return str(db.execute(f"SHOW CREATE STREAM {'t' if 't' in db.catalog else 's'}"))


def _go_on(db: Database, kind: str) -> None:
    stream = "t" if kind == "rename" else "s"
    db.insert(stream, [{"k": 3, "ts": at(3)}])
    db.run()
    assert rows(db.query("SELECT * FROM n")) == {(3,): 1}
    assert not db.manifest().next
    if kind == "column":
        db.execute("CREATE VIEW later AS SELECT k, b FROM s")
        assert rows(db.query("SELECT * FROM later")) == {(k, None): 1 for k in (1, 2, 3)}


def test_names_change_while_steps_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """The steps in the background pause, and go on under the new names."""
    put(tmp_path / "in", "1.csv", f"k,ts\n1,{at(1)}\n2,{at(5)}\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in', header => true);
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
        """)
        db.start(interval="100 milliseconds")
        _wait(db, "n", 1)
        db.execute("ALTER STREAM s RENAME TO t; ALTER STREAM t ADD COLUMN b INT; ALTER VIEW n RENAME TO m")
        put(tmp_path / "in", "2.csv", f"k,ts,b\n3,{at(10)},30\n4,{at(20)},40\n")
        _wait(db, "m", 3)
        db.execute("CREATE VIEW later AS SELECT b FROM t")
        assert rows(db.query("SELECT * FROM later")) == {(None,): 2, (30,): 1}
        db.stop()
        assert db.manifest().counts["t"] == (4, 0, 0)


def _wait(db: Database, view: str, number: int) -> None:
    deadline = time.monotonic() + 60
    while rows(db.query(f"SELECT * FROM {view}")) != {(number,): 1}:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_backup_and_repair(spark: SparkSession, tmp_path: Path) -> None:
    """What a repair takes from an earlier manifest, or from files, goes by the names and columns of now."""
    put(tmp_path / "in", "1.csv", f"1,{at(1)}\n2,{at(5)}\n")
    store = tmp_path / "store"
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM f (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in');
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
            CREATE VIEW m AS SELECT k FROM f;
        """)
        db.insert("s", [{"k": 1, "ts": at(1)}, {"k": 2, "ts": at(9)}])
        db.run()
        db.execute("ALTER STREAM s RENAME TO t; ALTER STREAM t ADD COLUMN b INT; ALTER STREAM f RENAME TO g")
        db.backup(str(tmp_path / "backup"))
        db.insert("t", [{"k": 3, "ts": at(10), "b": 30}])
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "restored"))
    with everview.connect(str(tmp_path / "restored"), spark) as db:
        db.insert("t", [{"k": 4, "ts": at(20), "b": 40}])
        db.run(finish=True)
        assert rows(db.query("SELECT k, b FROM t")) == {(1, None): 1, (2, None): 1, (4, 40): 1}
    # The manifests since the last run are lost: those of the alterations, and that of the insert.
    lost = sorted((store / "manifests").iterdir())[-4:]
    for path in lost:
        path.write_text("damaged")
    assert not check_at(str(store))[1]
    repair(str(store), accept_losses=True, spark=spark)
    assert check_at(str(store))[1], check_at(str(store))
    put(tmp_path / "in", "2.csv", f"3,{at(30)}\n4,{at(40)}\n")
    with everview.connect(str(store), spark) as db:
        db.insert("t", [{"k": 5, "ts": at(50), "b": 50}])
        db.run(finish=True)
        held = {(1, None): 1, (2, None): 1, (3, 30): 1, (5, 50): 1}
        assert rows(db.query("SELECT k, b FROM t")) == held
        assert rows(db.query("SELECT * FROM n")) == {(4,): 1}
        assert rows(db.query("SELECT * FROM m")) == {(k,): 1 for k in (1, 2, 3, 4)}


def test_a_store_of_an_earlier_release(spark: SparkSession, tmp_path: Path) -> None:
    """It has no plans, and nothing that tells where columns are."""
    stored = Path(__file__).parent.parent / "stores" / "format-3.tar.gz"
    with tarfile.open(stored) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute("ALTER STREAM bids RENAME TO offers; ALTER VIEW totals RENAME TO sums")
        db.execute("ALTER STREAM offers ADD COLUMN note STRING DEFAULT 'none'")
        db.execute("""INSERT INTO offers VALUES
            (1, 5, TIMESTAMP '2026-01-01 00:00:12', 'new'), (2, 6, TIMESTAMP '2026-01-01 00:00:13', NULL)""")
        db.run()
        assert rows(db.query("SELECT * FROM sums")) == {(1, 2, 25): 1, (2, 3, 27): 1}
        assert rows(db.query("SELECT * FROM named")) == {("chair", 3, 27): 1, ("lamp", 2, 25): 1}
        db.execute("CREATE VIEW notes AS SELECT note, COUNT(*) AS n FROM offers GROUP BY note")
        assert sum(n for _, n in rows(db.query("SELECT * FROM notes"))) == db.manifest().counts["offers"][0]
