"""σ_p(S1 ⋈ S2) is σ_p(S1) ⋈ S2 where p reads S1 only (paper 4, 4.2, with F split into its parts)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, reads_only


def push_filter_below_join(node: N.Node) -> N.Node | None:
    """Move the conditions that read one side only below the join, to that side."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Join)):
        return None
    join = node.input
    parts = conjuncts(node.condition)
    left = [p for p in parts if reads_only(p, join.left.schema)]
    right = [p for p in parts if p not in left and reads_only(p, join.right.schema)]
    if not left and not right:
        return None
    rest = [p for p in parts if p not in left and p not in right]
    pushed = N.with_inputs(join, [filter_plan(join.left, left), filter_plan(join.right, right)])
    return filter_plan(pushed, rest)
