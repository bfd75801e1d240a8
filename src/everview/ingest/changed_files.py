"""Files of sources that changed after they were read.

Spark reads a file once, and remembers its path and modification time in the log of its source. A file that
is written to later, or replaced, is not read again. Here the files are compared with that log, so that the
change is reported, once, instead of being lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
from pyarrow.lib import ArrowException  # type: ignore[import-untyped]

from everview.algebra.time import MILLISECOND, format_timestamp
from everview.catalog import FedEntry
from everview.ingest.reading import reads_files, source_name
from everview.storage.files import FileMissing, Files

_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # what Hadoop calls a file system, and what pyarrow does


@dataclass(frozen=True)
class ChangedFile:
    """A file that changed after it was read: its modification times, now and when read, in milliseconds."""

    path: str
    now: int
    before: int
    bytes: int

    @property
    def reason(self) -> str:
        """The reason in the rejected row for this file."""
        now, before = (format_timestamp(t * MILLISECOND) for t in (self.now, self.before))
        return (
            f"the file {self.path} was changed after it was found: it has {self.bytes:,} bytes of {now} now, "
            f"and was of {before}; what changed is not taken: move files in when they are complete, and put "
            "further rows into a new file"
        )


def changed_files(
    checkpoint: Files, entries: Iterable[FedEntry], batch: int | None, known: Mapping[str, Mapping[str, int]]
) -> dict[str, list[ChangedFile]]:
    """Return the files of each source that changed since they were read, up to a batch of Spark.

    `known` has the changes that were reported before, with their times. A deleted file has not changed.
    Files on a file system that pyarrow cannot read are not checked.
    """
    found: dict[str, list[ChangedFile]] = {}
    last = {} if batch is None else source_offsets(checkpoint, batch)
    for entry in entries:
        if reads_files(entry) and source_name(entry) in last:
            read = read_files(checkpoint, source_name(entry), last[source_name(entry)])
            told = known.get(entry.name, {})
            changed = [
                ChangedFile(path, time, read[uri], size)
                for uri, (path, time, size) in files_with_times(read).items()
                if time != told.get(path, read[uri])
            ]
            if changed:
                found[entry.name] = sorted(changed, key=lambda file: file.path)
    return found


def source_offsets(checkpoint: Files, batch: int) -> dict[str, int]:
    """Return how far each file source was read in a batch: the number of an entry of its log."""
    try:
        lines = checkpoint.read(f"offsets/{batch}").decode().splitlines()
    except FileMissing:
        return {}
    pairs = (line.partition(":") for line in lines if line.startswith("s_"))
    offsets = {name: json.loads(text) for name, _, text in pairs if text.startswith("{")}
    return {name: offset["logOffset"] for name, offset in offsets.items() if "logOffset" in offset}


def read_files(checkpoint: Files, name: str, last: int) -> dict[str, int]:
    """Return the files that a source has read, with their modification times."""
    logs = log_entries(checkpoint, name)
    whole = max((number for number, (_, compact) in logs.items() if compact), default=-1)
    read: dict[str, int] = {}
    for number in sorted(logs):
        if whole <= number <= max(last, whole):
            for line in checkpoint.read(logs[number][0]).decode().splitlines()[1:]:
                file = json.loads(line)
                if file["batchId"] <= last:
                    read[file["path"]] = file["timestamp"]
    return read


def log_entries(checkpoint: Files, name: str) -> dict[int, tuple[str, bool]]:
    """Return the entries of the log of a source by number: the path, and whether it includes all before it.

    An entry of the log is a file; now and then all entries are written into one that ends in .compact.
    """
    return {
        int(number): (path, bool(ending))
        for path in (f.path for f in checkpoint.list_files(f"sources/{name}", recursive=False))
        for number, _, ending in [path.rsplit("/", 1)[-1].partition(".")]
        if number.isdecimal() and ending in ("", "compact")
    }


def files_with_times(uris: Iterable[str]) -> dict[str, tuple[str, int, int]]:
    """Return the files that exist: the path as a user writes it, the modification time, the size."""
    folders: dict[str, list[str]] = {}
    for uri in uris:
        folders.setdefault(uri.rsplit("/", 1)[0], []).append(uri)
    return {uri: found for folder, mine in folders.items() for uri, found in _in_folder(folder, mine)}


def _in_folder(folder: str, uris: list[str]) -> Iterator[tuple[str, tuple[str, int, int]]]:
    scheme, _, rest = folder.partition(":")
    try:
        filesystem, path = _opened(scheme, rest)
        found = filesystem.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    except (OSError, ArrowException, ValueError):
        return
    there = {info.base_name: info for info in found if info.is_file}
    for uri in uris:
        name = unquote(uri.rsplit("/", 1)[1])
        if name in there:
            shown = os.path.join(path, name) if scheme == "file" else unquote(uri)
            yield uri, (shown, there[name].mtime_ns // 1_000_000, there[name].size)


def _opened(scheme: str, rest: str) -> tuple[arrow_fs.FileSystem, str]:
    if scheme == "file":
        return arrow_fs.LocalFileSystem(), unquote(urlsplit(rest).path)
    filesystem, path = arrow_fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}:{rest}")
    return filesystem, path
