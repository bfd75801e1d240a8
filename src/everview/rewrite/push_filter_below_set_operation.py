"""σ_p(S1 − S2) is σ_p(S1) − σ_p(S2), and so for ∩, ∪max and −strict (paper 1, 5.3; paper 4, 4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, tells_equal_rows_apart
from everview.rewrite.push_filter_below_union import over_side

_SetOperation = N.Difference | N.StrictDifference | N.Intersection | N.MaxUnion


def push_filter_below_set_operation(node: N.Node) -> N.Node | None:
    """Filter both sides of EXCEPT and INTERSECT; columns correspond by position."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, _SetOperation)):
        return None
    operation = node.input
    if operation.left.schema.types != operation.right.schema.types:
        return None  # a side is widened, and the condition reads the wider values
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if not tells_equal_rows_apart(p)]
    if not pushed:
        return None
    sides = [
        filter_plan(side, [over_side(p, operation, side) for p in pushed])
        for side in (operation.left, operation.right)
    ]
    return filter_plan(N.with_inputs(operation, sides), [p for p in parts if p not in pushed])
