"""Unmet: the rows of an event query that have no match and can get none (NOT EXISTS; paper 3, def. 10).

Whether a record is met depends on the record alone, so that all its copies are decided together. No row is
taken back, and none is emitted before its wait is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.operators.base import Operator
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.event_operator import (
    WaitingOperator,
    due_rows,
    occur_in,
    stack_rows,
    sum_copies,
    with_until,
)


@dataclass(frozen=True, eq=False)
class UnmetOperator(WaitingOperator):
    """The rows of `candidates` whose record is not among those of `matched` when their wait is over.

    `matched` are rows of the same columns: those for which a partner came. State: the rows that wait, and
    the records that are met, both until the wait is over.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> s = ScanOperator("s", (INT, TIMESTAMP))
    >>> unmet = UnmetOperator(s, s, wait=EventWait(1, Clock()))
    >>> rows = make_frame({"c0": [1, 2, 3], "c1": [5, 5, 8]}, [(0, 9, 1)] * 3)
    >>> step = unmet.increment([rows, rows[:1]], unmet.empty_state([rows, rows]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["rows"]["c0"].to_list()
    ([(2, 5, 1)], [3])
    """

    parts: ClassVar = {"rows": "rows that wait for a match", "met": "records that have a match"}

    candidates: Operator
    matched: Operator

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows, matched = with_until(new[0], self.wait), sum_copies(with_until(new[1], self.wait))
        due = due_rows(stack_rows(state["rows"], rows), slice_.b1)
        output = due.filter(~occur_in(due, stack_rows(state["met"], matched)))
        return self.emit(output, {"rows": rows, "met": matched}, slice_)
