"""Damage to a store is noticed: parts that are gone, or that come from another day."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import StoreError

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def put(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.csv").write_text(f"{number},2026-01-01 00:00:0{number}\n")


def last_manifest(store: Path) -> None:
    max((store / "manifests").glob("*.json")).unlink()


def all_manifests(store: Path) -> None:
    shutil.rmtree(store / "manifests")


def whole_checkpoint(store: Path) -> None:
    shutil.rmtree(store / "checkpoint")


def newest_offsets(store: Path) -> None:
    last = max((store / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    commit = store / "checkpoint" / "commits" / last.name
    commit.unlink()
    commit.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def manifests_of_before(store: Path) -> None:
    shutil.rmtree(store / "manifests")
    shutil.copytree(store.with_name("backup") / "manifests", store / "manifests")


def checkpoint_of_before(store: Path) -> None:
    shutil.rmtree(store / "checkpoint")
    shutil.copytree(store.with_name("backup") / "checkpoint", store / "checkpoint")


MISSING, OLDER = "a manifest of .* is missing", "the checkpoint of .* is missing or older"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (last_manifest, MISSING),
        (all_manifests, MISSING),
        (manifests_of_before, MISSING),
        (whole_checkpoint, OLDER),
        (newest_offsets, OLDER),
        (checkpoint_of_before, OLDER),
    ],
    ids=lambda d: d.__name__ if callable(d) else "",
)
def test_manifests_and_checkpoint_belong_together(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    """No row is lost in silence: the store is refused, and is right again when the parts are put back."""
    store, source = tmp_path / "store", tmp_path / "in"
    put(source, 1)
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
        """)
        db.run()
        shutil.copytree(store, tmp_path / "backup")
        put(source, 2)
        db.run()
    shutil.copytree(store, tmp_path / "good")
    damage(store)
    put(source, 3)
    with everview.connect(str(store), spark) as db:
        with pytest.raises(StoreError, match=message) as caught:
            db.run()
        assert "next: everview repair" in str(caught.value)
        with pytest.raises(StoreError, match=message):
            db.start()
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "good", store)
    with everview.connect(str(store), spark) as db:
        db.run(finish=True)
        assert rows(db.query("SELECT n FROM n")) == {(3,): 1}


def test_batches_without_rows_are_no_damage(spark: SparkSession, tmp_path: Path) -> None:
    """Files without rows, and the heartbeat: Spark's log goes on, and the store can be opened again."""
    store, source = tmp_path / "store", tmp_path / "in"
    source.mkdir()
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
        """)
        db.run()
        (source / "empty.csv").write_text("")
        db.run()
        put(source, 1)
        (source / "empty too.csv").write_text("")
        db.start("50 milliseconds")
        while not db.manifest().counts.get("s", (0,))[0]:
            db.status()
        (source / "empty at last.csv").write_text("")
        db.stop()
        db.run()
    with everview.connect(str(store), spark) as db:
        put(source, 2)
        db.run(finish=True)
        assert rows(db.query("SELECT n FROM n")) == {(2,): 1}


@pytest.mark.parametrize("folder", ["views", "runs"])
def test_one_flipped_bit_is_noticed(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    """In the changes of a view by who reads it, in the state of an operator by the next step."""
    store = tmp_path / "store"
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s [RANGE 1 MINUTE] GROUP BY k;
        """)
        db.insert("s", [{"k": 1, "v": 45, "ts": "2026-01-01 00:00:01"}])
        db.run()
        for file in (store / folder).rglob("*.arrow"):
            data = bytearray(file.read_bytes())
            at = data.find((45).to_bytes(8, "little"))
            data[at if at >= 0 else len(data) // 2] ^= 4
            file.write_bytes(data)
        db.insert("s", [{"k": 1, "v": 1, "ts": "2026-01-01 00:00:02"}])
        with pytest.raises((StoreError, PySparkException), match="is damaged: its checksum is wrong"):
            db.query("SELECT * FROM sums").collect() if folder == "views" else db.run()
