"""A source that is dropped and made again is another one: all its files are read, from the first."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.catalog import Catalog
from everview.database import Database
from everview.errors import EverviewError
from everview.sql import statements as S
from everview.storage.store import Store
from tests.engine.reading import put

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k)) FROM csv('{}/t')"
STREAM = "CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{}/s')"


def rows(answer: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(r) for r in answer.collect())


@pytest.mark.parametrize("restart", [False, True])
def test_a_source_that_is_made_again_is_read_from_its_start(
    spark: SparkSession, tmp_path: Path, restart: bool
) -> None:
    put(tmp_path / "t", "1.csv", "1,a\n2,b\n")
    put(tmp_path / "s", "1.csv", "1,2026-01-01 00:00:01\n2,2026-01-01 00:00:05\n")
    put(tmp_path / "other", "1.csv", "7,c\n")
    store = str(tmp_path / "store")
    table, stream = TABLE.format(tmp_path), STREAM.format(tmp_path)
    db = everview.connect(store, spark, partitions=2)

    def again() -> Database:
        if not restart:
            return db
        db.close()
        return everview.connect(store, spark)

    db.execute(f"{table}; {stream}; CREATE VIEW v AS SELECT k FROM s")
    db.run()
    assert rows(db.query("SELECT * FROM t")) == [(1, "a"), (2, "b")]
    db.execute("DROP TABLE t; DROP VIEW v; DROP STREAM s")
    db = again()
    db.execute(f"{table}; {stream}; CREATE VIEW v AS SELECT k FROM s")
    done = db.run()
    assert (done.arrived["t"].rows, done.arrived["s"].rows, done.arrived["s"].late) == (2, 1, 1)
    assert rows(db.query("SELECT k, _original FROM s$late")) == [(1, "1,2026-01-01 00:00:01")]
    put(tmp_path / "s", "2.csv", "3,2026-01-01 00:00:09\n")
    db = again()
    db.execute(f"{table}; {stream}")  # the same again is no change
    assert db.run().arrived["s"].rows == 1
    assert rows(db.query("SELECT * FROM t")) == [(1, "a"), (2, "b")]
    # With another path and other columns, and once more with the first ones.
    db.execute("DROP TABLE t")
    db = again()
    db.execute(f"CREATE TABLE t (x INT, y STRING) FROM csv('{tmp_path}/other')")
    assert db.run().arrived["t"].rows == 1
    db.execute("DROP TABLE t")
    db.execute(table)
    db = again()
    assert db.run().arrived["t"].rows == 2
    with pytest.raises(EverviewError):
        db.execute(f"CREATE OR REPLACE TABLE t (x INT, y STRING) FROM csv('{tmp_path}/other')")
    db.close()


def test_a_source_that_is_made_again_after_a_step_that_failed(spark: SparkSession, tmp_path: Path) -> None:
    """Spark planned a batch over the source that is gone, and must not insist on it."""
    put(tmp_path / "s", "1.csv", "1,2026-01-01 00:00:01\n")
    put(tmp_path / "t", "1.csv", "1,a\n")
    table, stream = TABLE.format(tmp_path), STREAM.format(tmp_path)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"{table}; {stream}")
        db.run()
        broken = put(tmp_path / "s", "2.csv.gz", gzip.compress(b"2,2026-01-01 00:00:02\n" * 500)[:60])
        put(tmp_path / "t", "2.csv", "2,b\n")
        with pytest.raises(EverviewError):
            db.run()
        db.execute("DROP STREAM s")
        broken.unlink()
        db.execute(stream)
        db.run()
        assert {n: tuple(c) for n, c in db.manifest().counts.items()} == {"t": (2, 0, 0), "s": (1, 0, 0)}


def test_a_drop_that_was_interrupted_leaves_no_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "t", "1.csv", "1,a\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"{TABLE.format(tmp_path)}; CREATE TABLE u (k INT); INSERT INTO u VALUES (1)")
        db.run()
        with monkeypatch.context() as crash:
            crash.setattr(db._pipeline, "forget_names", lambda work: None)
            db.execute("DROP TABLE t; DROP TABLE u")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute(f"{TABLE.format(tmp_path)}; CREATE TABLE u (k INT)")
        db.run()
        kept = db.manifest().of("inbox")
        assert [(trace.owner, sum(r.rows for r in runs)) for trace, runs in kept.items()] == [("t", 1)]


def test_a_source_that_was_dropped_before_drops_were_counted(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "t", "1.csv", "1,a\n2,b\n")
    store = tmp_path / "store"
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute(TABLE.format(tmp_path))
        db.run()
    with everview.connect(str(store), spark) as db:
        assert db.catalog.dropped == 0
        db.execute("DROP TABLE t")
    catalog = json.loads((store / "catalog.json").read_text())
    assert catalog.pop("dropped") == 1
    (store / "catalog.json").write_text(json.dumps(catalog))
    with Store.open(str(store)).lock() as older:  # its manifests had no checksum of the catalog
        older.write_manifest(replace(older.manifest(), catalog=None))
    with everview.connect(str(store), spark) as db:
        db.execute(TABLE.format(tmp_path))
        assert db.run().arrived["t"].rows == 2


def test_a_catalog_of_an_older_release_has_no_incarnations() -> None:
    catalog = Catalog()
    for statement in everview.sql.bind_script(f"{STREAM.format('a')}; {TABLE.format('b')}", catalog):
        assert isinstance(statement, S.Create)
        catalog.add(statement.entry)
    text = catalog.to_json()
    assert "incarnation" not in text
    assert "dropped" not in text
    older = Catalog.from_json(text)
    entry = older.get("s")
    older.drop("s")
    older.add(entry)
    read = Catalog.from_json(older.to_json())
    assert read == older
    assert read.dropped == 1
    assert [getattr(e, "incarnation", None) for e in read] == [0, 1]


def test_a_first_batch_that_was_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    """Spark refuses to begin where a write of its first batch was interrupted, and left a temporary file."""
    put(tmp_path / "s", "1.csv", "1,2026-01-01 00:00:01\n")
    offsets = tmp_path / "store" / "checkpoint" / "offsets"
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"{STREAM.format(tmp_path)}; CREATE VIEW v AS SELECT k FROM s")
        offsets.mkdir(parents=True)
        (offsets / ".0.8d5a0c1e.tmp").write_bytes(b"v1\n")
        db.run(finish=True)
        assert rows(db.query("SELECT * FROM v")) == [(1,)]
