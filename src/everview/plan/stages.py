"""The stages of a step: which kernels run together, what crosses each exchange, where views are written.

A step is a chain of stages. Each is one exchange and one task a partition, which runs the kernels of one or
several regions: all those whose inputs are computed by then. So a step has as many exchanges as the longest
path from a source to a view, however many views there are, and no kernel runs twice. Catalyst evaluates the
operators between two stages row by row. A last stage without kernels only writes views, without an exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from everview import operators as P
from everview.algebra.types import DataType
from everview.operators.base import stateful_operators
from everview.plan.drafts import DraftPath, DraftRows, StageDraft, strip_moves
from everview.plan.regions import (
    Region,
    Route,
    find_feeders,
    find_region,
    group_depths,
    is_inside,
    single_region,
)


@dataclass(frozen=True)
class Path:
    """A path to a port: from a scan, from constants, or from rows of the previous stage (a number).

    Catalyst evaluates the operators in `through`, from the first to the last.
    """

    base: P.Operator | int
    through: tuple[P.Operator, ...]


@dataclass(frozen=True)
class Port:
    """An input of a stage: the types of its columns, its route and its paths.

    The route is the columns that decide the partition; None sends the rows to every partition.
    """

    types: tuple[DataType, ...]
    route: Route | None
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class StageNode:
    """An operator that a task runs over registers; for a kernel also that of the plan, and its route."""

    node: P.Operator
    kernel: P.StatefulOperator | None = None
    route: Route | None = None


@dataclass(frozen=True)
class Stage:
    """What the tasks of a stage do. Its registers are the ports, then the outputs of the nodes.

    `writes` has the registers whose rows are changes of a view; `handed_registers` those that the next stage
    reads, by the numbers of its paths. Rows of the registers in `cancelling` may cancel before they leave.
    """

    ports: tuple[Port, ...]
    nodes: tuple[StageNode, ...] = ()
    writes: tuple[tuple[str, int], ...] = ()
    handed_registers: tuple[int, ...] = ()
    cancelling: frozenset[int] = frozenset()

    @property
    def exchanges(self) -> bool:
        """Whether rows must go to their partition: false if the stage only writes."""
        return bool(self.nodes or self.handed_registers)

    def types(self, register: int) -> tuple[DataType, ...]:
        """Return the types of the columns in a register."""
        ports = len(self.ports)
        return self.ports[register].types if register < ports else self.nodes[register - ports].node.types


def plan_stages(
    plans: Mapping[str, P.Operator],
    fixed: Mapping[P.StatefulOperator, Route] | None = None,
    fused: bool = True,
) -> tuple[Stage, ...]:
    """Return the stages that evaluate the plans of views.

    `fixed` has the routes of kernels that have state: their rows must go to the partition of that state.
    Without `fused`, every kernel is routed by its whole key.
    """
    return _StagePlanner(plans, fixed or {}, fused).plan()


class _StagePlanner:
    """The plans of all views, divided into regions, and the level of each region: the stage that runs it."""

    def __init__(
        self, plans: Mapping[str, P.Operator], fixed: Mapping[P.StatefulOperator, Route], fused: bool
    ) -> None:
        self.plans = plans
        self.kernels = stateful_operators(plans.values())
        self.feeders = {k: find_feeders(k) for k in self.kernels}
        self.regions = {k: single_region(k, fixed) for k in self.kernels}
        if fused:
            self._fuse(fixed)
        self.levels = self._assign_levels()
        self.depth = max(self.levels.values(), default=0)
        self._node_regions: dict[P.Operator, Region | None] = {}

    # Which kernels run together

    def _fuse(self, fixed: Mapping[P.StatefulOperator, Route]) -> None:
        """Merge regions that feed each other, where one route serves all and no stage is added."""
        longest = self._count_stages({})
        for kernel in self.kernels:
            for below, through_catalyst in self.feeders[kernel]:
                here, there = self.regions[kernel], self.regions[below]
                if through_catalyst or here is there:
                    continue
                both = here.kernels | there.kernels
                length = self._count_stages(dict.fromkeys(both, both))
                found = find_region(both, fixed) if length is not None and length <= (longest or 0) else None
                if found is not None:
                    self.regions.update(dict.fromkeys(both, found))
                    longest = length

    def _count_stages(self, other: Mapping[P.StatefulOperator, frozenset[P.StatefulOperator]]) -> int | None:
        """Return the number of stages if some kernels were in other groups; None if there is a cycle."""
        groups = {k: other.get(k, self.regions[k].kernels) for k in self.kernels}
        found = group_depths(groups, self.feeders)
        return None if found is None else max(found.values(), default=0)

    def _assign_levels(self) -> dict[P.StatefulOperator, int]:
        """Return the stage that runs each kernel: the one just before its first reader."""
        levels = group_depths({k: r.kernels for k, r in self.regions.items()}, self.feeders) or {}
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

    def _region_of(self, node: P.Operator) -> Region | None:
        """Return the region whose tasks can compute a node; None if Catalyst must."""
        if node not in self._node_regions:
            self._node_regions[node] = self._find_region_of(node)
        return self._node_regions[node]

    def _find_region_of(self, node: P.Operator) -> Region | None:
        if isinstance(node, P.StatefulOperator) and node in self.regions:
            return self.regions[node]
        if not node.is_light:
            return None
        regions = [self._region_of(i) for i in node.inputs]
        if all(r is regions[0] for r in regions):
            return regions[0]
        for here, other in ((0, 1), (1, 0)):
            found = regions[here]
            if found is not None and regions[other] is None and _has_port_for(found, node.inputs[other]):
                return found
        return None

    # Paths

    def _paths(self, node: P.Operator) -> Iterator[DraftPath]:
        """Yield the paths by which the rows of a node arrive."""
        if self._region_of(node) is not None or not node.inputs:
            yield DraftPath(node, ())
        elif isinstance(node, P.UnionOperator):
            yield from self._paths(node.left)
            yield from self._paths(node.right)
        else:
            for path in self._paths(node.inputs[0]):
                # An operator that only moves columns runs before the rows leave their stage.
                if not path.through and self._region_of(path.base) is not None and node.is_light:
                    yield DraftPath(node.with_inputs([path.base]), ())
                else:
                    yield DraftPath(path.base, (*path.through, node))

    def _source_level(self, path: DraftPath) -> int:
        """Return the stage that computes the rows of a path; 0 for a source."""
        region = self._region_of(path.base)
        return 0 if region is None else self.levels[next(iter(region.kernels))]

    @cached_property
    def _view_paths(self) -> list[tuple[str, DraftPath]]:
        return [(view, path) for view, plan in self.plans.items() for path in self._paths(plan)]

    # Stages

    def plan(self) -> tuple[Stage, ...]:
        """Return the stages; planned from the last one down, as each hands on what the next one reads."""
        planned: list[Stage] = []
        wanted: list[P.Operator] = []
        for level in range(self.depth + 1, 0, -1):
            draft = StageDraft()
            for kernel in self.kernels:
                if self.levels[kernel] == level:
                    self._add_node(kernel, self.regions[kernel], draft)
            for view, path in self._view_paths:
                if self._writing_level(path) != level:
                    continue
                if path.through or not self._source_level(path):
                    draft.write_port(view, path, self.plans[view].types)
                else:
                    draft.writes.append((view, self._add_in_region(path.base, draft)))
            for node in wanted:
                here = self._source_level(DraftPath(node, ())) == level
                rows = self._add_in_region(node, draft) if here else draft.read_port(node, None, False)
                draft.handed_registers.append(rows)
            wanted = []
            if draft.rows:
                planned.append(self._finish(draft, wanted))
        return tuple(reversed(planned))

    def _writing_level(self, path: DraftPath) -> int:
        """Return the stage that writes rows of a view.

        It is the stage that computes them, or the next one if Catalyst evaluates operators in between; for
        rows of a source it is the last one.
        """
        level = self._source_level(path)
        return level + bool(path.through) if level else self.depth + 1

    def _add_in_region(self, node: P.Operator, draft: StageDraft) -> DraftRows:
        region = self._region_of(node)
        assert region is not None
        return self._add_node(node, region, draft)

    def _add_node(self, node: P.Operator, region: Region, draft: StageDraft) -> DraftRows:
        """Add a node inside a region, with its inputs, to a draft; return its rows."""

        def make() -> DraftRows:
            inputs = [self._add_input(node, number, region, draft) for number in range(len(node.inputs))]
            kernel = node if isinstance(node, P.StatefulOperator) and node in region.kernels else None
            return draft.add_node(node, inputs, None if kernel is None else region.routes[kernel], kernel)

        return draft.make_once((node, region.kernels), make)

    def _add_input(self, node: P.Operator, number: int, region: Region, draft: StageDraft) -> DraftRows:
        below = node.inputs[number]
        if is_inside(below, region.kernels):
            return self._add_node(below, region, draft)
        broadcast = node in region.kernels and node.is_broadcast(number)
        return draft.read_port(below, region.ports.get((node, number)), broadcast)

    def _finish(self, draft: StageDraft, wanted: list[P.Operator]) -> Stage:
        """Return a finished stage; add the nodes that it reads from the previous stage to `wanted`."""

        def finish_path(path: DraftPath) -> Path:
            if not self._source_level(path):
                return Path(path.base, path.through)
            if path.base not in wanted:
                wanted.append(path.base)
            return Path(wanted.index(path.base), path.through)

        ports = []
        for port in draft.ports:
            paths = port.paths or list(self._paths(port.node))
            ports.append(Port(port.types, port.route, tuple(finish_path(path) for path in paths)))
        registers = draft.number_registers()
        nodes = tuple(StageNode(node, kernel, route) for node, kernel, route in draft.list_nodes(registers))
        return Stage(
            tuple(ports),
            nodes,
            tuple((view, registers[rows]) for view, rows in draft.writes),
            tuple(registers[rows] for rows in draft.handed_registers),
            frozenset(registers[rows] for rows in draft.cancelling_outputs()),
        )


def _has_port_for(region: Region, node: P.Operator) -> bool:
    """Return whether a region has a port for the rows of a node, perhaps with other columns."""
    return strip_moves(node)[0] in {strip_moves(reader.inputs[i])[0] for reader, i in region.ports}
