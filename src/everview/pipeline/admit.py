"""REPLAY on a store: late and rejected rows count from just after the bound on. One step of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from everview import operators as P
from everview.algebra.expressions import Expression
from everview.algebra.time import INFINITY, Chronon
from everview.catalog import Catalog, StreamEntry
from everview.compile_store import CompiledStore
from everview.errors import PlanError, StoreError, format_count
from everview.execute.evaluate import scans_of
from everview.execute.failures import explained_failures
from everview.execute.lanes import ProjectedRows, lanes_of
from everview.execute.prepare import StepStages
from everview.execute.tasks import write_rows
from everview.ingest.admit import count_corrections, rows_to_admit
from everview.ingest.bounds import record_arrivals
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM
from everview.pipeline.writer import StoreWriter
from everview.plan.corrections import TAKE_IN_TIME, refuse_correction
from everview.storage.arrivals import Arrived
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import ACCEPTED, ADMITTED, TraceId


@dataclass(frozen=True)
class Admission:
    """What REPLAY did: how many rows count, from when on, how many have no effect, how many stay."""

    name: str
    rows: int
    begin: Chronon
    without_effect: int = 0
    refused: int = 0


def admit_rows(
    writer: StoreWriter, views: CompiledStore, entry: StreamEntry, kind: str, where: Expression | None
) -> Admission:
    """Let late or rejected rows of a stream count from just after the bound on."""
    with writer.one_at_a_time, explained_failures([entry]):
        before, name = writer.store.manifest(), f"{entry.name}${kind}"
        if before.finished:
            raise StoreError(
                f"the rows of '{name}' cannot count any more: the store was run to its end",
                next_step="everview rewind --to TS takes it back in time",
            )
        begin, trace = before.bound + 1, TraceId(kind, entry.name)
        _require_exact(views, entry, name)
        if not before.runs(trace):
            return Admission(name, 0, begin)
        kept, step = writer.kept(before, views.catalog), before.step + 1
        found = rows_to_admit(kept, entry, kind, where, writer.now())
        part = TraceId("late", entry.name, ADMITTED if kind == "late" else ACCEPTED)
        runs = write_rows(found.rows, part, writer.store.files, step)
        number = sum(run.rows for run in runs)
        if not number:
            return Admission(name, 0, begin, refused=found.refused)
        left = write_rows(found.left, trace, writer.store.files, step)
        grown = before.with_traces({trace: left, part: (*before.runs(part), *runs)})
        written = kept.new_rows(P.ScanOperator(entry.name, entry.columns.types), begin - 1, INFINITY, runs)
        assert written is not None
        after = _count_admitted(grown, entry, kind, number, written, writer.now())
        idle = number - _rows_with_effect(writer, views, before, entry, written)
        writer.commit_step(before, replace(after, step=step))
        return Admission(name, number, begin, idle, found.refused)


def _count_admitted(
    manifest: Manifest, entry: StreamEntry, kind: str, number: int, rows: DataFrame, now: int
) -> Manifest:
    """Return the manifest with the rows counted as taken, and as late or rejected no longer."""
    names = entry.columns.names
    lines = [line.column for line in entry.timelines]
    times = [f"max(unix_micros({column(names.index(line))}))" for line in lines]
    [found] = rows.selectExpr(f"min({FROM})", *times).collect()
    newest = {line: time for line, time in zip(lines, found[1:], strict=True) if time is not None}
    less = {"late": Arrived(number, late=-number), "rejected": Arrived(number, rejected=-number)}[kind]
    return record_arrivals(manifest, {entry.name: replace(less, newest=newest, oldest=found[0])}, now)


def _rows_with_effect(
    writer: StoreWriter, views: CompiledStore, manifest: Manifest, entry: StreamEntry, rows: DataFrame
) -> int:
    """Return how many rows of a stream some view takes: its conditions hold, its windows have not ended."""
    stages = StepStages.of(views.running, manifest.traces).stages
    partitions = writer.store.settings.partitions
    lanes = lanes_of(stages, frozenset({entry.name}), partitions, windows_later=False)
    own = tuple(column(i) for i in range(len(entry.columns)))
    if not lanes:
        return 0
    projected = ProjectedRows(tuple(w.row for w in lanes), tuple(w.projection for w in lanes), own)
    frame = rows.select(*own, *CHANGE)
    for texts in projected.lets():
        frame = frame.selectExpr("*", *texts)
    wanted = projected.wanted()
    return frame.count() if wanted is None else frame.where(wanted).count()


def _require_exact(views: CompiledStore, entry: StreamEntry, name: str) -> None:
    """Refuse REPLAY if a view could give the rows no exact meaning, or reads them as late or rejected."""
    for view, plan in {n: v.physical for n, v in views.views.items()}.items():
        if any(scan.relation == name for scan in scans_of([plan])):
            raise PlanError(
                f"the view '{view}' reads '{name}', from which no row can be taken away",
                next_step=f"DROP VIEW {view} first",
            )
        why = refuse_correction(plan, entry.name)
        if why is not None:
            raise PlanError(
                f"the rows of '{name}' cannot count from now on: the view '{view}' has {why}",
                next_step=TAKE_IN_TIME,
            )


def require_no_corrections(
    files: Files, manifest: Manifest, catalog: Catalog, plans: Mapping[str, P.Operator], names: Iterable[str]
) -> None:
    """Refuse new views that could give no exact meaning to rows which were re-admitted before."""
    for entry in catalog:
        if not isinstance(entry, StreamEntry) or not manifest.admitted(entry.name):
            continue
        for name in names:
            why = refuse_correction(plans[name], entry.name)
            number = 0 if why is None else count_corrections(files, manifest, entry)
            if number:
                rows = format_count(number, "row")
                raise PlanError(
                    f"the view '{name}' has {why}, and {rows} of '{entry.name}' came too late and were "
                    "re-admitted",
                    next_step=TAKE_IN_TIME,
                )
