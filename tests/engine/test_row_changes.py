"""UPDATE and DELETE with aliases, subqueries and FROM; CREATE TABLE … AS; what is scheduled and then met."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import TableEntry
from everview.errors import EverviewError

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


def seen(db: everview.Database, view: str, second: int) -> set[tuple[object, ...]]:
    found = rows(db.query(f"SELECT * FROM {view}", as_of=f"2026-01-01 00:00:{second:02}"))
    assert set(found.values()) <= {1}
    return set(found)


def refusal(db: everview.Database, sql: str) -> str:
    with pytest.raises(EverviewError) as error:
        db.execute(sql)
    return str(error.value)


def test_subqueries_and_from(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE t (id INT PRIMARY KEY, name STRING, v INT);
            CREATE TABLE o (id INT, name STRING, w STRING);
            CREATE VIEW tt AS SELECT id, name, v FROM t;
            CREATE VIEW busy AS SELECT DISTINCT k FROM s;
            INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), ('3', 'c', '3'), (4, 'd', 4);
            INSERT INTO o VALUES (2, 'two', '22'), (3, 'three', '33'), (3, 'drei', '34'), (9, 'x', 'nine');
            UPDATE t x SET name = 'one' WHERE x.id = 1;
            INSERT INTO s VALUES (2, {at(1)}), (4, {at(2)});
        """)
        db.run()
        made = "CREATE TABLE copy AS SELECT id, name FROM t ORDER BY id LIMIT 2"
        unfinished = TableEntry("copy", Schema.of(("id", T.INT), ("name", T.STRING)))
        db._pipeline.fill_table(unfinished, spark.sql("SELECT 7 AS id, 'killed' AS name"))
        db.execute(made)
        db.execute("CREATE VIEW copied AS SELECT id, name FROM copy")
        assert "has 2 matches in FROM" in refusal(db, "UPDATE t SET name = o.name FROM o WHERE o.id = t.id")
        assert refusal(db, "UPDATE t SET name = o.name FROM o WHERE o.id = t.id AND t.id > 2") == (
            "the row of 't' with id 3 has 2 matches in FROM\n"
            "  next: add conditions to WHERE so that a row has one match at most"
        )
        assert refusal(db, "UPDATE t SET v = o.w FROM o WHERE o.id = 9 AND t.id = 1") == (
            "the column 'v' takes INT, not nine\n"
            "  next: give another value, with coalesce or CAST for example"
        )
        db.execute(f"""
            UPDATE t SET name = o.name, v = o.w FROM o WHERE o.id = t.id AND o.w <> '34';
            DELETE FROM t WHERE id IN (SELECT k FROM busy) AND v < 10 AT {at(4)};
            UPDATE t SET name = 'lonely' WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.id = t.id) AT {at(6)};
            DELETE FROM o WHERE id NOT IN (SELECT id FROM t) AT {at(5)};
        """)
    with everview.connect(path, spark) as db:  # scheduled changes, and what their subqueries read, are kept
        db.execute(made)  # the same again inserts nothing
        db.execute(
            f"INSERT INTO t VALUES (5, 'e', 5) AT {at(5)}; INSERT INTO t VALUES (6, 'f', 6) AT {at(7)}"
        )
        db.execute("INSERT INTO t SELECT 40 + k, 'q', k FROM busy")
        assert db.manifest().of("scheduled")
        db.execute(f"INSERT INTO s VALUES (1, {at(9)})")
        db.run()
        assert (db.manifest().of("scheduled"), db.manifest().scheduled) == ({}, {})
        now = {(1, "one", 1), (2, "two", 22), (3, "three", 33)}
        some = {(42, "q", 2), (44, "q", 4)}
        assert seen(db, "tt", 3) == now | some | {(4, "d", 4)}
        assert seen(db, "tt", 4) == now | some
        assert seen(db, "tt", 5) == now | some | {(5, "e", 5)}
        then = {(1, "lonely", 1), (2, "two", 22), (3, "three", 33), (5, "lonely", 5)}
        then |= {(42, "lonely", 2), (44, "lonely", 4)}
        assert seen(db, "tt", 6) == then
        assert seen(db, "tt", 8) == then | {(6, "f", 6)}
        assert seen(db, "copied", 8) == {(1, "one"), (2, "b")}
        assert rows(db.query("SELECT id FROM o")) == {(2,): 1, (3,): 2}


def test_what_was_given_before_may_refuse(spark: SparkSession, tmp_path: Path) -> None:
    """A statement that breaks one that is scheduled is refused, with the instant, and changes nothing."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE t (id INT PRIMARY KEY, name STRING NOT NULL);
            INSERT INTO t VALUES (1, 'a') AT {at(10)};
            UPDATE t SET name = nullif(name, 'x') AT {at(12)};
        """)
        before = db.manifest()
        assert refusal(db, f"INSERT INTO t VALUES (1, 'b') AT {at(5)}") == (
            "'t' would have two rows with the key id 1 from 2026-01-01T00:00:10.000000 on, "
            "by what was given before\n"
            "  next: UPDATE the row that is there, or DELETE it first"
        )
        assert refusal(db, f"INSERT INTO t VALUES (2, 'x') AT {at(5)}") == (
            "a row of 't' would have no value for 'name', which is NOT NULL, by the UPDATE AT "
            "2026-01-01T00:00:12.000000, which was given before\n"
            "  next: give another value, with coalesce or CAST for example"
        )
        assert db.manifest() == before
        db.execute(f"""
            INSERT INTO t VALUES (2, 'b') AT {at(11)};
            DELETE FROM t WHERE id = 2 AT {at(20)};
            INSERT INTO t VALUES (2, 'c') AT {at(20)};
            INSERT INTO s VALUES (1, {at(30)});
        """)
        db.run()
        assert rows(db.query("SELECT * FROM t")) == {(1, "a"): 1, (2, "c"): 1}
