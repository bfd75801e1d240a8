"""How often a record occurs at an instant, roughly: enough to choose how EXCEPT ALL is computed.

The choice is part of a plan that outlives a run, so it depends on the plan alone and not on statistics, which
change (those are in `plan/statistics.py`). A stream is taken to bring a row a second, a column to have a
hundred values.
"""

from __future__ import annotations

from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.over import Over, Rank
from everview.algebra.session import Session
from everview.algebra.time import SECOND
from everview.algebra.windows import Fixed, Range, Rows

_EVERY_ROW = 1e7  # of a stream without a window
_TABLE = 1e3
_VALUES = 100.0  # of a column
_SHARE = 0.3  # the part of all rows, or pairs, that fulfil a condition


def estimate_copies(node: N.Node) -> float:
    """Return roughly how many rows with the same record hold at a time; with a time line in it, one.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("k", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> hour = N.Window(s, Range(3600 * SECOND))
    >>> estimate_copies(hour), estimate_copies(N.Project(hour, (("k", s.column("k")),)))
    (1.0, 36.0)
    """
    if node.schema.timeline is not None:
        return 1.0
    return max(_rows_held(node) / _VALUES ** len(node.schema), 1.0)


@singledispatch
def _rows_held(node: N.Node) -> float:
    """Return how many rows hold at an instant; those of the (left) input, unless the node changes that."""
    return _rows_held(node.inputs[0])


@_rows_held.register
def _(node: N.Stream) -> float:
    return _EVERY_ROW


@_rows_held.register
def _(node: N.Table) -> float:
    return _TABLE


@_rows_held.register
def _(node: N.Values) -> float:
    return float(len(node.rows))


@_rows_held.register
def _(node: N.Tagged) -> float:
    return min(_rows_held(node.input), _TABLE)


@_rows_held.register
def _(node: N.Window) -> float:
    below = _rows_held(node.input)
    match node.window:
        case Range(extent) | Fixed(extent):
            return min(below, max(extent / SECOND, 1.0))
        case Rows(count, partition_by):
            return min(below, count * (_VALUES if partition_by else 1.0))
    return below


@_rows_held.register
def _(node: Session) -> float:
    return min(_rows_held(node.input), max(node.gap / SECOND, 1.0))


@_rows_held.register
def _(node: N.Filter) -> float:
    return _rows_held(node.input) * _SHARE


@_rows_held.register
def _(node: N.Aggregate) -> float:
    return min(_rows_held(node.input), _VALUES ** len(node.keys))


@_rows_held.register
def _(node: Over) -> float:
    return _rows_held(node.input)


@_rows_held.register
def _(node: Rank) -> float:
    below = _rows_held(node.input)
    limit = node.limit
    return below if limit is None else min(below, limit.count * (_VALUES if node.partition else 1.0))


@_rows_held.register(N.Join)
@_rows_held.register(N.OuterJoin)
@_rows_held.register(N.TableJoin)
def _(node: N.Join | N.OuterJoin | N.TableJoin) -> float:
    return _rows_held(node.left) * _rows_held(node.right) / _VALUES


@_rows_held.register(N.Union)
@_rows_held.register(N.MaxUnion)
def _(node: N.Union | N.MaxUnion) -> float:
    return _rows_held(node.left) + _rows_held(node.right)
