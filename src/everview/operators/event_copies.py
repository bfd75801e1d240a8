"""Copies: EXCEPT and INTERSECT [ALL] of event queries, decided record by record (paper 3, def. 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.operators.base import Operator
from everview.operators.columnar.frame import (
    Frame,
    Increment,
    N,
    Slice,
    State,
    record_columns,
    stack_frames,
    sum_by_key,
)
from everview.operators.columnar.lazy import pl
from everview.operators.event_operator import (
    WaitingOperator,
    due_rows,
    final_rows,
    stack_rows,
    sum_copies,
    with_until,
)

_LEFT, _RIGHT = "_left", "_right"


@dataclass(frozen=True, eq=False)
class CopiesOperator(WaitingOperator):
    """A record as often as a set operation says, when no copy of it can come any more on either side.

    `function` is difference, strict_difference, intersection or max_union. State: the number of copies of
    each record on each side, until it is decided.

    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> s = ScanOperator("s", (TIMESTAMP,))
    >>> left = make_frame({"c0": [5, 5, 8]}, [(0, 9, 1)] * 3)
    >>> minus = CopiesOperator(s, s, "difference", wait=EventWait(0, Clock()))
    >>> step = minus.increment([left, left[:1]], minus.empty_state([left, left]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["left"]["c0"].to_list()
    ([(5, 1)], [8])
    """

    parts: ClassVar = {"left": "copies on the left", "right": "copies on the right"}

    left: Operator
    right: Operator
    function: str

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        sides = {
            part: sum_copies(with_until(rows, self.wait)) for part, rows in zip(self.parts, new, strict=True)
        }
        due = {part: due_rows(stack_rows(state[part], rows), slice_.b1) for part, rows in sides.items()}
        columns = record_columns(new[0])
        none = pl.lit(0, pl.Int64)
        both = stack_frames(
            [
                due["left"].select(*columns, pl.col(N).alias(_LEFT), none.alias(_RIGHT)),
                due["right"].select(*columns, none.alias(_LEFT), pl.col(N).alias(_RIGHT)),
            ]
        )
        counted = sum_by_key(both, columns, [_LEFT, _RIGHT])
        found = counted.select(*columns, _COUNTS[self.function]().cast(pl.Int64).alias(N)).filter(
            pl.col(N) > 0
        )
        return self.emit(final_rows(found).select(new[0].columns), sides, slice_)


_COUNTS = {
    "difference": lambda: pl.col(_LEFT) - pl.col(_RIGHT),
    "strict_difference": lambda: pl.when(pl.col(_RIGHT) > 0).then(0).otherwise(pl.col(_LEFT)),
    "intersection": lambda: pl.min_horizontal(_LEFT, _RIGHT),
    "max_union": lambda: pl.max_horizontal(_LEFT, _RIGHT),
}
