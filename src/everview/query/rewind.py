"""The report of a rewind."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.query.report import Report


@dataclass
class RewindNotes:
    """What a rewind does, what is lost by it, and what else there is to know: sentences."""

    actions: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def rewind_report(notes: RewindNotes, outcome: str) -> Report:
    """Return what is done, what is lost, what else there is to know, and the outcome."""
    parts = {"rewind": notes.actions, "lost": notes.losses, "note": notes.remarks, "": [outcome]}
    lines, records = [], []
    for kind, sentences in parts.items():
        lines += [f"{kind}: {sentence}" if kind else sentence for sentence in sentences]
        records += [{"kind": kind or "outcome", "what": sentence} for sentence in sentences]
    return Report("\n".join(lines), tuple(records))
