"""σ_p(ℜ_Sync(S)) is ℜ_Sync(σ_p(S)) (paper 5, section 6)."""

from __future__ import annotations

from everview.algebra import nodes as N


def push_filter_below_sync(node: N.Node) -> N.Node | None:
    """Move a filter below a synchronization: rows that it drops do not wait for a point."""
    if isinstance(node, N.Filter) and isinstance(node.input, (N.Synchronize, N.SynchronizeOn)):
        sync = node.input
        return N.with_inputs(sync, [N.Filter(sync.input, node.condition), *sync.inputs[1:]])
    return None
