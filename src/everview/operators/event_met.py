"""Met: the rows of an event query with a match, when their first partner comes (EXISTS; paper 3, def. 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.operators.base import InputColumns, Operator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State, stack_frames
from everview.operators.event_operator import (
    EventOperator,
    EventWait,
    alive_rows,
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
class MetOperator(EventOperator):
    """The rows of `candidates` whose record is among those of `matched`, from when it is met first.

    State: the rows that are not met, and the records that are, until no partner can come any more.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s = ScanOperator("s", (INT, TIMESTAMP))
    >>> met = MetOperator(s, s, EventWait(1, Clock()))
    >>> rows = make_frame({"c0": [1, 2], "c1": [5, 8]}, [(0, 9, 2)] * 2)
    >>> step = met.increment([rows, rows[:1]], met.empty_state([rows, rows]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["rows"]["c0"].to_list()
    ([(1, 5, 2)], [2])
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
        rows = self.event_part("rows", "rows without a match", 0)
        return rows, self.event_part("met", "records that have a match", 0)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_parts(("rows", "met"), new[0])

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows, matched = with_until(new[0], self.wait), sum_copies(with_until(new[1], self.wait))
        first = matched.filter(~occur_in(matched, state["met"]))
        waiting = stack_rows(state["rows"], rows)
        before = occur_in(rows, state["met"])
        now = occur_in(rows, first)
        output = stack_frames([waiting.filter(occur_in(waiting, first)), rows.filter(before & ~now)])
        alone = alive_rows(rows.filter(~before & ~now), slice_.b1)
        added = {"rows": alone, "met": alive_rows(first, slice_.b1)}
        return Increment(final_rows(output), {part: sort_records(kept) for part, kept in added.items()})
