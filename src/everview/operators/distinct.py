"""Distinct: every record once, as long as it occurs at all (paper 1, equation 4; paper 2, 5.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.base import Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State
from everview.operators.columnar.profile import distinct_rows, distinct_unsigned


@dataclass(frozen=True, eq=False)
class DistinctOperator(StatefulOperator):
    """Every record once: δ, or δ* if rows are never retracted.

    State: δ keeps its input; δ* only what is covered, that is, what it has emitted.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import changes
    >>> from everview.operators.scan import ScanOperator
    >>> once = DistinctOperator(ScanOperator("s", (INT,)), signed=False)
    >>> rows = changes({"c0": [1]}, [(0, 9, 1)])
    >>> step = once.increment([rows], {"covered": changes({"c0": [1]}, [(0, 5, 1)])}, Slice(-1, 9))
    >>> step.output.rows(), step.added["covered"].drop("_hash").rows()
    ([(1, 5, 9, 1)], [(1, 5, 9, 1)])
    """

    input: Operator
    signed: bool

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def method(self) -> str:
        """The name that paper 2 has for it."""
        return "δ" if self.signed else "δ*"

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        return (StatePart.of(self._part, rows, "" if self.signed else _covered(rows.label)),)

    @property
    def _part(self) -> str:
        return "rows" if self.signed else "covered"

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {self._part: new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        return distinct_rows(new[0], state) if self.signed else distinct_unsigned(new[0], state)


def _covered(label: str) -> str:
    return "what is covered" if label == "its input" else label
