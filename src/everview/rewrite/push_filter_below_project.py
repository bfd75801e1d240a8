"""σ_p(μ_f(S)) is μ_f(σ_{p∘f}(S)) (paper 1, 5.3)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, conjuncts
from everview.rewrite.conditions import filter_plan, substitute_computed, tells_equal_rows_apart


def push_filter_below_project(node: N.Node) -> N.Node | None:
    """Move a filter below a projection: what it compares is computed from the columns below."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Project)):
        return None
    project = node.input
    computed: dict[Expression, Expression] = {
        Column.to(field): expression
        for field, (_, expression) in zip(project.schema, project.columns, strict=True)
    }
    pushed: list[Expression] = []
    rest: list[Expression] = []
    for part in conjuncts(node.condition):
        below = None if tells_equal_rows_apart(part) else substitute_computed(part, computed)
        (rest if below is None else pushed).append(part if below is None else below)
    if not pushed:
        return None
    return filter_plan(N.with_inputs(project, [filter_plan(project.input, pushed)]), rest)
