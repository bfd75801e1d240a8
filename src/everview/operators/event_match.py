"""Match: the pairs of rows of an event query with equal keys and times within bands (paper 3, def. 8).

A pair goes out as soon as both rows are there. New pairs are ΔL×R, L×ΔR and ΔL×ΔR. A row is kept until no
partner of it can come any more: each side has its own wait, by a time in its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY, LEAST
from everview.operators.base import (
    InputColumns,
    Operator,
    StatePart,
    join_input_columns,
    join_key,
    sides_to_read,
)
from everview.operators.columnar.frame import (
    BEFORE_ALL,
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    name_right_columns,
    record_columns,
    stack_frames,
    sum_repeated,
)
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.time_bands import (
    BandSide,
    TimeBand,
    match_in_bands,
    sort_by_key_and_time,
    to_micros,
)
from everview.operators.event_operator import EventOperator, EventWait
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class MatchOperator(EventOperator):
    """Pairs with equal keys within all bands: the left columns, then the right ones.

    State: both inputs, while they wait. Without keys the right input goes to every partition.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s, r = ScanOperator("s", (INT, TIMESTAMP)), ScanOperator("r", (INT, TIMESTAMP))
    >>> wait, band = EventWait(1, Clock()), TimeBand(1, 1, 0, 3)
    >>> match = MatchOperator(s, r, (0,), (0,), False, wait, wait, (band,))
    >>> left = make_frame({"c0": [1], "c1": [5]}, [(0, 9, 1)])
    >>> right = make_frame({"c0": [1, 1, 2], "c1": [7, 9, 8]}, [(0, 9, 2), (0, 9, 1), (0, 9, 1)])
    >>> step = match.increment([left, right], match.empty_state([left, right]), Slice(0, 0))
    >>> step.output.drop("_from", "_until").rows(), step.added["right"]["_until"].to_list()
    ([(1, 5, 1, 7, 2)], [7, 9, 8])
    """

    left: Operator
    right: Operator
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool
    left_wait: EventWait
    right_wait: EventWait
    bands: tuple[TimeBand, ...] = ()

    def __post_init__(self) -> None:
        self._set_types(self.left.types + self.right.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return join_input_columns(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return join_key(self.left_keys, self.right_keys, len(self.left.types))

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return {"left": self.left_wait, "right": self.right_wait}

    @property
    def clock(self) -> Clock | None:
        return Clock()  # no row is held back

    @property
    def state(self) -> tuple[StatePart, ...]:
        parts = self.event_part("left", "left input", 0), self.event_part("right", "right input", 1)
        return tuple(part for part in parts if not self.waits[part.name].is_over_at_once)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": name_right_columns(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def ends_to_read(self, part: str, new: Sequence[Frame]) -> tuple[int, int]:
        """Return the times that rows of a side can have within the bands; `_until` is one of their times.

        A row whose wait is over matches no new row: it may be read.
        """
        of_left = part == "left"
        wait, rows = (self.left_wait, new[1]) if of_left else (self.right_wait, new[0])
        first, last = [BEFORE_ALL], [INFINITY]
        for band in self.bands:
            column, other = (band.left, band.right) if of_left else (band.right, band.left)
            known = rows[f"c{other}"].drop_nulls()
            if column == wait.column and wait.clock is not None and len(known):
                low, high = band.reach(from_left=not of_left)
                times = to_micros(known)
                first += [] if low is None else [int(times.min()) + low - 1]
                last += [] if high is None else [int(times.max()) + high]
        return max(first), min(last)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        left_side, right_side = self._side("left"), self._side("right")
        left = left_side.prepare(new[0], self.nulls_equal)
        right = right_side.prepare(name_right_columns(new[1]), self.nulls_equal)
        pairs = []
        for here, there in ((state["left"], right), (left, right)):
            rows, which = match_in_bands(here, left_side, there, right_side)
            pairs.append(_pair(here, rows, there, which))
        rows, which = match_in_bands(state["right"], right_side, left, left_side)
        pairs.append(_pair(left, which, state["right"], rows))
        waits = self.left_wait.until("c"), self.right_wait.until("r")
        kept = [
            side.with_columns(pl.lit(LEAST, pl.Int64).alias(FROM), until.alias(UNTIL))
            for side, until in zip((left, right), waits, strict=True)
        ]
        return Increment(stack_frames(pairs), {"left": kept[0], "right": kept[1]})

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        """Sum copies, and sort by the key and by time."""
        side = self._side(part)
        return sort_by_key_and_time(sum_repeated(rows), side.keys, side.times)

    def _side(self, part: str) -> BandSide:
        """Return the columns of a side by which rows match."""
        if part == "left":
            keys, times = [f"c{i}" for i in self.left_keys], [f"c{band.left}" for band in self.bands]
        else:
            keys, times = [f"r{i}" for i in self.right_keys], [f"r{band.right}" for band in self.bands]
        return BandSide(part == "left", keys, times, self.bands)


def _pair(left: Frame, left_rows: Ints, right: Frame, right_rows: Ints) -> Frame:
    """Return pairs of rows as an operator emits them: without an interval."""
    here, there = (
        left[[*record_columns(left), N]][left_rows].get_columns(),
        right[[*record_columns(right), N]][right_rows].get_columns(),
    )
    size = len(left_rows)
    records = [values.alias(f"c{i}") for i, values in enumerate([*here[:-1], *there[:-1]])]
    change = {FROM: np.full(size, LEAST), UNTIL: np.full(size, INFINITY)}
    copies = (here[-1] * there[-1]).alias(N)
    return pl.DataFrame([*records, *(pl.Series(n, v) for n, v in change.items()), copies])
