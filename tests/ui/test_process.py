"""The command line as a process of its own, with its own Spark: signals, pipes, and not a word of Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everview import connect
from tests.ui.conftest import Call

pytestmark = pytest.mark.spark

EVERVIEW = Path(sys.executable).with_name("everview")
PATIENCE = 300  # seconds; a crowded machine is no failure
SCRIPT = """
CREATE STREAM s (k STRING, ts TIMESTAMP, TIMELINE ts) FROM csv('in', header => true, maxFilesPerTrigger => 1);
CREATE VIEW held AS SELECT k, ts FROM s [RANGE 1 HOUR];
"""


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A command under way, in a group of processes of its own, as a terminal has it."""
    process = subprocess.Popen(
        [EVERVIEW, *arguments], cwd=cwd, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def put(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    new = folder / f"{number}.new"
    new.write_text(f"k,ts\nk{number},2026-01-01 00:00:{number:02}\n")
    os.utime(new, (1_700_000_000 + number,) * 2)
    new.rename(folder / "in" / f"{number}.csv")


def steps(folder: Path) -> int:
    return len(list((folder / "everview-store" / "manifests").glob("0*.json")))


def make(folder: Path, files: int) -> None:
    (folder / "v.sql").write_text(SCRIPT)
    for number in range(1, files + 1):
        put(folder, number)


def test_follow_until_ctrl_c(tmp_path: Path) -> None:
    """One process runs the store, a second is refused, a third follows; both end when they are asked to."""
    make(tmp_path, 2)
    with started("run", "v.sql", "--follow", cwd=tmp_path) as run:
        wait_until(lambda: steps(tmp_path) >= 2, run)
        second = subprocess.run(
            [EVERVIEW, "run", "v.sql"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (second.returncode, second.stdout) == (1, "")
        assert f"process {run.pid}" in second.stderr
        with started("changes", "held", "--follow", "--format", "json", cwd=tmp_path) as tail:
            lines: list[str] = []
            assert tail.stdout is not None
            reader = threading.Thread(target=lines.extend, args=(tail.stdout,), daemon=True)
            reader.start()
            put(tmp_path, 3)
            put(tmp_path, 4)
            wait_until(lambda: len(lines) >= 3, tail)
            os.killpg(tail.pid, signal.SIGINT)
            assert tail.wait(PATIENCE) == 0
            reader.join(PATIENCE)
            assert tail.stderr is not None
            told = tail.stderr.read()
        assert [json.loads(line)["k"] for line in lines][:3] == ["k1", "k2", "k3"]
        assert told.startswith("up to step ")
        assert "go on with --since" in told
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=PATIENCE)
    assert (run.returncode, err) == (0, "stopping after the step under way; again to stop at once\n")
    assert "stream  rows  late  rejected\ns       4     0     0" in out


def test_ctrl_c_in_the_middle(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step under way ends, the store is whole, and the next run takes in what is left."""
    make(tmp_path, 8)
    with started("run", "v.sql", cwd=tmp_path) as run:
        wait_until(lambda: steps(tmp_path) >= 1, run)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE)
    assert (run.returncode, out) == (1, "")
    assert err == (
        "stopping after the step under way; again to stop at once\n"
        "stopped before all was taken in\n  next: run again to go on\n"
    )
    assert 1 <= steps(tmp_path) < 8
    with connect(str(tmp_path / "everview-store")) as db:
        taken = db.manifest().counts["s"][0]
    assert 0 < taken < 8
    monkeypatch.chdir(tmp_path)
    again = call("run", "v.sql", "--finish")
    assert again.code == 0
    assert f"s       {8 - taken}     0     0" in again.out
    count = call("query", "SELECT COUNT(*) AS n FROM held", "--format", "csv")
    assert count.out == "n\n8\n"


def test_who_stops_reading_is_no_mistake(tmp_path: Path) -> None:
    with connect(str(tmp_path / "everview-store")) as db:
        db.execute("CREATE TABLE t (v INT); INSERT INTO t VALUES (1)")
    with started("query", "SELECT v FROM t", "--format", "csv", cwd=tmp_path) as query:
        assert query.stdout is not None
        query.stdout.close()
        query.stdout = None
        _, err = query.communicate(timeout=PATIENCE)
    assert (query.returncode, err) == (0, "")
