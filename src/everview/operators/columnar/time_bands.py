"""Bands of times between two sides: of the pairs with equal keys only those within the bands are made.

A band compares numbers, so no expression is evaluated. The rows of a state are sorted by the hash of their
key and then by their time in the first band (`sort_by_key_and_time`): of a key with many rows, those within
the band are found by binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from everview.operators.columnar.frame import HASH, Frame
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.keys import expand_ranges, key_hashes, match_keys, sorted_stretches
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.pairs import drop_null_rows

_LEAST, _GREATEST = -(2**63), 2**63 - 1  # of 64-bit integers


@dataclass(frozen=True)
class TimeBand:
    """low <= right − left <= high: the microseconds between a time of the left side and one of the right.

    Columns go by position; None: there is no such end. SQL adds numbers to the times before it compares them,
    and a sum that has no 64 bits is NULL: then a row matches nothing.

    >>> TimeBand(0, 0)
    Traceback (most recent call last):
    TypeError: a band has an end
    """

    left: int
    right: int
    low: int | None = None
    high: int | None = None
    left_added: tuple[int, ...] = ()
    right_added: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise TypeError("a band has an end")

    def reach(self, from_left: bool) -> tuple[int | None, int | None]:
        """Return how much later a partner is than a row of one side, at least and at most."""
        if from_left:
            return self.low, self.high
        return (None if self.high is None else -self.high), (None if self.low is None else -self.low)


@dataclass(frozen=True)
class BandSide:
    """The columns of one side: its keys, and its time in each band."""

    is_left: bool
    keys: Sequence[str]
    times: Sequence[str]
    bands: Sequence[TimeBand]

    def prepare(self, rows: Frame, nulls_equal: bool) -> Frame:
        """Return the new rows that can match any, sorted for the state."""
        rows = drop_null_rows(
            rows.drop(HASH, strict=False), [*(() if nulls_equal else self.keys), *self.times]
        )
        for band, name in zip(self.bands, self.times, strict=True):
            added = band.left_added if self.is_left else band.right_added
            rows = _drop_overflowing(rows, name, added) if added else rows
        return sort_by_key_and_time(rows, self.keys, self.times)

    def ranges(self, rows: Frame, number: int) -> tuple[Ints, Ints]:
        """Return the times of the other side that are within a band of each row: the first and the last."""
        low, high = self.bands[number].reach(self.is_left)
        times = to_micros(rows[self.times[number]])
        first = np.full(len(times), _LEAST) if low is None else add_clipped(times, low)
        return first, np.full(len(times), _GREATEST) if high is None else add_clipped(times, high)


def to_micros(times: pl.Series) -> Ints:
    """Return times as numbers of microseconds; there are no NULLs."""
    return times.to_physical().cast(pl.Int64).to_numpy()


def add_clipped(times: Ints, by: int) -> Ints:
    """Return the sums, clipped to the least and the greatest number.

    >>> add_clipped(np.array([2**63 - 3, 5]), 7).tolist() == [2**63 - 1, 12]
    True
    >>> add_clipped(np.array([-4, 4]), -(2**63)).tolist() == [-(2**63), 4 - 2**63]
    True
    """
    fitting = np.minimum(times, _GREATEST - by) if by >= 0 else np.maximum(times, _LEAST - by)
    return (fitting.view(np.uint64) + np.uint64(by % 2**64)).view(np.int64)


def _drop_overflowing(rows: Frame, name: str, added: Sequence[int]) -> Frame:
    """Return the rows whose time has 64 bits still when any of these numbers is added."""
    times = to_micros(rows[name])
    first, last = _LEAST - min(0, *added), _GREATEST - max(0, *added)
    fitting = (first <= times) & (times <= last)
    return rows if fitting.all() else rows.filter(pl.Series(fitting))


def sort_by_key_and_time(rows: Frame, keys: Sequence[str], times: Sequence[str]) -> Frame:
    """Return rows sorted by the hash of their key, which they get, and then by the first time.

    Without a key the time is in the place of the hash.

    >>> rows = pl.DataFrame({"k": [9, 7, 9], "t": [3, 2, 1]})
    >>> sort_by_key_and_time(rows, ["k"], ["t"]).rows()
    [(7, 2, 7), (9, 1, 9), (9, 3, 9)]
    >>> sort_by_key_and_time(rows, [], ["t"])["_hash"].to_list()
    [1, 2, 3]
    """
    instants = to_micros(rows[times[0]]) if times else None
    numbers = key_hashes(rows, keys) if keys or instants is None else instants
    order = np.argsort(numbers, kind="stable")  # rows that mostly come in the order of time stay so
    sorted_numbers = numbers[order]
    if keys and instants is not None and not _is_in_order(sorted_numbers, instants[order]):
        order = np.lexsort((instants, numbers))
    return rows[order].with_columns(pl.Series(HASH, sorted_numbers))


def _is_in_order(hashes: Ints, times: Ints) -> bool:
    """Return whether the rows of each key are in the order of their times; they are sorted by key."""
    return not ((times[1:] < times[:-1]) & (hashes[1:] == hashes[:-1])).any()


def match_in_bands(
    state: Frame, state_side: BandSide, wanted: Frame, wanted_side: BandSide
) -> tuple[Ints, Ints]:
    """Return the rows of a state that match a wanted row, and that row: by the key and by all bands."""
    if state.is_empty() or wanted.is_empty():
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    if wanted_side.keys:
        within = _KeyedTimes(state, state_side, wanted, wanted_side) if wanted_side.bands else None
        numbers = wanted[HASH].to_numpy()
        rows, which = match_keys(state, state_side.keys, wanted, wanted_side.keys, numbers, within)
        checked = range(len(wanted_side.bands))
    elif not wanted_side.bands:
        return np.tile(np.arange(state.height), wanted.height), np.repeat(
            np.arange(wanted.height), state.height
        )
    else:
        rows, which = _match_times(state[state_side.times[0]], *wanted_side.ranges(wanted, 0))
        checked = range(1, len(wanted_side.bands))
    for number in checked:
        first, last = wanted_side.ranges(wanted, number)
        times = to_micros(state[state_side.times[number]][rows])
        inside = (first[which] <= times) & (times <= last[which])
        if not inside.all():
            rows, which = rows[inside], which[inside]
    return rows, which


def _match_times(times: pl.Series, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the rows whose time is in a range, and the number of that range."""
    found, offset = [], 0
    for chunk in times.get_chunks():
        for stretch, order in sorted_stretches(to_micros(chunk)):
            low = np.searchsorted(stretch, first)
            high = np.searchsorted(stretch, last, side="right")
            rows, which = expand_ranges(low, np.maximum(low, high))
            found.append(((rows if order is None else order[rows]) + offset, which))
        offset += len(chunk)
    rows, which = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, which


@dataclass(frozen=True)
class _KeyedTimes:
    """The search for times of the first band among the rows of a key."""

    state: Frame
    state_side: BandSide
    wanted: Frame
    wanted_side: BandSide

    @cached_property
    def _times(self) -> pl.Series:
        return self.state[self.state_side.times[0]]

    @cached_property
    def _ranges(self) -> tuple[Ints, Ints]:
        return self.wanted_side.ranges(self.wanted, 0)

    def narrow(
        self, hashes: Ints, places: slice | Ints, low: Ints, high: Ints, which: Ints
    ) -> tuple[Ints, Ints, Ints | None]:
        """Narrow the ranges [low, high) of equal hashes to the times within the band.

        `places` are the rows of the state in the order of `hashes`, `which` the wanted rows of the ranges. If
        the rows of a key are not in the order of time, their order is returned, too.
        """
        if (high - low).sum() <= len(hashes):
            return low, high, None  # to look at all rows of the keys takes no longer
        times = to_micros(self._times[places])
        order = None if _is_in_order(hashes, times) else np.lexsort((times, hashes))
        times = times if order is None else times[order]
        first, last = (part[which] for part in self._ranges)
        begin = search_ranges(times, low, high, first, after=False)
        return begin, search_ranges(times, begin, high, last, after=True), order


def search_ranges(values: Ints, low: Ints, high: Ints, wanted: Ints, after: bool) -> Ints:
    """Return in each range [low, high) of sorted values the place of a number, before or after its equals.

    >>> search_ranges(np.array([1, 4, 4, 2, 3]), np.array([0, 3]), np.array([3, 5]), np.array([4, 9]), False)
    array([1, 5])
    """
    low, high = low.copy(), high.copy()
    while (open_ := low < high).any():
        middle = np.minimum((low + high) >> 1, len(values) - 1)
        before = values[middle] <= wanted if after else values[middle] < wanted
        low, high = np.where(open_ & before, middle + 1, low), np.where(open_ & ~before, middle, high)
    return low
