"""σ_{rank ≤ n}(rank(S)) is the top-N of S: only rows that can be among the first n are kept and ranked."""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Comparison, Expression, Literal, conjuncts
from everview.algebra.over import Rank, RankLimit
from everview.algebra.types import INT
from everview.rewrite.conditions import filter_plan

_TURNED = {">=": "<=", ">": "<", "=": "=", "<=>": "<=>"}


def fold_filter_into_rank(node: N.Node) -> N.Node | None:
    """Let a ranking have the limit that a condition on one of its ranks is; `rank = n` stays above it."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, Rank)):
        return None
    ranking, rest = node.input, list[Expression]()
    functions = {Column(name, INT): function for name, function in ranking.ranks}
    limit = ranking.limit
    for part in conjuncts(node.condition):
        found = _limit(part, functions)
        if found is None or (limit is not None and limit.function != found[0].function):
            rest.append(part)
            continue
        limit = found[0] if limit is None or found[0].count < limit.count else limit
        if not found[1]:
            rest.append(part)
    return None if limit == ranking.limit else filter_plan(replace(ranking, limit=limit), rest)


def _limit(part: Expression, functions: dict[Column, str]) -> tuple[RankLimit, bool] | None:
    """Return the limit that follows from a condition, and whether it says no more than that."""
    match part:
        case Comparison(operator, Literal(int() as count), Column() as column) if operator in _TURNED:
            operator = _TURNED[operator]
        case Comparison(operator, Column() as column, Literal(int() as count)):
            pass
        case _:
            return None
    if column not in functions or operator not in ("<", "<=", "=", "<=>"):
        return None
    count -= operator == "<"
    whole = operator in ("<", "<=") or count == 1
    return (RankLimit(functions[column], count), whole) if count > 0 else None
