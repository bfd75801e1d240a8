"""The compilation of all views of a store, each once, after the views that it reads."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.text import name_sql
from everview.catalog import (
    Catalog,
    EventStreamEntry,
    FedEntry,
    QueryEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
)
from everview.compile import (
    BetterPlan,
    CompiledEventStream,
    CompiledView,
    FactsByStream,
    Views,
    answer_from_views,
    compile_better,
    compile_event_stream,
    stream_facts,
)
from everview.operators.base import stateful_operators
from everview.operators.step_slices import domain_clock
from everview.plan.sharing import SharingChoice, SharingOptions, choose_sharing, find_options
from everview.plan.statistics import Statistics, StatisticsOf, declared_statistics
from everview.plan.views import KeptPlan, LoadPlan, NextPlan, ViewStart, assemble_plan, next_name
from everview.rewrite import RULES, Rule
from everview.sql import view_plan
from everview.temporal.clocks import Clock
from everview.temporal.runnable import require_runnable


@dataclass(frozen=True)
class CompiledStore:
    """All views of a catalog, compiled by one strategy, each after the views that it reads.

    With `answers`, new views and questions are answered from views that contain them.
    """

    catalog: Catalog
    views: Views
    aside: frozenset[str] = frozenset()
    next: Mapping[str, P.Operator] = field(default_factory=dict)
    statistics: StatisticsOf = field(default=declared_statistics, compare=False, repr=False)
    strategy: str = "UPA"
    answers: bool = True

    @cached_property
    def events(self) -> dict[str, CompiledEventStream]:
        """The event streams, each after those that it reads."""
        return {n: view for n, view in self.views.items() if isinstance(view, CompiledEventStream)}

    @cached_property
    def domain_clocks(self) -> frozenset[Clock]:
        """The clocks by which views over event streams are evaluated."""
        below = (domain_clock(operator) for operator in stateful_operators(self.running.values()))
        own = (view.clock for name, view in self.views.items() if name not in self.aside)
        return frozenset(clock for clock in (*below, *own) if clock is not None)

    @cached_property
    def plans(self) -> dict[str, P.Operator]:
        """The physical plans of all views and event streams that were not set aside."""
        return {name: view.physical for name, view in self.views.items() if name not in self.aside}

    @cached_property
    def running(self) -> dict[str, P.Operator]:
        """The plans that a step evaluates: also those that will replace others, by names of their own."""
        return {**self.plans, **{next_name(view): plan for view, plan in self.next.items()}}

    @property
    def outdated(self) -> dict[str, P.Operator]:
        """The views that do not run the plan to which they would be compiled now, with that plan."""
        return {n: self.views[n].compiled for n in self.plans if self.views[n].outdated}

    def reads_events(self, name: str) -> bool:
        """Return whether an entry is an event stream, or a view over some."""
        view = self.views[name]
        return bool(view.events) or isinstance(view, CompiledEventStream)

    def only(self, names: Container[str]) -> CompiledStore:
        """Return the store with only some of the plans that run."""
        aside = frozenset(name for name in self.views if name not in names)
        return replace(
            self, aside=aside, next={n: plan for n, plan in self.next.items() if next_name(n) in names}
        )

    def without(self, failed: Container[str]) -> CompiledStore:
        """Return the store without some of the plans that run, and without the views over them."""
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
    rules: tuple[Rule, ...] = RULES,
    statistics: StatisticsOf | None = None,
    planned_by: Mapping[str, KeptPlan] | None = None,
    strategy: str | None = None,
    answers: bool | None = None,
) -> CompiledStore:
    """Compile all views of a catalog; views of `before` that have not changed are reused.

    `starts` says where views begin that were created when the store had already run, `stored` which plans
    their states belong to. Without `stored`, views that have changed get new plans, the others keep theirs.
    New views are planned by `statistics`; by default those of `before`, or what the catalog declares. Of some
    views `planned_by` says by which they were planned, and what they share. The strategy is that of `before`,
    or UPA, by default. New views are answered from views before them that contain them if `answers` says
    so; by default as in `before`.
    """
    if answers is None:
        answers = before is None or before.answers
    known = {} if before is None else before.views
    if strategy is None:
        strategy = "UPA" if before is None else before.strategy
    if statistics is None:
        statistics = declared_statistics if before is None else before.statistics
    if stored is not None:
        planned_by = stored.plans
    aside: Container[str] = () if before is None else before.aside
    compiler = _StoreCompiler(
        catalog, starts or {}, known, stored, rules, statistics, planned_by or {}, strategy,
        aside if stored is None else stored.aside, answers and rules is RULES,
    )  # fmt: skip
    compiler.choose_shared_joins()
    for entry in catalog:
        if isinstance(entry, QueryEntry):
            compiler.compile_entry(entry)
    found = compiler.found
    if stored is not None:
        planned = {name: stored.load(plan.plan) for name, plan in stored.next.items() if name in found}
        left = frozenset(n for n in found if n in stored.aside)
        return CompiledStore(catalog, found, left, planned, statistics, strategy, answers)
    if before is None:
        return CompiledStore(catalog, found, statistics=statistics, strategy=strategy, answers=answers)
    same = {name for name, view in found.items() if view is known.get(name)}
    planned = {name: plan for name, plan in before.next.items() if name in same}
    left = _with_readers(catalog, found, before.aside & same)
    return CompiledStore(catalog, found, left, planned, statistics, strategy, answers)


def _with_readers(catalog: Catalog, views: Views, aside: Collection[str]) -> frozenset[str]:
    """Return some views and all that read them."""
    found = set(aside)
    for name in views:  # each after those that it reads
        entry = catalog.get(name)
        if isinstance(entry, QueryEntry) and found.intersection(catalog_reads(entry, catalog)):
            found.add(name)
    return frozenset(found)


@dataclass
class _StoreCompiler:
    """Compiles the views and event streams of a catalog, each after those that it reads."""

    catalog: Catalog
    starts: Mapping[str, ViewStart]
    known: Views
    stored: StoredViews | None
    rules: tuple[Rule, ...]
    statistics: StatisticsOf
    planned_by: Mapping[str, KeptPlan]
    strategy: str
    aside: Container[str]
    answers: bool
    found: dict[str, CompiledView] = field(default_factory=dict)
    _current: set[int] = field(default_factory=set)  # the ids of what was found
    _better: dict[str, BetterPlan] = field(default_factory=dict)
    _sharing: dict[str, SharingOptions] = field(default_factory=dict)
    _shared: dict[str, SharingChoice] = field(default_factory=dict)

    @cached_property
    def facts(self) -> FactsByStream:
        return stream_facts(self.catalog)

    def choose_shared_joins(self) -> None:
        """Decide for all views at once which of them share a join; those that run stay as they are."""
        if self.rules is not RULES:
            return
        settled = {}
        for entry in self.catalog:
            if not isinstance(entry, QueryEntry) or isinstance(entry, EventStreamEntry):
                continue
            old, kept = self.known.get(entry.name), self.planned_by.get(entry.name)
            if kept is not None:
                settled[entry.name] = kept.shares
            elif old is not None and old.kept is not None:
                settled[entry.name] = old.shares
            self._sharing[entry.name] = self._find_sharing(entry, old)
        self._shared = choose_sharing(self._sharing, settled)

    def _find_sharing(self, entry: QueryEntry, old: CompiledView | None) -> SharingOptions:
        """Return the joins that a view could share; of one that has not changed they are known."""
        meaning, start = self.catalog.bound_definition(entry), self.starts.get(entry.name)
        if old is not None and old.sharing is not None and old.meaning is meaning and old.start == start:
            return old.sharing
        meaning = view_plan(entry, self.catalog)
        if not any(isinstance(node, N.Join) for node in meaning.walk()):
            return SharingOptions()
        below = [self.catalog.get(name) for name in catalog_reads(entry, self.catalog)]
        if any(isinstance(each, QueryEntry) for each in below):
            return SharingOptions()  # what it reads by name is shared as it is
        better = self._better_plan(entry.name, meaning)
        return find_options(
            better.rewritten.unpruned,
            better.rewritten.plan,
            lambda plan: assemble_plan(plan, {}, self.catalog, start),
            better.find_statistics,
        )

    def _better_plan(self, name: str, meaning: N.Node) -> BetterPlan:
        if name not in self._better:
            find = partial(self._statistics_of, name, meaning)
            self._better[name] = BetterPlan.of(meaning, self.catalog, self.rules, find)
        return self._better[name]

    def compile_entry(self, entry: QueryEntry) -> None:
        """Compile an entry, after those that it reads; one that has not changed is reused."""
        if entry.name in self.found:
            return
        start, old, stored = self.starts.get(entry.name), self.known.get(entry.name), self.stored
        known = self.catalog.bound_definition(entry)
        # A script of many views asks for all of them after each: one that reads no other is soon done with.
        if old is not None and not old.reads and not old.events and self._is_same(entry, old, known):
            self._keep(entry.name, old)
            return
        for name in catalog_reads(entry, self.catalog):
            below = self.catalog.get(name)
            if isinstance(below, QueryEntry):
                self.compile_entry(below)
        meaning = view_plan(entry, self.catalog)
        read = (*old.reads, *old.events) if old is not None else ()
        current = all(id(view) in self._current for view in read)
        if old is None or not current or not self._is_same(entry, old, meaning):
            if isinstance(entry, EventStreamEntry):
                old = compile_event_stream(entry, self.catalog, self.found, self.facts, start, self.strategy)
            else:
                old = self._compile_view(entry.name, meaning, start)
            if stored is not None:
                old = replace(old, kept=stored.plans.get(entry.name), load=stored.load)
        self._keep(entry.name, old)

    def _compile_view(self, name: str, meaning: N.Node, start: ViewStart | None) -> CompiledView:
        """Compile a view. What it is answered from is decided once: one that runs keeps its plan.

        Without `stored` plans, that one is found again if the views that it was answered from are as before.
        """
        require_runnable(meaning)
        better, kept = self._better_plan(name, meaning), self.planned_by.get(name)
        own = compile_better(
            better, meaning, self.catalog, self.found, start,
            sharing=self._sharing.get(name), chosen=self._shared.get(name), strategy=self.strategy,
        )  # fmt: skip
        if kept is not None and (self.stored is not None or not kept.answered):
            return own
        early = start is not None and start.streams is None  # of a release that answered nothing from views
        if (not self.answers and kept is None) or early or own.shares:  # a join that is shared stays so
            return own
        wanted = self.found if kept is None else [n for n in kept.answered if n in self.found]
        able = {n: self.found[n] for n in wanted if self.found[n].can_answer and n not in self.aside}
        found = answer_from_views(own, better, self.catalog, self.found, able)
        if kept is None or found.physical.digest == kept.plan:
            return found
        names = " and ".join(map(name_sql, kept.answered))
        return replace(own, remark=f"answered from {names}, as that was when this view was planned")

    def _statistics_of(self, name: str, meaning: N.Node) -> Statistics:
        """Return the statistics by which a view is planned: those that it, or an equal one, was planned by.

        So a view keeps its plan while a store measures, and equal views share one. A view of a store that
        kept none is planned by what is declared, which does not change.
        """
        if name in self.planned_by:
            return self.planned_by[name].statistics or declared_statistics(self.catalog)
        for other, kept in self.planned_by.items():
            entry = self.catalog.entries.get(other.casefold())
            if not isinstance(entry, QueryEntry) or kept.statistics is None:
                continue
            if view_plan(entry, self.catalog) == meaning:
                return kept.statistics
        old = self.known.get(name)
        for view in (*([] if old is None else [old]), *self.found.values(), *self.known.values()):
            if view.statistics is not None and view.meaning == meaning:
                return view.statistics
        return self.statistics(self.catalog)

    def _is_same(self, entry: QueryEntry, old: CompiledView, meaning: N.Node | None) -> bool:
        """Return whether an entry would be compiled as before, if what it reads has not changed."""
        # A definition that was bound again is equal, not the same: what it was answered from must stay.
        bound = old.meaning is meaning or old.meaning == meaning
        same = bound and old.start == self.starts.get(entry.name)
        chosen = self._shared.get(entry.name)
        option = None if chosen is None else chosen.option
        same = same and old.shares == ("" if option is None else option.name)
        same = same and old.strategy == self.strategy
        return same and (self.stored is None or old.kept == self.stored.plans.get(entry.name))

    def _keep(self, name: str, view: CompiledView) -> None:
        self.found[name] = view
        self._current.add(id(view))


def catalog_reads(entry: QueryEntry, catalog: Catalog) -> list[str]:
    """Return what an entry reads by name; for a tagged stream, also the stream below it."""
    found = []
    for name in entry.depends_on:
        below = catalog.get(name)
        found += [name, below.over] if isinstance(below, TaggedEntry) else [name]
    return found
