"""Row window: the latest rows of a stream, or of each partition of it (paper 4, 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.operators.base import Operator, StatefulOperator, StatePart, column
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.columnar.latest import latest_rows


@dataclass(frozen=True, eq=False)
class RowWindowOperator(StatefulOperator):
    """[PARTITION BY … ROWS count]: a row holds until the arrival that pushes it out, or until its own end.

    `order` sorts the rows of a partition: the time line, the SEQUENCE BY columns, all columns. State: the
    rows in the window.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.algebra.time import INFINITY
    >>> from everview.operators.scan import ScanOperator
    >>> last = RowWindowOperator(ScanOperator("s", (INT,)), 2, (), (0,))
    >>> rows = make_frame({"c0": [1, 2, 3]}, [(1, INFINITY, 1), (4, INFINITY, 1), (6, INFINITY, 1)])
    >>> last.increment([rows], last.empty_state([rows]), Slice(0, 9)).output.rows()
    [(1, 1, 6, 1), (2, 4, 9223372036854775807, 1), (3, 6, 9223372036854775807, 1)]
    """

    input: Operator
    count: int
    partition: tuple[int, ...]
    order: tuple[int, ...]
    keeps_begins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in self.partition)

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        return (StatePart("open", rows.label, rows.lasts, rows.until),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"open": new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        partition, order = ([column(i) for i in part] for part in (self.partition, self.order))
        return latest_rows(new[0], state, slice_, self.count, partition, order)
