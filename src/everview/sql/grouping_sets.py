"""GROUPING SETS, ROLLUP and CUBE: a union of one aggregation for each set of keys, all over one input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, Literal, substitute
from everview.algebra.types import TINYINT

if TYPE_CHECKING:
    from everview.sql.expressions import ExpressionBinder

MOST_SETS = 64
"""Each set of keys is an aggregation of its own; CUBE of six keys has so many."""


@dataclass(frozen=True)
class GroupingRef(Expression):
    """GROUPING(key): 1 in the rows of a grouping without this key, else 0."""

    key: Expression

    def __post_init__(self) -> None:
        self._typed(TINYINT)


def bind_grouping(binder: ExpressionBinder, node: exp.Anonymous) -> Expression:
    """Bind GROUPING(key)."""
    if len(node.expressions) != 1:
        raise binder.script.error("GROUPING takes one argument, a key of GROUP BY", node)
    return GroupingRef(binder.bind(node.expressions[0]))


def has_grouping_sets(group: exp.Group) -> bool:
    """Return whether a GROUP BY has several sets of keys."""
    several = (exp.GroupingSets, exp.Rollup, exp.Cube)
    return any(isinstance(part, several) for part in group.walk())


def count_sets(item: exp.Expr) -> int:
    """Return how many sets of keys a GROUP BY, or an item of it, has; nothing is listed for that."""
    match item:
        case exp.Group():
            if item.args.get("rollup") or item.args.get("cube"):
                return len(item.expressions) + 1 if item.args.get("rollup") else 2 ** len(item.expressions)
            return math.prod(count_sets(e) for e in item.expressions)
        case exp.Rollup():
            return len(item.expressions) + 1
        case exp.Cube():
            return int(2 ** len(item.expressions))
        case exp.GroupingSets():
            return sum(count_sets(e) for e in item.expressions)
    return 1


def sets_of_keys(group: exp.Group) -> list[list[exp.Expr]]:
    """Return the sets of keys of a GROUP BY: every choice of one set from each of its items."""
    if group.args.get("rollup") or group.args.get("cube"):  # GROUP BY a, b WITH ROLLUP
        kind = exp.Rollup if group.args.get("rollup") else exp.Cube
        parts = [_sets(kind(expressions=group.expressions))]
    else:
        parts = [_sets(item) for item in group.expressions]
    return [[key for part in chosen for key in part] for chosen in product(*parts)]


def _sets(item: exp.Expr) -> list[list[exp.Expr]]:
    match item:
        case exp.Rollup():
            parts = [_keys(e) for e in item.expressions]
            return [[k for part in parts[:n] for k in part] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_keys(e) for e in item.expressions]
            sizes = range(len(parts), -1, -1)
            return [[k for part in some for k in part] for n in sizes for some in combinations(parts, n)]
        case exp.GroupingSets():
            return [found for e in item.expressions for found in _sets(e)]
    return [_keys(item)]


def _keys(item: exp.Expr) -> list[exp.Expr]:
    """Return the keys that stand together in brackets."""
    if isinstance(item, exp.Tuple):
        return list(item.expressions)
    return [item.this] if isinstance(item, exp.Paren) else [item]


def for_one_set(
    expression: Expression, keys: Sequence[Expression], every: Sequence[Expression]
) -> Expression:
    """Return an expression of the SELECT list for one set of keys: other keys are NULL."""
    marks: dict[Expression, Expression] = {
        GroupingRef(key): Literal(int(key not in keys), TINYINT) for key in every
    }
    absent: dict[Expression, Expression] = {key: Literal(None, key.type) for key in every if key not in keys}
    return substitute(substitute(expression, marks), absent)


def unite_sets(branches: Sequence[tuple[N.Node, Sequence[Expression]]]) -> tuple[N.Node, list[Expression]]:
    """Return the union of the aggregations, and its columns."""
    united: list[N.Node] = [
        N.Project(node, tuple((f"g{i}", e) for i, e in enumerate(columns, 1))) for node, columns in branches
    ]
    plan: N.Node = reduce(N.Union, united[1:], united[0])
    return plan, [Column.to(f) for f in plan.schema]
