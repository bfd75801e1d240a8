"""Rows of partitions in their order at many leaves: which rows a frame has, and values over them.

A frame is a stretch [low, high) of the rows of a leaf. Sums over it are differences of running sums, MIN and
MAX come from a sparse table, and FIRST_VALUE, LAG and the like are a row at a place. Values are compared by
codes (`CodedValues`), so that all types are handled as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.over import OverFrame
from everview.operators.columnar.frame import group_starts
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.standings import OrderedRecords, Reach, Standings, order_records
from everview.operators.columnar.timeline import Bools


@dataclass(frozen=True)
class PlacedRows:
    """The rows of all leaves in their order: leaf, source row, how often it counts.

    `starts` and `ends` are where the rows of its leaf begin and end, `first_peers` and `last_peers` where
    those with equal sort keys do.
    """

    leaves: Ints
    rows: Ints
    counts: Ints
    starts: Ints
    ends: Ints
    first_peers: Ints
    last_peers: Ints

    @classmethod
    def of(cls, places: Standings, records: OrderedRecords, which: Ints, counts: Ints) -> PlacedRows:
        """Return the pieces that hold at each leaf as rows: piece `which` counts so often."""
        leaves, codes = places.leaves[which], places.codes[which]
        another = group_starts(leaves)
        another_peer = another.copy()
        another_peer[1:] |= records.peers[codes][1:] != records.peers[codes][:-1]
        starts, ends = _stretches(another)
        return cls(leaves, records.rows[codes], counts, starts, ends, *_stretches(another_peer))

    def __len__(self) -> int:
        return len(self.rows)


def _stretches(begins: Bools) -> tuple[Ints, Ints]:
    """Return for each row where its stretch begins and where the next one does."""
    first = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    return first[number], np.append(first[1:], len(begins))[number]


@dataclass(frozen=True)
class DistanceKey:
    """The sort key of each source row as an integer that grows in the order of rows; `nulls` have none."""

    values: Ints
    nulls: Bools
    nulls_first: bool

    @classmethod
    def of(cls, values: pl.Series, descending: bool, nulls_first: bool) -> DistanceKey:
        whole = values.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
        return cls(~whole if descending else whole, values.is_null().to_numpy(), nulls_first)


def frame_stretches(frame: OverFrame, placed: PlacedRows, key: DistanceKey | None) -> tuple[Ints, Ints]:
    """Return the stretch [low, high) of rows that the frame of each row has; it may be empty."""
    if frame.unit == "ROWS":
        places = np.arange(len(placed))
        low = placed.starts if frame.start is None else _shift(places, frame.start, placed)
        high = placed.ends if frame.end is None else _shift(places, frame.end + 1, placed)
        return low, np.maximum(low, high)
    near = None if key is None or not frame.by_distance else _Distances(placed, key)
    low, high = placed.first_peers, placed.last_peers
    if frame.start is None:
        low = placed.starts
    elif frame.start and near is not None:
        low = near.find(frame.start, behind=False)
    if frame.end is None:
        high = placed.ends
    elif frame.end and near is not None:
        high = near.find(frame.end, behind=True)
    return low, np.maximum(low, high)


def _shift(places: Ints, by: int, placed: PlacedRows) -> Ints:
    by = min(max(by, -len(places) - 1), len(places) + 1)
    return np.clip(places + by, placed.starts, placed.ends)


class _Distances:
    """Finds rows by the distance of their sort keys, at all leaves at once."""

    def __init__(self, placed: PlacedRows, key: DistanceKey) -> None:
        self._placed = placed
        self._values, self._nulls = key.values[placed.rows], key.nulls[placed.rows]
        self._known = np.unique(self._values[~self._nulls])
        places = np.searchsorted(self._known, self._values) + 1
        places[self._nulls] = 0 if key.nulls_first else len(self._known) + 1
        self._span = len(self._known) + 2
        self._lines = placed.leaves * self._span + places

    def find(self, distance: int, behind: bool) -> Ints:
        """Return the first row at or behind a distance from each row, or the first `behind` it."""
        bounds = self._values + distance
        wanted = np.searchsorted(self._known, bounds, side="right" if behind else "left")
        # A bound beyond the integers lies before or behind all keys.
        overflow = bounds > self._values if distance < 0 else bounds < self._values
        wanted[overflow] = 0 if distance < 0 else len(self._known)
        found = np.searchsorted(self._lines, self._placed.leaves * self._span + wanted + 1)
        return np.where(self._nulls, self._placed.last_peers if behind else self._placed.first_peers, found)


def reach_of_frames(
    rows: int, distance: int | None, records: OrderedRecords, key: DistanceKey | None
) -> Reach:
    """Return how far a change matters to frames of so many rows, and of a distance of the sort key.

    A distance of 0 are the peers, None is no distance.
    """
    if distance is None:
        return Reach(rows)
    peers = _stretches(group_starts(records.peers))
    if not distance or key is None:
        return Reach(rows, *peers)
    ones = np.ones(len(records.rows), dtype=np.int64)
    near = _Distances(
        PlacedRows(records.parts, records.rows, ones, *_stretches(group_starts(records.parts)), *peers), key
    )
    return Reach(rows, near.find(-distance, behind=False), near.find(distance, behind=True))


@dataclass(frozen=True)
class CodedValues:
    """Values as integers in their order; equal values have one code, and NULL has 0.

    >>> coded = CodedValues.of([pl.Series([2.5, None, -1.0]), pl.Series([2.5])])
    >>> coded.codes.tolist(), coded.values.to_list()
    ([2, 0, 1, 2], [None, -1.0, 2.5])
    """

    codes: Ints
    values: pl.Series

    @classmethod
    def of(cls, columns: Sequence[pl.Series]) -> CodedValues:
        """Return the codes of columns of one type, one column behind the other."""
        null = pl.Series([None], dtype=columns[0].dtype)
        whole = pl.concat([*(c.alias("v") for c in columns), null.alias("v")])
        one = np.zeros(len(whole), dtype=np.int64)
        found = order_records(whole.to_frame("v"), one, [("v", False, True)], [])
        return cls(found.codes[:-1], whole.gather(pl.Series(found.rows)))


def places_from(present: Bools, begins: Ints, offset: int) -> Ints:
    """Return the place of the value number `offset`, from 0 on, at or behind each begin; the end if none is.

    A negative offset counts from the last value before the begin; -1 if there is none. Only rows that are
    `present` count.
    """
    known = np.flatnonzero(present)
    wanted = np.searchsorted(known, begins) + min(max(offset, -len(present) - 1), len(present) + 1)
    padded = np.concatenate([[-1], known, [len(present)]])
    return padded[np.clip(wanted + 1, 0, len(padded) - 1)]


def greatest_in_stretches(values: Ints, low: Ints, high: Ints) -> Ints:
    """Return the greatest value of each stretch [low, high), 0 for an empty one; values are not negative.

    >>> greatest_in_stretches(np.array([3, 1, 2]), np.array([0, 1, 1]), np.array([3, 3, 1])).tolist()
    [3, 2, 0]
    """
    found = np.zeros(len(low), dtype=np.int64)
    levels = np.frexp((high - low).astype(np.float64))[1] - 1
    table = values
    for level in range(int(levels.max(initial=-1)) + 1):
        width = 1 << level
        here = np.flatnonzero(levels == level)
        found[here] = np.maximum(table[low[here]], table[high[here] - width])
        table = np.maximum(table[:-width], table[width:])
    return found
