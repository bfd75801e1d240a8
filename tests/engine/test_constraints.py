"""NOT NULL, DEFAULT and PRIMARY KEY after a column: for statements and for rows of every kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def test_defaults_and_not_null(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("""
            CREATE TABLE t (id INT PRIMARY KEY, name STRING NOT NULL, v INT DEFAULT 5,
                            d DATE DEFAULT '2026-01-31');
            CREATE STREAM s (k INT DEFAULT 7, w STRING NOT NULL DEFAULT 'x', ts TIMESTAMP, TIMELINE ts);
        """)
    with everview.connect(path, spark) as db:  # the catalog is read back
        db.execute("INSERT INTO t (id, name) VALUES (1, 'sql')")
        db.execute("INSERT INTO t (id, name) SELECT 2, 'query'")
        db.insert("t", [{"id": 3, "name": "dict"}, {"id": 4, "name": "null", "v": None}])
        db.insert("t", pl.DataFrame({"id": [5], "name": ["polars"]}))
        db.insert("t", pa.table({"id": [6], "name": ["arrow"]}))
        db.insert("t", spark.sql("SELECT 7 AS id, 'spark' AS name"))
        db.execute("UPDATE t SET v = v + 1, d = DEFAULT WHERE id = 1; UPDATE t SET v = DEFAULT WHERE id = 4")
        assert rows(db.query("SELECT id, name, v, CAST(d AS STRING) FROM t")) == {
            (1, "sql", 6, "2026-01-31"): 1,
            (2, "query", 5, "2026-01-31"): 1,
            (3, "dict", 5, "2026-01-31"): 1,
            (4, "null", 5, "2026-01-31"): 1,
            (5, "polars", 5, "2026-01-31"): 1,
            (6, "arrow", 5, "2026-01-31"): 1,
            (7, "spark", 5, "2026-01-31"): 1,
        }
        db.insert("s", [{"ts": "2026-01-01"}])
        db.insert("s", spark.sql("SELECT timestamp'2026-01-02' AS ts"))
        db.run()
        assert rows(db.query("SELECT k, w FROM s")) == {(7, "x"): 2}
        before = rows(db.query("SELECT * FROM t"))
        refused = "row {} for 't' has no value for 'name', which is NOT NULL\n  next: give every row one"
        for wrong, said in (
            ([{"id": 8, "name": "x"}, {"id": 9}], refused.format(2)),
            ([{"id": 8, "name": None}], refused.format(1)),
            (pl.DataFrame({"id": [8, 9], "name": ["x", None]}), refused.format(2)),
            (pa.table({"id": [8]}), refused.format(1)),
            (
                spark.sql("SELECT 8 AS id, CAST(NULL AS STRING) AS name"),
                "1 row for 't' cannot be taken: name: NULL, and the column is NOT NULL\n"
                "  next: leave such rows out, or mend them",
            ),
            (
                "INSERT INTO t SELECT 8, CAST(NULL AS STRING), 1, NULL",
                "1 row for 't' cannot be taken: name: NULL, and the column is NOT NULL\n"
                "  next: leave such rows out, or mend them",
            ),
            (
                "UPDATE t SET name = nullif(name, 'spark')",
                "a row of 't' would have no value for 'name', which is NOT NULL\n"
                "  next: give another value, with coalesce or CAST for example",
            ),
        ):
            with pytest.raises(EverviewError) as error:
                db.execute(wrong) if isinstance(wrong, str) else db.insert("t", wrong)
            assert str(error.value) == said
        assert rows(db.query("SELECT * FROM t")) == before
