"""The report of a check of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import format_count
from everview.query.report import Report

if TYPE_CHECKING:
    from everview.storage.check import StoreCheck


def check_report(found: StoreCheck) -> Report:
    """Return the result of a check as text and as records, one for each problem."""
    read = f"step {found.step}: {format_count(found.files, 'file')} of rows read, {found.bytes:,} bytes"
    if not found.problems:
        return Report(f"{read}; all is well", ({"problems": 0, "files": found.files, "bytes": found.bytes},))
    lines = [f"{read}; {format_count(len(found.problems), 'problem')}"]
    for problem in found.problems:
        lines += [problem.what, f"  holds: {problem.contents}", f"  next: {problem.next_step}"]
    records = tuple(
        {"path": p.path, "contents": p.contents, "what": p.what, "next_step": p.next_step}
        for p in found.problems
    )
    return Report("\n".join(lines), records)
