"""Unmet: the rows of an event query that have no match and can get none (NOT EXISTS; paper 3, def. 10).

Whether a record is met depends on the record alone, so that all its copies are decided together. No row is
taken back, and none is emitted before its wait is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.operators.base import InputColumns, Operator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.event_operator import (
    EventOperator,
    EventWait,
    alive_rows,
    due_rows,
    empty_parts,
    final_rows,
    occur_in,
    sort_records,
    stack_rows,
    sum_copies,
    with_until,
)
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class UnmetOperator(EventOperator):
    """The rows of `candidates` whose record is not among those of `matched` when their wait is over.

    `matched` are rows of the same columns: those for which a partner came. State: the rows that wait, and
    the records that are met, both until the wait is over.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s = ScanOperator("s", (INT, TIMESTAMP))
    >>> unmet = UnmetOperator(s, s, EventWait(1, Clock()))
    >>> rows = make_frame({"c0": [1, 2, 3], "c1": [5, 5, 8]}, [(0, 9, 1)] * 3)
    >>> step = unmet.increment([rows, rows[:1]], unmet.empty_state([rows, rows]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["rows"]["c0"].to_list()
    ([(2, 5, 1)], [3])
    """

    candidates: Operator
    matched: Operator
    wait: EventWait

    def __post_init__(self) -> None:
        self._set_types(self.candidates.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        every = tuple(range(len(self.types)))
        return every, every

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return {"rows": self.wait, "met": self.wait}

    @property
    def clock(self) -> Clock | None:
        return self.wait.clock

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.event_part("rows", "rows that wait for a match", 0, queue=True)
        return rows, self.event_part("met", "records that have a match", 0, queue=True)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_parts(("rows", "met"), new[0])

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows, matched = with_until(new[0], self.wait), sum_copies(with_until(new[1], self.wait))
        due = due_rows(stack_rows(state["rows"], rows), slice_.b1)
        output = due.filter(~occur_in(due, stack_rows(state["met"], matched)))
        alive = {"rows": alive_rows(rows, slice_.b1), "met": alive_rows(matched, slice_.b1)}
        return Increment(final_rows(output), {part: sort_records(kept) for part, kept in alive.items()})
