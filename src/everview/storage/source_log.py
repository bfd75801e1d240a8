"""Spark's log of a source of files: which files were read, and in which batch.

`offsets/<batch>` says for each source up to which entry of its log it was read; `sources/<name>/<number>` is
an entry, a list of files. All functions take the files of the checkpoint folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from everview.storage.files import FileMissing, Files


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


def is_whole_log(entries: Mapping[int, tuple[str, bool]]) -> bool:
    """Return whether no entry of a log is missing, from its beginning to its last one.

    >>> is_whole_log({1: ("1", False)}), is_whole_log({9: ("9.compact", True), 10: ("10", False)})
    (False, True)
    """
    first = max((number for number, (_, compact) in entries.items() if compact), default=0)
    return bool(entries) and all(number in entries for number in range(first, max(entries) + 1))
