"""Join: every pair of rows with equal keys that overlap in time (paper 1, equations 3 and 11; algorithm 5).

A pair is the concatenation of both records during [max from, min until), n·m times. New pairs are ΔL×R, L×ΔR
and ΔL×ΔR. The rows of a state that have one of the new keys are found by the hashes of their keys
(`columnar/keys.py`); the others are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.band_join import band_join
from everview.operators.base import (
    Arrangement,
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
    join_input_columns,
    join_key,
    sides_to_read,
)
from everview.operators.columnar.frame import (
    Frame,
    Increment,
    Slice,
    State,
    name_by_position,
    name_right_columns,
    stack_frames,
)
from everview.operators.columnar.hashing import MEMBER
from everview.operators.columnar.keys import key_hashes, match_keys, sort_by_key
from everview.operators.columnar.pairs import drop_null_rows, pair_rows


@dataclass(frozen=True, eq=False)
class JoinOperator(StatefulOperator):
    """Pairs with equal keys that overlap in time: the left columns, then the right ones. State: both inputs.

    Without keys every pair that overlaps in time matches; the right input then goes to every partition.

    >>> from everview.algebra.types import INT, STRING
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s, r = ScanOperator("s", (INT, STRING)), ScanOperator("r", (INT, STRING))
    >>> join = JoinOperator(s, r, (0,), (0,))
    >>> left = make_frame({"c0": [1], "c1": ["x"]}, [(0, 9, 1)])
    >>> right = make_frame({"c0": [1, 2], "c1": ["y", "z"]}, [(5, 20, 2), (0, 9, 1)])
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
        return join_input_columns(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return join_key(self.left_keys, self.right_keys, len(self.left.types))

    @property
    def runs_in_family(self) -> bool:
        return bool(self.left_keys)

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def state(self) -> tuple[StatePart, ...]:
        return StatePart.of("left", self.rows_of(0)), StatePart.of("right", self.rows_of(1))

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        if not self.left_keys:
            return {}
        return {
            "left": Arrangement(0, self.left_keys, self.nulls_equal),
            "right": Arrangement(1, self.right_keys, self.nulls_equal, prefix="r"),
        }

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": name_right_columns(new[1]).clear()}

    def parts_to_read(self, new: Sequence[Frame]) -> set[str]:
        return sides_to_read(new)

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        member = [MEMBER] if MEMBER in new[0].columns else []
        left_on = [column(i) for i in self.left_keys] + member
        right_on = [f"r{i}" for i in self.right_keys] + member
        found = join_pairs((new[0], name_right_columns(new[1])), state, left_on, right_on, self.nulls_equal)
        return Increment(name_by_position(found.output), found.added)


def join_pairs(
    new: tuple[Frame, Frame],
    state: State,
    left_on: Sequence[str],
    right_on: Sequence[str],
    nulls_equal: bool = False,
) -> Increment:
    """Return the new pairs, and the new rows for the state; without keys all pairs that overlap match."""
    if not left_on:
        return band_join(new, state)
    left, right = (
        sort_by_key(side if nulls_equal else drop_null_rows(side, on), on)
        for side, on in zip(new, (left_on, right_on), strict=True)
    )
    old_left, there = match_keys(state["left"], left_on, right, right_on, key_hashes(right, right_on))
    new_left, both = match_keys(left, left_on, right, right_on, key_hashes(right, right_on))
    old_right, here = match_keys(state["right"], right_on, left, left_on, key_hashes(left, left_on))
    pairs = [
        pair_rows(state["left"], old_left, right, there),
        pair_rows(left, new_left, right, both),
        pair_rows(left, here, state["right"], old_right),
    ]
    return Increment(stack_frames(pairs), {"left": left, "right": right})
