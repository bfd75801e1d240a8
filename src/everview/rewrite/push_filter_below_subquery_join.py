"""σ_p(S1 ▷ S2) is σ_p(S1) ▷ S2, and σ_p(S1 ⋉ S2) is σ_p(S1) ⋉ S2: both only drop rows of S1 (paper 1, 3.5).

WHERE puts [NOT] EXISTS and [NOT] IN below its other conditions. An event query needs these where the rows of
FROM meet: a condition on their times says how long they are kept, and when the subquery is decided (paper 3).
"""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, reads_only


def push_filter_below_subquery_join(node: N.Node) -> N.Node | None:
    """Move a filter above a semi or anti join below it, to the left side."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, (N.SemiJoin, N.AntiJoin))):
        return None
    join = node.input
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if reads_only(p, join.left.schema)]
    if not pushed:
        return None
    rest = [p for p in parts if p not in pushed]
    return filter_plan(N.with_inputs(join, [filter_plan(join.left, pushed), join.right]), rest)
