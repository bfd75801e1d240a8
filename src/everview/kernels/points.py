"""What happens at points of time: SYNC ON a stream, ISTREAM, DSTREAM, RSTREAM (paper 5, 5.3 and 1.2)."""

from __future__ import annotations

import numpy as np
import polars as pl

from everview.kernels.frame import (
    FROM,
    INFINITY,
    UNTIL,
    Frame,
    N,
    Result,
    Slice,
    State,
    added_up,
    consolidate,
    record_columns,
    stacked,
)  # fmt: skip

_DELTA = "_delta"


def synchronize_on(new: Frame, points: Frame, state: State, slice_: Slice) -> Result:
    """Rows appear and end at the first point at or after their begin and end.

    `points` has the instants of the slice that are points, in a column `point`. A row waits until the
    point after its begin has come; if the one after its end has not, it is emitted open and closed later.
    The state is the begins and ends that wait for their point.

    >>> from everview.kernels.frame import changes
    >>> rows = changes({"v": [1, 2]}, [(1, 9, 1), (5, 7, 1)])
    >>> points = pl.DataFrame({"point": [4, 8]})
    >>> synchronize_on(rows, points, {"waiting": waiting(rows).clear()}, Slice(0, 8)).output.rows()
    [(1, 4, 9223372036854775807, 1)]
    """
    queue = stacked([state["waiting"], waiting(new)])
    instants = np.sort(points["point"].to_numpy())
    times = queue[FROM].to_numpy()
    position = np.searchsorted(instants, times)
    come = position < len(instants)
    at = np.where(come, np.append(instants, INFINITY)[position], INFINITY)
    # A begin or an end whose point has come is an open row from that point on: +n or -n.
    ready = queue.with_columns(pl.Series(_DELTA, at)).filter(pl.Series(come))
    output = consolidate(ready.with_columns(pl.col(_DELTA).alias(FROM)).drop(_DELTA))
    return Result(output, {"waiting": _replaced(state["waiting"], queue.filter(pl.Series(~come)))})


def waiting(rows: Frame) -> Frame:
    """Each row as an open row for its begin and a negative one for its end."""
    ends = rows.filter(pl.col(UNTIL) < INFINITY).with_columns(
        pl.col(UNTIL).alias(FROM), (-pl.col(N)).alias(N)
    )
    return stacked([rows, ends]).with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))


def _replaced(before: Frame, after: Frame) -> Frame:
    """What to add to a state so that it becomes another."""
    return consolidate(stacked([after, before.with_columns((-pl.col(N)).alias(N))]))


def insertions(new: Frame, state: State, slice_: Slice, deletions: bool = False) -> Result:
    """ISTREAM (or DSTREAM): a row for every copy more (or fewer) than just before.

    From snapshot to snapshot, never row by row: adjacent intervals are no change. The state is the
    begins and ends that are still to come.

    >>> from everview.kernels.frame import changes
    >>> rows = changes({"v": [1, 1]}, [(1, 5, 1), (5, 9, 1)])
    >>> insertions(rows, {"coming": changing(rows).clear()}, Slice(0, 6)).output.rows()
    [(1, 1, 9223372036854775807, 1)]
    """
    coming = stacked([state["coming"], changing(new)])
    due = coming.filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))
    net = added_up(due, [*record_columns(new), UNTIL], [N])
    wanted = net.filter(pl.col(N) < 0 if deletions else pl.col(N) > 0)
    output = wanted.with_columns(
        pl.col(UNTIL).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.col(N).abs().alias(N)
    ).select(new.columns)
    return Result(output, {"coming": changing(new).filter(pl.col(UNTIL) > slice_.b1)})


def changing(rows: Frame) -> Frame:
    """The begins (+n) and ends (-n) of rows, each alive until it is due."""
    begins = rows.with_columns(pl.col(FROM).alias(UNTIL))
    ends = rows.filter(pl.col(UNTIL) < INFINITY).with_columns((-pl.col(N)).alias(N))
    return stacked([begins, ends]).with_columns(pl.lit(0, pl.Int64).alias(FROM))


def relation_at_points(new: Frame, state: State, slice_: Slice, step: int, origin: int) -> Result:
    """RSTREAM: the whole relation at every point of the grid in the slice; the state is the input.

    Points are there while the clock ticks: a row that holds for ever is not streamed out for ever.

    >>> from everview.kernels.frame import changes
    >>> rows = changes({"v": [1]}, [(1, INFINITY, 1)])
    >>> last = Slice(0, INFINITY - 1, present=5)
    >>> relation_at_points(rows, {"rows": rows.clear()}, last, 2, 0).output[FROM].to_list()
    [2, 4]
    """
    begin, end = slice_.ticking
    if begin > end:
        return Result(new.clear(), {"rows": new})
    rows = stacked([state["rows"], new])
    low = pl.max_horizontal(FROM, pl.lit(begin, pl.Int64))
    high = pl.min_horizontal(pl.col(UNTIL) - 1, pl.lit(end, pl.Int64))
    first = pl.lit(origin, pl.Int64) - ((pl.lit(origin, pl.Int64) - low) // step) * step
    streamed = (
        rows.with_columns(first.alias("_first"), high.alias("_last"))
        .filter(pl.col("_first") <= pl.col("_last"))
        .with_columns(pl.int_ranges("_first", pl.col("_last") + 1, step).alias(FROM))
        .explode(FROM)
        .with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))
        .select(new.columns)
    )
    return Result(consolidate(streamed), {"rows": new})
