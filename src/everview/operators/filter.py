"""Filter: the rows for which a condition is true; interval and n stay (paper 1, equation 1)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from everview.algebra.expressions import Comparison, Expression, IsNull, Literal, Not, conjuncts
from everview.algebra.types import DATE, TIMESTAMP
from everview.operators.base import Operator, source_column
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl
from everview.operators.project import column_expression


@dataclass(frozen=True, eq=False)
class FilterOperator(Operator):
    """The rows for which a condition is true.

    Light if it only tests columns for NULL, and compares integers and instants with constants: Polars and
    Catalyst agree on these for every value.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> scan = ScanOperator("s", (INT,))
    >>> present = FilterOperator(scan, Not(IsNull(scan.columns[0])))
    >>> present.is_light, present.apply([make_frame({"c0": [1, None]}, [(0, 5, 1), (3, 9, 1)])]).rows()
    (True, [(1, 0, 5, 1)])
    >>> large = FilterOperator(scan, Comparison("<", Literal(1, INT), scan.columns[0]))
    >>> large.is_light, large.apply([make_frame({"c0": [1, 2, None]}, [(0, 5, 1)] * 3)]).rows()
    (True, [(2, 0, 5, 1)])
    """

    input: Operator
    condition: Expression

    def __post_init__(self) -> None:
        self._set_types(self.input.types)

    @property
    def is_light(self) -> bool:
        return all(_is_not_null(part) or _is_plain_comparison(part) for part in conjuncts(self.condition))

    def apply(self, frames: Sequence[Frame]) -> Frame:
        return frames[0].filter(reduce(and_, map(_column_test, conjuncts(self.condition))))


_COMPARED: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def _is_not_null(part: Expression) -> bool:
    match part:
        case Not(IsNull(operand)):
            return source_column(operand) is not None
    return False


def _is_plain_comparison(part: Expression) -> bool:
    """Return whether a condition compares a column with a constant, both integers or both instants."""
    match part:
        case Comparison(name, left, Literal(value) as constant) | Comparison(
            name, Literal(value) as constant, left
        ):
            of_one_type = left.type == constant.type and left.type in (DATE, TIMESTAMP)
            integers = left.type.is_integer and constant.type.is_integer
            known = name in _COMPARED and value is not None and source_column(left) is not None
            return known and (integers or of_one_type)
    return False


def _column_test(part: Expression) -> pl.Expr:
    if isinstance(part, Comparison):
        return _COMPARED[part.operator](column_expression(part.left), column_expression(part.right))
    assert isinstance(part, Not)
    assert isinstance(part.operand, IsNull)
    return column_expression(part.operand.operand).is_not_null()
