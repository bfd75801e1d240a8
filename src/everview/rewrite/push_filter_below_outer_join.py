"""σ_p(S1 ⟕ S2) is σ_p(S1) ⟕ S2 where p reads the preserved side S1 only."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, reads_only


def push_filter_below_outer_join(node: N.Node) -> N.Node | None:
    """Move the conditions that read the preserved side only below the join, to that side."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.OuterJoin)):
        return None
    join = node.input
    if join.kind == "FULL":
        return None
    preserved = join.left if join.kind == "LEFT" else join.right
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if reads_only(p, preserved.schema)]
    if not pushed:
        return None
    below = filter_plan(preserved, pushed)
    sides = [below, join.right] if join.kind == "LEFT" else [join.left, below]
    return filter_plan(N.with_inputs(join, sides), [p for p in parts if p not in pushed])
