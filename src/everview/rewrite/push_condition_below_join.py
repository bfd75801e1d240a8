"""S1 ⋈_{θ ∧ p} S2 is σ_p(S1) ⋈_θ S2 where p reads S1 only (paper 1, equation 11; paper 4, 4.2).

A padded side may lose rows that match nothing: S1 ⟕_{θ ∧ p} S2 is S1 ⟕_θ σ_p(S2) where p reads S2 only.
"""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import conjunction, conjuncts
from everview.rewrite.conditions import filter_plan, reads_only


def push_condition_below_join(node: N.Node) -> N.Node | None:
    """Move the parts of a condition that read one side only below the join, if that side may lose rows."""
    if not isinstance(node, (N.Join, N.OuterJoin)):
        return None
    parts = conjuncts(node.condition)
    preserved = node.kind if isinstance(node, N.OuterJoin) else ""
    left = [p for p in parts if preserved in ("", "RIGHT") and reads_only(p, node.left.schema)]
    right = [p for p in parts if preserved in ("", "LEFT") and reads_only(p, node.right.schema)]
    if not left and not right:
        return None
    rest = replace(node, condition=conjunction([p for p in parts if p not in left and p not in right]))
    return N.with_inputs(rest, [filter_plan(node.left, left), filter_plan(node.right, right)])
