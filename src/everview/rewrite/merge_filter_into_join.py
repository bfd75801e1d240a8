"""σ_p(S1 ⋈_θ S2) is S1 ⋈_{θ ∧ p} S2 (paper 1, equation 11)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjunction, conjuncts


def merge_filter_into_join(node: N.Node) -> N.Node | None:
    """Merge a filter above a join into its condition, so that an equality in it becomes a key of the join."""
    if isinstance(node, N.Filter) and isinstance(node.input, N.Join):
        join = node.input
        return N.Join(
            join.left, join.right, conjunction(conjuncts(join.condition) + conjuncts(node.condition))
        )
    return None
