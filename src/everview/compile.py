"""The compilation of a view, from text to plan: parse, bind, check, rewrite, plan. All callers use it.

>>> catalog = Catalog()
>>> for statement in bind_script("CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts)", catalog):
...     declare(statement, catalog)
>>> view = compile_view("SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS] WHERE v > 0", catalog)
>>> view.rules, view.physical.kind
(('push_filter_below_window',), 'Project')
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import conjunction
from everview.catalog import Catalog, EventStreamEntry, FedEntry, StreamEntry, TableEntry, ViewEntry
from everview.errors import PlanError
from everview.operators.base import stateful_operators
from everview.plan.explain import ExplainedEvents, ExplainedPlan, Explanation, explain_plans
from everview.plan.lower import Lowering
from everview.plan.views import (
    KeptPlan,
    LoadPlan,
    NextPlan,
    ViewStart,
    assemble_plan,
    find_views,
    load_no_plan,
    next_name,
)
from everview.rewrite import rewrite
from everview.sql import bind_script, check_conditions, declare, plan_of, view_plan
from everview.sql import statements as S
from everview.temporal.blocking import require_non_blocking
from everview.temporal.event_query import EventQueryError, StreamFacts
from everview.temporal.output_bounds import EventTiming
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
    kept: KeptPlan | None = None
    load: LoadPlan = field(default=load_no_plan, compare=False, repr=False)

    @cached_property
    def lowering(self) -> Lowering:
        """The lowering of its nodes; the views that it reads are not lowered again."""
        return Lowering("UPA", {id(view.plan): (view.plan, view.physical) for view in self.reads})

    @cached_property
    def compiled(self) -> P.Operator:
        """The physical plan as it is compiled now, as are those of the views that it reads."""
        if all(view.physical == view.compiled for view in self.reads):
            return self.lowering(self.plan)
        return Lowering("UPA", {id(view.plan): (view.plan, view.compiled) for view in self.reads})(self.plan)

    @cached_property
    def physical(self) -> P.Operator:
        """The physical plan that runs: that which its state belongs to, if it has any."""
        if self.kept is None:
            return self.lowering(self.plan)
        return self.compiled if self.kept.plan == self.compiled.digest else self.load(self.kept.plan)

    @property
    def outdated(self) -> bool:
        """Whether it would be compiled to another plan now than the one that runs."""
        return self.kept is not None and self.kept.compiled != self.compiled.digest

    def keep(self) -> KeptPlan:
        """Return what to remember of the plan that runs; outdated, if a view that it reads is."""
        current = not any(view.outdated for view in self._all_reads())
        return KeptPlan(self.physical.digest, (self.compiled if current else self.physical).digest)

    def _all_reads(self) -> Iterator[CompiledView]:
        for view in self.reads:
            yield view
            yield from view._all_reads()


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
    aside: frozenset[str] = frozenset()
    next: Mapping[str, P.Operator] = field(default_factory=dict)

    @cached_property
    def plans(self) -> dict[str, P.Operator]:
        """The physical plans of all views that were not set aside."""
        return {name: view.physical for name, view in self.views.items() if name not in self.aside}

    @cached_property
    def running(self) -> dict[str, P.Operator]:
        """The plans that a step evaluates: also those that will replace others, by names of their own."""
        return {**self.plans, **{next_name(view): plan for view, plan in self.next.items()}}

    @property
    def outdated(self) -> dict[str, P.Operator]:
        """The views that do not run the plan to which they would be compiled now, with that plan."""
        return {n: self.views[n].compiled for n in self.plans if self.views[n].outdated}

    def only(self, names: Container[str]) -> CompiledStore:
        """Return it with only some of the plans that run."""
        aside = frozenset(name for name in self.views if name not in names)
        return replace(
            self, aside=aside, next={n: plan for n, plan in self.next.items() if next_name(n) in names}
        )

    def without(self, failed: Container[str]) -> CompiledStore:
        """Return it without some of the plans that run; views over others that are left out are, too."""
        gone = self.aside | {name for name in self.views if name in failed}
        aside = _with_readers(self.catalog, self.views, gone)
        left = {n: p for n, p in self.next.items() if next_name(n) not in failed and n not in aside}
        return replace(self, aside=aside, next=left)

    def operator_names(self, without: Container[str] = ()) -> set[str]:
        """Return the names under which the operators of all views, or all but some, keep their state."""
        plans = (plan for view, plan in self.running.items() if view not in without)
        return {operator.name.casefold() for operator in stateful_operators(plans)}

    @property
    def streams(self) -> list[StreamEntry]:
        return [e for e in self.catalog if isinstance(e, StreamEntry)]

    @property
    def sourced_entries(self) -> list[FedEntry]:
        """The streams and tables that have a source."""
        return [e for e in self.catalog if isinstance(e, (StreamEntry, TableEntry)) and e.source is not None]


@dataclass(frozen=True)
class StoredViews:
    """What a store knows of its views: their plans, those that will replace them, those set aside."""

    plans: Mapping[str, KeptPlan]
    next: Mapping[str, NextPlan]
    aside: Container[str]
    load: LoadPlan


def compile_store(
    catalog: Catalog,
    starts: Mapping[str, ViewStart] | None = None,
    before: CompiledStore | None = None,
    stored: StoredViews | None = None,
) -> CompiledStore:
    """Compile all views of a catalog; views of `before` that have not changed are reused.

    `starts` says where views begin that were created when the store had already run, `stored` which plans
    their states belong to. Without `stored`, views that have changed get new plans, the others keep theirs.
    """
    known = {} if before is None else before.views
    found: dict[str, CompiledView] = {}
    for entry in catalog:
        if isinstance(entry, ViewEntry):
            _compile_entry(entry, catalog, starts or {}, known, found, stored)
    if stored is not None:
        planned = {name: stored.load(plan.plan) for name, plan in stored.next.items() if name in found}
        return CompiledStore(catalog, found, frozenset(n for n in found if n in stored.aside), planned)
    if before is None:
        return CompiledStore(catalog, found)
    same = {name for name, view in found.items() if view is known.get(name)}
    planned = {name: plan for name, plan in before.next.items() if name in same}
    return CompiledStore(catalog, found, _with_readers(catalog, found, before.aside & same), planned)


def _with_readers(catalog: Catalog, views: Views, aside: Collection[str]) -> frozenset[str]:
    """Return some views and all that read them."""
    found = set(aside)
    for name in views:  # each after those that it reads
        entry = catalog.get(name)
        if isinstance(entry, ViewEntry) and found.intersection(entry.depends_on):
            found.add(name)
    return frozenset(found)


def _compile_entry(
    entry: ViewEntry,
    catalog: Catalog,
    starts: Mapping[str, ViewStart],
    known: Views,
    found: dict[str, CompiledView],
    stored: StoredViews | None,
) -> None:
    """Compile a view after the views that it reads."""
    if entry.name in found:
        return
    for name in entry.depends_on:
        below = catalog.get(name)
        if isinstance(below, ViewEntry):
            _compile_entry(below, catalog, starts, known, found, stored)
    meaning, start, old = view_plan(entry, catalog), starts.get(entry.name), known.get(entry.name)
    current = [found[name] for name in entry.depends_on if name in found]
    same = old is not None and old.meaning is meaning and old.start == start
    if stored is not None:
        same = same and old is not None and old.kept == stored.plans.get(entry.name)
    if old is None or not same or any(all(view is not c for c in current) for view in old.reads):
        old = compile_plan(meaning, catalog, found, start)
        if stored is not None:
            old = replace(old, kept=stored.plans.get(entry.name), load=stored.load)
    found[entry.name] = old


def event_plan(entry: EventStreamEntry, catalog: Catalog) -> N.Node:
    """Return the plan of an event query, rewritten: conditions on times stand where rows meet."""
    return rewrite(view_plan(entry, catalog)).plan


def stream_facts(catalog: Catalog) -> dict[str, StreamFacts]:
    """Return what the analysis of event queries knows of the streams of a catalog, by name."""
    found = {}
    for entry in catalog:
        if isinstance(entry, StreamEntry):
            checks = check_conditions(entry, catalog)
            found[entry.name] = StreamFacts(conjunction(checks) if checks else None, entry.not_null)
        elif isinstance(entry, EventStreamEntry):
            found[entry.name] = StreamFacts(query=event_plan(entry, catalog))
    return found


def check_event_stream(created: S.Create, catalog: Catalog) -> EventTiming:
    """Return the timing of a new event stream; refuse one that could never answer, with its place in the SQL.

    The catalog has the streams that it reads.
    """
    entry, plan = created.entry, created.plan
    assert isinstance(entry, EventStreamEntry)
    assert plan is not None
    try:
        return require_non_blocking(rewrite(plan).plan, entry.timelines, stream_facts(catalog))
    except EventQueryError as error:
        place = None if created.places is None else created.places.find(error.part, error.name)
        raise error.at(place) from None


def require_plain_stream(entry: StreamEntry) -> None:
    """Refuse the clauses of a stream that are known, but that intake does not obey yet."""
    arrival = any(line.arrival for line in entry.timelines)
    clauses = [(entry.checks, "CHECK"), (entry.punctuate, "PUNCTUATE WHEN"), (arrival, "TIMELINE … ARRIVAL")]
    for found, clause in clauses:
        if found:
            raise PlanError(f"{clause} of the stream '{entry.name}' binds, but does not run yet")


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


def _explained_events(
    created: S.Create, entry: EventStreamEntry, meaning: N.Node, catalog: Catalog, views: Views
) -> ExplainedPlan:
    """Explain an event query; it has no physical plan yet, so that only its timing says what it keeps."""
    events = ExplainedEvents(check_event_stream(created, catalog), stream_facts(catalog))
    better = rewrite(meaning)
    plan = assemble_plan(better.plan, {name: view.plan for name, view in views.items()}, catalog, None)
    return ExplainedPlan(entry.kind, entry.name, plan, better.fired, Lowering("UPA", {}), events)


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
            case S.Create(EventStreamEntry() as entry, plan) if plan is not None:
                store = compile_store(catalog, starts, store)
                yield _explained_events(statement, entry, plan, catalog, store.views)
            case S.Create(entry, plan) if plan is not None:
                store = compile_store(catalog, starts, store)
                view = compile_plan(plan, catalog, store.views)
                yield ExplainedPlan(entry.kind, entry.name, view.plan, view.rules, view.lowering)
            case S.Select(query) | S.Explain(query) | S.InsertQuery(_, query):
                store = compile_store(catalog, starts, store)
                view = compile_plan(query.plan, catalog, store.views)
                yield ExplainedPlan("query", None, view.plan, view.rules, view.lowering)
