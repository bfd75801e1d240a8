"""S1 ⋈ σ_p(S2) is σ_p(S1 ⋈ S2): conditions above a join, so that views which differ in them share the join.

The rules push conditions down, where they drop most rows. Views that differ in a constant then have a join
each. This is the other way: the join without the conditions on some columns, which are applied above it.
Whether that costs less is for the views together to decide (`plan/sharing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, conjunction, conjuncts, substitute
from everview.algebra.windows import Rows
from everview.rewrite.conditions import filter_plan
from everview.rewrite.merge_filters import merge_filters
from everview.rewrite.prune_columns import prune_columns
from everview.rewrite.push_filter_below_alias import push_filter_below_alias
from everview.rewrite.push_filter_below_join import push_filter_below_join
from everview.rewrite.push_filter_below_window import push_filter_below_window
from everview.rewrite.rules import Rule, rewrite

_PUSH: tuple[Rule, ...] = (
    merge_filters,
    push_filter_below_join,
    push_filter_below_alias,
    push_filter_below_window,
)


@dataclass(frozen=True)
class LiftedPlan:
    """A plan with conditions above one of its joins: `join` is that join, `condition` what is above it."""

    plan: N.Node
    join: N.Join
    condition: Expression


def lift_conditions(plan: N.Node) -> list[LiftedPlan]:
    """Return the ways to lift conditions of a plan whose columns are not pruned yet.

    Of each tree of joins the conditions on the same columns are lifted, or all.
    """
    found: dict[LiftedPlan, None] = {}
    for join in _find_joins(plan):
        bare, conditions = _lift(join)
        groups: dict[frozenset[Column], list[Expression]] = {}
        for condition in conditions:
            groups.setdefault(condition.columns(), []).append(condition)
        for lifted in (*groups.values(), conditions if len(groups) > 1 else []):
            if lifted:
                rest = [c for c in conditions if c not in lifted]
                shared = rewrite(filter_plan(bare, rest), _PUSH).plan
                made = _lifted_plan(plan, join, N.Filter(shared, conjunction(lifted)))
                found |= {} if made is None else {made: None}
    return list(found)


def _lifted_plan(plan: N.Node, join: N.Join, above: N.Filter) -> LiftedPlan | None:
    """Return the plan with a filter instead of one of its joins, and its columns pruned."""
    better = rewrite(_replaced(plan, join, above), (prune_columns,)).plan
    for node in better.walk():
        match node:
            case N.Filter(N.Join() as below, condition) if condition == above.condition:
                return LiftedPlan(better, below, condition)
    return None


def _replaced(node: N.Node, old: N.Node, new: N.Node) -> N.Node:
    if node is old:
        return new
    below = [_replaced(i, old, new) for i in node.inputs]
    same = all(a is b for a, b in zip(below, node.inputs, strict=True))
    return node if same else N.with_inputs(node, below)


def _find_joins(node: N.Node) -> Iterator[N.Join]:
    """Yield the topmost joins of a plan; a view that it reads has a plan of its own."""
    if isinstance(node, N.Join):
        yield node
    elif not isinstance(node, N.View):
        for below in node.inputs:
            yield from _find_joins(below)


def _lift(node: N.Node) -> tuple[N.Node, list[Expression]]:
    """Return a tree of joins without the filters at its leaves, and their conditions as they read above."""
    match node:
        case N.Join(left, right):
            sides = [_lift(left), _lift(right)]
            return N.with_inputs(node, [side for side, _ in sides]), [c for _, own in sides for c in own]
        case N.Filter(below, condition):
            bare, lifted = _lift(below)
            return bare, lifted + conjuncts(condition)
        case N.Alias(below):
            bare, lifted = _lift(below)
            above = N.with_inputs(node, [bare])
            names: dict[Expression, Expression] = {
                Column.to(inner): Column.to(outer)
                for inner, outer in zip(bare.schema, above.schema, strict=True)
            }
            return above, [substitute(c, names) for c in lifted]
        case N.Window(below, window) if not isinstance(window, Rows):
            bare, lifted = _lift(below)
            return N.with_inputs(node, [bare]), lifted
    return node, []
