"""The stages of a step: which kernels run together, what crosses each exchange, and who writes the views.

A step is a chain of stages. Each is one exchange and one task a partition, which runs the kernels of one or
several regions: everything whose inputs are there by then. So a step has as many exchanges as the longest
way from a source to a view, however many views there are, and no kernel ever runs twice. What lies between
two stages, Catalyst evaluates row by row. A last stage without kernels only writes views: no exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from everview import operators as P
from everview.algebra.types import DataType
from everview.operators.base import stateful_operators
from everview.plan.drafts import Draft, Ref, Way, strip_moves
from everview.plan.regions import Region, Route, alone, depths, feeders, reaches, region


@dataclass(frozen=True)
class Path:
    """A way to a port: from a scan, constants, or rows that the stage before hands on under a number.

    Catalyst evaluates what they go through, from the first to the last.
    """

    base: P.Operator | int
    through: tuple[P.Operator, ...]


@dataclass(frozen=True)
class Port:
    """An input of a stage: the types of its columns, those that decide the partition, and its paths.

    A route of None leads to every partition.
    """

    types: tuple[DataType, ...]
    route: Route | None
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Work:
    """A node that a task runs, its inputs registers; if it is a kernel of the plan, which, and its route."""

    node: P.Operator
    kernel: P.StatefulOperator | None = None
    route: Route | None = None


@dataclass(frozen=True)
class Stage:
    """What the tasks of a stage do: registers are its ports, then what each piece of work yields.

    `writes` has the registers whose rows are changes of a view; `hands_on` those that the next stage reads,
    by the numbers of its paths. Rows of the registers in `sums` may cancel before they leave.
    """

    ports: tuple[Port, ...]
    work: tuple[Work, ...] = ()
    writes: tuple[tuple[str, int], ...] = ()
    hands_on: tuple[int, ...] = ()
    sums: frozenset[int] = frozenset()

    @property
    def exchanges(self) -> bool:
        """Whether rows must go to their partition: not, if the stage only writes."""
        return bool(self.work or self.hands_on)

    def types(self, register: int) -> tuple[DataType, ...]:
        """The types of the columns in a register."""
        here = len(self.ports)
        return self.ports[register].types if register < here else self.work[register - here].node.types


def stages(
    plans: Mapping[str, P.Operator],
    fixed: Mapping[P.StatefulOperator, Route] | None = None,
    fused: bool = True,
) -> tuple[Stage, ...]:
    """The stages that evaluate the plans of views.

    `fixed` are the routes of kernels that have state: rows must go where that is. Without `fused`, every
    kernel is routed by its whole key.
    """
    return _Fusion(plans, fixed or {}, fused).stages()


class _Fusion:
    """Plans on their way to stages."""

    def __init__(
        self, plans: Mapping[str, P.Operator], fixed: Mapping[P.StatefulOperator, Route], fused: bool
    ) -> None:
        self.plans = plans
        self.kernels = stateful_operators(plans.values())
        self.feeders = {k: feeders(k) for k in self.kernels}
        self.regions = {k: alone(k, fixed) for k in self.kernels}
        if fused:
            self._fuse(fixed)
        self.levels = self._levels()
        self.depth = max(self.levels.values(), default=0)
        self._homes: dict[P.Operator, Region | None] = {}

    # Which kernels run together

    def _fuse(self, fixed: Mapping[P.StatefulOperator, Route]) -> None:
        """Each kernel joins those that feed it, where one route serves all and the chain gets no longer."""
        longest = self._longest({})
        for kernel in self.kernels:
            for below, through_catalyst in self.feeders[kernel]:
                here, there = self.regions[kernel], self.regions[below]
                if through_catalyst or here is there:
                    continue
                both = here.kernels | there.kernels
                length = self._longest(dict.fromkeys(both, both))
                found = region(both, fixed) if length is not None and length <= (longest or 0) else None
                if found is not None:
                    self.regions.update(dict.fromkeys(both, found))
                    longest = length

    def _longest(self, other: Mapping[P.StatefulOperator, frozenset[P.StatefulOperator]]) -> int | None:
        """How many stages there would be with some kernels in other groups; None if it cannot be."""
        groups = {k: other.get(k, self.regions[k].kernels) for k in self.kernels}
        found = depths(groups, self.feeders)
        return None if found is None else max(found.values(), default=0)

    def _levels(self) -> dict[P.StatefulOperator, int]:
        """In which stage each kernel runs: as late as those that it feeds allow."""
        levels = depths({k: r.kernels for k, r in self.regions.items()}, self.feeders) or {}
        for kernel in reversed(self.kernels):
            together = self.regions[kernel].kernels
            readers = [
                k
                for k in self.kernels
                if k not in together and any(f in together for f, _ in self.feeders[k])
            ]
            if readers:
                levels.update(dict.fromkeys(together, min(levels[r] for r in readers) - 1))
        return levels

    def _home(self, node: P.Operator) -> Region | None:
        """The region in which a node can be worked out with what is there; None if Catalyst must."""
        if node not in self._homes:
            self._homes[node] = self._found_home(node)
        return self._homes[node]

    def _found_home(self, node: P.Operator) -> Region | None:
        if isinstance(node, P.StatefulOperator) and node in self.regions:
            return self.regions[node]
        if not node.is_light:
            return None
        homes = [self._home(i) for i in node.inputs]
        if all(h is homes[0] for h in homes):
            return homes[0]
        for here, other in ((0, 1), (1, 0)):
            found = homes[here]
            if found is not None and homes[other] is None and _reads(found, node.inputs[other]):
                return found
        return None

    # Ways

    def _ways(self, node: P.Operator) -> Iterator[Way]:
        """From where the rows of a node come, and what Catalyst does with them on the way."""
        if self._home(node) is not None or not node.inputs:
            yield Way(node, ())
        elif isinstance(node, P.UnionOperator):
            yield from self._ways(node.left)
            yield from self._ways(node.right)
        else:
            for way in self._ways(node.inputs[0]):
                # What only carries columns is done before the rows leave their stage.
                if not way.through and self._home(way.base) is not None and node.is_light:
                    yield Way(node.with_inputs([way.base]), ())
                else:
                    yield Way(way.base, (*way.through, node))

    def _level(self, way: Way) -> int:
        """The stage that the rows come from; 0 for a source."""
        home = self._home(way.base)
        return 0 if home is None else self.levels[next(iter(home.kernels))]

    @cached_property
    def _view_ways(self) -> list[tuple[str, Way]]:
        return [(view, way) for view, plan in self.plans.items() for way in self._ways(plan)]

    # Stages

    def stages(self) -> tuple[Stage, ...]:
        """From the last one down, because a stage hands on what the next asks for."""
        made: list[Stage] = []
        wanted: list[P.Operator] = []
        for level in range(self.depth + 1, 0, -1):
            draft = Draft()
            for kernel in self.kernels:
                if self.levels[kernel] == level:
                    self._worked_out(kernel, self.regions[kernel], draft)
            for view, way in self._view_ways:
                if self._written_in(way) != level:
                    continue
                if way.through or not self._level(way):
                    draft.write_port(view, way, self.plans[view].types)
                else:
                    draft.writes.append((view, self._at_home(way.base, draft)))
            for node in wanted:
                here = self._level(Way(node, ())) == level
                draft.hands_on.append(self._at_home(node, draft) if here else draft.port(node, None, False))
            wanted = []
            if draft.refs:
                made.append(self._stage(draft, level, wanted))
        return tuple(reversed(made))

    def _written_in(self, way: Way) -> int:
        """The stage that writes rows of a view: that they come from, if Catalyst has nothing to do with them;
        else the next one; for those of a source the last one."""
        from_ = self._level(way)
        return from_ + bool(way.through) if from_ else self.depth + 1

    def _at_home(self, node: P.Operator, draft: Draft) -> Ref:
        home = self._home(node)
        assert home is not None
        return self._worked_out(node, home, draft)

    def _worked_out(self, node: P.Operator, where: Region, draft: Draft) -> Ref:
        """Where the rows of a node are that is inside a region."""

        def made() -> Ref:
            inputs = [self._input(node, number, where, draft) for number in range(len(node.inputs))]
            kernel = node if isinstance(node, P.StatefulOperator) and node in where.kernels else None
            return draft.add(node, inputs, None if kernel is None else where.routes[kernel], kernel)

        return draft.once((node, where.kernels), made)

    def _input(self, node: P.Operator, number: int, where: Region, draft: Draft) -> Ref:
        below = node.inputs[number]
        if reaches(below, where.kernels):
            return self._worked_out(below, where, draft)
        everywhere = node in where.kernels and node.is_broadcast(number)
        return draft.port(below, where.ports.get((node, number)), everywhere)

    def _stage(self, draft: Draft, level: int, wanted: list[P.Operator]) -> Stage:
        """A finished stage; what it reads of the stage before is added to what is wanted."""

        def path(way: Way) -> Path:
            if not self._level(way):
                return Path(way.base, way.through)
            if way.base not in wanted:
                wanted.append(way.base)
            return Path(wanted.index(way.base), way.through)

        ports = []
        for opened in draft.ports:
            ways = opened.ways or list(self._ways(opened.node))
            ports.append(Port(opened.types, opened.route, tuple(path(way) for way in ways)))
        numbers = draft.numbers()
        work = tuple(Work(node, kernel, route) for node, kernel, route in draft.work(numbers))
        return Stage(
            tuple(ports),
            work,
            tuple((view, numbers[ref]) for view, ref in draft.writes),
            tuple(numbers[ref] for ref in draft.hands_on),
            frozenset(numbers[ref] for ref in draft.sums()),
        )


def _reads(where: Region, node: P.Operator) -> bool:
    """Whether the rows of a node come into a region anyway, be it with other columns."""
    return strip_moves(node)[0] in {strip_moves(reader.inputs[i])[0] for reader, i in where.ports}
