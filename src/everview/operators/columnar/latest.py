"""Row windows and tagged streams: a later row decides the end of a row (paper 4, 3.2).

A row is in the window until the arrival that pushes it out, or until its own end. It is emitted with its own
end; when a later row pushes it out, a negative row closes it. The rows of the input never end, or end in the
order of their arrival, so that a row that was pushed out never returns.

Rows that never end may arrive in another order than that of their time line. Then a row is pushed out by the
`count`-th arrival among the rows after it.
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
    stack_frames,
)
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.keys import group_rows, match_keys, sort_by_key
from everview.operators.columnar.lazy import np, pl

NEW = "_new"  # whether a row came in this step
_END, _BEFORE, _BEGIN = "_end", "_before", "_begin"


def latest_rows(
    new: Frame, state: State, slice_: Slice, count: int, partition: Sequence[str], order: Sequence[str]
) -> Increment:
    """Return the increment of [PARTITION BY … ROWS count]; its state is the rows in the window at the bound.

    `order` sorts rows within a partition: the time line, the SEQUENCE BY columns, all columns.

    >>> from everview.operators.columnar.frame import make_frame
    >>> rows = make_frame({"v": [1, 2, 3]}, [(1, INFINITY, 1), (4, INFINITY, 1), (6, INFINITY, 1)])
    >>> latest_rows(rows, {"open": rows.clear()}, Slice(0, 9), 2, [], ["v"]).output.rows()
    [(1, 1, 6, 1), (2, 4, 9223372036854775807, 1), (3, 6, 9223372036854775807, 1)]
    """
    return _replace_latest(new, state, slice_, count, partition, order, deletes=None)


def latest_per_key(
    new: Frame, state: State, slice_: Slice, key: Sequence[str], order: Sequence[str], deletes: str
) -> Increment:
    """Return the increment of a tagged stream: a row replaces the previous row of its key.

    A row whose column `deletes` is true only closes the previous row.
    """
    return _replace_latest(new, state, slice_, 1, key, order, deletes)


def _replace_latest(
    new: Frame,
    state: State,
    slice_: Slice,
    count: int,
    partition: Sequence[str],
    order: Sequence[str],
    deletes: str | None,
) -> Increment:
    columns = [*record_columns(new), FROM, UNTIL, N]
    known = consolidate_frame(find_touched_rows(new, state["open"], partition)[columns])
    both = stack_frames([repeat_rows(known, False), repeat_rows(new, True)])
    # Begins before the slice are equal, whether or not the state was compacted.
    begin = pl.max_horizontal(pl.col(FROM), pl.lit(slice_.b0 + 1, pl.Int64)).alias(_BEGIN)
    both = both.sort([*partition, *order], nulls_last=False, maintain_order=True).with_columns(begin)
    before = np.full(both.height, INFINITY)
    before[~both[NEW].to_numpy()] = _find_ends(both.filter(~pl.col(NEW)), count, partition).to_numpy()
    ends = _find_ends(both, count, partition)
    both = both.with_columns(ends.alias(_END), pl.Series(_BEFORE, before, pl.Int64))
    shown = both if deletes is None else both.filter(~pl.col(deletes).fill_null(False))
    opened = shown.filter(pl.col(NEW)).with_columns(pl.min_horizontal(_END, UNTIL).alias(UNTIL))
    closed = shown.filter(~pl.col(NEW) & (pl.col(_END) < pl.col(_BEFORE))).with_columns(
        pl.max_horizontal(_BEGIN, _END).alias(FROM),
        pl.min_horizontal(_BEFORE, UNTIL).alias(UNTIL),
        pl.lit(-1, pl.Int64).alias(N),
    )
    output = stack_frames([closed.select(columns), opened.select(columns)]).filter(
        pl.col(FROM) < pl.col(UNTIL)
    )
    still_open = shown.filter((pl.col(_END) > slice_.b1) | (pl.col(_END) == INFINITY)).select(columns)
    return Increment(output, {"open": sort_by_key(state_change(known, still_open), partition)})


def _find_ends(rows: Frame, count: int, partition: Sequence[str]) -> pl.Series:
    """Return when each of the sorted rows is pushed out: when `count` of the rows after it have arrived."""

    def following(value: pl.Expr, offset: int) -> pl.Expr:
        """Return the value of the row at an offset, if it is of the same partition."""
        same = [pl.col(c).eq_missing(pl.col(c).shift(-offset)) for c in partition]
        shifted = value.shift(-offset)
        return pl.when(pl.all_horizontal(same)).then(shifted) if same else shifted

    begin = pl.col(_BEGIN)
    if not rows.select((following(begin, 1) < begin).any()).item():  # sorted by arrival
        return rows.select(following(begin, count).fill_null(INFINITY)).to_series()
    # The least begin among the rows after a row; then the next larger one, `count` times in all.
    least = begin.cum_min(reverse=True)
    least = following(least.over(partition) if partition else least, 1).fill_null(INFINITY)
    for _ in range(count - 1):
        rows = rows.with_columns(pl.max_horizontal(begin, least).alias(_BEGIN))
    return rows.select(least).to_series()


def find_touched_rows(new: Frame, known: Frame, partition: Sequence[str]) -> Frame:
    """Return the open rows of the partitions that have new rows."""
    if not partition:
        return known
    groups = group_rows(new, partition, hash_keys(new, partition))
    rows, _ = match_keys(known, partition, new[groups.firsts], partition, groups.hashes)
    return known[np.sort(rows)]


def repeat_rows(frame: Frame, new: bool) -> Frame:
    """Return each row n times, with n = 1."""
    if (frame[N] > 1).any():
        frame = frame.select(pl.all().gather(np.repeat(np.arange(frame.height), frame[N].to_numpy())))
    return frame.with_columns(pl.lit(1, pl.Int64).alias(N), pl.lit(new).alias(NEW))


def state_change(before: Frame, after: Frame) -> Frame:
    """Return the change from one set of open rows to another, with negative rows for removed ones."""
    return consolidate_frame(stack_frames([after, before.with_columns((-pl.col(N)).alias(N))]))
