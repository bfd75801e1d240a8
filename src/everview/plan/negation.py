"""How EXCEPT ALL, and a join above a negation, are computed, by cost (paper 2, 5.3.2 and 5.4.3).

The profile emits results with their ends; where a right row takes one away before its end, that is a
premature end, and the profile emits and retracts pieces of time to come. To count copies emits results
without ends, and retracts each. So the profile is better where results rarely end early, or where a record
has few rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.rewrite.cost import Choice, CostedPlan, Costs, Flow, count_occurring, join_flow
from everview.temporal.life import life

_CLEARLY = 1.5  # times that rows with ends must cost more: what recurs is estimated as if it were independent
_READ = 1 / 100  # what it costs to read a row of the state, of what it costs to emit one; measured


@dataclass(frozen=True)
class NegationCosts:
    """What EXCEPT ALL emits and reads in a second, in rows emitted, by each technique.

    `copies` is the number of rows of a record that hold on the left, `premature` the share of results that
    end early.

    >>> often = NegationCosts.of(*[Flow(1.0, 2.0, 6000.0, 6000.0, (100.0,))] * 2)
    >>> often.copies, round(often.premature, 2), often.counts < often.profile
    (60.0, 0.48, True)
    >>> many, few = (Flow(r, 2 * r, 2000 * r, 2000 * r, (100.0,)) for r in (1.0, 0.01))
    >>> rarely = NegationCosts.of(many, few)
    >>> round(rarely.premature, 2), rarely.counts < rarely.profile
    (0.01, False)
    """

    copies: float
    premature: float
    profile: float
    counts: float

    @classmethod
    def of(cls, left: Flow, right: Flow) -> NegationCosts:
        """Return the costs for two inputs; records are taken to be spread evenly."""
        here, there = (_records(side) for side in (left, right))
        both = min(here, there)
        one, other = left.holds / here, right.holds / there
        above, below = _chances(one, other)
        shared = both / here, both / there
        ends = right.rate * shared[1] * above
        results = left.rate * (shared[0] * (1 - below) + 1 - shared[0])
        pieces = 1 + 2 * math.sqrt(one + other) * above * below * shared[0]
        read = (left.rate + right.rate * shared[1]) * (one + other)
        return cls(
            one,
            ends / (results + ends) if results + ends else 0.0,
            (results + ends) * pieces + _READ * read,
            sum(n * side.events / side.rate for n, side in ((results, left), (ends, right)) if side.rate),
        )

    @property
    def choice(self) -> Choice:
        """The cheaper technique, and why."""
        why = f"about {self.copies:.3g} rows of a record, {100 * self.premature:.0f} % of results end early"
        counted, profile = CostedPlan("counting copies", self.counts), CostedPlan("profile", self.profile)
        chosen, other = (counted, profile) if self.counts < self.profile else (profile, counted)
        return Choice(f"EXCEPT ALL ({why})", chosen, (other,), shown=True)


def _records(side: Flow) -> float:
    """Return how many different records an input can have; each row is one if there is no limit."""
    possible = side.distinct()
    return possible if math.isfinite(possible) else max(side.holds, 1.0)


def _chances(one: float, other: float) -> tuple[float, float]:
    """Return P(l > r) and P(l < r) for two Poisson numbers with these means.

    >>> [round(x, 2) for x in _chances(4.0, 4.0)], [round(x, 2) for x in _chances(900.0, 400.0)]
    ([0.43, 0.43], [1.0, 0.0])
    """
    spread = math.sqrt(one + other)
    if not spread:
        return 0.0, 0.0
    equal = math.exp(-((one - other) ** 2) / (2 * spread**2)) / (spread * math.sqrt(2 * math.pi))
    above = (1 + math.erf((one - other) / spread / math.sqrt(2))) / 2
    return max(above - min(equal, 1.0) / 2, 0.0), max(1 - above - min(equal, 1.0) / 2, 0.0)


def choose_techniques(plan: N.Node, costs: Costs) -> dict[N.Node, bool]:
    """Return for each EXCEPT ALL of a plan whether copies are counted; record the choices.

    Views that the plan reads have plans of their own. Where no left row ends by itself, there is no choice.
    """
    chosen: dict[N.Node, bool] = {}
    for node in _differences(plan):
        if life(node.left).waits != 0:
            found = NegationCosts.of(costs.flow_of(node.left), costs.flow_of(node.right)).choice
            costs.choices["EXCEPT ALL", node] = found
            chosen[node] = found.chosen.text != "profile"
    return chosen


def choose_negative_tuples(plan: N.Node, costs: Costs) -> frozenset[N.Node]:
    """Return the joins above a negation whose inputs have no ends; record the choices (paper 2, 5.4.3).

    Rows with different ends are different rows to a join, also if their records are equal. Without ends they
    are one row with a count, which a negative row lowers when one ends. Below the negation rows have ends.
    """
    chosen = set()
    for node in _joins(plan):
        if any(map(_is_negation, node.inputs)):
            left, right = map(costs.flow_of, node.inputs)
            direct, negative = _join_costs(left, right, costs.flow_of(node))
            names = {"rows with ends": direct, "negative tuples": negative}
            best = "negative tuples" if _CLEARLY * negative < direct else "rows with ends"
            what = "Join above a negation"
            others = tuple(CostedPlan(text, cost) for text, cost in names.items() if text != best)
            found = Choice(what, CostedPlan(best, names[best]), others, shown=best == "negative tuples")
            costs.choices[what, node] = found
            if best == "negative tuples":
                chosen.add(node)
    return frozenset(chosen)


def _join_costs(left: Flow, right: Flow, pairs: Flow) -> tuple[float, float]:
    """Return what a join emits, with what its inputs emit besides: over rows with ends, and without.

    >>> few = Flow(1.0, 2.0, 10.0, 10.0, (100.0,))
    >>> costs = _join_costs(few, few, join_flow(few, few, 0.01))
    >>> costs[0] < costs[1]
    True
    >>> many = Flow(1.0, 2.0, 6000.0, 6000.0, (100.0,))
    >>> costs = _join_costs(many, many, join_flow(many, many, 0.01))
    >>> costs[0] > costs[1]
    True
    """
    apart = join_flow(left, right, 1.0).rate
    share = pairs.rate / apart if apart else 0.0
    records = [count_occurring(side.distinct(), side.holds) for side in (left, right)]
    changes = [side.rate + side.closed for side in (left, right)]
    met = changes[0] * records[1] + changes[1] * records[0]
    added = sum(n for n, side in zip(changes, (left, right), strict=True) if side.closed)
    return pairs.rate, share * met + added


def _is_negation(node: N.Node) -> bool:
    while isinstance(node, (N.Project, N.Filter, N.Alias)):
        node = node.input
    return isinstance(node, (N.Difference, N.AntiJoin, N.StrictDifference))


def _joins(plan: N.Node) -> Iterator[N.Join]:
    if isinstance(plan, N.Join):
        yield plan
    for below in plan.inputs:
        if not isinstance(below, N.View):
            yield from _joins(below)


def _differences(plan: N.Node) -> Iterator[N.Difference]:
    if isinstance(plan, N.Difference):
        yield plan
    for below in plan.inputs:
        if not isinstance(below, N.View):
            yield from _differences(below)
