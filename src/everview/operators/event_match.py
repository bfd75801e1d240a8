"""Match: every pair of rows of an event query with equal keys, as soon as both are there (paper 3, def. 8).

New pairs are ΔL×R, L×ΔR and ΔL×ΔR. A row is kept until no partner of it can come any more: each side has its
own wait, by a time in its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.operators.base import (
    InputColumns,
    Operator,
    StatePart,
    column,
    join_input_columns,
    join_key,
    sides_to_read,
)
from everview.operators.columnar.frame import (
    UNTIL,
    Frame,
    Increment,
    Slice,
    State,
    name_by_position,
    name_right_columns,
)
from everview.operators.event_operator import EventOperator, EventWait, final_rows
from everview.operators.join import join_pairs
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class MatchOperator(EventOperator):
    """Pairs with equal keys: the left columns, then the right ones. State: both inputs, while they wait.

    Without keys every pair matches; the right input then goes to every partition.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s, r = ScanOperator("s", (INT, TIMESTAMP)), ScanOperator("r", (INT, TIMESTAMP))
    >>> match = MatchOperator(s, r, (0,), (0,), False, EventWait(1, Clock()), EventWait(1, Clock()))
    >>> left = make_frame({"c0": [1], "c1": [5]}, [(0, 9, 1)])
    >>> right = make_frame({"c0": [1, 2], "c1": [7, 8]}, [(0, 9, 2), (0, 9, 1)])
    >>> step = match.increment([left, right], match.empty_state([left, right]), Slice(0, 0))
    >>> step.output.drop("_from", "_until").rows(), step.added["right"]["_until"].to_list()
    ([(1, 5, 1, 7, 2)], [7, 8])
    """

    left: Operator
    right: Operator
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool
    left_wait: EventWait
    right_wait: EventWait

    def __post_init__(self) -> None:
        self._set_types(self.left.types + self.right.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return join_input_columns(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return join_key(self.left_keys, self.right_keys, len(self.left.types))

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return {"left": self.left_wait, "right": self.right_wait}

    @property
    def clock(self) -> Clock | None:
        return Clock()  # no row is held back

    @property
    def state(self) -> tuple[StatePart, ...]:
        return self.event_part("left", "left input", 0), self.event_part("right", "right input", 1)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": name_right_columns(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        left_on = [column(i) for i in self.left_keys]
        right_on = [f"r{i}" for i in self.right_keys]
        sides = final_rows(new[0]), name_right_columns(final_rows(new[1]))
        # All rows begin at the least instant, so that every pair overlaps, whatever `_until` says.
        found = join_pairs(sides, state, left_on, right_on, self.nulls_equal)
        added = {
            "left": found.added["left"].with_columns(self.left_wait.until("c").alias(UNTIL)),
            "right": found.added["right"].with_columns(self.right_wait.until("r").alias(UNTIL)),
        }
        return Increment(final_rows(name_by_position(found.output)), added)
