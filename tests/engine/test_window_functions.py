"""Windows as columns on Spark: all windows are those of Spark's own window(…) over all rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview

pytestmark = pytest.mark.spark

HOP = "'7 seconds', '3 seconds', '1 second'"
VIEWS = {
    "'5 seconds'": "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total"
    " FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY k, window_start, window_end",
    HOP: "SELECT k, window.start, window.end, COUNT(*) AS n, SUM(v) AS total"
    f" FROM s GROUP BY k, window(ts, {HOP})",
}
"""By the arguments of Spark's function."""
ROW_BY_ROW = {
    "spells": "SELECT k, session_start, MAX(ts) AS last, COUNT(*) AS n"
    " FROM s [SESSION 4 SECONDS PARTITION BY k] GROUP BY k, session_start",
    "ends": "SELECT k, v, session_end FROM s [SESSION 4 SECONDS PARTITION BY k]",
    "slides": "SELECT k, v FROM s [PARTITION BY k ROWS 3 SLIDE 2]",
}


def insert(db: everview.Database, first: int, last: int, rng: random.Random) -> list[tuple[int, int, str]]:
    """Insert rows of some seconds around 1970, on boundaries and between them."""
    rows = []
    for second in sorted(rng.choices(range(first, last), k=12)):
        fraction = rng.choice(["", ".000001", ".999999"])
        year, shown = (1969, second + 60) if second < 0 else (1970, second)
        day = "12-31 23:59" if second < 0 else "01-01 00:00"
        rows.append((rng.randrange(2), rng.randrange(9), f"{year}-{day}:{shown:02}{fraction}"))
    values = ", ".join(f"({k}, {v}, TIMESTAMP '{ts}')" for k, v, ts in rows)
    db.execute(f"INSERT INTO s VALUES {values}")
    return rows


def test_the_life_of_windows_as_columns_sessions_and_slides(spark: SparkSession, tmp_path: Path) -> None:
    path, rng = str(tmp_path / "store"), random.Random(3)
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)")
        for number, sql in enumerate(VIEWS.values()):
            db.execute(f"CREATE VIEW early_{number} AS ISTREAM({sql})")
        for name, sql in ROW_BY_ROW.items():
            db.execute(f"CREATE VIEW early_{name} AS {sql}")
        rows = insert(db, -20, 0, rng)
        db.run()
    with everview.connect(path, spark, partitions=2) as db:
        for number, sql in enumerate(VIEWS.values()):
            db.execute(f"CREATE VIEW late_{number} AS ISTREAM({sql})")
        for name, sql in ROW_BY_ROW.items():
            db.execute(f"CREATE VIEW late_{name} AS {sql}")
        rows += insert(db, 0, 20, rng)
        db.execute("INSERT INTO s VALUES (2, 0, TIMESTAMP '1970-01-01 00:01:00')")  # so that all are over
        db.run()
        given = spark.createDataFrame(rows, "k INT, v INT, ts STRING")
        given.selectExpr("k", "v", "CAST(ts AS TIMESTAMP) AS ts").createOrReplaceTempView("given")
        for number, arguments in enumerate(VIEWS):
            wanted = spark.sql(
                "SELECT k, window.start, window.end, COUNT(*) AS n, SUM(v) AS total, window.end AS at"
                f" FROM given GROUP BY k, window(ts, {arguments})"
            )
            expected = sorted(map(tuple, wanted.collect()))
            assert len(expected) > 8
            for name in (f"early_{number}", f"late_{number}"):
                found = db.query(f"SELECT * FROM {name} WHERE k < 2").collect()
                assert sorted(map(tuple, found)) == expected
        for name in ROW_BY_ROW:
            early, late = (
                sorted(map(str, db.changes(f"{life}_{name}", "intervals").collect()))
                for life in ("early", "late")
            )
            assert early == late, "sessions and numbers of rows go on after a restart"
            assert len(early) > 8
