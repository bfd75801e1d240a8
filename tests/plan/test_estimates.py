"""The cost model against what is measured: estimates within 2 times, the join order within 1.2. No JVM."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from _pytest.mark import ParameterSet

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow
from everview.catalog import Catalog
from everview.compile import compile_view
from everview.plan.estimates import Estimates, flow_of_nodes
from everview.plan.lower import lower
from everview.plan.statistics import declared_statistics
from everview.rewrite import RULES, Costs, rewrite, rules_with_costs
from everview.rewrite.order_joins import JoinGraph, order_joins
from everview.sql import plan_of
from tests.plan.measured import declared, draw_rows, run_measured
from tests.plan.workloads import JOIN_STREAMS, JOINS, QUERIES, SECONDS, STREAMS, WARM


def all_operators(plan: P.Operator) -> set[P.Operator]:
    return {plan}.union(*map(all_operators, plan.inputs))


@cache
def links() -> tuple[Catalog, dict[str, list[ChangeRow]]]:
    catalog = declared(STREAMS)
    return catalog, draw_rows(catalog, SECONDS, random.Random(1))


def is_near(estimate: float, measured: float) -> bool:
    """Whether an estimate is within 2 times of what is measured; a few rows more or less do not count."""
    return abs(estimate - measured) <= 2 or 0.5 <= estimate / measured <= 2


QUICK = (
    "paper 2, query 1",
    "paper 2, query 2",
    "paper 2, query 3",
    "counts per source",
    "paper 5, rooms",
    "a chain",
)


def in_order_of_speed(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", in_order_of_speed(QUERIES))
def test_estimates_are_within_two_times_of_what_is_measured(name: str) -> None:
    catalog, rows = links()
    plan = compile_view(QUERIES[name], catalog).physical
    estimates = Estimates(replace(declared_statistics(catalog), span=SECONDS))
    ran = run_measured(plan, rows, WARM, SECONDS)
    for operator in all_operators(plan):
        emitted, kept = ran.emitted[operator] / (SECONDS - WARM), sum(ran.kept(operator).values())
        found = estimates(operator)
        assert is_near(found.flow.rate, emitted), f"{operator.kind} emits {emitted}, not {found.flow.rate}"
        assert is_near(found.state_rows, kept), f"{operator.kind} keeps {kept}, not {found.state}"


def all_orders(plan: N.Node, costs: Costs) -> list[N.Node]:
    """Return a plan with its joins in each order; they are the input of its topmost projection."""
    if isinstance(plan, N.Join):
        graph = JoinGraph.of(plan, costs)
        return [graph.build(tree, None) for tree in graph.every_order()]
    (below,) = plan.inputs
    return [N.with_inputs(plan, [each]) for each in all_orders(below, costs)]


@pytest.mark.parametrize("name", in_order_of_speed(JOINS))
def test_the_chosen_join_order_costs_at_most_1_2_times_the_best(name: str) -> None:
    """All orders run on the same rows; what counts is what their joins emit and write."""
    catalog = declared(JOIN_STREAMS)
    rows = draw_rows(catalog, 12, random.Random(2))
    costs = Costs(flow_of_nodes(lambda: declared_statistics(catalog)))
    unordered = tuple(rule for rule in RULES if rule is not order_joins and rule.__name__ != "prune_columns")
    plan = rewrite(plan_of(JOINS[name], catalog), unordered).plan
    chosen = rewrite(plan, rules_with_costs((order_joins,), costs)).plan
    work = {each: run_measured(lower(each), rows, 6, 12).work for each in {*all_orders(plan, costs), chosen}}
    assert len(work) >= (15 if name.startswith("four") else 3)
    assert work[chosen] <= 1.2 * min(work.values()), sorted(work.values())
    (choice,) = costs.choices.values()
    assert choice.chosen.cost <= min(other.cost for other in choice.rejected)
