"""Manifests that are held: clean-up keeps them, and the files that they name, while a backup reads them.

A backup of a large store takes longer than old manifests are kept. So it writes a small file that says which
step it reads and which process it is; it is deleted after the backup, and ignored once its process has ended.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from everview.storage.files import FileMissing, Files
from everview.storage.lock import Holder
from everview.storage.records import decode_record, encode_record

HELD = "held"


@dataclass(frozen=True)
class HeldManifest:
    """A step whose manifest is held, and who holds it."""

    step: int
    holder: Holder


@contextmanager
def hold_manifest(files: Files, step: int) -> Iterator[None]:
    """Keep the manifest of a step, and the files that it names, from clean-up."""
    path = f"{HELD}/{uuid.uuid4().hex}.json"
    files.write(path, encode_record(HeldManifest(step, Holder.this_process())))
    try:
        yield
    finally:
        files.delete(path)


def held_steps(files: Files) -> set[int]:
    """Return the steps that are held; delete what processes of this machine that have ended left behind."""
    steps = set()
    for file in files.list_files(HELD, recursive=False):
        try:
            held = decode_record(files.read(file.path), HeldManifest)
        except (FileMissing, ValueError):
            continue  # it has just ended; or it is none
        if held.holder.is_dead():
            files.delete(file.path)
        else:
            steps.add(held.step)
    return steps
