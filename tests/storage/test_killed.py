"""Kill -9 at each file operation of what needs no Spark: ALTER, DROP, INSERT, backup and restore.

A process that has imported everything is forked for each moment: before an operation, and in the middle of
a write. What it leaves behind is what a killed process leaves: locks, temporary files, halves.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everview
from everview.catalog import StreamEntry
from everview.database import Database
from everview.errors import EverviewError
from everview.maintenance import check_at
from everview.storage.files import Files

STORE = Path(__file__).parents[1] / "stores" / "ordered-joins.tar.gz"
ROOT = Path(__file__).parents[2]
MOST = 5  # about so many operations are interrupted, those of long work not all

SCRIPTS = {
    "rename": "ALTER STREAM a RENAME TO d",
    "column": "ALTER STREAM a ADD COLUMN x INT DEFAULT 7",
    "drop": "DROP VIEW sums",
    "insert": "INSERT INTO a (k, v, ts) VALUES (77, 0, TIMESTAMP '2026-01-01 00:05:00')",
}


def execute(sql: str, store: str) -> None:
    with everview.connect(store) as db:
        db.execute(sql)


def back_up(store: str) -> None:
    with everview.connect(store) as db:
        db.backup(f"{store}.backup")


def restore(store: str) -> None:
    everview.restore(f"{store}.backup", f"{store}.restored")


WORK: dict[str, Callable[[str], None]] = {
    **{name: partial(execute, sql) for name, sql in SCRIPTS.items()},
    "backup": back_up,
    "restore": restore,
}


def watch_files(call: int, moment: str) -> list[int]:
    """Kill this process at the n-th operation on files; return the list of those that were done."""
    done: list[int] = []

    def watch(name: str) -> None:
        original = getattr(Files, name)

        def watched(files: Files, path: str, *args: Any, **more: Any) -> Any:
            done.append(call)
            if len(done) != call:
                return original(files, path, *args, **more)
            if moment == "half" and name == "write":
                folder, own = files.full_path(path).rsplit("/", 1)
                os.makedirs(folder, exist_ok=True)
                data = b"".join(bytes(part) for part in args)
                Path(folder, f".{own}.{os.getpid()}.tmp").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        setattr(Files, name, watched)

    watch("write")
    watch("delete")
    return done


def run_forked(kind: str, first: str, store: str, call: int, moment: str) -> int | None:
    """Do a kind of work on a copy of a store; return how many operations it took, None if it was killed."""
    shutil.copytree(first, store)
    if os.path.exists(f"{first}.backup"):
        shutil.copytree(f"{first}.backup", f"{store}.backup")
    child = os.fork()
    if child == 0:
        done = watch_files(call, moment)
        try:
            WORK[kind](store)
        except BaseException as error:
            print(f"{kind} {call} {moment}: {error!r}", file=sys.stderr)
            os._exit(255)
        os._exit(min(len(done), 254))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != 255, "it failed without being killed"
    return code if code >= 0 else None


def victims(kind: str, first: str, folder: str) -> Iterator[str]:
    """Yield the stores that killed processes have left, and last the one of a process that was not."""
    whole = f"{folder}/whole"
    number = run_forked(kind, first, whole, 0, "")
    assert number
    calls = sorted({1, 2, number, *range(1, number, max(number // MOST, 1))})
    for call in calls:
        for moment in ("before", "half"):
            store = f"{folder}/{call}-{moment}"
            assert run_forked(kind, first, store, call, moment) is None
            yield store
    yield whole


def killed(kind: str, first: Path, folder: Path) -> list[Path]:
    """Return the stores of all victims of a kind of work, and that of a process that was not killed."""
    code = "import sys, json; from tests.storage.test_killed import victims\n"
    code += "print(json.dumps(list(victims(*sys.argv[1:]))))"
    command = [sys.executable, "-c", code, kind, str(first), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [Path(store) for store in json.loads(done.stdout)]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path / "first", filter="data")
    return tmp_path / "first"


def is_done(kind: str, db: Database, rows: int) -> bool:
    """Return whether a statement was carried out; the stream a had so many rows before."""
    a = db.catalog.entries.get("a")
    return {
        "rename": "d" in db.catalog,
        "column": isinstance(a, StreamEntry) and len(a.columns) == 4,
        "drop": "sums" not in db.catalog,
        "insert": db.manifest().counts.get("a", (0,))[0] > rows,
    }[kind]


def shape(db: Database) -> tuple[object, ...]:
    """What a store is, but for the names of files and the numbers of steps."""
    manifest = db.manifest()
    rows = sorted((str(t), sum(run.rows for run in runs)) for t, runs in manifest.traces.items())
    counts = sorted(manifest.counts.items())
    plans = sorted((name, plan.plan) for name, plan in manifest.plans.items())
    return dict(db.catalog.entries), rows, counts, plans, manifest.bounds


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_statement_is_done_or_not(first: Path, tmp_path: Path, kind: str) -> None:
    """And can be carried out afterwards, if it is not: the store is then as without the kill."""
    with everview.connect(str(first)) as db:
        rows = db.manifest().counts["a"][0]
        assert not is_done(kind, db, rows)
    outcomes, shapes = [], []
    for store in killed(kind, first, tmp_path):
        report, well = check_at(str(store))
        assert well, f"{store.name}: {report}"
        with everview.connect(str(store)) as db:
            if (done := is_done(kind, db, rows)) not in outcomes:
                db._views()  # every plan can be read
            outcomes.append(done)
            if not outcomes[-1]:
                db.execute(SCRIPTS[kind])
            assert is_done(kind, db, rows), store.name
            shapes.append(shape(db)[: 1 if kind == "drop" else None])  # its rows go with the next step
    assert len(outcomes) > 4
    assert outcomes == sorted(outcomes), "from some operation on it is done"
    assert not outcomes[0]
    assert all(found == shapes[-1] for found in shapes)


@pytest.mark.slow
def test_a_backup_is_whole_or_none(first: Path, tmp_path: Path) -> None:
    """What is there of one that is not whole cannot be restored; in another folder it can be made anew."""
    wanted = None
    for store in killed("backup", first, tmp_path):
        assert check_at(str(store))[1]
        copy, again = Path(f"{store}.backup"), tmp_path / f"{store.name}-again"
        try:
            everview.restore(str(copy), str(again))
        except EverviewError:
            assert store.name != "whole"
            assert not again.exists()
            with everview.connect(str(store)) as db:
                db.backup(f"{store}.second")
            everview.restore(f"{store}.second", str(again))
        assert check_at(str(again))[1]
        with everview.connect(str(again)) as db:
            wanted = wanted or shape(db)
            assert shape(db) == wanted


@pytest.mark.slow
def test_a_restored_store_is_whole_or_refused(first: Path, tmp_path: Path) -> None:
    with everview.connect(str(first)) as db:
        wanted = shape(db)
        db.backup(f"{first}.backup")
    for store in killed("restore", first, tmp_path):
        target = Path(f"{store}.restored")
        try:
            with everview.connect(str(target)) as db:
                found = shape(db)
        except EverviewError:
            found = None
        if found is None or not db.catalog.entries:  # nothing, or not all, is there
            assert store.name != "whole"
            shutil.rmtree(target, ignore_errors=True)
            everview.restore(f"{store}.backup", str(target))
            with everview.connect(str(target)) as db:
                found = shape(db)
        assert found == wanted, store.name
        assert check_at(str(target))[1]
