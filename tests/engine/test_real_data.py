"""Real data through Spark, and DuckDB as a witness: at an instant, a view is the same SQL over the rows that
its windows hold then (DESIGN section 8, 4).

The data lie beside the project and are not a part of it. Which rows a window holds is said here in DuckDB's
SQL, from the words of DESIGN section 4.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.time import INFINITY, LEAST, format_timestamp
from everview.database import Database

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the data are not part of the project"),
]

SECOND = 1_000_000
MINUTE = 60 * SECOND
INSTANTS = 20
FILES = 3


@dataclass(frozen=True)
class Case:
    """A view, and what DuckDB is asked: `{t}` is the instant, in microseconds."""

    name: str
    view: str
    witness: str


# The columns by which rows of one instant are ordered: all of them.
COLUMNS = {
    name: ", ".join(f"{column} DESC NULLS LAST" for column in columns.split())
    for name, columns in {
        "traffic": "_id REPORT_ID status avgSpeed vehicleCount",
        "bids": "auction bidder price channel",
    }.items()
}

# Which rows a window holds, in DuckDB's words: `at` is the timestamp of a row in microseconds.


def held(table: str, begin: str, end: str) -> str:
    return f"(SELECT * FROM {table} WHERE {begin} <= {{t}} AND {{t}} < {end})"


def ranged(table: str, width: int, slide: int = 1, lag: int = 0) -> str:
    """RANGE, SLIDE, LAG: from the first grid point after the lag, up to the one after the width."""
    begin, end = (f'(("at" + {moment + slide - 1}) // {slide} * {slide})' for moment in (lag, lag + width))
    return held(table, begin, end)


def fixed(table: str, width: int) -> str:
    return held(table, '"at"', f'("at" // {width} + 1) * {width}')


def newest(table: str, key: str, rows: int) -> str:
    """PARTITION BY … ROWS: of one instant, the greatest rows are the newest."""
    order = f'"at" DESC, {COLUMNS[table]}'
    known = f'(SELECT * FROM {table} WHERE "at" <= {{t}})'
    return (
        f"(SELECT * FROM {known} QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) <= {rows})"
    )


def synchronized(query: str, every: int) -> str:
    """What was there at the last point."""
    return query.replace("{t}", f"({{t}} // {every} * {every})")


# The data

TRAFFIC = """
CREATE STREAM traffic (`_id` BIGINT, `TIMESTAMP` TIMESTAMP, REPORT_ID INT, status STRING, avgSpeed INT,
                       vehicleCount INT, TIMELINE `TIMESTAMP` LATENESS INTERVAL '5' MINUTE)
  FROM csv('{folder}/traffic', header => true, maxFilesPerTrigger => 1);
CREATE TAGGED STREAM sensors OVER traffic KEY (REPORT_ID) DELETE WHEN vehicleCount = 0;
"""
_PER_SENSOR = (
    "SELECT REPORT_ID, COUNT(*) AS n, AVG(avgSpeed) AS mean, STDDEV(avgSpeed) AS spread,"
    " MAX(vehicleCount) AS most, COUNT(DISTINCT avgSpeed) AS kinds FROM {} GROUP BY REPORT_ID"
)
_SLIDING = _PER_SENSOR.format(ranged("traffic", 20 * MINUTE, 5 * MINUTE))
TRAFFIC_CASES = [
    Case("per_sensor", _PER_SENSOR.format("traffic [RANGE 20 MINUTES SLIDE 5 MINUTES]"), _SLIDING),
    Case(
        "slow",  # a view over a view
        "SELECT most, COUNT(*) AS sensors, SUM(n) AS n FROM per_sensor WHERE mean < 40 GROUP BY most",
        f"SELECT most, COUNT(*), SUM(n) FROM ({_SLIDING}) WHERE mean < 40 GROUP BY most",
    ),
    Case(
        "half_hours",
        "SELECT avgSpeed, COUNT(*) AS n, SUM(vehicleCount) AS vehicles FROM traffic [TUMBLE 30 MINUTES]"
        " GROUP BY avgSpeed HAVING COUNT(*) > 20",
        "SELECT avgSpeed, COUNT(*), SUM(vehicleCount)"
        f" FROM {ranged('traffic', 30 * MINUTE, 30 * MINUTE)} GROUP BY avgSpeed HAVING COUNT(*) > 20",
    ),
    Case(
        "speeds",
        "SELECT DISTINCT avgSpeed, status FROM traffic [FIXED 15 MINUTES] WHERE vehicleCount > 3",
        f"SELECT DISTINCT avgSpeed, status FROM {fixed('traffic', 15 * MINUTE)} WHERE vehicleCount > 3",
    ),
    Case(
        "present",
        "SELECT vehicleCount, COUNT(*) AS sensors, AVG(avgSpeed) AS mean FROM sensors GROUP BY vehicleCount",
        f"SELECT vehicleCount, COUNT(*), AVG(avgSpeed) FROM {newest('traffic', 'REPORT_ID', 1)}"
        " WHERE vehicleCount <> 0 GROUP BY vehicleCount",
    ),
]  # fmt: skip

ZEEK = """
CREATE STREAM dns (ts TIMESTAMP, host STRING, name STRING, kind STRING, rtt DOUBLE, TIMELINE ts)
  FROM csv('{folder}/dns', header => true, escape => '"', maxFilesPerTrigger => 1);
CREATE STREAM ssl (ts TIMESTAMP, host STRING, name STRING, version STRING, TIMELINE ts)
  FROM csv('{folder}/ssl', header => true, escape => '"', maxFilesPerTrigger => 1);
"""
ZEEK_CASES = [
    Case(
        "both",
        "SELECT d.host, COUNT(*) AS n, AVG(d.rtt) AS rtt, MIN(s.version) AS version"
        " FROM dns [RANGE 2 SECONDS] AS d JOIN ssl [RANGE 1 SECOND LAG 1 SECOND] AS s ON d.host = s.host"
        " GROUP BY d.host",
        f"SELECT d.host, COUNT(*), AVG(d.rtt), MIN(s.version) FROM {ranged('dns', 2 * SECOND)} AS d"
        f" JOIN {ranged('ssl', SECOND, lag=SECOND)} AS s ON d.host = s.host GROUP BY d.host",
    ),
    Case(
        "asked",
        "SELECT s.host, s.name, d.kind FROM ssl [RANGE 5 SECONDS] AS s"
        " LEFT JOIN dns [RANGE 20 SECONDS] AS d ON s.host = d.host AND s.name = d.name",
        f"SELECT s.host, s.name, d.kind FROM {ranged('ssl', 5 * SECOND)} AS s"
        f" LEFT JOIN {ranged('dns', 20 * SECOND)} AS d ON s.host = d.host AND s.name = d.name",
    ),
    Case(
        "silent",
        "SELECT host, version FROM ssl [RANGE 30 SECONDS] AS s WHERE NOT EXISTS"
        " (SELECT 1 FROM dns [RANGE 1 MINUTE] AS d WHERE d.host = s.host)",
        f"SELECT host, version FROM {ranged('ssl', 30 * SECOND)} AS s WHERE NOT EXISTS"
        f" (SELECT 1 FROM {ranged('dns', MINUTE)} AS d WHERE d.host = s.host)",
    ),
    Case(
        "more",
        "SELECT host FROM dns [RANGE 30 SECONDS] EXCEPT ALL SELECT host FROM ssl [RANGE 30 SECONDS]",
        f"SELECT host FROM {ranged('dns', 30 * SECOND)} EXCEPT ALL"
        f" SELECT host FROM {ranged('ssl', 30 * SECOND)}",
    ),
]

NEXMARK = """
CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP,
                    TIMELINE ts LATENESS INTERVAL '3' SECOND)
  FROM json('{folder}/bids', maxFilesPerTrigger => 1);
CREATE STREAM auctions (id BIGINT, seller BIGINT, category BIGINT, reserve BIGINT, ts TIMESTAMP,
                        TIMELINE ts LATENESS INTERVAL '3' SECOND)
  FROM json('{folder}/auctions', maxFilesPerTrigger => 1);
"""
NEXMARK_CASES = [
    Case(
        "hot",
        "SELECT auction, MAX(price) AS price, COUNT(*) AS n"
        " FROM bids [RANGE 10 SECONDS] SYNC EVERY INTERVAL '2' SECOND GROUP BY auction",
        synchronized(
            f"SELECT auction, MAX(price), COUNT(*) FROM {ranged('bids', 10 * SECOND)} GROUP BY auction",
            2 * SECOND,
        ),
    ),
    Case(
        "last_ten",
        "SELECT bidder, COUNT(*) AS n, AVG(price) AS price, MIN(channel) AS channel"
        " FROM bids [PARTITION BY bidder ROWS 10] GROUP BY bidder",
        "SELECT bidder, COUNT(*), AVG(price), MIN(channel)"
        f" FROM {newest('bids', 'bidder', 10)} GROUP BY bidder",
    ),
    Case(
        "categories",
        "SELECT a.category, COUNT(*) AS n, AVG(b.price) AS price, STDDEV(b.price) AS spread,"
        " SUM(CASE WHEN b.price > a.reserve THEN 1 ELSE 0 END) AS sold"
        " FROM bids [RANGE 3 SECONDS] AS b JOIN auctions AS a ON b.auction = a.id GROUP BY a.category",
        "SELECT a.category, COUNT(*), AVG(b.price), STDDEV(b.price),"
        f" SUM(CASE WHEN b.price > a.reserve THEN 1 ELSE 0 END) FROM {ranged('bids', 3 * SECOND)} AS b"
        f" JOIN {ranged('auctions', INFINITY // 4)} AS a ON b.auction = a.id GROUP BY a.category",
    ),
]


def test_a_week_of_traffic(spark: SparkSession, tmp_path: Path) -> None:
    columns = ["_id", "TIMESTAMP", "REPORT_ID", "status", "avgSpeed", "vehicleCount"]
    with gzip.open(DATA / "traffic-aarhus-week.csv.gz") as file:
        frame = pl.read_csv(file.read(), n_rows=20_000)
    frame = frame.sort("_id", maintain_order=True)
    _put_files(frame, tmp_path / "traffic", lambda part: gzip.compress(part.write_csv().encode()), "csv.gz")
    rows = frame.select(columns).with_columns(at=pl.col("TIMESTAMP").str.to_datetime().dt.epoch("us"))
    check(spark, tmp_path, TRAFFIC, TRAFFIC_CASES, {"traffic": rows})


def test_two_links_of_a_network(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for name, columns in (
        ("dns", {"id.orig_h": "host", "query": "name", "qtype_name": "kind", "rtt": "rtt"}),
        ("ssl", {"id.orig_h": "host", "server_name": "name", "version": "version"}),
    ):
        log = _zeek(DATA / f"zeek-{name}.log.gz").head(12_000)
        at = pl.col("ts").str.replace(".", "", literal=True).cast(pl.Int64)
        rows = log.select(at.alias("at"), *(pl.col(c).alias(n) for c, n in columns.items())).sort("at")
        if name == "dns":
            rows = rows.with_columns(pl.col("rtt").cast(pl.Float64))
        shown = rows.select(pl.from_epoch("at", "us").dt.strftime("%Y-%m-%d %H:%M:%S%.6f").alias("ts"),
                            *columns.values())  # fmt: skip
        _put_files(shown, tmp_path / name, lambda part: part.write_csv().encode(), "csv")
        frames[name] = rows
    check(spark, tmp_path, ZEEK, ZEEK_CASES, frames)


def _zeek(path: Path) -> pl.DataFrame:
    """A log of Zeek: separated by tabs, its columns named in a comment."""
    with gzip.open(path) as file:
        text = file.read()
    fields = next(line for line in text.decode().splitlines() if line.startswith("#fields")).split("\t")[1:]
    lines = b"\n".join(line for line in text.splitlines() if not line.startswith(b"#"))
    return pl.read_csv(
        lines, separator="\t", has_header=False, new_columns=fields, quote_char=None, null_values="-",
        infer_schema=False,
    )  # fmt: skip


def test_auctions_out_of_order(spark: SparkSession, tmp_path: Path) -> None:
    wanted = {
        "bid": ("auction", "bidder", "price", "channel"),
        "auction": ("id", "seller", "category", "reserve"),
    }
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in wanted}
    with gzip.open(DATA / "nexmark-100k-outoforder.jsonl.gz", "rt") as file:
        for _, line in zip(range(20_000), file, strict=False):
            event = json.loads(line)
            for kind, columns in wanted.items():
                if event.get(kind):
                    body = event[kind]
                    found[kind].append({c: body[c] for c in columns} | {"at": body["dateTime"] * 1000})
    frames = {}
    for kind, rows in found.items():
        frame = frames[f"{kind}s"] = pl.DataFrame(rows)
        ts = pl.from_epoch("at", "us").dt.strftime("%Y-%m-%d %H:%M:%S%.6f").alias("ts")
        shown = frame.select(*wanted[kind], ts)
        _put_files(shown, tmp_path / f"{kind}s", lambda part: part.write_ndjson().encode(), "json")
    check(spark, tmp_path, NEXMARK, NEXMARK_CASES, frames)


def _put_files(frame: pl.DataFrame, folder: Path, encoded: Any, ending: str) -> None:
    """The rows in their order, in files one second apart: Spark reads them in the order of their times."""
    folder.mkdir()
    size = math.ceil(frame.height / FILES)
    for i in range(FILES):
        path = folder / f"{i}.{ending}"
        path.write_bytes(encoded(frame.slice(i * size, size)))
        os.utime(path, (1_700_000_000 + i,) * 2)


def check(
    spark: SparkSession, folder: Path, script: str, cases: Sequence[Case], tables: dict[str, pl.DataFrame]
) -> None:
    """Every view at random instants, among them those at which rows come and windows move."""
    duck = duckdb.connect(config={"threads": 1})
    for name, frame in tables.items():
        duck.register(name, frame.to_arrow())
        duck.execute(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}")
        duck.unregister(name)
        duck.execute(f"ALTER TABLE kept_{name} RENAME TO {name}")
    with everview.connect(str(folder / "store"), spark, partitions=2) as db:
        db.execute(script.format(folder=folder))
        db.execute("".join(f"CREATE VIEW {c.name} AS {c.view};" for c in cases))
        done = db.run()
        assert done.steps == FILES
        assert not any(a.late or a.rejected for a in done.arrived.values())
        assert done.rows == sum(frame.height for frame in tables.values())
        db.run(finish=True)
        instants = _instants(list(tables.values()))
        for case in cases:
            compare(db, duck, case, instants)


def _instants(frames: Sequence[pl.DataFrame]) -> list[int]:
    rng = random.Random(3)
    times = pl.concat([frame["at"] for frame in frames]).sort()
    first, last = times[0], times[-1]
    chosen = [times[rng.randrange(times.len())] for _ in range(INSTANTS // 2)]
    chosen += [t // MINUTE * MINUTE for t in chosen[:3]]
    return [*chosen, *(rng.randrange(first, last + 20 * SECOND) for _ in range(INSTANTS - len(chosen)))]


def compare(db: Database, duck: duckdb.DuckDBPyConnection, case: Case, instants: Sequence[int]) -> None:
    shown = db.changes(case.name, "intervals")
    places = [str(i) for i in range(len(shown.columns))]  # a view may have a column `n` of its own
    changes = pl.from_arrow(shown.toDF(*places).toArrow())
    assert isinstance(changes, pl.DataFrame)
    begin = pl.col("0").dt.epoch("us").fill_null(LEAST)
    end = pl.col("1").dt.epoch("us").fill_null(INFINITY)
    changes = changes.with_columns(begin.alias("from"), end.alias("until"))
    agreed = 0
    for number, t in enumerate(instants):
        here = changes.filter((pl.col("from") <= t) & (pl.col("until") > t))
        ours = [row[1:] for row in here.select(places[2:]).rows() for _ in range(row[0])]
        theirs = duck.execute(case.witness.replace("{t}", str(t))).fetchall()
        require_same(ours, theirs, f"{case.name} at {t}")
        if number == 0:
            asked = db.query(f"SELECT * FROM {case.name}", as_of=format_timestamp(t))
            require_same([tuple(r) for r in asked.collect()], theirs, f"{case.name} AS OF {t}")
        agreed += len(theirs)
    assert agreed > len(instants) // 2, f"{case.name} shows next to nothing"


def require_same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], where: str) -> None:
    """Equal as multisets; floating point to nine digits."""
    assert len(ours) == len(theirs), where
    both = (sorted(map(_plain, rows), key=_order) for rows in (ours, theirs))
    for mine, yours in zip(*both, strict=True):
        assert all(map(_equal, mine, yours)), (where, mine, yours)


def _equal(a: Any, b: Any) -> bool:
    floats = isinstance(a, float) and isinstance(b, float)
    return bool(a == b or (floats and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(int(v) if isinstance(v, Decimal) and v == int(v) else v for v in row)


def _order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    """Whole values first: floats that differ in their last digits do not disturb the order."""
    whole = [v for v in row if not isinstance(v, float)]
    rest = [v for v in row if isinstance(v, float)]
    return [(v is not None, 0 if v is None else v) for v in (*whole, *rest)]
