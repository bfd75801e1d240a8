"""Whatever is damaged in a store that has run, at random or piece by piece: a repair mends it or names it."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.maintenance import repair
from everview.storage.source_log import read_files, source_offsets
from everview.storage.store import Store
from everview.storage.trace import Trace
from tests.engine.damages import (
    Damage,
    catalog_deleted,
    damaged_last_manifest,
    flip,
    mend,
    noticed,
    numbers,
    runs,
)
from tests.engine.feeding import Feed, everything, put, rows
from tests.seeds import seeds

pytestmark = pytest.mark.spark

MORE = """
    CREATE COMPLETE VIEW per_key AS SELECT k, COUNT(*) AS n FROM orders [RANGE 30 SECONDS] GROUP BY k;
    CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two');
    CREATE VIEW named AS SELECT o.id, t.name FROM orders [RANGE 30 SECONDS] AS o JOIN names AS t ON o.k = t.k;
"""
ROUNDS = 3


@dataclass(frozen=True)
class Made:
    """A store that has run, its input, and the same store when it has run to the end."""

    folder: Path
    feed: Feed
    changes: dict[str, object]
    expected: dict[str, object]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder / "store", to / "store")
        return to / "store"


def shown(db: Database) -> dict[str, object]:
    """All that a store shows."""
    answers: dict[str, object] = dict(everything(db))
    answers |= {f"{v} changes": rows(db.changes(v, "intervals")) for v in ("per_key", "named")}
    return {**answers, "per_key": rows(db.query("SELECT * FROM per_key"))}


def all_changes(db: Database) -> dict[str, object]:
    """The changes of the views of which a random kind of damage may take a part."""
    return {view: rows(db.changes(view, "intervals")) for view in ("newest", "per_key", "named")}


def finish(path: Path, feed: Feed, spark: SparkSession) -> dict[str, object]:
    """Go on to the end: with what is read again, then with the last round, which is removed again."""
    before = set(feed.folder.rglob("*"))
    try:
        with everview.connect(str(path), spark) as db:
            db.run()
            feed.work(db, ROUNDS)
            db.run(finish=True)
            return shown(db)
    finally:
        for file in set(feed.folder.rglob("*")) - before:
            file.unlink()


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("repair")
    feed = Feed(folder / "in", ROUNDS)
    with everview.connect(str(folder / "store"), spark, partitions=2) as db:
        db.execute(feed.script)
        db.execute(MORE)
        feed.work(db, ROUNDS - 2)
        db.execute("UPDATE names SET name = 'ONE' WHERE k = 1")
        feed.work(db, ROUNDS - 1)
        # A row that waits for the bound.
        put(feed.folder / "orders" / "wait.csv", "900,1,1,2026-01-01 00:02:30\n", 900)
        db.run()
        changes = all_changes(db)
    shutil.copytree(folder / "store", folder / "whole")
    return Made(folder, feed, changes, finish(folder / "whole", feed, spark))


@pytest.mark.parametrize("seed", seeds(20, 100))
def test_random_damage_is_noticed_or_without_effect(made: Made, tmp_path: Path, seed: int) -> None:
    """Of a store that Spark has run, with its checkpoint."""
    path = made.copy(tmp_path)
    done = damage_at_random(path, random.Random(seed))
    if not noticed(path):
        assert read_whole(path) == read_whole(made.folder / "store"), done


@pytest.mark.parametrize("seed", seeds(3, 4))
def test_random_damage_is_mended(spark: SparkSession, made: Made, tmp_path: Path, seed: int) -> None:
    """The store answers as before, or the repair says what is lost."""
    path = made.copy(tmp_path)
    rng = random.Random(f"mend {seed}")
    done = [damage_at_random(path, rng) for _ in range(3)]
    report, whole = repair(str(path), spark=spark)
    if whole:
        assert finish(path, made.feed, spark) == made.expected, (done, str(report))
    else:
        assert "\nlost: " in str(report) or "\ncannot be mended: " in str(report), done


def damage_at_random(path: Path, rng: random.Random) -> str:
    """Damage a random file in a random way; return what was done."""
    file = rng.choice(sorted(f for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"))
    data, kind = bytearray(file.read_bytes()), rng.choice(["flip", "flip", "cut", "delete", "zero"])
    at = rng.randrange(max(len(data), 1))
    if kind == "delete" or not data:
        file.unlink()
        return f"delete {file.relative_to(path)}"
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[at:]
    else:
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    file.write_bytes(data)
    return f"{kind} {file.relative_to(path)} at {at}"


def read_whole(path: Path) -> object:
    """All that Everview and Spark read of a store when it goes on."""
    store = Store.open(str(path))
    manifest, checkpoint = store.manifest(), store.files.below("checkpoint")
    offsets = numbers(path / "checkpoint" / "offsets")[-2:]
    last = source_offsets(checkpoint, int(offsets[-1].name))
    return (
        store.settings,
        manifest,
        list(store.load_catalog()),
        [Trace(t, r, store.files).read().rows() for t, r in manifest.traces.items() if t.kind != "port"],
        [
            [part.rows() for part in store.files.read_parts(run.path)]
            for runs in manifest.of("port").values()
            for run in runs
        ],
        [file.read_text() for file in offsets],
        {name: read_files(checkpoint, name, end) for name, end in last.items()},
    )


def last_manifests_deleted(path: Path) -> None:
    for manifest in sorted((path / "manifests").glob("*.json"))[-2:]:
        manifest.unlink()


def old_manifest_damaged(path: Path) -> None:
    flip(min((path / "manifests").glob("*.json")))


def catalog_edited(path: Path) -> None:
    text = (path / "catalog.json").read_text()
    (path / "catalog.json").write_text(text.replace("30 SECONDS", "31 SECONDS"))


def copies_damaged(path: Path) -> None:
    flip(path / "copies" / "catalog.json")
    flip(path / "copies" / "everview.json")


def settings_damaged(path: Path) -> None:
    text = (path / "everview.json").read_text()
    (path / "everview.json").write_text(text.replace('"partitions": 2', '"partitions": 3'))


def settings_deleted(path: Path) -> None:
    (path / "everview.json").unlink()


def newest_offsets_deleted(path: Path) -> None:
    numbers(path / "checkpoint" / "offsets")[-1].unlink()


def newest_batch_deleted(path: Path) -> None:
    for log in ("offsets", "commits"):
        numbers(path / "checkpoint" / log)[-1].unlink()


def offsets_damaged(path: Path) -> None:
    for file in numbers(path / "checkpoint" / "offsets")[-2:]:
        flip(file)


def offsets_before_deleted(path: Path) -> None:
    numbers(path / "checkpoint" / "offsets")[-2].unlink()


def commit_and_metadata_damaged(path: Path) -> None:
    flip(numbers(path / "checkpoint" / "commits")[-1])
    flip(path / "checkpoint" / "metadata")


def newest_log_entry_damaged(path: Path) -> None:
    for source in (path / "checkpoint" / "sources").glob("s_*"):
        entries = [f for f in source.glob("[0-9]*") if f.name.isdecimal()]
        flip(max(entries, key=lambda f: int(f.name)))


def everything_small_at_once(path: Path) -> None:
    runs("view", "sums")(path)
    for damage in (catalog_edited, settings_deleted, damaged_last_manifest, commit_and_metadata_damaged):
        damage(path)


MENDED: list[Damage] = [
    runs("view", "newest"), runs("complete"), runs("port"), old_manifest_damaged, catalog_edited,
    catalog_deleted, copies_damaged, settings_damaged, settings_deleted,
    offsets_before_deleted, commit_and_metadata_damaged,
]  # fmt: skip

READ_AGAIN: list[Damage] = [
    runs("state"), runs("view", "sums"), runs("inbox", "orders"), damaged_last_manifest,
    last_manifests_deleted, newest_offsets_deleted, newest_batch_deleted, newest_log_entry_damaged,
    offsets_damaged, everything_small_at_once,
]  # fmt: skip


@pytest.mark.parametrize("damage", MENDED, ids=lambda d: d.__name__)
def test_a_repaired_store_holds_what_it_held(
    spark: SparkSession, made: Made, tmp_path: Path, damage: Damage
) -> None:
    path = made.copy(tmp_path)
    damage(path)
    assert "lost:" not in mend(path, spark)
    with everview.connect(str(path), spark) as db:
        assert all_changes(db) == made.changes


@pytest.mark.parametrize("damage", READ_AGAIN, ids=lambda d: d.__name__)
def test_a_repaired_store_goes_on_as_an_undamaged_one(
    spark: SparkSession, made: Made, tmp_path: Path, damage: Damage
) -> None:
    path = made.copy(tmp_path)
    damage(path)
    assert "lost:" not in mend(path, spark)
    assert finish(path, made.feed, spark) == made.expected
