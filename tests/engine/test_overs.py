"""LAG, LEAD and aggregates with OVER on Spark, end to end: early, late, over retractions, after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview

pytestmark = pytest.mark.spark

VIEWS = {
    "steps": "SELECT k, v, v - LAG(v, 1, 0) OVER (PARTITION BY k ORDER BY ts) AS more FROM s",
    "means": "SELECT k, AVG(v) OVER (PARTITION BY k ORDER BY ts"
    " RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) AS mean FROM s",
    "recent": "SELECT k, v, COUNT(*) OVER (PARTITION BY k) AS n, MAX(v) OVER () AS most"
    " FROM s [RANGE 3 SECONDS]",
    "running": "SELECT k, n, SUM(n) OVER (ORDER BY k) AS upto, LEAD(n) OVER (ORDER BY k) AS next FROM counts",
    "last_total": "SELECT MAX(upto) AS total FROM running",
}


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


def answers(db: everview.Database, prefix: str = "") -> dict[str, list[tuple[object, ...]]]:
    return {
        name: sorted(tuple(r) for r in db.query(f"SELECT * FROM {prefix}{name}").collect()) for name in VIEWS
    }


def test_the_life_of_functions_with_over(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)")
        db.execute("CREATE VIEW counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k")
        for name, sql in VIEWS.items():
            db.execute(f"CREATE VIEW {name} AS {sql}")
        db.execute(f"INSERT INTO s VALUES (1, 5, {at(1)}), (1, 7, {at(2)}), (2, 1, {at(2)}), (1, 6, {at(3)})")
        db.run()
        assert answers(db) == {
            "steps": [(1, 5, 5), (1, 6, -1), (1, 7, 2), (2, 1, 1)],
            "means": [(1, 5.0), (1, 6.0), (1, 6.5), (2, 1.0)],
            "recent": [(1, 5, 3, 7), (1, 6, 3, 7), (1, 7, 3, 7), (2, 1, 1, 7)],
            "running": [(1, 3, 3, 1), (2, 1, 4, None)],
            "last_total": [(4,)],
        }
    with everview.connect(path, spark, partitions=2) as db:
        for name, sql in VIEWS.items():
            late = sql.replace("FROM running", "FROM late_running")
            db.execute(f"CREATE VIEW late_{name} AS {late}")
        db.execute(f"INSERT INTO s VALUES (2, 9, {at(4)}), (3, 8, {at(5)}), (2, 0, {at(5)})")
        db.run()
        found = {
            "steps": [(1, 5, 5), (1, 6, -1), (1, 7, 2), (2, 0, -9), (2, 1, 1), (2, 9, 8), (3, 8, 8)],
            "means": [(1, 5.0), (1, 6.0), (1, 6.5), (2, 1.0), (2, 4.5), (2, 9.0), (3, 8.0)],
            "recent": [(1, 6, 1, 9), (2, 0, 2, 9), (2, 9, 2, 9), (3, 8, 1, 9)],
            "running": [(1, 3, 3, 3), (2, 3, 6, 1), (3, 1, 7, None)],
            "last_total": [(7,)],
        }
        assert answers(db) == found
        assert answers(db, "late_") == found
        asked = (
            "SELECT v, SUM(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near,"
            " NTH_VALUE(v, 2) OVER (ORDER BY v) AS second FROM s WHERE k = 1 ORDER BY v"
        )
        assert [tuple(r) for r in db.query(asked).collect()] == [(5, 11, None), (6, 18, 6), (7, 13, 6)]
        assert "the rows of all partitions" in str(db.explain("SELECT LAG(v) OVER (ORDER BY ts) FROM s"))
        db.execute("CREATE OR REPLACE VIEW steps AS SELECT k, LEAD(v) OVER (ORDER BY ts, v) AS later FROM s")
        db.execute("DROP VIEW last_total; DROP VIEW late_last_total")
        replaced = db.query("SELECT later FROM steps").collect()
        assert sorted(-1 if r.later is None else r.later for r in replaced) == [-1, 0, 1, 6, 7, 8, 9]
