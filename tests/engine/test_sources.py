"""Sources by Structured Streaming: what comes is taken in, late, or refused, and nothing is lost."""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError, StoreError
from everview.storage import runs

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def line(key: object, value: object, second: int) -> str:
    return f"{key},{value},2026-01-01 00:00:{second:02}"


_count = itertools.count()


def put(folder: Path, name: str, *lines: str) -> None:
    """A new file, later than all before it: Spark reads files in the order of their times."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    seconds = 1_700_000_000 + next(_count)
    os.utime(folder / name, (seconds, seconds))


def test_late_and_refused_rows_are_kept_with_their_reason(spark: SparkSession, tmp_path: Path) -> None:
    come = tmp_path / "in"
    put(come, "1.csv", "v,k,extra,ts", "1,a,x,2026-01-01 00:00:01", "2,b,x,2026-01-01 00:00:09")
    wrong = ("seven,a,x,2026-01-01 00:00:10", "3,a,x", "4,a,x,")
    put(come, "2.csv", "v,k,extra,ts", *wrong, "5,c,x,2026-01-01 00:00:12")
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND)
              FROM csv('{come}', header => true);
            CREATE VIEW held AS SELECT k, v FROM s [RANGE 10 SECONDS];
        """)
        done = db.run()
        assert (done.arrived["s"].rows, done.arrived["s"].late, done.arrived["s"].rejected) == (3, 0, 3)
        # The newest is 00:00:12, rows may be 5 s late, and rows of that very instant may still come.
        assert done.bound == done.present - 5_000_001
        assert rows(db.query("SELECT k, v FROM held")) == {("a", 1): 1}
        assert rows(db.query("SELECT _step, _reason, _original FROM s$rejected")) == {
            (1, "v: seven is no INT", "seven,a,x,2026-01-01 00:00:10"): 1,
            (1, "it has 3 columns, not 4", "3,a,x"): 1,
            (1, "ts: there is no timestamp", "4,a,x,"): 1,
        }
        put(come, "3.csv", "v,k,extra,ts", "6,d,x,2026-01-01 00:00:06", "7,d,x,2026-01-01 00:00:08")
        done = db.run()
        assert (done.arrived["s"].rows, done.arrived["s"].late) == (1, 1)
        late = db.query("SELECT k, v, _step, _reason, _original FROM s$late").collect()
        assert [tuple(r)[:4] for r in late] == [
            ("d", 6, 2, "ts is not after 2026-01-01T00:00:06.999999, up to where all was known")
        ]
        assert late[0]._original == "6,d,x,2026-01-01 00:00:06"
        assert rows(db.query("SELECT k FROM held")) == {("a",): 1}, "nothing newer has come"
        db.run(finish=True)
        assert rows(db.query("SELECT k, v FROM held")) == {("b", 2): 1, ("c", 5): 1, ("d", 7): 1}
        assert db.run().rows == 0, "no file is read twice"


def test_json_and_parquet_and_a_view_over_both(spark: SparkSession, tmp_path: Path) -> None:
    put(
        tmp_path / "j", "1.json",
        '{"k": 1, "ts": "2026-01-01 00:00:01"}', '{"k": "one", "ts": "2026-01-01 00:00:01"}', "rubbish",
        '{"k": 2}',
    )  # fmt: skip
    other = spark.sql("SELECT 1 AS K, timestamp'2026-01-01 00:00:02' AS ts, 7 AS more")
    other.write.parquet(str(tmp_path / "p"))
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM j (k INT, ts TIMESTAMP, TIMELINE ts) FROM json('{tmp_path}/j/*.json');
            CREATE STREAM p (k INT, ts TIMESTAMP, TIMELINE ts) FROM parquet('{tmp_path}/p');
            CREATE VIEW both AS SELECT j.k, j.ts AS a, p.ts AS b FROM j JOIN p ON j.k = p.k;
        """)
        db.run(finish=True)
        assert [r.k for r in db.query("SELECT k FROM both").collect()] == [1]
        assert {r._reason for r in db.query("SELECT _reason FROM j$rejected").collect()} == {
            "k: one is no INT", "it is no JSON object", "ts: there is no timestamp",
        }  # fmt: skip


def test_batches_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    """One file a step or all at once: the same changes."""
    for i in range(5):
        put(tmp_path / "in", f"{i}.csv", *(line(f"k{j % 3}", i * j, 10 * i + j) for j in range(8)))
    found = []
    for name, option in (("all", ""), ("each", ", maxFilesPerTrigger => 1")):
        with everview.connect(str(tmp_path / name), spark, partitions=3) as db:
            db.execute(f"""
                CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts)
                  FROM csv('{tmp_path}/in'{option});
                CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s [RANGE 15 SECONDS] GROUP BY k;
                CREATE VIEW big AS SELECT k FROM sums WHERE v > 20 EXCEPT SELECT k FROM s [RANGE 1 SECOND];
            """)
            done = db.run(finish=True)
            assert done.steps == (2 if name == "all" else 6)
            found.append({v: rows(db.changes(v, "intervals")) for v in ("sums", "big")})
    assert found[0] == found[1]
    assert found[0]["big"]


def test_a_rate_and_a_socket(spark: SparkSession, tmp_path: Path) -> None:
    said = ["2026-01-01 00:00:01 a", "2026-01-01 00:00:02 b", "2026-01-01 00:00:03 c"]
    with _server(said) as port, everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM r (timestamp TIMESTAMP, value BIGINT, TIMELINE timestamp)
              FROM rate(rowsPerSecond => 20);
            CREATE STREAM lines (value STRING, timestamp TIMESTAMP, TIMELINE timestamp)
              FROM socket('localhost', {port}, includeTimestamp => true);
            CREATE VIEW words AS SELECT substring(value, 21) AS word FROM lines;
            CREATE VIEW counted AS SELECT COUNT(*) AS n FROM r;
        """)
        db.start("200 milliseconds")
        _until(lambda: any(r.n > 5 for r in db.query("SELECT n FROM counted").collect()))
        # More rows could come at the time of the last one, so that is not known yet.
        _until(lambda: rows(db.query("SELECT word FROM words")) == {("a",): 1, ("b",): 1})
        db.stop()


@contextmanager
def _server(lines: list[str]) -> Iterator[int]:
    """Says some lines to whoever comes, and then nothing."""
    listening = socket.create_server(("localhost", 0))
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            for text in lines:
                caller.sendall(f"{text}\n".encode())
                time.sleep(0.5)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        ended.set()
        listening.close()


def _until(condition, seconds: float = 120) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)


def test_in_the_background_rows_inserted_are_seen_and_time_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW held AS SELECT k FROM s [RANGE 5 SECONDS];
        """)
        db.start("100 milliseconds")
        with pytest.raises(StoreError, match="background"):
            db.run()
        db.execute("CREATE VIEW other AS SELECT k FROM s")
        db.insert("s", [{"k": 1, "ts": "2026-01-01 00:00:01"}])
        _until(lambda: rows(db.query("SELECT k FROM held")) == {(1,): 1})
        db.insert("s", [{"k": 2, "ts": "2026-01-01 00:00:07"}])
        _until(lambda: rows(db.query("SELECT k FROM held")) == {(2,): 1})
        db.stop()
        db.run()
        assert rows(db.query("SELECT k FROM other")) == {(1,): 1, (2,): 1}


def test_a_source_can_be_added_and_dropped(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / name, "1.csv", line(name, 1, 1), line(name, 2, 5))
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM a (k STRING, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/a/*.csv');
            CREATE VIEW va AS SELECT v FROM a;
        """)
        db.run()
        db.execute(f"""
            CREATE STREAM b (k STRING, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{tmp_path}/b');
            CREATE VIEW vb AS SELECT v FROM b;
        """)
        assert db.run().arrived["b"].late == 1, "what lies before the bound of the store is late"
        put(tmp_path / "a", "2.csv", line("a", 3, 8))
        put(tmp_path / "b", "2.csv", line("b", 3, 9))
        db.run()
        assert rows(db.query("SELECT v FROM va")) == {(1,): 1, (2,): 1}
        with pytest.raises(EverviewError, match="vb"):
            db.execute("DROP STREAM b")
        db.execute("DROP VIEW vb; DROP STREAM b")
        put(tmp_path / "a", "3.csv", line("a", 4, 20))
        db.run()
        assert rows(db.query("SELECT v FROM va")) == {(1,): 1, (2,): 1, (3,): 1}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("csv('{}/nowhere')", "there is nothing"),
        ("jsno('{}/in')", "this Spark has no such source"),
        ("rate(rowsPerSecond => 1)", "has no column 'k'"),
    ],
)
def test_what_cannot_be_read_is_said(spark: SparkSession, tmp_path: Path, source: str, said: str) -> None:
    put(tmp_path / "in", "1.csv", "key,v,ts", line("a", 1, 1))
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"CREATE STREAM s (k STRING, ts TIMESTAMP, TIMELINE ts) FROM {source.format(tmp_path)}")
        with pytest.raises(StoreError, match=said) as caught:
            db.run()
        assert "Exception" not in str(caught.value)
        assert "next:" in str(caught.value)


def test_rows_that_wait_when_a_view_is_made(spark: SparkSession, tmp_path: Path) -> None:
    """They came when nobody asked for what the new view takes of them; none is lost, none comes twice."""
    come = tmp_path / "in"
    put(come, "1.csv", line("a", 1, 1), line("b", 2, 20), line("a", 3, 21))
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '10' SECOND)
              FROM csv('{come}', maxFilesPerTrigger => 1);
            CREATE VIEW first AS SELECT k, SUM(v) AS v FROM s [RANGE 30 SECONDS] GROUP BY k;
        """)
        db.run()
        db.execute(
            "CREATE VIEW second AS SELECT v % 2 AS odd, COUNT(*) AS n FROM s [RANGE 30 SECONDS] "
            "GROUP BY v % 2"
        )
        put(come, "2.csv", line("b", 4, 22), line("c", 5, 40))
        db.run()
        put(come, "3.csv", line("a", 7, 41))
        db.run(finish=True)
        at = "2026-01-01 00:00:41"
        assert rows(db.query("SELECT k, v FROM first", as_of=at)) == {("a", 10): 1, ("b", 6): 1, ("c", 5): 1}
        assert rows(db.query("SELECT odd, n FROM second", as_of=at)) == {(0, 2): 1, (1, 3): 1}
        assert db.manifest().of("port") == {}, "what has passed is gone"


def test_what_a_manifest_names_is_on_the_disk(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks do not wait for the disk; the step does, for every file that it names and every folder above."""
    come, store = tmp_path / "in", tmp_path / "store"
    put(come, "1.csv", line("a", 1, 1), line("b", 2, 20), "broken,3")
    synced: set[str] = set()

    def watched(path: str, sync=runs._synced) -> None:  # type: ignore[no-untyped-def]
        sync(path)
        synced.add(path.rstrip("/"))

    monkeypatch.setattr(runs, "_synced", watched)
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{come}');
            CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s [RANGE 30 SECONDS] GROUP BY k;
        """)
        db.run()
        named = {store / path for path in db.manifest().paths()}
    assert {path.relative_to(store).parts[0] for path in named} == {
        "inbox",
        "plans",
        "ports",
        "rejected",
        "runs",
        "views",
    }
    rows_ = {path for path in named if path.parent.name != "plans"}  # a plan is synced as it is written
    assert {str(path) for path in rows_} <= synced
    assert {str(path.parent) for path in rows_} | {str(store)} <= synced


def test_a_late_row_of_every_type_is_told_as_text(spark: SparkSession, tmp_path: Path) -> None:
    columns = "b BINARY, d DATE, m DECIMAL(9, 2), f DOUBLE, l BOOLEAN, n BIGINT, t STRING"
    values = ["unhex('ff') AS b", "DATE '2026-01-02' AS d", "CAST(1.5 AS DECIMAL(9, 2)) AS m", "0.5D AS f"]
    values += ["true AS l", "7L AS n", "'x' AS t"]
    for i, second in enumerate((30, 10)):
        at = f"TIMESTAMP '2026-01-01 00:00:{second}' AS ts"
        written = spark.range(1).selectExpr(*values, at)
        written.coalesce(1).write.mode("append").parquet(str(tmp_path / f"made{i}"))
        (tmp_path / "in").mkdir(exist_ok=True)
        part = next((tmp_path / f"made{i}").glob("*.parquet"))
        os.utime(part.rename(tmp_path / "in" / f"{i}.parquet"), (1_700_000_000 + i,) * 2)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(
            f"CREATE STREAM s ({columns}, ts TIMESTAMP, TIMELINE ts) "
            f"FROM parquet('{tmp_path}/in', maxFilesPerTrigger => 1)"
        )
        db.run()
        [late] = db.query("SELECT b, n, _original FROM s$late").collect()
    assert (bytes(late.b), late.n) == (b"\xff", 7)
    assert json.loads(late._original)["b"] == "/w=="
