"""Hold: rows of events when a clock has passed them: for a join with a table AS OF a time, or for a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from everview.operators.base import Operator
from everview.operators.columnar.frame import FROM, Frame, Increment, Slice, State
from everview.operators.event_operator import WaitingOperator, due_rows, stack_rows, with_until


@dataclass(frozen=True, eq=False)
class HoldOperator(WaitingOperator):
    """The rows of the input when their wait is over. State: the rows that wait.

    With `begins`, a row holds from the time that it waited by on: as a view over an event stream reads it.

    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> hold = HoldOperator(ScanOperator("s", (TIMESTAMP,)), wait=EventWait(0, Clock()))
    >>> rows = make_frame({"c0": [5, 8]}, [(0, 9, 1)] * 2)
    >>> step = hold.increment([rows], hold.empty_state([rows]), Slice(0, 5))
    >>> step.output["c0"].to_list(), step.added["rows"]["c0"].to_list()
    ([5], [8])
    """

    parts: ClassVar = {"rows": "rows that wait"}

    input: Operator
    begins: bool = field(default=False, kw_only=True)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows = with_until(new[0], self.wait)
        output = due_rows(stack_rows(state["rows"], rows), slice_.b1)
        found = self.emit(output, {"rows": rows}, slice_)
        if self.begins:
            found = replace(found, output=found.output.with_columns(self.wait.until().alias(FROM)))
        return found
