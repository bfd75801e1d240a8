"""Scan: the new rows of a stream or a table or, for ad hoc queries, the kept changes of a view."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.algebra.types import DataType
from everview.operators.base import Operator
from everview.operators.columnar.frame import BEFORE_ALL
from everview.temporal.clocks import Clock

ARRIVALS = "arrivals"  # the source of a scan: the rows that came in a step, whatever their timestamps


@dataclass(frozen=True, eq=False)
class ScanOperator(Operator):
    """The new rows of a stream or a table, or with the source "view" the kept changes of a view.

    With the source "arrivals", the rows of a stream that came in a step. With `since`, only rows that begin
    after it: an operator over such a scan does not share its state with one that has read the earlier rows.

    >>> from everview.algebra.types import INT
    >>> ScanOperator("s", (INT,)) == ScanOperator("s", (INT,)), ScanOperator("s", (INT,)).inputs
    (True, ())
    >>> ScanOperator("s", (INT,)) == ScanOperator("s", (INT,), since=9)
    False
    """

    relation: str
    of: tuple[DataType, ...]
    source: str = "rows"
    since: int = BEFORE_ALL

    def __post_init__(self) -> None:
        self._set_types(self.of)


@dataclass(frozen=True, eq=False)
class DomainScanOperator(ScanOperator):
    """The same for a view that reads event streams: it goes by a clock of its own, not by the store's bound.

    So such a view shares no state with views that go by the store's bound.
    """

    clock: Clock = field(kw_only=True)
