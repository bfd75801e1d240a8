"""Relation stream: RSTREAM, the whole relation at every point of a grid (paper 5, 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY, Grid
from everview.operators.base import Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    Slice,
    State,
    consolidate_frame,
    stack_frames,
)
from everview.operators.columnar.lazy import pl


@dataclass(frozen=True, eq=False)
class RelationStreamOperator(StatefulOperator):
    """RSTREAM: the relation at every point of the grid from the first timestamp to the present.

    So a row that never ends has finitely many points. State: the input.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> stream = RelationStreamOperator(ScanOperator("s", (INT,)), Grid(2))
    >>> rows = make_frame({"c0": [1]}, [(1, INFINITY, 1)])
    >>> last = Slice(0, INFINITY - 1, present=5)
    >>> stream.increment([rows], stream.empty_state([rows]), last).output[FROM].to_list()
    [2, 4]
    """

    input: Operator
    grid: Grid

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def state(self) -> tuple[StatePart, ...]:
        return (StatePart.of("rows", self.rows_of(0), "the relation"),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"rows": new[0].clear()}

    def runs_without_rows(self, slice_: Slice, has_state: bool) -> bool:
        begin, end = slice_.tick_range
        return has_state and begin <= end and self.grid.ceil(begin) <= end

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        begin, end = slice_.tick_range
        if begin > end:
            return Increment(new[0].clear(), {"rows": new[0]})
        step, origin = self.grid.step, pl.lit(self.grid.origin, pl.Int64)
        low = pl.max_horizontal(FROM, pl.lit(begin, pl.Int64))
        high = pl.min_horizontal(pl.col(UNTIL) - 1, pl.lit(end, pl.Int64))
        first = origin - ((origin - low) // step) * step
        streamed = (
            stack_frames([state["rows"], new[0]])
            .with_columns(first.alias("_first"), high.alias("_last"))
            .filter(pl.col("_first") <= pl.col("_last"))
            .with_columns(pl.int_ranges("_first", pl.col("_last") + 1, step).alias(FROM))
            .explode(FROM)
            .with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))
            .select(new[0].columns)
        )
        return Increment(consolidate_frame(streamed), {"rows": new[0]})
