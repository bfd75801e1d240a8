"""One writer at a time: the lock of a store. Readers need none.

In a local folder the lock is the operating system's (flock): it ends with its process, however that ends.
Elsewhere it is a file that says who holds it. Where a file can be made only if there is none
(`conditional.py`), exactly one of several writers makes it. No file system of pyarrow can do that: there a
writer reads back what it wrote. Either way a holder makes sure that the file is still its own before each
manifest.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import time
import uuid
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from everview.errors import StoreError
from everview.storage.conditional import ConditionalObject
from everview.storage.files import FileMissing, Files
from everview.storage.records import decode_record, encode_record

LOCK = "everview.lock"
_PAUSE = 0.2  # seconds; so long the file of another writer may take to appear


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, and since when; `started` tells a process from a later one of the same number."""

    pid: int
    host: str
    since: str
    started: str = ""
    token: str = ""

    @classmethod
    def this_process(cls) -> Holder:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        pid = os.getpid()
        return cls(pid, socket.gethostname(), now, _start_of(pid), uuid.uuid4().hex)

    @classmethod
    def from_json(cls, data: bytes) -> Holder | None:
        """Return the holder that a lock file names; None if it names none."""
        try:
            return decode_record(data, cls)
        except ValueError:
            return None

    def to_json(self) -> bytes:
        return encode_record(self)

    def is_dead(self) -> bool:
        """Return whether it was a process of this machine that has ended."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return _start_of(self.pid) != self.started


class Lock(Protocol):
    """The right to write to a store."""

    def check(self) -> None:
        """Raise an error if the lock was lost."""

    def release(self) -> None:
        """Release the lock; a second call does nothing."""


def acquire(files: Files) -> Lock:
    """Acquire the lock of a store; raise an error that names the holder if there is one."""
    return LocalLock(files) if files.local else FileLock(files)


def writer_of(files: Files, for_others: bool = False) -> str | None:
    """Return who writes a store now, in words; None if nobody does.

    `for_others`: in the words of another process, for which "this same process" would be itself.
    """
    try:
        holder = Holder.from_json(files.read(LOCK))
    except StoreError:
        return None
    if holder is None or holder.is_dead():
        return None
    return _process(holder) if for_others else _name_holder(holder)


class LocalLock:
    """A lock of the operating system on a file in a local folder."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._path = files.full_path(LOCK)
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unlockable(files, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = Holder.from_json(os.read(handle, 10_000))
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise _held_error(files, holder) from None
            raise _unlockable(files, error) from error
        self._handle: int | None = handle
        os.ftruncate(handle, 0)
        os.pwrite(handle, Holder.this_process().to_json(), 0)
        _local_locks.add(self)

    def check(self) -> None:
        try:
            here, there = os.fstat(-1 if self._handle is None else self._handle), os.stat(self._path)
        except OSError:
            raise _lost(self._files, None) from None
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise _lost(self._files, None)

    def release(self) -> None:
        if self._handle is not None:
            # The file stays: if it were deleted, a third could lock a new one while a second locks the old.
            os.ftruncate(self._handle, 0)
            # Not only closed: a child that was just forked may still have it open.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None

    def forget(self) -> None:
        """Forget the lock in a child process: it stays with the parent, and ends with it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class FileLock:
    """A file that names its holder, for file systems without real locks."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._mine: Holder | None = None
        mine, there = Holder.this_process(), files.conditional(LOCK)
        if there is None:
            self._write_and_read_back(mine)
        else:
            self._write_if_free(mine, there)
        self._mine = mine
        atexit.register(self.release)

    def _write_and_read_back(self, mine: Holder) -> None:
        self._must_be_free(self._holder())
        self._files.write(LOCK, mine.to_json())
        time.sleep(_PAUSE)
        now = self._holder()
        if now != mine:
            raise _held_error(self._files, now)

    def _write_if_free(self, mine: Holder, there: ConditionalObject) -> None:
        found = there.read()
        data, tag = (b"", None) if found is None else found
        self._must_be_free(Holder.from_json(data))
        if not there.write(mine.to_json(), replaces=tag):
            raise _held_error(self._files, self._holder())

    def _must_be_free(self, holder: Holder | None) -> None:
        if holder is not None and not holder.is_dead():
            raise _held_error(self._files, holder)

    def _holder(self) -> Holder | None:
        try:
            return Holder.from_json(self._files.read(LOCK))
        except FileMissing:
            return None

    def check(self) -> None:
        holder = self._holder()
        if self._mine is None or holder != self._mine:
            raise _lost(self._files, holder)

    def release(self) -> None:
        mine, self._mine = self._mine, None
        if mine is not None and mine.pid == os.getpid() and self._holder() == mine:
            self._files.delete(LOCK)
        atexit.unregister(self.release)


_local_locks: weakref.WeakSet[LocalLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lock in list(_local_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)


def _start_of(pid: int) -> str:
    """Return when a process started, in the words of the system; empty where that is not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _name_holder(holder: Holder | None) -> str:
    if holder is None:
        return "another process"
    if holder.pid == os.getpid() and holder.host == socket.gethostname():
        return f"this same process, since {holder.since}"
    return _process(holder)


def _process(holder: Holder) -> str:
    return f"process {holder.pid} on {holder.host}, since {holder.since}"


def _held_error(files: Files, holder: Holder | None) -> StoreError:
    step = "stop that process first; to read the store needs no lock"
    if not files.local:
        step += f". If you are sure that it is gone, delete {files}/{LOCK}"
    return StoreError(f"the store {files} is being written by {_name_holder(holder)}", next_step=step)


def _lost(files: Files, holder: Holder | None) -> StoreError:
    by = "" if holder is None else f": it is now held by {_name_holder(holder)}"
    return StoreError(
        f"the lock of the store {files} was lost{by}",
        next_step="somebody deleted the lock or the store; start again when only one writes",
    )


def _unlockable(files: Files, error: OSError) -> StoreError:
    return StoreError(
        f"the store {files} cannot be locked for writing: {error.strerror}",
        next_step="check that you may write there, and that the file system knows locks",
    )
