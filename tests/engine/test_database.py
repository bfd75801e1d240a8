"""The database end to end on Spark: insert, run, ask, restart; each view is exact up to the bound."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import EverviewError, StoreError
from tests.sql.oracle import SCRIPT

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1)
PARKING = """
CREATE STREAM came (vid STRING, vtype STRING, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM went (vid STRING, vtype STRING, ts TIMESTAMP, TIMELINE ts);
CREATE VIEW parked AS SELECT vid, vtype FROM came EXCEPT ALL SELECT vid, vtype FROM went;
CREATE VIEW per_type AS SELECT vtype, COUNT(*) AS vehicles FROM parked GROUP BY vtype;
"""


def car(vid: str, second: int, vtype: str = "car") -> dict[str, object]:
    return {"vid": vid, "vtype": vtype, "ts": START + timedelta(seconds=second)}


def rows(answer) -> Counter[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    return Counter(tuple(r) for r in answer.collect())


def test_a_view_over_a_view_with_retractions(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(PARKING)
        assert db.insert("came", [car("v1", 1), car("v2", 2, "bus"), car("v3", 3)]).rows == 3
        db.insert("went", [car("v1", 3)])
        db.run()
        assert rows(db.query("SELECT * FROM parked")) == {("v2", "bus"): 1, ("v3", "car"): 1}
        assert rows(db.query("SELECT * FROM per_type")) == {("bus", 1): 1, ("car", 1): 1}
    # A new process: all that is known comes from the store.
    with everview.connect(path, spark) as db:
        taken = db.insert("went", [car("v2", 5, "bus"), car("v9", 1)])
        assert (taken.rows, taken.late) == (1, 1)
        db.insert("came", [car("v4", 6), car("v5", 5)])
        db.run()
        assert rows(db.query("SELECT * FROM per_type")) == {("car", 2): 1}
        db.run(finish=True)
        assert rows(db.query("SELECT vid FROM parked ORDER BY vid LIMIT 2")) == {("v3",): 1, ("v4",): 1}
        joined = "SELECT p.vid, t.vehicles FROM parked p JOIN per_type t ON p.vtype = t.vtype"
        assert rows(db.query(joined)) == {("v3", 3): 1, ("v4", 3): 1, ("v5", 3): 1}


def test_money_is_neither_made_nor_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Credits and debits of ten accounts in random batches: the balances add up to 0 after every step."""
    rng = random.Random(7)
    with everview.connect(str(tmp_path / "bank"), spark, partitions=2) as db:
        db.execute("""
            CREATE STREAM transfers (source INT, target INT, amount INT, ts TIMESTAMP,
                                     TIMELINE ts LATENESS INTERVAL '10' SECOND);
            CREATE VIEW credits AS
              SELECT target AS account, SUM(amount) AS paid FROM transfers GROUP BY target;
            CREATE VIEW debits AS
              SELECT source AS account, SUM(amount) AS paid FROM transfers GROUP BY source;
            CREATE VIEW balance AS
              SELECT c.account, c.paid - d.paid AS balance
              FROM credits c JOIN debits d ON c.account = d.account;
            CREATE VIEW total AS SELECT SUM(balance) AS total, COUNT(*) AS accounts FROM balance;
        """)
        second = 0
        for account in range(10):
            db.insert("transfers", [transfer(account, (account + 1) % 10, 5, second)])
        for _ in range(3):
            batch = []
            for _ in range(30):
                second += rng.randrange(3)
                source, target = rng.sample(range(10), 2)
                batch.append(
                    transfer(source, target, rng.randrange(1, 100), max(0, second - rng.randrange(10)))
                )
            db.insert("transfers", batch)
            db.run()
            assert rows(db.query("SELECT total, accounts FROM total")) == {(0, 10): 1}
            assert not list((tmp_path / "bank" / "steps").rglob("*.json")), (
                "what tasks told is not cleaned away"
            )


def transfer(source: int, target: int, amount: int, second: int) -> dict[str, object]:
    return {"source": source, "target": target, "amount": amount, "ts": START + timedelta(seconds=second)}


def test_a_second_writer_is_told_who_holds_the_store_and_readers_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db, everview.connect(path, spark) as other:
        db.execute(PARKING)
        db.insert("came", [car("v1", 1)])
        db.insert("went", [car("v9", 1)])
        with pytest.raises(StoreError, match="process"):
            other.execute("CREATE VIEW everything AS SELECT * FROM came")
        db.run()
        assert rows(other.query("SELECT vid FROM parked")) == {("v1",): 1}


def test_what_cannot_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark) as db:
        for sql in (
            "CREATE STREAM f (timestamp TIMESTAMP, TIMELINE timestamp) FROM rate(); SELECT timestamp FROM f",
            SCRIPT + "DELETE FROM s",
            "SELECT * FROM nothing",
        ):
            with pytest.raises(EverviewError):
                db.execute(sql)
