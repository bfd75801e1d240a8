"""The report of a backup that was made or put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.algebra.time import UNDATED, instant_words
from everview.errors import format_count
from everview.query.report import Report

if TYPE_CHECKING:
    from everview.storage.backup import StoreBackup


def backup_report(backup: StoreBackup, done: str) -> Report:
    """Return what a backup holds as text and as a record; `done` says where it is now."""
    known = None if backup.bound < UNDATED else instant_words(backup.bound)
    text = f"step {backup.step}, {'nothing known yet' if known is None else f'known to {known}'}: "
    size = f"{format_count(len(backup.files), 'file')}, {backup.bytes:,} bytes"
    record = {"step": backup.step, "known_to": known, "made": backup.made}
    return Report(f"{text}{size} {done}", ({**record, "files": len(backup.files), "bytes": backup.bytes},))
