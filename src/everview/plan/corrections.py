"""Corrections: rows that begin after their own timestamp, because they came too late and were re-admitted.

Most operators look at when a row begins and ends, and a correction is a row like any other to them. Some look
at the timestamp in the record: they need the rows in the order of their timestamps, or what held at that
time, which is no longer kept. A correction has no exact meaning there.

>>> from everview.algebra.types import INT
>>> scan = P.ScanOperator("s", (INT,))
>>> refuse_correction(P.DistinctOperator(scan, signed=False), "s")
>>> refuse_correction(P.RowWindowOperator(scan, 2, (), (0,)), "s")
'a window of rows, which holds the rows with the latest timestamps'
"""

from __future__ import annotations

from everview import operators as P

_BY_TIMESTAMP: tuple[tuple[type[P.Operator], str], ...] = (
    (P.RowWindowOperator, "a window of rows, which holds the rows with the latest timestamps"),
    (P.SlidingRowWindowOperator, "a window of rows, which counts rows in the order of their timestamps"),
    (P.SessionOperator, "a session window, which goes by the pauses between timestamps"),
    (P.LatestPerKeyOperator, "a tagged stream, which holds the row with the latest timestamp of each key"),
    (P.VersionJoinOperator, "a join with a table as it was at the timestamp of a row"),
    (P.VersionAntiJoinOperator, "a join with a table as it was at the timestamp of a row"),
    (P.EventOutputOperator, "an event query, whose rows are final"),
)
TAKE_IN_TIME = (
    "everview rewind --to TS, an instant before their timestamps, takes them in as if they had been in time"
)
_POINTS = "SYNC ON, whose points are the timestamps of rows"


def refuse_correction(plan: P.Operator, relation: str) -> str | None:
    """Return the part of a plan in which a correction of a relation has no exact meaning; None: none."""
    if not _reads(plan, relation):
        return None
    for below in plan.inputs:
        found = refuse_correction(below, relation)
        if found is not None:
            return found
    if isinstance(plan, P.SyncOnOperator) and _reads(plan.points, relation):
        return _POINTS
    return next((words for kind, words in _BY_TIMESTAMP if isinstance(plan, kind)), None)


def _reads(plan: P.Operator, relation: str) -> bool:
    if isinstance(plan, P.ScanOperator):
        return plan.relation == relation
    return any(_reads(below, relation) for below in plan.inputs)
