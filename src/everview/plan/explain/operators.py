"""Build one graph of all operators of a script, with everything known about them before they run.

Equal sub-plans, in one view or in several, are one operator that runs once. Text, JSON and picture show this
graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from everview.algebra import nodes as N
from everview.algebra.explain import describe_node
from everview.algebra.text import name_sql
from everview.algebra.time import length_text
from everview.algebra.windows import AnyWindow
from everview.catalog import CLOCK, Catalog, EventStreamEntry, Lateness, StreamEntry, TableEntry, ViewEntry
from everview.operators import (
    CopyCountsOperator,
    DistinctOperator,
    MultisetOperator,
    Operator,
    StatefulOperator,
    StatePart,
)
from everview.operators.base import stateful_operators
from everview.plan.estimates import Estimates
from everview.plan.explain.events import ExplainedEvents
from everview.plan.explain.figures import Figures, OperatorFigures
from everview.plan.explain.retention import growing_state, state_of
from everview.plan.planned import PlannedNodes
from everview.plan.statistics import declared_statistics
from everview.plan.strategies import STRATEGY_TEXTS
from everview.rewrite import Choice
from everview.temporal.clocks import Clock, Wait
from everview.temporal.event_query import Timing
from everview.temporal.life import Length, is_known, life
from everview.temporal.synchronization import EVERY, Synchronization, synchronization
from everview.temporal.update_patterns import Edge, Pattern, edge

_BY_MULTIPLICITY = (CopyCountsOperator, DistinctOperator, MultisetOperator)


@dataclass(frozen=True)
class TimeLine:
    """A time line of a stream: how late its rows may arrive, and its bound."""

    column: str
    lateness: int
    bound: str


@dataclass(frozen=True)
class ExplainedSource:
    """Where the rows of a stream or table come from, and the bounds of its time lines."""

    origin: str
    lines: tuple[TimeLine, ...] = ()
    idle_after: int | None = None


@dataclass(frozen=True)
class ExplainedOperator:
    """One operator: its text, the update pattern of its output, its state, the ids of its `inputs`.

    `readers` counts the operators, views and queries that read it; with more than one it is shared. `lasts`
    is the longest time for which a row is valid, `method` is the technique (as δ or δ*). `operators` are the
    physical operators with state that run for it; `state` is a summary of what they retain. EXPLAIN COST has
    `figures`.
    """

    id: int
    kind: str
    text: str
    edge: Edge
    inputs: tuple[int, ...]
    lasts: Length = None
    name: str | None = None
    state: tuple[StatePart, ...] = ()
    operators: tuple[StatefulOperator, ...] = ()
    method: str | None = None
    window: AnyWindow | None = None
    source: ExplainedSource | None = None
    readers: int = 0
    waits: tuple[Wait, ...] = ()
    figures: OperatorFigures | None = None

    @property
    def shared(self) -> bool:
        return self.readers > 1

    @property
    def label(self) -> str:
        """Return the kind of the operator, and its name if it has one.

        >>> ExplainedOperator(1, "View", "View parked", Edge(Pattern.STR), (), name="parked").label
        'View parked'
        """
        return self.kind if self.name is None else f"{self.kind} {name_sql(self.name)}"

    @property
    def changes(self) -> str:
        """Return in words how its rows change.

        >>> ExplainedOperator(1, "Window", "Window", Edge(Pattern.WKS), (), lasts=10_000_000).changes
        'expires within 10 s'
        """
        if self.edge.signed:
            return "may be retracted"
        if self.edge.pattern == Pattern.MON:
            return "append-only"
        known = self.lasts is not None and is_known(self.lasts)
        return f"expires within {length_text(self.lasts)}" if known and self.lasts else "expires"

    @property
    def flow(self) -> str:
        """Return the same, followed by the update pattern of paper 2.

        >>> ExplainedOperator(1, "Stream", "Stream s", Edge(Pattern.MON), ()).flow
        'append-only (MON)'
        """
        return f"{self.changes} ({self.edge})"

    @property
    def details(self) -> str:
        """Return its text without the label."""
        return self.text.removeprefix(self.label).strip()


@dataclass(frozen=True)
class ExplainedPart:
    """A view, query or event stream of the script; `root` is the operator that computes it.

    A query has no name; if there are several, each has a number.
    """

    kind: str
    name: str | None
    root: int
    rules: tuple[str, ...] = ()
    synchronization: Synchronization | None = None
    growth: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    number: int | None = None
    events: ExplainedEvents | None = None
    costs: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    strategy: str = "UPA"

    @property
    def title(self) -> str:
        return " ".join(str(word) for word in (self.kind, self.name, self.number) if word is not None)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the notes on the plan as a whole; of the strategy, if it is not UPA."""
        rules = (f"rules: {', '.join(self.rules)}",) if self.rules else ()
        points = (f"full sync points: {self.synchronization}",) if self.synchronization is not None else ()
        other = self.strategy != "UPA"
        strategy = (f"strategy {self.strategy}: {STRATEGY_TEXTS[self.strategy]}",) if other else ()
        return (*rules, *strategy, *points, *self.notes, *self.growth, *self.costs)


@dataclass(frozen=True)
class ExplainedPlan:
    """The plan of a view, event stream or query to explain, with how its nodes run; with its timing."""

    kind: str
    name: str | None
    plan: N.Node
    rules: tuple[str, ...]
    planned: PlannedNodes
    events: ExplainedEvents | None = None
    choices: tuple[Choice, ...] = ()
    physical: Operator | None = None
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> Operator:
        """The physical plan that runs."""
        return self.planned(self.plan) if self.physical is None else self.physical


def graph_of(
    plans: Iterable[ExplainedPlan], catalog: Catalog, figures: Figures | None = None
) -> tuple[list[ExplainedOperator], list[ExplainedPart]]:
    """Return the operators of all plans, each once, and the parts; the catalog resolves names."""
    explained = list(plans)
    graph = _Graph(catalog, figures or Figures(Estimates(declared_statistics(catalog))), explained)
    parts = [graph.part(plan) for plan in explained]
    return graph.operators(parts), _numbered(parts)


def _numbered(parts: list[ExplainedPart]) -> list[ExplainedPart]:
    """Return the parts, with numbers on the queries if there are several."""
    queries = [i for i, part in enumerate(parts) if part.kind == "query"]
    numbers = {i: number for number, i in enumerate(queries, 1)} if len(queries) > 1 else {}
    return [replace(part, number=numbers.get(i)) for i, part in enumerate(parts)]


class _Graph:
    """Number the operators in the order of the text."""

    _explained: ExplainedEvents | None  # of the current plan

    def __init__(self, catalog: Catalog, figures: Figures, plans: Sequence[ExplainedPlan]) -> None:
        self._catalog = catalog
        self._figures = figures
        self._numbers: dict[tuple[bool, Clock | None, N.Node], int] = {}
        self._found: dict[int, ExplainedOperator] = {}
        self._running = set(stateful_operators([plan.runs for plan in plans]))
        self._named: set[StatefulOperator] = set()
        self._reported: set[N.Node] = set()  # nodes whose growth has been reported
        self._events: dict[str, int] = {}  # the event streams of the script and their root operators

    def part(self, explained: ExplainedPlan) -> ExplainedPart:
        kind, name, plan = explained.kind, explained.name, explained.plan
        events = self._explained = explained.events
        root = self._number(plan, explained.planned, None if events is None else events.timing.timing)
        costs = tuple(self._figures.lines(plan, explained.runs, explained.choices))
        if events is not None:
            self._events[str(name)] = root
            return ExplainedPart(
                kind,
                name,
                root,
                explained.rules,
                growth=events.growth,
                notes=(*events.notes, *self._sinks(name)),
                events=events,
                costs=costs,
                strategy=explained.planned.lowering.strategy,
            )
        points = synchronization(plan)
        shown = points if points.full != EVERY else None
        growth = growing_state(plan, explained.planned, self._reported)
        self._reported.update(plan.walk())
        notes = self._sinks(name) if kind == "view" else ()
        return ExplainedPart(
            kind, name, root, explained.rules, shown, growth, (*explained.notes, *notes),
            costs=costs, choices=explained.choices, strategy=explained.planned.lowering.strategy,
        )  # fmt: skip

    def _sinks(self, name: str | None) -> tuple[str, ...]:
        """Return the sinks that write a view, and where to."""
        sinks = () if name is None else self._catalog.sinks_of(name)
        return tuple(f"sink {sink.name}: {sink.clauses_sql}" for sink in sinks)

    def operators(self, parts: list[ExplainedPart]) -> list[ExplainedOperator]:
        """Return all operators ordered by number, with their readers counted."""
        read = Counter(part.root for part in parts)
        read.update(below for operator in self._found.values() for below in operator.inputs)
        return [replace(o, readers=read[o.id]) for _, o in sorted(self._found.items())]

    def _number(self, node: N.Node, planned: PlannedNodes, timing: Timing | None = None) -> int:
        """Return the number of a node; `timing` is that of an event query.

        An event query has its own evaluation: it shares only streams, tables, and the views whose insertions
        it reads. Views that go by different clocks share nothing that has state.
        """
        if timing is not None and self._explained is not None and isinstance(node, (N.View, N.IStream)):
            timing, planned = None, self._explained.istream(node)
        is_event = timing is not None and bool(node.inputs)
        own = bool(node.inputs) or (isinstance(node, N.Stream) and node.name in planned.events)
        key = (is_event, planned.clock if own and timing is None else None, node)
        if key not in self._numbers:
            number = self._numbers[key] = len(self._numbers) + 1
            below = [None] * len(node.inputs) if timing is None else [*timing.inputs, None]
            inputs = tuple(
                self._number(each, planned, inside) for each, inside in zip(node.inputs, below, strict=False)
            )
            if isinstance(node, N.Stream) and node.name in self._events:
                inputs = (self._events[node.name],)
            self._found[number] = self._operator(number, node, inputs, planned, timing)
        return self._numbers[key]

    def _operator(
        self,
        number: int,
        node: N.Node,
        inputs: tuple[int, ...],
        planned: PlannedNodes,
        timing: Timing | None,
    ) -> ExplainedOperator:
        own = self._not_yet_named(self._own_operators(node, planned, timing))
        made = ExplainedOperator(
            number,
            _kind(node),
            describe_node(node),
            # The rows of an event query are final when they are emitted (paper 3).
            Edge(Pattern.MON) if timing is not None and inputs else edge(node),
            inputs,
            life(node).lasts,
            state=state_of(own),
            operators=tuple(own),
            method=_method(node, own),
            window=node.window if isinstance(node, N.Window) else None,
            waits=() if timing is None else timing.waits,
            figures=self._figures.of_operators(planned(node) if timing is None else None, own),
        )
        match node:
            case N.Stream(name=name) | N.Table(name=name):
                made = replace(made, name=name, source=self._source(name))
            case N.View(name=name):
                made = replace(made, name=name, state=self._view(name))
        return made

    def _own_operators(
        self, node: N.Node, planned: PlannedNodes, timing: Timing | None
    ) -> list[StatefulOperator]:
        if timing is None:
            return planned.own_operators(node)
        return [] if self._explained is None else self._explained.own_operators(timing)

    def _not_yet_named(self, operators: Sequence[StatefulOperator]) -> list[StatefulOperator]:
        """Return the operators that run and that no node has named before; two nodes may become one."""
        new = [each for each in operators if each in self._running and each not in self._named]
        self._named.update(new)
        return new

    def _view(self, name: str) -> tuple[StatePart, ...]:
        """Return the state of a view: its changes, kept as its history says, and its answer if complete."""
        entry = self._catalog.entries.get(name.casefold())
        if not isinstance(entry, ViewEntry):
            return ()
        answer = (StatePart("complete", "its present answer", until=""),) if entry.complete else ()
        return (*answer, StatePart("view", "its changes", entry.history))

    def _source(self, name: str) -> ExplainedSource:
        if name == CLOCK:
            every = f"the clock, every {length_text(self._catalog.clock_grain)}"
            return ExplainedSource(every, (TimeLine("time_point", 0, "the present"),))
        match self._catalog.entries.get(name.casefold()):
            case StreamEntry() as entry:
                lines = tuple(TimeLine(t.column, t.lateness, _line_bound(t, entry)) for t in entry.timelines)
                return ExplainedSource(_origin(entry), lines, entry.idle_after)
            case TableEntry() as entry:
                return ExplainedSource(_origin(entry))
            case EventStreamEntry() as entry:
                bound = "as far as its query is final"
                return ExplainedSource(
                    "an event query", tuple(TimeLine(c, 0, bound) for c in entry.timelines)
                )
        stream, _, kind = name.rpartition("$")
        return ExplainedSource(f"the {kind} rows of {stream}" if stream else "elsewhere")


def _origin(entry: StreamEntry | TableEntry) -> str:
    return "INSERT" if entry.source is None else entry.source.format


def _line_bound(line: Lateness, entry: StreamEntry) -> str:
    """Return the bound of a time line; the clock's if rows are stamped on arrival (paper 3, note 21)."""
    if line.arrival:
        return "the clock − 1 µs"
    bound = _bound(line.column, line.lateness, entry.source is None)
    if entry.punctuate is None:
        return bound
    return f"{bound} or {name_sql(line.column)} where {' '.join(entry.punctuate.split())}"


def _bound(column: str, lateness: int, inserted: bool) -> str:
    """Return the bound of a time line; a source, unlike INSERT, may add rows at the newest instant.

    >>> _bound("ts", 5_000_000, inserted=False), _bound("ts", 0, inserted=True)
    ('newest ts − 5 s − 1 µs', 'newest ts')
    """
    late = f" − {length_text(lateness)}" if lateness else ""
    return f"newest {name_sql(column)}{late}{'' if inserted else ' − 1 µs'}"


def _kind(node: N.Node) -> str:
    """Return the kind of an operator: the first word of its text."""
    return describe_node(node).split()[0]


def _method(node: N.Node, own: Sequence[StatefulOperator]) -> str | None:
    """Return the technique of an operator on multiplicities: δ or δ* (paper 2, 5.3.1), profile or counts."""
    if not isinstance(node, (N.Distinct, N.Difference, N.Intersection, N.MaxUnion)):
        return None
    return next((operator.method for operator in own if isinstance(operator, _BY_MULTIPLICITY)), None)
