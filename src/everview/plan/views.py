"""Plans of views over views: assembled from the plans of the views that they read, and cut there again.

A view over a view shares its operators: the plan of the one is a part of the plan of the other. Where the
changes of a view are kept, a plan can be cut there and start from them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace

from everview import operators as P
from everview.algebra import nodes as N
from everview.catalog import Catalog, StreamEntry
from everview.operators.step_slices import domain_clock
from everview.plan.statistics import Statistics


@dataclass(frozen=True)
class ViewStart:
    """Where a view begins that was created when the store had run: it answers from `since` on.

    `streams` are those that it reads only from there on, because they cannot be read again; None: all that
    have a source (views of older releases).
    """

    since: int
    streams: tuple[str, ...] | None = None


@dataclass(frozen=True)
class KeptPlan:
    """The plan that the state of a view belongs to, and the plan as it was compiled then, by their digests.

    They differ where the view has taken a new plan over while it ran: that one reads its streams only from
    then on. Compiled again to the same plan, a view is not outdated. `stays` says that it is, and keeps its
    plan: there is no instant at which another one could take over, or that one failed. `refused` is the
    digest of one that failed, as compiled. `statistics` are those by which it was chosen among others, if
    there was a choice: the view is compiled by them again, so that new ones do not change its plan.
    `shares` names the join that the view shares with others, if it does (`plan/sharing.py`).
    `answered` names the views that it was answered from, if any, when it was planned: the plan has their
    operators, and `compiled` is the plan without them.
    """

    plan: str
    compiled: str
    stays: bool = False
    refused: str = ""
    statistics: Statistics | None = None
    shares: str = ""
    answered: tuple[str, ...] = ()


@dataclass(frozen=True)
class NextPlan:
    """A plan that will replace that of a view: once the bound has reached `at`, both answer alike."""

    plan: str
    compiled: str
    at: int


LoadPlan = Callable[[str], P.Operator]  # returns the plan with a digest


def load_no_plan(digest: str) -> P.Operator:
    """Raise an error: where no plan is kept, none can be loaded."""
    raise KeyError(digest)


def next_name(view: str) -> str:
    """Return the name under which the next plan of a view runs; no view can have it."""
    return f"{view}$next"


ReplacePart = Callable[[P.Operator], P.Operator | None]


def assemble_plan(
    plan: N.Node, views: Mapping[str, N.Node], catalog: Catalog, start: ViewStart | None = None
) -> N.Node:
    """Return the plan with each view that it reads as that view's own plan.

    With `start`, streams that cannot be read again are read from its instant on.
    """
    match plan:
        case N.View(name) if name in views:
            return N.View(name, views[name])
        case N.Stream(name) if start is not None and _begins_late(name, start, catalog):
            return replace(plan, since=start.since)
    below = [assemble_plan(i, views, catalog, start) for i in plan.inputs]
    same = all(new is old for new, old in zip(below, plan.inputs, strict=True))
    return plan if same else N.with_inputs(plan, below)


def _begins_late(name: str, start: ViewStart, catalog: Catalog) -> bool:
    return not is_kept(name, catalog) if start.streams is None else name in start.streams


def is_kept(name: str, catalog: Catalog) -> bool:
    """Return whether all rows of a stream or table are kept: those of a stream with a source are not."""
    entry = catalog.entries.get(name.casefold())
    return not (isinstance(entry, StreamEntry) and entry.source is not None)


def cut_at_views(
    plan: P.Operator, kept: Mapping[P.Operator, str], in_domains: bool = False
) -> tuple[P.Operator, dict[P.Operator, P.Operator]]:
    """Return the plan over the kept changes of views, and for each part of it that of the whole plan.

    With `in_domains`, what is above a view over event streams still goes by the clock of that view.
    """
    origin: dict[P.Operator, P.Operator] = {}

    def replace_part(part: P.Operator) -> P.Operator | None:
        if part not in kept:
            return None
        clock = domain_clock(part) if in_domains else None
        if clock is None:
            return P.ScanOperator(kept[part], part.types, source="view")
        return P.DomainScanOperator(kept[part], part.types, source="view", clock=clock)

    return replace_parts(plan, replace_part, origin), origin


def replace_parts(
    plan: P.Operator, replace_part: ReplacePart, origin: dict[P.Operator, P.Operator] | None = None
) -> P.Operator:
    """Return the plan with some parts replaced, from the top; equal parts stay equal.

    `origin` receives for each part of the result the part of `plan` that it comes from.
    """
    done: dict[P.Operator, P.Operator] = {}

    def walk(part: P.Operator) -> P.Operator:
        if part not in done:
            other = replace_part(part)
            if other is None:
                other = part.with_inputs([walk(below) for below in part.inputs])
            done[part] = other
            if origin is not None:
                origin[other] = part
        return done[part]

    return walk(plan)


def find_views(plan: N.Node, views: Container[str]) -> list[str]:
    """Return the views that a plan reads directly. Tagged streams are not views."""
    if isinstance(plan, N.View) and plan.name in views:
        return [plan.name]
    return [name for below in plan.inputs for name in find_views(below, views)]
