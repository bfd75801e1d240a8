"""Multiset operators: EXCEPT ALL, INTERSECT ALL, max-union (paper 1, equations 5, 13, 14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.base import Arrangement, Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.columnar.profile import profile_difference


@dataclass(frozen=True, eq=False)
class MultisetOperator(StatefulOperator):
    """A function of the multiplicities of a record on both sides: difference, intersection or max_union.

    State: both inputs.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> less = MultisetOperator(ScanOperator("s", (INT,)), ScanOperator("r", (INT,)), "difference")
    >>> left, right = make_frame({"c0": [1]}, [(0, 9, 2)]), make_frame({"c0": [1]}, [(5, 20, 1)])
    >>> less.increment([left, right], less.empty_state([left, right]), Slice(-1, 9)).output.rows()
    [(1, 0, 5, 2), (1, 5, 9, 1)]
    """

    left: Operator
    right: Operator
    function: str

    def __post_init__(self) -> None:
        self._set_types(self.left.types)

    @property
    def runs_in_family(self) -> bool:
        return True

    @property
    def method(self) -> str:
        """The name of the technique."""
        return "profile"

    @property
    def state(self) -> tuple[StatePart, ...]:
        return StatePart.of("left", self.rows_of(0)), StatePart.of("right", self.rows_of(1))

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        record = tuple(range(len(self.types)))
        return {"left": Arrangement(0, record), "right": Arrangement(1, record)}

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": new[0].clear(), "right": new[1].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        return profile_difference((new[0], new[1]), state, self.function)
