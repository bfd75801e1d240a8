"""Tables that change: INSERT, UPDATE, DELETE, AT, PRIMARY KEY, files; NRR and R joins with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError, StoreError

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


def test_a_table_changes_under_a_view(spark: SparkSession, tmp_path: Path) -> None:
    """Retroactive: earlier results follow the table. Not retroactive: only later rows see a change."""
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE r (k INT, name STRING, PRIMARY KEY (k));
            CREATE NON RETROACTIVE TABLE n (k INT, name STRING, PRIMARY KEY (k));
            INSERT INTO r VALUES (1, 'one'), (2, 'two');
            INSERT INTO n SELECT k, name FROM r;
            CREATE VIEW follows AS SELECT s.ts, name FROM s JOIN r ON s.k = r.k;
            CREATE VIEW stays AS SELECT s.ts, name FROM s JOIN n ON s.k = n.k;
            INSERT INTO s VALUES (1, {at(1)}), (2, {at(2)});
        """)
        db.run()
        db.execute(f"""
            UPDATE r SET name = upper(name) WHERE k = 1 AT {at(4)};
            UPDATE n SET name = upper(name) WHERE k = 1 AT {at(4)};
            DELETE FROM r WHERE k = 2 AT {at(5)};
            INSERT INTO s VALUES (1, {at(3)}), (1, {at(6)});
        """)
        db.run()
        assert rows(db.query("SELECT name FROM follows")) == {("ONE",): 3}
        assert rows(db.query("SELECT name FROM stays")) == {("one",): 2, ("two",): 1, ("ONE",): 1}
        follows = db.query("SELECT name FROM follows", as_of="2026-01-01 00:00:04")
        assert rows(follows) == {("ONE",): 2, ("two",): 1}
        assert rows(db.query("SELECT k, name FROM r")) == {(1, "ONE"): 1}
        earlier = db.query("SELECT k, name FROM r", as_of="2026-01-01 00:00:03")
        assert rows(earlier) == {(1, "one"): 1, (2, "two"): 1}
    with everview.connect(path, spark) as db:
        for wrong, said in (
            ("INSERT INTO r VALUES (1, 'again')", "two rows with the key k 1"),
            ("INSERT INTO r VALUES (NULL, 'none')", "cannot be NULL"),
            (f"INSERT INTO r VALUES (3, 'x') AT {at(5)}", "after the bound"),
            ("UPDATE r SET k = 1", None),
        ):
            if said is None:
                db.execute("INSERT INTO r VALUES (4, 'four')")
                with pytest.raises(StoreError, match="two rows with the key k 1"):
                    db.execute(wrong)
            else:
                with pytest.raises(EverviewError, match=said):
                    db.execute(wrong)
        assert rows(db.query("SELECT k FROM r", as_of="2026-01-01 00:00:06")) == {(1,): 1}


def test_a_table_from_files_and_rows_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("1,one\n2,two\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE t (k INT, name STRING) FROM csv('{tmp_path}/t');
            CREATE TABLE one (k INT, name STRING) FROM csv('{tmp_path}/t/1.csv');
            CREATE VIEW single AS SELECT name FROM one;
            CREATE VIEW named AS SELECT s.k, t.name FROM s LEFT JOIN t ON s.k = t.k;
        """)
        frame = spark.sql("SELECT timestamp'2026-01-01 00:00:01' AS ts, '1' AS k")
        table = pa.table({"K": [2], "ts": ["2026-01-01 00:00:02"]})
        assert db.insert("s", frame).rows == 1
        assert db.insert("s", table).rows == 1
        assert db.insert("s", table.to_pandas()).rows == 1
        db.run()
        assert rows(db.query("SELECT k, name FROM named")) == {(1, "one"): 1, (2, "two"): 2}
        assert rows(db.query("SELECT name FROM single")) == {("one",): 1, ("two",): 1}
        (tmp_path / "t" / "2.csv").write_text("3,three\n")
        late = db.insert("s", [{"k": 3, "ts": "2026-01-01 00:00:05"}, {"k": 3, "ts": "2026-01-01 00:00:01"}])
        assert (late.rows, late.late) == (1, 1)
        db.run()
        assert rows(db.query("SELECT name FROM named WHERE k = 3")) == {("three",): 1}
        assert rows(db.query("SELECT k, _reason FROM s$late")) == {
            (3, "ts is not after 2026-01-01T00:00:02.000000, up to where all was known"): 1
        }
        for wrong, said in (
            (spark.sql("SELECT 'x' AS k, now() AS ts"), "k: x is no INT"),
            (spark.sql("SELECT 1 AS k, CAST(NULL AS TIMESTAMP) AS ts"), "there is no timestamp"),
            (pa.table({"k": ["x"], "ts": ["2026-01-01"]}), "the column 'k' takes INT"),
            (pa.table({"key": [1]}), "key"),
            ([1, 2], "a row is a dict"),
            (7, "rows cannot be taken from int"),
        ):
            with pytest.raises(EverviewError, match=said):
                db.insert("s", wrong)
        with pytest.raises(StoreError, match="without FROM"):
            db.insert("t", [{"k": 1}])


def test_a_store_of_tables_only_moves_with_every_file(spark: SparkSession, tmp_path: Path) -> None:
    """Time goes as far as the tables have changed: what a step takes in counts in that step."""
    folder = tmp_path / "in"
    folder.mkdir()
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE TABLE t (id INT, PRIMARY KEY (id)) FROM csv('{folder}', header => true);
            CREATE TABLE u (id INT);
            CREATE VIEW both_counts AS SELECT a.n AS t, b.n AS u
              FROM (SELECT COUNT(*) AS n FROM t) a CROSS JOIN (SELECT COUNT(*) AS n FROM u) b;
        """)
        for number, inserts in enumerate([False, True, False, True], 1):
            (folder / f"{number}.csv").write_text(f"id\n{number}\n")
            if inserts:
                db.execute(f"INSERT INTO u VALUES ({number})")
            db.run()
            assert rows(db.query("SELECT * FROM both_counts")) == Counter([(number, number // 2)])
            manifest = db.manifest()
            assert manifest.present == manifest.bound
        db.execute("DROP VIEW both_counts; DROP TABLE u; CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
        (folder / "5.csv").write_text("id\n5\n")
        db.run()
        assert rows(db.query("SELECT * FROM n")) == Counter([(5,)])
