"""Frames of local files, kept in a process while they are read again and again.

A step reads a few rows of many files, and to map and decode a file takes longer than to find them.
Files are written whole and never changed, so what was decoded stays true as long as the file is the same
one: each frame is kept with the *version* of its file (inode, size, times), which is compared at every read.
A file of the same name that was written again, by another attempt or by a restored backup, has another.

Frames of small files are copies in memory, `MOST_COPIED_BYTES` in a process. Larger files stay mapped,
`MOST_MAPPED_BYTES` in a process: their pages are the system's, which takes them back when it needs them.
Those that were not read for longest go first. A mapped file that is deleted takes its space on the disk until
this process deletes it itself, or reads again: then the frames of files that are gone are dropped.

>>> cache, frame = FrameCache(most_bytes=100), pl.DataFrame({"v": [1]})
>>> cache.put("a", (1,), frame, 60)
>>> cache.get("a", (1,)) is None, cache.get("a", (2,)) is None
(False, True)
>>> cache.put("a", (2,), frame, 60)
>>> cache.put("b", (1,), frame, 60)
>>> cache.get("a", (2,)) is None, cache.bytes
(True, 60)
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl as pl

Version = tuple[int, ...]

MOST_COPIED_BYTES = 128 * 1024 * 1024
MOST_MAPPED_BYTES = 256 * 1024 * 1024
LARGEST_COPY = 256 * 1024  # bytes; a packed file has smaller runs only, so it is never mapped
_SWEEP_SECONDS = 1.0
_COLUMN_BYTES = (
    2 * 1024
)  # what a column takes beside its values, measured: most of the memory of a small frame


def bytes_in_memory(frame: Frame, size: int) -> int:
    """Return about how many bytes a frame takes that was decoded from so many bytes of a file."""
    return max(size, int(frame.estimated_size())) + _COLUMN_BYTES * frame.width


def version_of(found: os.stat_result) -> Version:
    """Return what tells one content of a local file from another: two with the same are the same."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(frozen=True)
class _Kept:
    """A frame, the version of its file, and the bytes that it takes."""

    version: Version
    frame: Frame
    bytes: int


class FrameCache:
    """Frames by the path or address of their run in the file system, least recently read first."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()
        self._next_sweep = 0.0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, name: str, version: Version) -> Frame | None:
        """Return the frame of a file, if it is kept and the file has this version still."""
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                return None
            if found.version != version:
                self._drop(name)
                return None
            self._kept.move_to_end(name)
            return found.frame.clone()  # whoever adds a column in place adds it to his own

    def put(self, name: str, version: Version, frame: Frame, size: int) -> None:
        """Keep a frame of a file; others are forgotten if all take too many bytes."""
        with self._lock:
            self._drop(name)
            if size > self.most_bytes:
                return
            self._kept[name] = _Kept(version, frame.clone(), size)
            self.bytes += size
            while self.bytes > self.most_bytes:
                self._drop(next(iter(self._kept)))

    def drop_gone(self) -> None:
        """Forget the frames of files that are not there any more, at most once in a second."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + _SWEEP_SECONDS
        with self._lock:
            for name in [name for name in self._kept if not os.path.exists(name)]:
                self._drop(name)

    def forget(self, name: str) -> None:
        """Forget the frame of a file that is deleted or written again."""
        if name in self._kept:
            with self._lock:
                self._drop(name)

    def clear(self) -> None:
        """Forget all frames."""
        with self._lock:
            self._kept.clear()
            self.bytes = 0

    def _drop(self, name: str) -> None:
        gone = self._kept.pop(name, None)
        if gone is not None:
            self.bytes -= gone.bytes


# Those of this process.
COPIED, MAPPED = FrameCache(MOST_COPIED_BYTES), FrameCache(MOST_MAPPED_BYTES)
