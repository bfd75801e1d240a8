"""Hold: the rows of an event query when a clock has passed them: before a join with a table AS OF a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.operators.base import Operator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.event_operator import (
    EventOperator,
    EventWait,
    alive_rows,
    due_rows,
    empty_parts,
    final_rows,
    sort_records,
    stack_rows,
    with_until,
)
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class HoldOperator(EventOperator):
    """The rows of the input when their wait is over. State: the rows that wait.

    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> hold = HoldOperator(ScanOperator("s", (TIMESTAMP,)), EventWait(0, Clock()))
    >>> rows = make_frame({"c0": [5, 8]}, [(0, 9, 1)] * 2)
    >>> step = hold.increment([rows], hold.empty_state([rows]), Slice(0, 5))
    >>> step.output["c0"].to_list(), step.added["rows"]["c0"].to_list()
    ([5], [8])
    """

    input: Operator
    wait: EventWait

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return {"rows": self.wait}

    @property
    def clock(self) -> Clock | None:
        return self.wait.clock

    @property
    def state(self) -> tuple[StatePart, ...]:
        return (self.event_part("rows", "rows that wait for the table", 0, queue=True),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_parts(("rows",), new[0])

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows = with_until(new[0], self.wait)
        output = due_rows(stack_rows(state["rows"], rows), slice_.b1)
        return Increment(final_rows(output), {"rows": sort_records(alive_rows(rows, slice_.b1))})
