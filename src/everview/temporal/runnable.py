"""The check of plans before they run: some operators need rows that arrive or end in a certain order."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.session import Session
from everview.algebra.text import name_sql
from everview.algebra.windows import Rows
from everview.errors import TemporalError
from everview.temporal.insertion import is_inserted_on_time
from everview.temporal.update_patterns import Pattern, arrival, edge


def require_runnable(plan: N.Node) -> None:
    """Raise TemporalError if an operator needs an order of rows that its input does not guarantee."""
    for node in plan.walk():
        if isinstance(node, N.Window) and isinstance(node.window, Rows):
            _require_order(node)
        if isinstance(node, Session) and arrival(node.input) != ():
            raise TemporalError(
                f"[{node.words}] needs rows that never end and come in the order of their time line, "
                "and those of its input may do otherwise",
                next_step="put the window on the stream below",
            )
        if isinstance(node, N.SynchronizeOn):
            _require_points(node.points)
        if isinstance(node, N.TableJoin) and not node.retroactive:
            _require_first_timeline(node)


def _require_order(node: N.Window) -> None:
    """Refuse a window of rows over rows that end out of order: a row that was pushed out could come back.

    One that slides counts all rows that have come, and so they must not end.
    """
    assert isinstance(node.window, Rows)
    below = edge(node.input)
    if below.signed:
        what = "are never taken back"
    elif below.pattern > Pattern.WKS:
        what = "end in the order in which they came"
    elif below.pattern == Pattern.WKS and arrival(node.input) is None:
        what = "come in the order of their time line"
    elif node.window.slide > 1 and arrival(node.input) != ():
        what = "never end and come in the order of their time line"
    else:
        return
    raise TemporalError(
        f"[{node.window}] needs rows that {what}, and those of its input may do otherwise",
        next_step="put the window on the stream below, or use a time window",
    )


def _require_points(points: N.Node) -> None:
    """Refuse SYNC ON rows that are inserted later than their timestamp: they would silently be no points."""
    if is_inserted_on_time(points):
        return
    name = f" {name_sql(points.name)}" if isinstance(points, (N.View, N.Stream, N.Alias)) else ""
    raise TemporalError(
        f"SYNC ON{name} needs rows that are inserted at the instant in their time line, "
        "and these may be inserted later",
        next_step="select the time line of a stream, without SLIDE, LAG, SYNC and joins of streams",
    )


def _require_first_timeline(node: N.TableJoin) -> None:
    """Refuse a join with a table on another time line than the first, by which slices are cut."""
    line = node.version_line
    if line.timeline != 0 or node.as_of is not None:
        raise TemporalError(
            f"a table is joined as of the first time line of a stream, and {line.qualified} is another one",
            next_step="select the first time line of the stream below too",
        )
