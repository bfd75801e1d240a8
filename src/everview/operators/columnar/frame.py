"""Change rows as Polars frames: the columns that every kernel knows, and what all kernels share.

A frame has any columns for the record, and three for the change: `_from`, `_until`, `_n`. A kernel is
a pure function (Δ inputs, state) → (Δ output, what to add to the state). A state is a frame too: the
rows that were added and have not yet ended. It may hold rows that would cancel; `consolidate_frame` makes
it small again and changes no answer. What a kernel adds to its state has one more column, `_hash`: a
number for the row's key, by which the rows are sorted (`keys.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from everview.algebra.time import INFINITY, LEAST
from everview.operators.columnar.hashing import Ints, combined
from everview.operators.columnar.lazy import np, pl

FROM, UNTIL, N = "_from", "_until", "_n"
HASH = "_hash"
CHANGE = (FROM, UNTIL, N)
BEFORE_ALL = LEAST - 1  # the bound before the first step; all rows begin after it

Frame: TypeAlias = "pl.DataFrame"
State: TypeAlias = "Mapping[str, Frame]"


@dataclass(frozen=True)
class Slice:
    """(b0, b1]: the instants that one step evaluates; `first` says that nothing came before.

    The first slice begins before all rows and the last one never ends. What happens again and again by
    itself happens from `start`, the first timestamp, until `present`, the newest, as the clock does.
    """

    b0: int
    b1: int
    first: bool = False
    start: int = LEAST
    present: int = INFINITY - 1

    @property
    def ticking(self) -> tuple[int, int]:
        """The first and the last instant at which something may happen by itself."""
        return max(self.b0 + 1, self.start), min(self.b1, self.present)


@dataclass(frozen=True)
class Increment:
    """What a step emits, and what it adds to each part of its state."""

    output: Frame
    added: dict[str, Frame] = field(default_factory=dict)


def record_columns(frame: Frame) -> list[str]:
    """The columns of the record, in order.

    >>> record_columns(changes({"v": [1]}, [(0, 5, 1)]))
    ['v']
    """
    return [c for c in frame.columns if c not in CHANGE and c != HASH]


def changes(record: Mapping[str, Sequence[object]], times: Sequence[tuple[int, int, int]]) -> Frame:
    """A frame from columns and (from, until, n) triples; for examples and tests."""
    columns = {FROM: [t[0] for t in times], UNTIL: [t[1] for t in times], N: [t[2] for t in times]}
    return pl.DataFrame({**record, **columns}, schema_overrides=dict.fromkeys(CHANGE, pl.Int64))


def pick_columns(frame: Frame, columns: Mapping[str, str]) -> Frame:
    """Return columns of a frame under new names, and the change; faster than a query for a few rows."""
    record = [frame.get_column(old).alias(new) for new, old in columns.items()]
    return pl.DataFrame([*record, *(frame.get_column(c) for c in CHANGE)])


def on_the_right(frame: Frame) -> Frame:
    """Return the columns c0, c1, … of a right input as r0, r1, …, beside the left ones."""
    return frame.rename({c: f"r{c[1:]}" for c in frame.columns if c not in CHANGE})


def by_position(frame: Frame) -> Frame:
    """Return the frame with the columns of its record named c0, c1, … again, in their order."""
    record = [c for c in frame.columns if c not in CHANGE]
    return frame.rename({c: f"_{i}" for i, c in enumerate(record)}).rename(
        {f"_{i}": f"c{i}" for i in range(len(record))}
    )


def stacked(frames: Sequence[Frame]) -> Frame:
    """The frames one below the other; they have the same columns."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")


def alive(frame: Frame, bound: int) -> Frame:
    """The rows that can still matter after the bound.

    >>> alive(changes({"v": [1, 2]}, [(0, 5, 1), (0, 6, 1)]), 5)["v"].to_list()
    [2]
    """
    return frame.filter(pl.col(UNTIL) > bound)


def consolidate_frame(frame: Frame, bound: int | None = None) -> Frame:
    """Sums n over equal (record, from, until) and drops zeros; no snapshot changes.

    With a bound, beginnings up to it count as the bound itself: what began earlier began alike. Rows of
    a state are sorted by the number of their key again, and with a bound coalesced where that makes them
    fewer.

    >>> consolidate_frame(changes({"v": [1, 1, 2]}, [(0, 9, 1), (3, 9, -1), (4, 9, 1)]), 5).rows()
    [(2, 5, 9, 1)]
    """
    if bound is not None:
        frame = frame.with_columns(pl.max_horizontal(FROM, pl.lit(bound, pl.Int64)).alias(FROM))
    if HASH not in frame.columns or frame[HASH].null_count():
        return _added_up_rows(frame.drop(HASH, strict=False))
    repeated = occurs_twice(_numbers(frame, HASH, FROM, UNTIL))
    if repeated.any():
        frame = stacked([frame.filter(~repeated), _added_up_rows(frame.filter(repeated))])
    if bound is not None:
        frame = _coalesced(frame)
    return frame.sort(HASH)


def _added_up_rows(frame: Frame) -> Frame:
    keys = [c for c in frame.columns if c != N]
    return added_up(frame, keys, [N]).filter(pl.col(N) != 0).select(frame.columns)


def _numbers(frame: Frame, *columns: str) -> Ints:
    """One number for some columns of integers; rows that differ nearly always differ in it."""
    return combined([frame[c].to_numpy() for c in columns])


def occurs_twice(numbers: Ints) -> np.ndarray:
    """Whether the number of a row is that of another row, too."""
    ordered = np.sort(numbers)
    return _is_among(numbers, ordered[1:][ordered[1:] == ordered[:-1]])


def _is_among(numbers: Ints, ordered: Ints) -> np.ndarray:
    if not len(ordered):
        return np.zeros(len(numbers), dtype=bool)
    found = ordered[np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)]
    return np.equal(found, numbers)


def _coalesced(frame: Frame) -> Frame:
    """Rows of equal record and n, of which one begins where the other ends, as one (paper 1, equation 16)."""
    if frame.is_empty() or frame[FROM].to_numpy().max() < frame[UNTIL].to_numpy().min():
        return frame
    begins, ends = _numbers(frame, HASH, N, FROM), _numbers(frame, HASH, N, UNTIL)
    ordered = np.sort(ends)
    meeting = ordered[_is_among(ordered, np.sort(begins))]
    if not len(meeting):
        return frame
    adjacent = _is_among(begins, meeting) | _is_among(ends, meeting)
    rows, _ = numbered(frame.filter(adjacent), [*record_columns(frame), N])
    rows = rows.sort("_id", FROM, UNTIL)
    ids, since, until = (rows[c].to_numpy() for c in ("_id", FROM, UNTIL))
    starts = group_starts(ids)
    starts[1:] |= since[1:] != until[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(starts)) - 1
    joined = rows[first].with_columns(pl.Series(UNTIL, until[last])).select(frame.columns)
    return stacked([frame.filter(~adjacent), joined])


def added_up(frame: Frame, keys: Sequence[str], sums: Sequence[str]) -> Frame:
    """The sums of some columns for each different key; NULLs are equal."""
    if not keys:
        return frame.select(pl.col(sums).sum())
    equal = [comparable(frame, k).alias(f"_eq{i}") for i, k in enumerate(keys)]
    grouped = frame.group_by(equal, maintain_order=True).agg(pl.col(keys).first(), pl.col(sums).sum())
    return grouped.select(*keys, *sums)


def comparable(frame: Frame, column: str) -> pl.Expr:
    """The column in a form that Polars compares as Spark does: floats by their bits, one NaN, no -0.0."""
    if not frame.schema[column].is_float():
        return pl.col(column)
    bits = pl.Int64 if frame.schema[column] == pl.Float64 else pl.Int32
    nan, zero = (pl.lit(v, frame.schema[column]) for v in (float("nan"), 0.0))
    one = pl.when(pl.col(column).is_nan()).then(nan).when(pl.col(column) == 0).then(zero)
    return one.otherwise(pl.col(column)).reinterpret(dtype=bits)


def numbered(frame: Frame, keys: Sequence[str], name: str = "_id") -> tuple[Frame, Frame]:
    """The frame with a number for each different key, and the keys by their number; NULLs are equal."""
    if not keys:
        only = pl.DataFrame({name: [0]}, {name: pl.UInt32})
        return frame.with_columns(pl.lit(0, pl.UInt32).alias(name)), only
    equal, marked = _marked(frame, keys)
    found = marked.unique(equal, keep="first", maintain_order=True).select(*equal, *keys).with_row_index(name)
    joined = marked.join(
        found.select(name, *equal), on=equal, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.drop(equal), found.drop(equal)


def _marked(frame: Frame, keys: Sequence[str]) -> tuple[list[str], Frame]:
    """The frame with its keys in a form that Polars compares as Spark does."""
    equal = [f"_eq{i}" for i in range(len(keys))]
    return equal, frame.with_columns(comparable(frame, k).alias(e) for k, e in zip(keys, equal, strict=True))


def group_starts(ids: np.ndarray) -> np.ndarray:
    """For sorted group numbers: whether a row is the first of its group."""
    starts = np.empty(len(ids), dtype=bool)
    if len(ids):
        starts[0] = True
        np.not_equal(ids[1:], ids[:-1], out=starts[1:])
    return starts
