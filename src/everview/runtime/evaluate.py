"""One slice for all plans of a store, as one Spark job: their change rows, and the operators' state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from everview.kernels.frame import Slice
from everview.runtime.files import Files
from everview.runtime.manifest import Traces
from everview.runtime.runs import Run, TraceId
from everview.runtime.task import VIEW_LINES, KernelTask, ViewTask, read_report
from everview.spark import physical as P
from everview.spark.catalyst import spark_schema
from everview.spark.exchange import Layout
from everview.spark.step import Step


@dataclass(frozen=True)
class Evaluated:
    """What a slice left: new lists of runs for the operators' state and the views, and rows for each view."""

    traces: dict[TraceId, tuple[Run, ...]]
    changes: dict[str, int]


def evaluate(
    session: SparkSession,
    files: Files,
    partitions: int,
    plans: Mapping[str, P.Physical],
    scans: Mapping[P.Scan, DataFrame],
    before: Traces,
    step: int,
    slice_: Slice,
) -> Evaluated:
    """Evaluates the plans of views over the new rows that `scans` hold, and the state as it was before."""
    operators: dict[P.Physical, str] = {}

    def task(node: P.Physical, layout: Layout) -> KernelTask:
        operator = operators.setdefault(node, operator_name(node))
        schema = to_arrow_schema(spark_schema(node.types), timezone="UTC")
        return KernelTask(node, layout, operator, before, files, step, slice_, schema)

    built = Step(session, scans, partitions, slice_.first, task)
    frames = built.frames(plans.values())
    sinks = [f.mapInArrow(ViewTask(v, files, step), VIEW_LINES) for v, f in zip(plans, frames, strict=True)]
    try:
        lines = reduce(DataFrame.unionAll, sinks).collect() if sinks else []
    finally:
        built.done()
    traces: dict[TraceId, tuple[Run, ...]] = {}
    changes = dict.fromkeys(plans, 0)
    for line in lines:
        view, run = TraceId("view", line.view), Run.from_json(json.loads(line.run))
        traces[view] = (*traces.get(view, before.get(view, ())), run)
        changes[line.view] += run.rows
    for operator in operators.values():
        for partition in range(partitions):
            traces.update(read_report(files, operator, step, partition))
    return Evaluated(traces, changes)


def operator_name(node: P.Physical) -> str:
    """A name for a kernel that is the same in every step and after every restart: by what it computes."""
    return f"{type(node).__name__}-{hashlib.sha256(repr(node).encode()).hexdigest()[:16]}"


def scans_of(plans: Iterable[P.Physical]) -> set[P.Scan]:
    """The streams and tables that plans read."""
    found: set[P.Scan] = set()
    for plan in plans:
        found |= {plan} if isinstance(plan, P.Scan) else scans_of(plan.inputs)
    return found
