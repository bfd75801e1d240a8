"""σ_p(δ(S)) is δ(σ_p(S)) (paper 1, 5.3; paper 4, 4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, tells_equal_rows_apart


def push_filter_below_distinct(node: N.Node) -> N.Node | None:
    """Move a filter below DISTINCT: rows that it drops are not counted."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Distinct)):
        return None
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if not tells_equal_rows_apart(p)]
    if not pushed:
        return None
    rest = [p for p in parts if p not in pushed]
    return filter_plan(N.Distinct(filter_plan(node.input.input, pushed)), rest)
