"""What can go wrong around a store: one clear error each, and the store is as its last whole step left it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.errors import EverviewError, StoreError
from everview.ingest.intake import IntakeResult
from everview.maintenance import repair
from everview.pipeline import writer
from everview.storage import manifest as manifests
from everview.storage.addresses import file_of
from everview.storage.files import MEND_OR_RESTORE
from everview.storage.runs import TraceId
from tests.engine.crash import Kill, run_victim
from tests.engine.feeding import Feed, at, everything, put, rows

pytestmark = pytest.mark.spark

FED = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM {source};
CREATE VIEW sums AS SELECT k, SUM(v) AS v, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k;
CREATE VIEW big AS SELECT k FROM sums WHERE v > 5 EXCEPT SELECT k FROM s [RANGE 2 SECONDS];
"""
BY_HAND = """
CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
CREATE VIEW counted AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01');
"""
# What `sums` holds after the first file, and after the second; the last row of a file waits for the next.
FIRST = {(1, 2, 1): 1, (2, 5, 1): 1}
SECOND = {(1, 9, 2): 1, (2, 5, 1): 1, (3, 1, 1): 1, (9, 9, 1): 1}


def lines(*records: tuple[int, int, int]) -> str:
    return "".join(f"{k},{v},{at(second)}\n" for k, v, second in records)


def put_first(folder: Path) -> None:
    put(folder / "1.csv", lines((1, 2, 1), (2, 5, 2), (9, 9, 4)), 1)


def put_second(folder: Path) -> None:
    put(folder / "2.csv", lines((1, 7, 5), (3, 1, 6), (9, 9, 12)), 2)


def manifest_of(path: Path) -> bytes:
    """The last manifest as it lies there."""
    return max((path / "manifests").glob("*.json")).read_bytes()


def refused(work: Callable[[], Any], said: str) -> None:
    """Asserts the whole text of an error of ours."""
    with pytest.raises(EverviewError) as caught:
        work()
    assert str(caught.value) == said


def require_goes_on(db: Database) -> None:
    """A later run takes in what there is, and is right."""
    db.run()
    assert rows(db.query("SELECT k, v, n FROM sums")) == SECOND
    assert rows(db.query("SELECT k FROM big")) == {(1,): 1, (9,): 1}


# A store that is not what it was


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("everview.json", "the store {} was made by a newer Everview (format 99, this one reads 3 and 4)"),
        (
            "catalog.json",
            "{}/catalog.json: the catalog was written by a newer Everview (format 99, this one reads 5)",
        ),
        (
            "manifests/00000001.json",
            "{}/manifests/00000001.json: it was written by a newer Everview (format 99, this one reads 4)",
        ),
    ],
)
def test_a_store_of_a_newer_version(spark: SparkSession, tmp_path: Path, file: str, said: str) -> None:
    path = tmp_path / "store"
    with everview.connect(str(path), spark) as db:
        db.execute(BY_HAND)
    before = (path / file).read_text()
    (path / file).write_text(json.dumps({**json.loads(before), "format": 99}))
    kept = manifest_of(path)

    def read() -> None:
        with everview.connect(str(path), spark) as db:
            db.query("SELECT n FROM counted")

    def write() -> None:
        with everview.connect(str(path), spark) as db:
            db.insert("s", [{"k": 2, "ts": "2026-01-01 00:00:02"}])

    for work in (read, write):
        refused(work, f"{said.format(path)}\n  next: upgrade Everview")
    assert manifest_of(path) == kept
    (path / file).write_text(before)
    with everview.connect(str(path), spark) as db:
        db.run()
        assert rows(db.query("SELECT k, n FROM counted")) == {(1, 1): 1}


def test_a_file_of_a_run_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    path, come = tmp_path / "store", tmp_path / "in"
    put_first(come)
    with everview.connect(str(path), spark, partitions=2) as db:
        db.execute(FED.format(source=f"csv('{come}')"))
        db.run()
        manifest = db._pipeline.store.manifest()
    put_second(come)
    kept = manifest_of(path)
    state = sorted({path / file_of(run.path) for runs in manifest.of("state").values() for run in runs})
    away = tmp_path / "away"
    away.mkdir()
    for number, file in enumerate(state[:2]):
        file.rename(away / str(number))
    next_step = (
        f"who only reads and has read for long: read again, the file was cleaned away; else {MEND_OR_RESTORE}"
    )
    more = f"is missing, and a manifest names it: manifests/{manifest.step:08}.json (and 1 more file)"
    with everview.connect(str(path), spark) as db, everview.connect(str(path), spark) as reader:
        refused(db.run, f"{state[0]} {more}\n  next: {next_step}")
        assert rows(reader.query("SELECT k, v, n FROM sums")) == FIRST, "the state is not needed to ask"
    assert manifest_of(path) == kept
    for number, file in enumerate(state[:2]):
        (away / str(number)).rename(file)
    with everview.connect(str(path), spark) as db:
        require_goes_on(db)


def test_a_file_of_a_view_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Also who only asks is told which file."""
    path, come = tmp_path / "store", tmp_path / "in"
    put_first(come)
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(FED.format(source=f"csv('{come}')"))
        db.run()
        run = db._pipeline.store.manifest().runs(TraceId("view", "sums"))[0]
        file = path / file_of(run.path)
        file.rename(tmp_path / "away")
        refused(
            lambda: db.query("SELECT COUNT(*) FROM sums").collect(),
            f"{file} is missing\n"
            "  next: everview repair mends it, or names what is lost; everview restore puts a backup back",
        )
        (tmp_path / "away").rename(file)
        assert rows(db.query("SELECT k, v, n FROM sums")) == FIRST


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_manifest(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    """Who writes must not go on from the one before; who only reads may, and is warned."""
    path = tmp_path / "store"
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(BY_HAND)
        db.run()
        db.execute("INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:02')")
        db.run()
    last = max((path / "manifests").glob("*.json"))
    good = last.read_bytes()
    bad = {"cut": good[: len(good) // 2], "changed": good.replace(b'"present"', b'"absent"'), "empty": b""}[
        damage
    ]
    last.write_bytes(bad)
    step = int(last.stem)
    with everview.connect(str(path), spark) as db:
        with pytest.raises(manifests.DamagedManifest) as caught:
            db.run()
        what, _, next_step = str(caught.value).partition("\n")
        assert what.startswith(f"{last} is damaged: ")
        assert next_step == f"  next: {MEND_OR_RESTORE}"
    with everview.connect(str(path), spark) as reader, pytest.warns(UserWarning, match=f"before step {step}"):
        assert rows(reader.query("SELECT n FROM counted")) == {(1,): 1}
    assert last.read_bytes() == bad
    last.write_bytes(good)
    with everview.connect(str(path), spark) as db:
        db.run()
        assert rows(db.query("SELECT n FROM counted")) == {(2,): 1}


def test_a_damaged_manifest_is_mended_as_the_error_says(spark: SparkSession, tmp_path: Path) -> None:
    path, come = tmp_path / "store", tmp_path / "in"
    put_first(come)
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(FED.format(source=f"csv('{come}')"))
        db.run()
        put_second(come)
        db.run()
    last = max((path / "manifests").glob("*.json"))
    last.write_bytes(last.read_bytes()[:-20])
    assert repair(str(path), spark=spark)[1]
    with everview.connect(str(path), spark) as db:
        require_goes_on(db)


# A disk that is full


def test_a_full_disk(spark: SparkSession, tmp_path: Path) -> None:
    """In a task, in a merge, at the manifest, at an INSERT: it is said, and the next attempt goes on."""
    feed = Feed(tmp_path / "in", 5)
    with everview.connect(str(tmp_path / "undisturbed"), spark, partitions=2) as db:
        db.execute(feed.script)
        feed.work(db, feed.rounds)
        db.run(finish=True)
        expected = everything(db)
    (tmp_path / "full").mkdir()
    where = ("intake", "run", "compact", "merge", "manifest", "insert")
    done = run_victim(tmp_path / "full", 5, 5, *(Kill(place, 3, "full") for place in where))
    assert done.returncode == 0, done.stderr
    store = tmp_path / "full" / "store"
    said = [
        line for line in (tmp_path / "full" / "log").read_text().splitlines() if line.startswith("refused")
    ]
    pattern = (
        rf"refused there is no space left to write {re.escape(str(store))}/(\w+)/\S+  "
        "next: make space and start again; the store is as its last finished step left it"
    )
    folders = [m[1] for line in said if (m := re.fullmatch(pattern, line))]
    assert len(folders) == len(said) == len(where), said
    assert {"runs", "manifests"} < set(folders)
    with everview.connect(str(store), spark) as db:
        assert everything(db) == expected


# Sources that go away or change


def test_a_source_folder_vanishes(spark: SparkSession, tmp_path: Path) -> None:
    path, come = tmp_path / "store", tmp_path / "in"
    put_first(come)
    with everview.connect(str(path), spark, partitions=2) as db:
        db.execute(FED.format(source=f"csv('{come}')"))
        db.run()
        kept = manifest_of(path)
        come.rename(tmp_path / "away")
        refused(
            db.run,
            f"'s' reads {come}, and there is nothing\n"
            "  next: check the path; a folder may be empty, but must be there",
        )
        assert manifest_of(path) == kept
        assert rows(db.query("SELECT k, v, n FROM sums")) == FIRST
        (tmp_path / "away").rename(come)
        put_second(come)
        require_goes_on(db)


def test_a_source_file_vanishes_before_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, come = tmp_path / "store", tmp_path / "in"
    put_first(come)
    take_in = writer.take_in

    def without_the_file(*args: Any) -> IntakeResult:
        (come / "2.csv").rename(tmp_path / "2.csv")
        return take_in(*args)

    with everview.connect(str(path), spark, partitions=2) as db:
        db.execute(FED.format(source=f"csv('{come}')"))
        db.run()
        kept = manifest_of(path)
        put_second(come)
        monkeypatch.setattr(writer, "take_in", without_the_file)
        refused(
            db.run,
            f"{come}/2.csv was there and is gone, before it was read\n"
            "  next: put it back and run again; the store is as it was after the last whole step",
        )
        monkeypatch.undo()
        assert manifest_of(path) == kept
        assert rows(db.query("SELECT k, v, n FROM sums")) == FIRST
        (tmp_path / "2.csv").rename(come / "2.csv")
        require_goes_on(db)


def test_the_type_of_a_column_changes(spark: SparkSession, tmp_path: Path) -> None:
    path, come = tmp_path / "store", tmp_path / "in"

    def put_parquet(name: str, type_: str, *records: tuple[int, int, int]) -> None:
        values = ", ".join(f"({k}, {v}, timestamp'{at(second)}')" for k, v, second in records)
        frame = spark.sql(f"SELECT k, CAST(v AS {type_}) AS v, ts FROM VALUES {values} AS rows(k, v, ts)")
        frame.coalesce(1).write.parquet(str(tmp_path / name))
        come.mkdir(exist_ok=True)
        next((tmp_path / name).glob("*.parquet")).rename(come / f"{name}.parquet")

    put_parquet("1", "INT", (1, 2, 1), (2, 5, 2), (9, 9, 4))
    with everview.connect(str(path), spark, partitions=2) as db:
        db.execute(FED.format(source=f"parquet('{come}')"))
        db.run()
        later = ((1, 7, 5), (3, 1, 6), (9, 9, 12))
        put_parquet("2", "STRING", *later)
        assert db.run().arrived["s"].rejected == 3
        reasons = rows(db.query("SELECT _reason FROM s$rejected"))
        assert reasons == {(f"v: string of {come}/2.parquet does not fit INT",): 3}
        assert rows(db.query("SELECT k, v, n FROM sums")) == FIRST
        put_parquet("3", "INT", *later)
        require_goes_on(db)


# Two at a time


HOLDER = """
import sys
from everview.storage.store import Store
with Store.open(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""
SECOND_WRITER = """
import sys, everview
from everview.errors import EverviewError
try:
    everview.connect(sys.argv[1]).insert("s", [{"k": 7, "ts": "2026-01-01 00:00:07"}])
except EverviewError as error:
    print(error)
"""


def test_two_processes_on_one_store(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    next_step = "  next: stop that process first; to read the store needs no lock"
    with everview.connect(path, spark, partitions=1) as db:
        db.execute(BY_HAND)
        db.run()
        kept = manifest_of(tmp_path / "store")
        other = subprocess.run(
            [sys.executable, "-c", SECOND_WRITER, path], capture_output=True, text=True, check=True
        )
        mine = f"the store {path} is being written by process {os.getpid()} on {socket.gethostname()}, "
        assert re.fullmatch(f"{re.escape(mine)}{since}\n{re.escape(next_step)}\n", other.stdout)
        assert manifest_of(tmp_path / "store") == kept
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with everview.connect(path, spark) as db:
            assert rows(db.query("SELECT k, n FROM counted")) == {(1, 1): 1}
            with pytest.raises(StoreError) as caught:
                db.run()
            theirs = f"the store {path} is being written by process {holder.pid} on {socket.gethostname()}, "
            assert re.fullmatch(f"{re.escape(theirs)}{since}\n{re.escape(next_step)}", str(caught.value))
            holder.kill()
            holder.wait()
            db.insert("s", [{"k": 1, "ts": "2026-01-01 00:00:07"}])
            db.run()
            assert rows(db.query("SELECT k, n FROM counted")) == {(1, 2): 1}


def test_a_reader_sees_whole_steps(spark: SparkSession, tmp_path: Path) -> None:
    """While one writes, whatever another reads are views of one and the same step."""
    path, come = str(tmp_path / "store"), tmp_path / "in"
    for i in range(8):
        first = [(k, 1, 0) for k in range(4)] if i == 0 else []
        pairs = [(j % 4, sign * (i + j), 5 * i + 1) for j in range(6) for sign in (1, -1)]
        put(come / f"{i}.csv", lines(*first, *pairs), i)
    both = "FROM whole t CROSS JOIN sums s GROUP BY t.v, t.n"
    failures: list[Exception] = []
    with everview.connect(path, spark, partitions=2) as db, everview.connect(path, spark) as reader:
        db.execute(FED.format(source=f"csv('{come}', maxFilesPerTrigger => 1)"))
        db.execute("CREATE VIEW whole AS SELECT SUM(v) AS v, SUM(n) AS n FROM sums")

        def write() -> None:
            try:
                db.run()
            except Exception as error:
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        seen = set()
        while writer.is_alive():
            for v, n, v2, n2 in reader.query(f"SELECT t.v, t.n, SUM(s.v), SUM(s.n) {both}").collect():
                assert (v, n) == (v2, n2)
                seen.add((v, n))
        writer.join()
        assert not failures
        assert {v for v, _ in seen} == {4}, "what comes at one instant adds nothing"
        assert len(seen) > 1
        assert rows(reader.query("SELECT v FROM whole")) == {(4,): 1}


# Names that are there already


def test_a_create_that_differs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with everview.connect(str(path), spark, partitions=2) as db:
        db.execute(BY_HAND)
        db.run()
        kept, names = manifest_of(path), (path / "catalog.json").read_bytes()
    with everview.connect(str(path), spark) as db:
        for sql, said in (
            (
                "CREATE STREAM s (k BIGINT, ts TIMESTAMP, TIMELINE ts)",
                "there is already a stream 's' with another definition\n"
                "  next: DROP it first, or choose another name (DESCRIBE s shows what it is)",
            ),
            (
                "CREATE VIEW counted AS SELECT k, SUM(k) AS n FROM s GROUP BY k",
                "there is already a view 'counted' with another definition\n"
                "  next: use CREATE OR REPLACE VIEW",
            ),
        ):
            with pytest.raises(EverviewError) as caught:
                db.execute(sql)
            assert re.sub(r"\n  line .*?\^+", "", str(caught.value), flags=re.DOTALL) == said
        assert (path / "catalog.json").read_bytes() == names
        assert manifest_of(path) == kept
        db.execute(BY_HAND.split("INSERT")[0])
        assert (path / "catalog.json").read_bytes() == names, "the same CREATE again is no change"
        assert rows(db.query("SELECT k, n FROM counted")) == {(1, 1): 1}
    refused(
        lambda: everview.connect(str(path), spark, partitions=3),
        f"the store {path} was made with 2 partitions and time zone UTC, not with 3 partitions and time zone "
        "UTC\n  next: leave that out, or make another store",
    )
