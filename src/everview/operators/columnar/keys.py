"""Rows by their key, without looking at those that do not have it.

The rows of a state are sorted by the number of their key (`hashing.py`), which they carry in a column of
its own: `arranged`. Which of them belong to a few thousand keys is then found by binary search, and only
these are read (differential dataflow calls such an index an arrangement). A state that was put together
from several runs is sorted in stretches; each is searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from everview.operators.columnar.frame import HASH, Frame, comparable, group_starts, numbered
from everview.operators.columnar.hashing import Ints, hashes, is_own_number
from everview.operators.columnar.lazy import np, pl

_STRETCHES = 32  # with more stretches than that a state is sorted first


@dataclass(frozen=True)
class Groups:
    """Rows by their key: the group of each row, and each group's first row and number, in order of that."""

    ids: Ints
    firsts: Ints
    hashes: Ints


def arranged(frame: Frame, keys: Sequence[str], numbers: Ints | None = None) -> Frame:
    """The rows sorted by the number of their key, with that number.

    >>> arranged(pl.DataFrame({"k": [9, 7]}), ["k"]).rows()
    [(7, 7), (9, 9)]
    """
    numbers = hashes(frame, keys) if numbers is None else numbers
    if (numbers[1:] >= numbers[:-1]).all():
        return frame.hstack([pl.Series(HASH, numbers)])
    order = np.argsort(numbers)
    return frame[order].hstack([pl.Series(HASH, numbers[order])])


def grouped(frame: Frame, keys: Sequence[str], numbers: Ints) -> Groups:
    """The rows by their key; NULLs are equal."""
    order = np.argsort(numbers)
    by_number = numbers[order]
    starts = group_starts(by_number)
    ids = np.empty(len(numbers), dtype=np.int64)
    ids[order] = np.cumsum(starts) - 1
    firsts = order[starts]
    if is_own_number(frame, keys) or equal_rows(frame, keys, None, frame, keys, firsts[ids]).all():
        return Groups(ids, firsts, by_number[starts])
    return _told_apart(frame, keys, numbers)


def _told_apart(frame: Frame, keys: Sequence[str], numbers: Ints) -> Groups:
    """As `grouped`, where different keys have the same number."""
    ids = numbered(frame.select(keys), keys)[0]["_id"].to_numpy().astype(np.int64)
    _, firsts = np.unique(ids, return_index=True)
    order = np.argsort(numbers[firsts], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Groups(place[ids], firsts[order], numbers[firsts[order]])


def keyed(frame: Frame, keys: Sequence[str], rows: Ints, columns: Mapping[str, Ints | pl.Series]) -> Frame:
    """The keys of some rows of a frame, with more columns beside them."""
    beside = [pl.Series(name, column) for name, column in columns.items()]
    return frame[list(keys)][rows].hstack(beside) if keys else pl.DataFrame(beside)


def numbers_of(frame: Frame, keys: Sequence[str]) -> Ints:
    """The numbers of the keys, as they were kept or worked out anew."""
    if HASH in frame.columns and not frame[HASH].null_count():
        return frame[HASH].to_numpy()
    return hashes(frame, keys)


def matches(
    state: Frame, state_on: Sequence[str], wanted: Frame, wanted_on: Sequence[str], numbers: Ints
) -> tuple[Ints, Ints]:
    """The rows of a state that have the key of a wanted row, and which one; NULLs are equal.

    `numbers` are those of the wanted keys.

    >>> state, wanted = arranged(pl.DataFrame({"k": [9, 7, 9]}), ["k"]), pl.DataFrame({"j": [9]})
    >>> [found.tolist() for found in matches(state, ["k"], wanted, ["j"], np.array([9]))]
    [[1, 2], [0, 0]]
    """
    rows, which = _same_number(state, state_on, numbers)
    if is_own_number(state, state_on) and is_own_number(wanted, wanted_on):
        return rows, which
    same = equal_rows(state, state_on, rows, wanted, wanted_on, which)
    return (rows, which) if same.all() else (rows[same], which[same])


def _same_number(state: Frame, on: Sequence[str], numbers: Ints) -> tuple[Ints, Ints]:
    """The rows of the state that have one of the numbers, and which."""
    if state.is_empty() or not len(numbers):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    order = None if (numbers[1:] >= numbers[:-1]).all() else np.argsort(numbers)
    needles = numbers if order is None else numbers[order]
    starts = group_starts(needles)
    different, copies = needles[starts], np.cumsum(starts) - 1
    found, offset = [], 0
    for chunk in _number_chunks(state, on):
        for stretch, places in stretches(chunk):
            low, high = (np.searchsorted(stretch, different, side) for side in ("left", "right"))
            rows, which = spread(low[copies], high[copies])
            found.append(((rows if places is None else places[rows]) + offset, which))
        offset += len(chunk)
    rows, which = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
    return rows, which if order is None else order[which]


def _number_chunks(state: Frame, on: Sequence[str]) -> list[Ints]:
    if HASH not in state.columns or state[HASH].null_count():
        return [hashes(state, on)]
    return [chunk.to_numpy() for chunk in state[HASH].get_chunks()]


def stretches(numbers: Ints) -> list[tuple[Ints, Ints | None]]:
    """A column in sorted stretches, with the places of their rows; None: just as they are.

    >>> [(part.tolist(), places.tolist()) for part, places in stretches(np.array([1, 5, 2, 3]))]
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


def spread(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """All places of many ranges [low, high), and the number of the range of each.

    >>> [part.tolist() for part in spread(np.array([4, 0, 7]), np.array([6, 0, 8]))]
    [[4, 5, 7], [0, 0, 2]]
    """
    counts = high - low
    which = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return np.arange(len(which)) + (low - begins)[which], which


def equal_rows(
    left: Frame, left_on: Sequence[str], left_rows: Ints | None,
    right: Frame, right_on: Sequence[str], right_rows: Ints | None,
) -> np.ndarray:  # fmt: skip
    """Row by row, whether the keys are equal; NULLs are equal, as are NaNs."""
    size = left.height if left_rows is None else len(left_rows)
    same = np.ones(size, dtype=bool)
    for here, there in zip(left_on, right_on, strict=True):
        values, others = _compared(left, here, left_rows), _compared(right, there, right_rows)
        same &= values.eq_missing(others).to_numpy()
    return same


def _compared(frame: Frame, key: str, rows: Ints | None) -> pl.Series:
    """Some values of a column, in a form that Polars compares as Spark does."""
    values = frame[key] if rows is None else frame[key][rows]
    if not values.dtype.is_float():
        return values
    column = values.to_frame()
    return column.select(comparable(column, key)).to_series()
