"""The physical plans of a store's views, and what happens where one begins when the store has already run.

A view over a view shares its work: the plan of the one is a part of the plan of the other. Where the changes
of a view are kept, a plan can be cut there, and start from them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import fields, replace

from everview.algebra import nodes as N
from everview.catalog import Catalog, StreamEntry
from everview.spark import physical as P
from everview.spark.lower import lower

Swap = Callable[[P.Physical], P.Physical | None]


def physical_plans(
    views: Mapping[str, N.Node], catalog: Catalog, since: Mapping[str, int]
) -> dict[str, P.Physical]:
    """The plan of each view; `since` has the bounds at which views were made when the store had run."""
    return {name: physical_plan(N.View(name, node), views, catalog, since) for name, node in views.items()}


def physical_plan(
    plan: N.Node, views: Mapping[str, N.Node], catalog: Catalog, since: Mapping[str, int]
) -> P.Physical:
    """The plan of a query; where it reads a view, the view's own plan is a part of it."""

    def dated(node: N.Node, begin: int | None) -> N.Node:
        match node:
            case N.View(name) if name in views:
                return N.View(name, dated(views[name], since.get(name)))
            case N.Stream(name) if begin is not None and not is_kept(name, catalog):
                return replace(node, since=begin)  # what a source had sent before is not kept
        return N.with_inputs(node, [dated(i, begin) for i in node.inputs]) if node.inputs else node

    return lower(dated(plan, None))


def is_kept(name: str, catalog: Catalog) -> bool:
    """Whether all rows of a stream or table are kept: only those that a source sends to a stream are not."""
    entry = catalog.entries.get(name.casefold())
    return not (isinstance(entry, StreamEntry) and entry.source is not None)


def cut(plan: P.Physical, kept: Mapping[P.Physical, str]) -> tuple[P.Physical, dict[P.Physical, P.Physical]]:
    """The plan over the kept changes of views, and for each of its parts the part of the whole plan."""
    origin: dict[P.Physical, P.Physical] = {}

    def swap(part: P.Physical) -> P.Physical | None:
        return P.Scan(kept[part], part.types, kind="view") if part in kept else None

    return swapped(plan, swap, origin), origin


def swapped(plan: P.Physical, swap: Swap, origin: dict[P.Physical, P.Physical] | None = None) -> P.Physical:
    """The plan with some parts in the place of others, from the top; equal parts stay equal."""
    done: dict[P.Physical, P.Physical] = {}

    def walk(part: P.Physical) -> P.Physical:
        if part not in done:
            other = swap(part)
            if other is None:
                below = {name: walk(node) for name, node in _inputs(part)}
                other = replace(part, **below) if below else part  # type: ignore[arg-type]
            done[part] = other
            if origin is not None:
                origin[other] = part
        return done[part]

    return walk(plan)


def _inputs(part: P.Physical) -> Iterator[tuple[str, P.Physical]]:
    for f in fields(part):
        value = getattr(part, f.name, None)
        if isinstance(value, P.Physical):
            yield f.name, value


def views_in(plan: N.Node, views: Container[str]) -> list[str]:
    """The views that a plan reads itself, not those that they read. Tagged streams are none."""
    if isinstance(plan, N.View) and plan.name in views:
        return [plan.name]
    return [name for below in plan.inputs for name in views_in(below, views)]
