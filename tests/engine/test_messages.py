"""What is said when something is wrong around the end of time, in Spark or in the background: one message."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.time import INFINITY, LEAST
from everview.database import Database
from everview.errors import EverviewError, Fault, StoreError
from everview.execute.failures import failure
from everview.query.answers import fetch_answer
from everview.ui.output import ENDS, Sheet
from tests.engine.feeding import at, put

pytestmark = pytest.mark.spark

BY_HAND = """
CREATE STREAM s (k INT, t STRING, d DATE, ts TIMESTAMP, TIMELINE ts);
CREATE VIEW held AS SELECT k, ts FROM s;
"""


def refused(work: Any, said: str) -> None:
    with pytest.raises(EverviewError) as caught:
        work()
    assert str(caught.value) == said


def no_chronon(*texts: str) -> None:
    for text in texts:
        assert "µs" not in text
        assert "92233720368547758" not in text
        assert "Traceback" not in text


# The ends of time


def test_a_late_row_of_any_year(spark: SparkSession, tmp_path: Path) -> None:
    times = [INFINITY - 1, 0, LEAST + 1, 253402300800_000_000, 1_500_000]
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(BY_HAND)
        db.insert("s", [{"k": 0, "ts": at(1)}])
        db.run(finish=True)
        db.execute("INSERT INTO s VALUES (9, 'a', DATE '1970-01-01', TIMESTAMP '294247-01-10 04:00:54')")
        stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
        days = pa.array([2**31 - 1, -(2**31), 0, 1, None], pa.int32()).cast(pa.date32())
        db.insert("s", pa.table({"k": pa.array(range(5), pa.int32()), "d": days, "ts": stamps}))
        late = db.query("SELECT k, _reason, _original FROM s$late WHERE k < 5 ORDER BY k").collect()
        assert {row["_reason"] for row in late} == {
            "ts is not after the end of time, up to where all was known"
        }
        assert [row["_original"] for row in late] == [
            '{"k":0,"t":null,"d":"5881580-07-11","ts":"294247-01-10T04:00:54.775806"}',
            '{"k":1,"t":null,"d":"-5877641-06-23","ts":"1970-01-01T00:00:00.000000"}',
            '{"k":2,"t":null,"d":"1970-01-01","ts":"-290308-12-21T19:59:05.224194"}',
            '{"k":3,"t":null,"d":"1970-01-02","ts":"10000-01-01T00:00:00.000000"}',
            '{"k":4,"t":null,"d":null,"ts":"1970-01-01T00:00:01.500000"}',
        ]
        status = db.status()
        assert (status.finished, status.streams[0].late) == (True, 6)
        no_chronon(
            str(status), repr(db.run()), str(db.execute("DESCRIBE s")), str(db.execute("DESCRIBE held"))
        )


def test_tables_change_before_there_are_dates(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=1) as db:
        db.execute("CREATE TABLE t (k INT, v INT, PRIMARY KEY (k)); CREATE VIEW w AS SELECT k, v FROM t;")
        assert db.status().waits == ()
        db.execute("INSERT INTO t VALUES (1, 2)")
        for value in (3, 4):
            db.run()
            db.execute(f"UPDATE t SET v = {value}")
        db.run()
        tags = [(r.tag, r.at, r.v) for r in db.changes("w").collect()]
        assert tags == [("+", None, 2), ("u", None, 3), ("u", None, 4)]
        assert db.changes("w", "intervals").collect() == []
        assert [tuple(r) for r in db.query("SELECT k, v FROM w").collect()] == [(1, 4)]
        refused(
            lambda: db.query("SELECT * FROM w", as_of="2026-01-01"),
            "2026-01-01T00:00:00.000000 lies after the bound of the store: nothing is known yet\n"
            "  next: ask AS OF an earlier instant, or run the pipeline first",
        )
        no_chronon(
            str(db.view("w").plot()), str(db.timeline("w")), db.view("w").plot().svg(), str(db.status())
        )
        out = io.StringIO()
        Sheet("table", out, ENDS["tags"]).write(fetch_answer(db.changes("w")))
        assert [line.split()[1] for line in out.getvalue().splitlines()] == ["at", "-∞", "-∞", "-∞"]
    with everview.connect(path, spark) as db:
        db.run(finish=True)
        (row,) = db.changes("w", "intervals").collect()
        assert tuple(row) == (None, None, 1, 1, 4)


# Spark


def test_a_view_that_spark_cannot_compute(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(BY_HAND)
        db.insert("s", [{"k": 0, "t": "a", "ts": at(1)}])
        db.run()
        before = db.manifest()
        from everview.pipeline import backfill

        def fail(*_: object, **__: object) -> None:
            spark.sql("SELECT raise_error('no such luck') AS x").collect()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backfill, "evaluate_slice", fail)
            refused(
                lambda: db.execute("CREATE VIEW b AS SELECT k FROM s"),
                "the view 'b' cannot be computed: no such luck\n"
                "  next: the store is as it was after the last whole step",
            )
        assert [e.name for e in db.catalog] == ["s", "held"]
        assert db.manifest() == before
        db.execute("CREATE VIEW b AS SELECT k FROM s")
        assert [tuple(r) for r in db.query("SELECT k FROM b").collect()] == [(0,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Job "
            "aborted due to stage failure: Task 0 in stage 5.0 failed 1 times, most recent failure: Lost "
            "task 0.0 in stage 5.0 (TID 8) (h executor driver): java.util.regex.PatternSyntaxException: "
            "Unclosed group\n\tat x",
            "a step failed: Unclosed group",
        ),
        (
            "[INVALID_PARAMETER_VALUE.PATTERN] The value of `regexp` is invalid: '('. SQLSTATE: 22023",
            "a step failed: The value of `regexp` is invalid: '('.",
        ),
        ("Connection refused", "Spark has ended: its Java process is gone"),
        ("x\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat y", "Spark has too little memory"),
        ("everview.errors.StoreError: odd\n  next: look", "odd"),
        (
            "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading "
            "file file:///in%20d/1.csv.gz.  SQLSTATE: KD001\nCaused by: java.io.EOFException: Unexpected end",
            "/in d/1.csv.gz cannot be read: Unexpected end",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///in/1.csv. "
            "File does not exist. SQLSTATE: KD001",
            "/in/1.csv was there and is gone, before it was read",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/1.csv."
            "  SQLSTATE: KD001\nCaused by: java.io.FileNotFoundException: /in/1.csv (Permission denied)",
            "/in/1.csv cannot be read: this user has no right to read it",
        ),
        (
            "Caused by: java.net.URISyntaxException: Relative path in absolute URI: .12:30.csv.crc\n\tat x",
            "Spark cannot read a file whose path has a colon: 12:30.csv",
        ),
    ],
)
def test_what_spark_says_in_one_line(text: str, said: str) -> None:
    error = failure(Exception(text))
    assert isinstance(error, StoreError)
    assert error.what == said


def test_an_exception_of_a_users_function_is_no_fault_of_ours() -> None:
    text = 'Traceback (most recent call last):\n  File "/home/me/a.py", line 2, in f\nValueError: odd\n'
    error = failure(Exception(text), doing="rows for 't' cannot be taken")
    assert isinstance(error, StoreError)
    assert (
        error.what == "rows for 't' cannot be taken: a Python function in the frame failed: ValueError: odd"
    )


def test_an_exception_of_a_task_is_a_fault_of_ours() -> None:
    text = (
        "PythonException: \nTraceback (most recent call last):\n  File x\nKeyError: 'c0'\n\n\tat org.apache"
    )
    error = failure(Exception(text))
    assert isinstance(error, Fault)
    assert str(error).splitlines()[0] == "a fault of Everview, not of yours: a step failed: KeyError: 'c0'"


VICTIM = """
import os, signal, sys, everview
db = everview.connect(sys.argv[1])
db.execute("CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT k FROM s")
db.insert("s", [{"k": 1, "ts": "2026-01-01"}])
db.run()
os.kill(db._pipeline.session.sparkContext._gateway.proc.pid, signal.SIGKILL)
for work in (lambda: db.query("SELECT * FROM v").collect(), lambda: db.changes("v")):
    try:
        work()
    except everview.EverviewError as error:
        print(str(error).splitlines()[0])
print(db.status().step)
db.close()
with everview.connect(sys.argv[1]) as db:
    print(db.query("SELECT k FROM v").collect())
    db._pipeline.session.stop()
"""


def test_a_java_process_that_was_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VICTIM, str(tmp_path / "store")], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.splitlines() == ["Spark has ended: its Java process is gone"] * 2 + ["2", "[Row(k=1)]"]
    assert "Traceback" not in done.stderr


# In the background


def wait_for(there: Any) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def start_and_break(db: Database, folder: Path) -> None:
    """Steps in the background that meet a file which is not what its name says."""
    put(folder / "1.csv", f"k,ts\n1,{at(1)}\n", 1)
    db.execute(f"""
        CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}', header => true);
        CREATE VIEW v AS SELECT k FROM s;
    """)
    db.start("100 milliseconds")
    assert db.status().background == "running"
    (folder / "2.csv.gz").write_bytes(b"no gzip")
    wait_for(lambda: db.status().background == "failed")


BROKEN = "{}/2.csv.gz cannot be read: Unexpected end of input stream"


@pytest.mark.parametrize(
    "method", ["execute", "query", "changes", "run", "start", "stop", "explain", "wait", "view"]
)
def test_a_failure_in_the_background_is_raised_by_the_next_call(
    spark: SparkSession, tmp_path: Path, method: str
) -> None:
    folder = tmp_path / "in"
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        start_and_break(db, folder)
        calls = {
            "execute": lambda: db.execute("SHOW VIEWS"),
            "query": lambda: db.query("SELECT 1 AS x"),
            "changes": lambda: db.changes("v"),
            "run": db.run,
            "start": db.start,
            "stop": db.stop,
            "explain": lambda: db.explain("SELECT 1 AS x"),
            "wait": db.wait,
            "view": lambda: db.view("v"),
        }
        said = BROKEN.format(folder)
        assert said in (db.status().error or "")
        with pytest.raises(StoreError) as caught:
            calls[method]()
        assert caught.value.what == said
        assert "background: failed\n  " + said in str(db.status()), "it is told, and still shown"
        assert str(db.execute("SHOW VIEWS")) == "v", "it is raised once"
        (folder / "2.csv.gz").unlink()
        put(folder / "3.csv", f"k,ts\n3,{at(3)}\n", 3)
