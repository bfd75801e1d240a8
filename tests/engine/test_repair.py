"""`everview repair`: what is damaged is told, mended, and answers as before; what cannot be had is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database, check_at, repair
from everview.storage.manifest import Manifest
from everview.storage.store import Store
from tests.engine.feeding import Feed, everything, put, rows

pytestmark = pytest.mark.spark

MORE = """
    CREATE COMPLETE VIEW per_key AS SELECT k, COUNT(*) AS n FROM orders [RANGE 30 SECONDS] GROUP BY k;
    CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two');
    CREATE VIEW named AS SELECT o.id, t.name FROM orders [RANGE 30 SECONDS] AS o JOIN names AS t ON o.k = t.k;
"""
ROUNDS = 4
Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Made:
    """A store that has run, its input, and the same store when it has run to the end."""

    folder: Path
    feed: Feed
    expected: dict[str, object]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder / "store", to / "store")
        return to / "store"


def shown(db: Database) -> dict[str, object]:
    """All that a store shows."""
    answers: dict[str, object] = dict(everything(db))
    answers |= {f"{v} changes": rows(db.changes(v, "intervals")) for v in ("per_key", "named")}
    return {**answers, "per_key": rows(db.query("SELECT * FROM per_key"))}


def finish(path: Path, feed: Feed, spark: SparkSession) -> dict[str, object]:
    """Go on with what has come since, to the end."""
    with everview.connect(str(path), spark) as db:
        feed.work(db, ROUNDS)
        db.run(finish=True)
        return shown(db)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("repair")
    feed = Feed(folder / "in", ROUNDS)
    with everview.connect(str(folder / "store"), spark, partitions=2) as db:
        db.execute(feed.script)
        db.execute(MORE)
        feed.work(db, ROUNDS - 1)
        db.execute("UPDATE names SET name = 'ONE' WHERE k = 1")
        # Rows of these two wait for the bound.
        put(feed.folder / "orders" / "wait.csv", "900,1,1,2026-01-01 00:02:30\n", 900)
        db.run()
    shutil.copytree(folder / "store", folder / "whole")
    return Made(folder, feed, finish(folder / "whole", feed, spark))


def mend(path: Path, spark: SparkSession, accept_losses: bool = False) -> str:
    """Repair a store: it is damaged before, and whole afterwards; what a repair would do, it does."""
    assert not check_at(str(path))[1], "the damage is not noticed"
    before = {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"}
    would, whole = repair(str(path), dry_run=True, spark=spark)
    assert not whole
    after = {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"}
    assert before == after, "a dry run writes nothing"
    done, whole = repair(str(path), accept_losses=accept_losses, spark=spark)
    assert whole, str(done)
    assert str(would).splitlines()[:-1] == str(done).splitlines()[:-1]
    assert str(done).endswith("done: the store is whole")
    report, well = check_at(str(path))
    assert well, str(report)
    again, whole = repair(str(path), spark=spark)
    assert (str(again), whole) == ("all is well: there is nothing to repair", True)
    return str(done)


def manifest_of(path: Path) -> Manifest:
    return Store.open(str(path)).manifest()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def numbers(folder: Path) -> list[Path]:
    return sorted((f for f in folder.glob("[0-9]*")), key=lambda f: int(f.name))


def runs(kind: str, owner: str | None = None) -> Damage:
    """Damage the runs of a kind, or those of one owner: one is changed, and the others are deleted."""

    def damage(path: Path) -> None:
        found = [run.path for those in manifest_of(path).of(kind, owner).values() for run in those]
        assert found
        for name in found[1:]:
            (path / name).unlink(missing_ok=True)
        flip(path / found[0])

    damage.__name__ = f"runs of {kind} {owner or ''}".strip()
    return damage


def damaged_last_manifest(path: Path) -> None:
    flip(max((path / "manifests").glob("*.json")))


def last_manifests_deleted(path: Path) -> None:
    for manifest in sorted((path / "manifests").glob("*.json"))[-3:]:
        manifest.unlink()


def old_manifest_damaged(path: Path) -> None:
    flip(min((path / "manifests").glob("*.json")))


def catalog_edited(path: Path) -> None:
    text = (path / "catalog.json").read_text()
    (path / "catalog.json").write_text(text.replace("30 SECONDS", "31 SECONDS"))


def catalog_deleted(path: Path) -> None:
    (path / "catalog.json").unlink()


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
    for damage in (catalog_edited, settings_deleted, damaged_last_manifest, commit_and_metadata_damaged):
        damage(path)
    runs("view", "sums")(path)


EXACT: list[Damage] = [
    runs("state"), runs("view", "newest"), runs("view", "sums"), runs("complete"), runs("port"),
    runs("inbox", "orders"), damaged_last_manifest, last_manifests_deleted, old_manifest_damaged,
    catalog_edited, catalog_deleted, copies_damaged, settings_damaged, settings_deleted,
    newest_offsets_deleted, newest_batch_deleted, offsets_damaged, offsets_before_deleted,
    commit_and_metadata_damaged, newest_log_entry_damaged, everything_small_at_once,
]  # fmt: skip


@pytest.mark.parametrize("damage", EXACT, ids=lambda d: d.__name__)
def test_a_repaired_store_answers_as_an_undamaged_one(
    spark: SparkSession, made: Made, tmp_path: Path, damage: Damage
) -> None:
    path = made.copy(tmp_path)
    damage(path)
    said = mend(path, spark)
    assert "lost:" not in said
    assert finish(path, made.feed, spark) == made.expected
