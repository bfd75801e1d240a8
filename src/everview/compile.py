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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import conjunction
from everview.catalog import (
    Catalog,
    EventStreamEntry,
    StreamEntry,
)
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan.answers import AnsweredPlan, choose_answer, rows_to_read, work_beside
from everview.plan.domains import clock_of_domain, in_plan_of_events
from everview.plan.estimates import Estimates, flow_of_nodes
from everview.plan.explain import ExplainedEvents
from everview.plan.lower import Lowering
from everview.plan.lower_events import lower_events
from everview.plan.negation import choose_negative_tuples, choose_techniques
from everview.plan.planned import PlannedNodes
from everview.plan.sharing import SharingChoice, SharingOptions
from everview.plan.statistics import Statistics, declared_statistics
from everview.plan.views import (
    KeptPlan,
    LoadPlan,
    ViewStart,
    assemble_plan,
    find_views,
    load_no_plan,
)
from everview.rewrite import (
    EVENT_RULES,
    FIRST_RULES,
    RULES,
    Choice,
    Costs,
    RewrittenPlan,
    Rule,
    lift_conditions,
    rewrite,
    rules_with_costs,
)
from everview.rewrite.answer_from_view import PeeledView, answer_from_view
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
    `sharing` has the joins that it could share with other views, `shares` the name of the one that it does.

    If it is answered from views that it does not name, `answering` are these, by the names in
    `answered_from`, and `direct` is its plan without them: that to which it is compiled again, whatever
    becomes of those views. `remark` says so in EXPLAIN.
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
    sharing: SharingOptions | None = field(default=None, compare=False, repr=False)
    shares: str = ""
    strategy: str = "UPA"
    counted: Mapping[N.Node, bool] = field(default_factory=dict, compare=False, repr=False)
    negative: frozenset[N.Node] = field(default=frozenset(), compare=False, repr=False)
    direct: N.Node | None = None
    answering: tuple[CompiledView, ...] = field(default=(), compare=False, repr=False)
    answered_from: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str = field(default="", compare=False, repr=False)

    @property
    def own_plan(self) -> N.Node:
        """Its plan without views that it does not name."""
        return self.plan if self.direct is None else self.direct

    @cached_property
    def peeled(self) -> PeeledView:
        """What it can answer queries by."""
        return PeeledView.of(self.meaning)

    @property
    def can_answer(self) -> bool:
        """Whether queries may be answered from it: it is complete, and goes by the bound of the store."""
        return self.start is None and not self.events and not isinstance(self, CompiledEventStream)

    @cached_property
    def lowering(self) -> Lowering:
        """The lowering of its nodes; the views that it reads are not lowered again."""
        done = {id(view.plan): (view.plan, view.physical) for view in (*self.reads, *self.answering)}
        return Lowering(self.strategy, done, self.first, self.counted, self.negative)

    @cached_property
    def compiled(self) -> P.Operator:
        """The physical plan as it is compiled now, as are those of the views and streams that it reads.

        It is that without views which the query does not name.
        """
        if all(view.physical == view.compiled for view in (*self.reads, *self.events)):
            return self._lowered(self.own_plan, self.lowering, {e.name: e.output for e in self.events})
        done = {id(view.plan): (view.plan, view.compiled) for view in self.reads}
        lowering = Lowering(self.strategy, done, self.first, self.counted, self.negative)
        return self._lowered(self.own_plan, lowering, {e.name: as_output(e.compiled) for e in self.events})

    @cached_property
    def physical(self) -> P.Operator:
        """The physical plan that runs: that which its state belongs to, if it has any."""
        if self.kept is None:
            return self._lowered(self.plan, self.lowering, {e.name: e.output for e in self.events})
        return self.compiled if self.kept.plan == self.compiled.digest else self.load(self.kept.plan)

    def _lowered(self, plan: N.Node, lowering: Lowering, events: Outputs) -> P.Operator:
        return PlannedNodes(lowering, events, self.clock)(plan)

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
        return KeptPlan(
            self.physical.digest,
            compiled.digest,
            statistics=self.statistics,
            shares=self.shares,
            answered=self.answered_from,
        )

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

    def _lowered(self, plan: N.Node, lowering: Lowering, events: Outputs) -> P.Operator:
        part = self._lowered_part(self.timing.timing, lowering, events)
        schema = plan.schema
        lines = tuple(
            P.EventWait(schema.index(schema.find(line)), clock) for line, clock in self.timing.clocks.items()
        )
        after = BEFORE_ALL if self.start is None else self.start.since
        return P.EventOutputOperator(part, lines, after)

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


def compile_view(
    query: str | N.Node,
    catalog: Catalog,
    views: Views | None = None,
    start: ViewStart | None = None,
    continuous: bool = True,
    rules: tuple[Rule, ...] = RULES,
    find_statistics: Callable[[], Statistics] | None = None,
    strategy: str = "UPA",
    answering: Views | None = None,
    once: bool = False,
) -> CompiledView:
    """Compile a query: bind it, check that it can run for ever (if it is continuous), rewrite it, plan it.

    A definition of the catalog is bound once and comes as its plan; a text is bound here. `views` are the
    compiled views of the catalog that it may read. `start` says where a view begins that was created when
    the store had run. Choices by cost are made from the statistics that `find_statistics` returns, or from
    what the catalog declares. `strategy` is one of `STRATEGIES` (`plan/strategies.py`). For `answering` and
    `once` see `answer_from_views`.
    """
    meaning = plan_of(query, catalog) if isinstance(query, str) else query  # sql/: text → algebra
    if continuous:
        require_runnable(meaning)  # temporal/: refuse what has no meaning or could never answer
    better = BetterPlan.of(meaning, catalog, rules, find_statistics)  # rewrite/: algebra → better algebra
    found = compile_better(better, meaning, catalog, views or {}, start, continuous, strategy=strategy)
    return answer_from_views(found, better, catalog, views or {}, answering or {}, once)


@dataclass(frozen=True)
class BetterPlan:
    """A query as the rules have made it: its plan, the choices by cost, and the statistics for them."""

    rewritten: RewrittenPlan
    choices: tuple[Choice, ...]
    find_statistics: Callable[[], Statistics]
    rules: tuple[Rule, ...]

    @classmethod
    def of(
        cls,
        meaning: N.Node,
        catalog: Catalog,
        rules: tuple[Rule, ...],
        find_statistics: Callable[[], Statistics] | None,
    ) -> BetterPlan:
        find = cache(find_statistics or partial(declared_statistics, catalog))
        costs = Costs(flow_of_nodes(find))
        rewritten = rewrite(meaning, rules_with_costs(rules, costs))
        return cls(rewritten, tuple(costs.choices.values()), find, rules)


def compile_better(
    better: BetterPlan,
    meaning: N.Node,
    catalog: Catalog,
    views: Views,
    start: ViewStart | None = None,
    continuous: bool = True,
    sharing: SharingOptions | None = None,
    chosen: SharingChoice | None = None,
    strategy: str = "UPA",
) -> CompiledView:
    """Compile a query that is rewritten; `chosen` says which join it shares with other views, if any."""
    rewritten, fired, choices, shares = better.rewritten.plan, better.rewritten.fired, better.choices, ""
    if chosen is not None and chosen.option is not None:
        rewritten, fired = chosen.option.lifted.plan, (*fired, lift_conditions.__name__)
        shares = chosen.option.name
    if chosen is not None and chosen.choice is not None:
        choices = (*choices, chosen.choice)
    reads = tuple(views[name] for name in dict.fromkeys(find_views(rewritten, views)))
    plan = assemble_plan(rewritten, {name: view.plan for name, view in views.items()}, catalog, start)
    events = _events_of(plan, views) if continuous else ()
    first = better.rules is FIRST_RULES
    costs = Costs(flow_of_nodes(better.find_statistics))
    chooses = strategy == "UPA" and not first
    counted = choose_techniques(plan, costs) if chooses else {}
    negative = choose_negative_tuples(plan, costs) if chooses else frozenset()
    choices = (*choices, *costs.choices.values())
    used = better.find_statistics().only(_relation_names(plan)) if choices else None
    return CompiledView(  # plan/: → operators
        meaning, fired, plan, reads, start,
        choices=choices, statistics=used, events=events, first=first, strategy=strategy,
        counted=counted, negative=negative, sharing=sharing, shares=shares,
    )  # fmt: skip


def answer_from_views(
    query: CompiledView,
    better: BetterPlan,
    catalog: Catalog,
    views: Views,
    answering: Views,
    once: bool = False,
) -> CompiledView:
    """Return a query answered from those of the views in `answering` that contain it, if any do.

    It is not where that costs more: the work beside that of all views, or for a query that is evaluated
    `once` the rows that it reads. Then, and where no view contains it, a remark for EXPLAIN says so.
    """
    if not answering or query.events:
        return query
    estimates = cache(lambda: Estimates(better.find_statistics()))
    if once:
        named = [name for name, view in views.items() if view in query.reads]
        cost_of = rows_to_read(estimates, views, named)
    else:
        cost_of = work_beside(estimates, lambda: (view.physical for view in views.values()))
    rules = rules_with_costs(better.rules, Costs(flow_of_nodes(better.find_statistics)))
    build = partial(_answered_plan, query, catalog, views, rules)
    chosen = choose_answer(query.meaning, query.physical, answering, build, cost_of)
    choices = (*query.choices, *(() if once else chosen.costs))
    if chosen.plan is None:
        return replace(query, remark=chosen.remark, choices=choices)
    names = tuple(dict.fromkeys(chosen.plan.views))
    return replace(
        query,
        plan=chosen.plan.plan,
        rules=(answer_from_view.__name__, *chosen.plan.rules),
        direct=query.plan,
        answering=tuple(views[name] for name in names),
        answered_from=names,
        remark=chosen.remark,
        choices=choices,
    )


def _answered_plan(
    query: CompiledView,
    catalog: Catalog,
    views: Views,
    rules: tuple[Rule, ...],
    meaning: N.Node,
    names: tuple[str, ...],
) -> AnsweredPlan:
    """Return the plan of a query that is written over views which it does not name itself."""
    better = rewrite(meaning, rules)
    plan = assemble_plan(better.plan, {n: v.plan for n, v in views.items()}, catalog, query.start)
    over = replace(query, plan=plan, answering=tuple(views[name] for name in names))
    return AnsweredPlan(plan, better.fired, over.lowering(plan), names)


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
