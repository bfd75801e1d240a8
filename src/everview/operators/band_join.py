"""Band join: a join without an equality, on a range of a column of the right side, or on time alone.

    lower <= r.x <= upper          (one of the bounds may be missing, each may be strict)

The bounds are columns of the left side. The state of the right side is sorted by x, that of the left side by
a bound: the matches of a row are adjacent and found by binary search. Without a band every pair that overlaps
in time matches; then a state is sorted by the ends of its rows. For pairs of new rows, the candidates are
found by the band or by time, whichever gives fewer.

Candidate pairs are tested a chunk at a time: memory holds one chunk and the output.
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
    join_input_columns,
    sides_to_read,
)
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    Slice,
    State,
    name_by_position,
    name_right_columns,
    stack_frames,
)
from everview.operators.columnar.hashing import Ints, has_fixed_codes, to_ordered_codes
from everview.operators.columnar.keys import expand_ranges, sort_by_key, sorted_stretches
from everview.operators.columnar.lazy import np
from everview.operators.columnar.pairs import drop_null_rows, pair_rows
from everview.operators.columnar.timeline import Bools

_CHUNK = 1 << 20


@dataclass(frozen=True)
class JoinBand:
    """lower <= column <= upper: a column of the right side, bounds of the left side, all of one type."""

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

    State: both inputs. The left rows may be in any partition, the right rows are in every partition.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> join = BandJoinOperator(ScanOperator("s", (INT, INT)), ScanOperator("r", (INT,)), 0, 0, 1)
    >>> left = make_frame({"c0": [1], "c1": [3]}, [(0, 9, 1)])
    >>> right = make_frame({"c0": [3, 4]}, [(5, 20, 2), (0, 9, 1)])
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
        return join_input_columns(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(len(self.left.types)))

    def is_broadcast(self, number: int) -> bool:
        return number == 1

    @property
    def state(self) -> tuple[StatePart, ...]:
        return StatePart.of("left", self.rows_of(0)), StatePart.of("right", self.rows_of(1))

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": name_right_columns(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        lower, upper = (None if i is None else column(i) for i in (self.lower, self.upper))
        band = JoinBand(f"r{self.column}", lower, upper, self.lower_strict, self.upper_strict)
        found = band_join((new[0], name_right_columns(new[1])), state, band)
        return Increment(name_by_position(found.output), found.added)


@dataclass(frozen=True)
class _Side:
    """Rows of one side, with some columns as integers in the order of their values."""

    frame: Frame
    codes: dict[str, Ints]


@dataclass(frozen=True)
class _Ranges:
    """For each row of one side the range [low, high) of candidates of the other side.

    The range refers to positions in `order`, or to rows if that is None. `sure` says that all of them match.
    """

    low: Ints
    high: Ints
    order: Ints | None
    from_left: bool
    sure: bool

    @property
    def size(self) -> int:
        return int((self.high - self.low).sum())

    def chunks(self, limit: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the pairs, as rows of the left and of the right side, about `limit` at a time."""
        if not self.size:
            return
        total = np.cumsum(self.high - self.low)
        cuts = np.searchsorted(total, np.arange(limit, self.size, limit), side="right")
        edges = np.unique(np.concatenate([[0], cuts, [len(total)]]))
        for begin, end in pairwise(edges.tolist()):
            found, which = expand_ranges(self.low[begin:end], self.high[begin:end])
            rows = found if self.order is None else self.order[found]
            yield (which + begin, rows) if self.from_left else (rows, which + begin)


def band_join(
    new: tuple[Frame, Frame], state: State, band: JoinBand | None = None, chunk: int = _CHUNK
) -> Increment:
    """Return the new pairs, and the new rows for the state; without a band all that overlap in time match."""
    if band is not None:
        new = drop_null_rows(new[0], band.bounds), drop_null_rows(new[1], [band.column])
    lefts, rights = _sides((state["left"], new[0]), (state["right"], new[1]), band)
    searches = [
        (lefts[0], rights[1], _match_right(lefts[0], rights[1], band)),
        (lefts[1], rights[0], _match_left(lefts[1], rights[0], band)),
        (lefts[1], rights[1], _match_new(lefts[1], rights[1], band)),
    ]
    none = np.zeros(0, dtype=np.int64)
    pairs = [pair_rows(new[0], none, new[1], none)]
    for left, right, found in searches:
        for ranges in found:
            for rows in ranges.chunks(chunk):
                pairs.append(_pair_matching(left, right, *rows, None if ranges.sure else band))
    return Increment(
        stack_frames(pairs),
        {"left": _sort_for_state(lefts[1], band), "right": _sort_for_state(rights[1], band)},
    )


def _sides(
    left: tuple[Frame, Frame], right: tuple[Frame, Frame], band: JoinBand | None
) -> tuple[list[_Side], list[_Side]]:
    """Return the old and the new rows of both sides, with comparable codes."""
    if band is None:
        return [_Side(f, {}) for f in left], [_Side(f, {}) for f in right]
    columns = [[f[b] for b in band.bounds] for f in left] + [[f[band.column]] for f in right]
    codes = iter(to_ordered_codes([series for group in columns for series in group]))
    coded = [dict(zip([s.name for s in group], codes, strict=False)) for group in columns]
    return (
        [_Side(f, c) for f, c in zip(left, coded[:2], strict=True)],
        [_Side(f, c) for f, c in zip(right, coded[2:], strict=True)],
    )


def _sort_for_state(side: _Side, band: JoinBand | None) -> Frame:
    """Return new rows for the state, sorted for the search."""
    if band is None:
        return sort_by_key(side.frame, [], side.frame[UNTIL].to_numpy())
    column, codes = next(iter(side.codes.items()))
    # Codes that are ranks are valid in this step only.
    return sort_by_key(side.frame, [], codes) if has_fixed_codes(side.frame.schema[column]) else side.frame


def _pair_matching(left: _Side, right: _Side, here: Ints, there: Ints, band: JoinBand | None) -> Frame:
    """Return the pairs that match."""
    if band is not None:
        kept = np.flatnonzero(_is_in_band(left, right, here, there, band))
        here, there = here[kept], there[kept]
    return pair_rows(left.frame, here, right.frame, there)


def _is_in_band(left: _Side, right: _Side, here: Ints, there: Ints, band: JoinBand) -> Bools:
    values = right.codes[band.column][there]
    inside = np.ones(len(values), dtype=bool)
    if band.lower is not None:
        lower = left.codes[band.lower][here]
        inside &= lower < values if band.lower_strict else lower <= values
    if band.upper is not None:
        upper = left.codes[band.upper][here]
        inside &= values < upper if band.upper_strict else values <= upper
    return inside


def _match_left(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """Return for each left row the right rows that match it."""
    if band is None:
        return _match_unended(left.frame, right.frame, from_left=True)
    found = []
    for stretch, order in sorted_stretches(right.codes[band.column]):
        size = left.frame.height
        low, high = np.zeros(size, dtype=np.int64), np.full(size, len(stretch))
        if band.lower is not None:
            low = np.searchsorted(stretch, left.codes[band.lower], "right" if band.lower_strict else "left")
        if band.upper is not None:
            high = np.searchsorted(stretch, left.codes[band.upper], "left" if band.upper_strict else "right")
        found.append(_Ranges(low, np.maximum(low, high), order, from_left=True, sure=True))
    return found


def _match_right(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """Return for each right row the candidates on the left, or the reverse if that gives fewer."""
    if band is None:
        return _match_unended(right.frame, left.frame, from_left=False)
    values = right.codes[band.column]
    found = []
    for stretch, order in sorted_stretches(left.codes[band.bounds[0]]):
        low, high = np.zeros(len(values), dtype=np.int64), np.full(len(values), len(stretch))
        if band.lower is not None:
            high = np.searchsorted(stretch, values, "left" if band.lower_strict else "right")
            if band.upper is not None:
                # A band that begins earlier than the greatest width before the value ends before it.
                low = np.searchsorted(stretch, _subtract_clipped(values, _widest(left, band)))
        else:
            low = np.searchsorted(stretch, values, "right" if band.upper_strict else "left")
        sure = len(band.bounds) == 1
        found.append(_Ranges(low, np.maximum(low, high), order, from_left=False, sure=sure))
    if len(band.bounds) == 2 and _count_pairs(found) > left.frame.height:
        return _match_left(left, right, band)
    return found


def _widest(left: _Side, band: JoinBand) -> int:
    lower, upper = (left.codes[b] for b in band.bounds)
    proper = lower <= upper
    widths = upper[proper].view(np.uint64) - lower[proper].view(np.uint64)
    return int(widths.max(initial=np.uint64(0)))


def _subtract_clipped(values: Ints, by: int) -> Ints:
    """Return integers minus a number, clipped to the least integer."""
    lift, off = np.uint64(1 << 63), np.uint64(by)
    up = values.view(np.uint64) ^ lift
    return (np.where(up > off, up - off, np.uint64(0)) ^ lift).view(np.int64)


def _match_unended(new: Frame, old: Frame, from_left: bool) -> list[_Ranges]:
    """Return for each new row the old rows that have not ended when it begins."""
    since, found = new[FROM].to_numpy(), []
    for stretch, order in sorted_stretches(old[UNTIL].to_numpy()):
        low = np.searchsorted(stretch, since, side="right")
        found.append(_Ranges(low, np.full(len(low), len(stretch)), order, from_left, sure=True))
    return found


def _match_new(left: _Side, right: _Side, band: JoinBand | None) -> list[_Ranges]:
    """Return the candidate pairs of new rows, found by the band or by time, whichever gives fewer."""
    by_time = [
        _match_begins(left.frame, right.frame, from_left=True, sure=band is None),
        _match_begins(right.frame, left.frame, from_left=False, sure=band is None),
    ]
    if band is None:
        return by_time
    by_band = _match_left(left, right, band)
    return by_band if _count_pairs(by_band) <= _count_pairs(by_time) else by_time


def _match_begins(frame: Frame, other: Frame, from_left: bool, sure: bool) -> _Ranges:
    """Return for each row the rows of the other side that begin during it; equal begins count once."""
    begins = other[FROM].to_numpy()
    order = np.argsort(begins)
    low = np.searchsorted(begins[order], frame[FROM].to_numpy(), "left" if from_left else "right")
    high = np.searchsorted(begins[order], frame[UNTIL].to_numpy())
    return _Ranges(low, np.maximum(low, high), order, from_left, sure)


def _count_pairs(found: Sequence[_Ranges]) -> int:
    return sum(ranges.size for ranges in found)
