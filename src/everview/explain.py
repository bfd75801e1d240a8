"""EXPLAIN of scripts and statements: the plans of all views, event streams and queries as they would run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from everview.algebra import nodes as N
from everview.catalog import Catalog, EventStreamEntry, ViewEntry
from everview.compile import (
    CompiledStore,
    check_event_stream,
    compile_plan,
    compile_store,
    stream_facts,
)
from everview.plan.explain import ExplainedPlan, Explanation, explain_plans
from everview.plan.views import ViewStart
from everview.sql import bind_script, declare
from everview.sql import statements as S


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
    """Explain bound statements; the catalog has their streams, tables and views, and is not changed."""
    created: list[S.Create] = []
    plans = list(_explained_plans(statements, catalog, starts or {}, created))
    shown = catalog.copy()
    for each in created:
        shown.add(each.entry, replace=True)
    return explain_plans(plans, shown)


def _explained_events(store: CompiledStore, entry: EventStreamEntry) -> ExplainedPlan:
    stream = store.events[entry.name]
    events = stream.explained(stream_facts(store.catalog))
    return ExplainedPlan(entry.kind, entry.name, stream.plan, stream.rules, stream.planned, events)


def _explained_plans(
    statements: Iterator[S.Statement],
    catalog: Catalog,
    starts: Mapping[str, ViewStart],
    created: list[S.Create],
) -> Iterator[ExplainedPlan]:
    """Yield the plans of statements; `created` gets those that are explained and not executed."""
    store: CompiledStore | None = None
    for statement in statements:
        match statement:
            case S.Create(entry, plan) if isinstance(entry, ViewEntry) and plan is not None:
                store = compile_store(catalog, starts, store)
                view = store.views[entry.name]
                plan = N.View(entry.name, view.plan)
                yield ExplainedPlan("view", entry.name, plan, view.rules, view.planned)
            case S.Create(EventStreamEntry() as entry, plan) if plan is not None:
                check_event_stream(statement, catalog)
                store = compile_store(catalog, starts, store)
                yield _explained_events(store, entry)
            case S.ExplainCreate(create):
                created.append(create)
                known = catalog.copy()
                known.add(create.entry, create.replace)
                yield from _explained_plans(iter([create]), known, starts, created)
            case S.Create(entry, plan) if plan is not None:
                store = compile_store(catalog, starts, store)
                view = compile_plan(plan, catalog, store.views)
                yield ExplainedPlan(entry.kind, entry.name, view.plan, view.rules, view.planned)
            case S.Select(query) | S.Explain(query) | S.InsertQuery(_, query):
                store = compile_store(catalog, starts, store)
                view = compile_plan(query.plan, catalog, store.views)
                yield ExplainedPlan("query", None, view.plan, view.rules, view.planned)
