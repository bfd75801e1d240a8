"""Band join: a join without an equality, on a range of a column of the right side, or on time alone.

    lower <= r.x <= upper          (one of the bounds may be missing, each may be strict)

The bounds are columns of the left side. The state of the right side is sorted by x, that of the left side by
a bound: the partners of a row lie side by side, and binary search finds where. Without a band every pair
that overlaps in time matches; then a state is sorted by the ends of its rows. Where new rows meet new rows,
the band or the time decides which pairs are tried, whichever leaves fewer.

Pairs are tried a chunk at a time: no more is in memory than a chunk, and what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from everview.operators.base import (
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
    side_by_side,
    sides_to_read,
)
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    Slice,
    State,
    by_position,
    on_the_right,
    stacked,
)
from everview.operators.columnar.hashing import Ints, has_own_order, ordered_numbers
from everview.operators.columnar.keys import arranged, spread, stretches
from everview.operators.columnar.lazy import np
from everview.operators.columnar.pairs import paired, without_nulls
from everview.operators.columnar.timeline import Bools

_CHUNK = 1 << 20


@dataclass(frozen=True)
class JoinBand:
    """lower <= column <= upper: the column of the right side, the bounds of the left; all of one type."""

    column: str
    lower: str | None = None
    upper: str | None = None
    lower_strict: bool = False
    upper_strict: bool = False

    def __post_init__(self) -> None:
        if not self.bounds:
            raise TypeError("a band has a bound")

    @property
    def bounds(self) -> list[str]:
        return [b for b in (self.lower, self.upper) if b is not None]


@dataclass(frozen=True, eq=False)
class BandJoinOperator(StatefulOperator):
    """Pairs in which a column of the right side lies between two columns of the left side, or beyond one.

    State: both inputs. The left rows may lie in any partition, the right ones go to every partition.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import changes
    >>> from everview.operators.scan import ScanOperator
    >>> join = BandJoinOperator(ScanOperator("s", (INT, INT)), ScanOperator("r", (INT,)), 0, 0, 1)
    >>> left = changes({"c0": [1], "c1": [3]}, [(0, 9, 1)])
    >>> right = changes({"c0": [3, 4]}, [(5, 20, 2), (0, 9, 1)])
    >>> join.increment([left, right], join.empty_state([left, right]), Slice(-1, 9)).output.rows()
    [(1, 3, 3, 5, 9, 2)]
    """

    left: Operator
    right: Operator
    column: int
    lower: int | None
    upper: int | None
    lower_strict: bool = False
    upper_strict: bool = False

    def __post_init__(self) -> None:
        self._set_types(self.left.types + self.right.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return side_by_side(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(len(self.left.types)))

    def is_broadcast(self, number: int) -> bool:
        return number == 1

    @property
    def state(self) -> tuple[StatePart, ...]:
        return StatePart.of("left", self.rows_of(0)), StatePart.of("right", self.rows_of(1))

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": on_the_right(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        lower, upper = (None if i is None else column(i) for i in (self.lower, self.upper))
        band = JoinBand(f"r{self.column}", lower, upper, self.lower_strict, self.upper_strict)
        found = band_join((new[0], on_the_right(new[1])), state, band)
        return Increment(by_position(found.output), found.added)


@dataclass(frozen=True)
class _Side:
    """Rows of one side, with integers in the order of the values of some columns."""

    frame: Frame
    codes: dict[str, Ints]


@dataclass(frozen=True)
class _Ranges:
    """For each row of one side the stretch [low, high) of the other that may match it.

    The rows of the stretch are at `places`, or just there. `sure` says that all of them match.
    """

    low: Ints
    high: Ints
    places: Ints | None
    from_left: bool
    sure: bool

    @property
    def size(self) -> int:
        return int((self.high - self.low).sum())

    def chunks(self, limit: int) -> Iterator[tuple[Ints, Ints]]:
        """The pairs, rows of the left side and rows of the right one, about `limit` at a time."""
        if not self.size:
            return
        total = np.cumsum(self.high - self.low)
        cuts = np.searchsorted(total, np.arange(limit, self.size, limit), side="right")
        edges = np.unique(np.concatenate([[0], cuts, [len(total)]]))
        for begin, end in pairwise(edges.tolist()):
            found, which = spread(self.low[begin:end], self.high[begin:end])
            rows = found if self.places is None else self.places[found]
            yield (which + begin, rows) if self.from_left else (rows, which + begin)


def band_join(
    new: tuple[Frame, Frame], state: State, band: JoinBand | None = None, chunk: int = _CHUNK
) -> Increment:
    """Return the new pairs, and the new rows for the state; without a band all that overlap in time match."""
    if band is not None:
        new = without_nulls(new[0], band.bounds), without_nulls(new[1], [band.column])
    lefts, rights = _sides((state["left"], new[0]), (state["right"], new[1]), band)
    searches = [
        (lefts[0], rights[1], _holding(lefts[0], rights[1], band)),
        (lefts[1], rights[0], _held(lefts[1], rights[0], band)),
        (lefts[1], rights[1], _among_new(lefts[1], rights[1], band)),
    ]
    none = np.zeros(0, dtype=np.int64)
    pairs = [paired(new[0], none, new[1], none)]
    for left, right, found in searches:
        for ranges in found:
            for rows in ranges.chunks(chunk):
                pairs.append(_matching(left, right, *rows, None if ranges.sure else band))
    return Increment(stacked(pairs), {"left": _sorted(lefts[1], band), "right": _sorted(rights[1], band)})


def _sides(
    left: tuple[Frame, Frame], right: tuple[Frame, Frame], band: JoinBand | None
) -> tuple[list[_Side], list[_Side]]:
    """The old and the new rows of both sides, with codes that can be compared."""
    if band is None:
        return [_Side(f, {}) for f in left], [_Side(f, {}) for f in right]
    columns = [[f[b] for b in band.bounds] for f in left] + [[f[band.column]] for f in right]
    codes = iter(ordered_numbers([series for group in columns for series in group]))
    coded = [dict(zip([s.name for s in group], codes, strict=False)) for group in columns]
    return (
        [_Side(f, c) for f, c in zip(left, coded[:2], strict=True)],
        [_Side(f, c) for f, c in zip(right, coded[2:], strict=True)],
    )


def _sorted(side: _Side, band: JoinBand | None) -> Frame:
    """New rows as they go into the state, in the order in which they will be searched."""
    if band is None:
        return arranged(side.frame, [], side.frame[UNTIL].to_numpy())
    column, codes = next(iter(side.codes.items()))
    # Ranks are those of this step only.
    return arranged(side.frame, [], codes) if has_own_order(side.frame.schema[column]) else side.frame


def _matching(left: _Side, right: _Side, here: Ints, there: Ints, band: JoinBand | None) -> Frame:
    """Of some pairs those that match."""
    if band is not None:
        kept = np.flatnonzero(_within(left, right, here, there, band))
        here, there = here[kept], there[kept]
    return paired(left.frame, here, right.frame, there)


def _within(left: _Side, right: _Side, here: Ints, there: Ints, band: JoinBand) -> Bools:
    values = right.codes[band.column][there]
    inside = np.ones(len(values), dtype=bool)
    if band.lower is not None:
        lower = left.codes[band.lower][here]
        inside &= lower < values if band.lower_strict else lower <= values
    if band.upper is not None:
        upper = left.codes[band.upper][here]
        inside &= values < upper if band.upper_strict else values <= upper
    return inside


def _held(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """For each left row the right ones that match it."""
    if band is None:
        return _still_there(left.frame, right.frame, from_left=True)
    found = []
    for stretch, places in stretches(right.codes[band.column]):
        size = left.frame.height
        low, high = np.zeros(size, dtype=np.int64), np.full(size, len(stretch))
        if band.lower is not None:
            low = np.searchsorted(stretch, left.codes[band.lower], "right" if band.lower_strict else "left")
        if band.upper is not None:
            high = np.searchsorted(stretch, left.codes[band.upper], "left" if band.upper_strict else "right")
        found.append(_Ranges(low, np.maximum(low, high), places, from_left=True, sure=True))
    return found


def _holding(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """For each right row the left ones that match it; if that would be too many, the other way round."""
    if band is None:
        return _still_there(right.frame, left.frame, from_left=False)
    values = right.codes[band.column]
    found = []
    for stretch, places in stretches(left.codes[band.bounds[0]]):
        low, high = np.zeros(len(values), dtype=np.int64), np.full(len(values), len(stretch))
        if band.lower is not None:
            high = np.searchsorted(stretch, values, "left" if band.lower_strict else "right")
            if band.upper is not None:
                # No band is wider than the widest: what begins earlier has ended.
                low = np.searchsorted(stretch, _less(values, _widest(left, band)))
        else:
            low = np.searchsorted(stretch, values, "right" if band.upper_strict else "left")
        sure = len(band.bounds) == 1
        found.append(_Ranges(low, np.maximum(low, high), places, from_left=False, sure=sure))
    if len(band.bounds) == 2 and _size(found) > left.frame.height:
        return _held(left, right, band)
    return found


def _widest(left: _Side, band: JoinBand) -> int:
    lower, upper = (left.codes[b] for b in band.bounds)
    proper = lower <= upper
    widths = upper[proper].view(np.uint64) - lower[proper].view(np.uint64)
    return int(widths.max(initial=np.uint64(0)))


def _less(values: Ints, by: int) -> Ints:
    """Integers less a number, and not below the least one."""
    lift, off = np.uint64(1 << 63), np.uint64(by)
    up = values.view(np.uint64) ^ lift
    return (np.where(up > off, up - off, np.uint64(0)) ^ lift).view(np.int64)


def _still_there(new: Frame, old: Frame, from_left: bool) -> list[_Ranges]:
    """For each new row the old ones that have not ended when it begins."""
    since, found = new[FROM].to_numpy(), []
    for stretch, places in stretches(old[UNTIL].to_numpy()):
        low = np.searchsorted(stretch, since, side="right")
        found.append(_Ranges(low, np.full(len(low), len(stretch)), places, from_left, sure=True))
    return found


def _among_new(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """The pairs of new rows to be tried: by the band or by the time, whichever leaves fewer."""
    by_time = [
        _beginning_within(left.frame, right.frame, from_left=True, sure=band is None),
        _beginning_within(right.frame, left.frame, from_left=False, sure=band is None),
    ]
    if band is None:
        return by_time
    by_band = _held(left, right, band)
    return by_band if _size(by_band) <= _size(by_time) else by_time


def _beginning_within(frame: Frame, other: Frame, from_left: bool, sure: bool) -> _Ranges:
    """For each row the rows of the other side that begin in it; what begins at once is counted once."""
    begins = other[FROM].to_numpy()
    order = np.argsort(begins)
    low = np.searchsorted(begins[order], frame[FROM].to_numpy(), "left" if from_left else "right")
    high = np.searchsorted(begins[order], frame[UNTIL].to_numpy())
    return _Ranges(low, np.maximum(low, high), order, from_left, sure)


def _size(found: Sequence[_Ranges]) -> int:
    return sum(ranges.size for ranges in found)
