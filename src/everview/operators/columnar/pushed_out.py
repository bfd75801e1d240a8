"""Windows of rows and tagged streams: what a row's end is, is known when a later row comes (paper 4, 3.2).

A row is in the window until the arrival that pushes it out, or until its own end. While no later row has
pushed it out it is emitted as it is; when one does, a negative row closes it. The rows of the input never
end, or end in the order in which they came, so that one that was pushed out never comes back.

Rows that never end may come in another order than that of their time line. Then the one that pushes a row out
is the one that comes as the `count`-th of those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.algebra.time import INFINITY
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    consolidate_frame,
    record_columns,
    stacked,
)
from everview.operators.columnar.hashing import hashes
from everview.operators.columnar.keys import arranged, grouped, matches
from everview.operators.columnar.lazy import np, pl

_NEW, _END, _BEFORE, _BEGIN = "_new", "_end", "_before", "_begin"


def latest_rows(
    new: Frame, state: State, slice_: Slice, count: int, partition: Sequence[str], order: Sequence[str]
) -> Increment:
    """[PARTITION BY … ROWS count]; the state is the rows that are not pushed out up to the bound.

    `order` sorts rows within a partition: the time line, the SEQUENCE BY columns, all columns.

    >>> from everview.operators.columnar.frame import changes
    >>> rows = changes({"v": [1, 2, 3]}, [(1, INFINITY, 1), (4, INFINITY, 1), (6, INFINITY, 1)])
    >>> latest_rows(rows, {"open": rows.clear()}, Slice(0, 9), 2, [], ["v"]).output.rows()
    [(1, 1, 6, 1), (2, 4, 9223372036854775807, 1), (3, 6, 9223372036854775807, 1)]
    """
    return _pushed_out(new, state, slice_, count, partition, order, deletes=None)


def latest_per_key(
    new: Frame, state: State, slice_: Slice, key: Sequence[str], order: Sequence[str], deletes: str
) -> Increment:
    """A tagged stream: a row replaces the one of the same key; one whose `deletes` is true only closes it."""
    return _pushed_out(new, state, slice_, 1, key, order, deletes)


def _pushed_out(
    new: Frame,
    state: State,
    slice_: Slice,
    count: int,
    partition: Sequence[str],
    order: Sequence[str],
    deletes: str | None,
) -> Increment:
    columns = [*record_columns(new), FROM, UNTIL, N]
    known = consolidate_frame(_touched(new, state["open"], partition)[columns])
    both = stacked([_copies(known, False), _copies(new, True)])
    # What began before the slice began alike, whenever its state was made small.
    begin = pl.max_horizontal(pl.col(FROM), pl.lit(slice_.b0 + 1, pl.Int64)).alias(_BEGIN)
    both = both.sort([*partition, *order], nulls_last=False, maintain_order=True).with_columns(begin)
    before = np.full(both.height, INFINITY)
    before[~both[_NEW].to_numpy()] = _ends(both.filter(~pl.col(_NEW)), count, partition).to_numpy()
    ends = _ends(both, count, partition)
    both = both.with_columns(ends.alias(_END), pl.Series(_BEFORE, before, pl.Int64))
    shown = both if deletes is None else both.filter(~pl.col(deletes).fill_null(False))
    opened = shown.filter(pl.col(_NEW)).with_columns(pl.min_horizontal(_END, UNTIL).alias(UNTIL))
    closed = shown.filter(~pl.col(_NEW) & (pl.col(_END) < pl.col(_BEFORE))).with_columns(
        pl.max_horizontal(_BEGIN, _END).alias(FROM),
        pl.min_horizontal(_BEFORE, UNTIL).alias(UNTIL),
        pl.lit(-1, pl.Int64).alias(N),
    )
    output = stacked([closed.select(columns), opened.select(columns)]).filter(pl.col(FROM) < pl.col(UNTIL))
    still_open = shown.filter((pl.col(_END) > slice_.b1) | (pl.col(_END) == INFINITY)).select(columns)
    return Increment(output, {"open": arranged(_change(known, still_open), partition)})


def _ends(rows: Frame, count: int, partition: Sequence[str]) -> pl.Series:
    """When each of the sorted rows is pushed out: when `count` of the rows behind it have come."""

    def behind(value: pl.Expr, places: int) -> pl.Expr:
        """What the row so many places behind has, if it is of the same partition."""
        same = [pl.col(c).eq_missing(pl.col(c).shift(-places)) for c in partition]
        shifted = value.shift(-places)
        return pl.when(pl.all_horizontal(same)).then(shifted) if same else shifted

    begin = pl.col(_BEGIN)
    if not rows.select((behind(begin, 1) < begin).any()).item():  # they came in this order
        return rows.select(behind(begin, count).fill_null(INFINITY)).to_series()
    # The least begin of a row and those behind it; then, of what that leaves over, the least, and so on.
    least = begin.cum_min(reverse=True)
    least = behind(least.over(partition) if partition else least, 1).fill_null(INFINITY)
    for _ in range(count - 1):
        rows = rows.with_columns(pl.max_horizontal(begin, least).alias(_BEGIN))
    return rows.select(least).to_series()


def _touched(new: Frame, known: Frame, partition: Sequence[str]) -> Frame:
    """The open rows of the partitions in which something arrives; the others stay as they are."""
    if not partition:
        return known
    groups = grouped(new, partition, hashes(new, partition))
    rows, _ = matches(known, partition, new[groups.firsts], partition, groups.hashes)
    return known[np.sort(rows)]


def _copies(frame: Frame, new: bool) -> Frame:
    """A row per copy."""
    if (frame[N] > 1).any():
        frame = frame.select(pl.all().gather(np.repeat(np.arange(frame.height), frame[N].to_numpy())))
    return frame.with_columns(pl.lit(1, pl.Int64).alias(N), pl.lit(new).alias(_NEW))


def _change(before: Frame, after: Frame) -> Frame:
    """What leads from one set of open rows to the other: those that came, and negative rows for the rest."""
    return consolidate_frame(stacked([after, before.with_columns((-pl.col(N)).alias(N))]))
