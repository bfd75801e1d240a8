"""Once: every record of an event query once, when it comes first (DISTINCT; paper 3, finding 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.operators.base import Operator, StatePart
from everview.operators.columnar.frame import Frame, Increment, N, Slice, State
from everview.operators.columnar.lazy import pl
from everview.operators.event_operator import (
    EventOperator,
    EventWait,
    alive_rows,
    empty_parts,
    final_rows,
    occur_in,
    sort_records,
    sum_copies,
    with_until,
)
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class OnceOperator(EventOperator):
    """Every record once. State: the records that were emitted, until no copy of them can come any more.

    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> once = OnceOperator(ScanOperator("s", (TIMESTAMP,)), EventWait(0, Clock()))
    >>> rows = make_frame({"c0": [5, 5, 8]}, [(0, 9, 1)] * 3)
    >>> step = once.increment([rows], {"records": make_frame({"c0": [8]}, [(0, 8, 1)])}, Slice(0, 4))
    >>> step.output.drop("_from", "_until").rows(), step.added["records"]["c0"].to_list()
    ([(5, 1)], [5])
    """

    input: Operator
    wait: EventWait

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return {"records": self.wait}

    @property
    def clock(self) -> Clock | None:
        return self.wait.clock

    @property
    def state(self) -> tuple[StatePart, ...]:
        return (self.event_part("records", "records", 0),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_parts(("records",), new[0])

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        records = sum_copies(with_until(new[0], self.wait)).with_columns(pl.lit(1, pl.Int64).alias(N))
        fresh = records.filter(~occur_in(records, state["records"]))
        return Increment(final_rows(fresh), {"records": sort_records(alive_rows(fresh, slice_.b1))})
