"""One slice for all plans of a store, as one Spark job: their change rows, and the operators' state."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession

from everview.kernels.frame import Slice
from everview.runtime.files import Files
from everview.runtime.manifest import Traces
from everview.runtime.prepare import Evaluated as Evaluated
from everview.runtime.prepare import Prepared
from everview.runtime.runs import bring_to_disk
from everview.runtime.task import StageTask, read_lines
from everview.spark import physical as P
from everview.spark.physical import operator_name as operator_name
from everview.spark.step import chain


def evaluate(
    session: SparkSession,
    files: Files,
    partitions: int,
    plans: Mapping[str, P.Physical],
    scans: Mapping[P.Scan, DataFrame],
    before: Traces,
    step: int,
    slice_: Slice,
    *,
    named: Callable[[P.Physical], str] | None = None,
    beside: DataFrame | None = None,
) -> Evaluated:
    """Evaluates the plans of views over the new rows that `scans` hold, and the state as it was before.

    `named` says under which name an operator keeps its state; `beside` yields lines of other runs that the
    same job writes. When it returns, all files that the result names are on the disk.
    """
    work = Prepared.of(plans, before, named or operator_name)
    programs = work.programs(_hasty(files), partitions, before, step, slice_)
    tasks = [partial(StageTask, program) for program in programs]
    frames = chain(session, work.stages, scans, partitions, slice_.first, tasks)
    frames += [] if beside is None else [beside]
    lines = reduce(DataFrame.unionAll, frames).collect() if frames else []
    reports = [report for line in lines if not line.trace for report in json.loads(line.run)]
    done = work.evaluated(reports, before)
    for trace, runs in read_lines((line.trace, line.run) for line in lines if line.trace).items():
        done.traces[trace] = (*before.get(trace, ()), *runs)
    bring_to_disk(files, before, done.traces)
    return done


def _hasty(files: Files) -> Files:
    """The same files, written without waiting for the disk: that is done once, for all, at the end."""
    hasty = copy.copy(files)
    hasty.durable = False
    return hasty


def scans_of(plans: Iterable[P.Physical]) -> set[P.Scan]:
    """The streams and tables that plans read."""
    found: set[P.Scan] = set()
    seen: set[P.Physical] = set()

    def walk(plan: P.Physical) -> None:
        if plan not in seen:
            seen.add(plan)
            if isinstance(plan, P.Scan):
                found.add(plan)
            for below in plan.inputs:
                walk(below)

    for plan in plans:
        walk(plan)
    return found
