"""Parquet files as pandas, Polars, DuckDB, Arrow and Spark write them, of differing schemas in one folder."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import StoreError
from tests.engine.reading import dated, late, put, rejected, taken

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 1, 0, 0, 1)
COLUMNS = "k INT, x DOUBLE, m DECIMAL(9, 2), day DATE, s STRING, ts TIMESTAMP, TIMELINE ts"
ROW = (7, 0.5, Decimal("1.50"), date(2026, 1, 2), "a")


def table(**other: object) -> dict[str, object]:
    row = {"k": 7, "x": 0.5, "m": Decimal("1.50"), "day": date(2026, 1, 2), "s": "a", "ts": AT}
    return {name: [value] for name, value in (row | other).items()}


def write_all(folder: Path, spark: SparkSession) -> int:
    """The same row by many writers; how many files that is."""
    folder.mkdir()
    frame = pd.DataFrame(table(day=pd.Timestamp("2026-01-02")))  # pandas has no dates
    frame.to_parquet(folder / "pandas_ns.parquet")
    frame.assign(
        ts=frame.ts.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"), s=frame.s.astype("category")
    )[["ts", "s", "x", "k", "m", "day"]].to_parquet(folder / "pandas_zone.parquet")
    frame.assign(k=frame.k.astype("float64")).to_parquet(folder / "pandas_with_nulls.parquet")
    polars = pl.DataFrame(table())
    polars.write_parquet(folder / "polars_us.parquet")
    polars.with_columns(
        pl.col("ts").cast(pl.Datetime("ms", "UTC")),
        pl.col("k").cast(pl.UInt64),
        pl.col("s").cast(pl.Categorical),
    ).write_parquet(folder / "polars_ms.parquet")
    duckdb.sql(
        "COPY (SELECT 7::UTINYINT AS K, 0.5::FLOAT AS X, 1.5::DECIMAL(4, 1) AS M, DATE '2026-01-02' AS Day, "
        "'a' AS S, TIMESTAMPTZ '2026-01-01 00:00:01+00' AS TS, [1] AS more) "
        f"TO '{folder}/duckdb.parquet' (FORMAT parquet)"
    )
    spark.sql(
        "SELECT 7 AS k, 0.5D AS x, CAST(1.5 AS DECIMAL(9, 2)) AS m, DATE '2026-01-02' AS day, 'a' AS s, "
        "TIMESTAMP '2026-01-01 00:00:01' AS ts"
    ).coalesce(1).write.parquet(str(folder / "spark"))
    next((folder / "spark").glob("*.parquet")).rename(folder / "spark.parquet")
    for rest in (folder / "spark").iterdir():
        rest.unlink()
    (folder / "spark").rmdir()
    arrow = pa.table(table())
    pq.write_table(arrow, folder / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(
        arrow.set_column(0, "k", pa.array([7], pa.int8())).set_column(4, "s", pa.array([b"a"])),
        folder / "arrow.parquet",
    )
    files = list(folder.glob("*.parquet"))
    for file in files:
        dated(file)
    return len(files)


def test_files_of_many_tools_in_one_folder(spark: SparkSession, tmp_path: Path) -> None:
    count = write_all(tmp_path / "in %20 and", spark)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM p ({COLUMNS}) FROM parquet('{tmp_path}/in %20 and');
            CREATE VIEW all_of_p AS SELECT k, x, m, day, s, ts FROM p;
        """)
        db.run(finish=True)
        assert rejected(db, "p") == Counter()
        assert taken(db, "p") == Counter({(*ROW, AT): count})
        assert count == 9


def test_values_and_types_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    come = tmp_path / "in"
    come.mkdir()

    def write(name: str, **columns: pa.Array) -> Path:
        pq.write_table(pa.table({"ts": [AT] * 2} | columns), come / name)
        return dated(come / name)

    write("1.parquet", k=pa.array([2**40, 7]), m=pa.array([Decimal("12345678.125"), Decimal("1.125")]))
    text = write("2.parquet", k=["x", None])
    write("3.parquet", k=[1.5, 7.0], day=[datetime(2026, 1, 2, 10), datetime(2026, 1, 2)])
    write("4.parquet", s=[b"\xff", b"a"], other=[1, 2])
    write("5.parquet", ts=pa.array([None, AT], pa.timestamp("ns")))
    no_time = write("6.parquet", ts=["2026-01-01", None])
    pq.write_table(pa.table({"k": [1]}), come / "7.parquet")
    dated(come / "7.parquet")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM p ({COLUMNS}) FROM parquet('{come}');
            CREATE VIEW all_of_p AS SELECT k, m, day, s FROM p;
        """)
        db.run(finish=True)
        reasons = Counter(reason for reason, _ in rejected(db, "p").elements())
        assert reasons == Counter(
            [
                "k: 1099511627776 is no INT",
                f"k: string of {text} does not fit INT",
                "k: 1.5 is no INT",
                "s: /w== is no STRING",
                "ts: there is no timestamp",
                "ts: there is no timestamp",
                f"ts: string of {no_time} does not fit TIMESTAMP",
                f"ts: {come}/7.parquet has no such column",
            ]
        )
        assert taken(db, "p") == Counter(
            [
                (7, Decimal("1.13"), None, None),
                (None, None, None, None),
                (7, None, date(2026, 1, 2), None),
                (None, None, None, "a"),
                (None, None, None, None),
            ]
        )
        texts = {reason: json.loads(text) for reason, text in rejected(db, "p")}
        assert texts["k: 1099511627776 is no INT"]["k"] == 2**40
        assert texts["s: /w== is no STRING"] | {"ts": ""} == {"ts": "", "s": "/w==", "other": 1}
        assert texts[f"ts: {come}/7.parquet has no such column"] == {"k": 1}


def test_columns_in_the_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    frame = pl.DataFrame({"ts": [AT.replace(tzinfo=UTC)]})
    for day in ("2026-01-02", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "in" / f"day={day}" / "s=a%20b").mkdir(parents=True)
        frame.write_parquet(tmp_path / "in" / f"day={day}" / "s=a%20b" / "1.parquet")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM p (day DATE, s STRING, ts TIMESTAMP, TIMELINE ts) FROM parquet('{tmp_path}/in');
            CREATE VIEW all_of_p AS SELECT day, s FROM p;
        """)
        db.run(finish=True)
        assert taken(db, "p") == Counter([(date(2026, 1, 2), "a b"), (None, "a b")])


def test_late_rows_and_broken_files(spark: SparkSession, tmp_path: Path) -> None:
    come = tmp_path / "in"
    come.mkdir()
    for i, second in enumerate((30, 1, 40)):
        pq.write_table(pa.table({"k": [i], "ts": [AT.replace(second=second)]}), come / f"{i}.parquet")
        dated(come / f"{i}.parquet")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM p (k INT, ts TIMESTAMP, TIMELINE ts)
              FROM parquet('{come}', maxFilesPerTrigger => 1);
            CREATE VIEW all_of_p AS SELECT k FROM p;
        """)
        db.run()
        [text] = late(db, "p")
        assert json.loads(text)["k"] == 1
        broken = put(come, "x.parquet", b"PAR1 and no more")
        with pytest.raises(StoreError) as caught:
            db.run()
        assert str(caught.value).startswith(f"{broken} cannot be read as Parquet: ")
        assert str(caught.value).endswith("next: write it again, or take it away, and run again")
        broken.unlink()
