"""Change rows as Polars frames: the columns that every kernel knows, and what all kernels share.

A frame has any columns for the record, and three for the change: `_from`, `_until`, `_n`. A kernel is
a pure function (Δ inputs, state) → (Δ output, what to add to the state). A state is a frame too: the
rows that were added and have not yet ended. It may hold rows that would cancel; `consolidate` makes
it small again and changes no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

FROM, UNTIL, N = "_from", "_until", "_n"
CHANGE = (FROM, UNTIL, N)
INFINITY = 2**63 - 1
BEFORE_ALL = -(2**63)  # the bound before the first step; all rows begin after it
LEAST = BEFORE_ALL + 1

Frame = pl.DataFrame
State = Mapping[str, Frame]


@dataclass(frozen=True)
class Slice:
    """(b0, b1]: the instants that one step evaluates; `first` says that nothing came before."""

    b0: int
    b1: int
    first: bool = False


@dataclass(frozen=True)
class Result:
    """What a step emits, and what it adds to each part of its state."""

    output: Frame
    added: dict[str, Frame] = field(default_factory=dict)


def record_columns(frame: Frame) -> list[str]:
    """The columns of the record, in order.

    >>> record_columns(changes({"v": [1]}, [(0, 5, 1)]))
    ['v']
    """
    return [c for c in frame.columns if c not in CHANGE]


def changes(record: Mapping[str, Sequence[object]], times: Sequence[tuple[int, int, int]]) -> Frame:
    """A frame from columns and (from, until, n) triples; for examples and tests."""
    columns = {FROM: [t[0] for t in times], UNTIL: [t[1] for t in times], N: [t[2] for t in times]}
    return pl.DataFrame({**record, **columns}, schema_overrides=dict.fromkeys(CHANGE, pl.Int64))


def stacked(frames: Sequence[Frame]) -> Frame:
    """The frames one below the other; they have the same columns."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")


def alive(frame: Frame, bound: int) -> Frame:
    """The rows that can still matter after the bound.

    >>> alive(changes({"v": [1, 2]}, [(0, 5, 1), (0, 6, 1)]), 5)["v"].to_list()
    [2]
    """
    return frame.filter(pl.col(UNTIL) > bound)


def consolidate(frame: Frame, bound: int | None = None) -> Frame:
    """Sums n over equal (record, from, until) and drops zeros; no snapshot changes.

    With a bound, beginnings up to it count as the bound itself: what began earlier began alike.

    >>> consolidate(changes({"v": [1, 1, 2]}, [(0, 9, 1), (3, 9, -1), (4, 9, 1)]), 5).rows()
    [(2, 5, 9, 1)]
    """
    if bound is not None:
        frame = frame.with_columns(pl.max_horizontal(FROM, pl.lit(bound, pl.Int64)).alias(FROM))
    summed = added_up(frame, [*record_columns(frame), FROM, UNTIL], [N])
    return summed.filter(pl.col(N) != 0).select(frame.columns)


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


def identified(frame: Frame, keys: Frame, on: Sequence[str], name: str = "_id") -> Frame:
    """The rows whose key is among the numbered keys, with that number and their change only."""
    if not on:
        return frame.select(pl.lit(0, pl.UInt32).alias(name), *CHANGE)
    equal, marked = _marked(frame, on)
    wanted = _marked(keys, on)[1].select(name, *equal)
    return marked.join(wanted, on=equal, how="inner", nulls_equal=True).select(name, *CHANGE)


def matching(frame: Frame, keys: Frame, on: Sequence[str]) -> Frame:
    """The rows of a frame whose key occurs among the keys; NULLs are equal."""
    if not on or frame.is_empty():
        return frame
    equal, marked = _marked(frame, on)
    wanted = _marked(keys, on)[1].select(equal)
    return marked.join(wanted, on=equal, how="semi", nulls_equal=True, maintain_order="left").drop(equal)


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


def running_sum(values: pl.Series, starts: np.ndarray) -> pl.Series:
    """The cumulative sum within each group, for rows sorted by group.

    The sum of all rows before a group is taken off again; integers wrap, so that this is exact.
    """
    total = values.cum_sum()
    first = np.flatnonzero(starts)
    if not len(first):
        return total
    before = (total - values).gather(first)
    lengths = np.diff(np.append(first, len(values)))
    return total - before.gather(np.repeat(np.arange(len(first)), lengths))
