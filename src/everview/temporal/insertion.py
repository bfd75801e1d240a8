"""Rows that are inserted at the instant of their timestamp, as SYNC ON requires (paper 5, 5.3).

A point is an instant at which a row with that timestamp is inserted. A row that comes later than its
timestamp would silently give no point.

A group that changes is a row that is deleted and another that is inserted. The new row comes late, but
projected to the keys of the group, with their timestamp, nothing was inserted. So the property is one of
columns.
"""

from __future__ import annotations

from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression
from everview.algebra.schema import Schema
from everview.algebra.time import MICROSECOND
from everview.algebra.windows import Range, Rows
from everview.temporal.keys import keys_of
from everview.temporal.update_patterns import (
    Edge,
    Pattern,
    arrival,
    edge,
    has_common_timeline,
    is_dated_by_instant,
    keeps_timeline,
)

Columns = frozenset[int]
"""Positions of columns; none at all where rows may be inserted late."""

_NONE: Columns = frozenset()


def is_inserted_on_time(node: N.Node) -> bool:
    """Return whether rows, projected to their time line, are inserted at the instant of their timestamp.

    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> is_inserted_on_time(N.Window(s, Range(5))), is_inserted_on_time(N.Window(s, Range(5, slide=5)))
    (True, False)
    """
    return bool(punctual_columns(node))


@singledispatch
def punctual_columns(node: N.Node) -> Columns:
    """Return the columns, with the time line, to which rows can be projected so as to be inserted on time.

    >>> from everview.algebra.aggregates import AggregateCall
    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("k", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> keys, count = (("ts", s.column("ts")),), (("n", AggregateCall("count")),)
    >>> groups = [N.Aggregate(window, keys, count) for window in (s, N.Window(s, Rows(3)))]
    >>> [sorted(punctual_columns(node)) for node in (s, *groups)]
    [[0, 1], [0, 1], [0]]
    """
    return _NONE


@punctual_columns.register
def _(node: N.Stream) -> Columns:
    line = node.schema.timeline
    return _all(node) if line is not None and line.timeline == 0 else _NONE


@punctual_columns.register(N.Alias)
@punctual_columns.register(N.View)
@punctual_columns.register(N.Coalesce)
@punctual_columns.register(N.Split)
def _(node: N.Node) -> Columns:
    return punctual_columns(node.inputs[0])


@punctual_columns.register
def _(node: N.Filter) -> Columns:
    """A filter on other columns can let a row through later, when these have changed."""
    below = punctual_columns(node.input)
    return below if _reads_only(node.condition, node.input.schema, below) else _NONE


@punctual_columns.register
def _(node: N.GroupMember) -> Columns:
    below = punctual_columns(node.input)
    return below if _reads_only(node.by, node.input.schema, below) else _NONE


@punctual_columns.register
def _(node: N.TableJoin) -> Columns:
    """A table is known before the rows that it is joined with; rows that its updates insert are no points."""
    below, size = punctual_columns(node.left), len(node.left.schema)
    if not below:
        return _NONE
    columns = below | frozenset(range(size, len(node.schema)))
    return columns if _reads_only(node.condition, node.schema, columns) else _NONE


@punctual_columns.register
def _(node: N.Project) -> Columns:
    below = punctual_columns(node.input)
    if not below or not keeps_timeline(node):
        return _NONE
    read = [_reads_only(e, node.input.schema, below) for _, e in node.columns]
    return frozenset(i for i, punctual in enumerate(read) if punctual)


@punctual_columns.register
def _(node: N.Aggregate) -> Columns:
    """A group begins with its first row. Its values change later, unless its rows end together."""
    line, before = node.schema.timeline, node.input.schema.timeline
    below = punctual_columns(node.input)
    kept = line is not None and before is not None and (line.name, Column.to(before)) in node.keys
    if not kept or not all(_reads_only(e, node.input.schema, below) for _, e in node.keys):
        return _NONE
    ends_together = arrival(node.input) is not None or edge(node.input) == Edge(Pattern.MON)
    if below == _all(node.input) and ends_together:
        return _all(node)
    return frozenset(range(len(node.keys)))


@punctual_columns.register
def _(node: N.Window) -> Columns:
    below = punctual_columns(node.input)
    match node.window:
        case Range(_, slide, lag) if slide > MICROSECOND or lag:
            return _NONE
        case Rows(slide=1):
            return below if below == _all(node.input) else _NONE
        case Rows():
            return _NONE
    return below


@punctual_columns.register
def _(node: N.Tagged) -> Columns:
    """Over a stream without a window no older row of a key comes back."""
    return punctual_columns(node.input)


@punctual_columns.register
def _(node: N.Distinct) -> Columns:
    """Of equal rows, one can appear late, when another has ended; with a key no two rows are equal."""
    below, key = punctual_columns(node.input), keys_of(node.input)
    unique = key is not None and below.issuperset(key)
    return below if unique or below == _all(node.input) else _NONE


@punctual_columns.register(N.IStream)
@punctual_columns.register(N.DStream)
@punctual_columns.register(N.RStream)
def _(node: N.IStream | N.DStream | N.RStream) -> Columns:
    """A row comes at its instant; at another time line only where all rows of the relation are on time."""
    if is_dated_by_instant(node):
        return _all(node)
    below = punctual_columns(node.input) if isinstance(node, N.IStream) else _NONE
    return _all(node) if below and below == _all(node.input) else _NONE


@punctual_columns.register
def _(node: N.Union) -> Columns:
    return punctual_columns(node.left) & punctual_columns(node.right) if has_common_timeline(node) else _NONE


@punctual_columns.register(N.MaxUnion)
@punctual_columns.register(N.Intersection)
def _(node: N.MaxUnion | N.Intersection) -> Columns:
    whole = all(punctual_columns(side) == _all(side) for side in node.inputs)
    return _all(node) if whole and has_common_timeline(node) else _NONE


def _all(node: N.Node) -> Columns:
    return frozenset(range(len(node.schema)))


def _reads_only(expression: Expression, schema: Schema, columns: Columns) -> bool:
    read = (schema.find(column.name, column.relation) for column in expression.columns())
    return all(schema.index(field) in columns for field in read)
