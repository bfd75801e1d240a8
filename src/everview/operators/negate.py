"""Negate: the same rows with -n; a union with it is a difference (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.base import Operator
from everview.operators.columnar.frame import Frame, N
from everview.operators.columnar.lazy import pl


@dataclass(frozen=True, eq=False)
class NegateOperator(Operator):
    """The rows of the input with -n in place of n.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> NegateOperator(ScanOperator("s", (INT,))).apply([make_frame({"c0": [1]}, [(0, 5, 2)])]).rows()
    [(1, 0, 5, -2)]
    """

    input: Operator

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def is_light(self) -> bool:
        return True

    def apply(self, frames: Sequence[Frame]) -> Frame:
        return frames[0].with_columns(-pl.col(N))
