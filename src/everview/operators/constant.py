"""Constant: rows that hold at all times."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.algebra.changes import Record
from everview.algebra.types import DataType
from everview.operators.base import Operator
from everview.temporal.clocks import Clock


@dataclass(frozen=True, eq=False)
class ConstantOperator(Operator):
    """Rows that hold from the least chronon for ever. It has no input and no state.

    >>> from everview.algebra.types import INT, STRING
    >>> two = ConstantOperator(((1, "a"), (2, "b")), (INT, STRING))
    >>> two.kind, two.inputs, [str(t) for t in two.types]
    ('Constant', (), ['INT', 'STRING'])
    """

    records: tuple[Record, ...]
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._set_types(self.of)


@dataclass(frozen=True, eq=False)
class DomainConstantOperator(ConstantOperator):
    """The same for a view that reads event streams: it begins when its own clock does."""

    clock: Clock = field(kw_only=True)
