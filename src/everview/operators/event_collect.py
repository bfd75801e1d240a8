"""Collect: GROUP BY of an event query; a group goes out once, when it is whole (paper 3, def. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.algebra.time import LEAST
from everview.algebra.types import DataType
from everview.operators.aggregate import Sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.base import InputColumns, Operator, column
from everview.operators.columnar.frame import BEFORE_ALL, Frame, Increment, Slice, State, name_by_position
from everview.operators.columnar.keys import sort_by_key
from everview.operators.event_operator import (
    WaitingOperator,
    alive_rows,
    due_rows,
    final_rows,
    stack_rows,
    sum_copies,
    with_until,
)


@dataclass(frozen=True, eq=False)
class CollectOperator(WaitingOperator):
    """GROUP BY the first `groups` columns of the input; the arguments of the aggregates are columns too.

    The wait's column is one of the keys, so that all rows of a group are due together. State: the keys and
    arguments of the groups that are not due, each record once with the number of its copies.

    >>> from everview.algebra.types import BIGINT, INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.event_operator import EventWait
    >>> from everview.operators.scan import ScanOperator
    >>> from everview.temporal.clocks import Clock
    >>> s, total = ScanOperator("s", (TIMESTAMP, INT)), AggregateColumn("sum", "c1", "=c1")
    >>> collect = CollectOperator(s, 1, (total,), (BIGINT,), wait=EventWait(0, Clock()))
    >>> rows = make_frame({"c0": [5, 5, 8], "c1": [3, 4, 1]}, [(0, 9, 1)] * 3)
    >>> step = collect.increment([rows], collect.empty_state([rows]), Slice(0, 5))
    >>> step.output.drop("_from", "_until").rows(), step.added["groups"]["c0"].to_list()
    ([(5, 7, 1)], [8])
    """

    parts: ClassVar = {"groups": "groups"}

    input: Operator
    groups: int
    aggregates: tuple[AggregateColumn, ...]
    results: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._set_types(self.input.types[: self.groups] + self.results)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(self.groups), *[None] * len(self.results)),)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(self.groups))

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        rows = sum_copies(with_until(new[0], self.wait))
        due = final_rows(due_rows(stack_rows(state["groups"], rows), slice_.b1))
        keys = [column(i) for i in range(self.groups)]
        added = {"groups": sort_by_key(alive_rows(rows, slice_.b1), keys)}
        plan = Sweep(tuple(keys), self.aggregates)
        # All rows hold at one instant, so that the sweep has one step for each group.
        found = sweep(plan, due, empty_sweep(plan, due), _ONE_INSTANT).output
        return Increment(final_rows(name_by_position(found)), added)


_ONE_INSTANT = Slice(BEFORE_ALL, LEAST)
