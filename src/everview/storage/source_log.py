"""Spark's log of a source: which files were read and in which batch, or which records of Kafka.

`offsets/<batch>` says for each source of files up to which entry of its log it was read, and for Kafka up to
which offset of each partition. `sources/<name>/<number>` is an entry, a list of files; for Kafka,
`sources/<name>/0` has the offsets at which it began, and `sources/<name>/topics`, which Everview writes, the
ids of its topics. All functions take the files of the checkpoint folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from everview.storage.files import FileMissing, Files

TopicOffsets = dict[str, dict[int, int]]  # of Kafka: topic, partition, offset
_TOPICS = "topics"


def source_offsets(checkpoint: Files, batch: int) -> dict[str, int]:
    """Return how far each file source was read in a batch: the number of an entry of its log."""
    return {
        name: offset["logOffset"]
        for name, offset in _offsets(checkpoint, batch).items()
        if isinstance(offset.get("logOffset"), int)
    }


def partition_offsets(checkpoint: Files, batch: int) -> dict[str, TopicOffsets]:
    """Return how far each Kafka source was read in a batch: for each partition, the offset after the last."""
    return {
        name: _by_partition(offset)
        for name, offset in _offsets(checkpoint, batch).items()
        if all(isinstance(partitions, dict) for partitions in offset.values())
    }


def first_offsets(checkpoint: Files, name: str) -> TopicOffsets | None:
    """Return the offsets at which a Kafka source began; None if that is not known any more.

    A partition that came later is not among them: Spark reads it from its first record on.
    """
    try:
        data = checkpoint.read(f"sources/{name}/0")
    except FileMissing:
        return None
    return _by_partition(json.loads(data.splitlines()[-1]))  # after the version


def topic_ids(checkpoint: Files, name: str) -> dict[str, list[str]]:
    """Return the ids that each topic of a Kafka source has had; a topic that is created anew has another."""
    try:
        ids: dict[str, list[str]] = json.loads(checkpoint.read(f"sources/{name}/{_TOPICS}"))
    except FileMissing:
        return {}
    return ids


def write_topic_ids(checkpoint: Files, name: str, ids: Mapping[str, Sequence[str]]) -> None:
    """Keep the ids that each topic of a Kafka source has had."""
    checkpoint.write(f"sources/{name}/{_TOPICS}", json.dumps(ids).encode())


def _offsets(checkpoint: Files, batch: int) -> dict[str, dict[str, Any]]:
    """Return what the log of a batch says of each source."""
    try:
        lines = checkpoint.read(f"offsets/{batch}").decode().splitlines()
    except FileMissing:
        return {}
    pairs = (line.partition(":") for line in lines if line.startswith("s_"))
    return {name: json.loads(text) for name, _, text in pairs if text.startswith("{")}


def _by_partition(offset: Mapping[str, Mapping[str, int]]) -> TopicOffsets:
    return {topic: {int(p): at for p, at in partitions.items()} for topic, partitions in offset.items()}


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
