"""Names in steps whose manifests are lost, and names that change when a process is killed. No Spark.

A name may be renamed, dropped and given to another stream several times: a repair that goes on from an
earlier manifest must give each row to the stream that it was inserted into.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import everview
from everview.catalog import Catalog, StreamEntry
from everview.database import Database
from everview.maintenance import check_at
from everview.storage.manifest import Manifest
from everview.storage.repair import RepairNotes, diagnose
from everview.storage.runs import TraceId
from everview.storage.store import Store

NAMES = ("a", "b", "c")


class Script:
    """Random statements on a few names, and the rows that each stream then has."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows: dict[str, list[int]] = {}
        self.columns = 0

    def next(self) -> str:
        """Return a statement, and count what it does."""
        free = [name for name in NAMES if name not in self.rows]
        if not self.rows or (free and self.rng.random() < 0.25):
            name = self.rng.choice(free)
            self.rows[name] = []
            return f"CREATE STREAM {name} (k INT, ts TIMESTAMP, TIMELINE ts)"
        name = self.rng.choice(sorted(self.rows))
        match self.rng.choice(["insert", "insert", "insert", "rename", "rename", "drop", "column"]):
            case "rename" if free:
                new = self.rng.choice(free)
                self.rows[new] = self.rows.pop(name)
                return f"ALTER STREAM {name} RENAME TO {new}"
            case "drop":
                del self.rows[name]
                return f"DROP STREAM {name}"
            case "column":
                self.columns += 1
                return f"ALTER STREAM {name} ADD COLUMN c{self.columns} INT"
        k = self.rng.randrange(10**6)
        self.rows[name].append(k)
        return f"INSERT INTO {name} (k, ts) VALUES ({k}, TIMESTAMP '2026-01-01 00:00:01')"


def rows_of(store: Store, catalog: Catalog, manifest: Manifest) -> dict[str, list[int]]:
    """Return the first column of the rows of every stream."""
    found = {}
    for entry in catalog:
        if isinstance(entry, StreamEntry) and entry.source is None:
            runs = manifest.runs(TraceId("inbox", entry.name))
            found[entry.name] = [k for run in runs for k in store.files.read_frame(run.path)["c0"].to_list()]
            assert all(len(entry.columns) == len(run.places) for run in runs if run.places), entry.name
    return found


def in_order(rows: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {name: sorted(own) for name, own in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_rows_of_lost_steps_belong_to_the_stream_they_were_inserted_into(tmp_path: Path, seed: int) -> None:
    script = Script(seed)
    with everview.connect(str(tmp_path / "store"), partitions=1) as db:
        for _ in range(14):
            db.execute(script.next())
    for lost in range(len(list((tmp_path / "store" / "manifests").iterdir()))):
        path = tmp_path / f"without-{lost}"
        shutil.copytree(tmp_path / "store", path)
        for manifest in sorted((path / "manifests").iterdir(), reverse=True)[:lost]:
            manifest.unlink()
        notes = RepairNotes()
        with Store.open(str(path)) as store:
            found = diagnose(store, notes)
            assert in_order(rows_of(store, found.catalog, found.base)) == in_order(script.rows), (lost, notes)
        assert not notes.unmendable
        assert not notes.losses


def test_drops_are_remembered_no_longer_than_manifests(tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), partitions=1) as db:
        for _ in range(20):
            db.execute("CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts); DROP STREAM s")
            db._pipeline.store.clean(keep_manifests=5)
        assert len(db.catalog.alterations) <= 6


STORES = Path(__file__).parents[1] / "stores"


def unpack(name: str, path: Path) -> None:
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(path, filter="data")


@pytest.mark.slow
def test_names_that_order_joins_can_change(tmp_path: Path) -> None:
    """Views go on with their plans, and none is outdated for it."""
    unpack("ordered-joins", tmp_path)
    with everview.connect(str(tmp_path)) as db:
        before, outdated = db.manifest(), len(db._views().outdated)  # none by the rules that it has run with
        db.execute("ALTER STREAM a RENAME TO d; ALTER VIEW three RENAME TO zero")
        after = db.manifest()
        assert before.run_paths() == after.run_paths()
        assert len(before.of("state")) == len(after.of("state"))
        assert not after.next
    with everview.connect(str(tmp_path)) as db:
        assert len(db._views().outdated) == outdated
    assert check_at(str(tmp_path))[1]


ALTERS = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.storage.test_lost_names import *
with everview.connect(sys.argv[1]) as db:
    for number in range(int(sys.argv[3]), 10**6):
        db.execute(statement(number))
        print(number, flush=True)
"""


def statement(number: int) -> str:
    """Return one of a series of statements; each can be carried out after the one before."""
    old, new = ("a", "d") if number // 6 % 2 == 0 else ("d", "a")
    return (
        f"INSERT INTO {old} (k, v, ts) VALUES ({number}, 0, TIMESTAMP '2026-01-01 00:05:00')",
        f"ALTER STREAM {old} RENAME TO {new}",
        f"CREATE STREAM {old} (k INT, ts TIMESTAMP, TIMELINE ts)",
        f"ALTER STREAM {old} ADD COLUMN x INT",
        f"ALTER VIEW {'big' if old == 'a' else 'large'} RENAME TO {'large' if old == 'a' else 'big'}",
        f"DROP STREAM {old}",
    )[number % 6]


def state_after(number: int) -> tuple[dict[str, int], str]:
    """Return how many columns each stream has after a statement of the series, and the name of a view."""
    turn, rest = divmod(number, 6)
    old, new = ("a", "d") if turn % 2 == 0 else ("d", "a")
    columns = {new if rest >= 1 else old: 3, "b": 3, "c": 3}
    if 2 <= rest < 5:
        columns[old] = 3 if rest >= 3 else 2
    return columns, "large" if (turn % 2 == 0) == (rest >= 4) else "big"


def state_of(db: Database) -> tuple[dict[str, int], str]:
    streams = {e.name: len(e.columns) for e in db.catalog if isinstance(e, StreamEntry)}
    return streams, "large" if "large" in db.catalog else "big"


@pytest.mark.slow
def test_names_change_when_a_process_is_killed(tmp_path: Path) -> None:
    """After kill -9 a statement is done or not; the rows, plans and states of all names are there."""
    path, rng, number = tmp_path / "store", random.Random(3), 0
    unpack("fewer-rules", path)
    with Store.open(str(path)) as store:
        plans, states = store.manifest().plans, len(list(store.manifest().of("state")))
    for _ in range(2):
        command = [sys.executable, "-c", ALTERS, str(path), str(Path(__file__).parents[2]), str(number)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(rng.randrange(2, 12)):
            last = int(process.stdout.readline())
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        last = max(map(int, process.communicate()[0].split()), default=last)
        report, well = check_at(str(path))
        assert well, str(report)
        with everview.connect(str(path)) as db:
            found = state_of(db)
            assert found in (state_after(last), state_after(last + 1)), (last, found)
            number = last + (1 if found == state_after(last) else 2)
            manifest = db.manifest()
            assert len(manifest.plans) == len(plans)
            assert len(list(manifest.of("state"))) == states
            assert all(view.casefold() in db.catalog.entries for view in manifest.plans)
            kept = [k for runs in rows_of(db._pipeline.store, db.catalog, manifest).values() for k in runs]
            inserted = [n for n in range(number) if n % 6 == 0]
            assert set(inserted) <= set(kept)
            db._views()  # every plan can be read
