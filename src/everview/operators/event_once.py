"""Once: every record of an event query once, when it comes first (DISTINCT; paper 3, finding 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.operators.base import Operator
from everview.operators.columnar.frame import Frame, Increment, N, Slice, State
from everview.operators.columnar.lazy import pl
from everview.operators.event_operator import WaitingOperator, occur_in, sum_copies, with_until


@dataclass(frozen=True, eq=False)
class OnceOperator(WaitingOperator):
    """Every record once. State: the records that were emitted, until no copy of them can come any more.

    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> once = OnceOperator(ScanOperator("s", (TIMESTAMP,)), wait=EventWait(0, Clock()))
    >>> rows = make_frame({"c0": [5, 5, 8]}, [(0, 9, 1)] * 3)
    >>> step = once.increment([rows], {"records": make_frame({"c0": [8]}, [(0, 8, 1)])}, Slice(0, 4))
    >>> step.output.drop("_from", "_until").rows(), step.added["records"]["c0"].to_list()
    ([(5, 1)], [5])
    """

    parts: ClassVar = {"records": "records"}
    queues = False

    input: Operator

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        records = sum_copies(with_until(new[0], self.wait)).with_columns(pl.lit(1, pl.Int64).alias(N))
        fresh = records.filter(~occur_in(records, state["records"]))
        return self.emit(fresh, {"records": fresh}, slice_)
