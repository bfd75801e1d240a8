"""Union: the rows of both inputs (paper 1, equation 5: multiplicities are added)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.base import Operator
from everview.operators.columnar.frame import Frame, stack_frames


@dataclass(frozen=True, eq=False)
class UnionOperator(Operator):
    """The rows of both inputs.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> both = UnionOperator(ScanOperator("s", (INT,)), ScanOperator("r", (INT,)))
    >>> both.apply([make_frame({"c0": [1]}, [(0, 5, 1)]), make_frame({"c0": [1]}, [(2, 7, 1)])]).rows()
    [(1, 0, 5, 1), (1, 2, 7, 1)]
    """

    left: Operator
    right: Operator

    def __post_init__(self) -> None:
        self._set_types(self.left.types)

    @property
    def is_light(self) -> bool:
        return True

    def apply(self, frames: Sequence[Frame]) -> Frame:
        return stack_frames(frames)
