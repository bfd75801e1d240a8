"""Files of sources that changed after they were read.

Spark reads a file once, and remembers its path and modification time in the log of its source. A file that
is written to later, or replaced, is not read again. Here the files are compared with that log, so that the
change is reported, once, instead of being lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
from pyarrow.lib import ArrowException  # type: ignore[import-untyped]

from everview.algebra.time import MILLISECOND, format_timestamp
from everview.catalog import FedEntry
from everview.ingest.reading import reads_files, source_name
from everview.storage.files import Files
from everview.storage.source_log import read_files, source_offsets

FILE_CHANGED = " was changed after it was found: "  # in the reason of the row that reports it
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
            f"the file {self.path}{FILE_CHANGED}it has {self.bytes:,} bytes of {now} now, "
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


def files_with_times(uris: Iterable[str]) -> dict[str, tuple[str, int, int]]:
    """Return the files that exist: the path as a user writes it, the modification time, the size."""
    folders: dict[str, list[str]] = {}
    for uri in uris:
        folders.setdefault(uri.rsplit("/", 1)[0], []).append(uri)
    return {uri: found for folder, mine in folders.items() for uri, found in _in_folder(folder, mine)}


def _in_folder(folder: str, uris: list[str]) -> Iterator[tuple[str, tuple[str, int, int]]]:
    scheme, _, rest = folder.partition(":")
    try:
        filesystem, path = _open_file_system(scheme, rest)
        found = filesystem.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    except (OSError, ArrowException, ValueError):
        return
    there = {info.base_name: info for info in found if info.is_file}
    for uri in uris:
        name = unquote(uri.rsplit("/", 1)[1])
        if name in there:
            shown = os.path.join(path, name) if scheme == "file" else unquote(uri)
            yield uri, (shown, there[name].mtime_ns // 1_000_000, there[name].size)


def _open_file_system(scheme: str, rest: str) -> tuple[arrow_fs.FileSystem, str]:
    if scheme == "file":
        return arrow_fs.LocalFileSystem(), unquote(urlsplit(rest).path)
    filesystem, path = arrow_fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}:{rest}")
    return filesystem, path
