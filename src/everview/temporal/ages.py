"""How old the timestamps of rows can be when an operator emits them (paper 2, 4.1; DESIGN section 3).

The version of a table that a row meets in ⋈NRR is that at its own timestamp. A row of a stream is emitted in
the slice of its timestamp; a pair of a join when its later row comes, and then its time line may be that of
the earlier one, which is at most as old as its window is long. Versions of the table are retained as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.over import Over, Rank
from everview.algebra.time import INFINITY, MICROSECOND
from everview.algebra.windows import AnyWindow, Range, Rows
from everview.temporal.life import reach
from everview.temporal.update_patterns import edge, has_common_timeline, is_dated_by_instant, keeps_timeline


@dataclass(frozen=True)
class Age:
    """Bounds on a row's timestamp, on the time line of its relation; INFINITY: no bound.

    A row that is emitted in the slice (b0, b1] has a timestamp after b0 - `emitted`. It begins at most
    `begins` after its timestamp, and is in no snapshot later than `ends` after it.
    """

    emitted: int = INFINITY
    begins: int = INFINITY
    ends: int = INFINITY


_UNKNOWN = Age()


def _sum(left: int, right: int) -> int:
    return INFINITY if INFINITY in (left, right) else left + right


def _while_held(ends: int) -> Age:
    """Return the age of rows that can be emitted at any time at which the input's rows hold."""
    emitted = _sum(ends, -1)
    return Age(emitted, emitted, ends)


@singledispatch
def age(node: N.Node) -> Age:
    """Return the ages of the rows that a node emits.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> ten, three = N.Window(s, Range(10)), N.Alias(N.Window(s, Range(3)), "r")
    >>> age(ten).emitted, age(N.Join(ten, three)).emitted, age(N.Join(three, ten)).emitted
    (0, 9, 2)
    """
    return _UNKNOWN


@age.register
def _(node: N.Stream) -> Age:
    """Of several time lines, slices are cut by the first."""
    line = node.schema.timeline
    return Age(emitted=0, begins=0) if line is not None and line.timeline == 0 else _UNKNOWN


@age.register(N.Filter)
@age.register(N.Alias)
@age.register(N.View)
@age.register(N.GroupMember)
@age.register(N.Coalesce)
@age.register(N.Split)
@age.register(N.Distinct)
def _(node: N.Node) -> Age:
    """Row-by-row operators, and those whose records depend only on records with the same timestamp."""
    return age(node.inputs[0])


@age.register
def _(node: N.Project) -> Age:
    return age(node.input) if keeps_timeline(node) else _UNKNOWN


@age.register
def _(node: N.Window) -> Age:
    """A time window ends rows by their timestamp; a window of rows retracts them when others come."""
    below = age(node.input)
    if node.schema.timeline is None:
        return below
    if isinstance(node.window, Rows):
        return _while_held(below.ends)
    held = _while_held(min(below.ends, reach(node.window)))
    begins = max(below.begins, _delay(node.window))
    return Age(min(below.emitted, held.emitted), min(begins, held.begins), held.ends)


def _delay(window: AnyWindow) -> int:
    """Return the longest time from a row's timestamp to its begin in a time window."""
    match window:
        case Range(_, slide, lag):
            return lag + (slide if slide > MICROSECOND else 0)
    return 0


@age.register
def _(node: N.Tagged) -> Age:
    """A row is retracted when another row with its key comes."""
    return _while_held(age(node.input).ends)


@age.register
def _(node: N.Synchronize) -> Age:
    """Rows are emitted when they are known, with later begins and ends; some may wait for the point."""
    below, step = age(node.input), node.grid.step
    emitted = _sum(below.emitted, step) if edge(node.input).signed else below.emitted
    return Age(emitted, _sum(below.begins, step), _sum(below.ends, step))


@age.register(N.IStream)
@age.register(N.DStream)
@age.register(N.RStream)
def _(node: N.IStream | N.DStream | N.RStream) -> Age:
    """Emitted when the input's rows begin or end, or as long as they hold; for ever."""
    if is_dated_by_instant(node):
        return Age(emitted=0, begins=0)
    below = age(node.input)
    inserted = isinstance(node, N.IStream) and not edge(node.input).signed
    return Age(emitted=below.begins if inserted else below.ends, begins=below.begins)


@age.register
def _(node: N.Aggregate) -> Age:
    """If the time line is among the keys, a group changes while it has rows, and when they end."""
    line, before = node.schema.timeline, node.input.schema.timeline
    keys = [] if line is None else [e for name, e in node.keys if name == line.name]
    if before is None or Column.to(before) not in keys:
        return _UNKNOWN
    ends = age(node.input).ends
    return Age(ends, ends, ends)


@age.register(Over)
@age.register(Rank)
def _(node: Over | Rank) -> Age:
    """A row has another value or rank, or none, as others come and go, and is retracted when it ends."""
    ends = age(node.input).ends
    return Age(ends, ends, ends)


@age.register(N.Join)
@age.register(N.SemiJoin)
@age.register(N.AntiJoin)
@age.register(N.OuterJoin)
def _(node: N.Join | N.SemiJoin | N.AntiJoin | N.OuterJoin) -> Age:
    """A row of the side with the time line gains or loses partners as long as it holds."""
    line = node.schema.timeline
    if line is None:
        return _UNKNOWN
    on_left = node.schema.index(line) < len(node.left.schema)
    return _while_held(age(node.left if on_left else node.right).ends)


@age.register
def _(node: N.TableJoin) -> Age:
    """⋈NRR emits a row when it comes; ⋈R also whenever the table changes."""
    below = age(node.left)
    return _while_held(below.ends) if node.retroactive else below


@age.register(N.Union)
@age.register(N.MaxUnion)
@age.register(N.Intersection)
@age.register(N.Difference)
@age.register(N.StrictDifference)
def _(node: N.Union | N.MaxUnion | N.Intersection | N.Difference | N.StrictDifference) -> Age:
    """Equal records have equal timestamps, where both sides have their time line at the same place."""
    if not has_common_timeline(node):
        return _UNKNOWN
    left, right = age(node.left), age(node.right)
    if isinstance(node, (N.Difference, N.StrictDifference)):
        # When a row of the right side ends, a row of the left side may begin again.
        left = replace(left, begins=left.ends)
    return Age(max(left.emitted, right.emitted), max(left.begins, right.begins), max(left.ends, right.ends))
