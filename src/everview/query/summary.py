"""What a run did, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everview.algebra.time import UNDATED, Chronon, instant_words
from everview.errors import format_count

if TYPE_CHECKING:
    from everview.storage.arrivals import Arrived


@dataclass(frozen=True, repr=False)
class RunSummary:
    """What a run did: its steps, the bound that it reached, the rows that came in and the changes of views.

    >>> RunSummary(1, 5, 7_000_000, 7_000_000, 0.1)
    nothing new; known to 1970-01-01T00:00:07.000000
    >>> RunSummary(1, 5, 7_000_000, 7_000_000, 0.1, changes={"v": 2})
    1 step in 0.1 s: 0 rows in, 2 changes; known to 1970-01-01T00:00:07.000000
    """

    steps: int
    step: int
    bound: Chronon
    present: Chronon
    seconds: float
    arrived: Mapping[str, Arrived] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows that were taken in."""
        return sum(a.rows for a in self.arrived.values())

    def __repr__(self) -> str:
        known = "nothing known yet" if self.bound < UNDATED else f"known to {instant_words(self.bound)}"
        if not any(self.arrived.values()) and not any(self.changes.values()):
            return f"nothing new; {known}"
        changed = format_count(sum(self.changes.values()), "change")
        done = (
            f"{format_count(self.steps, 'step')} in {self.seconds:.1f} s: {format_count(self.rows, 'row')} in"
        )
        return f"{done}, {changed}; {known}"
