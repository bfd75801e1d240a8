"""Which rows are inserted at the instant that their time line says: SYNC ON takes such (paper 5, 5.3).

A point is an instant at which a row with that instant is inserted. Rows that come later than their time
line says would give none, silently.
"""

from __future__ import annotations

from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.time import MICROSECOND
from everview.algebra.windows import Range


@singledispatch
def is_inserted_on_time(node: N.Node) -> bool:
    """Whether all rows are inserted at the instant in their time line.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> is_inserted_on_time(N.Window(s, Range(5))), is_inserted_on_time(N.Window(s, Range(5, slide=5)))
    (True, False)
    """
    return False


@is_inserted_on_time.register
def _(node: N.Stream) -> bool:
    line = node.schema.timeline
    return line is not None and line.timeline == 0


@is_inserted_on_time.register(N.Filter)
@is_inserted_on_time.register(N.Alias)
@is_inserted_on_time.register(N.View)
@is_inserted_on_time.register(N.GroupMember)
@is_inserted_on_time.register(N.Coalesce)
@is_inserted_on_time.register(N.Split)
@is_inserted_on_time.register(N.Distinct)
@is_inserted_on_time.register(N.Tagged)
@is_inserted_on_time.register(N.IStream)
@is_inserted_on_time.register(N.TableJoin)
def _(node: N.Node) -> bool:
    """A table is there before the rows that it is joined with; rows that its updates insert are no points."""
    return is_inserted_on_time(node.inputs[0])


@is_inserted_on_time.register
def _(node: N.Project) -> bool:
    return keeps_timeline(node) and is_inserted_on_time(node.input)


@is_inserted_on_time.register
def _(node: N.Aggregate) -> bool:
    line, before = node.schema.timeline, node.input.schema.timeline
    keys = [] if line is None else [e for name, e in node.keys if name == line.name]
    return before is not None and Column.to(before) in keys and is_inserted_on_time(node.input)


@is_inserted_on_time.register
def _(node: N.Window) -> bool:
    match node.window:
        case Range(_, slide, lag) if slide > MICROSECOND or lag:
            return False
    return is_inserted_on_time(node.input)


@is_inserted_on_time.register(N.Union)
@is_inserted_on_time.register(N.MaxUnion)
@is_inserted_on_time.register(N.Intersection)
def _(node: N.Union | N.MaxUnion | N.Intersection) -> bool:
    return has_common_timeline(node) and all(map(is_inserted_on_time, node.inputs))


def keeps_timeline(node: N.Project) -> bool:
    """Whether the time line of the output is that of the input."""
    before, line = node.input.schema.timeline, node.schema.timeline
    if before is None or line is None:
        return False
    return node.columns[node.schema.index(line)][1] == Column.to(before)


def has_common_timeline(node: N.Node) -> bool:
    """Whether the sides of a set operation have their time line at the same place, and the result there."""
    lines = [(n, n.schema.timeline) for n in (node, *node.inputs)]
    places = {None if line is None else n.schema.index(line) for n, line in lines}
    return len(places) == 1 and None not in places
