"""The agreement of Spark's checkpoint with the manifests, without which nothing runs.

Spark's log says which batches of rows it has handed over, and a manifest which of them were taken. After the
checkpoint is lost, Spark would begin with batches that count as taken; after a manifest is lost, it would go
on after batches that were not. So the manifest has a checksum of how far the sources had been read.

    metadata                the id of the query
    offsets/<batch>         how far each source is read in a batch; written before the batch is sent
    commits/<batch>         the batch was sent, and its step has ended
    sources/<name>/…        what a source remembers: the files that it has read, or where it began
    .<name>.crc             beside each of them: its checksum, by Hadoop, in a local folder
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Container, Iterable, Iterator

from everview.errors import StoreError
from everview.storage.files import MEND_OR_RESTORE, FileMissing, Files
from everview.storage.manifest import Manifest
from everview.storage.source_log import log_entries, source_offsets

CHECKPOINT = "checkpoint"
_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
_METADATA = f"{CHECKPOINT}/metadata"
_HEARTBEAT = f"{CHECKPOINT}/sources/heartbeat/0"
_CRC_HEADER = struct.Struct(">4sI")  # a mark, and how many bytes each checksum is of


def read_progress(files: Files, batch: int) -> int | None:
    """Return a checksum of how far all sources were read in a batch; None if nothing was, or is not known."""
    try:
        lines = files.read(f"{CHECKPOINT}/offsets/{batch}").splitlines()
    except FileMissing:
        return None
    read = sorted(line for line in lines if line.startswith(b"s_") and not line.endswith(b":-"))
    return zlib.crc32(b"\n".join(read)) if read else None


def last_batch_read(files: Files, manifest: Manifest) -> int | None:
    """Return a batch of Spark whose log says how far the sources of a manifest were read; None if none does.

    Spark forgets the log of its own batch when a hundred without rows have followed; theirs say the same.
    """
    batches = (manifest.batch, max(batch_numbers(files, "commits"), default=-1))
    for batch in batches:
        found = None if batch is None else read_progress(files, batch)
        if found is not None and manifest.progress in (None, found):
            return batch
    return None


def require_agreement(files: Files, manifest: Manifest) -> None:
    """Raise an error if Spark would begin before the last batch taken, or go on after a later one."""
    if manifest.batch is not None and manifest.progress is None:
        return  # of an older release
    planned, done = (max(batch_numbers(files, log), default=-1) for log in ("offsets", "commits"))
    taken = -1 if manifest.batch is None else manifest.batch
    if max(planned, done) < taken:
        raise StoreError(
            f"the checkpoint of {files} is missing or older than its manifests: "
            f"step {manifest.step} has taken batch {taken}, of which Spark does not know",
            next_step=MEND_OR_RESTORE,
        )
    if done > planned:
        raise StoreError(
            f"the checkpoint of {files} is damaged: Spark has handed over batch {done}, "
            "and its offsets are missing",
            next_step=MEND_OR_RESTORE,
        )
    if taken in batch_numbers(files, "offsets") and read_progress(files, taken) != manifest.progress:
        raise StoreError(
            f"the checkpoint of {files} is not that of its manifests: "
            f"step {manifest.step} has taken another batch {taken}",
            next_step=MEND_OR_RESTORE,
        )
    # A batch without rows has no manifest, if nothing was read.
    if done > taken and read_progress(files, done) != manifest.progress:
        raise StoreError(
            f"a manifest of {files} is missing: Spark has handed over batch {done}, "
            f"and its rows are not in step {manifest.step}, the last one",
            next_step=MEND_OR_RESTORE,
        )


def clear_first_batch(files: Files) -> None:
    """Delete what an interrupted write of the first batch left: Spark begins with empty logs only."""
    if not batch_numbers(files, "offsets"):
        for log in ("offsets", "commits"):
            for file in files.list_files(f"{CHECKPOINT}/{log}"):
                files.delete(file.path)


def batch_numbers(files: Files, log: str) -> list[int]:
    """Return the numbers of the batches that one of Spark's logs has, in order."""
    found = files.list_files(f"{CHECKPOINT}/{log}", recursive=False)
    return sorted(int(name) for name in (f.path.rsplit("/", 1)[-1] for f in found) if name.isdecimal())


def checkpoint_paths(files: Files) -> list[str]:
    """Return the files of the checkpoint, without checksums and temporary files."""
    paths = (file.path for file in files.list_files(CHECKPOINT))
    return [path for path in paths if not path.rsplit("/", 1)[-1].startswith(".")]


def crc_path(path: str) -> str:
    """Return where Hadoop keeps the checksum of a file.

    >>> crc_path("checkpoint/offsets/7")
    'checkpoint/offsets/.7.crc'
    """
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def find_checkpoint_damage(files: Files) -> dict[str, str]:
    """Return the damaged files of the checkpoint, with what is wrong; those that are gone are no damage."""
    found = {}
    for path in checkpoint_paths(files):
        try:
            why = _damage_of(files, path)
        except FileMissing:
            continue  # Spark has removed it since
        if why is not None:
            found[path] = why
    return found


def _damage_of(files: Files, path: str) -> str | None:
    """Return what is wrong with a file of the checkpoint; None if nothing is."""
    data = files.read(path)
    try:
        checksums = files.read(crc_path(path))
    except FileMissing:
        checksums = None  # other file systems have none, and Spark does without
    if checksums is not None and not _has_checksums(data, checksums):
        return "its checksum is wrong: it was changed or damaged"
    try:
        for text in data.decode().splitlines():
            if text.startswith("{"):
                json.loads(text)
    except ValueError as error:
        return str(error)
    return None if data else "it is empty"


def _has_checksums(data: bytes, checksums: bytes) -> bool:
    """Return whether these are Hadoop's checksums of the data: one for every so many bytes.

    >>> _has_checksums(b"abc", b"crc\\0" + (512).to_bytes(4) + zlib.crc32(b"abc").to_bytes(4))
    True
    """
    if len(checksums) < _CRC_HEADER.size:
        return False
    mark, size = _CRC_HEADER.unpack_from(checksums)
    if mark != b"crc\0" or not 0 < size <= 1 << 20:
        return False
    parts = (data[i : i + size] for i in range(0, len(data), size))
    return checksums[_CRC_HEADER.size :] == b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)


def needed_log_entries(files: Files, batch: int) -> dict[str, str | None]:
    """Return the entries of the logs of file sources that a batch builds on, by path; None if it is missing.

    The value is the path again if the entry is there.
    """
    checkpoint = files.below(CHECKPOINT)
    needed: dict[str, str | None] = {}
    for name, last in source_offsets(checkpoint, batch).items():
        logs = log_entries(checkpoint, name)
        whole = max((number for number, (_, compact) in logs.items() if compact), default=-1)
        for number in range(max(whole, 0), max(last, whole) + 1):
            there = f"{CHECKPOINT}/{logs[number][0]}" if number in logs else None
            needed[there or f"{CHECKPOINT}/sources/{name}/{number}"] = there
    return needed


def intact_batch(files: Files, manifest: Manifest, damaged: Container[str] = ()) -> int | None:
    """Return a batch whose log is intact and says what the manifest says: Spark can go on after it.

    -1 if the manifest has taken no batch: Spark can begin. None if there is no such batch.
    """
    if manifest.batch is None:
        return -1
    planned = batch_numbers(files, "offsets")
    later = [number for number in reversed(planned) if number > manifest.batch]
    for batch in (manifest.batch, *later):
        if batch in planned and f"{CHECKPOINT}/offsets/{batch}" not in damaged:
            same = read_progress(files, batch) == manifest.progress
            entries = needed_log_entries(files, batch) if same else {}
            if same and not any(there is None or there in damaged for there in entries.values()):
                return batch
    return None


def checkpoint_problems(files: Files, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield each damaged or missing file of the checkpoint of a manifest, with what is wrong."""
    for path, why in find_checkpoint_damage(files).items():
        yield path, f"{files}/{path} is damaged: {why}"
    planned = batch_numbers(files, "offsets")
    if planned and not files.exists(_METADATA):
        yield _METADATA, f"{files}/{_METADATA} is missing, and Spark begins with it"
    if planned and planned[-1] > 0 and planned[-1] - 1 not in planned:
        path = f"{CHECKPOINT}/offsets/{planned[-1] - 1}"
        yield path, f"{files}/{path} is missing, and Spark begins with it"
    batch = last_batch_read(files, manifest)
    entries = {} if batch is None else _intact(files, batch)
    for path, there in entries.items():
        if there is None:
            yield path, f"{files}/{path} is missing, and batch {batch} builds on it"


def _intact(files: Files, batch: int) -> dict[str, str | None]:
    try:
        return needed_log_entries(files, batch)
    except ValueError:
        return {}  # the damage of these offsets is reported already


def copied_paths(files: Files, batch: int) -> list[str]:
    """Return the files of the checkpoint up to a batch, with their checksums: Spark goes on after it."""
    paths = [path for path in checkpoint_paths(files) if _number_of(path) <= batch]
    there = {file.path for file in files.list_files(CHECKPOINT)}
    return [*paths, *(crc for crc in map(crc_path, paths) if crc in there)]


def mend_checkpoint(files: Files, batch: int, damaged: Iterable[str]) -> None:
    """Make Spark go on after a batch that was taken: later batches are sent again, damaged files deleted.

    -1: before the first batch; then everything is read from the beginning. Newer files go first, so that
    an interruption leaves a checkpoint from which this can be done again.
    """
    if batch < 0:
        paths = checkpoint_paths(files)
        _delete_with_checksum(files, sorted(paths, key=_number_of, reverse=True))
        return
    numbers = {*batch_numbers(files, "offsets"), *batch_numbers(files, "commits")}
    for number in sorted(numbers, reverse=True):
        if number > batch:
            _delete_with_checksum(files, [f"{CHECKPOINT}/{log}/{number}" for log in ("commits", "offsets")])
    needed = {*needed_log_entries(files, batch)}
    gone = [path for path in damaged if path not in needed]
    for folder in {path.rpartition("/")[0] for path in gone if path.startswith(f"{CHECKPOINT}/sources/s_")}:
        # What comes after a damaged entry of a log is of no use: its files are found again.
        gone += [p for p in checkpoint_paths(files) if p.startswith(f"{folder}/") and p not in needed]
    _delete_with_checksum(files, gone)
    # Spark begins with the batch before the last; where that begins does not matter, if the last is done.
    offsets, before, commit = (
        f"{CHECKPOINT}/{path}" for path in (f"offsets/{batch}", f"offsets/{batch - 1}", f"commits/{batch}")
    )
    if batch > 0 and not files.exists(before):
        _write_without_checksum(files, before, files.read(offsets))
    if not files.exists(_METADATA):
        _write_without_checksum(files, _METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    if not files.exists(commit):
        _write_without_checksum(files, commit, _COMMIT)
    if files.exists(offsets) and not files.exists(_HEARTBEAT):
        _write_heartbeat(files, files.read(offsets))


def _write_heartbeat(files: Files, offsets: bytes) -> None:
    """Write when the heartbeat began, in milliseconds: so many seconds ago as it has counted, and more."""
    counted = [line.partition(b":")[2] for line in offsets.splitlines() if line.startswith(b"heartbeat:")]
    if counted and counted[0].isdigit():
        began = time.time_ns() // 1_000_000 - 1000 * (int(counted[0]) + 1)
        _write_without_checksum(files, _HEARTBEAT, f"v1\n{began}".encode())


def _write_without_checksum(files: Files, path: str, data: bytes) -> None:
    files.delete(crc_path(path))
    files.write(path, data)


def _delete_with_checksum(files: Files, paths: Iterable[str]) -> None:
    for path in paths:
        files.delete(path)
        files.delete(crc_path(path))


def _number_of(path: str) -> int:
    """Return the batch of a file of the offsets or the commits; -1 for other files.

    >>> _number_of("checkpoint/commits/12"), _number_of("checkpoint/sources/s_73/12")
    (12, -1)
    """
    _, folder, *rest = path.split("/")
    return int(rest[0]) if folder in ("offsets", "commits") and rest and rest[0].isdecimal() else -1
