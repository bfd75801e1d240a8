"""Look-back: for how long the answers of a plan that starts now depend on rows that it has not seen.

A plan that reads a stream only from an instant on misses the rows before it. Operators that hold at every
instant what their inputs hold there (paper 1, definition 4: snapshot-reducible) are right from the instant on
at which the last of these rows has ended. A time window says when that is; without one it may be never.

>>> from everview.algebra.types import INT, TIMESTAMP
>>> from everview.algebra.windows import Range
>>> late = P.ScanOperator("s", (INT, TIMESTAMP), since=100)
>>> window = P.TimeWindowOperator(late, 1, Range(60))
>>> look_back(P.DistinctOperator(window, signed=False), ()), look_back(late, ())
(61, None)
"""

from __future__ import annotations

from collections.abc import Container

from everview import operators as P
from everview.algebra.windows import Range
from everview.operators.columnar.frame import BEFORE_ALL

# What holds at an instant depends only on what their inputs hold at that instant.
_SNAPSHOT_REDUCIBLE = (
    P.AggregateOperator, P.BandJoinOperator, P.DistinctOperator, P.FilterOperator, P.JoinOperator,
    P.MultisetOperator, P.NegateOperator, P.NegativeTuplesOperator, P.ProjectOperator, P.UnionOperator,
)  # fmt: skip


def look_back(plan: P.Operator, known: Container[P.Operator]) -> int | None:
    """Return after which time the answers of a plan no longer depend on missing rows; None: perhaps never.

    Plans in `known` miss no rows, and neither do scans from the beginning.
    """
    if plan in known:
        return 0
    match plan:
        case P.ScanOperator(since=since):
            return 0 if since == BEFORE_ALL else None
        case P.TimeWindowOperator(below, _, Range() as window) if _is_late_stream(below):
            return window.extent + window.slide + window.lag
    below_plan = [look_back(below, known) for below in plan.inputs]
    longest = max((b for b in below_plan if b is not None), default=0)
    if None in below_plan:
        return None
    match plan:
        case P.SyncEveryOperator(_, grid):
            return longest + grid.step if longest else 0
        case _ if isinstance(plan, _SNAPSHOT_REDUCIBLE) or not longest:
            return longest
    return None


def _is_late_stream(plan: P.Operator) -> bool:
    """Return whether a plan has the rows of a stream from an instant on, one by one."""
    while isinstance(plan, (P.FilterOperator, P.ProjectOperator)):
        plan = plan.input
    return isinstance(plan, P.ScanOperator)
