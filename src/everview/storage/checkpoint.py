"""Spark's checkpoint and the manifests agree, or nothing runs.

Spark's log says which batches of rows it has handed over, and a manifest which of them were taken. After the
checkpoint is lost, Spark would begin with batches that count as taken; after a manifest is lost, it would go
on after batches that were not. So the manifest has a checksum of how far the sources had been read.
"""

from __future__ import annotations

import zlib

from everview.errors import StoreError
from everview.storage.files import FileMissing, Files
from everview.storage.manifest import Manifest

CHECKPOINT = "checkpoint"
_TOGETHER = "put the folders manifests and checkpoint back from one backup: they belong together"


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
    batches = (manifest.batch, _last_number(files, f"{CHECKPOINT}/commits"))
    for batch in batches:
        found = None if batch is None else read_progress(files, batch)
        if found is not None and manifest.progress in (None, found):
            return batch
    return None


def require_agreement(files: Files, manifest: Manifest) -> None:
    """Raise an error if Spark would begin before the last batch taken, or go on after a later one."""
    if manifest.batch is not None and manifest.progress is None:
        return  # of an older release
    planned, done = (_last_number(files, f"{CHECKPOINT}/{folder}") for folder in ("offsets", "commits"))
    taken = -1 if manifest.batch is None else manifest.batch
    if max(planned, done) < taken:
        raise StoreError(
            f"the checkpoint of {files} is missing or older than its manifests: "
            f"step {manifest.step} has taken batch {taken}, of which Spark does not know",
            next_step=_TOGETHER,
        )
    # A batch without rows has no manifest, if nothing was read.
    if done > taken and read_progress(files, done) != manifest.progress:
        raise StoreError(
            f"a manifest of {files} is missing: Spark has handed over batch {done}, "
            f"and its rows are not in step {manifest.step}, the last one",
            next_step=_TOGETHER,
        )


def _last_number(files: Files, folder: str) -> int:
    """Return the number of the last entry of one of Spark's logs; -1 if it has none."""
    names = (file.path.rsplit("/", 1)[-1] for file in files.list_files(folder, recursive=False))
    return max((int(name) for name in names if name.isdecimal()), default=-1)
