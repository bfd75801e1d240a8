"""From plans and kept state to the programs of a step, and from the reports of tasks to new state."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MappingProxyType

from everview import operators as P
from everview.errors import StoreError
from everview.execute.arrangements import find_shared_parts
from everview.execute.families import order_of_work
from everview.execute.pieces import PartitionedInputFile
from everview.execute.program import Program, StageReport
from everview.operators.base import stateful_operators
from everview.operators.step_slices import StepSlices
from everview.plan.regions import Route
from everview.plan.stages import Stage, plan_stages
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId, Traces

_WorkNumber = tuple[int, int]  # which stage, and which of its works
Pieces = Mapping[tuple[int, int], tuple[PartitionedInputFile, ...]]  # for a stage and a port of it


@dataclass(frozen=True)
class SliceOutput:
    """The result of a slice: new lists of runs for the states and the views, and rows for each view."""

    traces: dict[TraceId, tuple[Run, ...]]
    changes: dict[str, int]


@dataclass(frozen=True)
class StepStages:
    """The stages of a step, and under which name each kernel keeps its state."""

    stages: tuple[Stage, ...]
    names: Mapping[P.StatefulOperator, str]

    @classmethod
    def of(
        cls,
        plans: Mapping[str, P.Operator],
        before: Traces,
        named: Callable[[P.Operator], str] = attrgetter("name"),
        fused: bool = True,
    ) -> StepStages:
        """Return the stages for some plans; operators that have state keep its partitioning."""
        names = {kernel: named(kernel) for kernel in stateful_operators(plans.values())}
        fixed = _fixed(names, before)
        return cls(_stages(tuple(plans.items()), tuple(fixed.items()), fused), names)

    @cached_property
    def _places(self) -> dict[str, _WorkNumber]:
        """Where each operator runs."""
        return {
            self.names[work.kernel].casefold(): (number, place)
            for number, stage in enumerate(self.stages)
            for place, work in enumerate(stage.nodes)
            if work.kernel is not None
        }

    def programs(
        self,
        files: Files,
        partitions: int,
        before: Traces,
        step: int,
        slices: StepSlices,
        pieces: Pieces = MappingProxyType({}),
    ) -> list[Program]:
        """Return the program of each stage."""
        kept: dict[tuple[int, int], dict[int, dict[str, tuple[Run, ...]]]] = defaultdict(dict)
        for trace, runs in before.items():
            if trace.kind == "state" and trace.owner in self._places:
                number, place = self._places[trace.owner]
                parts = kept[number, trace.partition].setdefault(place, {})
                parts[trace.part] = runs
        programs = []
        for number, stage in enumerate(self.stages):
            operators = {
                place: self.names[work.kernel]
                for place, work in enumerate(stage.nodes)
                if work.kernel is not None
            }
            mine = [kept.get((number, p), {}) for p in range(partitions)]
            rows = sum(
                r.rows for state in mine for parts in state.values() for runs in parts.values() for r in runs
            )
            ports = tuple(pieces.get((number, port), ()) for port in range(len(stage.ports)))
            states = list(map(pickle.dumps, mine))
            kernels = {
                place: work.kernel for place, work in enumerate(stage.nodes) if work.kernel is not None
            }
            own = {place: slices.of_operator(kernel) for place, kernel in kernels.items()}
            dropped = {place: slices.dropped(kernel) for place, kernel in kernels.items()}
            order = order_of_work(stage)
            programs.append(
                Program(
                    number,
                    _bare(stage),
                    operators,
                    states,
                    files,
                    step,
                    own,
                    dropped,
                    order,
                    ports,
                    rows,
                    find_shared_parts(stage),
                )
            )
        return programs

    def read_reports(self, reports: Iterable[StageReport], before: Traces) -> SliceOutput:
        """Return the traces after a step, from the reports of its tasks."""
        traces: dict[TraceId, tuple[Run, ...]] = {}
        views = {view for stage in self.stages for view, _ in stage.writes}
        changes = dict.fromkeys(sorted(views), 0)
        for report in sorted(reports, key=lambda r: (r.stage, r.partition or 0)):
            for view, run in report.views:
                trace = TraceId("view", view)
                traces[trace] = (*traces.get(trace, before.get(trace, ())), run)
                changes[view] += run.rows
            for place, part, runs in report.states:
                trace = self._state_trace(report, place, part)
                known = {run.path: run for run in before.get(trace, ())}
                traces[trace] = tuple(known[r] if isinstance(r, str) else r for r in runs)
            for follower, keeper in find_shared_parts(self.stages[report.stage]).items():
                kept = self._state_trace(report, *keeper)
                traces[self._state_trace(report, *follower)] = traces.get(kept, before.get(kept, ()))
        return SliceOutput(traces, changes)

    def _state_trace(self, report: StageReport, place: int, part: str) -> TraceId:
        """Return the trace of a part of the state of the kernel at a place, in the partition of a report."""
        work = self.stages[report.stage].nodes[place]
        assert work.kernel is not None
        return TraceId("state", self.names[work.kernel], part, report.partition or 0, work.route or ())


def _fixed(names: Mapping[P.StatefulOperator, str], before: Traces) -> dict[P.StatefulOperator, Route]:
    """Return the keys by which the state of each operator is partitioned, if it has any."""
    routes: dict[str, Route] = {}
    for trace, runs in before.items():
        if trace.kind != "state" or not runs:
            continue
        if routes.setdefault(trace.owner, trace.route) != trace.route:
            raise StoreError(
                f"the state of {trace.owner} lies by different keys in different places",
                next_step="put the store back from a backup, or build it anew from its sources",
            )
    return {k: routes[name.casefold()] for k, name in names.items() if name.casefold() in routes}


@lru_cache(maxsize=32)
def _stages(
    plans: tuple[tuple[str, P.Operator], ...],
    fixed: tuple[tuple[P.StatefulOperator, Route], ...],
    fused: bool,
) -> tuple[Stage, ...]:
    return plan_stages(dict(plans), dict(fixed), fused)


@lru_cache(maxsize=128)
def _bare(stage: Stage) -> Stage:
    """Return the stage without the plans that it was made from; tasks do not need them."""
    ports = tuple(replace(port, paths=()) for port in stage.ports)
    return replace(stage, ports=ports, nodes=tuple(replace(node, kernel=None) for node in stage.nodes))
