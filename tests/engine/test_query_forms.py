"""Forms of queries on Spark, end to end: VALUES, brackets, equal names, ORDER BY, names of columns."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def listed(answer: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(r) for r in answer.collect()]


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


WORDS = "(VALUES (1, 'one', DATE '2020-01-01'), (2, 'two', NULL)) AS w (k, word, day)"
VIEWS = f"""
    CREATE VIEW constants (a, b) AS VALUES (1, 1.50), (2, NULL), (2, NULL);
    CREATE VIEW worded AS SELECT s.k, word, day FROM s JOIN {WORDS} ON s.k = w.k;
    CREATE VIEW missing AS SELECT a FROM VALUES (1), (2), (3) AS w (a) EXCEPT SELECT k FROM s;
    CREATE VIEW bracketed AS
      SELECT s.k, r.v FROM s LEFT JOIN (r JOIN {WORDS} ON r.k = w.k) ON s.k = r.k;
    CREATE VIEW kinds AS SELECT COUNT(DISTINCT k, name) AS n FROM s [RANGE 3 SECONDS];
"""
NAMES = ("constants", "worded", "missing", "bracketed", "kinds")


def test_views_early_late_and_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    late = VIEWS
    for name in NAMES:
        late = late.replace(f"VIEW {name} ", f"VIEW late_{name} ")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, name STRING, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            {VIEWS}
            INSERT INTO s VALUES (1, 'a', {at(1)}), (1, 'a', {at(2)}), (2, NULL, {at(2)}), (7, 'a', {at(3)});
            INSERT INTO r VALUES (1, 10, {at(2)}), (7, 70, {at(3)});
        """)
        db.run()
        assert rows(db.query("SELECT * FROM constants")) == {(1, 1.5): 1, (2, None): 2}
        assert db.query("SELECT * FROM constants").columns == ["a", "b"]
        assert rows(db.query("SELECT k, word FROM worded")) == {(1, "one"): 2, (2, "two"): 1}
        assert rows(db.query("SELECT * FROM missing")) == {(3,): 1}
        assert rows(db.query("SELECT * FROM bracketed")) == {(1, 10): 2, (2, None): 1, (7, None): 1}
        assert listed(db.query("SELECT n FROM kinds")) == [(2,)]
        db.execute(late)
        db.execute(f"CREATE VIEW IF NOT EXISTS kinds AS SELECT nothing FROM nowhere; {late}")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(f"""
            INSERT INTO s VALUES (3, 'b', {at(4)}), (1, 'b', {at(5)});
            INSERT INTO r VALUES (2, 20, {at(5)});
        """)
        db.run()
        for name in NAMES:
            early, later = (rows(db.query(f"SELECT * FROM {n}")) for n in (name, f"late_{name}"))
            assert early == later, name
        assert rows(db.query("SELECT * FROM missing")) == {}
        assert rows(db.query("SELECT * FROM bracketed")) == {
            (1, 10): 3, (2, 20): 1, (3, None): 1, (7, None): 1,
        }  # fmt: skip
        assert listed(db.query("SELECT n FROM kinds")) == [(3,)]
        db.execute("CREATE OR REPLACE VIEW constants (b, a) AS VALUES (3, 'x')")
        assert db.query("SELECT * FROM constants").columns == ["b", "a"]


def test_questions(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute("""
            CREATE TABLE s (k INT, v INT);
            CREATE TABLE r (k INT, v INT);
            INSERT INTO s VALUES (1, 30), (2, 20), (3, 10), (3, 11);
            INSERT INTO r VALUES (1, 5), (2, 6);
        """)
        db.run()
        both = db.query("SELECT * FROM s JOIN r ON s.k = r.k ORDER BY r.v DESC")
        assert both.columns == ["k", "v", "k", "v"]
        assert listed(both) == [(2, 20, 2, 6), (1, 30, 1, 5)]
        assert listed(db.query("SELECT k FROM s ORDER BY v")) == [(3,), (3,), (2,), (1,)]
        assert listed(db.query("(SELECT k FROM s ORDER BY v LIMIT 3) ORDER BY k LIMIT 1")) == [(2,)]
        most = "SELECT k FROM s GROUP BY k ORDER BY count(*) DESC, sum(v) + 1 DESC"
        assert listed(db.query(most)) == [(3,), (1,), (2,)]
        assert listed(db.query("VALUES (2, 'b'), (1, 'a') ORDER BY col1")) == [(1, "a"), (2, "b")]
        assert listed(db.query("SELECT * EXCEPT (v) FROM r ORDER BY k")) == [(1,), (2,)]
        assert listed(db.query("SELECT TRY_CAST('12.7' AS INT), CAST('12.7' AS INT), 1 + '1.5'")) == [
            (None, 12, 2.5)
        ]
        before = datetime.now(UTC).replace(tzinfo=None)
        told = db.query("SELECT now(), current_timestamp() AS c, current_date AS d FROM s").collect()
        assert len({tuple(t) for t in told}) == 1
        assert told[0][0] == told[0]["c"]
        assert abs((told[0]["c"] - before).total_seconds()) < 86_400
        assert db.query("SELECT now()").columns == ["now()"]


STARS = [
    "SELECT * FROM a NATURAL JOIN b",
    "SELECT * FROM a NATURAL LEFT JOIN b",
    "SELECT * FROM a NATURAL RIGHT JOIN b",
    "SELECT * FROM a NATURAL FULL JOIN b",
    "SELECT * FROM a JOIN b USING (z, x)",
    "SELECT * FROM a RIGHT JOIN b USING (z)",
    "SELECT * FROM a FULL JOIN b USING (x, z)",
    "SELECT * FROM a JOIN b USING (z) JOIN c USING (w)",
    "SELECT * FROM a NATURAL JOIN b NATURAL JOIN c",
    "SELECT * FROM a NATURAL JOIN (b NATURAL JOIN c)",
    "SELECT b.*, a.* FROM a JOIN b USING (x)",
    "SELECT * FROM a LEFT SEMI JOIN b USING (x)",
    "SELECT * EXCEPT (x) FROM a JOIN b USING (x)",
]


def test_the_order_of_columns_is_that_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows under the same names in the same order, for every way to share columns."""
    tables = {
        "a": ("x INT, y INT, z INT", [(1, 2, 3), (4, 5, 6)]),
        "b": ("w INT, z INT, x INT", [(7, 3, 1), (8, 9, 10)]),
        "c": ("v INT, w INT", [(0, 7)]),
    }
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for name, (columns, values) in tables.items():
            db.execute(f"CREATE TABLE {name} ({columns}); INSERT INTO {name} VALUES {str(values)[1:-1]}")
            spark.createDataFrame(values, columns).createOrReplaceTempView(name)
        db.run()
        for sql in STARS:
            ours, theirs = db.query(sql), spark.sql(sql)
            assert ours.columns == theirs.columns, sql
            assert rows(ours) == rows(theirs), sql
