"""Which views share a join: those that differ in conditions, where it costs less than a join for each.

The alternative to a join over filtered inputs is the join without some of the conditions, with a filter above
it for each view (`rewrite/lift_conditions.py`). It keeps its inputs once; but it keeps, and pairs, rows that
the filters drop. So it pays from some number of views on, and the fewer the more rows the filters let through
(paper 5, section 10.6: sharing with its cross-over, and figure 15, where it loses).

A view that runs stays as it is. A new view takes a join that runs already, if that is cheaper; or it makes
one, when all views that could share it, also those which do not any more, would together cost less that way.
So what is paid is at most about twice the least, in whatever order views come.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.text import expression_sql
from everview.plan.estimates import Estimates, all_operators
from everview.plan.lower import Lowering
from everview.plan.statistics import Statistics
from everview.rewrite.cost import Choice, CostedPlan, Work
from everview.rewrite.lift_conditions import LiftedPlan, lift_conditions

# Measured beside a row that is written to a state, `python -m bench shared_join`: the c of paper 5's Σ T·c.
_EMIT = 0.15  # to emit a row, or to probe a pair
_LOOK = 0.03  # to look at a row of a shared join, in a filter above it
_WORTH = 0.9  # of the cost of separate joins; closer than this estimates do not tell


@dataclass(frozen=True)
class SharingOption:
    """A view over a join without some of its conditions, which are above it.

    `name` is that of the join, whatever instant its streams are read from; `join` is the join as it runs. Its
    work and that of the operators above it are in rows a second; `own` is the work of each operator of the
    view's own plan.
    """

    lifted: LiftedPlan
    name: str
    join: str
    join_work: float
    above_work: float
    own: Mapping[P.Operator, float]


@dataclass(frozen=True)
class SharingOptions:
    """The joins that a view could share, and those that it has as it is."""

    options: tuple[SharingOption, ...] = ()
    joins: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SharingChoice:
    """The option of a view that was chosen, if any, and what was compared."""

    option: SharingOption | None
    choice: Choice | None = None


def find_options(
    unpruned: N.Node,
    own: N.Node,
    dated: Callable[[N.Node], N.Node],
    find_statistics: Callable[[], Statistics],
) -> SharingOptions:
    """Return the ways in which a view could share a join; `own` is its plan, `dated` dates late streams."""
    lower = Lowering("UPA")
    plan = lower(dated(own))
    joins = frozenset(lower(dated(node)).digest for node in own.walk() if isinstance(node, N.Join))
    lifted = lift_conditions(unpruned)
    if not lifted:
        return SharingOptions((), joins)
    estimates = Estimates(find_statistics())
    costs = {part: _weigh(estimates(part).work) for part in all_operators(plan)}
    options = []
    for each in lifted:
        join = lower(dated(each.join))
        parts = all_operators(join)
        looked_at = _LOOK * estimates.flow(join).rate
        above = sum(_weigh(estimates(p).work) for p in all_operators(lower(dated(each.plan))) - parts)
        work = sum(_weigh(estimates(part).work) for part in parts)
        name = lower(each.join).digest
        options.append(SharingOption(each, name, join.digest, work, above + looked_at, costs))
    return SharingOptions(tuple(options), joins)


def choose_sharing(
    views: Mapping[str, SharingOptions], settled: Mapping[str, str]
) -> dict[str, SharingChoice]:
    """Return for each view whether it shares a join, and which.

    `settled` has the views that run: the name of the join that each shares, or nothing.
    """
    chosen: dict[str, SharingChoice] = {}
    for view, name in settled.items():
        known = views[view].options if view in views and name else ()
        found = next((option for option in known if option.name == name), None)
        if found is not None:
            chosen[view] = SharingChoice(found)
    runs = {join for sharing in views.values() for join in sharing.joins}
    while True:
        compared = [
            (group, *_compare(group, chosen, runs)) for group in _groups(views, chosen, runs).values()
        ]
        better = [c for c in compared if c[2] < _WORTH * c[1] and _free(c[0], settled, chosen)]
        if not better:
            break
        group, own, shared = max(better, key=lambda c: (c[1] - c[2], next(iter(c[0].values())).join))
        for view in _free(group, settled, chosen):
            chosen[view] = SharingChoice(group[view], _choice(group, own, shared, taken=True))
    for group, own, shared in compared:
        for view in _free(group, settled, chosen):
            chosen[view] = SharingChoice(None, _choice(group, own, shared, taken=False))
    return chosen


Group = Mapping[str, SharingOption]


def _groups(
    views: Mapping[str, SharingOptions], chosen: Mapping[str, SharingChoice], runs: Container[str]
) -> dict[str, Group]:
    """Return the views that could share a join, by that join: several, or one where it runs in any case."""
    groups: dict[str, dict[str, SharingOption]] = {}
    for view, sharing in views.items():
        known = chosen.get(view)
        for option in sharing.options:
            if known is None or known.option is option:
                groups.setdefault(option.join, {})[view] = option
    return {join: group for join, group in groups.items() if len(group) > 1 or join in runs}


def _free(group: Group, settled: Mapping[str, str], chosen: Mapping[str, SharingChoice]) -> list[str]:
    return [view for view in group if view not in settled and view not in chosen]


def _compare(group: Group, chosen: Mapping[str, SharingChoice], runs: Container[str]) -> tuple[float, float]:
    """Return what views cost by their own joins, and by one join that they share, in rows a second."""
    shares = [option for view, option in group.items() if view in chosen]
    others = [option for view, option in group.items() if view not in chosen]
    own = {part: work for option in others for part, work in option.own.items()}
    first = next(iter(group.values()))
    made = shares or first.join in runs
    return sum(own.values()), sum(o.above_work for o in others) + (0.0 if made else first.join_work)


def _choice(group: Group, own: float, shared: float, taken: bool) -> Choice:
    conditions = sorted(expression_sql(option.lifted.condition) for option in group.values())
    shown = ", ".join(conditions[:3]) + (", …" if len(conditions) > 3 else "")
    one = CostedPlan(f"one join for {len(group)} views, with filters above it: {shown}", shared)
    each = CostedPlan("a join for each view, over filtered inputs", own)
    return Choice("sharing", one, (each,)) if taken else Choice("sharing", each, (one,))


def _weigh(work: Work) -> float:
    return _EMIT * (work.emitted + work.probed) + work.written + work.rewritten
