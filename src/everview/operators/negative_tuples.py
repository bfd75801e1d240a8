"""Negative tuples: rows without an end, and a negative row when one ends (strategy NT; paper 2, 2.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.base import Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import FROM, UNTIL, Frame, Increment, N, Slice, State, stack_frames
from everview.operators.columnar.lazy import pl


@dataclass(frozen=True, eq=False)
class NegativeTuplesOperator(StatefulOperator):
    """The rows of the input without their ends; at the end of a row, a negative row retracts it.

    State: the ends to come, as negative rows that are kept until they are due.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> tuples = NegativeTuplesOperator(ScanOperator("s", (INT,)))
    >>> rows = make_frame({"c0": [1, 2]}, [(1, 5, 1), (3, 9, 2)])
    >>> step = tuples.increment([rows], tuples.empty_state([rows]), Slice(0, 6))
    >>> [(v, begin, n) for v, begin, _, n in step.output.rows()], step.added["coming"].rows()
    ([(1, 1, 1), (2, 3, 2), (1, 5, -1)], [(2, 0, 9, -2)])
    """

    input: Operator

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def state(self) -> tuple[StatePart, ...]:
        return (StatePart("coming", "ends to come", until="until due", queue=True, may_cancel=False),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"coming": new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        ends = (
            new[0]
            .filter(pl.col(UNTIL) < INFINITY)
            .with_columns(pl.lit(0, pl.Int64).alias(FROM), (-pl.col(N)).alias(N))
        )
        is_due = (pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1)
        due = stack_frames([state["coming"].filter(is_due), ends.filter(is_due)])
        rows = stack_frames([new[0], due.with_columns(pl.col(UNTIL).alias(FROM))])
        output = rows.with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))
        return Increment(output, {"coming": ends.filter(pl.col(UNTIL) > slice_.b1)})
