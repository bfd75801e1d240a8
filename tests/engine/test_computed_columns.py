"""Computed columns on Spark: of files, of every form of INSERT, through the life of a stream."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import StoreError

pytestmark = pytest.mark.spark

COLUMNS = (
    "k STRING, at TIMESTAMP AS (timestamp_millis(ms)), ms BIGINT, size AS length(s.k) NOT NULL, TIMELINE at"
)
VIEW = "SELECT k, size, COUNT(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY k, size"


def rows(db: everview.Database, sql: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in db.query(sql).collect())


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_files(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """A time line may be computed; a row without one is rejected with its text, and a late view agrees."""
    values = [("a", 1000), ("bb", 2000), ("bb", None), ("a", 7000), (None, 7500), ("c", 8000)]
    folder = tmp_path / "in"
    folder.mkdir()
    if format_ == "csv":
        lines = [f"{k or ''},{'' if ms is None else ms}" for k, ms in values]
        (folder / "a.csv").write_text("\n".join(["k,ms", *lines, ""]))
    elif format_ == "json":
        lines = [json.dumps({"k": k, "ms": ms}) for k, ms in values]
        (folder / "a.json").write_text("\n".join([*lines, ""]))
    else:
        pq.write_table(
            pa.table({"k": [k for k, _ in values], "ms": [ms for _, ms in values]}), folder / "a.parquet"
        )
    options = ", header => true" if format_ == "csv" else ""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(
            f"CREATE STREAM s ({COLUMNS}) FROM {format_}('{folder}'{options}); CREATE VIEW early AS {VIEW}"
        )
        db.run(finish=True)
        assert db.manifest().counts["s"] == (4, 0, 2)
        reasons = {r for (r,) in rows(db, "SELECT _reason FROM s$rejected")}
        assert reasons == {"at: there is no timestamp", "size: NULL, and the column is NOT NULL"}
        assert rows(db, "SELECT k, size, n FROM early") == {("a", 1, 1): 1, ("c", 1, 1): 1}
        db.execute(f"CREATE VIEW late AS {VIEW}")
        assert rows(db, "SELECT * FROM late") == rows(db, "SELECT * FROM early")
        db.execute("ALTER STREAM s RENAME TO renamed")
        assert "AS (length(renamed.k))" in str(db.execute("SHOW CREATE STREAM renamed"))


def test_every_form_of_insert(spark: SparkSession, tmp_path: Path) -> None:
    forms = [
        [{"k": "dict", "ms": 1000}],
        [("tuple", 2000)],
        pa.table({"k": ["arrow"], "ms": [3000]}),
        pl.DataFrame({"ms": [4000], "k": ["polars"]}),
        spark.createDataFrame([("spark", 5000)], "k STRING, ms BIGINT"),
    ]
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(
            f"CREATE STREAM s ({COLUMNS}); CREATE VIEW v AS SELECT k, size, unix_millis(at) AS ms FROM s"
        )
        for form in forms:
            db.insert("s", form)
        db.execute("INSERT INTO s VALUES ('sql', 6000); INSERT INTO s (ms, k) SELECT 7000, 'select'")
        for wrong in (
            [{"k": "a", "ms": 1, "size": 9}],
            pa.table({"k": ["a"], "ms": [1], "size": pa.array([9], pa.int32())}),
        ):
            with pytest.raises(
                StoreError, match="has a value for 'size': it is computed, so no value can be"
            ):
                db.insert("s", wrong)
        with pytest.raises(StoreError, match="has no timestamp in 'at'"):
            db.insert("s", [{"k": "a", "ms": None}])
        db.run(finish=True)
        names = ["dict", "tuple", "arrow", "polars", "spark", "sql", "select"]
        wanted = {(name, len(name), 1000 * n): 1 for n, name in enumerate(names, 1)}
        assert rows(db, "SELECT * FROM v") == wanted
