"""Rankings on Spark, end to end: early, late, replaced, dropped, over retractions, after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview

pytestmark = pytest.mark.spark

VIEWS = {
    "best": "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s)"
    " WHERE n <= 2",
    "newest": "SELECT k, v FROM s ORDER BY ts DESC LIMIT 2",
    "busiest": "SELECT k, n, RANK() OVER (ORDER BY n DESC) AS place FROM counts",
    "top": "SELECT k FROM busiest WHERE place = 1",
    "first": "SELECT DISTINCT ON (k) k, v FROM s [RANGE 3 SECONDS] ORDER BY k, ts",
}


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


def answers(db: everview.Database, prefix: str = "") -> dict[str, list[tuple[object, ...]]]:
    return {
        name: sorted(tuple(r) for r in db.query(f"SELECT * FROM {prefix}{name}").collect()) for name in VIEWS
    }


def test_the_life_of_rankings(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)")
        db.execute("CREATE VIEW counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k")
        for name, sql in VIEWS.items():
            db.execute(f"CREATE VIEW {name} AS {sql}")
        db.execute(f"INSERT INTO s VALUES (1, 5, {at(1)}), (1, 7, {at(2)}), (2, 1, {at(2)}), (1, 6, {at(3)})")
        db.run()
        assert answers(db) == {
            "best": [(1, 6), (1, 7), (2, 1)],
            "newest": [(1, 6), (1, 7)],  # of the rows of second 2, (1, 7) is the first by all columns
            "busiest": [(1, 3, 1), (2, 1, 2)],
            "top": [(1,)],
            "first": [(1, 5), (2, 1)],
        }
    with everview.connect(path, spark, partitions=2) as db:
        for name, sql in VIEWS.items():
            late = sql.replace("FROM busiest", "FROM late_busiest")
            db.execute(f"CREATE VIEW late_{name} AS {late}")
        db.execute(f"INSERT INTO s VALUES (2, 9, {at(4)}), (2, 8, {at(5)}), (2, 0, {at(5)})")
        db.run()
        found = {
            "best": [(1, 6), (1, 7), (2, 8), (2, 9)],
            "newest": [(2, 0), (2, 8)],
            "busiest": [(1, 3, 2), (2, 4, 1)],
            "top": [(2,)],
            "first": [(1, 6), (2, 9)],
        }
        assert answers(db) == found
        assert answers(db, "late_") == found
        tags = [(r.tag, r.k) for r in db.changes("top").orderBy("at").collect()]
        assert tags[0] == ("+", 1)
        assert set(tags[-2:]) == {("-", 1), ("+", 2)}, "at one instant"
        db.execute(
            "CREATE OR REPLACE VIEW best AS SELECT k, v FROM s QUALIFY RANK() OVER (ORDER BY v DESC) <= 1"
        )
        db.execute("DROP VIEW top; DROP VIEW late_top")
        assert [tuple(r) for r in db.query("SELECT * FROM best").collect()] == [(2, 9)]
        asked = "SELECT v, DENSE_RANK() OVER (ORDER BY v) AS d FROM s QUALIFY d <= 2 ORDER BY v"
        assert [tuple(r) for r in db.query(asked).collect()] == [(0, 1), (1, 2)]
