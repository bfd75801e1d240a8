"""Windows of rows and tagged streams: what a row's end is, is known when a later row comes (paper 4, 3.2).

A row is in the window until the arrival that pushes it out, or until its own end. While no later row has
pushed it out it is emitted as it is; when one does, a negative row closes it. The rows of the input end in
the order in which they came, so that one that was pushed out never comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.operators.columnar.frame import (
    FROM,
    INFINITY,
    UNTIL,
    Frame,
    Increment,
    N,
    State,
    consolidate,
    record_columns,
    stacked,
)
from everview.operators.columnar.hashing import hashes
from everview.operators.columnar.keys import arranged, grouped, matches
from everview.operators.columnar.lazy import np, pl

_NEW, _END = "_new", "_end"


def latest_rows(
    new: Frame, state: State, count: int, partition: Sequence[str], order: Sequence[str]
) -> Increment:
    """[PARTITION BY … ROWS count]; the state is the rows in the window, still open.

    `order` sorts rows within a partition: the time line, the SEQUENCE BY columns, all columns.

    >>> from everview.operators.columnar.frame import changes
    >>> rows = changes({"v": [1, 2, 3]}, [(1, INFINITY, 1), (4, INFINITY, 1), (6, INFINITY, 1)])
    >>> latest_rows(rows, {"open": rows.clear()}, 2, [], [FROM, "v"]).output.rows()
    [(1, 1, 6, 1), (2, 4, 9223372036854775807, 1), (3, 6, 9223372036854775807, 1)]
    """
    return _pushed_out(new, state, count, partition, order, deletes=None)


def latest_per_key(
    new: Frame, state: State, key: Sequence[str], order: Sequence[str], deletes: str
) -> Increment:
    """A tagged stream: a row replaces the one of the same key; one whose `deletes` is true only closes it."""
    return _pushed_out(new, state, 1, key, order, deletes)


def _pushed_out(
    new: Frame, state: State, count: int, partition: Sequence[str], order: Sequence[str], deletes: str | None
) -> Increment:
    columns = [*record_columns(new), FROM, UNTIL, N]
    known = consolidate(_touched(new, state["open"], partition)[columns])
    both = stacked([_copies(known, False), _copies(new, True)])
    both = both.sort([*partition, *order], nulls_last=False, maintain_order=True)
    end = pl.col(FROM).shift(-count)
    end = end.over(partition) if partition else end
    both = both.with_columns(end.fill_null(INFINITY).alias(_END))
    shown = both if deletes is None else both.filter(~pl.col(deletes).fill_null(False))
    opened = shown.filter(pl.col(_NEW)).with_columns(pl.min_horizontal(_END, UNTIL).alias(UNTIL))
    opened = opened.filter(pl.col(FROM) < pl.col(UNTIL))
    closed = shown.filter(~pl.col(_NEW) & (pl.col(_END) < pl.col(UNTIL))).with_columns(
        pl.col(_END).alias(FROM), pl.lit(-1, pl.Int64).alias(N)
    )
    still_open = shown.filter(pl.col(_END) == INFINITY).select(columns)
    output = stacked([closed.select(columns), opened.select(columns)])
    return Increment(output, {"open": arranged(_change(known, still_open), partition)})


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
    return consolidate(stacked([after, before.with_columns((-pl.col(N)).alias(N))]))
