"""The choice of a view to answer a query from: of those that contain it, the one that costs least.

A view runs in any case, so what counts is the work beside that of all views that run. Where the query
computed from its streams costs less than from any view, that is done (paper 5, 10.6.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.text import name_sql
from everview.plan.estimates import Estimates, all_operators
from everview.rewrite.answer_from_view import Comparing, PeeledView, answer_from_view
from everview.rewrite.cost import Choice, CostedPlan

_NEAR = 2  # a view of groups is not near to a query that wants rows
_MOST_VIEWS = 3  # that one query is answered from


class AnsweringView(Protocol):
    """A view that may answer queries."""

    @property
    def peeled(self) -> PeeledView:
        """Its peeled forms."""

    @property
    def physical(self) -> P.Operator:
        """The plan that runs."""


@dataclass(frozen=True)
class AnsweredPlan:
    """A plan that reads views which its query does not name; `rules` were applied to it."""

    plan: N.Node
    rules: tuple[str, ...]
    physical: P.Operator
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answering:
    """Whether a query is answered from views, and a line for EXPLAIN that says so, or what is lacking."""

    plan: AnsweredPlan | None = None
    remark: str = ""
    choice: Choice | None = None

    @property
    def costs(self) -> tuple[Choice, ...]:
        """The choice by cost, if there was one."""
        return () if self.choice is None else (self.choice,)


BuildPlan = Callable[[N.Node, tuple[str, ...]], AnsweredPlan]
CostOf = Callable[[P.Operator, Sequence[str]], float]


def choose_answer(
    meaning: N.Node,
    direct: P.Operator,
    views: Mapping[str, AnsweringView],
    build: BuildPlan,
    cost_of: CostOf,
) -> Answering:
    """Return how a query is best answered from views, if from any; `direct` is its plan without them.

    `build` returns the plan of a query over some views, `cost_of` the cost of a plan that reads them. A view
    of the same plan needs no other one: its operators are shared.
    """
    same = next((name for name, view in views.items() if view.physical == direct), None)
    if same is not None:
        return Answering(remark=f"answered {_from_views([same])}")
    comparing = Comparing()
    best: AnsweredPlan | None = None
    found: dict[str, float] = {}
    query, read = meaning, tuple[str, ...]()
    while len(read) < _MOST_VIEWS:
        plans = []
        for name, view in views.items():
            if not comparing.has_relations_of(view.peeled, query):
                continue
            answered = answer_from_view(query, name, view.peeled, comparing)
            if answered is not None:
                plan = build(answered, (*read, name))
                plans.append((cost_of(plan.physical, plan.views), answered, plan))
        if not plans:
            break
        cost, query, plan = min(plans, key=lambda each: each[0])
        if best is not None and cost > min(found.values()):
            break
        best, read = plan, plan.views
        found[_from_views(read)] = cost
    if best is None:
        return Answering(remark=_nearest(comparing))
    own = cost_of(direct, ())
    from_views = _from_views(best.views)
    costs = {from_views: found[from_views], "from its own inputs": own}
    chosen, other = sorted(costs, key=lambda text: (costs[text], text != from_views))
    choice = Choice("answer", CostedPlan(chosen, costs[chosen]), (CostedPlan(other, costs[other]),))
    if chosen != from_views:
        return Answering(None, f"not answered {from_views}: that would cost more", choice)
    return Answering(best, f"answered {from_views}", choice)


def _from_views(names: Sequence[str]) -> str:
    shown = " and ".join(map(name_sql, dict.fromkeys(names)))
    return f"from view {shown}" if len(set(names)) == 1 else f"from views {shown}"


def _nearest(comparing: Comparing) -> str:
    """Return which view comes nearest to a query, and what it lacks; "" if none is near."""
    name, lack = max(comparing.lacks.items(), key=lambda item: item[1].nearness, default=("", None))
    if lack is None or lack.nearness < _NEAR:
        return ""
    return f"not answered from a view: {name_sql(name)} is nearest, and lacks {lack.what}"


def work_beside(estimates: Callable[[], Estimates], running: Callable[[], Iterable[P.Operator]]) -> CostOf:
    """Return a function for the work of a plan, in rows a second, beside that of the plans that run."""
    free: set[P.Operator] = set()

    def cost_of(plan: P.Operator, views: Sequence[str]) -> float:
        if not free:
            for each in running():
                free.update(all_operators(each))
        known = estimates()
        return sum(known(each).work.total for each in all_operators(plan) - free)

    return cost_of


def rows_to_read(
    estimates: Callable[[], Estimates], views: Mapping[str, AnsweringView], named: Sequence[str]
) -> CostOf:
    """Return a function for the rows that an ad hoc query reads: of streams all, of views what holds.

    `named` are the views that it reads by name.
    """

    def cost_of(plan: P.Operator, read: Sequence[str]) -> float:
        kept = {views[name].physical for name in (*named, *read)}
        leaves: set[P.Operator] = set()

        def walk(part: P.Operator) -> None:
            if part in kept or not part.inputs:
                leaves.add(part)
            else:
                for below in part.inputs:
                    walk(below)

        walk(plan)
        known = estimates()
        return sum(known(leaf).flow.holds for leaf in leaves)

    return cost_of
