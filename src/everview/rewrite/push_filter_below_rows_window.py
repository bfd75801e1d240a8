"""σ_p(ω_{PARTITION BY k ROWS n}(S)) is ω(σ_p(S)) where p reads the partition's key k only (paper 4, 4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, conjuncts
from everview.algebra.windows import Rows
from everview.rewrite.conditions import filter_plan, reads_key


def push_filter_below_rows_window(node: N.Node) -> N.Node | None:
    """Move the conditions on the key of a window of rows below it: whole partitions go, the others stay."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Window)):
        return None
    window, below = node.input.window, node.input.input
    if not isinstance(window, Rows):
        return None
    keys = {Column.to(below.schema.find(name)) for name in window.partition_by}
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if reads_key(p, keys)]
    if not pushed:
        return None
    rest = [p for p in parts if p not in pushed]
    return filter_plan(N.Window(filter_plan(below, pushed), window), rest)
