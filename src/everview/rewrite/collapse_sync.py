"""ℜ_a(ℜ_b(S)) is ℜ_a(S) if every point of a is one of b, ℜ_b(S) if it is the other way (paper 5, 5.3)."""

from __future__ import annotations

from everview.algebra import nodes as N


def collapse_sync(node: N.Node) -> N.Node | None:
    """Replace two synchronizations, one over the other, by the one with fewer points."""
    if not (isinstance(node, N.Synchronize) and isinstance(node.input, N.Synchronize)):
        return None
    above, below = node.grid, node.input.grid
    if above.within(below):
        return N.Synchronize(node.input.input, above)
    return node.input if below.within(above) else None
