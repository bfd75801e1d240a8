"""Operators on counts whose results may be taken back: EXCEPT ALL, and δ and others over signed rows.

Paper 1 (equations 4, 5, 13, 14) defines them by the number of copies at each instant. `profile.py` works out
that number for all the time to come and emits results that know their end. Where results may be taken back
anyway (STR, paper 2, section 3.1), it is enough to know it for the slice: what holds at its end is emitted
without an end, and taken back when it ceases. Then neither the work nor the state of a record depends on how
many rows it has: the state is a count a side, and the begins and ends to come.
"""

from __future__ import annotations

from everview.operators.aggregates.accumulators import Accumulator, Summed
from everview.operators.aggregates.events import Events, Steps, steps
from everview.operators.columnar.frame import UNTIL, Frame, Increment, N, Slice, State, record_columns
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.profile import COUNT_FUNCTIONS
from everview.operators.columnar.timeline import constant_pieces

_LEFT, _RIGHT = Accumulator(Summed.LEFT), Accumulator(Summed.RIGHT)


def count_copies(new: tuple[Frame, Frame], state: State, function: str, slice_: Slice) -> Increment:
    """One step of a function of the copies on both sides; "distinct" looks at the left side only.

    >>> from everview.operators.columnar.frame import changes
    >>> left, right = changes({"v": [1]}, [(0, 9, 2)]), changes({"v": [1]}, [(5, 20, 1)])
    >>> step = count_copies((left, right), empty_counts(left), "difference", Slice(-1, 6, first=True))
    >>> step.output.rows()
    [(1, 0, 5, 2), (1, 5, 9223372036854775807, 1)]
    >>> count_copies((left.clear(), right.clear()), step.added, "difference", Slice(6, 9)).output.rows()
    [(1, 9, 9223372036854775807, -1)]
    """
    keys = record_columns(new[0])
    sides = [
        Events.of(rows, keys, {name: rows[N].to_numpy()}, slice_)
        for rows, name in zip(new, (_LEFT, _RIGHT), strict=True)
        if name == _LEFT or not rows.is_empty()
    ]
    queue = pl.concat([later for _, later in sides], how="diagonal")
    due = Events.due(state["queue"], keys, slice_)
    stepped = steps([due, *(now for now, _ in sides)], state["counts"], keys, slice_.b0)
    output = _emitted(stepped, function, keys)
    return Increment(output, {"queue": queue, "counts": stepped.added(keys)})


def empty_counts(new: Frame) -> dict[str, Frame]:
    """The state before the first step."""
    columns = {c: new.schema[c] for c in record_columns(new)}
    empty = pl.DataFrame(schema={**columns, UNTIL: pl.Int64, _LEFT.column: pl.Int64, _RIGHT.column: pl.Int64})
    return {"queue": empty, "counts": empty}


def _emitted(stepped: Steps, function: str, keys: list[str]) -> Frame:
    """What the function's value differs by from the one that was carried over; the last piece is open."""
    zero = np.zeros(stepped.size, dtype=np.int64)
    value = COUNT_FUNCTIONS[function](stepped.sums.get(_LEFT, zero), stepped.sums.get(_RIGHT, zero))
    change = value - value[stepped.first][stepped.ids]
    return constant_pieces(stepped.groups, keys, stepped.ids, stepped.times, change, stepped.first)
