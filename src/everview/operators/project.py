"""Project: new columns from the old ones; interval and n stay (paper 1, equation 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra import types as T
from everview.algebra.expressions import Cast, Column, Expression, Literal
from everview.operators.base import InputColumns, Operator, column, source_column
from everview.operators.columnar.frame import CHANGE, Frame, pick_columns
from everview.operators.columnar.lazy import pl
from everview.operators.columnar.types import column_type


@dataclass(frozen=True, eq=False)
class ProjectOperator(Operator):
    """New columns from the old ones. Light if it only moves columns, widens them or adds constants.

    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> scan = ScanOperator("s", (T.INT, T.STRING))
    >>> moved = ProjectOperator(scan, (scan.columns[1], Literal(7, T.INT)))
    >>> moved.is_light, moved.apply([make_frame({"c0": [1], "c1": ["a"]}, [(0, 5, 1)])]).rows()
    (True, [('a', 7, 0, 5, 1)])
    """

    input: Operator
    outputs: tuple[Expression, ...]

    def __post_init__(self) -> None:
        self._set_types(tuple(e.type for e in self.outputs))

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return (tuple(source_column(e) for e in self.outputs),)

    @property
    def is_light(self) -> bool:
        return all(isinstance(e, Literal) or source_column(e) is not None for e in self.outputs)

    def apply(self, frames: Sequence[Frame]) -> Frame:
        names = [e.name for e in self.outputs if isinstance(e, Column)]
        if len(names) == len(self.outputs):
            return pick_columns(frames[0], {column(i): name for i, name in enumerate(names)})
        columns = (column_expression(e).alias(column(i)) for i, e in enumerate(self.outputs))
        return frames[0].select(*columns, *CHANGE)


def column_expression(expression: Expression) -> pl.Expr:
    """Return a column, a widened column or a constant as an expression of Polars."""
    match expression:
        case Column(name):
            return pl.col(name)
        case Cast(operand, to):
            return column_expression(operand).cast(column_type(to))
        case Literal(value, type_):
            return _constant(value, type_)
    raise TypeError(f"{expression} is no column")


def _constant(value: object, type_: T.DataType) -> pl.Expr:
    """Return a constant; instants are integers in a plan, and are cast here."""
    wanted = column_type(type_)
    counts = {T.TIMESTAMP: pl.Int64, T.INTERVAL: pl.Int64, T.DATE: pl.Int32}.get(type_)
    return pl.lit(value, wanted) if counts is None or value is None else pl.lit(value, counts).cast(wanted)
