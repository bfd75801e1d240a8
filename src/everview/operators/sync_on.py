"""SYNC ON: changes appear at the points of a synchronization stream (paper 5, 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.base import InputColumns, Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    consolidate_frame,
    stack_frames,
)
from everview.operators.columnar.lazy import np, pl

_POINT = "_point"


@dataclass(frozen=True, eq=False)
class SyncOnOperator(StatefulOperator):
    """Rows appear and end at the first point at or after their begin and end.

    `points` has the insertions of the synchronization stream; a point is an instant at which a row with that
    instant as its value is inserted. A row waits for the first point at or after its begin; if that of its
    end has not come, the row is emitted open and closed later. State: the begins and ends that wait. All
    those up to the bound wait for the same point, the next one, and are summed per record (paper 5, 8).

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> sync = SyncOnOperator(ScanOperator("s", (INT,)), ScanOperator("p", (TIMESTAMP,)))
    >>> rows = make_frame({"c0": [1, 2]}, [(1, 9, 1), (5, 7, 1)])
    >>> points = make_frame({"c0": [4, 8]}, [(4, INFINITY, 1), (8, INFINITY, 1)])
    >>> sync.increment([rows, points], sync.empty_state([rows, points]), Slice(0, 8)).output.rows()
    [(1, 4, 9223372036854775807, 1)]
    """

    input: Operator
    points: Operator

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return tuple(range(len(self.types))), (None,) * len(self.types)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(len(self.input.types)))

    def is_broadcast(self, number: int) -> bool:
        return number == 1

    @property
    def state(self) -> tuple[StatePart, ...]:
        return (StatePart("waiting", "changes that wait", until="until the next point", fan=2),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"waiting": _open_rows(new[0].clear())}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str] | None:
        """Without a point nothing that waits is emitted."""
        return set() if new[1].is_empty() else None

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        if new[1].is_empty():
            return Increment(new[0].clear(), {"waiting": consolidate_frame(_open_rows(new[0]), slice_.b1)})
        points = new[1].filter(pl.col("c0").cast(pl.Int64) == pl.col(FROM))[FROM].unique()
        queue = consolidate_frame(stack_frames([state["waiting"], _open_rows(new[0])]), slice_.b0)
        instants = np.sort(points.to_numpy())
        position = np.searchsorted(instants, queue[FROM].to_numpy())
        come = position < len(instants)
        at = np.where(come, np.append(instants, INFINITY)[position], INFINITY)
        # A begin or an end whose point has come is an open row from that point on: +n or -n.
        ready = queue.with_columns(pl.Series(_POINT, at)).filter(pl.Series(come))
        output = consolidate_frame(ready.with_columns(pl.col(_POINT).alias(FROM)).drop(_POINT))
        change = _state_change(state["waiting"], queue.filter(pl.Series(~come)), slice_.b1)
        return Increment(output, {"waiting": change})


def _open_rows(rows: Frame) -> Frame:
    """Return each row as an open row for its begin and a negative one for its end."""
    ends = rows.filter(pl.col(UNTIL) < INFINITY).with_columns(
        pl.col(UNTIL).alias(FROM), (-pl.col(N)).alias(N)
    )
    return stack_frames([rows, ends]).with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))


def _state_change(before: Frame, after: Frame, bound: int) -> Frame:
    """Return the rows to add to a state so that it becomes another; begins up to the bound are equal."""
    return consolidate_frame(stack_frames([after, before.with_columns((-pl.col(N)).alias(N))]), bound)
