"""σ_p(ω_w(S)) is ω_w(σ_p(S)) for time windows, not for windows of rows (paper 1, 5.3.1; paper 4, 4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.windows import Rows


def push_filter_below_window(node: N.Node) -> N.Node | None:
    """Move a filter below a time window: rows that it drops need no interval."""
    if isinstance(node, N.Filter) and isinstance(node.input, N.Window):
        window = node.input
        if not isinstance(window.window, Rows):
            return N.Window(N.Filter(window.input, node.condition), window.window)
    return None
