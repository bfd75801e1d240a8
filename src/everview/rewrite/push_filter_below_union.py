"""σ_p(S1 ∪+ S2) is σ_p(S1) ∪+ σ_p(S2) (paper 1, 5.3)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, substitute


def push_filter_below_union(node: N.Node) -> N.Node | None:
    """Filter both sides before they are merged; columns correspond by position."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Union)):
        return None
    union = node.input
    if union.left.schema.types != union.right.schema.types:
        return None  # a side is widened by the union, and the condition reads the wider values
    sides = [N.Filter(side, over_side(node.condition, union, side)) for side in (union.left, union.right)]
    return N.Union(sides[0], sides[1])


def over_side(condition: Expression, operation: N.Node, side: N.Node) -> Expression:
    """Return a condition on the result of a set operation as one on a side."""
    names: dict[Expression, Expression] = {
        Column.to(above): Column.to(below) for above, below in zip(operation.schema, side.schema, strict=True)
    }
    return substitute(condition, names)
