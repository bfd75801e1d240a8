"""Synchronization: the instants at which a relation is up to date with its streams (paper 5, 5 and 6.1-6.3).

SYNC lets changes appear at given points only. Such a point is full for the output of a query if all its
inputs have it: there the answer is that of the query without SYNC. At a point that only some have, the answer
changes but reads the others as they were: the point is partial (definitions 1 and 2, theorems 1 to 3).
Between points nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce, singledispatch

from everview.algebra import nodes as N
from everview.algebra.text import name_sql
from everview.algebra.time import MICROSECOND, Grid, duration_text, format_timestamp
from everview.algebra.windows import Fixed, Range

_INSTANTS = Grid(MICROSECOND)


@dataclass(frozen=True)
class Points:
    """The instants that lie on a grid and at which all of some synchronization streams have a point.

    Every instant lies on the grid of one chronon; None is no grid at all: no instant.

    >>> minutes = Points(Grid(2 * 60_000_000)), Points(Grid(3 * 60_000_000))
    >>> print(minutes[0].common(minutes[1]))
    every 6 minutes
    """

    grid: Grid | None = _INSTANTS
    on: tuple[N.Node, ...] = ()

    def __post_init__(self) -> None:
        if self.grid is not None:  # any point of a grid can be its origin; choose one
            object.__setattr__(self, "grid", Grid(self.grid.step, self.grid.origin % self.grid.step))

    def common(self, other: Points) -> Points:
        """Return the points that both have; two grids have the grid of the least common multiple, or none."""
        if self.grid is None or other.grid is None:
            return NEVER
        grid = self.grid.common(other.grid)
        return NEVER if grid is None else Points(grid, tuple(dict.fromkeys(self.on + other.on)))

    def within(self, other: Points) -> bool:
        """Return whether all of these points are certainly among the others."""
        if self.grid is None or other.grid is None:
            return self.grid is None
        return self.grid.within(other.grid) and set(other.on) <= set(self.on)

    def __str__(self) -> str:
        if self.grid is None:
            return "none"
        streams = " and ".join(map(_name, self.on))
        if self.grid.step == MICROSECOND:
            return f"the points of {streams}" if streams else "every instant"
        return _every(self.grid) + (f", where it is one of {streams}" if streams else "")


EVERY = Points()
NEVER = Points(None)


def _every(grid: Grid) -> str:
    length = duration_text(grid.step).lower().removeprefix("1 ")
    origin = f" from {format_timestamp(grid.origin)[:26]}" if grid.origin else ""
    return f"every {length}{origin}"


def _name(node: N.Node) -> str:
    return name_sql(node.name) if isinstance(node, (N.View, N.Stream, N.Alias)) else "its stream"


@dataclass(frozen=True)
class Synchronization:
    """The full points of a relation, and all the points at which it may change."""

    full: Points = EVERY
    changes: tuple[Points, ...] = (EVERY,)

    @property
    def partial(self) -> tuple[Points, ...]:
        """The sets of points at which the relation may change and that are not all full."""
        return tuple(p for p in self.changes if not p.within(self.full))

    def __str__(self) -> str:
        partial = f"; partial: {', '.join(map(str, self.partial))}" if self.partial else ""
        return f"{self.full}{partial}"


def _synchronization(full: Points, changes: tuple[Points, ...]) -> Synchronization:
    """Return a Synchronization without sets of points that another set covers."""
    different = tuple(dict.fromkeys(changes))
    kept = [p for p in different if not any(p.within(q) and p != q for q in different)]
    return Synchronization(full, tuple(kept))


@singledispatch
def synchronization(node: N.Node) -> Synchronization:
    """Return the points of a node's output: those of its inputs (definition 1); common ones are full (2).

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> two = N.Synchronize(s, Grid(2_000_000))
    >>> three = N.Alias(N.Synchronize(s, Grid(3_000_000)), "r")
    >>> print(synchronization(N.Join(two, three)))
    every 6 seconds; partial: every 2 seconds, every 3 seconds
    """
    below = [synchronization(i) for i in node.inputs]
    full = reduce(Points.common, (b.full for b in below), EVERY)
    return _synchronization(full, tuple(p for b in below for p in b.changes))


@synchronization.register(N.Stream)
@synchronization.register(N.Table)
def _(node: N.Node) -> Synchronization:
    return Synchronization()


@synchronization.register
def _(node: N.Values) -> Synchronization:
    return Synchronization(EVERY, ())


@synchronization.register(N.Synchronize)
@synchronization.register(N.RStream)
def _(node: N.Synchronize | N.RStream) -> Synchronization:
    return _read_at(node.input, Points(node.grid))


@synchronization.register
def _(node: N.SynchronizeOn) -> Synchronization:
    return _read_at(node.input, Points(on=(node.points,)))


def _read_at(node: N.Node, points: Points) -> Synchronization:
    """Return the synchronization of a relation that is read at some points only (theorem 1)."""
    return Synchronization(synchronization(node).full.common(points), (points,))


@synchronization.register
def _(node: N.Window) -> Synchronization:
    """Return the points of a time window: its rows begin and end on the grid of its slides."""
    below = synchronization(node.input)
    moves: tuple[Points, ...] = ()
    match node.window:
        case Range(_, slide, _, origin):
            moves = (Points(Grid(slide, origin)),)
        case Fixed():
            moves = (Points(node.window.grid),)
    return _synchronization(below.full, (*below.changes, *moves))
