"""Backups of stores that run: each, put back and run on, ends as the store that ran through."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.maintenance import check_at
from everview.storage.files import Files
from everview.storage.held import HELD
from everview.storage.store import SETTINGS_FILE
from tests.engine.feeding import Feed, at, put, rows

pytestmark = pytest.mark.spark

EVERVIEW = Path(sys.executable).with_name("everview")
FILES = 10
VIEWS = ("paid", "sums", "newest")


def script(feed: Feed) -> str:
    """The views of the feed over its two sources, without the stream that is fed by INSERT."""
    statements = feed.script.split(";")
    return ";".join(s for s in statements if "stopped" not in s)


def shown(db: Database) -> dict[str, object]:
    found: dict[str, object] = {view: rows(db.changes(view, "intervals")) for view in VIEWS}
    for name in ("orders", "payments"):
        found |= {
            f"{name} {k}": rows(db.query(f"SELECT _original FROM {name}${k}")) for k in ("late", "rejected")
        }
    return found


def test_backups_while_steps_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Another process takes backups while files come, steps go on and old files are cleaned away."""
    store, feed = tmp_path / "store", Feed(tmp_path / "in", FILES // 2)
    coming = feed_files(feed)
    next(coming)
    backups: list[Path] = []
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(script(feed))
        db.start("50 milliseconds")
        while db.manifest().step < 1:
            db.status()
            time.sleep(0.1)
        for _ in coming:
            backups.append(tmp_path / f"backup{len(backups)}")
            command = [str(EVERVIEW), "backup", str(backups[-1]), "--path", str(store)]
            done = subprocess.run(command, text=True, capture_output=True)
            assert (done.returncode, done.stderr) == (0, ""), done
            db.status()
        db.backup(str(tmp_path / "own"))
        db.stop()
        db.run(finish=True)
        expected = shown(db)
    assert not any((store / HELD).iterdir())
    steps = []
    for number, backup in enumerate([*backups, tmp_path / "own"]):
        copy = tmp_path / f"copy{number}"
        restored = everview.restore(str(backup), str(copy))
        steps.append(int(str(restored.records[0]["step"])))
        report, well = check_at(str(copy))
        assert well, str(report)
    assert steps == sorted(steps), "later backups are of later steps"
    assert steps[0] < steps[-1]
    for number in (0, len(backups) // 2, len(backups)):
        with everview.connect(str(tmp_path / f"copy{number}"), spark) as db:
            db.run(finish=True)
            assert shown(db) == expected, number


def feed_files(feed: Feed) -> Iterator[None]:
    """Bring the files of the feed one after the other."""
    for number in range(FILES // 2):
        for file in range(2):
            for name in ("orders", "payments"):
                feed._put(name, number, file)
            yield


def test_a_backup_has_all_that_a_store_has(spark: SparkSession, tmp_path: Path) -> None:
    """Tables, scheduled changes, inserted, late, rejected and waiting rows, replaced and later views."""
    store, source = tmp_path / "store", tmp_path / "in"
    put(source / "1.csv", f"1,{at(1)}\n2,{at(20)}\nx,y\n", 1)
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE STREAM h (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k));
            INSERT INTO t VALUES (1, 'one'), (2, 'two');
            CREATE COMPLETE VIEW v AS SELECT s.k, t.name FROM s JOIN t ON s.k = t.k;
            INSERT INTO h VALUES (7, TIMESTAMP '{at(10)}');
        """)
        db.run()
        put(source / "2.csv", f"1,{at(2)}\n2,{at(30)}\n", 2)
        db.execute("CREATE OR REPLACE VIEW v AS SELECT s.k, t.name, s.ts FROM s JOIN t ON s.k = t.k")
        db.execute(f"UPDATE t SET name = 'TWO' WHERE k = 2 AT TIMESTAMP '{at(40)}'")
        db.execute("CREATE VIEW later AS SELECT COUNT(*) AS n FROM s")
        db.run()
        db.backup(str(tmp_path / "backup"))

    def end(path: Path) -> list[object]:
        with everview.connect(str(path), spark) as db:
            db.execute(f"INSERT INTO h VALUES (8, TIMESTAMP '{at(50)}')")
            db.run(finish=True)
            names = ("v", "later", "h", "t", "s$late", "s$rejected")
            answers: list[object] = [rows(db.query(f"SELECT * FROM {name}")) for name in names]
            return [*answers, rows(db.changes("v")), rows(db.query("SELECT * FROM t", as_of=at(35)))]

    put(source / "3.csv", f"1,{at(60)}\n", 3)
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "deep" / "copy"))
    expected = end(store)
    assert end(tmp_path / "deep" / "copy") == expected
    shutil.rmtree(store)
    everview.restore(str(tmp_path / "backup"), str(store))
    assert end(store) == expected
    assert not Files(str(tmp_path / "backup")).exists(SETTINGS_FILE)
