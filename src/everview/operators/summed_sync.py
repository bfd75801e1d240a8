"""SYNC EVERY over rows that may be retracted: what waits for a point is summed (paper 5, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY, LEAST, Grid
from everview.operators.base import Operator, StatefulOperator, StatePart
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

_END = "_end"


@dataclass(frozen=True, eq=False)
class SummedSyncOperator(StatefulOperator):
    """As SYNC EVERY, but rows are emitted when the bound reaches the point at which they begin.

    Until then rows of equal record and end are summed: of the updates of a key between two points the last
    one is left, and the retraction of the row before the first, however short the steps are. With
    `one_partition`, its rows are in one already, and stay there. State: the rows that wait, each until its
    point; `_end` is where it ends then.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> sync = SummedSyncOperator(ScanOperator("s", (INT,)), Grid(10))
    >>> rows = make_frame({"c0": [1, 1, 2]}, [(1, INFINITY, 1), (4, INFINITY, -1), (4, INFINITY, 1)])
    >>> step = sync.increment([rows], sync.empty_state([rows]), Slice(0, 8))
    >>> step.output.rows(), [(v, at, n) for v, _, _, at, n in step.added["waiting"].rows()]
    ([], [(2, 10, 1)])
    >>> sync.increment([rows.clear()], step.added, Slice(8, 12)).output.rows()
    [(2, 10, 9223372036854775807, 1)]
    """

    input: Operator
    grid: Grid
    one_partition: bool = False

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return () if self.one_partition else super().keys

    @property
    def state(self) -> tuple[StatePart, ...]:
        text = "changes that wait for a point"
        return (StatePart("waiting", text, self.grid.step, until="until the next point", queue=True, fan=2),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"waiting": _wait(new[0].clear())}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        columns = new[0].columns
        moved = new[0].with_columns(
            pl.Series(FROM, next_points(self.grid, new[0][FROM].to_numpy())),
            pl.Series(UNTIL, next_points(self.grid, new[0][UNTIL].to_numpy())),
        )
        moved = moved.filter(pl.col(FROM) < pl.col(UNTIL))
        waited = state["waiting"].filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))
        due = waited.with_columns(pl.col(UNTIL).alias(FROM), pl.col(_END).alias(UNTIL)).select(columns)
        output = consolidate_frame(stack_frames([due, moved.filter(pl.col(FROM) <= slice_.b1)]))
        later = consolidate_frame(_wait(moved.filter(pl.col(FROM) > slice_.b1)))
        return Increment(output, {"waiting": later})

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return consolidate_frame(rows)


def _wait(rows: Frame) -> Frame:
    """Return rows as they wait: alive until their point, with their end beside the record."""
    record = [c for c in rows.columns if c not in (FROM, UNTIL, N)]
    return rows.select(
        *record, pl.col(UNTIL).alias(_END), pl.lit(0, pl.Int64).alias(FROM), pl.col(FROM).alias(UNTIL), N
    )


def next_points(grid: Grid, times: np.ndarray) -> np.ndarray:
    """Return for each instant the first grid point at or after it; the ends of time stay."""
    apart = np.mod(grid.origin - np.where(times == LEAST, 0, times), grid.step)
    reached = np.where(apart > INFINITY - np.maximum(times, 0), INFINITY, times + apart)
    return np.where((times == INFINITY) | (times == LEAST), times, reached)
