"""NON RETROACTIVE joins, end to end: what stands above them, old timestamps, and rows that are taken back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


SCRIPT = f"""
    CREATE STREAM a (k INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM b (k INT, ts TIMESTAMP, TIMELINE ts);
    CREATE NON RETROACTIVE TABLE t (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO t VALUES (1, 'v0'), (2, 'z');
    CREATE TAGGED STREAM latest OVER a KEY (k);
    CREATE VIEW named AS SELECT a.k, a.ts, t.name FROM a JOIN t ON a.k = t.k;
    CREATE VIEW last AS SELECT k, name FROM named [PARTITION BY k ROWS 1];
    CREATE VIEW most AS SELECT k, MAX(name) AS name FROM named GROUP BY k;
    CREATE VIEW kept AS SELECT a.k, t.name FROM a LEFT JOIN t ON a.k = t.k;
    CREATE VIEW pairs AS SELECT p.k, p.ts, t.name
        FROM (SELECT a.k, a.ts FROM a [RANGE 1 MINUTE] JOIN b [RANGE 1 MINUTE] ON a.k = b.k) p
        JOIN t ON p.k = t.k;
    CREATE VIEW tagged AS SELECT l.k, l.ts, t.name FROM latest l JOIN t ON l.k = t.k;
    INSERT INTO a VALUES (1, {at(1)}), (2, {at(1)});
    INSERT INTO b VALUES (9, {at(1)});
"""


def updates(second: int) -> str:
    """The table changes at this second, and time goes on."""
    delete = f"DELETE FROM t WHERE k = 2 AT {at(second)};" if second == 5 else ""
    return f"""
        UPDATE t SET name = 'u{9 - second}' WHERE k = 1 AT {at(second)}; {delete}
        INSERT INTO a VALUES (2, {at(second)}), (8, {at(second)});
        INSERT INTO b VALUES (9, {at(second)});
    """


@pytest.mark.parametrize("runs", ["one run", "a run after each update"])
def test_every_row_meets_the_version_at_its_own_time(spark: SparkSession, tmp_path: Path, runs: str) -> None:
    """A table that is updated eight times, and rows of a join that come with a timestamp before all that."""
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(SCRIPT)
        if runs != "one run":
            db.run()
        for second in range(2, 10):
            db.execute(updates(second))
            if runs != "one run":
                db.run()
    with everview.connect(path, spark) as db:
        db.execute(f"INSERT INTO b VALUES (1, {at(20)}); INSERT INTO a VALUES (1, {at(20)})")
        db.run()
        assert rows(db.query("SELECT k, name FROM pairs")) == {(1, "v0"): 1, (1, "u0"): 1}
        assert rows(db.query("SELECT k, name FROM last")) == {(1, "u0"): 1, (2, "z"): 1}
        assert rows(db.query("SELECT k, name FROM most")) == {(1, "v0"): 1, (2, "z"): 1}
        assert rows(db.query("SELECT k, name FROM tagged")) == {(1, "u0"): 1}
        assert rows(db.query("SELECT k, name FROM tagged", as_of="2026-01-01 00:00:04")) == {
            (1, "v0"): 1,
            (2, "z"): 1,
        }
        assert rows(db.query("SELECT k, name FROM kept")) == {
            (1, "v0"): 1, (1, "u0"): 1, (2, "z"): 4, (2, None): 5, (8, None): 8,
        }  # fmt: skip
