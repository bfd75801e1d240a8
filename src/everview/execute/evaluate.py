"""One slice for all plans of a store, as one Spark job or, where it is small, as none: their change rows, and
the operators' state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import attrgetter
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from everview import operators as P
from everview.execute.job import chain, comes_alone
from everview.execute.prepare import Evaluated, Pieces, Prepared
from everview.execute.program import Program, StageReport
from everview.execute.tasks import StageTask
from everview.operators.columnar.frame import Slice
from everview.storage.files import Files
from everview.storage.manifest import Traces
from everview.storage.records import decode_record

SMALL = 20_000  # rows, new ones and state


def evaluate(
    session: SparkSession,
    files: Files,
    partitions: int,
    plans: Mapping[str, P.Operator],
    scans: Mapping[P.ScanOperator, DataFrame | None],
    before: Traces,
    step: int,
    slice_: Slice,
    *,
    named: Callable[[P.Operator], str] = attrgetter("name"),
    pieces: Pieces = MappingProxyType({}),
) -> Evaluated:
    """Evaluates the plans of views over the new rows that `scans` hold, and the state as it was before.

    `pieces` has more new rows, for the ports of stages; `named` says under which name an operator keeps its
    state. What it writes may not yet be on the disk.
    """
    work = Prepared.of(plans, before, named)
    programs = work.programs(hasty(files), partitions, before, step, slice_, pieces)
    if _is_small(programs, pieces) and comes_alone(work.stages[0], scans, slice_.first):
        return work.evaluated(_done_here(programs[0], partitions), before)
    tasks = [partial(StageTask, program) for program in programs]
    woken = {stage for stage, _ in pieces}
    frames = chain(session, work.stages, scans, partitions, slice_.first, tasks, woken)
    lines = reduce(DataFrame.unionAll, frames).collect() if frames else []
    return work.evaluated(
        (report for line in lines for report in decode_record(line.run, list[StageReport])), before
    )


def _is_small(programs: Sequence[Program], pieces: Pieces) -> bool:
    """Whether a step is done sooner than it is handed to Spark: one stage, and few rows in all."""
    if len(programs) != 1:
        return False
    rows = sum(piece.run.rows for found in pieces.values() for piece in found)
    return rows + programs[0].state_rows <= SMALL


def _done_here(program: Program, partitions: int) -> list[StageReport]:
    """What the tasks of a stage tell, when they are run in this process."""
    nothing = [None] * len(program.stage.ports)
    return [program.run(nothing, partition).report(program.number) for partition in range(partitions)]


def hasty(files: Files) -> Files:
    """The same files, written without waiting for the disk: that is done once, for all, at the end."""
    same = copy.copy(files)
    same.durable = False
    return same


def scans_of(plans: Iterable[P.Operator]) -> set[P.ScanOperator]:
    """The streams and tables that plans read."""
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
