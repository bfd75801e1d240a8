"""EXPLAIN of scripts and statements: the plans of all views, event streams and queries as they would run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from everview.algebra import nodes as N
from everview.catalog import Catalog, EventStreamEntry, ViewEntry
from everview.compile import CompiledView, check_event_stream, compile_view, stream_facts
from everview.compile_store import CompiledStore, compile_store
from everview.plan.estimates import Estimates
from everview.plan.explain import ExplainedPlan, Explanation, Figures, MeasuredStore, explain_plans
from everview.plan.statistics import declared_statistics
from everview.plan.views import ViewStart
from everview.sql import bind_script, declare
from everview.sql import statements as S


def explain_script(
    script: str,
    catalog: Catalog | None = None,
    starts: Mapping[str, ViewStart] | None = None,
    cost: bool = False,
    measured: MeasuredStore | None = None,
    strategy: str = "UPA",
    answers: bool = True,
) -> Explanation:
    """Explain the plans of all views, event streams and queries in a script, as they would run.

    A query is explained as a view. The catalog is not changed. With `cost`, or if a statement says EXPLAIN
    COST, operators have figures: those that are estimated, and those that a store has `measured`. Without
    `answers`, queries are not answered from views that contain them.
    """
    known = Catalog() if catalog is None else catalog.copy()
    return explain_statements(_declared(script, known), known, starts, cost, measured, strategy, answers)


def _declared(script: str, catalog: Catalog) -> Iterator[S.Statement]:
    """Yield the statements of a script; each is declared in the catalog for those after it."""
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
        yield statement


def explain_statements(
    statements: Iterator[S.Statement],
    catalog: Catalog,
    starts: Mapping[str, ViewStart] | None = None,
    cost: bool = False,
    measured: MeasuredStore | None = None,
    strategy: str = "UPA",
    answers: bool = True,
) -> Explanation:
    """Explain bound statements; the catalog has their streams, tables and views, and is not changed."""
    explaining = _Explaining(starts or {}, measured, cost, strategy, answers)
    plans = list(explaining.plans(statements, catalog))
    shown = catalog.copy()
    for each in explaining.created:
        shown.add(each.entry, replace=True)
    known = declared_statistics(shown) if measured is None else measured.statistics
    return explain_plans(plans, shown, Figures(Estimates(known), explaining.cost, measured))


def _explained_events(store: CompiledStore, entry: EventStreamEntry) -> ExplainedPlan:
    stream = store.events[entry.name]
    events = stream.explained(stream_facts(store.catalog))
    return ExplainedPlan(
        entry.kind, entry.name, stream.plan, stream.rules, stream.planned, events, physical=stream.physical
    )


@dataclass
class _Explaining:
    """Compiles statements to explain; `created` has those that are explained and not executed."""

    starts: Mapping[str, ViewStart]
    measured: MeasuredStore | None
    cost: bool
    strategy: str
    answers: bool
    created: list[S.Create] = field(default_factory=list)

    def _compiled(self, catalog: Catalog, store: CompiledStore | None) -> CompiledStore:
        """Return the views of a catalog, planned by what the store knew when they were made."""
        if self.measured is None:
            return compile_store(catalog, self.starts, store, strategy=self.strategy, answers=self.answers)
        measured, planned_by = self.measured.statistics.rounded(), self.measured.planned_by
        return compile_store(
            catalog, self.starts, store, statistics=lambda _: measured,
            planned_by=planned_by, strategy=self.strategy, answers=self.answers,
        )  # fmt: skip

    def _query(self, plan: N.Node, catalog: Catalog, store: CompiledStore) -> CompiledView:
        known = {n: v for n, v in store.views.items() if v.can_answer and n not in store.aside}
        return compile_view(
            plan, catalog, store.views,
            find_statistics=lambda: store.statistics(catalog), strategy=self.strategy,
            answering=known if self.answers else None, once=True,
        )  # fmt: skip

    def plans(self, statements: Iterator[S.Statement], catalog: Catalog) -> Iterator[ExplainedPlan]:
        """Yield the plans of statements."""
        store: CompiledStore | None = None
        for statement in statements:
            match statement:
                case S.Create(entry, plan) if isinstance(entry, ViewEntry) and plan is not None:
                    store = self._compiled(catalog, store)
                    view = store.views[entry.name]
                    yield _explained(view, "view", entry.name, N.View(entry.name, view.plan))
                case S.Create(EventStreamEntry() as entry, plan) if plan is not None:
                    check_event_stream(statement, catalog)
                    store = self._compiled(catalog, store)
                    yield _explained_events(store, entry)
                case S.SetAnswerFromViews(on):
                    self.answers = on
                case S.ExplainCreate(create, cost):
                    self.cost = self.cost or cost
                    self.created.append(create)
                    known = catalog.copy()
                    known.add(create.entry, create.replace)
                    yield from self.plans(iter([create]), known)
                case S.Create(entry, plan) if plan is not None:
                    store = self._compiled(catalog, store)
                    view = self._query(plan, catalog, store)
                    yield _explained(view, entry.kind, entry.name, view.plan)
                case S.Select(query) | S.Explain(query) | S.InsertQuery(_, query):
                    self.cost = self.cost or (isinstance(statement, S.Explain) and statement.cost)
                    store = self._compiled(catalog, store)
                    view = self._query(query.plan, catalog, store)
                    yield _explained(view, "query", None, view.plan)


def _explained(view: CompiledView, kind: str, name: str | None, plan: N.Node) -> ExplainedPlan:
    notes = (view.remark,) if view.remark else ()
    return ExplainedPlan(kind, name, plan, view.rules, view.planned, choices=view.choices, notes=notes)
