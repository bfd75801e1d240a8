"""Operators on multiplicities whose results may be retracted: EXCEPT ALL, and δ and others over signed rows.

Paper 1 (equations 4, 5, 13, 14) defines them by the multiplicity at each instant. `profile.py` computes it
for all future instants and emits results with their ends. Where results may be retracted in any case (STR,
paper 2, section 3.1), the slice is enough: a result that holds at its end is emitted without an end, and
retracted when it ceases. Then neither the time nor the state for a record depends on its number of rows:
the state is a count for each side, and the begins and ends to come.
"""

from __future__ import annotations

from everview.operators.aggregates.accumulators import Accumulator, SumKind
from everview.operators.aggregates.events import Events, Steps, sum_events
from everview.operators.columnar.frame import UNTIL, Frame, Increment, N, Slice, State, record_columns
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.profile import COUNT_FUNCTIONS
from everview.operators.columnar.timeline import constant_pieces

_LEFT, _RIGHT = Accumulator(SumKind.LEFT), Accumulator(SumKind.RIGHT)


def step_counts(new: tuple[Frame, Frame], state: State, function: str, slice_: Slice) -> Increment:
    """Return the increment of a function of the multiplicities on both sides; "distinct" uses the left one.

    >>> from everview.operators.columnar.frame import make_frame
    >>> left, right = make_frame({"v": [1]}, [(0, 9, 2)]), make_frame({"v": [1]}, [(5, 20, 1)])
    >>> step = step_counts((left, right), empty_counts(left), "difference", Slice(-1, 6, first=True))
    >>> step.output.rows()
    [(1, 0, 5, 2), (1, 5, 9223372036854775807, 1)]
    >>> step_counts((left.clear(), right.clear()), step.added, "difference", Slice(6, 9)).output.rows()
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
    stepped = sum_events([due, *(now for now, _ in sides)], state["counts"], keys, slice_.b0)
    output = _emit(stepped, function, keys)
    return Increment(output, {"queue": queue, "counts": stepped.added(keys)})


def empty_counts(new: Frame) -> dict[str, Frame]:
    """Return the state before the first step."""
    columns = {c: new.schema[c] for c in record_columns(new)}
    empty = pl.DataFrame(schema={**columns, UNTIL: pl.Int64, _LEFT.column: pl.Int64, _RIGHT.column: pl.Int64})
    return {"queue": empty, "counts": empty}


def _emit(stepped: Steps, function: str, keys: list[str]) -> Frame:
    """Return the changes of the function's value relative to its value at b0; the last piece is open."""
    zero = np.zeros(stepped.size, dtype=np.int64)
    value = COUNT_FUNCTIONS[function](stepped.sums.get(_LEFT, zero), stepped.sums.get(_RIGHT, zero))
    change = value - value[stepped.first][stepped.ids]
    return constant_pieces(stepped.groups, keys, stepped.ids, stepped.times, change, stepped.first)
