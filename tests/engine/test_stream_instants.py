"""The instant of ISTREAM, DSTREAM and RSTREAM: the column `at`, also as an event; stores that have none."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import CatalogError

pytestmark = pytest.mark.spark

STORED = Path(__file__).parent.parent / "stores" / "streams-without-instants.tar.gz"


def rows_of(db: everview.Database, sql: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in db.query(sql).collect())


def second(number: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, number)


def test_the_instant_is_a_column_and_a_time_line(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW entered AS ISTREAM(SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY k);
            CREATE VIEW gone AS DSTREAM(SELECT k FROM s [RANGE 3 SECONDS]);
            CREATE VIEW shown AS RSTREAM(SELECT COUNT(*) AS n FROM s) SYNC EVERY INTERVAL '2' SECOND;
            CREATE VIEW counts AS ISTREAM(SELECT COUNT(*) AS n FROM s);
            CREATE VIEW newest AS SELECT k, n FROM entered [RANGE 1 SECOND];
            CREATE STREAM twice TIMELINE at AS SELECT k, at FROM entered WHERE n = 2;
            CREATE STREAM after TIMELINE at AS
              SELECT g.k, g.at FROM ISTREAM(SELECT k FROM s [RANGE 3 SECONDS]) g
              JOIN s ON s.k = g.k AND s.ts < g.at AND s.ts >= g.at - INTERVAL '2' SECOND;
            INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01'), (2, TIMESTAMP '2026-01-01 00:00:02'),
              (1, TIMESTAMP '2026-01-01 00:00:03'), (1, TIMESTAMP '2026-01-01 00:00:09');
        """)
        db.run()
        assert rows_of(db, "SELECT * FROM entered") == [
            (1, 1, second(1)), (1, 1, second(4)), (1, 1, second(9)), (1, 2, second(3)), (2, 1, second(2)),
        ]  # fmt: skip
        assert rows_of(db, "SELECT * FROM gone") == [
            (1, second(4)), (1, second(6)), (2, second(5)),
        ]  # fmt: skip
        assert rows_of(db, "SELECT * FROM shown") == [
            (2, second(2)),
            (3, second(4)),
            (3, second(6)),
            (3, second(8)),
        ]
        assert rows_of(db, "SELECT n, at FROM counts") == [
            (0, datetime(1, 1, 2)), (1, second(1)), (2, second(2)), (3, second(3)), (4, second(9)),
        ]  # fmt: skip
        assert rows_of(db, "SELECT k, n FROM newest") == [(1, 1)]
        assert rows_of(db, "SELECT * FROM twice") == [(1, second(3))]
        assert rows_of(db, "SELECT * FROM after") == [(1, second(3))]
        assert "at  TIMESTAMP  TIMELINE" in " ".join(str(db.execute("DESCRIBE gone")).split(" "))


def test_views_of_a_store_without_instants_keep_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with tarfile.open(STORED) as archive:
        archive.extractall(store, filter="data")
    with everview.connect(str(store), spark) as db:
        before = dict(db.manifest().plans)
        db.execute(
            "INSERT INTO s VALUES (2, TIMESTAMP '2026-01-01 00:00:05'), (1, TIMESTAMP '2026-01-01 00:00:07')"
        )
        db.execute("CREATE VIEW entered AS ISTREAM(SELECT k, ts FROM s [RANGE 10 SECONDS])")  # there already
        db.run()
        assert {name: db.manifest().plans[name] for name in before} == before, "no plan has changed"
        arrived = [(1, second(1)), (1, second(4)), (1, second(7)), (2, second(2)), (2, second(5))]
        assert rows_of(db, "SELECT * FROM entered") == arrived
        assert rows_of(db, "SELECT * FROM gone") == [(1,), (1,), (2,), (2,)]
        assert rows_of(db, "SELECT * FROM shown") == [(2,), (3,), (4,)]
        assert rows_of(db, "SELECT * FROM recent") == [(1, 2), (2, 1)]
        assert rows_of(db, "SELECT * FROM again") == [(1, second(1)), (1, second(4)), (2, second(2))]
        assert json.loads((store / "catalog.json").read_text())["format"] == 1
        db.execute("CREATE OR REPLACE VIEW gone AS DSTREAM(SELECT k FROM s [RANGE 2 SECONDS])")
        db.run()
        assert rows_of(db, "SELECT * FROM gone") == [
            (1, second(3)), (1, second(6)), (2, second(4)), (2, second(7)),
        ]  # fmt: skip
        assert json.loads((store / "catalog.json").read_text())["format"] == 2
        with pytest.raises(CatalogError, match="already a view 'shown' with another definition"):
            db.execute(
                "CREATE VIEW shown AS RSTREAM(SELECT COUNT(*) AS m FROM s SYNC EVERY INTERVAL '2' SECOND)"
            )
