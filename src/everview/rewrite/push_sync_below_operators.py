"""ℜ_Sync(S1 ⋈ S2) is ℜ_Sync(S1) ⋈ ℜ_Sync(S2): pre-synchronization (paper 5, theorem 3 and section 8).

What holds at an instant depends on what the inputs hold at that instant, so every such operator commutes with
a synchronization on a grid. What comes and goes between two points then never reaches the operator.
"""

from __future__ import annotations

from everview.algebra import nodes as N

_Commuting = (
    N.Project
    | N.Alias
    | N.Join
    | N.SemiJoin
    | N.AntiJoin
    | N.OuterJoin
    | N.Union
    | N.Difference
    | N.StrictDifference
    | N.Intersection
    | N.MaxUnion
    | N.Distinct
)


def push_sync_below_operators(node: N.Node) -> N.Node | None:
    """Synchronize the inputs of an operator instead of its output.

    An aggregation without keys has a row before the first point, and its synchronization has none. A filter
    that stays above an operator, as HAVING does, is passed with it: alone it is where it should be.
    """
    if not isinstance(node, N.Synchronize):
        return None
    below = node.input
    if isinstance(below, N.Filter):
        pushed = push_sync_below_operators(N.Synchronize(below.input, node.grid))
        return None if pushed is None else N.with_inputs(below, [pushed])
    keyed = isinstance(below, N.Aggregate) and below.keys
    if not keyed and not isinstance(below, _Commuting):
        return None
    return N.with_inputs(below, [N.Synchronize(side, node.grid) for side in below.inputs])
