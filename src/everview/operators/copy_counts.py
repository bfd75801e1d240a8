"""Copy counts: EXCEPT ALL and others whose results may be retracted, by a count per record and side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.aggregates.counts import empty_counts, step_counts
from everview.operators.aggregates.events import compact_events
from everview.operators.base import InputRows, Operator, StatefulOperator, StatePart, column
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.temporal.life import Length


@dataclass(frozen=True, eq=False)
class CopyCountsOperator(StatefulOperator):
    """The function of `MultisetOperator`, whose results are emitted without an end and retracted.

    The time of a step depends on the begins and ends in its slice, not on how many rows a record has. State:
    the number of copies of each record on each side, and the begins and ends to come.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> less = CopyCountsOperator(ScanOperator("s", (INT,)), ScanOperator("r", (INT,)), "difference")
    >>> left, right = make_frame({"c0": [1]}, [(0, 9, 2)]), make_frame({"c0": [1]}, [(5, 20, 1)])
    >>> less.increment([left, right], less.empty_state([left, right]), Slice(-1, 6)).output.rows()
    [(1, 0, 5, 2), (1, 5, 9223372036854775807, 1)]
    """

    left: Operator
    right: Operator
    function: str

    def __post_init__(self) -> None:
        self._set_types(self.left.types)

    @property
    def method(self) -> str:
        """The name of the technique."""
        return "counting copies"

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0), self.rows_of(1)
        growth = max(side.growth for side in rows)
        counts = StatePart("counts", "copies of each record", _longest(rows), rows[0].until, growth=growth)
        waits = [side.waits for side in rows]
        if waits == [0, 0]:
            return (counts,)
        longest = None if None in waits else max(wait for wait in waits if wait is not None)
        text = "begins and ends to come"
        return counts, StatePart("queue", text, longest, until="until due", queue=True, may_cancel=False)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_counts(new[0])

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        return step_counts((new[0], new[1]), state, self.function, slice_)

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return compact_events(rows, [column(i) for i in range(len(self.types))], by_time=part == "queue")


def _longest(rows: Sequence[InputRows]) -> Length:
    """Return the longest time for which a row of a side holds; None: until it is retracted."""
    lengths = [side.lasts for side in rows]
    if INFINITY in lengths or None not in lengths:
        return max(length for length in lengths if length is not None)
    return None
