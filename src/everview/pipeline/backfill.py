"""Backfill: views of a store that has run are computed from the beginning, up to its bound.

The rows of sources are read again (`ingest/replay.py`) and written to runs of their own; then the views are
evaluated slice by slice, as if they had been there all the time. What they read of other views starts from
the kept changes of these. All files lie in a folder of their own, so that the steps of the store can go on;
what they did meanwhile is worked off at the end, and then the new views join the others at one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from pyspark.sql import DataFrame

from everview import operators as P
from everview.algebra.time import instant_words
from everview.catalog import StreamEntry
from everview.compile_store import CompiledStore
from everview.errors import StoreError
from everview.execute.evaluate import evaluate_slice, scans_of
from everview.execute.event_bounds import line_bounds
from everview.execute.kept import Kept, unite
from everview.execute.tasks import write_rows
from everview.ingest.replay import ReadPart, Replay
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.operators.step_slices import StepSlices
from everview.pipeline.writer import StoreWriter
from everview.plan.views import cut_at_views
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import BACKFILL, Run, TraceId, Traces

_ROWS_A_SLICE = 2_000_000  # of all streams that are read again


@dataclass(frozen=True)
class BackfillProgress:
    """How far a backfill is: the views, and what is being done."""

    views: tuple[str, ...]
    text: str


@dataclass
class Backfill:
    """New views of a store while they are computed; `views` has them, and all others."""

    writer: StoreWriter
    views: CompiledStore
    names: tuple[str, ...]
    report: Callable[[BackfillProgress], None]
    token: str
    kept: Mapping[P.Operator, str]  # plans whose changes are there, as those of a view
    bound: int = BEFORE_ALL
    traces: Traces = field(default_factory=dict)
    _inbox: dict[str, tuple[Run, ...]] = field(default_factory=dict)
    _parts: dict[str, set[ReadPart]] = field(default_factory=dict)  # of each stream, that were read again
    _step: int = 0
    _replayed_up_to: int = 0  # the step

    def __post_init__(self) -> None:
        self._plans: dict[str, P.Operator] = {}
        self._origin: dict[P.Operator, P.Operator] = {}
        for name in self.names:
            self._plans[name], origin = cut_at_views(self.views.plans[name], self.kept, in_domains=True)
            self._origin |= origin
        self._scans = scans_of(self._plans.values())

    @property
    def files(self) -> Files:
        """The folder of its files."""
        return self.writer.store.files.below(f"{BACKFILL}/{self.token}")

    @property
    def reads_events(self) -> bool:
        """Whether an event stream is computed, or a view over one: that is done at once, by all bounds."""
        return any(map(self.views.reads_events, self.names))

    def streams(self) -> list[StreamEntry]:
        """Return the streams that are read again: those with a source that are read from the beginning."""
        entries = {s.relation: self.views.catalog.entries.get(s.relation.casefold()) for s in self._scans}
        whole = {s.relation for s in self._scans if s.since == BEFORE_ALL}
        return [
            e
            for name, e in entries.items()
            if isinstance(e, StreamEntry) and e.source is not None and name in whole
        ]

    def advance(self, manifest: Manifest, last: bool) -> None:
        """Compute the views up to the bound of a manifest; the last time, with rows that begin later.

        A row of a view may be known before it begins; the steps after this one do not send it again.
        """
        self._read_again(manifest)
        cuts = () if self.reads_events else self._cuts(manifest.bound)
        for bound in [*cuts, manifest.bound]:
            self._evaluate(manifest, bound, last and bound == manifest.bound)

    def _read_again(self, manifest: Manifest) -> None:
        """Write the rows of sources up to a manifest to runs of the backfill."""
        kept = self.writer.kept(manifest, self.views.catalog)
        for entry in self.streams():
            known = self._parts.setdefault(entry.name, set())
            found = Replay.of(kept.session, kept.files, entry, manifest, known)
            if isinstance(found, str):
                raise StoreError(found, next_step="try again")
            self.report(BackfillProgress(self.names, f"reading {found.amount} of {entry.name} again"))
            rows = found.rows(kept, self._replayed_up_to)
            known |= set(found.parts)
            if rows is not None:
                trace = TraceId("inbox", entry.name)
                written = write_rows(rows, trace, self.files, self._step)
                self._inbox[entry.name] = (*self._inbox.get(entry.name, ()), *written)
        self._replayed_up_to = manifest.step

    def _cuts(self, bound: int) -> Iterator[int]:
        """Yield the bounds of slices before the last one, so that each has a bounded number of rows."""
        runs = sorted((r for those in self._inbox.values() for r in those), key=lambda r: r.greatest_from)
        rows = 0
        for run in runs:
            rows += run.rows
            if rows >= _ROWS_A_SLICE and self.bound < run.greatest_from < bound:
                rows = 0
                yield run.greatest_from

    def _evaluate(self, manifest: Manifest, bound: int, last: bool) -> None:
        store = self.writer.store
        if bound <= self.bound and not last:
            return
        kept = self.writer.kept(manifest, self.views.catalog)
        inboxes = {TraceId("inbox", name): runs for name, runs in self._inbox.items()}
        replayed = Kept(kept.session, self.files, replace(manifest, traces=inboxes), self.views.catalog)
        slice_ = Slice(self.bound, bound, self.bound == BEFORE_ALL < bound, *manifest.clock_range)
        slices = StepSlices(slice_)
        if self.reads_events:
            slices = StepSlices(slice_, {}, line_bounds(manifest, self.views), manifest.finished)
        scans: dict[P.ScanOperator, DataFrame | None] = {}
        for scan in self._scans:
            source, own = replayed if scan.relation in self._inbox else kept, slices.of_operator(scan)
            if scan.source == "view":
                scans[scan] = (
                    kept.new_rows(scan, self.bound, bound) if not last else kept.later_rows(scan, self.bound)
                )
            elif scan.source == P.ARRIVALS:
                scans[scan] = source.earlier_arrivals(scan, own)
            else:
                scans[scan] = source.new_rows(scan, own.b0, own.b1)
                if scan.relation in self._inbox:
                    admitted = manifest.admitted(scan.relation)
                    scans[scan] = unite(scans[scan], kept.new_rows(scan, own.b0, own.b1, admitted))
        self._step += 1
        done = evaluate_slice(
            kept.session, self.files, store.settings.partitions, self._plans, scans, self.traces,
            self._step, slices, named=lambda operator: self._origin.get(operator, operator).name,
        )  # fmt: skip
        self.traces = {**self.traces, **done.traces}
        self.bound = bound
        if bound < manifest.bound:
            self.report(BackfillProgress(self.names, f"computed up to {instant_words(bound)}"))

    def runs_in_store(self) -> dict[TraceId, tuple[Run, ...]]:
        """Return all that it wrote, with paths below the root of the store."""
        return {
            trace: tuple(msgspec.structs.replace(r, path=f"{BACKFILL}/{self.token}/{r.path}") for r in runs)
            for trace, runs in self.traces.items()
        }

    def joined(self, before: Manifest) -> Manifest:
        """Return a manifest with the new views: their changes, and the state of operators of their own."""
        running = self.views.operator_names(without=self.names)
        mine = {
            trace: runs
            for trace, runs in self.runs_in_store().items()
            if trace.kind == "view" or trace.owner not in running
        }
        gone: dict[TraceId, tuple[Run, ...]] = {}
        for name in self.names:
            gone |= {TraceId("view", name): (), TraceId("complete", name): ()}
        own = (
            self.views.operator_names() - running
        )  # a replaced view may have left state of the same operator
        gone |= {trace: () for trace in before.of("state") if trace.owner in own}
        return before.with_traces({**gone, **mine})
