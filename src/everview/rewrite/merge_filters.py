"""σ_p(σ_q(S)) is σ_{q ∧ p}(S)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import And


def merge_filters(node: N.Node) -> N.Node | None:
    """Merge two adjacent filters."""
    if isinstance(node, N.Filter) and isinstance(node.input, N.Filter):
        return N.Filter(node.input.input, And(node.input.condition, node.condition))
    return None
