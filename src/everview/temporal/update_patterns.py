"""The update pattern of each operator's results (paper 2), and whether the results have retractions.

MON: rows are only inserted. WKS: they end in the order in which they came. WK: their ends are known, in any
order. STR: some end at a time that was not known before. A stream is signed if negative rows may occur in it.
Pattern and sign are two facts: a GROUP BY is WK by the paper's convention that a new value replaces the old
one, and yet signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.over import Over, Rank
from everview.algebra.session import Session
from everview.algebra.windows import Band, Rows


class Pattern(IntEnum):
    """The four update patterns (paper 2, 3.1), from the simplest to the hardest."""

    MON = 0
    WKS = 1
    WK = 2
    STR = 3


@dataclass(frozen=True)
class Edge:
    """The update pattern of an operator's output, and whether it has negative rows."""

    pattern: Pattern
    signed: bool = False

    def __str__(self) -> str:
        return f"{self.pattern.name}±" if self.signed else self.pattern.name


_APPEND_ONLY = Edge(Pattern.MON)
_STRICT = Edge(Pattern.STR, signed=True)


@singledispatch
def edge(node: N.Node) -> Edge:
    """Return the update pattern of a node's output (paper 2, 5.2, rules 1 to 5), and its sign.

    Row-by-row operators keep the pattern of their input (rule 1).

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> window = N.Window(s, Range(10))
    >>> str(edge(s)), str(edge(window)), str(edge(N.Distinct(window))), str(edge(N.Difference(window, s)))
    ('MON', 'WKS', 'WK', 'STR±')
    """
    return edge(node.inputs[0])


@edge.register(N.Stream)
@edge.register(N.Values)
@edge.register(N.IStream)
@edge.register(N.DStream)
@edge.register(N.RStream)
def _(node: N.Node) -> Edge:
    return _APPEND_ONLY


@edge.register
def _(node: N.Table) -> Edge:
    return _STRICT


@edge.register
def _(node: N.Window) -> Edge:
    below = edge(node.input)
    if isinstance(node.window, Rows):
        in_order = not node.window.partition_by and arrival(node.input) is not None
        order = Pattern.WKS if in_order else Pattern.WK
        return Edge(max(below.pattern, order), signed=True)
    if isinstance(node.window, Band):
        return below
    in_order = below.pattern <= Pattern.WKS and not below.signed and arrival(node.input) is not None
    return Edge(Pattern.WKS if in_order else max(below.pattern, Pattern.WK), below.signed)


@edge.register
def _(node: Session) -> Edge:
    """The end of a row is put off by later ones; if it is a column, the row is replaced."""
    return _STRICT if node.with_end else Edge(Pattern.WK)


@edge.register(N.Tagged)
@edge.register(N.SynchronizeOn)
def _(node: N.Tagged | N.SynchronizeOn) -> Edge:
    return Edge(max(edge(node.input).pattern, Pattern.WK), signed=True)


@edge.register
def _(node: N.Union) -> Edge:
    """Rule 2; a union of windows is FIFO only if the rows of both sides come and end in the same way."""
    left, right = edge(node.left), edge(node.right)
    pattern = max(left.pattern, right.pattern)
    if pattern == Pattern.WKS and arrival(node) is None:
        pattern = Pattern.WK
    return Edge(pattern, left.signed or right.signed)


@edge.register(N.Join)
@edge.register(N.SemiJoin)
@edge.register(N.Intersection)
@edge.register(N.MaxUnion)
@edge.register(N.Distinct)
def _(node: N.Node) -> Edge:
    """Rule 3: weak, or strict if an input is strict; over append-only inputs the result is append-only."""
    below = [edge(i) for i in node.inputs]
    hardest = max(b.pattern for b in below)
    pattern = hardest if hardest == Pattern.MON else max(hardest, Pattern.WK)
    return Edge(pattern, any(b.signed for b in below))


@edge.register
def _(node: N.Aggregate) -> Edge:
    """Rule 4: a new value of a group replaces the old one."""
    return Edge(Pattern.WK, signed=True)


@edge.register(Over)
@edge.register(Rank)
@edge.register(N.Difference)
@edge.register(N.StrictDifference)
@edge.register(N.AntiJoin)
@edge.register(N.OuterJoin)
def _(node: N.Node) -> Edge:
    """Rule 5; a row has its rank, or its values over other rows, until another row comes or goes."""
    return _STRICT


@edge.register
def _(node: N.TableJoin) -> Edge:
    """Rule 5 for ⋈R; rule 1 for ⋈NRR, whose results later updates do not change."""
    return _STRICT if node.retroactive else edge(node.left)


# The order in which rows arrive

Arrival = tuple[object, ...]
"""What shifts the begins and ends of rows after their timestamps: windows and synchronizations, in order."""


@singledispatch
def arrival(node: N.Node) -> Arrival | None:
    """Return the windows and synchronizations of a node if its rows arrive in the order of their timestamps.

    With the same windows and synchronizations, a row with a later timestamp neither begins nor ends earlier.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> window = N.Window(s, Range(10))
    >>> arrival(N.Union(s, s)), arrival(N.Union(s, window)), arrival(N.Join(s, N.Alias(s, "r")))
    ((), None, None)
    """
    return None


@arrival.register
def _(node: N.Stream) -> Arrival | None:
    line = node.schema.timeline
    return () if line is not None and line.timeline == 0 else None


@arrival.register(N.Filter)
@arrival.register(N.Alias)
@arrival.register(N.View)
@arrival.register(N.GroupMember)
@arrival.register(N.Coalesce)
@arrival.register(N.Split)
@arrival.register(N.Distinct)
def _(node: N.Node) -> Arrival | None:
    return arrival(node.inputs[0])


@arrival.register
def _(node: N.Project) -> Arrival | None:
    return arrival(node.input) if keeps_timeline(node) else None


@arrival.register
def _(node: N.Window) -> Arrival | None:
    below = arrival(node.input)
    if below is None or isinstance(node.window, Rows):
        return None
    return below if isinstance(node.window, Band) else (*below, node.window)


@arrival.register
def _(node: N.Synchronize) -> Arrival | None:
    below = arrival(node.input)
    return None if below is None else (*below, node.grid)


@arrival.register(N.IStream)
@arrival.register(N.DStream)
@arrival.register(N.RStream)
def _(node: N.IStream | N.DStream | N.RStream) -> Arrival | None:
    if is_dated_by_instant(node):
        return ()
    in_order = isinstance(node, N.IStream) and not edge(node.input).signed
    below = arrival(node.input) if in_order else None
    return None if below is None else (*below, N.IStream)


@arrival.register
def _(node: N.TableJoin) -> Arrival | None:
    return None if node.retroactive else arrival(node.left)


@arrival.register(N.Union)
@arrival.register(N.MaxUnion)
@arrival.register(N.Intersection)
def _(node: N.Union | N.MaxUnion | N.Intersection) -> Arrival | None:
    left, right = arrival(node.left), arrival(node.right)
    return left if left == right and has_common_timeline(node) else None


def is_dated_by_instant(node: N.IStream | N.DStream | N.RStream) -> bool:
    """Return whether the time line of these rows is the instant at which they come."""
    line = node.schema.timeline
    return node.stamped and line == node.schema.fields[-1]


def keeps_timeline(node: N.Project) -> bool:
    """Return whether the time line of the output is that of the input."""
    before, line = node.input.schema.timeline, node.schema.timeline
    if before is None or line is None:
        return False
    return node.columns[node.schema.index(line)][1] == Column.to(before)


def has_common_timeline(node: N.Node) -> bool:
    """Return whether both sides and the result of a set operation have the time line at one position."""
    lines = [(n, n.schema.timeline) for n in (node, *node.inputs)]
    places = {None if line is None else n.schema.index(line) for n, line in lines}
    return len(places) == 1 and None not in places
