"""Latest per key: a tagged stream, in which a row replaces the previous row of its key (paper 5, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.algebra.types import BOOLEAN
from everview.operators.base import Operator, StatefulOperator, StatePart, column
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.columnar.latest import latest_per_key


@dataclass(frozen=True, eq=False)
class LatestPerKeyOperator(StatefulOperator):
    """The latest row of each key. The last column of the input says whether a row deletes; it is dropped.

    State: the latest row of each key.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.algebra.time import INFINITY
    >>> from everview.operators.scan import ScanOperator
    >>> latest = LatestPerKeyOperator(ScanOperator("s", (INT, BOOLEAN)), (0,), (0,))
    >>> rows = make_frame({"c0": [1, 1], "c1": [False, True]}, [(1, INFINITY, 1), (4, INFINITY, 1)])
    >>> latest.increment([rows], latest.empty_state([rows]), Slice(0, 9)).output.rows()
    [(1, 1, 4, 1)]
    """

    input: Operator
    key: tuple[int, ...]
    order: tuple[int, ...]
    keeps_begins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.input.types[-1] != BOOLEAN:
            raise TypeError("the last column says whether a row deletes")
        self._set_types(self.input.types[:-1])

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in self.key)

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        return (StatePart("open", rows.label, rows.lasts, rows.until),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"open": new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        deletes = column(len(self.types))
        key, order = ([column(i) for i in part] for part in (self.key, self.order))
        found = latest_per_key(new[0], state, slice_, key, order, deletes)
        return Increment(found.output.drop(deletes), found.added)
