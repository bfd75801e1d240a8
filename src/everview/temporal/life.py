"""The lifetimes of the rows of each operator, once they are known (paper 1, 4.3; paper 2, 5.3).

Derived bottom-up: a row of [RANGE w] lasts w, a pair of a join as long as the one that ends first, a row of
a stream without a window for ever. State retention follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.over import Over, Rank
from everview.algebra.session import Session
from everview.algebra.time import INFINITY, MICROSECOND
from everview.algebra.windows import AnyWindow, Band, Fixed, Range, Rows

Length = int | None  # microseconds; INFINITY: for ever; None: until an event that cannot be foreseen


@dataclass(frozen=True)
class Life:
    """The lifetimes of the rows that an operator emits.

    `lasts` is the longest time from when a row is known until it ends. `ends` is the longest time after which
    a row ends that ends by itself, 0 if none does; `begins` the longest time after which a row begins that is
    known before. `grows` says that ever more rows hold.
    """

    lasts: Length
    ends: int = 0
    grows: bool = False
    begins: int = 0

    @property
    def waits(self) -> int:
        """The longest time for which a known begin or end lies in the future."""
        return max(self.ends, self.begins)


def _order(length: Length) -> float:
    """Return a sort key: a known length comes first, then until retracted, then for ever."""
    return INFINITY - 1 if length is None else length


def _shorter(left: Length, right: Length) -> Length:
    return min(left, right, key=_order)


def _longer(left: Length, right: Length) -> Length:
    return max(left, right, key=_order)


def is_known(length: Length) -> bool:
    """Return whether the end of a row is known in advance."""
    return length is not None and length < INFINITY


@singledispatch
def life(node: N.Node) -> Life:
    """Return how long the rows of a node's output last; row-by-row operators do not change it.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> ten, three = N.Window(s, Range(10)), N.Alias(N.Window(s, Range(3)), "r")
    >>> life(N.Join(ten, three)).lasts, life(N.Join(s, three)).lasts, life(N.Join(s, three)).grows
    (3, 3, True)
    """
    return life(node.inputs[0])


@life.register(N.Stream)
@life.register(N.IStream)
@life.register(N.DStream)
@life.register(N.RStream)
def _(node: N.Node) -> Life:
    return Life(INFINITY, grows=True)


@life.register
def _(node: N.Table) -> Life:
    return Life(None)


@life.register
def _(node: N.Values) -> Life:
    return Life(INFINITY)


@life.register
def _(node: N.Window) -> Life:
    below = life(node.input)
    match node.window:
        case Rows():
            return Life(below.lasts if is_known(below.lasts) else None, below.ends, begins=below.begins)
        case Band(_, upper):
            return below if upper is None else replace(below, grows=False)
    lasts = _shorter(below.lasts, reach(node.window))
    return Life(lasts, lasts or 0, begins=below.begins)


def reach(window: AnyWindow) -> int:
    """Return the longest time from a row's timestamp to its end in a time window, including the slide."""
    match window:
        case Range(extent, slide, lag) if slide > MICROSECOND:
            # A slide adds a microsecond less than its length. That is left out where the lag makes up for it,
            # as in windows that are columns.
            return lag + extent + slide - (MICROSECOND if lag % slide == MICROSECOND else 0)
        case Range(extent, _, lag):
            return lag + extent
        case Fixed(extent):
            return extent
    return INFINITY


@life.register
def _(node: Session) -> Life:
    """A row ends within the gap, or is emitted again before that, to begin where it would have ended."""
    return Life(node.gap, node.gap, begins=node.gap)


@life.register
def _(node: N.Tagged) -> Life:
    return Life(None)


@life.register
def _(node: N.Synchronize) -> Life:
    """A row that ends between two points holds up to the next point."""
    below = life(node.input)
    step = node.grid.step
    lasts = below.lasts + step if below.lasts is not None and is_known(below.lasts) else below.lasts
    return Life(lasts, below.ends + step if below.ends else 0, below.grows, below.begins + step)


@life.register
def _(node: N.SynchronizeOn) -> Life:
    below = life(node.input)
    return Life(INFINITY if below.lasts == INFINITY else None, grows=below.grows)


@life.register
def _(node: N.Aggregate) -> Life:
    """A value holds until the next one; the number of groups grows if a timestamp is part of the key."""
    timed = any(node.schema.find(name).timeline is not None for name, _ in node.keys)
    return Life(None, grows=timed and life(node.input).grows)


@life.register
def _(node: Over) -> Life:
    """A row has its values until another row comes or goes."""
    return Life(None, grows=life(node.input).grows)


@life.register
def _(node: Rank) -> Life:
    """A row is ranked until a better one comes. With a limit, rows grow if a partition has a timestamp."""
    below, schema = life(node.input), node.input.schema
    columns = [e for e in node.partition if isinstance(e, Column)]
    timed = any(schema.find(c.name, c.relation).timeline is not None for c in columns)
    return Life(None, grows=below.grows and (node.limit is None or timed))


@life.register(N.Join)
@life.register(N.SemiJoin)
def _(node: N.Join | N.SemiJoin) -> Life:
    left, right = life(node.left), life(node.right)
    grows = left.grows or (right.grows and isinstance(node, N.Join))
    return _meeting(left, right, grows)


def _meeting(left: Life, right: Life, grows: bool) -> Life:
    """Return the lifetime of pairs: a pair ends when the first of its rows ends."""
    lasts = _shorter(left.lasts, right.lasts)
    ends = lasts if lasts is not None and is_known(lasts) else max(left.ends, right.ends)
    return Life(lasts, ends, grows, max(left.begins, right.begins))


@life.register
def _(node: N.Intersection) -> Life:
    left, right = life(node.left), life(node.right)
    return _meeting(left, right, left.grows and right.grows)


@life.register(N.Difference)
@life.register(N.StrictDifference)
@life.register(N.AntiJoin)
def _(node: N.Difference | N.StrictDifference | N.AntiJoin) -> Life:
    """The rows of the left side; a row without an end of its own is retracted when a partner comes, and
    inserted again when the partner ends."""
    right = life(node.right)
    return _meeting(life(node.left), Life(None, right.ends, begins=right.begins), grows=False)


@life.register
def _(node: N.OuterJoin) -> Life:
    left, right = life(node.left), life(node.right)
    pairs = _meeting(left, right, left.grows or right.grows)
    kept = {"LEFT": [left], "RIGHT": [right], "FULL": [left, right]}[node.kind]
    for side in kept:
        pairs = _together(pairs, side)
    return pairs


@life.register
def _(node: N.TableJoin) -> Life:
    left = life(node.left)
    return _meeting(left, life(node.right), left.grows) if node.retroactive and not node.outer else left


@life.register(N.Union)
@life.register(N.MaxUnion)
def _(node: N.Union | N.MaxUnion) -> Life:
    return _together(life(node.left), life(node.right))


def _together(left: Life, right: Life) -> Life:
    return Life(
        _longer(left.lasts, right.lasts),
        max(left.ends, right.ends),
        left.grows or right.grows,
        max(left.begins, right.begins),
    )
