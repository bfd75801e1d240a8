"""σ_p(γ_K(S)) is γ_K(σ_p(S)) where p reads the group keys K only (paper 4, 4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, conjuncts
from everview.rewrite.conditions import filter_plan, substitute_computed, tells_equal_rows_apart


def push_filter_below_aggregate(node: N.Node) -> N.Node | None:
    """Move the conditions on group keys below the aggregation: whole groups go, the others stay.

    Without keys there is always one row, also over no rows at all.
    """
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Aggregate)):
        return None
    aggregate = node.input
    keys: dict[Expression, Expression] = {
        Column.to(field): key for field, (_, key) in zip(aggregate.schema, aggregate.keys, strict=False)
    }
    parts = conjuncts(node.condition)
    pushed: list[Expression] = []
    rest: list[Expression] = []
    for part in parts:
        on_keys = bool(part.columns()) and part.columns() <= keys.keys() and not tells_equal_rows_apart(part)
        below = substitute_computed(part, keys) if on_keys else None
        (rest if below is None else pushed).append(part if below is None else below)
    if not pushed:
        return None
    return filter_plan(N.with_inputs(aggregate, [filter_plan(aggregate.input, pushed)]), rest)
