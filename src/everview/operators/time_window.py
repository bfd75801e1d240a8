"""Time window: each interval cut to the one that a window gives the row (DESIGN section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.windows import TimeWindow
from everview.operators.base import Operator


@dataclass(frozen=True, eq=False)
class TimeWindowOperator(Operator):
    """A row (e, from, until, n) becomes (e, max(from, f), min(until, u), n) for the window's interval [f, u).

    A row whose timestamp is NULL is in no window. Catalyst evaluates the closed form.

    >>> from everview.algebra.time import INFINITY, Interval
    >>> from everview.algebra.windows import Range
    >>> [Interval(ts, INFINITY).intersect(Range(10).interval(ts)) for ts in (3, 8)]
    [Interval(from_=3, until=13), Interval(from_=8, until=18)]
    """

    input: Operator
    timestamp: int
    window: TimeWindow

    def __post_init__(self) -> None:
        self._set_types(self.input.types)
