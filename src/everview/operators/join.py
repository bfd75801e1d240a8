"""Join: every pair of rows with equal keys that overlap in time (paper 1, equations 3 and 11; algorithm 5).

A pair is the concatenation of both records during [max from, min until), n·m times. New pairs are ΔL×R, L×ΔR
and ΔL×ΔR. The rows of a state that have one of the new keys are found by the numbers of their keys
(`columnar/keys.py`); the others are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.band_join import band_join
from everview.operators.base import (
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
    side_by_side,
    sides_to_read,
    two_inputs_key,
)
from everview.operators.columnar.frame import (
    Frame,
    Increment,
    Slice,
    State,
    by_position,
    on_the_right,
    stacked,
)
from everview.operators.columnar.keys import arranged, matches, numbers_of
from everview.operators.columnar.pairs import paired, without_nulls


@dataclass(frozen=True, eq=False)
class JoinOperator(StatefulOperator):
    """Pairs with equal keys that overlap in time: the left columns, then the right ones. State: both inputs.

    Without keys every pair that overlaps in time matches; the right input then goes to every partition.

    >>> from everview.algebra.types import INT, STRING
    >>> from everview.operators.columnar.frame import changes
    >>> from everview.operators.scan import ScanOperator
    >>> s, r = ScanOperator("s", (INT, STRING)), ScanOperator("r", (INT, STRING))
    >>> join = JoinOperator(s, r, (0,), (0,))
    >>> left = changes({"c0": [1], "c1": ["x"]}, [(0, 9, 1)])
    >>> right = changes({"c0": [1, 2], "c1": ["y", "z"]}, [(5, 20, 2), (0, 9, 1)])
    >>> join.increment([left, right], join.empty_state([left, right]), Slice(-1, 9)).output.rows()
    [(1, 'x', 1, 'y', 5, 9, 2)]
    """

    left: Operator
    right: Operator
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool = False

    def __post_init__(self) -> None:
        self._set_types(self.left.types + self.right.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return side_by_side(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return two_inputs_key(self.left_keys, self.right_keys, len(self.left.types))

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def state(self) -> tuple[StatePart, ...]:
        return StatePart.of("left", self.rows_of(0)), StatePart.of("right", self.rows_of(1))

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": on_the_right(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        left_on = [column(i) for i in self.left_keys]
        right_on = [f"r{i}" for i in self.right_keys]
        found = join_pairs((new[0], on_the_right(new[1])), state, left_on, right_on, self.nulls_equal)
        return Increment(by_position(found.output), found.added)


def join_pairs(
    new: tuple[Frame, Frame],
    state: State,
    left_on: Sequence[str],
    right_on: Sequence[str],
    nulls_equal: bool = False,
) -> Increment:
    """Return the new pairs, and the new rows for the state; without keys all that overlap in time match."""
    if not left_on:
        return band_join(new, state)
    left, right = (
        arranged(side if nulls_equal else without_nulls(side, on), on)
        for side, on in zip(new, (left_on, right_on), strict=True)
    )
    old_left, there = matches(state["left"], left_on, right, right_on, numbers_of(right, right_on))
    new_left, both = matches(left, left_on, right, right_on, numbers_of(right, right_on))
    old_right, here = matches(state["right"], right_on, left, left_on, numbers_of(left, left_on))
    pairs = [
        paired(state["left"], old_left, right, there),
        paired(left, new_left, right, both),
        paired(left, here, state["right"], old_right),
    ]
    return Increment(stacked(pairs), {"left": left, "right": right})
