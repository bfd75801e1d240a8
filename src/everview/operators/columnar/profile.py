"""Operators on counts: distinct, EXCEPT ALL, INTERSECT ALL, max-union (paper 1, equations 4, 5, 13, 14).

The multiplicity of a touched record is a step function of time, before and after the new rows. The output
is f(after) - f(before), as maximal pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    State,
    group_starts,
    record_columns,
    stack_frames,
)
from everview.operators.columnar.hashing import Ints as Counts
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.keys import group_rows, match_keys, sort_by_key
from everview.operators.columnar.lazy import np
from everview.operators.columnar.timeline import constant_pieces, sort_by_time

CountFunction = Callable[[Counts, Counts], Counts]


def _once(left: Counts, right: Counts) -> Counts:
    return np.minimum(left, 1)


def _left_over(left: Counts, right: Counts) -> Counts:
    more: Counts = np.maximum(left - right, 0)
    return more


COUNT_FUNCTIONS: dict[str, CountFunction] = {
    "distinct": _once,
    "difference": _left_over,
    "intersection": lambda left, right: np.minimum(left, right),
    "max_union": lambda left, right: np.maximum(left, right),
}


def profile_difference(new: tuple[Frame, Frame], state: State, function: str) -> Increment:
    """Return the increment of an operator on two inputs; its state is both of them.

    >>> from everview.operators.columnar.frame import make_frame
    >>> left, right = make_frame({"v": [1]}, [(0, 9, 2)]), make_frame({"v": [1]}, [(5, 20, 1)])
    >>> none = {"left": left.clear(), "right": right.clear()}
    >>> profile_difference((left, right), none, "difference").output.rows()
    [(1, 0, 5, 2), (1, 5, 9, 1)]
    """
    columns = record_columns(new[0])
    numbers = [hash_keys(side, columns) for side in new]
    output = _difference((state["left"], state["right"]), new, numbers, COUNT_FUNCTIONS[function])
    left, right = (sort_by_key(side, columns, own) for side, own in zip(new, numbers, strict=True))
    return Increment(output, {"left": left, "right": right})


def distinct_rows(new: Frame, state: State) -> Increment:
    """Return the increment of δ over signed rows; its state is the input."""
    columns = record_columns(new)
    numbers = hash_keys(new, columns)
    output = _difference((state["rows"], new.clear()), (new, new.clear()), [numbers], _once)
    return Increment(output, {"rows": sort_by_key(new, columns, numbers)})


def distinct_unsigned(new: Frame, state: State) -> Increment:
    """Return the increment of δ* over unsigned rows; its state is the covered intervals (paper 2, 5.3.1).

    >>> from everview.operators.columnar.frame import make_frame
    >>> covered = {"covered": make_frame({"v": [1]}, [(0, 5, 1)])}
    >>> step = distinct_unsigned(make_frame({"v": [1]}, [(0, 9, 1)]), covered)
    >>> step.output.rows(), step.added["covered"].drop("_hash").rows()
    ([(1, 5, 9, 1)], [(1, 5, 9, 1)])
    """
    columns = record_columns(new)
    numbers = hash_keys(new, columns)
    output = _difference((state["covered"], new.clear()), (new, new.clear()), [numbers], _once)
    return Increment(output, {"covered": sort_by_key(output, columns)})


def _difference(
    old: tuple[Frame, Frame], new: tuple[Frame, Frame], numbers: Sequence[Counts], function: CountFunction
) -> Frame:
    """Return f(after) - f(before) of the touched records; `numbers` are the hashes of the new rows."""
    columns = record_columns(new[0])
    rows = stack_frames([side[[*columns, FROM, UNTIL, N]] for side in new])
    if rows.is_empty():
        return new[0].clear()
    groups = group_rows(rows, columns, np.concatenate(numbers))
    records = rows[groups.firsts]
    size = new[0].height
    # Old rows count before and after, new ones after only.
    events = [
        *(_state_events(side, records, columns, groups.hashes) for side in old),
        _events(groups.ids[:size], new[0]),
        _events(groups.ids[size:], new[1]),
    ]
    ids, times, counts = (np.concatenate(parts) for parts in zip(*events, strict=True))
    sizes = [len(e[0]) for e in events]
    order, first = sort_by_time(ids, times)
    ids, times, counts = ids[order][first], times[order][first], counts[order]
    source = np.repeat(np.arange(4, dtype=np.int8), sizes)[order]

    def running(which: int) -> Counts:
        """Return the multiplicity after each instant; it is 0 after the last instant of each record."""
        if not sizes[which]:
            return np.zeros(len(first), dtype=np.int64)
        return np.cumsum(np.add.reduceat(np.where(source == which, counts, 0), first))

    left, right = running(0), running(1)
    change = function(left + running(2), right + running(3)) - function(left, right)
    return constant_pieces(records, columns, ids, times, change, group_starts(ids))


def _state_events(
    rows: Frame, records: Frame, columns: list[str], numbers: Counts
) -> tuple[Counts, Counts, Counts]:
    """Return the begins and ends of the rows of a state that have one of the records."""
    found, ids = match_keys(rows, columns, records, columns, numbers)
    return _events(ids, rows[[FROM, UNTIL, N]][found])


def _events(ids: Counts, rows: Frame) -> tuple[Counts, Counts, Counts]:
    """Return the begins (+n) and ends (-n) of rows: number of the record, instant, count."""
    n = rows[N].to_numpy()
    times = np.concatenate([rows[FROM].to_numpy(), rows[UNTIL].to_numpy()])
    return np.concatenate([ids, ids]), times, np.concatenate([n, -n])
