"""Time window: each interval cut to the one that a window gives the row (DESIGN section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.windows import TimeWindow
from everview.operators.base import Operator


@dataclass(frozen=True, eq=False)
class TimeWindowOperator(Operator):
    """A row (e, from, until, n) becomes (e, max(from, f), min(until, u), n) for the window's interval [f, u).

    A row whose timestamp is NULL is in no window. Catalyst evaluates the closed form.
    """

    input: Operator
    timestamp: int
    window: TimeWindow

    def __post_init__(self) -> None:
        self._set_types(self.input.types)
