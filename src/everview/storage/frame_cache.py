"""Frames of local files, kept in the memory of a process while they are read again and again.

A step reads a few rows of many small files, and to map and decode a file takes longer than to find them.
Files are written whole and never changed, so what was decoded stays true as long as the file is the same
one: each frame is kept with the *version* of its file (inode, size, times), which is compared at every read.
A file of the same name that was written again, by another attempt or by a restored backup, has another.

Frames are copies in memory: no file stays open, so a deleted one takes no space on the disk. A process keeps
at most `MOST_CACHED_BYTES`, and forgets those first that it has not read for longest.

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
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl as pl

Version = tuple[int, ...]

MOST_CACHED_BYTES = 64 * 1024 * 1024  # in a process
_LARGEST = 8 * 1024 * 1024  # bytes of a frame
_SMALL = 256 * 1024  # bytes; what is larger is kept when it is read for the second time


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

    def __init__(self, most_bytes: int = MOST_CACHED_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def accepts(self, size: int, known: bool) -> bool:
        """Return whether a frame of so many bytes is kept; `known`: this process has read it before."""
        return size <= min(self.most_bytes, _LARGEST if known else _SMALL)

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
        """Keep a frame whose columns lie in memory of their own, not in a mapped file."""
        with self._lock:
            self._drop(name)
            if size > self.most_bytes:
                return
            self._kept[name] = _Kept(version, frame.clone(), size)
            self.bytes += size
            while self.bytes > self.most_bytes:
                self._drop(next(iter(self._kept)))

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


FRAMES = FrameCache()  # those of this process
