"""What came for a stream or a table, and what a step did: counts and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everview.algebra.time import Chronon
from everview.operators.columnar.frame import BEFORE_ALL


@dataclass(frozen=True)
class PartTimes:
    """One of the parts of a source that are read side by side: how far it is known, by its own rows.

    `newest` has the newest timestamp on each time line, `punctuated` the greatest of a punctuation, `heard`
    when (by the clock on the wall) the part last had rows.
    """

    newest: Mapping[str, Chronon] = field(default_factory=dict)
    punctuated: Mapping[str, Chronon] = field(default_factory=dict)
    heard: int = 0

    def __add__(self, later: PartTimes) -> PartTimes:
        return PartTimes(
            latest(self.newest, later.newest),
            latest(self.punctuated, later.punctuated),
            max(self.heard, later.heard),
        )


@dataclass(frozen=True)
class Arrived:
    """What came for one stream: how many rows were taken, late, refused; the times of those taken.

    `punctuated` has, for each time line, the greatest timestamp of a row that is a punctuation. `parts` has
    the times by the parts of the source, if it has parts.
    """

    rows: int = 0
    late: int = 0
    rejected: int = 0
    newest: Mapping[str, Chronon] = field(default_factory=dict)
    oldest: Chronon | None = None
    punctuated: Mapping[str, Chronon] = field(default_factory=dict)
    parts: Mapping[str, PartTimes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.late or self.rejected)

    def __add__(self, other: Arrived) -> Arrived:
        both = [a.oldest for a in (self, other) if a.oldest is not None]
        return Arrived(
            self.rows + other.rows,
            self.late + other.late,
            self.rejected + other.rejected,
            latest(self.newest, other.newest),
            min(both, default=None),
            latest(self.punctuated, other.punctuated),
            add_parts(self.parts, other.parts),
        )


def add_parts(known: Mapping[str, PartTimes], new: Mapping[str, PartTimes]) -> dict[str, PartTimes]:
    """Return the times of the parts of a source after more of its rows came."""
    return {**known, **{part: known.get(part, PartTimes()) + times for part, times in new.items()}}


def latest(known: Mapping[str, Chronon], new: Mapping[str, Chronon]) -> dict[str, Chronon]:
    """Return the later of two times for each time line."""
    return {**known, **{line: max(t, known.get(line, BEFORE_ALL)) for line, t in new.items()}}


@dataclass(frozen=True)
class Progress:
    """One step: what came, how far time went, what it took, and what is kept."""

    step: int
    rows: int
    bound: Chronon
    present: Chronon
    seconds: float
    state_rows: int
    arrived: Mapping[str, Arrived] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
