"""What a store says of itself on the command line: its state, and odd stores in one clear message."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import status_at
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
        assert str(status) == (
            "step 5: known to 2026-01-01T00:00:04.000000, newest row 2026-01-01T00:00:08.000000\n"
            "\n"
            "stream  watermark                   rows  late  rejected  waiting\n"
            "a       2026-01-01T00:00:08.000000  8     1     0         4\n"
            "b       2026-01-01T00:00:04.000000  2     0     0         1        holds time back\n"
            "\n"
            "view  watermark                   complete since\n"
            "v     2026-01-01T00:00:04.000000  the beginning of time\n"
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
