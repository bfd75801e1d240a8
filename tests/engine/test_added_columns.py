"""ALTER … ADD COLUMN: views that do not use the column go on, and later ones can read it."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError
from everview.maintenance import check_at
from tests.engine.reading import dated, put

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


def write(folder: Path, format_: str, number: int, names: str, *records: tuple[object, ...]) -> None:
    """Write a file whose columns have names of one letter; the column t is a second."""
    shown = [{n: at(int(str(v))) if n == "t" else v for n, v in zip(names, r, strict=True)} for r in records]
    lines = [",".join("" if v is None else str(v) for v in r.values()) for r in shown]
    match format_:
        case "header":
            put(folder, f"{number}.csv", "\n".join([",".join(names), *lines]) + "\n")
        case "csv":
            put(folder, f"{number}.csv", "\n".join(lines) + "\n")
        case "json":
            put(folder, f"{number}.json", "\n".join(map(json.dumps, shown)) + "\n")
        case "parquet":
            folder.mkdir(exist_ok=True)
            columns = {n: [2**40 if r[n] == "bad" else r[n] for r in shown] for n in names}
            columns["t"] = [datetime.fromisoformat(str(t)) for t in columns["t"]]
            pq.write_table(pa.table(columns), folder / f"{number}.parquet")
            dated(folder / f"{number}.parquet")


@pytest.mark.parametrize("format_", ["header", "csv", "json", "parquet"])
def test_a_column_of_files(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """Files had the column all along, or get it, or have it not; rows that were late or rejected stay so."""
    folder, store = tmp_path / "in", str(tmp_path / "store")
    options = ", header => true" if format_ == "header" else ""
    source = f"{'csv' if format_ == 'header' else format_}('{folder}'{options})"
    named = format_ != "csv"
    with (
        everview.connect(store, spark, partitions=2) as db,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        db.execute(f"""
            CREATE STREAM s (k INT, v INT, t TIMESTAMP, TIMELINE t) FROM {source};
            CREATE VIEW whole AS SELECT * FROM s;
            CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s GROUP BY k;
        """)
        write(folder, format_, 1, "kvt", (1, 1, 1), (2, 2, 5))
        db.run()
        if named:  # without names, such rows are rejected
            write(folder, format_, 2, "kvtb", (1, 3, 2, 30), (1, 4, 6, "bad"), (2, 5, 8, 50))
        else:
            write(folder, format_, 2, "kvt", (1, 3, 2), (1, 4, 6), (2, 5, 8))
            write(folder, format_, 3, "kvtb", (7, 7, 8, 70))
        db.run()
        assert bool([w for w in told if "ALTER STREAM s ADD COLUMN b" in str(w.message)]) == named
        told.clear()
        before, plans = db.manifest(), db.manifest().plans
        state = {t: r for t, r in before.traces.items() if t.kind in ("state", "view")}
        db.execute("ALTER STREAM s ADD COLUMN b INT")
        after = db.manifest()
        assert after.plans == plans
        assert {t: r for t, r in after.traces.items() if t.kind in ("state", "view")} == state
        db.execute("CREATE VIEW soon AS SELECT k, v, b FROM s")  # some rows wait for the bound
    with everview.connect(store, spark) as db, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write(folder, format_, 4, "kvtb", (1, 6, 12, 60), (1, 8, 3, 80), (2, 9, 13, "bad"))
        db.run()
        write(folder, format_, 5, "kvt", (2, 10, 15), (1, 11, 20))
        db.run()
        assert [str(w.message) for w in told if "column" in str(w.message)] == []
        assert {n: p for n, p in db.manifest().plans.items() if n != "soon"} == plans, "the same plans"
        assert len(db.query("SELECT * FROM whole").columns) == 3
        assert "does not read: b of s, added later" in str(db.execute("DESCRIBE whole"))
        assert "-- it reads the first 3 columns of s" in str(db.execute("SHOW CREATE VIEW whole"))
        assert rows(db.query("SELECT * FROM sums")) == {(1, 1 + 4 + 6): 1, (2, 2 + 5 + 10): 1}
        assert rows(db.query("SELECT k, v, b FROM s$late")) == {
            (1, 3, None): 1,
            (1, 8, 80): 1,
        }
        assert db.manifest().counts["s"][2] == (1 if named else 2)
        db.execute("""
            CREATE VIEW later AS SELECT k, v, b FROM s;
            CREATE VIEW again AS SELECT k, SUM(v) AS v FROM s GROUP BY k;
            CREATE VIEW lates AS SELECT * FROM s$late;
        """)
        value = 50 if named else None
        assert rows(db.query("SELECT * FROM later")) == {
            (1, 1, None): 1, (2, 2, None): 1, (1, 4, None): 1, (2, 5, value): 1, (1, 6, 60): 1,
            (2, 10, None): 1,
        }  # fmt: skip
        assert rows(db.query("SELECT * FROM soon")) == rows(db.query("SELECT * FROM later"))
        assert rows(db.query("SELECT * FROM again")) == rows(db.query("SELECT * FROM sums"))
        assert rows(db.query("SELECT k, v, t, b FROM s")) == rows(db.query("SELECT k, v, t, b FROM s"))
        db.execute("CREATE OR REPLACE VIEW whole AS SELECT * FROM s")
        assert len(db.query("SELECT * FROM whole").columns) == 4
    assert check_at(store)[1]


def test_a_column_of_inserted_rows(spark: SparkSession, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with everview.connect(store, spark, partitions=2) as db:
        db.execute("""
            CREATE STREAM s (k INT, t TIMESTAMP, TIMELINE t);
            CREATE TAGGED STREAM g OVER s KEY (k);
            CREATE VIEW whole AS SELECT * FROM s;
            CREATE VIEW latest AS SELECT * FROM g;
            CREATE VIEW lates AS SELECT * FROM s$late;
        """)
        for second in (1, 5, 4):
            db.insert("s", [{"k": second, "t": at(second)}])
            db.run()
        db.insert("s", [{"k": 9, "t": at(9)}])  # it waits
        plans = db.manifest().plans
        db.execute("ALTER STREAM s ADD COLUMNS (a STRING, b DOUBLE DEFAULT 0.5)")
        db.execute("ALTER STREAM s ADD COLUMN IF NOT EXISTS A STRING")
        db.insert("s", [(10, at(10), "ten", 1.5)])
        db.execute(f"INSERT INTO s (k, t) VALUES (11, TIMESTAMP '{at(11)}')")
        db.insert("s", [{"k": 2, "t": at(2), "a": "late", "b": None}])
        db.run()
    with everview.connect(store, spark) as db:
        db.run()
        assert db.manifest().plans == plans
        for i in range(12):  # small runs are merged, each with those of its columns
            db.insert("s", [{"k": 12, "t": at(12 + i), "a": str(i)}])
            db.run()
        assert len(db.manifest().of("inbox", "s").popitem()[1]) < 12
        db.execute("CREATE VIEW later AS SELECT k, a, b FROM s WHERE k < 12")
        wanted = {
            (1, None, 0.5): 1,
            (5, None, 0.5): 1,
            (9, None, 0.5): 1,
            (10, "ten", 1.5): 1,
            (11, None, 0.5): 1,
        }
        assert rows(db.query("SELECT * FROM later")) == wanted
        assert rows(db.query("SELECT k, a, b FROM s WHERE k < 12")) == wanted
        assert rows(db.query("SELECT k FROM whole WHERE k < 12")) == {(k,): 1 for k in (1, 5, 9, 10, 11)}
        assert db.query("SELECT * FROM latest").columns == ["k", "t"]
        assert rows(db.query("SELECT k, a, b, _original FROM s$late")) == {
            (4, None, 0.5, '{"k":4,"t":"2026-01-01T00:00:04.000000"}'): 1,
            (2, "late", None, '{"k":2,"t":"2026-01-01T00:00:02.000000","a":"late","b":null}'): 1,
        }
        assert rows(db.query("SELECT k, _reason FROM lates")) == rows(
            db.query("SELECT k, _reason FROM s$late")
        )
    assert check_at(store)[1]


def test_a_column_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of before are updated and deleted, also by changes that were scheduled before."""
    put(tmp_path / "in", "1.csv", "1,a\n2,b\n")
    store = str(tmp_path / "store")
    with everview.connect(store, spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, t TIMESTAMP, TIMELINE t);
            CREATE TABLE p (k INT, name STRING, PRIMARY KEY (k));
            CREATE TABLE f (k INT, name STRING, PRIMARY KEY (k)) FROM csv('{tmp_path}/in');
            CREATE TABLE made AS SELECT 1 AS k;
            INSERT INTO p VALUES (1, 'one'), (2, 'two'), (3, 'three');
            CREATE VIEW names AS SELECT name FROM p;
            CREATE VIEW both AS SELECT p.name, f.name AS other FROM p JOIN f ON p.k = f.k;
        """)
        db.insert("s", [{"k": 1, "t": at(5)}])
        db.run()
        db.execute(f"""
            UPDATE p SET name = 'II' WHERE k = 2 AT TIMESTAMP '{at(30)}';
            ALTER TABLE p ADD COLUMN age INT DEFAULT 7;
            ALTER TABLE f ADD COLUMN age INT;
            ALTER TABLE made ADD COLUMN age INT;
            UPDATE p SET age = 8 WHERE k = 2;
            DELETE FROM p WHERE age = 7 AND k = 3;
            INSERT INTO p VALUES (4, 'four', 40);
        """)
        put(tmp_path / "in", "2.csv", "2,B,20\n3,c,30\n")
        db.insert("s", [{"k": 1, "t": at(10)}])
        db.run()
        assert rows(db.query("SELECT * FROM p")) == {(1, "one", 7): 1, (2, "two", 8): 1, (4, "four", 40): 1}
        assert rows(db.query("SELECT * FROM f")) == {(1, "a", None): 1, (2, "B", 20): 1, (3, "c", 30): 1}
        assert rows(db.query("SELECT * FROM made")) == {(1, None): 1}
        assert rows(db.query("SELECT * FROM both")) == {("one", "a"): 1, ("two", "B"): 1}
        db.insert("s", [{"k": 1, "t": at(40)}])
        db.run()
        assert rows(db.query("SELECT * FROM p")) == {(1, "one", 7): 1, (2, "II", 8): 1, (4, "four", 40): 1}
        assert rows(db.query("SELECT * FROM names")) == {("one",): 1, ("II",): 1, ("four",): 1}
        assert "age INT" in str(db.execute("SHOW CREATE TABLE made"))
        with pytest.raises(EverviewError, match="would have two rows with the key k 1"):
            db.execute("INSERT INTO p VALUES (1, 'uno', 1)")
    assert check_at(store)[1]


def test_a_source_with_columns_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """A column that it has not got is refused at once: the store goes on."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("CREATE STREAM r (timestamp TIMESTAMP, TIMELINE timestamp) FROM rate(rowsPerSecond => 1)")
        with pytest.raises(EverviewError, match="the source rate of 'r' has no column 'valve'"):
            db.execute("ALTER STREAM r ADD COLUMN valve BIGINT")
        db.execute("ALTER STREAM r ADD COLUMN value BIGINT")
        assert "value BIGINT" in str(db.execute("SHOW CREATE STREAM r"))
