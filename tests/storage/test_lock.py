"""One writer at a time: between processes, after a crash, in children, and where there is no flock."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.fs as arrow_fs
import pytest

from everview.errors import StoreError
from everview.storage import lock as locks
from everview.storage.files import Files
from everview.storage.lock import LOCK, FileLock, Holder, acquire

HOLD = """
import sys
from everview.storage.files import Files
from everview.storage.lock import acquire
lock = acquire(Files(sys.argv[1]))
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path))


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Files:
    """Files that are not local."""
    monkeypatch.setattr(locks, "_PAUSE", 0)
    return Files("store", filesystem=arrow_fs._MockFileSystem())


def holder(files: Files, code: str = HOLD) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, files.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


@pytest.mark.slow
def test_a_second_process_is_told_who_writes_and_since_when(files: Files) -> None:
    process = holder(files)
    with pytest.raises(StoreError) as caught:
        acquire(files)
    assert re.fullmatch(
        rf"the store {files} is being written by process {process.pid} on {re.escape(socket.gethostname())}, "
        r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n  next: stop that process first; to read .* no lock",
        str(caught.value),
    )
    process.communicate("\n")
    acquire(files).release()


def test_the_lock_of_a_killed_process_is_taken_over(files: Files) -> None:
    process = holder(files)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert files.read(LOCK), "it could not clean up"
    lock = acquire(files)
    lock.check()
    found = Holder.from_json(files.read(LOCK))
    assert found is not None
    assert found.pid == os.getpid()
    lock.release()


def test_in_one_process(files: Files) -> None:
    first = acquire(files)
    with pytest.raises(StoreError, match="is being written by this same process, since"):
        acquire(files)
    first.release()
    first.release()
    second = acquire(files)
    with pytest.raises(StoreError, match="was lost"):
        first.check()
    second.check()
    second.release()


def test_a_child_neither_keeps_nor_frees_the_lock_of_its_parent(files: Files) -> None:
    lock = acquire(files)
    ready, go = os.pipe()
    child = os.fork()
    if not child:  # it tries to free the lock, and lives on until the parent closes the pipe
        os.close(go)
        lock.release()
        os.read(ready, 1)
        os._exit(0)
    try:
        lock.check()
        with pytest.raises(StoreError, match="is being written by this same process, since"):
            acquire(files)
        lock.release()
        acquire(files).release()
    finally:
        os.close(go)
        os.close(ready)
        assert os.waitpid(child, 0)[1] == 0


def test_the_lock_of_a_killed_process_whose_child_lives_on(files: Files) -> None:
    process = holder(files, HOLD.replace("print", "import os\nif not os.fork(): print"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    acquire(files).release()
    process.communicate()  # this ends the child


@pytest.mark.parametrize("replaced", [True, False])
def test_a_lock_file_that_was_deleted(files: Files, replaced: bool) -> None:
    lock = acquire(files)
    os.unlink(files.full_path(LOCK))
    if replaced:
        files.write(LOCK, b"")
    with pytest.raises(StoreError, match=r"the lock of the store .* was lost\n  next: somebody deleted"):
        lock.check()
    lock.release()


def test_no_right_to_lock(files: Files, tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(StoreError, match="cannot be locked for writing: Is a directory"):
        acquire(files)


def test_a_file_as_a_lock(other: Files) -> None:
    first = acquire(other)
    assert isinstance(first, FileLock)
    first.check()
    with pytest.raises(
        StoreError, match=r"this same process(.|\n)*If you are sure .*, delete store/everview\.lock"
    ):
        acquire(other)
    first.release()
    assert not other.exists(LOCK)
    acquire(other).release()


def of_another(pid: int, host: str | None = None, started: str = "") -> bytes:
    return Holder(pid, host or socket.gethostname(), "2026-01-01", started, "t").to_json()


def test_a_file_of_a_dead_process_is_taken_over(other: Files) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    other.write(LOCK, of_another(done.pid))
    acquire(other).release()
    # A container's process has the same number every time; what started at another time is another.
    other.write(LOCK, of_another(os.getpid(), started="1"))
    acquire(other).release()


def test_a_file_of_another_host_is_respected(other: Files) -> None:
    other.write(LOCK, of_another(1, "elsewhere"))
    with pytest.raises(StoreError, match="by process 1 on elsewhere, since 2026-01-01"):
        acquire(other)


def test_a_file_lock_that_another_took(other: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = acquire(other)
    other.write(LOCK, of_another(1, "elsewhere"))
    with pytest.raises(StoreError, match="was lost: it is now held by process 1 on elsewhere"):
        lock.check()
    lock.release()
    assert other.exists(LOCK), "the lock of another is left alone"
    other.delete(LOCK)
    monkeypatch.setattr("time.sleep", lambda _: other.write(LOCK, of_another(1, "elsewhere")))
    with pytest.raises(StoreError, match="by process 1 on elsewhere"):
        acquire(other)


def test_a_lock_file_with_rubbish_is_nobodys(other: Files) -> None:
    other.write(LOCK, b"\xff{")
    acquire(other).release()
