"""Stamp: the instant at which a row begins as one more column, for ISTREAM, DSTREAM and RSTREAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import UNDATED, UNDATED_VALUE
from everview.algebra.types import TIMESTAMP
from everview.operators.base import InputColumns, Operator, column
from everview.operators.columnar.frame import CHANGE, FROM, Frame
from everview.operators.columnar.lazy import pl
from everview.operators.columnar.types import frame_type


@dataclass(frozen=True, eq=False)
class StampOperator(Operator):
    """The rows of the input, each with the instant at which it begins as its last column.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> stamped = StampOperator(ScanOperator("s", (INT,))).apply([make_frame({"c0": [7]}, [(5, 9, 1)])])
    >>> stamped.with_columns(pl.col("c1").to_physical()).rows()
    [(7, 5, 5, 9, 1)]
    """

    input: Operator

    def __post_init__(self) -> None:
        self._set_types((*self.input.types, TIMESTAMP))

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(len(self.input.types)), None),)

    @property
    def is_light(self) -> bool:
        return True

    def apply(self, frames: Sequence[Frame]) -> Frame:
        (rows,) = frames
        undated = pl.lit(UNDATED_VALUE, pl.Int64)
        instant = pl.when(pl.col(FROM) > UNDATED).then(FROM).otherwise(undated).cast(frame_type(TIMESTAMP))
        size = len(self.input.types)
        return rows.select(*map(column, range(size)), instant.alias(column(size)), *CHANGE)
