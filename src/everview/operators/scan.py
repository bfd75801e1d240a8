"""Scan: the new rows of a stream or a table or, for ad hoc queries, the kept changes of a view."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.types import DataType
from everview.operators.base import Operator
from everview.operators.columnar.frame import BEFORE_ALL


@dataclass(frozen=True, eq=False)
class ScanOperator(Operator):
    """The new rows of a stream or a table, or with the kind "view" the kept changes of a view.

    With `since`, only rows that begin after it: an operator over such a scan does not share its state with
    one that has read the earlier rows.
    """

    relation: str
    of: tuple[DataType, ...]
    source: str = "rows"
    since: int = BEFORE_ALL

    def __post_init__(self) -> None:
        self._set_types(self.of)
