"""Files as sources: timestamps far ahead, keys of tables, files that change, and counts that add up."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.time import DAY, HOUR, SECOND, parse_timestamp
from everview.database import Database
from everview.ingest import table_keys
from everview.storage.manifest import Manifest
from everview.storage.store import Store
from tests.engine.feeding import put, rows

pytestmark = pytest.mark.spark

NOON = parse_timestamp("2026-03-01 12:00:00")
assert NOON is not None


def counts(db: Database, name: str) -> tuple[int, ...]:
    """How many rows of a source were taken, late and rejected."""
    return tuple(db.manifest().counts.get(name, (0, 0, 0)))


def set_clock(db: Database, now: int) -> None:
    db._pipeline.now = lambda: now


# Silence


def test_silence_passes_time(spark: SparkSession, tmp_path: Path) -> None:
    """Windows end while nothing comes, and "nothing came for five minutes" becomes true."""
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) IDLE AFTER INTERVAL '2' SECOND;
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS];
            CREATE VIEW silent AS SELECT k FROM s EXCEPT ALL SELECT k FROM s [RANGE 5 MINUTES];
        """)
        set_clock(db, NOON)
        db.insert("s", [{"k": k, "ts": f"2020-01-01 00:00:0{k}"} for k in (1, 2, 3)])
        db.run()
        assert db.query("SELECT n FROM n").collect()[0].n == 3
        for seconds, wanted in ((1, 3), (4, 3), (6, 1), (120, 0)):
            set_clock(db, NOON + seconds * SECOND)
            db.run()
            assert db.query("SELECT n FROM n").collect()[0].n == wanted, seconds
        assert db.query("SELECT k FROM silent").count() == 0
    with everview.connect(path, spark, partitions=2) as db:
        set_clock(db, NOON + 330 * SECOND)
        db.run()
        assert db.query("SELECT k FROM silent").count() == 3
        assert db.query("SELECT n FROM n", as_of="2020-01-01 00:00:06.5").collect()[0].n == 2
        assert db.insert("s", [{"k": 9, "ts": "2020-01-01 00:05:00"}]).late == 1
        assert db.insert("s", [{"k": 9, "ts": "2020-01-01 00:06:00"}]).rows == 1


# Timestamps ahead of the clock


@pytest.mark.parametrize(
    ("clause", "taken"),
    [("", [1, 2, 4, 5]), ("MAX AHEAD INTERVAL '1' HOUR", [1, 4, 5]), ("MAX AHEAD NONE", [1, 2, 3])],
)
def test_a_timestamp_far_ahead_does_not_move_time(
    spark: SparkSession, tmp_path: Path, clause: str, taken: list[int]
) -> None:
    """Milliseconds that were read as seconds are rejected, and later rows are not late for it."""
    first = ["1,2026-03-01 11:00:00", "2,2026-03-02 12:00:00", "3,57971-02-25 00:00:00"]
    put(tmp_path / "in" / "1.csv", "\n".join(first) + "\n", 1)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' DAY)
              FROM csv('{tmp_path}/in') {clause};
            CREATE VIEW v AS SELECT k FROM s;
        """)
        set_clock(db, NOON)
        db.run()
        put(tmp_path / "in" / "2.csv", "4,2026-03-01 11:30:00\n5,2026-03-01 12:30:00\n", 2)
        db.run()
        assert counts(db, "s")[0] == len(taken)
        assert sum(counts(db, "s")) == 5
        db.run(finish=True)
        assert rows(db.query("SELECT k FROM v")) == {(k,): 1 for k in taken}
        if not clause:
            assert rows(db.query("SELECT * FROM s$rejected")) == {
                (
                    1,
                    "ts: 57971-02-25T00:00:00.000000 is more than 1 day ahead of the clock, which said "
                    "2026-03-01T12:00:00.000000; mend the timestamp, or make the stream with a longer "
                    "MAX AHEAD, or NONE",
                    "3,57971-02-25 00:00:00",
                ): 1
            }


def test_every_time_line_counts_and_inserted_rows_do_not(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "1.csv", "1,2026-03-01 11:00:00,2027-01-01 00:00:00\n", 1)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, seen TIMESTAMP, TIMELINE ts, TIMELINE seen)
              FROM csv('{tmp_path}/in');
            CREATE STREAM mine (k INT, ts TIMESTAMP, TIMELINE ts);
            INSERT INTO mine VALUES (1, TIMESTAMP '2999-01-01 00:00:00');
        """)
        set_clock(db, NOON)
        assert db.insert("mine", spark.sql("SELECT 2 AS k, TIMESTAMP '2999-01-01 00:00:00' AS ts")).rows == 1
        db.run()
        assert (counts(db, "s"), counts(db, "mine")) == ((0, 0, 1), (2, 0, 0))
        [said] = [r._reason for r in db.query("SELECT _reason FROM s$rejected").collect()]
        assert said.startswith("seen: 2027-01-01T00:00:00.000000 is more than 1 day ahead of the clock")


def test_a_step_that_is_run_again_goes_by_the_clock_of_the_attempt_that_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt rejects a row and is never finished; the second, two days later, takes it."""
    put(tmp_path / "in" / "1.csv", "1,2026-03-01 11:00:00\n2,2026-03-03 11:00:00\n", 1)
    script = f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in')"
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(script)
        set_clock(db, NOON)
        fail_at_manifest(monkeypatch, db)
    with everview.connect(str(tmp_path / "store"), spark) as db:
        assert counts(db, "s") == (0, 0, 0)
        set_clock(db, NOON + 2 * DAY)
        db.run()
        assert counts(db, "s") == (2, 0, 0)
        set_clock(db, NOON + HOUR)
        db.run()
        assert rows(db.query("SELECT _reason FROM s$rejected")) == {}, "what was taken stays taken"


def fail_at_manifest(monkeypatch: pytest.MonkeyPatch, db: Database) -> None:
    """A run that ends in the middle of a step: all was written but the manifest."""

    def fail(store: Store, manifest: Manifest) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write_manifest", fail)
        with pytest.raises(OSError, match="power"):
            db.run()


# Tables with a key


@dataclass
class Oracle:
    """A table that files feed, row by row."""

    table: dict[int, tuple[int, str]]
    rejected: Counter[str]
    rows: int = 0

    def load(self, lines: list[str]) -> None:
        seen: set[int] = set()
        for line in lines:
            key, _, name = line.partition(",")
            self.rows += 1
            if key == "":
                self.rejected["k: a column of the PRIMARY KEY cannot be NULL"] += 1
            elif not key.isdecimal():
                self.rejected[f"k: {key} is no INT"] += 1
            elif int(key) in seen:
                self.rejected[f"k: {key} is the key of an earlier row of the file"] += 1
            else:
                seen.add(int(key))
                self.table[int(key)] = (int(key), name)


@pytest.mark.parametrize("driver", [True, False])
def test_the_key_of_a_table_from_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: bool
) -> None:
    """Against the oracle: several files a batch, files in several parts, restarts, steps that are cut off."""
    if not driver:
        monkeypatch.setattr(table_keys, "COMPARE_ON_DRIVER", 0)
    rng = random.Random(f"keys {driver}")
    oracle = Oracle({}, Counter())
    number = 0
    script = f"""
        CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
        CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k)) FROM csv('{tmp_path}/t');
        CREATE VIEW named AS SELECT s.ts, t.name FROM s JOIN t ON s.k = t.k;
    """
    (tmp_path / "t").mkdir()
    for step in range(5):
        with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
            db._pipeline.session.conf.set("spark.sql.files.maxPartitionBytes", "20b")  # parts of files
            db.execute(script)
            for _ in range(rng.randrange(3) if step else 2):
                lines = [
                    f"{rng.choice(['', *'x01234'])},{rng.choice('abc')}{'z' * rng.randrange(9)}"
                    for _ in range(rng.randrange(1, 9))
                ]
                put(tmp_path / "t" / f"{9 - number}.csv", "\n".join(lines) + "\n", number)
                oracle.load(lines)
                number += 1
            db.insert("s", [{"k": k, "ts": f"2026-01-01 00:00:{2 * step:02}"} for k in range(5)])
            if step % 2:
                fail_at_manifest(monkeypatch, db)
            db.run()
            db.insert("s", [{"k": 99, "ts": f"2026-01-01 00:00:{2 * step + 1:02}"}])
            db.run()  # time goes on, and what came with the step holds now
            assert rows(db.query("SELECT k, name FROM t")) == Counter(oracle.table.values())
            joined = Counter((name,) for k, name in oracle.table.values() for _ in range(step + 1))
            assert rows(db.query("SELECT name FROM named")) == joined, "each key once"
            reason = "regexp_replace(_reason, ' of the file .*', ' of the file') AS _reason"
            told = rows(db.query(f"SELECT {reason} FROM t$rejected"))
            assert told == {(r,): n for r, n in oracle.rejected.items()}
            taken, late, rejected = counts(db, "t")
            assert (late, rejected, taken + rejected) == (0, oracle.rejected.total(), oracle.rows)


def test_a_corrected_row_of_a_table_holds_from_then_on(spark: SparkSession, tmp_path: Path) -> None:
    """Rows before the first step hold from the beginning of time; a later version after the bound."""
    put(tmp_path / "t" / "1.csv", "1,nort\n2,south\n", 1)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE NON RETROACTIVE TABLE t (k INT, name STRING, PRIMARY KEY (k)) FROM csv('{tmp_path}/t');
            CREATE VIEW named AS SELECT s.ts, t.name FROM s JOIN t ON s.k = t.k;
            INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01');
        """)
        db.run()
        put(tmp_path / "t" / "2.csv", "1,north\n", 2)
        db.insert("s", [{"k": 1, "ts": "2026-01-01 00:00:05"}])
        db.run()
        assert rows(db.query("SELECT name FROM named")) == {("nort",): 1, ("north",): 1}
        assert rows(db.query("SELECT k, name FROM t")) == {(1, "north"): 1, (2, "south"): 1}
        earlier = db.query("SELECT name FROM t WHERE k = 1", as_of="2026-01-01 00:00:01")
        assert rows(earlier) == {("nort",): 1}
        path = tmp_path / "t" / "3.csv"
        put(path, "2,a\n2,b\n", 3)
        db.run()
        assert rows(db.query("SELECT * FROM t$rejected")) == {
            (
                5,
                f"k: 2 is the key of an earlier row of the file {path}; give a key once in a file, and in a "
                "later file to replace its row",
                "2,b",
            ): 1
        }
        db.run(finish=True)
        put(tmp_path / "t" / "4.csv", "3,east\n", 4)
        assert db.run().arrived["t"].rejected == 1
        [told] = db.query("SELECT _reason FROM t$rejected WHERE _original LIKE '%east%'").collect()
        assert told._reason == "the store was run to its end, and its tables cannot change any more"


# Files that change


def rewrite(path: Path, text: str, second: int) -> None:
    path.write_text(text)
    os.utime(path, (1_700_000_000 + second,) * 2)


def said_of(path: Path, size: int, now: int, before: int) -> str:
    times = [f"2023-11-14T22:13:{20 + t:02}.000000" for t in (now, before)]
    return (
        f"the file {path} was changed after it was found: it has {size} bytes of {times[0]} now, and was of "
        f"{times[1]}; what changed is not taken: move files in when they are complete, and put further rows "
        "into a new file"
    )


def test_a_file_that_changes_is_told_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that grows, one that was empty, one that is made again; in a folder with an odd name."""
    folder = tmp_path / "in put 100%"
    grown, filled, again = (folder / name for name in ("a b.csv", "empty.csv", "again.csv"))
    put(grown, "1,2026-01-01 00:00:01\n", 1)
    put(filled, "", 2)
    put(again, "2,2026-01-01 00:00:02\n", 3)
    script = f"""
        CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}');
        CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k)) FROM csv('{tmp_path}/t');
        CREATE VIEW v AS SELECT k FROM s;
    """
    put(tmp_path / "t" / "1.csv", "1,one\n", 1)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(script)
        db.run()
        assert (counts(db, "s"), counts(db, "t")) == ((2, 0, 0), (1, 0, 0))
        rewrite(grown, "1,2026-01-01 00:00:01\n3,2026-01-01 00:00:03\n", 4)
        rewrite(filled, "4,2026-01-01 00:00:04\n", 5)
        again.unlink()
        rewrite(tmp_path / "t" / "1.csv", "1,two\n", 6)
        fail_at_manifest(monkeypatch, db)
    first: dict[tuple[Any, ...], int] = {
        (said_of(grown, 44, 4, 1), str(grown)): 1, (said_of(filled, 22, 5, 2), str(filled)): 1,
    }  # fmt: skip
    for _ in range(2):
        with everview.connect(str(tmp_path / "store"), spark) as db:
            db.run()
            assert rows(db.query("SELECT _reason, _original FROM s$rejected")) == first, "and only once"
            table = tmp_path / "t" / "1.csv"
            told = {(said_of(table, 6, 6, 1), str(table)): 1}
            assert rows(db.query("SELECT _reason, _original FROM t$rejected")) == told
            assert (counts(db, "s"), counts(db, "t")) == ((2, 0, 2), (1, 0, 1))
    with everview.connect(str(tmp_path / "store"), spark) as db:
        rewrite(grown, "", 7)
        rewrite(again, "5,2026-01-01 00:00:05\n", 8)
        put(folder / "new.csv", "6,2026-01-01 00:00:06\n", 9)
        assert db.run().arrived["s"].rejected == 2
        told = {**first, (said_of(grown, 0, 7, 1), str(grown)): 1, (said_of(again, 22, 8, 3), str(again)): 1}
        assert rows(db.query("SELECT _reason, _original FROM s$rejected")) == told
        assert rows(db.query("SELECT k FROM v")) == {(1,): 1, (2,): 1}
        db.execute("DROP VIEW v; DROP STREAM s")
        assert set(db.manifest().changed) == {"t"}


def test_changes_are_found_in_a_log_that_spark_has_compacted(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(23):
        put(tmp_path / "in" / f"{i}.csv", f"{i},2026-01-01 00:00:{i:02}\n", i)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(
            f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) "
            f"FROM csv('{tmp_path}/in', maxFilesPerTrigger => 1)"
        )
        db.run()
        assert list((tmp_path / "store" / "checkpoint" / "sources").rglob("*.compact"))
        for i in (3, 22):
            rewrite(tmp_path / "in" / f"{i}.csv", "\n", 30 + i)
        assert db.run().arrived["s"].rejected == 2


def test_an_old_file_is_read_as_any_other(spark: SparkSession, tmp_path: Path) -> None:
    """Spark by itself skips a file that is a week older than the newest one."""
    month = 30 * 24 * 3600
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        (tmp_path / "in").mkdir()
        db.execute(f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in')")
        for number, second in enumerate((month, 0)):
            put(tmp_path / "in" / f"{number}.csv", f"{number},2026-01-01 00:00:0{number}\n", second)
            assert db.run().arrived["s"].rows == 1


def test_files_can_be_archived_when_they_were_read(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        (tmp_path / "in").mkdir()
        db.execute(
            f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in', "
            f"cleanSource => 'archive', sourceArchiveDir => '{tmp_path}/done')"
        )
        for i in range(3):
            put(tmp_path / "in" / f"{i}.csv", f"{i},2026-01-01 00:00:0{i}\n", i)
            assert db.run().arrived["s"].rows == 1
        assert counts(db, "s") == (3, 0, 0)
        assert list((tmp_path / "done").rglob("0.csv"))
        assert not (tmp_path / "in" / "0.csv").exists()


def test_a_store_of_an_older_release_opens(spark: SparkSession, tmp_path: Path) -> None:
    """Its manifest knows nothing of changed files, and its catalog nothing of MAX AHEAD."""
    put(tmp_path / "in" / "1.csv", "1,2026-01-01 00:00:01\n", 1)
    script = f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/in')"
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(script)
        db.run()
        manifest = db.manifest()
    store = tmp_path / "store"
    text = (store / "manifests" / f"{manifest.step:08}.json").read_text()
    assert '"changed":{}' in text
    older = Manifest.__new__(Manifest)
    for name, value in vars(manifest).items():
        if name != "changed":
            object.__setattr__(older, name, value)
    (store / "manifests" / f"{manifest.step:08}.json").write_bytes(older.to_json())
    assert "changed" not in (store / "manifests" / f"{manifest.step:08}.json").read_text()
    rewrite(tmp_path / "in" / "1.csv", "", 2)
    with everview.connect(str(store), spark) as db:
        db.execute(script)
        db.run()
        assert counts(db, "s") == (1, 0, 1)


# Counts


def test_rows_in_are_rows_taken_late_and_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """For every stream and table, whatever is wrong with its rows."""
    rng = random.Random(9)
    written = Counter[str]()
    script = f"""
        CREATE STREAM s (k INT, ts TIMESTAMP, u TIMESTAMP, TIMELINE ts LATENESS 3 SECONDS, TIMELINE u)
          FROM csv('{tmp_path}/s', maxFilesPerTrigger => 1);
        CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k, name)) FROM csv('{tmp_path}/t');
        CREATE TABLE u (k INT, name STRING) FROM json('{tmp_path}/u');
        CREATE VIEW v AS SELECT s.k, u.name FROM s JOIN u ON s.k = u.k;
    """
    for name in "stu":
        (tmp_path / name).mkdir()
    for step in range(3):
        for file in range(2):
            place = 2 * step + file
            stamps = [
                "",
                "never",
                "2999-01-01 00:00:00",
                *(f"2026-01-01 00:00:{4 * place + i:02}" for i in range(6)),
            ]
            lines = {
                "s": [f"{rng.choice('12x')},{rng.choice(stamps)},{rng.choice(stamps)}" for _ in range(12)],
                "t": [f"{rng.choice(['', '1', '2'])},{rng.choice(['a', 'b', ''])}" for _ in range(6)],
                "u": [rng.choice(['{"k": 1, "name": "a"}', '{"k": "x"}', "rubbish"]) for _ in range(6)],
            }
            for name, those in lines.items():
                put(tmp_path / name / f"{place}.txt", "\n".join(those) + "\n", place)
                written[name] += len(those)
        with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
            db.execute(script)
            done = db.run()
            for name in "stu":
                assert sum(counts(db, name)) == written[name]
                late = 0 if name != "s" else db.query("SELECT * FROM s$late").count()
                assert counts(db, name)[1:] == (late, db.query(f"SELECT * FROM {name}$rejected").count())
            assert sum(a.rows + a.late + a.rejected for a in done.arrived.values()) == 48
