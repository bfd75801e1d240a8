"""Event output: the rows of an event stream as they are kept, and the clock of each of its time lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.base import Operator, column
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame
from everview.operators.columnar.lazy import pl
from everview.operators.columnar.pairs import drop_null_rows
from everview.operators.event_operator import EventWait


@dataclass(frozen=True, eq=False)
class EventOutputOperator(Operator):
    """The final rows of an event query: each holds from its first time line on, for ever.

    `lines` has the column and the clock of each time line (paper 3, definition 24). They belong to the plan:
    a release that analyses the query in another way must not promise more than the operators below do. Rows
    whose first time line is not after `after` are left out: they depend on rows that were not seen. So are
    those with a time line that is NULL: a time that was computed and lies beyond the ends of time.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> output = EventOutputOperator(ScanOperator("s", (INT, TIMESTAMP)), (EventWait(1, Clock()),), after=5)
    >>> output.apply([make_frame({"c0": [1, 2, 3], "c1": [5, 8, None]}, [(0, 9, 1)] * 3)]).rows()
    [(2, 8, 8, 9223372036854775807, 1)]
    """

    input: Operator
    lines: tuple[EventWait, ...]
    after: int = BEFORE_ALL

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def first_line(self) -> int:
        """The column of the first time line."""
        found = self.lines[0].column
        assert found is not None
        return found

    @property
    def time_columns(self) -> tuple[int, ...]:
        """The columns of all time lines."""
        return tuple(line.column for line in self.lines if line.column is not None)

    @property
    def is_light(self) -> bool:
        return True

    def apply(self, frames: Sequence[Frame]) -> Frame:
        time = pl.col(column(self.first_line)).cast(pl.Int64)
        rows = drop_null_rows(frames[0], [column(position) for position in self.time_columns])
        if self.after > BEFORE_ALL:
            rows = rows.filter(time > self.after)
        return rows.with_columns(time.alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL))
