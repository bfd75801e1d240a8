"""Change rows as Polars frames: the columns and functions that all kernels share.

A frame has any columns for the record, and three for the change: `_from`, `_until`, `_n`. A kernel is
a pure function (Δ inputs, state) → (Δ output, rows to add to the state). A state is a frame too: the
rows that were added and have not yet ended. It may contain rows that cancel; `consolidate_frame` removes
them and changes no result. The rows that a kernel adds to its state have one more column, `_hash`: the
hash of the row's key, by which the rows are sorted (`keys.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from everview.algebra.time import INFINITY, LEAST
from everview.operators.columnar.hashing import MEMBER, Ints, combine_hashes
from everview.operators.columnar.lazy import np, pl

FROM, UNTIL, N = "_from", "_until", "_n"
HASH = "_hash"
CHANGE = (FROM, UNTIL, N)
_KEPT_NAMES = (*CHANGE, MEMBER)
BEFORE_ALL = LEAST - 1  # the bound before the first step; all rows begin after it

Frame: TypeAlias = "pl.DataFrame"
State: TypeAlias = "Mapping[str, Frame]"


@dataclass(frozen=True)
class Slice:
    """(b0, b1]: the instants that one step evaluates; `first` marks the first slice.

    The first slice begins before all rows and the last one never ends. Recurring events, as those of the
    clock, occur from `start`, the least timestamp, until `present`, the greatest.
    """

    b0: int
    b1: int
    first: bool = False
    start: int = LEAST
    present: int = INFINITY - 1

    @property
    def tick_range(self) -> tuple[int, int]:
        """The first and the last instant of the slice at which a recurring event may occur."""
        return max(self.b0 + 1, self.start), min(self.b1, self.present)


@dataclass(frozen=True)
class Increment:
    """The output of a step, and the rows that it adds to each part of the state."""

    output: Frame
    added: dict[str, Frame] = field(default_factory=dict)


def record_columns(frame: Frame) -> list[str]:
    """Return the columns of the record, in order.

    >>> record_columns(make_frame({"v": [1]}, [(0, 5, 1)]))
    ['v']
    """
    return [c for c in frame.columns if c not in CHANGE and c != HASH]


def make_frame(record: Mapping[str, Sequence[object]], times: Sequence[tuple[int, int, int]]) -> Frame:
    """Return a frame from columns and (from, until, n) triples; for examples and tests."""
    columns = {FROM: [t[0] for t in times], UNTIL: [t[1] for t in times], N: [t[2] for t in times]}
    return pl.DataFrame({**record, **columns}, schema_overrides=dict.fromkeys(CHANGE, pl.Int64))


def pick_columns(frame: Frame, columns: Mapping[str, str]) -> Frame:
    """Return columns of a frame under new names, and the change; faster than `select` for a few rows."""
    record = [frame.get_column(old).alias(new) for new, old in columns.items()]
    return pl.DataFrame([*record, *(frame.get_column(c) for c in CHANGE)])


def name_right_columns(frame: Frame) -> Frame:
    """Return the columns c0, c1, … of a right input as r0, r1, …, beside the left ones."""
    return _renamed(frame, [c if c in _KEPT_NAMES else f"r{c[1:]}" for c in frame.columns])


def name_by_position(frame: Frame) -> Frame:
    """Return the frame with the columns of its record named c0, c1, … again, in their order."""
    numbers = count()
    return _renamed(frame, [c if c in _KEPT_NAMES else f"c{next(numbers)}" for c in frame.columns])


def _renamed(frame: Frame, names: list[str]) -> Frame:
    """Return a frame with other names for its columns; faster than `rename` for a few rows."""
    same = frame.clone()
    same.columns = names
    return same


def stack_frames(frames: Sequence[Frame]) -> Frame:
    """Return the frames one below the other; they have the same columns."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")


def drop_ended(frame: Frame, bound: int) -> Frame:
    """Return the rows that end after the bound.

    >>> drop_ended(make_frame({"v": [1, 2]}, [(0, 5, 1), (0, 6, 1)]), 5)["v"].to_list()
    [2]
    """
    return frame.filter(pl.col(UNTIL) > bound)


def consolidate_frame(frame: Frame, bound: int | None = None) -> Frame:
    """Sum n over equal (record, from, until) and drop zeros; no snapshot changes.

    With a bound, begins before it are moved to it, and adjacent rows of a state are coalesced. Rows of a
    state are sorted by the hash of their key again.

    >>> consolidate_frame(make_frame({"v": [1, 1, 2]}, [(0, 9, 1), (3, 9, -1), (4, 9, 1)]), 5).rows()
    [(2, 5, 9, 1)]
    """
    if bound is not None:
        frame = frame.with_columns(pl.max_horizontal(FROM, pl.lit(bound, pl.Int64)).alias(FROM))
    frame = sum_repeated(frame)
    if HASH not in frame.columns:
        return frame
    if bound is not None:
        frame = _coalesce(frame)
    return frame.sort(HASH)


def sum_repeated(frame: Frame) -> Frame:
    """Sum n over equal rows, in any order; rows without the hash of their key all lose that column."""
    if HASH not in frame.columns or frame[HASH].null_count():
        return _sum_rows(frame.drop(HASH, strict=False))
    repeated = find_repeated(_hash_columns(frame, HASH, FROM, UNTIL))
    if not repeated.any():
        return frame
    return stack_frames([frame.filter(~repeated), _sum_rows(frame.filter(repeated))])


def _sum_rows(frame: Frame) -> Frame:
    keys = [c for c in frame.columns if c != N]
    return sum_by_key(frame, keys, [N]).filter(pl.col(N) != 0).select(frame.columns)


def sum_begun(frame: Frame, bound: int) -> Frame:
    """Sum n over rows of equal record and end that begin by the bound; no snapshot from the bound on changes.

    What is left of such rows begins with the last of them.

    >>> rows = make_frame({"v": [1, 1, 2, 2]}, [(0, 9, 1), (3, 9, -1), (1, 9, 1), (6, 9, -1)])
    >>> sum_begun(rows, 5).rows()
    [(2, 6, 9, -1), (2, 1, 9, 1)]
    """
    begun = frame.get_column(FROM) <= bound
    if begun.sum() < 2:
        return frame
    old = frame.filter(begun)
    keys = [c for c in frame.columns if c not in (FROM, N)]
    equal = [comparable_form(old, k).alias(f"_eq{i}") for i, k in enumerate(keys)]
    grouped = old.group_by(equal, maintain_order=True).agg(
        pl.col(keys).first(), pl.col(FROM).max(), pl.col(N).sum()
    )
    left = grouped.filter(pl.col(N) != 0).select(frame.columns)
    return stack_frames([frame.filter(~begun), left])


def _hash_columns(frame: Frame, *columns: str) -> Ints:
    """Return a hash of some integer columns."""
    return combine_hashes([frame[c].to_numpy() for c in columns])


def find_repeated(numbers: Ints) -> np.ndarray:
    """Return for each number whether it occurs more than once."""
    ordered = np.sort(numbers)
    return _is_among(numbers, ordered[1:][ordered[1:] == ordered[:-1]])


def _is_among(numbers: Ints, ordered: Ints) -> np.ndarray:
    if not len(ordered):
        return np.zeros(len(numbers), dtype=bool)
    found = ordered[np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)]
    return np.equal(found, numbers)


def _coalesce(frame: Frame) -> Frame:
    """Merge rows of equal record and n, of which one begins where the other ends (paper 1, equation 16)."""
    if frame.is_empty() or frame[FROM].to_numpy().max() < frame[UNTIL].to_numpy().min():
        return frame
    begins, ends = _hash_columns(frame, HASH, N, FROM), _hash_columns(frame, HASH, N, UNTIL)
    ordered = np.sort(ends)
    meeting = ordered[_is_among(ordered, np.sort(begins))]
    if not len(meeting):
        return frame
    adjacent = _is_among(begins, meeting) | _is_among(ends, meeting)
    rows, _ = number_keys(frame.filter(adjacent), [*record_columns(frame), N])
    rows = rows.sort("_id", FROM, UNTIL)
    ids, since, until = (rows[c].to_numpy() for c in ("_id", FROM, UNTIL))
    starts = group_starts(ids)
    starts[1:] |= since[1:] != until[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(starts)) - 1
    joined = rows[first].with_columns(pl.Series(UNTIL, until[last])).select(frame.columns)
    return stack_frames([frame.filter(~adjacent), joined])


def sum_by_key(frame: Frame, keys: Sequence[str], sums: Sequence[str]) -> Frame:
    """Return the sums of some columns for each distinct key; NULLs are equal."""
    if not keys:
        return frame.select(pl.col(sums).sum())
    equal = [comparable_form(frame, k).alias(f"_eq{i}") for i, k in enumerate(keys)]
    grouped = frame.group_by(equal, maintain_order=True).agg(pl.col(keys).first(), pl.col(sums).sum())
    return grouped.select(*keys, *sums)


def comparable_form(frame: Frame, column: str) -> pl.Expr:
    """Return the column so that Polars compares it as Spark does: floats by their bits, one NaN, no -0.0."""
    if not frame.schema[column].is_float():
        return pl.col(column)
    bits = pl.Int64 if frame.schema[column] == pl.Float64 else pl.Int32
    nan, zero = (pl.lit(v, frame.schema[column]) for v in (float("nan"), 0.0))
    one = pl.when(pl.col(column).is_nan()).then(nan).when(pl.col(column) == 0).then(zero)
    return one.otherwise(pl.col(column)).reinterpret(dtype=bits)


def number_keys(frame: Frame, keys: Sequence[str], name: str = "_id") -> tuple[Frame, Frame]:
    """Return the frame with a number for each distinct key, and the keys by number; NULLs are equal."""
    if not keys:
        only = pl.DataFrame({name: [0]}, {name: pl.UInt32})
        return frame.with_columns(pl.lit(0, pl.UInt32).alias(name)), only
    equal, marked = _add_comparable_keys(frame, keys)
    found = marked.unique(equal, keep="first", maintain_order=True).select(*equal, *keys).with_row_index(name)
    joined = marked.join(
        found.select(name, *equal), on=equal, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.drop(equal), found.drop(equal)


def _add_comparable_keys(frame: Frame, keys: Sequence[str]) -> tuple[list[str], Frame]:
    """Return the frame with its keys also in comparable form, and the names of these columns."""
    equal = [f"_eq{i}" for i in range(len(keys))]
    return equal, frame.with_columns(
        comparable_form(frame, k).alias(e) for k, e in zip(keys, equal, strict=True)
    )


def group_starts(ids: np.ndarray) -> np.ndarray:
    """Return for sorted group numbers whether a row is the first of its group."""
    starts = np.empty(len(ids), dtype=bool)
    if len(ids):
        starts[0] = True
        np.not_equal(ids[1:], ids[:-1], out=starts[1:])
    return starts
