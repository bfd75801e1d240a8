"""The negative tuple approach: the end of a row is told by another row (paper 2, 2.3.1).

Rows go on without an end; when time comes to where one ends, it is taken back. So whatever is above sees rows
that come and are taken back, and none whose end is known before.
"""

from __future__ import annotations

import polars as pl

from everview.kernels.frame import FROM, INFINITY, UNTIL, Frame, N, Result, Slice, State, stacked


def negative_tuples(new: Frame, state: State, slice_: Slice) -> Result:
    """One step; the state is the ends to come, as negative rows that are alive until they are due.

    >>> from everview.kernels.frame import changes
    >>> rows = changes({"v": [1, 2]}, [(1, 5, 1), (3, 9, 2)])
    >>> step = negative_tuples(rows, {"coming": rows.clear()}, Slice(0, 6))
    >>> [(v, begin, n) for v, begin, _, n in step.output.rows()]
    [(1, 1, 1), (2, 3, 2), (1, 5, -1)]
    >>> step.added["coming"].rows()
    [(2, 0, 9, -2)]
    """
    ends = new.filter(pl.col(UNTIL) < INFINITY).with_columns(
        pl.lit(0, pl.Int64).alias(FROM), (-pl.col(N)).alias(N)
    )
    is_due = (pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1)
    due = stacked([state["coming"].filter(is_due), ends.filter(is_due)])
    rows = stacked([new, due.with_columns(pl.col(UNTIL).alias(FROM))])
    output = rows.with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))
    return Result(output, {"coming": ends.filter(pl.col(UNTIL) > slice_.b1)})
