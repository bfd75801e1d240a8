"""The compilation of a view for run, query and EXPLAIN: parse, bind, check, rewrite, plan.

>>> from everview.sql import bind_script, declare
>>> catalog = Catalog()
>>> for statement in bind_script("CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts)", catalog):
...     declare(statement, catalog)
>>> view = compile_view("SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS] WHERE v > 0", catalog)
>>> view.rules, view.physical.kind
(('push_filter_below_window',), 'Project')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import conjunction
from everview.catalog import (
    Catalog,
    EventStreamEntry,
    FedEntry,
    QueryEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
)
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL
from everview.operators.step_slices import domain_clock
from everview.plan.domains import clock_of_domain, in_plan_of_events
from everview.plan.estimates import flow_of_nodes
from everview.plan.explain import ExplainedEvents
from everview.plan.lower import Lowering
from everview.plan.lower_events import lower_events
from everview.plan.negation import choose_negative_tuples, choose_techniques
from everview.plan.planned import PlannedNodes
from everview.plan.statistics import Statistics, StatisticsOf, declared_statistics
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
from everview.rewrite import (
    EVENT_RULES,
    FIRST_RULES,
    RULES,
    Choice,
    Costs,
    Rule,
    rewrite,
    rules_with_costs,
)
from everview.sql import check_conditions, plan_of, view_plan
from everview.sql import statements as S
from everview.temporal.blocking import require_non_blocking
from everview.temporal.clocks import Clock, StreamLine
from everview.temporal.event_query import EventQueryError, StreamFacts, Timing
from everview.temporal.output_bounds import EventTiming, event_timing
from everview.temporal.runnable import require_runnable


@dataclass(frozen=True)
class CompiledView:
    """A view or query: the meaning of its SQL, the rules that were applied, and the plan that runs.

    In `plan`, every view that is read is replaced by its own plan: common parts of two views are equal.
    `events` are the event streams that it reads, also through views. A view that reads any goes by the clock
    of its domain. `choices` were made by cost, from `statistics`; None if there was nothing to choose.
    `first`: it is planned as by the releases that kept no plans. `counted`: where EXCEPT ALL counts copies;
    `negative`: the joins whose inputs have no ends.
    """

    meaning: N.Node
    rules: tuple[str, ...]
    plan: N.Node
    reads: tuple[CompiledView, ...] = field(default=(), compare=False, repr=False)
    start: ViewStart | None = None
    kept: KeptPlan | None = None
    load: LoadPlan = field(default=load_no_plan, compare=False, repr=False)
    choices: tuple[Choice, ...] = field(default=(), compare=False, repr=False)
    statistics: Statistics | None = field(default=None, compare=False, repr=False)
    events: tuple[CompiledEventStream, ...] = field(default=(), compare=False, repr=False)
    first: bool = False
    strategy: str = "UPA"
    counted: Mapping[N.Node, bool] = field(default_factory=dict, compare=False, repr=False)
    negative: frozenset[N.Node] = field(default=frozenset(), compare=False, repr=False)

    @cached_property
    def lowering(self) -> Lowering:
        """The lowering of its nodes; the views that it reads are not lowered again."""
        done = {id(view.plan): (view.plan, view.physical) for view in self.reads}
        return Lowering(self.strategy, done, self.first, self.counted, self.negative)

    @cached_property
    def compiled(self) -> P.Operator:
        """The physical plan as it is compiled now, as are those of the views and streams that it reads."""
        if all(view.physical == view.compiled for view in (*self.reads, *self.events)):
            return self._lowered(self.lowering, {e.name: e.output for e in self.events})
        done = {id(view.plan): (view.plan, view.compiled) for view in self.reads}
        lowering = Lowering(self.strategy, done, self.first, self.counted, self.negative)
        return self._lowered(lowering, {e.name: as_output(e.compiled) for e in self.events})

    @cached_property
    def physical(self) -> P.Operator:
        """The physical plan that runs: that which its state belongs to, if it has any."""
        if self.kept is None:
            return self._lowered(self.lowering, {e.name: e.output for e in self.events})
        return self.compiled if self.kept.plan == self.compiled.digest else self.load(self.kept.plan)

    def _lowered(self, lowering: Lowering, events: Outputs) -> P.Operator:
        return PlannedNodes(lowering, events, self.clock)(self.plan)

    @property
    def planned(self) -> PlannedNodes:
        """Its nodes as they run."""
        return PlannedNodes(self.lowering, {e.name: e.output for e in self.events}, self.clock)

    @property
    def clock(self) -> Clock | None:
        """The clock by which it is evaluated; None: the bound of the store."""
        return clock_of_domain(e.first_line for e in self.events) if self.events else None

    @property
    def outdated(self) -> bool:
        """Whether it would be compiled to another plan now than the one that runs."""
        return self.kept is not None and self.kept.compiled != self.compiled.digest

    def keep(self) -> KeptPlan:
        """Return what to remember of the plan that runs; outdated, if a view that it reads is."""
        current = not any(view.outdated for view in self._all_reads())
        compiled = self.compiled if current else self.physical
        return KeptPlan(self.physical.digest, compiled.digest, statistics=self.statistics)

    def _all_reads(self) -> Iterator[CompiledView]:
        for view in (*self.reads, *self.events):
            yield view
            yield from view._all_reads()


@dataclass(frozen=True)
class CompiledEventStream(CompiledView):
    """An event stream (paper 3): its timing, and a plan whose operators emit final rows only.

    `events` are the event streams that it reads itself, and those below ISTREAM.
    """

    name: str = ""
    timing: EventTiming = field(kw_only=True, compare=False, repr=False)

    @property
    def output(self) -> P.EventOutputOperator:
        """The plan that runs."""
        return as_output(self.physical)

    @property
    def clock(self) -> Clock | None:
        return None  # its operators go by clocks of their own

    @property
    def lines(self) -> tuple[str, ...]:
        """The names of its time lines."""
        return tuple(self.timing.clocks)

    @property
    def first_line(self) -> StreamLine:
        return StreamLine(self.name, self.lines[0])

    def line_clocks(self) -> dict[StreamLine, Clock]:
        """Return the clock of each time line, as the plan that runs promises it."""
        clocks = [line.clock or Clock() for line in self.output.lines]
        return {StreamLine(self.name, line): clock for line, clock in zip(self.lines, clocks, strict=True)}

    def _lowered(self, lowering: Lowering, events: Outputs) -> P.Operator:
        plan = self._lowered_part(self.timing.timing, lowering, events)
        schema = self.plan.schema
        lines = tuple(
            P.EventWait(schema.index(schema.find(line)), clock) for line, clock in self.timing.clocks.items()
        )
        after = BEFORE_ALL if self.start is None else self.start.since
        return P.EventOutputOperator(plan, lines, after)

    def _lowered_part(self, timing: Timing, lowering: Lowering, events: Outputs) -> P.Operator:
        def lower_istream(node: N.Node) -> P.Operator:
            return PlannedNodes(lowering, events, self._clock_of(node))(node)

        return in_plan_of_events(lower_events(timing, lower_istream), events)

    def _clock_of(self, node: N.Node) -> Clock | None:
        """Return the clock by which the relation of an ISTREAM is evaluated."""
        known = {e.name: e.first_line for e in self.events}
        below = [known[name] for name in _stream_names(node) if name in known]
        return clock_of_domain(below) if below else None

    def explained(self, facts: FactsByStream) -> ExplainedEvents:
        """Return it as EXPLAIN shows it: its timing, and how its parts run."""
        events = {e.name: e.output for e in self.events}
        return ExplainedEvents(
            self.timing,
            facts,
            lambda timing: self._lowered_part(timing, self.lowering, events),
            lambda node: PlannedNodes(self.lowering, events, self._clock_of(node)),
        )


Outputs = Mapping[str, P.EventOutputOperator]  # the plans of event streams
Views = Mapping[str, CompiledView]
FactsByStream = Mapping[str, StreamFacts]


def as_output(plan: P.Operator) -> P.EventOutputOperator:
    """Return the plan of an event stream, typed as its output operator."""
    assert isinstance(plan, P.EventOutputOperator)
    return plan


def _stream_names(plan: N.Node) -> list[str]:
    """Return the streams that a plan reads, also through views."""
    return list(dict.fromkeys(node.name for node in plan.walk() if isinstance(node, N.Stream)))


def compile_view(sql: str, catalog: Catalog, views: Views | None = None) -> CompiledView:
    """Compile the text of a query; `views` are the compiled views of the catalog that it may read.

    Run, query and EXPLAIN have bound their statements already, each definition once, and call `compile_plan`.
    """
    return compile_plan(plan_of(sql, catalog), catalog, views)  # sql/: text → algebra


def compile_plan(
    meaning: N.Node,
    catalog: Catalog,
    views: Views | None = None,
    start: ViewStart | None = None,
    continuous: bool = True,
    rules: tuple[Rule, ...] = RULES,
    find_statistics: Callable[[], Statistics] | None = None,
    strategy: str = "UPA",
) -> CompiledView:
    """Compile a bound query: check that it can run for ever (if it is continuous), rewrite it and plan it.

    `start` says where a view begins that was created when the store had run. Choices by cost are made from
    the statistics that `find_statistics` returns, or from what the catalog declares. `strategy` is one of
    `STRATEGIES` (`plan/lower.py`).
    """
    views = views or {}
    find = cache(find_statistics or partial(declared_statistics, catalog))
    costs = Costs(flow_of_nodes(find))
    if continuous:
        require_runnable(meaning)  # temporal/: refuse what has no meaning or could never answer
    better = rewrite(meaning, rules_with_costs(rules, costs))  # rewrite/: algebra → better algebra
    reads = tuple(views[name] for name in dict.fromkeys(find_views(better.plan, views)))
    plan = assemble_plan(better.plan, {name: view.plan for name, view in views.items()}, catalog, start)
    events = _events_of(plan, views) if continuous else ()
    first = rules is FIRST_RULES
    chooses = strategy == "UPA" and not first
    counted = choose_techniques(plan, costs) if chooses else {}
    negative = choose_negative_tuples(plan, costs) if chooses else frozenset()
    choices = tuple(costs.choices.values())
    used = find().only(_relation_names(plan)) if choices else None
    return CompiledView(  # plan/: → operators
        meaning, better.fired, plan, reads, start,
        choices=choices, statistics=used, events=events, first=first, strategy=strategy,
        counted=counted, negative=negative,
    )  # fmt: skip


def _relation_names(plan: N.Node) -> set[str]:
    """Return the streams and tables that a plan reads, also through views."""
    return {node.name.casefold() for node in plan.walk() if isinstance(node, (N.Stream, N.Table))}


def _events_of(plan: N.Node, views: Views) -> tuple[CompiledEventStream, ...]:
    """Return the event streams that a plan reads, also through views."""
    found = (views.get(name) for name in _stream_names(plan))
    return tuple(event for event in found if isinstance(event, CompiledEventStream))


def compile_event_stream(
    entry: EventStreamEntry,
    catalog: Catalog,
    views: Views,
    facts: FactsByStream,
    start: ViewStart | None = None,
    strategy: str = "UPA",
) -> CompiledEventStream:
    """Compile an event query: analyse its times, and plan operators that emit final rows only."""
    meaning = view_plan(entry, catalog)
    better = rewrite(meaning, EVENT_RULES)
    reads = tuple(views[name] for name in dict.fromkeys(find_views(better.plan, views)))
    plan = assemble_plan(better.plan, {name: view.plan for name, view in views.items()}, catalog, start)
    timing = event_timing(plan, entry.timelines, facts)
    if timing is None:  # it was accepted by a release that analysed it in another way
        timing = require_non_blocking(plan, entry.timelines, facts)
    events = _events_of(plan, views)
    return CompiledEventStream(
        meaning, better.fired, plan, reads, start,
        events=events, name=entry.name, timing=timing, strategy=strategy,
    )  # fmt: skip


@dataclass(frozen=True)
class CompiledStore:
    """All views of a catalog, compiled by one strategy, each after the views that it reads."""

    catalog: Catalog
    views: Views
    aside: frozenset[str] = frozenset()
    next: Mapping[str, P.Operator] = field(default_factory=dict)
    statistics: StatisticsOf = field(default=declared_statistics, compare=False, repr=False)
    strategy: str = "UPA"

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
    planned_by: Mapping[str, Statistics | None] | None = None,
    strategy: str | None = None,
) -> CompiledStore:
    """Compile all views of a catalog; views of `before` that have not changed are reused.

    `starts` says where views begin that were created when the store had already run, `stored` which plans
    their states belong to. Without `stored`, views that have changed get new plans, the others keep theirs.
    New views are planned by `statistics`; by default those of `before`, or what the catalog declares. Of some
    views `planned_by` says by which they were planned. The strategy is that of `before`, or UPA, by default.
    """
    known = {} if before is None else before.views
    if strategy is None:
        strategy = "UPA" if before is None else before.strategy
    if statistics is None:
        statistics = declared_statistics if before is None else before.statistics
    if stored is not None:
        planned_by = {name: kept.statistics for name, kept in stored.plans.items()}
    compiler = _StoreCompiler(
        catalog, starts or {}, known, stored, rules, statistics, planned_by or {}, strategy
    )
    for entry in catalog:
        if isinstance(entry, QueryEntry):
            compiler.compile_entry(entry)
    found = compiler.found
    if stored is not None:
        planned = {name: stored.load(plan.plan) for name, plan in stored.next.items() if name in found}
        aside = frozenset(n for n in found if n in stored.aside)
        return CompiledStore(catalog, found, aside, planned, statistics, strategy)
    if before is None:
        return CompiledStore(catalog, found, statistics=statistics, strategy=strategy)
    same = {name for name, view in found.items() if view is known.get(name)}
    planned = {name: plan for name, plan in before.next.items() if name in same}
    aside = _with_readers(catalog, found, before.aside & same)
    return CompiledStore(catalog, found, aside, planned, statistics, strategy)


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
    planned_by: Mapping[str, Statistics | None]
    strategy: str
    found: dict[str, CompiledView] = field(default_factory=dict)
    _current: set[int] = field(default_factory=set)  # the ids of what was found

    @cached_property
    def facts(self) -> FactsByStream:
        return stream_facts(self.catalog)

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
                find = partial(self._statistics_of, entry.name, meaning)
                old = compile_plan(
                    meaning, self.catalog, self.found, start,
                    rules=self.rules, find_statistics=find, strategy=self.strategy,
                )  # fmt: skip
            if stored is not None:
                old = replace(old, kept=stored.plans.get(entry.name), load=stored.load)
        self._keep(entry.name, old)

    def _statistics_of(self, name: str, meaning: N.Node) -> Statistics:
        """Return the statistics by which a view is planned: those that it, or an equal one, was planned by.

        So a view keeps its plan while a store measures, and equal views share one. A view of a store that
        kept none is planned by what is declared, which does not change.
        """
        if name in self.planned_by:
            return self.planned_by[name] or declared_statistics(self.catalog)
        old = self.known.get(name)
        for view in (*([] if old is None else [old]), *self.found.values(), *self.known.values()):
            if view.statistics is not None and view.meaning == meaning:
                return view.statistics
        return self.statistics(self.catalog)

    def _is_same(self, entry: QueryEntry, old: CompiledView, meaning: N.Node | None) -> bool:
        """Return whether an entry would be compiled as before, if what it reads has not changed."""
        same = old.meaning is meaning and old.start == self.starts.get(entry.name)
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


def event_plan(entry: EventStreamEntry, catalog: Catalog) -> N.Node:
    """Return the plan of an event query, rewritten: conditions on times stand where rows meet."""
    return rewrite(view_plan(entry, catalog), EVENT_RULES).plan


def stream_facts(catalog: Catalog) -> dict[str, StreamFacts]:
    """Return what the analysis of event queries knows of the streams of a catalog, by name."""
    found = {}
    for entry in catalog:
        if isinstance(entry, StreamEntry):
            checks = check_conditions(entry)
            found[entry.name] = StreamFacts(conjunction(list(checks)) if checks else None, entry.not_null)
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
        return require_non_blocking(rewrite(plan, EVENT_RULES).plan, entry.timelines, stream_facts(catalog))
    except EventQueryError as error:
        place = None if created.places is None else created.places.find(error.part, error.name)
        raise error.at(place) from None
