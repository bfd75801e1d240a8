"""The compilation of a view, from text to plan: parse, bind, check, rewrite, plan. All callers use it.

>>> catalog = Catalog()
>>> for statement in bind_script("CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts)", catalog):
...     declare(statement, catalog)
>>> view = compile_view("SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS] WHERE v > 0", catalog)
>>> view.rules, view.physical.kind
(('push_filter_below_window',), 'Project')
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from everview import operators as P
from everview.algebra import nodes as N
from everview.catalog import Catalog, FedEntry, StreamEntry, TableEntry, ViewEntry
from everview.operators.base import stateful_operators
from everview.plan.explain import ExplainedPlan, Explanation, explain_plans
from everview.plan.lower import Lowering
from everview.plan.views import ViewStart, assemble_plan, find_views
from everview.rewrite import rewrite
from everview.sql import bind_script, declare, plan_of, view_plan
from everview.sql import statements as S
from everview.temporal.runnable import require_runnable


@dataclass(frozen=True)
class CompiledView:
    """A view or query: the meaning of its SQL, the rules that were applied, and the plan that runs.

    In `plan`, every view that is read is replaced by its own plan: common parts of two views are equal.
    """

    meaning: N.Node
    rules: tuple[str, ...]
    plan: N.Node
    reads: tuple[CompiledView, ...] = field(default=(), compare=False, repr=False)
    start: ViewStart | None = None

    @cached_property
    def lowering(self) -> Lowering:
        """The lowering of its nodes; the views that it reads are not lowered again."""
        return Lowering("UPA", {id(view.plan): (view.plan, view.physical) for view in self.reads})

    @cached_property
    def physical(self) -> P.Operator:
        """The physical plan."""
        return self.lowering(self.plan)


Views = Mapping[str, CompiledView]


def compile_view(sql: str, catalog: Catalog, views: Views | None = None) -> CompiledView:
    """Compile the text of a query; `views` are the compiled views of the catalog that it may read."""
    return compile_plan(plan_of(sql, catalog), catalog, views)  # sql/: text → algebra


def compile_plan(
    meaning: N.Node,
    catalog: Catalog,
    views: Views | None = None,
    start: ViewStart | None = None,
    continuous: bool = True,
) -> CompiledView:
    """Compile a bound query: check that it can run for ever (if it is continuous), rewrite it and plan it.

    `start` says where a view begins that was created when the store had run.
    """
    views = views or {}
    if continuous:
        require_runnable(meaning)  # temporal/: refuse what has no meaning or could never answer
    better = rewrite(meaning)  # rewrite/: algebra → better algebra
    reads = tuple(views[name] for name in dict.fromkeys(find_views(better.plan, views)))
    plan = assemble_plan(better.plan, {name: view.plan for name, view in views.items()}, catalog, start)
    return CompiledView(meaning, better.fired, plan, reads, start)  # plan/: algebra → operators


@dataclass(frozen=True)
class CompiledStore:
    """All views of a catalog, compiled, each after the views that it reads."""

    catalog: Catalog
    views: Views

    @cached_property
    def plans(self) -> dict[str, P.Operator]:
        """The physical plans of all views."""
        return {name: view.physical for name, view in self.views.items()}

    def operator_names(self, without: Container[str] = ()) -> set[str]:
        """Return the names under which the operators of all views, or all but some, keep their state."""
        plans = (plan for view, plan in self.plans.items() if view not in without)
        return {operator.name.casefold() for operator in stateful_operators(plans)}

    @property
    def streams(self) -> list[StreamEntry]:
        return [e for e in self.catalog if isinstance(e, StreamEntry)]

    @property
    def sourced_entries(self) -> list[FedEntry]:
        """The streams and tables that have a source."""
        return [e for e in self.catalog if isinstance(e, (StreamEntry, TableEntry)) and e.source is not None]


def compile_store(
    catalog: Catalog, starts: Mapping[str, ViewStart] | None = None, before: CompiledStore | None = None
) -> CompiledStore:
    """Compile all views of a catalog; views of `before` that have not changed are reused.

    `starts` says where views begin that were created when the store had already run.
    """
    known = {} if before is None else before.views
    found: dict[str, CompiledView] = {}
    for entry in catalog:
        if isinstance(entry, ViewEntry):
            _compile_entry(entry, catalog, starts or {}, known, found)
    return CompiledStore(catalog, found)


def _compile_entry(
    entry: ViewEntry,
    catalog: Catalog,
    starts: Mapping[str, ViewStart],
    known: Views,
    found: dict[str, CompiledView],
) -> None:
    """Compile a view after the views that it reads."""
    if entry.name in found:
        return
    for name in entry.depends_on:
        below = catalog.get(name)
        if isinstance(below, ViewEntry):
            _compile_entry(below, catalog, starts, known, found)
    meaning, start, old = view_plan(entry, catalog), starts.get(entry.name), known.get(entry.name)
    current = [found[name] for name in entry.depends_on if name in found]
    same = old is not None and old.meaning is meaning and old.start == start
    if old is None or not same or any(all(view is not c for c in current) for view in old.reads):
        old = compile_plan(meaning, catalog, found, start)
    found[entry.name] = old


def explain_script(
    script: str, catalog: Catalog | None = None, starts: Mapping[str, ViewStart] | None = None
) -> Explanation:
    """Explain the plans of all views, event streams and queries in a script, as they would run.

    A query is explained as a view. The catalog is not changed.
    """
    known = Catalog() if catalog is None else catalog.copy()
    return explain_statements(_declared(script, known), known, starts)


def _declared(script: str, catalog: Catalog) -> Iterator[S.Statement]:
    """Yield the statements of a script; each is declared in the catalog for those after it."""
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
        yield statement


def explain_statements(
    statements: Iterator[S.Statement], catalog: Catalog, starts: Mapping[str, ViewStart] | None = None
) -> Explanation:
    """Explain bound statements; the catalog has their streams, tables and views."""
    return explain_plans(_explained_plans(statements, catalog, starts or {}), catalog)


def _explained_plans(
    statements: Iterator[S.Statement], catalog: Catalog, starts: Mapping[str, ViewStart]
) -> Iterator[ExplainedPlan]:
    store: CompiledStore | None = None
    for statement in statements:
        match statement:
            case S.Create(entry, plan) if isinstance(entry, ViewEntry) and plan is not None:
                store = compile_store(catalog, starts, store)
                view = store.views[entry.name]
                plan = N.View(entry.name, view.plan)
                yield ExplainedPlan("view", entry.name, plan, view.rules, view.lowering)
            case S.Create(entry, plan) if plan is not None:
                store = compile_store(catalog, starts, store)
                view = compile_plan(plan, catalog, store.views)
                yield ExplainedPlan(entry.kind, entry.name, view.plan, view.rules, view.lowering)
            case S.Select(query) | S.Explain(query) | S.InsertQuery(_, query):
                store = compile_store(catalog, starts, store)
                view = compile_plan(query.plan, catalog, store.views)
                yield ExplainedPlan("query", None, view.plan, view.rules, view.lowering)
