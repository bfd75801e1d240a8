"""Met: the rows of an event query with a match, when their first partner comes (EXISTS; paper 3, def. 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.operators.base import Operator
from everview.operators.columnar.frame import Frame, Increment, Slice, State, stack_frames
from everview.operators.event_operator import WaitingOperator, occur_in, stack_rows, sum_copies, with_until


@dataclass(frozen=True, eq=False)
class MetOperator(WaitingOperator):
    """The rows of `candidates` whose record is among those of `matched`, from when it is met first.

    State: the rows that are not met, and the records that are, until no partner can come any more.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> s = ScanOperator("s", (INT, TIMESTAMP))
    >>> met = MetOperator(s, s, wait=EventWait(1, Clock()))
    >>> rows = make_frame({"c0": [1, 2], "c1": [5, 8]}, [(0, 9, 2)] * 2)
    >>> step = met.increment([rows, rows[:1]], met.empty_state([rows, rows]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["rows"]["c0"].to_list()
    ([(1, 5, 2)], [2])
    """

    parts: ClassVar = {"rows": "rows without a match", "met": "records that have a match"}
    queues = False

    candidates: Operator
    matched: Operator

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows, matched = with_until(new[0], self.wait), sum_copies(with_until(new[1], self.wait))
        first = matched.filter(~occur_in(matched, state["met"]))
        waiting = stack_rows(state["rows"], rows)
        before = occur_in(rows, state["met"])
        now = occur_in(rows, first)
        output = stack_frames([waiting.filter(occur_in(waiting, first)), rows.filter(before & ~now)])
        return self.emit(output, {"rows": rows.filter(~before & ~now), "met": first}, slice_)
