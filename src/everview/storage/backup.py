"""Backups: a whole store of one moment, copied while another process may write it, and put back.

A backup is a folder with the files that the last manifest names, that manifest, its catalog, and as much of
Spark's checkpoint as belongs to it. `backup.json` lists them all with their checksums and is written last:
without it a folder is no backup. A backup is no store, so that nothing can run in it by mistake.

Files are copied, not linked: a bit that changes on the disk must not change in both.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from everview.errors import StoreError, format_choices
from everview.storage import manifest as manifests
from everview.storage.checkpoint import copied_paths, intact_batch, require_agreement
from everview.storage.files import MEND_OR_RESTORE, FileMissing, Files, is_temporary
from everview.storage.held import hold_manifest
from everview.storage.lock import LOCK, acquire
from everview.storage.manifest import Manifest
from everview.storage.plans import PlanReader
from everview.storage.records import decode_record, encode_record
from everview.storage.runs import bring_files_to_disk
from everview.storage.store import (
    BACKUP_FILE,
    CATALOG,
    CATALOG_COPY,
    SETTINGS_FILE,
    Settings,
    Store,
    write_settings,
)

BACKUP_FORMAT = 1
_ATTEMPTS = 10  # to copy a store while another process writes it


@dataclass(frozen=True)
class BackupFile:
    """A file of a backup: its size and its checksum."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class StoreBackup:
    """What a backup is of: the step of a store, up to where its streams were known, and all its files."""

    step: int
    bound: int
    made: str
    settings: Settings
    files: Mapping[str, BackupFile] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.bytes for file in self.files.values())


class _BackupDocument(msgspec.Struct):
    """The file `backup.json`; the checksum is that of the bytes of the body."""

    format: int
    crc32: int = 0
    body: msgspec.Raw = msgspec.Raw()


def backup_store(store: Store, target: Files) -> StoreBackup:
    """Copy a store as it is after its last step into an empty folder; it may be written meanwhile.

    If a file of that step is gone before it is copied, the copy begins again with a later step.
    """
    _require_empty(store.files, target)
    target.make_root()
    quick = Files(target.root, durable=False)
    failed: StoreError | None = None
    before: Manifest | None = None
    for _ in range(_ATTEMPTS):
        manifest = manifests.read_latest(store.files) or Manifest()
        if failed is not None and before == manifest:
            raise failed  # nothing has moved: the file is missing, or damaged
        before = manifest
        try:
            with hold_manifest(store.files, manifest.step):
                return _copy(store, manifest, quick)
        except FileMissing as error:
            failed = error
            quick.clear()
        except BaseException:
            quick.clear()  # it was empty before
            raise
    raise StoreError(
        f"{store.files} goes on faster than it can be copied",
        next_step="try again, or stop the process that writes it for the time of the backup",
    )


def _require_empty(source: Files, target: Files) -> None:
    if target.names():
        raise StoreError(
            f"{target} is not empty, and a backup needs a folder of its own",
            next_step="choose an empty folder, or one that is not there yet",
        )
    if f"{target.root}/".startswith(f"{source.root}/"):
        raise StoreError(f"{target} lies in the store itself", next_step="choose a folder outside of it")


def _copy(store: Store, manifest: Manifest, target: Files) -> StoreBackup:
    """Copy the files of a manifest; FileMissing if one of them is gone."""
    source = store.files
    written: dict[str, BackupFile] = {}
    for path, data in _small_files(store, manifest):
        written[path] = _write(target, path, data)
    for digest in manifest.stored_plans():
        PlanReader(source)(digest)  # raises an error if it is damaged
    for path in {run.path for runs in manifest.traces.values() for run in runs}:
        source.verify(path)
    for path in sorted(manifest.paths()):
        written[path] = _write(target, path, source.read(path))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    backup = StoreBackup(manifest.step, manifest.bound, made, store.settings, written)
    _verify(target, backup)
    require_agreement(target, manifest)
    if target.local:
        bring_files_to_disk(target, sorted(written))
    body = encode_record(backup)
    document = _BackupDocument(BACKUP_FORMAT, zlib.crc32(body), msgspec.Raw(body))
    Files(target.root).write(BACKUP_FILE, msgspec.json.encode(document))
    return backup


def _small_files(store: Store, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """Yield the manifest, its catalog, and the part of the checkpoint that belongs to it."""
    files = store.files
    if manifest != Manifest():
        yield manifests.path_of(manifest.step), manifest.to_json()
    catalog = store.catalog_bytes(manifest)
    if catalog is not None:
        yield CATALOG, catalog
    batch = intact_batch(files, manifest)
    if batch is None:
        raise FileMissing(
            f"the checkpoint of {files} does not belong to step {manifest.step}", next_step=MEND_OR_RESTORE
        )
    for path in copied_paths(files, batch) if batch >= 0 else []:
        yield path, files.read(path)


def _write(target: Files, path: str, data: bytes) -> BackupFile:
    target.write(path, data)
    return BackupFile(len(data), zlib.crc32(data))


def read_backup(source: Files) -> StoreBackup:
    """Read the list of a backup; raise an error if there is none, or if it is damaged."""
    try:
        data = source.read(BACKUP_FILE)
    except FileMissing:
        raise StoreError(
            f"{source} is no whole backup: it has no {BACKUP_FILE}",
            next_step="give the folder that everview backup wrote; one that was interrupted is of no use",
        ) from None
    try:
        whole = msgspec.json.decode(data, type=_BackupDocument)
        if whole.format > BACKUP_FORMAT:
            raise StoreError(
                f"the backup {source} was made by a newer Everview (format {whole.format}, "
                f"this one reads {BACKUP_FORMAT})",
                next_step="upgrade Everview",
            )
        if whole.crc32 != zlib.crc32(whole.body):
            raise ValueError("its checksum is wrong")
        return decode_record(whole.body, StoreBackup)
    except (ValueError, TypeError) as error:
        raise _damaged_backup_error(source, BACKUP_FILE, str(error).splitlines()[0]) from error


def restore_store(source: Files, target: Files) -> StoreBackup:
    """Put a backup into a new or an empty folder; the whole backup is verified before anything is written.

    The settings are written last: they make it a store. So a restore that was interrupted can be run again.
    """
    backup = read_backup(source)
    _verify(source, backup)
    _require_free(target, backup)
    target.make_root()
    lock = acquire(target)
    try:
        quick = Files(target.root, durable=False)
        for path in sorted(backup.files):
            quick.write(path, source.read(path))
        if CATALOG in backup.files:
            quick.write(CATALOG_COPY, source.read(CATALOG))
        _verify(target, backup)
        if target.local:
            bring_files_to_disk(target, sorted(backup.files))
        write_settings(target, backup.settings)
    finally:
        lock.release()
    return backup


def _require_free(target: Files, backup: StoreBackup) -> None:
    """Raise an error if there is something else than what an interrupted restore has left."""
    if target.exists(SETTINGS_FILE):
        raise StoreError(
            f"there is already a store at {target}, and restore does not overwrite it",
            next_step="move it away first, or give another --path",
        )
    known = {*backup.files, LOCK, CATALOG_COPY, SETTINGS_FILE}
    others = [f.path for f in target.list_files() if f.path not in known and not is_temporary(f.path)]
    if others:
        raise StoreError(
            f"{target} holds other files ({format_choices(others)})",
            next_step="choose an empty folder, or one that is not there yet",
        )


def _verify(files: Files, backup: StoreBackup) -> None:
    """Raise an error if a file of a backup is missing or is not what was written."""
    for path, expected in sorted(backup.files.items()):
        try:
            data = files.read(path)
        except FileMissing:
            raise _damaged_backup_error(files, path, "it is missing") from None
        if BackupFile(len(data), zlib.crc32(data)) != expected:
            raise _damaged_backup_error(files, path, "its checksum is wrong")


def _damaged_backup_error(files: Files, path: str, why: str) -> StoreError:
    return StoreError(f"{files}/{path} of a backup is damaged: {why}", next_step="take another backup")
