"""σ_p(S1 ⋈ S2) is σ_p(S1) ⋈ S2 where p reads S1 only (paper 4, 4.2, with F split into its parts)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression, conjunction, conjuncts
from everview.algebra.schema import Schema


def push_filter_below_join(node: N.Node) -> N.Node | None:
    """Move the conditions that read one side only below the join, to that side."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, (N.Join, N.SemiJoin, N.AntiJoin))):
        return None
    join = node.input
    parts = conjuncts(node.condition)
    left = [p for p in parts if _reads_only(p, join.left.schema)]
    right = [p for p in parts if p not in left and _reads_only(p, join.right.schema)]
    if not isinstance(join, N.Join):
        right = []
    if not left and not right:
        return None
    rest = [p for p in parts if p not in left and p not in right]
    pushed = N.with_inputs(join, [_filtered(join.left, left), _filtered(join.right, right)])
    return _filtered(pushed, rest)


def _reads_only(condition: Expression, schema: Schema) -> bool:
    known = {(f.relation, f.name) for f in schema}
    columns = condition.columns()
    return bool(columns) and all((c.relation, c.name) in known for c in columns)


def _filtered(plan: N.Node, conditions: list[Expression]) -> N.Node:
    return N.Filter(plan, conjunction(conditions)) if conditions else plan
