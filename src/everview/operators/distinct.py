"""Distinct: every record once, as long as it occurs at all (paper 1, equation 4; paper 2, 5.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everview.operators.base import Arrangement, Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.columnar.profile import distinct_rows, distinct_unsigned


@dataclass(frozen=True, eq=False)
class DistinctOperator(StatefulOperator):
    """Every record once: δ, or δ* if rows are never retracted.

    State: δ keeps its input; δ* keeps the covered intervals, which are its output.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> once = DistinctOperator(ScanOperator("s", (INT,)), signed=False)
    >>> rows = make_frame({"c0": [1]}, [(0, 9, 1)])
    >>> step = once.increment([rows], {"covered": make_frame({"c0": [1]}, [(0, 5, 1)])}, Slice(-1, 9))
    >>> step.output.rows(), step.added["covered"].drop("_hash").rows()
    ([(1, 5, 9, 1)], [(1, 5, 9, 1)])
    """

    input: Operator
    signed: bool

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def method(self) -> str:
        """The name of the algorithm in paper 2."""
        return "δ" if self.signed else "δ*"

    @property
    def runs_in_family(self) -> bool:
        return True

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        if self.signed:
            return (StatePart.of(self._part, rows),)
        return (StatePart.of(self._part, replace(rows, coalesces=True), _state_text(rows.label)),)

    @property
    def _part(self) -> str:
        return "rows" if self.signed else "covered"

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        return {"rows": Arrangement(0, tuple(range(len(self.types))))} if self.signed else {}

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {self._part: new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        return distinct_rows(new[0], state) if self.signed else distinct_unsigned(new[0], state)


def _state_text(label: str) -> str:
    return "what is covered" if label == "its input" else label
