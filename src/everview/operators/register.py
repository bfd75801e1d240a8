"""Register: rows that the same task has computed before."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.types import DataType
from everview.operators.base import Operator


@dataclass(frozen=True, eq=False)
class RegisterOperator(Operator):
    """The rows in a register of a task: the input of an operator that is sent to a task without its plan."""

    number: int
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._set_types(self.of)
