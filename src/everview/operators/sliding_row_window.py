"""Row window that moves in steps: the latest rows of a stream, seen at every so many arrivals (paper 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.algebra.time import INFINITY
from everview.operators.base import Operator, StatefulOperator, StatePart, column
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    consolidate_frame,
    record_columns,
    stack_frames,
)
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.keys import sort_by_key
from everview.operators.columnar.latest import NEW, find_touched_rows, repeat_rows, state_change
from everview.operators.columnar.lazy import np, pl

_NUMBER = "_number"  # of a row of its partition, from 1


@dataclass(frozen=True, eq=False)
class SlidingRowWindowOperator(StatefulOperator):
    """[PARTITION BY … ROWS count SLIDE slide] over rows that never end and come in the order of `order`.

    The row of number j is seen when row ⌈j/slide⌉·slide arrives, until row ⌈(j+count)/slide⌉·slide does.
    State: the rows that are in the window, or will be, with their numbers: fewer than count + slide.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> pairs = SlidingRowWindowOperator(ScanOperator("s", (INT,)), 2, 2, (), (0,))
    >>> rows = make_frame({"c0": [1, 2, 3, 4]}, [(t, INFINITY, 1) for t in (1, 4, 6, 8)])
    >>> pairs.increment([rows], pairs.empty_state([rows]), Slice(0, 9)).output.rows()[:2]
    [(1, 4, 8, 1), (2, 4, 8, 1)]
    """

    input: Operator
    count: int
    slide: int
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
        return {"open": new[0].clear().with_columns(pl.lit(None, pl.Int64).alias(_NUMBER))}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        partition, order = ([column(i) for i in part] for part in (self.partition, self.order))
        columns = [*record_columns(new[0]), FROM, UNTIL, N]
        known = consolidate_frame(find_touched_rows(new[0], state["open"], partition)[[*columns, _NUMBER]])
        unnumbered = new[0][columns].with_columns(pl.lit(None, pl.Int64).alias(_NUMBER))
        rows = stack_frames([repeat_rows(known, False), repeat_rows(unnumbered, True)])
        rows = rows.sort([*partition, NEW, _NUMBER, *order], nulls_last=False, maintain_order=True)
        if rows.is_empty():
            return Increment(rows[columns], {})
        places = _Places.of(rows, partition)
        seen_at, gone_at = (
            -(-(places.numbers + more) // self.slide) * self.slide for more in (0, self.count)
        )
        begins, ends = (places.arrival(rows, numbers) for numbers in (seen_at, gone_at))
        known_seen = seen_at <= places.before
        output = stack_frames(
            [
                _with_times(rows, columns, known_seen & (gone_at <= places.after), ends, INFINITY, -1),
                _with_times(rows, columns, ~known_seen & (begins < ends), begins, ends, 1),
            ]
        )
        numbered = rows.with_columns(pl.Series(_NUMBER, places.numbers))[[*columns, _NUMBER]]
        still = numbered.filter(pl.Series(gone_at > places.after))
        return Increment(output, {"open": sort_by_key(state_change(known, still), partition)})


@dataclass(frozen=True)
class _Places:
    """The rows of each partition, one after the other: their numbers, and how many there were and are.

    Numbers within a partition are consecutive, so the row of a number is found by its distance.
    """

    numbers: Ints
    before: Ints
    after: Ints

    @classmethod
    def of(cls, rows: Frame, partition: Sequence[str]) -> _Places:
        height = rows.height
        is_first = np.zeros(height, bool)
        if partition:
            other = [pl.col(c).ne_missing(pl.col(c).shift(1)) for c in partition]
            is_first = rows.select(pl.any_horizontal(other)).to_series().to_numpy().copy()
        is_first[0] = True
        firsts = np.flatnonzero(is_first)
        sizes = np.diff(np.append(firsts, height))
        start = rows[_NUMBER].fill_null(1).to_numpy()[firsts]
        known = np.add.reduceat((~rows[NEW].to_numpy()).astype(np.int64), firsts)
        numbers = np.arange(height) - np.repeat(firsts - start, sizes)
        return cls(numbers, np.repeat(start + known - 1, sizes), np.repeat(start + sizes - 1, sizes))

    def arrival(self, rows: Frame, numbers: Ints) -> Ints:
        """Return when the row of a number of the same partition has come; ∞ if it has not."""
        came = numbers <= self.after
        place = np.arange(rows.height) + np.where(came, numbers - self.numbers, 0)
        return np.where(came, rows[FROM].to_numpy()[place], INFINITY)


def _with_times(
    rows: Frame, columns: Sequence[str], chosen: np.ndarray, begins: Ints, ends: Ints | int, n: int
) -> Frame:
    """Return some of the rows with other intervals."""
    until = np.broadcast_to(ends, begins.shape)
    times = (pl.Series(FROM, begins), pl.Series(UNTIL, until), pl.lit(n, pl.Int64).alias(N))
    return rows.with_columns(*times)[list(columns)].filter(pl.Series(chosen))
