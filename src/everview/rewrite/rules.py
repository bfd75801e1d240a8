"""The rules in their order, and how they are applied: bottom up, until no rule changes the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

from everview.algebra import nodes as N
from everview.rewrite.close_equalities import close_equalities
from everview.rewrite.collapse_sync import collapse_sync
from everview.rewrite.cost import Costs
from everview.rewrite.fold_constants import fold_constants
from everview.rewrite.fold_filter_into_rank import fold_filter_into_rank
from everview.rewrite.fold_filter_into_tagged import fold_filter_into_tagged
from everview.rewrite.merge_filter_into_join import merge_filter_into_join
from everview.rewrite.merge_filters import merge_filters
from everview.rewrite.order_joins import order_joins
from everview.rewrite.outer_to_inner import outer_to_inner
from everview.rewrite.prune_columns import prune_columns
from everview.rewrite.push_condition_below_join import push_condition_below_join
from everview.rewrite.push_filter_below_aggregate import push_filter_below_aggregate
from everview.rewrite.push_filter_below_alias import push_filter_below_alias
from everview.rewrite.push_filter_below_distinct import push_filter_below_distinct
from everview.rewrite.push_filter_below_join import push_filter_below_join
from everview.rewrite.push_filter_below_outer_join import push_filter_below_outer_join
from everview.rewrite.push_filter_below_project import push_filter_below_project
from everview.rewrite.push_filter_below_rank import push_filter_below_rank
from everview.rewrite.push_filter_below_rows_window import push_filter_below_rows_window
from everview.rewrite.push_filter_below_set_operation import push_filter_below_set_operation
from everview.rewrite.push_filter_below_subquery_join import push_filter_below_subquery_join
from everview.rewrite.push_filter_below_sync import push_filter_below_sync
from everview.rewrite.push_filter_below_table_join import push_filter_below_table_join
from everview.rewrite.push_filter_below_tagged import push_filter_below_tagged
from everview.rewrite.push_filter_below_union import push_filter_below_union
from everview.rewrite.push_filter_below_window import push_filter_below_window
from everview.rewrite.push_sync_below_operators import push_sync_below_operators

Rule = Callable[[N.Node], N.Node | None]

# The rules that choose by cost: they take a `Costs` as well, ask it for flows and record their choices in it.
BY_COST: dict[Rule, Callable[[N.Node, Costs], N.Node | None]] = {order_joins: order_joins}

# Filters first go as far down as they can; what must stay above a join then becomes part of its condition.
EVENT_RULES: tuple[Rule, ...] = (
    merge_filters,
    push_filter_below_union,
    push_filter_below_subquery_join,
    push_filter_below_join,
    push_filter_below_alias,
    push_filter_below_window,
    merge_filter_into_join,
)
"""The rules for event queries: the analysis of their times reads conditions as they are written."""

FIRST_RULES: tuple[Rule, ...] = tuple(
    rule for rule in EVENT_RULES if rule is not push_filter_below_subquery_join
)
"""The rules for views of the releases that kept no plans with a store: its state belongs to their plans."""

RULES: tuple[Rule, ...] = (
    fold_constants,
    merge_filters,
    close_equalities,
    outer_to_inner,
    push_filter_below_project,
    push_filter_below_aggregate,
    push_filter_below_distinct,
    push_filter_below_union,
    push_filter_below_set_operation,
    push_filter_below_subquery_join,
    push_filter_below_join,
    push_filter_below_outer_join,
    push_filter_below_table_join,
    push_filter_below_alias,
    push_filter_below_sync,
    push_filter_below_window,
    push_filter_below_rows_window,
    push_filter_below_rank,
    fold_filter_into_rank,
    push_filter_below_tagged,  # before the next one: what is on the key needs no row that deletes
    fold_filter_into_tagged,
    merge_filter_into_join,
    push_condition_below_join,
    collapse_sync,
    push_sync_below_operators,
    order_joins,
    prune_columns,
)
"""The rules for views and queries."""

_MOST_ROUNDS = 100


def rules_with_costs(rules: tuple[Rule, ...], costs: Costs) -> tuple[Rule, ...]:
    """Return the rules; those that choose by cost use these costs."""
    return tuple(_with_costs(rule, costs) if rule in BY_COST else rule for rule in rules)


def _with_costs(rule: Rule, costs: Costs) -> Rule:
    choose = BY_COST[rule]

    @wraps(rule)
    def by_cost(node: N.Node) -> N.Node | None:
        return choose(node, costs)

    return by_cost


@dataclass(frozen=True)
class RewrittenPlan:
    """A rewritten plan, and the names of the rules that changed it, in the order of their first use.

    `unpruned` is the plan before columns were pruned.
    """

    plan: N.Node
    fired: tuple[str, ...]
    unpruned: N.Node


def rewrite(plan: N.Node, rules: tuple[Rule, ...] = RULES) -> RewrittenPlan:
    """Apply all rules to a plan; columns are pruned when filters and joins are where they stay."""
    fired: dict[str, None] = {}
    unpruned = _rewrite(plan, tuple(rule for rule in rules if rule is not prune_columns), fired)
    return RewrittenPlan(_rewrite(unpruned, rules, fired), tuple(fired), unpruned)


def _rewrite(plan: N.Node, rules: tuple[Rule, ...], fired: dict[str, None]) -> N.Node:
    for _ in range(_MOST_ROUNDS):
        better = _once(plan, rules, fired)
        if better == plan:
            return plan
        plan = better
    raise RuntimeError(f"the rules do not come to rest: {', '.join(fired)}")


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
