"""Damage to stores, and its repair: what the tests of both share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from everview.errors import StoreError
from everview.maintenance import check_at, repair
from everview.storage.addresses import file_of
from everview.storage.manifest import Manifest
from everview.storage.store import Store

Damage = Callable[[Path], None]


def mend(path: Path, spark: SparkSession, accept_losses: bool = False) -> str:
    """Repair a store: it is damaged before, and whole afterwards; what a repair would do, it does."""
    assert noticed(path), "the damage is not noticed"
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


def noticed(path: Path) -> bool:
    """Whether `everview check` tells of damage."""
    try:
        return not check_at(str(path))[1]
    except StoreError:
        return True


def manifest_of(path: Path) -> Manifest:
    return Store.open(str(path)).manifest()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def flip_run(store: Path, address: str) -> None:
    """Change a bit in the middle of a run, which may be a part of a packed file."""
    path = store / file_of(address)
    data = bytearray(path.read_bytes())
    offset, _, size = (address.partition("#")[2] or f"0+{len(data)}").partition("+")
    data[int(offset) + int(size) // 2] ^= 4
    path.write_bytes(data)


def numbers(folder: Path) -> list[Path]:
    return sorted((f for f in folder.glob("[0-9]*")), key=lambda f: int(f.name))


def runs(kind: str, owner: str | None = None) -> Damage:
    """Damage the runs of a kind, or those of one owner: one is changed, and the others are deleted."""

    def damage(path: Path) -> None:
        found = [run.path for those in manifest_of(path).of(kind, owner).values() for run in those]
        assert found
        for name in {file_of(run) for run in found} - {file_of(found[0])}:
            (path / name).unlink()
        flip_run(path, found[0])

    damage.__name__ = f"runs of {kind} {owner or ''}".strip()
    return damage


def damaged_last_manifest(path: Path) -> None:
    flip(max((path / "manifests").glob("*.json")))


def catalog_deleted(path: Path) -> None:
    (path / "catalog.json").unlink()
