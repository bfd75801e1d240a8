"""(S1 ⋈ S2) ▷ S3 is (S1 ▷ S3) ⋈ S2 where ▷ reads S1 only (paper 2, 5.4.2 and figure 6, by value).

Below the join, the negation drops rows before they meet; above it, the join has no rows to retract. The paper
pulls negation up where many results end early. Both plans are equal only for a negation by value: EXCEPT ALL
counts copies, and stays where it is written (`docs/findings.md`).
"""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.rewrite.conditions import reads_only
from everview.rewrite.cost import Costs, join_work

_KEPT = 1 / 1000  # what it costs in a second to keep a row, which steps read, of what it costs to emit one


def push_negation_below_join(node: N.Node, costs: Costs | None = None) -> N.Node | None:
    """Move NOT EXISTS and NOT IN below a join, to the side that they read, where that is cheaper."""
    if not (isinstance(node, N.AntiJoin) and isinstance(node.left, N.Join)):
        return None
    join = node.left
    for number, side in enumerate(join.inputs):
        negated = N.AntiJoin(side, node.right, node.condition) if _reads_side(node, side) else None
        if negated is not None and _is_cheaper(node, join, number, negated, costs or Costs()):
            inputs = [negated if i == number else other for i, other in enumerate(join.inputs)]
            return N.with_inputs(join, inputs)
    return None


def _reads_side(node: N.AntiJoin, side: N.Node) -> bool:
    """Return whether the condition reads columns of one side of the join, and of the right rows."""
    both = side.schema.concat(node.right.schema)
    other = [f for f in node.left.schema if f not in side.schema.fields]
    read = {(c.relation, c.name) for c in node.condition.columns()}
    return reads_only(node.condition, both) and not any((f.relation, f.name) in read for f in other)


def _is_cheaper(node: N.AntiJoin, join: N.Join, number: int, negated: N.AntiJoin, costs: Costs) -> bool:
    """Return whether the negation is cheaper below than above; it keeps its left input, and probes it."""
    here, there = (costs.flow_of(join.inputs[i]) for i in (number, 1 - number))
    pairs, answer, left = costs.flow_of(join), costs.flow_of(node), costs.flow_of(negated)
    above = join_work(here, there, pairs).total + 2 * pairs.rate + answer.rate
    above += _KEPT * (here.kept + there.kept + pairs.kept)
    below = join_work(left, there, answer).total + 2 * here.rate + left.rate
    below += _KEPT * (here.kept + left.kept + there.kept)
    names = {"above": above, "below": below}
    costs.record("negation and join", (number, node.condition), names, min(names, key=names.__getitem__))
    return below < above
