"""Filter: the rows for which a condition is true; interval and n stay (paper 1, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from everview.algebra.expressions import Expression, IsNull, Not, conjuncts
from everview.operators.base import Operator, source_column
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl
from everview.operators.project import column_expression


@dataclass(frozen=True, eq=False)
class FilterOperator(Operator):
    """The rows for which a condition is true. Light if the condition only tests columns for NULL.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> scan = ScanOperator("s", (INT,))
    >>> present = FilterOperator(scan, Not(IsNull(scan.columns[0])))
    >>> present.is_light, present.apply([make_frame({"c0": [1, None]}, [(0, 5, 1), (3, 9, 1)])]).rows()
    (True, [(1, 0, 5, 1)])
    """

    input: Operator
    condition: Expression

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def is_light(self) -> bool:
        return all(_is_not_null(part) for part in conjuncts(self.condition))

    def apply(self, frames: Sequence[Frame]) -> Frame:
        return frames[0].filter(reduce(and_, map(_not_null, conjuncts(self.condition))))


def _is_not_null(part: Expression) -> bool:
    match part:
        case Not(IsNull(operand)):
            return source_column(operand) is not None
    return False


def _not_null(part: Expression) -> pl.Expr:
    assert isinstance(part, Not)
    assert isinstance(part.operand, IsNull)
    return column_expression(part.operand.operand).is_not_null()
