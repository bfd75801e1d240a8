"""Look-back: for how long the answers of a plan that starts now depend on rows that it has not seen.

A plan that reads a stream only from an instant on misses the rows before it. Operators that hold at every
instant what their inputs hold there (paper 1, definition 4: snapshot-reducible) are right from the instant on
at which the last of these rows has ended. A time window says when that is; without one it may be never.

>>> from everview.algebra.types import INT, TIMESTAMP
>>> from everview.algebra.windows import Range
>>> late = P.ScanOperator("s", (INT, TIMESTAMP), since=100)
>>> window = P.TimeWindowOperator(late, 1, Range(60))
>>> look_back(P.DistinctOperator(window, signed=False), {}, {"s": 1}), look_back(late, {}, {"s": 1})
(61, None)
"""

from __future__ import annotations

from collections.abc import Mapping

from everview import operators as P
from everview.algebra.expressions import Column
from everview.algebra.windows import Range
from everview.operators.base import position_of
from everview.operators.columnar.frame import BEFORE_ALL

# What holds at an instant depends only on what their inputs hold at that instant.
_SNAPSHOT_REDUCIBLE = (
    P.AggregateOperator, P.BandJoinOperator, P.CopyCountsOperator, P.DistinctOperator, P.FilterOperator,
    P.JoinOperator, P.MultisetOperator, P.NegateOperator, P.NegativeTuplesOperator, P.ProjectOperator,
    P.OverOperator, P.RankOperator, P.UnionOperator,
)  # fmt: skip


def look_back(plan: P.Operator, known: Mapping[P.Operator, int], timelines: Mapping[str, int]) -> int | None:
    """Return after which time the answers of a plan no longer depend on missing rows; None: perhaps never.

    Plans in `known` start from kept changes: 0 if all of these are kept, else 1, as what held before does
    not matter to snapshot-reducible operators. Scans from the beginning miss nothing. `timelines` has the
    column of each stream's first time line: only that says when a row came.
    """
    if plan in known:
        return known[plan]
    match plan:
        case P.ScanOperator(since=since):
            return 0 if since == BEFORE_ALL else None
        case P.TimeWindowOperator(below, column, Range() as window) if _is_time_of_late(
            below, column, timelines
        ):
            return window.extent + window.slide + window.lag
    inputs = [look_back(below, known, timelines) for below in plan.inputs]
    longest = max((length for length in inputs if length is not None), default=0)
    if None in inputs:
        return None
    match plan:
        case P.SyncEveryOperator(_, grid) | P.SummedSyncOperator(_, grid):
            return longest + grid.step if longest else 0
        case _ if isinstance(plan, _SNAPSHOT_REDUCIBLE) or not longest:
            return longest
    return None


def _is_time_of_late(plan: P.Operator, column: int, timelines: Mapping[str, int]) -> bool:
    """Return whether a column is the first time line of a stream that is read from an instant on."""
    while isinstance(plan, (P.FilterOperator, P.ProjectOperator)):
        if isinstance(plan, P.ProjectOperator):
            output = plan.outputs[column]
            if not isinstance(output, Column):
                return False
            column = position_of(output)
        plan = plan.input
    late = isinstance(plan, P.ScanOperator) and plan.since > BEFORE_ALL
    return late and isinstance(plan, P.ScanOperator) and timelines.get(plan.relation) == column
