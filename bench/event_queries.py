"""Event queries on Nexmark-like auctions and bids, beside Spark's own stream-stream joins on the same files.

Of 50 events 3 are auctions and 46 are bids, as in Nexmark (its persons are not needed here). A bid is for one
of the latest auctions; every tenth auction gets none. Auctions are (k: id, v: seller, ts), bids (k: auction,
v: bidder, ts); sellers and bidders are the same 10,000 persons. Each answer is compared with DuckDB's, which
reads all files at once.
"""

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import everview
from bench.engine import (
    PARTITIONS,
    SECOND,
    START,
    StepTimes,
    create_stream,
    read_stream,
    report,
    run_spark_steps,
    run_steps,
    session,
    temporary_folder,
)

EVENTS, STEPS, SKIP, PER_SECOND = 50_000, 10, 4, 5_000
AUCTIONS, BIDS = EVENTS * 3 // 50, EVENTS * 46 // 50  # of a step
PERSONS, OPEN = 10_000, 1_000

WITHIN = "b.k = a.k AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL '10' SECOND"

QUERIES = {
    "pairs": "TIMELINE ts AS SELECT a.k, b.v, b.ts FROM auctions a JOIN bids b ON " + WITHIN,
    "without": "TIMELINE until AS SELECT a.k, a.ts + INTERVAL '10' SECOND AS until FROM auctions a "
    f"WHERE NOT EXISTS (SELECT 1 FROM bids b WHERE {WITHIN})",
    "first": "TIMELINE ts AS SELECT a.k, a.ts, MIN(b.ts) AS first FROM auctions a "
    f"JOIN bids b ON {WITHIN} GROUP BY a.k, a.ts",
    # no other auction of the person begins before b: so a is the first, and b the second
    "first_two": "TIMELINE second AS SELECT a.v, a.ts AS first, b.ts AS second, COUNT(*) AS bids "
    "FROM auctions a JOIN auctions b ON b.v = a.v AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL '30' SECOND "
    "JOIN bids c ON c.v = a.v AND c.ts >= a.ts AND c.ts < b.ts WHERE NOT EXISTS ("
    "SELECT 1 FROM auctions e WHERE e.v = a.v AND e.ts < b.ts AND e.ts <> a.ts) GROUP BY a.v, a.ts, b.ts",
}


def write_events(path: Path) -> None:
    """Write the files of all steps."""
    rng = np.random.default_rng(7)
    for step in range(STEPS):
        begin = (START + step * EVENTS // PER_SECOND) * SECOND
        length = EVENTS * SECOND // PER_SECOND
        ids = np.arange(step * AUCTIONS, (step + 1) * AUCTIONS)
        opened = begin + np.arange(AUCTIONS) * length // AUCTIONS
        _write(path / "auctions", step, ids, rng.integers(0, PERSONS, AUCTIONS), opened)
        offset = np.arange(BIDS) * length // BIDS
        latest = step * AUCTIONS + offset * AUCTIONS // length
        auction = np.maximum(latest - rng.integers(0, OPEN, BIDS), 0)
        auction += auction % 10 == 0
        _write(path / "bids", step, auction, rng.integers(0, PERSONS, BIDS), begin + offset)


def _write(folder: Path, step: int, k: np.ndarray, v: np.ndarray, ts: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    columns = {"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int32())}
    table = pa.table({**columns, "ts": pa.array(ts, pa.timestamp("us", tz="UTC"))})
    file = folder / f"{step:04}.parquet"
    pq.write_table(table, file)
    os.utime(file, (START + step, START + step))  # Spark reads files in the order of their times


def _run_query(name: str, path: Path) -> StepTimes:
    streams = "".join(create_stream(stream, path / stream) for stream in ("auctions", "bids"))
    with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
        db.execute(f"{streams} CREATE STREAM {name} {QUERIES[name]}")
        times = run_steps(db, SKIP)
        db.run(finish=True)
        count = _compare_rows(db.query(f"SELECT * FROM {name}"), QUERIES[name].partition(" AS ")[2], path)
        print(f"{name}: {count:,} rows, those of DuckDB")
        return times


def _compare_rows(answer: DataFrame, sql: str, path: Path) -> int:
    """Return the number of rows of an answer; fail unless DuckDB has the same ones, as often."""
    rows = answer.toArrow()
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'").register("ours", rows)
        for stream in ("auctions", "bids"):
            duck.execute(f"CREATE VIEW {stream} AS SELECT * FROM read_parquet('{path / stream}/*.parquet')")
        duck.execute(f"CREATE TABLE theirs AS {sql}")
        for one, other, what in (("ours", "theirs", "too many"), ("theirs", "ours", "missing")):
            wrong = duck.execute(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other} LIMIT 3").fetchall()
            if wrong:
                raise AssertionError(f"rows that are {what}: {wrong}")
    return int(rows.num_rows)


def _spark_join(path: Path, how: str) -> Callable[[], DataFrame]:
    def joined() -> DataFrame:
        a = read_stream(path / "auctions", "0 seconds").alias("a")
        b = read_stream(path / "bids", "0 seconds").alias("b")
        pairs = a.join(b, F.expr(WITHIN), how)
        return pairs.where("b.k IS NULL") if how == "leftOuter" else pairs.selectExpr("a.k", "b.v", "b.ts")

    return joined


def _bench_query(name: str, title: str, how: str, peer_name: str = "Spark") -> None:
    with temporary_folder() as path:
        write_events(path)
        ours = _run_query(name, path)
        peer = run_spark_steps(_spark_join(path, how), path / "spark", SKIP)
        report(f"{title}, {AUCTIONS + BIDS:,} rows a step", ours, peer, AUCTIONS + BIDS, 1, peer_name)


def bench_auctions_without_a_bid() -> None:
    """Auctions without a bid within 10 s, against Spark's left outer stream-stream join."""
    _bench_query("without", "auctions without a bid within 10 s", "leftOuter")


def bench_bids_within() -> None:
    """All bids within 10 s of their auction, against Spark's inner stream-stream join."""
    _bench_query("pairs", "bids within 10 s of their auction", "inner")


def bench_first_bid() -> None:
    """The first bid within 10 s of an auction, against Spark's join alone: it has no such query."""
    _bench_query("first", "first bid within 10 s of an auction", "inner", "Spark, the join alone")


def bench_bids_between() -> None:
    """A person's bids between his first and second auction: rows a second only, Spark has no part of it."""
    with temporary_folder() as path:
        write_events(path)
        ours = _run_query("first_two", path).typical
        rows = AUCTIONS + BIDS
        print(f"bids between a person's first and second auction: {ours:.3f} s a step of {rows:,} rows, "
              f"{rows / ours:,.0f} rows/s\n")  # fmt: skip
