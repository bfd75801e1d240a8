"""Operators on counts: distinct, EXCEPT ALL, INTERSECT ALL, max-union (paper 1, equations 4, 5, 13, 14).

Per touched record the number of copies is a step function of time, before and after the new rows. What
is emitted is f(after) - f(before), as maximal pieces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from everview.kernels.frame import (
    FROM,
    UNTIL,
    Frame,
    N,
    Result,
    State,
    group_starts,
    matching,
    numbered,
    record_columns,
    running_sum,
    stacked,
)  # fmt: skip

Counts = npt.NDArray[np.int64]
Function = Callable[[Counts, Counts], Counts]


def _once(left: Counts, right: Counts) -> Counts:
    return np.minimum(left, 1)


def _left_over(left: Counts, right: Counts) -> Counts:
    more: Counts = np.maximum(left - right, 0)
    return more


FUNCTIONS: dict[str, Function] = {
    "distinct": _once,
    "difference": _left_over,
    "intersection": np.minimum,
    "max_union": np.maximum,
}


def profile(new: tuple[Frame, Frame], state: State, function: str) -> Result:
    """One step of a two-sided operator; its state is both inputs.

    >>> from everview.kernels.frame import changes
    >>> left, right = changes({"v": [1]}, [(0, 9, 2)]), changes({"v": [1]}, [(5, 20, 1)])
    >>> none = {"left": left.clear(), "right": right.clear()}
    >>> profile((left, right), none, "difference").output.rows()
    [(1, 0, 5, 2), (1, 5, 9, 1)]
    """
    left, right = new
    output = _difference((state["left"], state["right"]), (left, right), FUNCTIONS[function])
    return Result(output, {"left": left, "right": right})


def distinct(new: Frame, state: State) -> Result:
    """δ over a stream that may have negative rows: the state is the input."""
    empty = new.clear()
    return Result(_difference((state["rows"], empty), (new, empty), _once), {"rows": new})


def distinct_unsigned(new: Frame, state: State) -> Result:
    """δ*: over rows that are never taken back it is enough to know what is already covered (paper 2, 5.3.1).

    >>> from everview.kernels.frame import changes
    >>> covered = {"covered": changes({"v": [1]}, [(0, 5, 1)])}
    >>> step = distinct_unsigned(changes({"v": [1]}, [(0, 9, 1)]), covered)
    >>> step.output.rows(), step.added["covered"].rows()
    ([(1, 5, 9, 1)], [(1, 5, 9, 1)])
    """
    empty = new.clear()
    output = _difference((state["covered"], empty), (new, empty), _once)
    return Result(output, {"covered": output})


def _difference(old: tuple[Frame, Frame], new: tuple[Frame, Frame], function: Function) -> Frame:
    """f(after) - f(before) of the touched records, as maximal pieces."""
    columns = record_columns(new[0])
    touched = stacked([side.select(columns) for side in new])
    if touched.is_empty():
        return new[0].clear()
    known = [matching(side, touched, columns) for side in old]
    events = stacked([_events(f, side, is_new) for is_new, frames in ((False, known), (True, list(new)))
                      for side, f in enumerate(frames)])  # fmt: skip
    events, keys = numbered(events, columns)
    sums = [f"_{when}{side}" for when in ("before", "after") for side in (0, 1)]
    steps = events.group_by("_id", "_t").agg(pl.col(sums).sum()).sort("_id", "_t")
    ids, times = steps["_id"].to_numpy(), steps["_t"].to_numpy()
    starts = group_starts(ids)
    counts = {s: running_sum(steps[s], starts).to_numpy() for s in sums}
    change = function(counts["_after0"], counts["_after1"]) - function(counts["_before0"], counts["_before1"])
    return _pieces(ids, times, change, starts, keys, columns)


def _events(frame: Frame, side: int, is_new: bool) -> Frame:
    """Where copies begin and end: new rows count after only, old ones before and after."""
    record = record_columns(frame)

    def at(time: str, sign: int) -> Frame:
        count = sign * pl.col(N)
        none = pl.lit(0, pl.Int64)
        return frame.select(
            *record,
            pl.col(time).alias("_t"),
            *((none if is_new or s != side else count).alias(f"_before{s}") for s in (0, 1)),
            *((count if s == side else none).alias(f"_after{s}") for s in (0, 1)),
        )

    return stacked([at(FROM, 1), at(UNTIL, -1)])


def _pieces(
    ids: np.ndarray,
    times: np.ndarray,
    change: np.ndarray,
    starts: np.ndarray,
    keys: Frame,
    columns: list[str],
) -> Frame:
    """Maximal pieces of constant change, as rows."""
    previous = np.zeros_like(change)
    previous[1:] = change[:-1]
    previous[starts] = 0
    kept = np.flatnonzero(change != previous)
    ids, times, change = ids[kept], times[kept], change[kept]
    until = np.empty_like(times)
    until[:-1] = times[1:]
    shown = np.flatnonzero(change != 0)
    pieces = pl.DataFrame(
        {"_id": ids[shown], FROM: times[shown], UNTIL: until[shown], N: change[shown]},
        {"_id": pl.UInt32, FROM: pl.Int64, UNTIL: pl.Int64, N: pl.Int64},
    )
    return pieces.join(keys, on="_id", how="left", maintain_order="left").select(*columns, FROM, UNTIL, N)
