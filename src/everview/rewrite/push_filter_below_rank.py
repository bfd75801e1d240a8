"""σ_p(over_K(S)) is over_K(σ_p(S)) where p reads the partition's key K only; so for ranks and for values."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, conjuncts
from everview.algebra.over import Over, Rank
from everview.rewrite.conditions import filter_plan, reads_key


def push_filter_below_rank(node: N.Node) -> N.Node | None:
    """Move the conditions on the partition of OVER (…) below it: whole partitions go, the others stay."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, (Over, Rank))):
        return None
    ranking = node.input
    keys = {e for e in ranking.partition if isinstance(e, Column)}
    parts = conjuncts(node.condition)
    pushed = [p for p in parts if reads_key(p, keys)]
    if not pushed:
        return None
    rest = [p for p in parts if p not in pushed]
    return filter_plan(N.with_inputs(ranking, [filter_plan(ranking.input, pushed)]), rest)
