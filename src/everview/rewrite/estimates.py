"""How many rows a node holds at an instant, roughly: enough to compare orders of joins.

A stream is taken to bring a row a second, a key to have a hundred values.
"""

from __future__ import annotations

from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Comparison, Literal, conjuncts
from everview.algebra.time import SECOND
from everview.algebra.windows import Fixed, Range, Rows

_EVERY_ROW = 1e7  # of a stream without a window
_KEYS = 100.0
_TABLE = 1e3
EQUAL_KEYS = 1 / _KEYS  # the part of all pairs that have an equal key
OTHER_PAIRS = 0.3  # the part of all pairs that fulfil another condition
_EQUAL_VALUE = 0.05  # the part of all rows that equal a constant
_OTHER_ROWS = 0.4  # the part of all rows that fulfil another condition


@singledispatch
def estimate_rows(node: N.Node) -> float:
    """Return how many rows a node holds at an instant; that of its (left) input, unless the node changes it.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> estimate_rows(N.Window(s, Range(60 * SECOND))), estimate_rows(N.Window(s, Rows(5)))
    (60.0, 5.0)
    """
    return estimate_rows(node.inputs[0])


@estimate_rows.register
def _(node: N.Stream) -> float:
    return _EVERY_ROW


@estimate_rows.register
def _(node: N.Table) -> float:
    return _TABLE


@estimate_rows.register
def _(node: N.Values) -> float:
    return float(len(node.rows))


@estimate_rows.register
def _(node: N.Tagged) -> float:
    return min(estimate_rows(node.input), _TABLE)


@estimate_rows.register
def _(node: N.Window) -> float:
    below = estimate_rows(node.input)
    match node.window:
        case Range(extent) | Fixed(extent):
            return min(below, max(extent / SECOND, 1.0))
        case Rows(count, partition_by):
            return min(below, count * (_KEYS if partition_by else 1.0))
    return below


@estimate_rows.register
def _(node: N.Filter) -> float:
    rows = estimate_rows(node.input)
    for part in conjuncts(node.condition):
        match part:
            case Comparison("=", Literal()) | Comparison("=", _, Literal()):
                rows *= _EQUAL_VALUE
            case _:
                rows *= _OTHER_ROWS
    return rows


@estimate_rows.register
def _(node: N.Aggregate) -> float:
    return min(estimate_rows(node.input), _KEYS ** len(node.keys))


@estimate_rows.register(N.Join)
@estimate_rows.register(N.OuterJoin)
@estimate_rows.register(N.TableJoin)
def _(node: N.Join | N.OuterJoin | N.TableJoin) -> float:
    rows = estimate_rows(node.left) * estimate_rows(node.right)
    for part in conjuncts(node.condition):
        rows *= EQUAL_KEYS if isinstance(part, Comparison) and part.operator == "=" else OTHER_PAIRS
    return rows


@estimate_rows.register(N.Union)
@estimate_rows.register(N.MaxUnion)
def _(node: N.Union | N.MaxUnion) -> float:
    return estimate_rows(node.left) + estimate_rows(node.right)


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
    return max(estimate_rows(node) / _KEYS ** len(node.schema), 1.0)
