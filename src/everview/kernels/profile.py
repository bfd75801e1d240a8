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
    identified,
    numbered,
    record_columns,
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
    touched, keys = numbered(stacked([side.select(columns) for side in new]), columns)
    if touched.is_empty():
        return new[0].clear()
    events = [_events(identified(f, keys, columns)) for f in (*old, *new)]
    ids, times, counts = (np.concatenate(parts) for parts in zip(*events, strict=True))
    # Which of the four frames an event comes from: old rows count before and after, new ones after only.
    source = np.repeat(np.arange(4), [len(e[0]) for e in events])
    order = np.lexsort((times, ids))
    ids, times, counts, source = ids[order], times[order], counts[order], source[order]
    first = np.flatnonzero(group_starts(ids) | group_starts(times))

    def running(*sources: int) -> Counts:
        """The copies after each instant. All rows of a record end, so that each record begins at 0 again."""
        return np.cumsum(np.add.reduceat(np.where(np.isin(source, sources), counts, 0), first))

    change = function(running(0, 2), running(1, 3)) - function(running(0), running(1))
    ids, times = ids[first], times[first]
    return _pieces(ids, times, change, group_starts(ids), keys, columns)


def _events(rows: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where copies begin (+n) and end (-n): the record's number, the instant, the count."""
    ids, n = rows["_id"].to_numpy(), rows[N].to_numpy()
    times = np.concatenate([rows[FROM].to_numpy(), rows[UNTIL].to_numpy()])
    return np.concatenate([ids, ids]), times, np.concatenate([n, -n])


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
