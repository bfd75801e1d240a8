"""The rules in their order, and how they are applied: bottom up, until no rule changes the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.rewrite.merge_filter_into_join import merge_filter_into_join
from everview.rewrite.merge_filters import merge_filters
from everview.rewrite.push_filter_below_alias import push_filter_below_alias
from everview.rewrite.push_filter_below_join import push_filter_below_join
from everview.rewrite.push_filter_below_subquery_join import push_filter_below_subquery_join
from everview.rewrite.push_filter_below_union import push_filter_below_union
from everview.rewrite.push_filter_below_window import push_filter_below_window

Rule = Callable[[N.Node], N.Node | None]

# Filters first go as far down as they can; what must stay above a join then becomes part of its condition.
RULES: tuple[Rule, ...] = (
    merge_filters,
    push_filter_below_union,
    push_filter_below_subquery_join,
    push_filter_below_join,
    push_filter_below_alias,
    push_filter_below_window,
    merge_filter_into_join,
)

_MOST_ROUNDS = 100


@dataclass(frozen=True)
class Rewritten:
    """A rewritten plan, and the names of the rules that changed it, in the order of their first use."""

    plan: N.Node
    fired: tuple[str, ...]


def rewrite(plan: N.Node, rules: tuple[Rule, ...] = RULES) -> Rewritten:
    """Apply all rules to a plan."""
    fired: dict[str, None] = {}
    for _ in range(_MOST_ROUNDS):
        better = _once(plan, rules, fired)
        if better == plan:
            break
        plan = better
    return Rewritten(plan, tuple(fired))


def _once(node: N.Node, rules: tuple[Rule, ...], fired: dict[str, None]) -> N.Node:
    # A view that the plan reads has a plan of its own, which is rewritten separately.
    if node.inputs and not isinstance(node, N.View):
        below = [_once(i, rules, fired) for i in node.inputs]
        node = N.with_inputs(node, below) if below != list(node.inputs) else node
    for rule in rules:
        better = rule(node)
        if better is not None and better != node:
            fired[rule.__name__] = None
            node = better
    return node
