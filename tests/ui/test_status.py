"""What a store says of itself on the command line: its state, and odd stores in one clear message."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.without_spark import status_at
from tests.engine.feeding import at
from tests.ui.conftest import Call

pytestmark = pytest.mark.spark


def test_a_directory_that_cannot_be_written(tmp_path: Path, call: Call) -> None:
    script = tmp_path / "s.sql"
    script.write_text("SHOW VIEWS;")
    said = call("run", str(script), "--path", "/proc/nobody/store")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "could not make /proc/nobody/store: the folder that it lies in cannot be made\n"
        "  next: check the path and the file system, or choose another place for the store\n"
    )


def test_status_says_who_waits_for_whom(spark: SparkSession, tmp_path: Path, call: Call) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM a (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM b (k INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' SECOND);
            CREATE VIEW v AS SELECT k FROM a;
        """)
        db.insert("a", [{"k": i, "ts": at(i)} for i in range(1, 9)])
        db.run()
        assert db.status().waits == ("8 rows of a wait: b is not known yet",)
        db.insert("b", [{"k": 1, "ts": at(6)}, {"k": 2, "ts": at(1)}])
        db.run()
        db.insert("a", [{"k": 2, "ts": at(1)}])
        status = db.status()
        assert status.waits == (
            "4 rows of a wait: b is known to 2026-01-01T00:00:04.000000",
            "1 row of b waits: b is known to 2026-01-01T00:00:04.000000",
        )
        size = sum(r.bytes for runs in db.manifest().of("view", "v").values() for r in runs)
        assert status.views[0].bytes == size > 0, "the view keeps no state"
        assert str(status) == (
            "step 5: known to 2026-01-01T00:00:04.000000, newest row 2026-01-01T00:00:08.000000\n"
            "\n"
            "stream  watermark                   rows  late  rejected  waiting\n"
            "a       2026-01-01T00:00:08.000000  8     1     0         4\n"
            "b       2026-01-01T00:00:04.000000  2     0     0         1        holds time back\n"
            "\n"
            "view  watermark                   complete since         bytes\n"
            f"v     2026-01-01T00:00:04.000000  the beginning of time  {size:,}\n"
            "\n"
            "4 rows of a wait: b is known to 2026-01-01T00:00:04.000000\n"
            "1 row of b waits: b is known to 2026-01-01T00:00:04.000000"
        )
        assert status_at(path).background.startswith("running in this same process")
    assert status_at(path).background == "not running"
    script = tmp_path / "nothing.sql"
    script.write_text("SHOW VIEWS;")
    again = call("run", str(script), "--path", path)
    assert again.out == (
        "v\n\nnothing new; known up to 2026-01-01T00:00:04.000000\n"
        "4 rows of a wait: b is known to 2026-01-01T00:00:04.000000\n"
        "1 row of b waits: b is known to 2026-01-01T00:00:04.000000\n"
        "\nlook: everview query 'SELECT * FROM v' --path " + path + "\n"
    )
    assert call("status", "--path", path).out.startswith("step ")


STATES = {
    "empty": ("", False),
    "names only": (
        "CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT k FROM s;",
        False,
    ),
    "tables only": (
        "CREATE TABLE s (k INT); CREATE VIEW v AS SELECT k FROM s; INSERT INTO s VALUES (1); "
        "SELECT * FROM v; UPDATE s SET k = 2; SELECT * FROM v;",
        False,
    ),
    "finished": (
        "CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT k FROM s; "
        "INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01');",
        True,
    ),
}
COMMANDS = [
    ["status"],
    ["query", "SHOW STREAMS"],
    ["query", "DESCRIBE s"],
    ["query", "DESCRIBE v"],
    ["query", "SHOW CREATE TABLE v"],
    ["query", "SELECT * FROM v"],
    ["query", "SELECT * FROM v", "--as-of", "9999-12-31"],
    ["query", "SELECT * FROM v", "--as-of", "0001-01-01"],
    ["query", "SELECT * FROM s$late"],
    ["changes", "v"],
    ["changes", "v", "--encoding", "intervals"],
    ["changes", "s"],
    ["explain", "SELECT * FROM v"],
]


@pytest.mark.parametrize("state", STATES)
def test_every_command_on_a_store_in_an_odd_state(call: Call, tmp_path: Path, state: str) -> None:
    """An answer, or one message; no number of microseconds, no traceback, no fault."""
    sql, finish = STATES[state]
    script = tmp_path / "s.sql"
    script.write_text(sql)
    store = ["--path", str(tmp_path / "store")]
    runs = [["run", str(script), *(["--finish"] if finish else [])]] * 2
    for command in [*runs, *COMMANDS]:
        formats = [["--format", f] for f in ("table", "json", "csv")] if command[0] != "run" else [[]]
        for format_ in formats if command[0] != "explain" else [[]]:
            said = call(*command, *store, *format_)
            assert said.code in (0, 1), (command, said)
            assert (said.code == 1) == (said.out == "" and said.err != ""), (command, said)
            for text in (said.out, said.err):
                assert "µs" not in text, (command, said)
                assert "922337203685477" not in text, (command, said)
                assert "Traceback" not in text, (command, said)
                assert "fault of Everview" not in text, (command, said)


def test_parameters_on_the_command_line_and_from_python(
    spark: SparkSession, tmp_path: Path, call: Call
) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=1) as db:
        db.execute("CREATE STREAM s (car STRING, v INT, ts TIMESTAMP, TIMELINE ts);")
        db.execute("CREATE VIEW big AS SELECT car, v FROM s WHERE v > :least AND car <> :no", least=1, no="x")
        db.execute("INSERT INTO s VALUES (:car, :v, :ts)", car="it's", v=5, ts=datetime(2026, 1, 1))
        db.execute("INSERT INTO s VALUES (:car, :v, :ts)", car="x", v=None, ts=datetime(2026, 1, 2))
        db.run()
        found = db.query("SELECT v FROM s WHERE car = :car", car="it's").collect()
        assert [tuple(r) for r in found] == [(5,)]
        assert str(db.execute("SHOW CREATE VIEW big")) == (
            "CREATE VIEW big AS\nSELECT car, v FROM s WHERE v > 1 AND car <> 'x';"
        )
    with everview.connect(path, spark) as db:
        assert [tuple(r) for r in db.query("SELECT v FROM big").collect()] == [(5,)], "it is read back"
    asked = call(
        "query", "SELECT v FROM s WHERE car = :car AND v = :v", "--param", "car=it's", "--param", "v=5",
        "--path", path,
    )  # fmt: skip
    assert (asked.code, asked.out, asked.err) == (0, "v\n5\n", "")
    described = call("query", "DESCRIBE big", "--path", path, "--format", "json")
    assert json.loads(described.out)["columns"] == [
        {"name": "car", "type": "STRING"},
        {"name": "v", "type": "INT"},
    ]
