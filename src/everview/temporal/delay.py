"""How late a row is inserted into a view, from the time in the row on: for ISTREAM in event queries."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.time import MICROSECOND
from everview.algebra.windows import Range, Rows
from everview.temporal.update_patterns import is_dated_by_instant, keeps_timeline


def insertion_delay(node: N.Node) -> int | None:
    """Return the longest time from a row's time line to its insertion; None if it can be any time later.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> insertion_delay(N.Window(s, Range(60))), insertion_delay(N.Window(s, Range(60, slide=60, lag=5)))
    (0, 65)
    >>> insertion_delay(N.Distinct(s)) is None
    True
    """
    match node:
        case N.Stream():
            return 0
        case N.Window(below, window) if not isinstance(window, Rows):
            late = insertion_delay(below)
            added = 0
            if isinstance(window, Range):
                added = window.lag + (window.slide if window.slide > MICROSECOND else 0)
            return None if late is None else late + added
        case N.IStream() if node.stamped and is_dated_by_instant(node):
            return 0
        case N.Alias() | N.View() | N.IStream() | N.Filter():
            return insertion_delay(node.inputs[0])
        case N.Project():
            return insertion_delay(node.input) if keeps_timeline(node) else None
        case N.TableJoin() if not node.retroactive:
            return insertion_delay(node.left)
        case N.Union():
            sides = insertion_delay(node.left), insertion_delay(node.right)
            return None if sides[0] is None or sides[1] is None else max(sides[0], sides[1])
    return None
