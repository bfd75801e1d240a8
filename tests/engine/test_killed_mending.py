"""Kill -9 in a rewind or a repair: it can be run again, and the store is then as without the kill.

Many moments are tried in this process: from the n-th operation on files on, none is carried out any more, not
even those of handlers, so that the disk is as a killed process leaves it. One moment of each is a real kill.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import everview
from everview.maintenance import check_at, repair, rewind
from everview.storage.files import Files
from tests.engine.damages import damaged_last_manifest, runs
from tests.engine.test_repair import ALL, ended, small
from tests.seeds import seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TO = "2026-01-01 00:00:01"
VICTIM = """
import sys
from tests.engine.crash import _session
from tests.engine.test_killed_mending import WORK
from tests.storage.test_killed import watch_files
store, kind, call, moment = sys.argv[1:]
session = _session()
watch_files(int(call), moment)
WORK[kind](store, session)
"""


class Killed(BaseException):
    """The process is gone: nothing that it does counts any more."""


def repair_it(store: str, spark: SparkSession) -> None:
    report, whole = repair(store, accept_losses=True, spark=spark)
    assert whole, str(report)


def rewind_it(store: str, spark: SparkSession) -> None:
    report, _ = rewind(store, TO, spark=spark)
    assert "nothing" in str(report) or "known to" in str(report), str(report)


WORK: dict[str, Callable[[str, SparkSession], None]] = {"repair": repair_it, "rewind": rewind_it}


def interrupted(work: Callable[[], None], call: int, half: bool, patch: pytest.MonkeyPatch) -> int:
    """Work until the n-th write or deletion of a file; return how many there were before."""
    done = 0

    def watch(name: str) -> None:
        original = getattr(Files, name)

        def watched(files: Files, path: str, *args: Any, **more: Any) -> Any:
            nonlocal done
            if done + 1 < call or not call:
                done += 1
                return original(files, path, *args, **more)
            if half and done + 1 == call and name == "write":
                folder, own = files.full_path(path).rsplit("/", 1)
                os.makedirs(folder, exist_ok=True)
                data = b"".join(bytes(part) for part in args)
                Path(folder, f".{own}.cut.tmp").write_bytes(data[: len(data) // 2])
            done = call
            raise Killed

        patch.setattr(Files, name, watched)

    with patch.context() as patch:
        watch("write")
        watch("delete")
        try:
            work()
        except Killed:
            return call
    assert not call, "it was not killed"
    return done


@pytest.fixture
def first(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store that has run; one that is to be repaired is damaged in two places."""
    store = small(spark, tmp_path)
    if request.node.callspec.params["kind"] == "repair":
        damaged_last_manifest(store)
        runs("view", "n")(store)
    return store


def require_whole(store: Path, kind: str, spark: SparkSession) -> None:
    """The work is done again where it was not done; then the store goes on as ever."""
    if kind == "rewind":
        report, well = check_at(str(store))
        assert well, str(report)
    WORK[kind](str(store), spark)
    report, well = check_at(str(store))
    assert well, str(report)
    if kind == "rewind":
        with everview.connect(str(store), spark) as db:
            assert [r.n for r in db.query("SELECT * FROM n").collect()] == [1]
    assert ended(store, spark, "n", "twice", "both") == ALL
    (store.with_name("in") / "3.csv").unlink()


@pytest.mark.parametrize("kind", WORK)
def test_at_many_moments(
    spark: SparkSession, first: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def victim(name: str) -> Path:  # it reads the same files as the first one
        shutil.copytree(first, tmp_path / name)
        return tmp_path / name

    whole = victim("whole")
    number = interrupted(lambda: WORK[kind](str(whole), spark), 0, False, monkeypatch)
    require_whole(whole, kind, spark)
    assert number > 3
    few = len(seeds(2, 12))
    for call in sorted({number, *range(2, number, max(1, number // few))}):
        store, half = victim(f"{call}"), call % 2 == 0
        interrupted(lambda store=store: WORK[kind](str(store), spark), call, half, monkeypatch)  # type: ignore[misc]
        require_whole(store, kind, spark)


@pytest.mark.parametrize("kind", WORK)
def test_a_process_is_killed(spark: SparkSession, first: Path, kind: str) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    around = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "EVERVIEW_TEST_KILL": ""}
    done = subprocess.run(
        [sys.executable, "-c", VICTIM, str(first), kind, "3", "half"],
        env={**kept, **around}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    require_whole(first, kind, spark)
