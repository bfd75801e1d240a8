"""σ_p(S ⋈NRR T) is σ_p(S) ⋈NRR T where p reads the stream S only; so for ⋈R (paper 2, 5.4.2)."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import conjuncts
from everview.rewrite.conditions import filter_plan, reads_only


def push_filter_below_table_join(node: N.Node) -> N.Node | None:
    """Move the conditions that read the rows of the stream below the join with a table.

    A table stays as it is: its versions are looked up by the times of rows.
    """
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.TableJoin)):
        return None
    join = node.input
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if reads_only(p, join.left.schema)]
    if not pushed:
        return None
    sides = [filter_plan(join.left, pushed), join.right]
    return filter_plan(N.with_inputs(join, sides), [p for p in parts if p not in pushed])
