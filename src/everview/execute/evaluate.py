"""The evaluation of one slice for all views of a store: one Spark job, or none where it is small."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import attrgetter
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from everview import operators as P
from everview.execute.job import chain, comes_alone
from everview.execute.prepare import Pieces, SliceOutput, StepStages
from everview.execute.program import Program, StageReport
from everview.execute.tasks import StageTask
from everview.operators.step_slices import StepSlices
from everview.storage.files import Files
from everview.storage.records import decode_record
from everview.storage.runs import Traces

SMALL = 20_000  # rows, new ones and those of the state


def evaluate_slice(
    session: SparkSession,
    files: Files,
    partitions: int,
    plans: Mapping[str, P.Operator],
    scans: Mapping[P.ScanOperator, DataFrame | None],
    before: Traces,
    step: int,
    slices: StepSlices,
    *,
    named: Callable[[P.Operator], str] = attrgetter("name"),
    pieces: Pieces = MappingProxyType({}),
) -> SliceOutput:
    """Evaluate the plans of views over the new rows of `scans`, on top of the state before the step.

    `pieces` has further new rows for the ports of stages; `named` returns the name under which an operator
    keeps its state. The files that are written may not yet be on the disk.
    """
    work = StepStages.of(plans, before, named)
    programs = work.programs(without_fsync(files), partitions, before, step, slices, pieces)
    if _is_small(programs, pieces) and all(comes_alone(s, scans, slices) for s in work.stages):
        here = (report for program in programs for report in _done_here(program, partitions))
        return work.read_reports(here, before)
    tasks = [partial(StageTask, program) for program in programs]
    woken = {stage for stage, _ in pieces}
    frames = chain(session, work.stages, scans, partitions, slices, tasks, woken)
    lines = reduce(DataFrame.unionAll, frames).collect() if frames else []
    return work.read_reports(
        (report for line in lines for report in decode_record(line.run, list[StageReport])), before
    )


def _is_small(programs: Sequence[Program], pieces: Pieces) -> bool:
    """Return whether a step is faster in the driver than as a Spark job: few rows in all."""
    rows = sum(piece.run.rows for found in pieces.values() for piece in found)
    return bool(programs) and rows + sum(program.state_rows for program in programs) <= SMALL


def _done_here(program: Program, partitions: int) -> list[StageReport]:
    """Run the tasks of a stage in this process and return their reports."""
    nothing = [None] * len(program.stage.ports)
    return [program.run(nothing, partition).report(program.number) for partition in range(partitions)]


def without_fsync(files: Files) -> Files:
    """Return the same files without fsync after each write; the end of a step syncs all at once."""
    same = copy.copy(files)
    same.durable = False
    return same


def scans_of(plans: Iterable[P.Operator]) -> set[P.ScanOperator]:
    """Return the scans of streams and tables in some plans."""
    found: set[P.ScanOperator] = set()
    seen: set[P.Operator] = set()

    def walk(plan: P.Operator) -> None:
        if plan not in seen:
            seen.add(plan)
            if isinstance(plan, P.ScanOperator):
                found.add(plan)
            for below in plan.inputs:
                walk(below)

    for plan in plans:
        walk(plan)
    return found
