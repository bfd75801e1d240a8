"""Rows by their key, found without reading the other rows.

The rows of a state are sorted by the hash of their key (`hashing.py`), which has a column of its own:
`sort_by_key`. The rows of a few thousand keys are then found by binary search, and only these are read
(differential dataflow calls such an index an arrangement). A state that consists of several runs is sorted
in stretches; each is searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from everview.operators.columnar.frame import HASH, Frame, comparable_form, group_starts, number_keys
from everview.operators.columnar.hashing import Ints, has_exact_hash, hash_keys
from everview.operators.columnar.lazy import np, pl

_STRETCHES = 32  # a state with more stretches is sorted first


@dataclass(frozen=True)
class Groups:
    """Rows by their key: the group of each row, and the first row and hash of each group, in hash order."""

    ids: Ints
    firsts: Ints
    hashes: Ints


def sort_by_key(frame: Frame, keys: Sequence[str], numbers: Ints | None = None) -> Frame:
    """Return the rows sorted by the hash of their key, with that hash.

    >>> sort_by_key(pl.DataFrame({"k": [9, 7]}), ["k"]).rows()
    [(7, 7), (9, 9)]
    """
    numbers = hash_keys(frame, keys) if numbers is None else numbers
    if (numbers[1:] >= numbers[:-1]).all():
        return frame.hstack([pl.Series(HASH, numbers)])
    order = np.argsort(numbers)
    return frame[order].hstack([pl.Series(HASH, numbers[order])])


def group_rows(frame: Frame, keys: Sequence[str], numbers: Ints) -> Groups:
    """Return the groups of rows with equal keys; NULLs are equal."""
    order = np.argsort(numbers)
    by_number = numbers[order]
    starts = group_starts(by_number)
    ids = np.empty(len(numbers), dtype=np.int64)
    ids[order] = np.cumsum(starts) - 1
    firsts = order[starts]
    if has_exact_hash(frame, keys) or compare_keys(frame, keys, None, frame, keys, firsts[ids]).all():
        return Groups(ids, firsts, by_number[starts])
    return _group_colliding_rows(frame, keys, numbers)


def _group_colliding_rows(frame: Frame, keys: Sequence[str], numbers: Ints) -> Groups:
    """Return the groups where different keys have the same hash."""
    ids = number_keys(frame.select(keys), keys)[0]["_id"].to_numpy().astype(np.int64)
    _, firsts = np.unique(ids, return_index=True)
    order = np.argsort(numbers[firsts], kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Groups(rank[ids], firsts[order], numbers[firsts[order]])


def pick_keys(
    frame: Frame, keys: Sequence[str], rows: Ints, columns: Mapping[str, Ints | pl.Series]
) -> Frame:
    """Return the keys of some rows of a frame, with further columns beside them."""
    beside = [pl.Series(name, column) for name, column in columns.items()]
    return frame[list(keys)][rows].hstack(beside) if keys else pl.DataFrame(beside)


def key_hashes(frame: Frame, keys: Sequence[str]) -> Ints:
    """Return the hashes of the keys, from their column if the frame has it."""
    if HASH in frame.columns and not frame[HASH].null_count():
        return frame[HASH].to_numpy()
    return hash_keys(frame, keys)


class SearchWithinKeys(Protocol):
    """A search among the rows of a key, where more than equal keys is asked of a match."""

    def narrow(
        self, hashes: Ints, places: slice | Ints, low: Ints, high: Ints, which: Ints
    ) -> tuple[Ints, Ints, Ints | None]:
        """Narrow ranges [low, high) of equal hashes; return the order of the rows if it is another.

        `places` are the rows of the state in the order of `hashes`, `which` the wanted rows of the
        ranges.
        """


def match_keys(
    state: Frame, state_on: Sequence[str], wanted: Frame, wanted_on: Sequence[str], numbers: Ints,
    within: SearchWithinKeys | None = None,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Return the rows of a state that have the key of a wanted row, and that row; NULLs are equal.

    `numbers` are the hashes of the wanted keys.

    >>> state, wanted = sort_by_key(pl.DataFrame({"k": [9, 7, 9]}), ["k"]), pl.DataFrame({"j": [9]})
    >>> [found.tolist() for found in match_keys(state, ["k"], wanted, ["j"], np.array([9]))]
    [[1, 2], [0, 0]]
    """
    rows, which = _match_hashes(state, state_on, numbers, within)
    if has_exact_hash(state, state_on) and has_exact_hash(wanted, wanted_on):
        return rows, which
    same = compare_keys(state, state_on, rows, wanted, wanted_on, which)
    return (rows, which) if same.all() else (rows[same], which[same])


def _match_hashes(
    state: Frame, on: Sequence[str], numbers: Ints, within: SearchWithinKeys | None
) -> tuple[Ints, Ints]:
    """Return the rows of the state that have one of the hashes, and the position of that hash."""
    if state.is_empty() or not len(numbers):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    order = None if (numbers[1:] >= numbers[:-1]).all() else np.argsort(numbers)
    needles = numbers if order is None else numbers[order]
    begins = np.flatnonzero(group_starts(needles))
    ends = None if len(begins) == len(needles) else np.append(begins[1:], len(needles))
    distinct = needles if ends is None else needles[begins]
    copies = None if ends is None else ends - begins
    found: list[tuple[Ints, Ints]] = []
    plain: list[tuple[Ints, Ints, Ints]] = []  # wanted groups and ranges of rows, made pairs at the end
    offset = 0
    for chunk in _hash_chunks(state, on):
        for stretch, order_in_chunk in sorted_stretches(chunk):
            groups, low, high = _equal_ranges(stretch, distinct)
            counts = high - low if copies is None else (high - low) * copies[groups]
            # Where a key has few rows, to read all of them is as fast as to search among them.
            if order_in_chunk is None and (within is None or counts.sum() <= len(stretch)):
                plain.append((groups, low + offset, high + offset))
                continue
            which, low, high = _of_each_needle(groups, low, high, begins, ends)
            which = which if order is None else order[which]
            inner = None
            if within is not None:
                here = slice(offset, offset + len(chunk))
                places = here if order_in_chunk is None else order_in_chunk + offset
                low, high, inner = within.narrow(stretch, places, low, high, which)
            rows, range_ = expand_ranges(low, high)
            rows = rows if inner is None else inner[rows]
            rows = rows if order_in_chunk is None else order_in_chunk[rows]
            found.append((rows + offset, which[range_]))
        offset += len(chunk)
    if plain:
        groups, low, high = map(np.concatenate, zip(*plain, strict=True))
        which, low, high = _of_each_needle(groups, low, high, begins, ends)
        rows, range_ = expand_ranges(low, high)
        which = which[range_]
        found.append((rows, which if order is None else order[which]))
    rows, which = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
    return rows, which


def _of_each_needle(
    groups: Ints, low: Ints, high: Ints, begins: Ints, ends: Ints | None
) -> tuple[Ints, Ints, Ints]:
    """Return ranges of groups of equal needles for each needle; without ends, each is a group of its own."""
    if ends is None:
        return groups, low, high
    which, group = expand_ranges(begins[groups], ends[groups])
    return which, low[group], high[group]


def _equal_ranges(stretch: Ints, wanted: Ints) -> tuple[Ints, Ints, Ints]:
    """Return which of the wanted numbers occur among sorted ones, and the range [low, high) of each."""
    if not len(stretch):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing
    low = np.searchsorted(stretch, wanted)
    found = np.flatnonzero(stretch[np.minimum(low, len(stretch) - 1)] == wanted)
    return found, low[found], np.searchsorted(stretch, wanted[found], side="right")


def _hash_chunks(state: Frame, on: Sequence[str]) -> list[Ints]:
    if HASH not in state.columns or state[HASH].null_count():
        return [hash_keys(state, on)]
    return [chunk.to_numpy() for chunk in state[HASH].get_chunks()]


def sorted_stretches(numbers: Ints) -> list[tuple[Ints, Ints | None]]:
    """Return a column as sorted stretches, with the rows of each; None if the whole column is sorted.

    >>> [(part.tolist(), rows.tolist()) for part, rows in sorted_stretches(np.array([1, 5, 2, 3]))]
    [([1, 5], [0, 1]), ([2, 3], [2, 3])]
    """
    cuts = np.flatnonzero(numbers[1:] < numbers[:-1]) + 1
    if not len(cuts):
        return [(numbers, None)]
    if len(cuts) >= _STRETCHES:
        order = np.argsort(numbers)
        return [(numbers[order], order)]
    edges = pairwise([0, *cuts.tolist(), len(numbers)])
    return [(numbers[begin:end], np.arange(begin, end)) for begin, end in edges]


def expand_ranges(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return all integers of many ranges [low, high), and the number of the range of each.

    >>> [part.tolist() for part in expand_ranges(np.array([4, 0, 7]), np.array([6, 0, 8]))]
    [[4, 5, 7], [0, 0, 2]]
    """
    counts = high - low
    if (counts == 1).all():
        return low, np.arange(len(low))
    which = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return np.arange(len(which)) + (low - begins)[which], which


def compare_keys(
    left: Frame, left_on: Sequence[str], left_rows: Ints | None,
    right: Frame, right_on: Sequence[str], right_rows: Ints | None,
) -> np.ndarray:  # fmt: skip
    """Return row by row whether the keys are equal; NULLs are equal, as are NaNs."""
    size = left.height if left_rows is None else len(left_rows)
    same = np.ones(size, dtype=bool)
    for here, there in zip(left_on, right_on, strict=True):
        values, others = (
            _comparable_values(left, here, left_rows),
            _comparable_values(right, there, right_rows),
        )
        same &= values.eq_missing(others).to_numpy()
    return same


def _comparable_values(frame: Frame, key: str, rows: Ints | None) -> pl.Series:
    """Return some values of a column in comparable form."""
    values = frame[key] if rows is None else frame[key][rows]
    if not values.dtype.is_float():
        return values
    column = values.to_frame()
    return column.select(comparable_form(column, key)).to_series()
