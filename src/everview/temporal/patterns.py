"""How the results of each operator come and go: paper 2's update patterns, and whether rows are taken back.

MON: rows only come. WKS: they end in the order in which they came. WK: their ends are known, in any
order. STR: some end when nobody could know. A stream is signed if negative rows may occur in it. Pattern and
sign are two facts: a GROUP BY is WK by the paper's convention that a new value replaces the old one, and
yet signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.windows import Band, Rows
from everview.errors import TemporalError


class Pattern(IntEnum):
    """The four update patterns (paper 2, 3.1), from the simplest to the hardest."""

    MON = 0
    WKS = 1
    WK = 2
    STR = 3


@dataclass(frozen=True)
class Edge:
    """What flows out of an operator."""

    pattern: Pattern
    signed: bool = False

    def __str__(self) -> str:
        return f"{self.pattern.name}±" if self.signed else self.pattern.name


_APPEND_ONLY = Edge(Pattern.MON)
_STRICT = Edge(Pattern.STR, signed=True)


@singledispatch
def edge(node: N.Node) -> Edge:
    """The update pattern of a node's output (paper 2, 5.2, rules 1 to 5), and its sign.

    A node that row by row keeps what its input is: rule 1.

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
        order = Pattern.WK if node.window.partition_by else Pattern.WKS
        return Edge(max(below.pattern, order), signed=True)
    if isinstance(node.window, Band):
        return below
    return Edge(Pattern.WKS if below.pattern == Pattern.MON else max(below.pattern, Pattern.WK), below.signed)


@edge.register(N.Tagged)
@edge.register(N.SynchronizeOn)
def _(node: N.Tagged | N.SynchronizeOn) -> Edge:
    return Edge(max(edge(node.input).pattern, Pattern.WK), signed=True)


@edge.register
def _(node: N.Union) -> Edge:
    """Rule 2; a union of windows is FIFO only if they are equal."""
    left, right = edge(node.left), edge(node.right)
    pattern = max(left.pattern, right.pattern)
    if pattern == Pattern.WKS and _windows(node.left) != _windows(node.right):
        pattern = Pattern.WK
    return Edge(pattern, left.signed or right.signed)


def _windows(node: N.Node) -> set[object]:
    return {n.window for n in node.walk() if isinstance(n, N.Window)}


@edge.register(N.Join)
@edge.register(N.SemiJoin)
@edge.register(N.Intersection)
@edge.register(N.MaxUnion)
@edge.register(N.Distinct)
def _(node: N.Node) -> Edge:
    """Rule 3: weak, or strict if an input is; over streams that only grow, so does the result."""
    below = [edge(i) for i in node.inputs]
    hardest = max(b.pattern for b in below)
    pattern = hardest if hardest == Pattern.MON else max(hardest, Pattern.WK)
    return Edge(pattern, any(b.signed for b in below))


@edge.register
def _(node: N.Aggregate) -> Edge:
    """Rule 4: a new value of a group replaces the old one."""
    return Edge(Pattern.WK, signed=True)


@edge.register(N.Difference)
@edge.register(N.StrictDifference)
@edge.register(N.AntiJoin)
@edge.register(N.OuterJoin)
def _(node: N.Node) -> Edge:
    """Rule 5."""
    return _STRICT


@edge.register
def _(node: N.TableJoin) -> Edge:
    """Rule 5 for ⋈R; rule 1 for ⋈NRR, whose result later updates leave alone."""
    return _STRICT if node.retroactive else edge(node.left)


def require_runnable(plan: N.Node) -> None:
    """Refuses what has no meaning over rows that are taken back.

    A row that ends before an older one would let one that was pushed out of a window of rows come back; the
    version of a table that a row met may be gone when it is taken back (paper 2, 5.4.2).
    """
    for node in plan.walk():
        if isinstance(node, N.Window) and isinstance(node.window, Rows):
            below = edge(node.input)
            if below.signed or below.pattern > Pattern.WKS:
                what = "are never taken back" if below.signed else "end in the order in which they came"
                raise TemporalError(
                    f"[{node.window}] needs rows that {what}, and those of its input may do otherwise",
                    next_step="put the window on the stream below, or use a time window",
                )
        if isinstance(node, N.TableJoin) and not node.retroactive and edge(node.left).signed:
            raise TemporalError(
                "a table is joined as of the time of rows that are never taken back, and these may be",
                next_step="join the table before the aggregate, EXCEPT, outer join or ROWS window",
            )
