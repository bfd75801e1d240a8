"""Insertions: ISTREAM and DSTREAM, the rows that enter a relation or leave it (paper 5, 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.algebra.time import INFINITY
from everview.operators.base import Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    record_columns,
    stack_frames,
    sum_by_key,
)
from everview.operators.columnar.lazy import pl


@dataclass(frozen=True, eq=False)
class InsertionsOperator(StatefulOperator):
    """ISTREAM, or with `deletions` DSTREAM: the increase (or decrease) of multiplicity at each instant.

    Snapshots are compared, not rows: adjacent intervals are no change. State: the begins and ends
    to come.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> inserted = InsertionsOperator(ScanOperator("s", (INT,)), deletions=False)
    >>> rows = make_frame({"c0": [1, 1]}, [(1, 5, 1), (5, 9, 1)])
    >>> inserted.increment([rows], inserted.empty_state([rows]), Slice(0, 6)).output.rows()
    [(1, 1, 9223372036854775807, 1)]
    """

    input: Operator
    deletions: bool
    keeps_begins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def state(self) -> tuple[StatePart, ...]:
        waits = self.rows_of(0).waits
        if waits == 0:
            return ()
        text = "begins and ends to come"
        return (StatePart("coming", text, waits, until="until due", queue=True, may_cancel=False),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"coming": _begins_and_ends(new[0].clear())}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        arriving = _begins_and_ends(new[0])
        coming = stack_frames([state["coming"], arriving])
        due = coming.filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))
        net = sum_by_key(due, [*record_columns(new[0]), UNTIL], [N])
        wanted = net.filter(pl.col(N) < 0 if self.deletions else pl.col(N) > 0)
        output = wanted.with_columns(
            pl.col(UNTIL).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.col(N).abs().alias(N)
        ).select(new[0].columns)
        return Increment(output, {"coming": arriving.filter(pl.col(UNTIL) > slice_.b1)})


def _begins_and_ends(rows: Frame) -> Frame:
    """Return the begins (+n) and ends (-n) of rows, each alive until it is due."""
    begins = rows.with_columns(pl.col(FROM).alias(UNTIL))
    ends = rows.filter(pl.col(UNTIL) < INFINITY).with_columns((-pl.col(N)).alias(N))
    return stack_frames([begins, ends]).with_columns(pl.lit(0, pl.Int64).alias(FROM))
