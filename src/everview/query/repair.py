"""The report of a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import format_count
from everview.query.report import Report

if TYPE_CHECKING:
    from everview.storage.check import DamagedPart
    from everview.storage.repair import RepairNotes


def repair_report(problems: tuple[DamagedPart, ...], notes: RepairNotes, outcome: str) -> Report:
    """Return what was found, what is done about it, and the outcome, as text and as records."""
    lines = [f"{format_count(len(problems), 'problem')}:"] if problems else []
    lines += [f"  {problem.what}" for problem in problems]
    parts = {"repair": notes.actions, "lost": notes.losses, "cannot be mended": notes.unmendable}
    records: list[dict[str, object]] = [{"kind": "problem", "what": p.what} for p in problems]
    for kind, sentences in parts.items():
        lines += [f"{kind}: {sentence}" for sentence in sentences]
        records += [{"kind": kind, "what": sentence} for sentence in sentences]
    return Report("\n".join([*lines, outcome]), (*records, {"kind": "outcome", "what": outcome}))
