"""Repair: what is damaged is read or computed again where that is possible, and named where it is not.

    settings, catalog      put back from their copies
    manifests, checkpoint  the newest pair that belongs together; what came later is read again
    views, state           the views are computed anew, as by CREATE OR REPLACE; they begin at the bound,
                           if their streams cannot be read again
    rows that wait         read again from the source
    inserted rows          lost: they are nowhere else

One manifest has all of it. Until it is written, the store is as damaged as before, and afterwards only
Spark's log and files that nothing needs are left: a repair that was interrupted can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as replace_run
from pyspark.sql import SparkSession

from everview import operators as P
from everview.algebra.time import instant_words
from everview.catalog import QueryEntry, StreamEntry, TableEntry, ViewEntry
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import StoreError, format_count
from everview.execute.failures import explained_failures
from everview.execute.pieces import pieces_of
from everview.execute.slices import with_plans
from everview.ingest.changed_files import files_with_times
from everview.ingest.reading import reads_files, source_name
from everview.ingest.replay import Replay, write_waiting_rows
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL
from everview.pipeline.backfill import BackfillProgress
from everview.pipeline.views import CatalogChange, doing_words, joined_manifest, plan_backfill, protect_files
from everview.pipeline.writer import StoreWriter
from everview.plan.views import next_name
from everview.settings import SparkSettings
from everview.sinks.position import SinkPositions
from everview.storage import manifest as manifests
from everview.storage.check import check_store, contents_of, damaged_plans, damaged_runs
from everview.storage.checkpoint import CHECKPOINT, mend_checkpoint
from everview.storage.files import Files
from everview.storage.manifest import Manifest, Replacement
from everview.storage.plans import PlanReader
from everview.storage.repair import Diagnosis, RepairNotes, diagnose, readable_settings
from everview.storage.runs import REPLACED, Run, TraceId
from everview.storage.source_log import is_whole_log, log_entries, read_files, source_offsets
from everview.storage.store import Store, write_settings

_WITH_OFFSETS = ("kafka",)  # sources without files that send the same rows again


@dataclass
class StoreRepair:
    """A repair of a locked store: what it does is decided when it is made, and done by `carry_out`."""

    writer: StoreWriter
    diagnosis: Diagnosis
    report: Callable[[BackfillProgress], None] = lambda _: None
    manifest: Manifest = field(init=False)  # without what is damaged
    _views: set[str] = field(default_factory=set)  # to be computed
    _lost: set[str] = field(default_factory=set)  # those of them whose changes are damaged
    _waiting: list[StreamEntry] = field(default_factory=list)  # whose waiting rows are read again

    def __post_init__(self) -> None:
        self.manifest = replace(self.diagnosis.base, step=self.diagnosis.step)
        self._name_rows_that_are_gone()
        self._plan_plans()
        damaged: dict[TraceId, list[Run]] = {}
        for trace, run, _ in damaged_runs(self.writer.store.files, self.manifest):
            damaged.setdefault(trace, []).append(run)
        compiled = self._compiled()
        if self.diagnosis.all_views:
            self._views = set(compiled.plans)
        for trace, runs in damaged.items():
            if trace.kind != "complete" or TraceId("view", trace.owner) not in damaged:
                self._plan_trace(trace, runs, compiled)
        self._views = set(self._with_readers(compiled)) if self.manifest.bound > BEFORE_ALL else set()
        for name in self._lost & self._views:
            self.manifest = self.manifest.with_traces({TraceId("view", name): ()})
        self._note_views()

    @property
    def notes(self) -> RepairNotes:
        """What is done, what is lost, and what cannot be mended."""
        return self.diagnosis.notes

    @property
    def needed(self) -> bool:
        """Whether there is anything to mend."""
        return bool(self.diagnosis.problems or self.notes.actions or self.notes.losses)

    def _compiled(self) -> CompiledStore:
        """Return the views with the plans that their state belongs to; none of them is set aside."""
        stored = StoredViews(self.manifest.plans, {}, (), PlanReader(self.writer.store.files))
        strategy = self.writer.store.settings.strategy
        return compile_store(self.diagnosis.catalog, self.manifest.starts, None, stored, strategy=strategy)

    def _plan_plans(self) -> None:
        """Drop damaged plans; a view that is not compiled to the same plan again must be computed anew.

        Plans that were about to take over begin again with the next run. Views that were set aside are
        computed, too.
        """
        before = self.manifest
        damaged = {digest for digest, _ in damaged_plans(self.writer.store.files, before)}
        plans = {name: kept for name, kept in before.plans.items() if kept.plan not in damaged}
        self.manifest = replace(before, plans=plans, next={}, aside={})
        self._views |= set(before.aside)
        if not before.plans:
            return  # a release that kept none, or a store that has not run
        compiled = self._compiled()
        for name, kept in before.plans.items():
            if name not in plans and name in compiled.plans and compiled.plans[name].digest != kept.plan:
                self._views.add(name)
            elif name not in plans:
                self.notes.actions.append(f"the plan of the view '{name}' is written again")
        running = compiled.operator_names()
        hidden = {next_name(name).casefold() for name in before.next}
        gone = {t: () for t in before.of("state") if t.owner not in running}
        gone |= {t: () for t in before.of("view") if t.owner in hidden}
        self.manifest = self.manifest.with_traces(gone)

    def _name_rows_that_are_gone(self) -> None:
        """Name the rows that would have to be read again from their sources and cannot be."""
        found = self.diagnosis
        for entry in found.catalog if found.read_again else ():
            if not isinstance(entry, StreamEntry) or entry.source is None:
                continue
            if reads_files(entry):
                self._name_files_that_are_gone(entry)
            elif found.batch < 0 or entry.source.format not in _WITH_OFFSETS:
                kind = self.notes.unmendable if found.batch < 0 else self.notes.losses
                kind.append(f"what the source {entry.source.format} of '{entry.name}' has sent")

    def _name_files_that_are_gone(self, entry: StreamEntry) -> None:
        """Name the files of a stream that were read after the batch to go on after, and are gone since."""
        checkpoint, name = self.writer.store.files.below(CHECKPOINT), source_name(entry)
        logs = log_entries(checkpoint, name)
        damaged = [path for path, _ in logs.values() if f"{CHECKPOINT}/{path}" in self.diagnosis.damaged]
        taken = self.diagnosis.last.counts.get(entry.name, (0, 0, 0))[0]
        if is_whole_log(logs) and not damaged:
            before = read_files(
                checkpoint, name, source_offsets(checkpoint, self.diagnosis.batch).get(name, -1)
            )
            read = read_files(checkpoint, name, max(logs))
            there = files_with_times(read)
            for uri, time in read.items():
                if uri not in before and (uri not in there or there[uri][1] != time):
                    self.notes.losses.append(f"rows of '{entry.name}' from {uri}: it is gone or was changed")
        elif taken and self.diagnosis.batch < 0:
            self.notes.losses.append(
                f"rows of '{entry.name}' from files that were removed or changed since they were read: "
                f"which these are is not known any more ({format_count(taken, 'row')} had been taken)"
            )

    def _plan_trace(self, trace: TraceId, runs: list[Run], compiled: CompiledStore) -> None:
        """Decide what becomes of a trace some of whose runs are damaged."""
        entry = self.diagnosis.catalog.entries.get(trace.owner)
        rows = format_count(sum(run.rows for run in runs), "row")
        match trace.kind:
            case "state":
                self._views |= {
                    view for view, plan in compiled.plans.items() if trace.owner in _state_names(plan)
                }
            case "view" if isinstance(entry, QueryEntry) and trace.part == REPLACED:
                self._begin_anew(entry.name, trace)
            case "view" if isinstance(entry, QueryEntry):
                self._views.add(entry.name)
                self._lost.add(entry.name)
            case "complete" if isinstance(entry, ViewEntry):
                self.manifest = self.manifest.with_traces(
                    {trace: self.manifest.runs(TraceId("view", entry.name))}
                )
                self.notes.actions.append(
                    f"the present answer of the view '{entry.name}' is taken from its changes"
                )
            case "port":
                self._read_without_pieces({run.arrival for run in runs})
            case "inbox" if isinstance(entry, StreamEntry) and entry.source is not None:
                self._plan_waiting(entry, trace, runs)
            case "inbox" | "late" | "rejected" if not isinstance(entry, TableEntry) or trace.kind != "inbox":
                times = f"{instant_words(min(r.least_from for r in runs))} … "
                times += instant_words(max(r.greatest_from for r in runs))
                self.notes.losses.append(f"{contents_of(trace)}: {rows}, {times}")
                self._drop(trace, runs)
                if trace.part and entry is not None:
                    self._count_as_late(entry.name, sum(run.rows for run in runs))
            case _:
                self.notes.unmendable.append(f"{contents_of(trace)}: {rows}, which are nowhere else")

    def _drop(self, trace: TraceId, runs: list[Run]) -> None:
        gone = {run.path for run in runs}
        left = tuple(run for run in self.manifest.runs(trace) if run.path not in gone)
        self.manifest = self.manifest.with_traces({trace: left})

    def _count_as_late(self, stream: str, rows: int) -> None:
        """Count lost re-admitted rows as late: a view made later would find them in their files."""
        taken, late, rejected = self.manifest.counts.get(stream, (0, 0, 0))
        counts = {**self.manifest.counts, stream: (taken, late + rows, rejected)}
        self.manifest = replace(self.manifest, counts=counts)

    def _begin_anew(self, view: str, trace: TraceId) -> None:
        """Drop the changes of a view from before it was replaced."""
        step = self.diagnosis.step + 1
        anew = Replacement(step, self.manifest.replaced[view].at, anew=True, followed_from=step)
        self.manifest = replace(
            self.manifest.with_traces({trace: ()}), replaced={**self.manifest.replaced, view: anew}
        )
        self.notes.losses.append(f"the changes of the view '{view}' from before it was replaced")

    def _read_without_pieces(self, arrivals: set[str]) -> None:
        """Let Spark read runs of an inbox whose pieces are damaged."""
        changed = {
            trace: tuple(replace_run(r, lanes=None, arrival="") if r.arrival in arrivals else r for r in runs)
            for trace, runs in self.manifest.of("inbox").items()
        }
        self.manifest = self.manifest.with_traces(changed)
        self.manifest = self.manifest.with_traces(pieces_of(self.manifest))
        text = "rows that wait for the bound are read from the inboxes of their streams"
        if text not in self.notes.actions:
            self.notes.actions.append(text)

    def _plan_waiting(self, entry: StreamEntry, trace: TraceId, runs: list[Run]) -> None:
        """Read the rows of a stream that wait for the bound again from its source, if that is possible."""
        found = Replay.of(self.writer.session, self.writer.store.files, entry, self.manifest)
        if isinstance(found, str):
            rows = format_count(sum(run.rows for run in runs), "row")
            self.notes.losses.append(f"up to {rows} of '{entry.name}' that wait for the bound: {found}")
            self._drop(trace, runs)
        else:
            self.notes.actions.append(
                f"rows of '{entry.name}' that wait for the bound are read again from its source"
            )
            self._waiting.append(entry)
            self.manifest = self.manifest.with_traces({trace: ()})
        self.manifest = self.manifest.with_traces(pieces_of(self.manifest))

    def _with_readers(self, compiled: CompiledStore) -> Iterator[str]:
        """Yield the views to be computed, and all that read them."""
        chosen: set[str] = set()
        for name in compiled.plans:  # each after those that it reads
            entry = self.diagnosis.catalog.get(name)
            if name in self._views or any(below in chosen for below in entry.depends_on):
                chosen.add(name)
                yield name

    def _note_views(self) -> None:
        if self._views:
            plan = plan_backfill(self.writer, self._change(), self._names(), self.manifest, self.report)
            for name in plan.backfill.names:
                if name in plan.incomplete:
                    since = instant_words(plan.starts[name].since)
                    why = plan.incomplete[name]
                    self.notes.losses.append(f"the view '{name}' before {since}, where it begins: {why}")
                else:
                    self.notes.actions.append(f"the view '{name}' is computed anew from the beginning")

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self._compiled().plans if name in self._views)

    def _change(self) -> CatalogChange:
        return CatalogChange(self.diagnosis.catalog, self._compiled(), frozenset(self._lost))

    def carry_out(self) -> None:
        """Mend the store: one manifest, then Spark's log, then files that nothing needs."""
        found, store = self.diagnosis, self.writer.store
        if self.notes.unmendable:
            raise StoreError(
                f"{store.files} cannot be mended: {self.notes.unmendable[0]}",
                next_step="everview restore puts a backup back, if there is one",
            )
        write_settings(store.files, store.settings)
        after = self._mended()
        if found.read_again or found.last.step < found.step or self.notes.losses:
            # Targets may have what the store lost, or what it works out anew: sinks are set aside without it.
            SinkPositions(store.files).clear()
        self.writer.commit_step(found.last, after, found.catalog)
        if found.checkpoint:
            mend_checkpoint(store.files, found.batch, found.damaged)
        for step in manifests.list_steps(store.files):
            try:
                manifests.read(store.files, step)
            except manifests.DamagedManifest:
                store.files.delete(manifests.path_of(step))
        left = check_store(store).problems
        if left:
            raise StoreError(f"after the repair: {left[0].what}", next_step="run everview repair again")

    def _mended(self) -> Manifest:
        """Return the manifest with rows that were read again, and views that were computed anew."""
        manifest = self.manifest
        for entry in self._waiting:
            manifest = manifest.with_traces({TraceId("inbox", entry.name): self._waiting_rows(entry)})
        if not self._views:
            whole = with_plans(manifest, self._compiled(), self.writer.store.files)
            return replace(whole, step=manifest.step + 1)
        names, change = self._names(), self._change()
        plan = plan_backfill(self.writer, change, names, manifest, self.report)
        with (
            protect_files(self.writer, plan.backfill, manifest),
            explained_failures(doing=doing_words(names)),
        ):
            plan.backfill.advance(manifest, last=True)
            return joined_manifest(self.writer, change, plan, manifest)

    def _waiting_rows(self, entry: StreamEntry) -> tuple[Run, ...]:
        """Write the rows of a source that begin after the bound to a run of its inbox."""
        kept = self.writer.kept(self.manifest, self.diagnosis.catalog)
        found = Replay.of(kept.session, kept.files, entry, self.manifest)
        if isinstance(found, str):
            return ()
        written = write_waiting_rows(kept, found, self.diagnosis.step + 1)
        seen = self.manifest.evaluated  # event queries have seen these rows
        return tuple(replace_run(run, step=seen) for run in written)


def _state_names(plan: P.Operator) -> set[str]:
    """Return the names under which the operators of a plan keep their state."""
    return {operator.name.casefold() for operator in stateful_operators([plan])}


@contextmanager
def open_repair(
    path: str, session: SparkSession | SparkSettings | None, report: Callable[[BackfillProgress], None]
) -> Iterator[StoreRepair]:
    """Lock the store at a path, and find out what is to be mended."""
    files, notes = Files(path), RepairNotes()
    store = Store(files, readable_settings(files, notes))
    writer = StoreWriter(store, session)
    try:
        store.lock()
        yield StoreRepair(writer, diagnose(store, notes), report)
    finally:
        writer.close_store()
