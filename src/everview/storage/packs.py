"""Packed files: the small runs that a task writes in a step, as one file for each kind of trace.

A store with many views writes many small runs in each step, and to make, sync, open and delete a file takes
longer than to write so few rows. A run in a packed file is named by an *address*: the path of the file, and
where the run is in it. Each run has a checksum of its own, like a file.

A packed file is deleted when no manifest names a run in it. So that a few runs that last do not keep many
files, those that are still there after some steps are moved to a new one, with their bytes as they are.

>>> import tempfile
>>> from everview.operators.columnar.frame import make_frame
>>> folder = tempfile.TemporaryDirectory()
>>> with packing(Files(folder.name), step=7) as files:
...     first, _ = files.save_frame("views/a/x.arrow", make_frame({"v": [1]}, [(0, 5, 1)]))
...     second, _ = files.save_frame("views/b/y.arrow", make_frame({"v": [2]}, [(0, 5, 1)]))
>>> file_of(first) == file_of(second)
True
>>> Files(folder.name).read_frame(second).rows()
[(2, 0, 5, 1)]
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from msgspec.structs import replace

from everview.operators.columnar.frame import Frame
from everview.storage.addresses import address_of, file_of
from everview.storage.encoding import encode_parts
from everview.storage.files import CHECKSUM_BYTES, Files, seal
from everview.storage.frame_cache import Version
from everview.storage.runs import BACKFILL, FOLDERS, Run, TraceId, Traces

# Rows that came from outside the store have files of their own: a repair finds them without a manifest.
_PACKED = {FOLDERS[kind] for kind in ("state", "view", "complete", "port")}
_LARGEST = 64 * 1024  # bytes; what is larger has a file of its own, which is deleted once it has ended
_MOVED_AFTER = 32  # steps; the files of the last 20 are kept in any case
_ALIGNMENT = 64  # of the buffers in an Arrow file
_NAME = re.compile(r".*/packed-(\d{8,})-[0-9a-f]{32}\.arrow")


class PackedFiles(Files):
    """Files of which the small ones are gathered, and written as few files by `finish`.

    What was saved can be read before that. Pickled, it is ordinary `Files`: a task gathers its own.
    """

    def __init__(self, files: Files, step: int) -> None:
        super().__init__(files.root, files.durable, files.given)
        self._step = step
        self._packs: dict[str, _Pack] = {}  # by the folder of the kind
        self._gathered: dict[str, memoryview] = {}  # by the address
        # Packed files that were read: a task reads many runs of one, which never changes.
        self._opened_packs: dict[str, tuple[Any, Version | None]] = {}

    def save_parts(self, path: str, parts: Sequence[Frame]) -> tuple[str, int]:
        """Save frames of the same columns as the parts of one; return where it is, and its size in bytes."""
        return self.save_encoded(path, encode_parts(parts, self.local))

    def save_encoded(self, path: str, data: memoryview) -> tuple[str, int]:
        """Save the bytes of a frame; return where it is, and its size in bytes."""
        if _kind(path) in _PACKED and len(data) <= _LARGEST:
            return self._add(_kind(path), data)
        return path, self._write_sealed(path, data)

    def move(self, address: str) -> str:
        """Copy a run of a packed file, as it is, to the one that is being gathered; return where it is."""
        return self._add(_kind(address), memoryview(self._verified(address)))[0]

    def _add(self, kind: str, data: memoryview) -> tuple[str, int]:
        if kind not in self._packs:
            self._packs[kind] = _Pack(f"{kind}/packed-{self._step:08}-{uuid.uuid4().hex}.arrow")
        address, size = self._packs[kind].add(data)
        self._gathered[address] = data
        return address, size

    def _verified(self, path: str) -> Any:
        found = self._gathered.get(path)
        return super()._verified(path) if found is None else pa.py_buffer(found)

    def _mapped_file(self, file: str) -> Any:
        return self._pack(file)[0] if _NAME.fullmatch(file) else super()._mapped_file(file)

    def _version(self, path: str) -> Version | None:
        if path in self._gathered or not self.local:
            return None
        file = file_of(path)
        return self._pack(file)[1] if _NAME.fullmatch(file) else super()._version(file)

    def _pack(self, file: str) -> tuple[Any, Version | None]:
        """Return a packed file and its version, which is looked up first."""
        found = self._opened_packs.get(file)
        if found is None:
            version = super()._version(file)
            found = self._opened_packs[file] = super()._mapped_file(file), version
        return found

    def finish(self) -> None:
        """Write what was gathered."""
        for pack in self._packs.values():
            self.write(pack.path, *pack.runs)
        self._packs, self._gathered, self._opened_packs = {}, {}, {}


class _Pack:
    """A packed file that is being gathered."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.runs: list[bytes | memoryview] = []
        self._size = 0

    def add(self, data: memoryview) -> tuple[str, int]:
        """Add a frame and its checksum; return its address, and how many bytes it has."""
        address = address_of(self.path, self._size, len(data) + CHECKSUM_BYTES)
        size = len(data) + CHECKSUM_BYTES
        padding = bytes(-size % _ALIGNMENT)
        self.runs += [data, seal(address, data) + padding]
        self._size += size + len(padding)
        return address, size


@contextmanager
def packing(files: Files, step: int) -> Iterator[PackedFiles]:
    """Yield the same files, but for the small ones, which are written as few at the end of the block."""
    packed = PackedFiles(files, step)
    yield packed
    packed.finish()


def move_runs(traces: Traces, files: PackedFiles, step: int) -> dict[TraceId, tuple[Run, ...]]:
    """Move runs out of packed files that are old; return the traces that have such runs."""
    changed: dict[TraceId, tuple[Run, ...]] = {}
    moved: dict[str, str] = {}  # a run may be in two traces
    old: dict[str, bool] = {}
    for trace, runs in traces.items():
        mine = {run.path for run in runs if _is_old(file_of(run.path), step, old)}
        for address in mine - moved.keys():
            moved[address] = files.move(address)
        if mine:
            changed[trace] = tuple(replace(r, path=moved[r.path]) if r.path in mine else r for r in runs)
    return changed


def _is_old(file: str, step: int, known: dict[str, bool]) -> bool:
    """Return whether runs are moved out of a file; `known` has the answers of this step."""
    found = known.get(file)
    if found is None:
        name = _NAME.fullmatch(file)
        found = known[file] = name is not None and step - int(name[1]) >= _MOVED_AFTER
    return found


def _kind(path: str) -> str:
    """Return the folder of the kind of a run, also of one in the folder of a backfill.

    >>> _kind("views/sums/x.arrow"), _kind("backfill/5ca1/runs/packed-x.arrow#0+8")
    ('views', 'runs')
    """
    parts = path.split("/", 3)
    return parts[2] if parts[0] == BACKFILL else parts[0]
