"""Rewind: a store is taken back to an instant, and what came after it is worked out anew.

    bounds             at most the instant; the store is not at its end any more
    streams            rows after the instant wait again: files are read again, as they are now, and records
                       of Kafka by the offsets that were read; inserted rows and rows that wait are kept in
                       the store; rows of other sources are lost
    late rows          after the instant are late no longer; those up to it stay late
    tables             keep their changes, at the instants for which they were given
    views              are computed anew up to the instant, as by a backfill, and go on from there with the
                       next run; up to it they answer as before

One manifest has all of it: until it is written the store is as before. Spark's log of the sources stays as it
is, as the files and offsets that it names were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as replace_run
from pyspark.sql import functions as F

from everview.algebra.time import Chronon, instant_words
from everview.catalog import Catalog, StreamEntry, TableEntry
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import StoreError, format_count
from everview.execute.catalyst import long_sql
from everview.execute.evaluate import scans_of
from everview.execute.event_bounds import without_later_marks
from everview.execute.failures import explained_failures
from everview.execute.pieces import pieces_of
from everview.execute.tasks import write_rows
from everview.ingest.bounds import advance_bounds
from everview.ingest.read_kafka import reads_kafka
from everview.ingest.reading import reads_files
from everview.ingest.replay import FilesRead, Replay, is_replayable
from everview.ingest.rewind import (
    StreamRewind,
    lowered_bounds,
    rows_after_the_end,
    rows_no_longer_late,
    visible_from,
    with_files_as_they_are,
)
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL
from everview.pipeline.backfill import BackfillProgress
from everview.pipeline.views import CatalogChange, doing_words, joined_manifest, plan_backfill, protect_files
from everview.pipeline.writer import StoreWriter
from everview.plan.views import next_name
from everview.query.rewind import RewindNotes
from everview.storage.history import horizons
from everview.storage.manifest import Manifest, Rewound
from everview.storage.plans import PlanReader
from everview.storage.runs import REPLACED, Run, TraceId

_REWOUND = 100  # which followers of changes are told of


@dataclass
class StoreRewind:
    """A rewind of a locked store: what it does is decided when it is made, and done by `carry_out`."""

    writer: StoreWriter
    catalog: Catalog
    to: Chronon
    reject_after: Chronon | None = None  # the instant up to which rows count at all
    report: Callable[[BackfillProgress], None] = lambda _: None
    notes: RewindNotes = field(default_factory=RewindNotes)
    before: Manifest = field(init=False)
    manifest: Manifest = field(init=False)  # with the fallen bounds
    _read: dict[str, FilesRead] = field(default_factory=dict)  # the files of streams that are read again
    _records: dict[str, Replay] = field(default_factory=dict)  # the records of Kafka that are read again
    _views: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.before = self.writer.store.manifest()
        if self.before.bound == BEFORE_ALL:
            raise StoreError(
                "the store has not run yet: there is nothing to take back", next_step="everview run FILE.sql"
            )
        if self.reject_after is not None and self.reject_after < self.to:
            raise StoreError(
                f"{instant_words(self.reject_after)}, after which rows are rejected, is before "
                f"{self._shown}, to where the store is taken back",
                next_step="give a later --reject-after, or an earlier --to",
            )
        self._find_files()
        self._find_records()
        self.manifest = self._with_fallen_bounds()
        self._views = tuple(self._names())
        if self.needed:
            self._note_bounds()
            self._note_streams()
            self._note_tables()
            self._note_views()

    @property
    def step(self) -> int:
        """The step that the rewind is."""
        return self.before.step + 1

    @property
    def needed(self) -> bool:
        """Whether there is anything to take back, or a changed file to read."""
        fallen = lowered_bounds(self.before, self.to)
        return self._changed() or fallen != self.before or any(map(self._rejects, self._streams))

    def _rejects(self, entry: StreamEntry) -> bool:
        """Return whether a stream has rows that are too late to count."""
        newest = self.before.newest.get(entry.name, {}).get(entry.timelines[0].column, BEFORE_ALL)
        return self.reject_after is not None and newest > self.reject_after

    @property
    def _falls(self) -> bool:
        return self.before.bound > self.to

    @property
    def _streams(self) -> list[StreamEntry]:
        return [entry for entry in self.catalog if isinstance(entry, StreamEntry)]

    def _changed(self) -> bool:
        return any(read.changed for read in self._read.values())

    def _find_files(self) -> None:
        """Find the files of streams that are read again: all if time goes back, else changed ones."""
        files = self.writer.store.files
        for entry in self._streams:
            if not reads_files(entry):
                continue
            found = FilesRead.of(self.writer.session, files, entry, self.before)
            if isinstance(found, str):
                self.notes.losses += [f"the rows of '{entry.name}' after {self._shown}: {found}"]
            elif self._falls or found.changed or self._rejects(entry):
                self._read[entry.name] = found

    def _find_records(self) -> None:
        """Find the records of Kafka that are read again, if all are there that were read."""
        for entry in self._streams:
            if not reads_kafka(entry) or not (self._falls or self._rejects(entry)):
                continue
            found = Replay.of(self.writer.session, self.writer.store.files, entry, self.before)
            if isinstance(found, str):
                self.notes.losses += [f"the rows of '{entry.name}' after {self._shown}: {found}"]
            else:
                self._records[entry.name] = found

    @property
    def _shown(self) -> str:
        return instant_words(self.to)

    def _with_fallen_bounds(self) -> Manifest:
        """Return the manifest at the instant, with the rows of before; next plans begin again."""
        before = self.before
        aside = {n: replace(a, bound=min(a.bound, self.to)) for n, a in before.aside.items()}
        kept = {} if self._falls else before.next
        hidden = {next_name(name).casefold() for name in before.next if name not in kept}
        gone: dict[TraceId, tuple[Run, ...]] = {t: () for t in before.of("view") if t.owner in hidden}
        fallen = replace(lowered_bounds(before, self.to), aside=aside, next=kept, heard={})
        changed = {name: read for name, read in self._read.items() if read.changed}
        return with_files_as_they_are(fallen.with_traces(gone), changed, self.step)

    def _compiled(self) -> CompiledStore:
        """Return the views with the plans that their state belongs to."""
        manifest = self.manifest
        stored = StoredViews(
            manifest.plans, manifest.next, manifest.aside, PlanReader(self.writer.store.files)
        )
        strategy = self.writer.store.settings.strategy
        return compile_store(self.catalog, manifest.starts, None, stored, strategy=strategy)

    def _names(self) -> Iterator[str]:
        """Yield the views to be computed: all if time goes back, else those that read changed files."""
        changed = {name for name, read in self._read.items() if read.changed}
        for name, plan in self._compiled().plans.items():
            if self._falls or any(scan.relation in changed for scan in scans_of([plan])):
                yield name

    # What is said before anything is done

    def _note_bounds(self) -> None:
        before, notes = self.before, self.notes
        if before.finished:
            notes.actions.append(f"the store is not at its end any more, and known to {self._shown}")
        elif self._falls:
            notes.actions.append(
                f"the watermark goes back from {instant_words(before.bound)} to {self._shown}"
            )
        for entry in self._streams:
            own = before.bounds.get(entry.name, {}).get(entry.timelines[0].column, BEFORE_ALL)
            if own > self.to and not self._falls:
                notes.actions.append(f"'{entry.name}' goes back from {instant_words(own)} to {self._shown}")

    def _note_streams(self) -> None:
        kept = self.writer.kept(self.manifest, self.catalog)
        for entry in self._streams:
            read = self._read.get(entry.name)
            for path, _ in () if read is None else read.changed.values():
                self.notes.actions.append(
                    f"{path}, which was changed since '{entry.name}' read it, is read anew"
                )
            for uri in () if read is None else read.gone:
                self.notes.losses.append(
                    f"the rows of '{entry.name}' after {self._shown} from {uri}, which is gone: put it back, "
                    "without the rows that are wrong, and it is read anew"
                )
            newest = self.before.newest.get(entry.name, {}).get(entry.timelines[0].column, BEFORE_ALL)
            unread = entry.source is not None and not is_replayable(entry)
            if unread and self._falls and newest > self.to:
                assert entry.source is not None
                self.notes.losses.append(
                    f"the rows of '{entry.name}' after {self._shown} that do not wait: what the source "
                    f"{entry.source.format} has sent cannot be read again"
                )
            if self._rejects(entry):
                assert self.reject_after is not None
                upto = instant_words(self.reject_after)
                self.notes.actions.append(f"the rows of '{entry.name}' after {upto} are rejected")
            late = rows_no_longer_late(kept, entry)
            number = 0 if late is None else late.count()
            if number:
                verb = "is" if number == 1 else "are"
                self.notes.actions.append(
                    f"{format_count(number, 'late row')} of '{entry.name}' {verb} taken in"
                )

    def _note_tables(self) -> None:
        kept = self.writer.kept(self.manifest, self.catalog)
        for entry in self.catalog:
            if isinstance(entry, TableEntry):
                runs = self.before.runs(TraceId("inbox", entry.name))
                last = max((run.greatest_from for run in runs), default=BEFORE_ALL)
                if self._falls and last > self.to:
                    self.notes.remarks.append(
                        f"the table '{entry.name}' keeps its changes for instants after {self._shown}, "
                        f"up to {instant_words(last)}: each holds when time comes there"
                    )
                number = rows_after_the_end(kept, entry) if self.before.finished else 0
                if number:
                    self.notes.remarks.append(
                        f"{format_count(number, 'row')} of the table '{entry.name}' came after the end and "
                        f"stay in {entry.name}$rejected: put them into a new file"
                    )

    def _note_views(self) -> None:
        if not self._views:
            return
        plan = plan_backfill(self.writer, self._change(), self._views, self.manifest, self.report)
        whole = [name for name in self._views if name not in plan.incomplete]
        if whole:
            names = ", ".join(f"'{name}'" for name in whole)
            views = "the views" if len(whole) > 1 else "the view"
            verb = "are" if len(whole) > 1 else "is"
            upto = instant_words(self.manifest.bound)
            self.notes.actions.append(f"{views} {names} {verb} computed anew, up to {upto}")
        for name, why in plan.incomplete.items():
            since = instant_words(plan.starts[name].since)
            self.notes.losses.append(f"the view '{name}' before {since}, where it begins: {why}")
        for name, found in self.manifest.aside.items():
            self.notes.remarks.append(
                f"the {self.catalog.get(name).kind} '{name}' stays set aside: mend that, and "
                f"{found.resume_sql}"
            )

    def _change(self) -> CatalogChange:
        return CatalogChange(self.catalog, self._compiled())

    # What is done

    def carry_out(self) -> Manifest:
        """Take the store back; return its manifest."""
        with self.writer.one_at_a_time, explained_failures(self._streams):
            after = self._with_rows()
            after = self._with_views(after) if self._views else replace(after, step=self.step)
            after = self._with_marks(after.with_traces(pieces_of(after)))
            self.writer.commit_step(self.before, after)
            return after

    def _with_rows(self) -> Manifest:
        """Return the manifest with the rows of streams as they are at the instant."""
        manifest = self.manifest
        for entry in self._streams:
            kept, read = self.writer.kept(manifest, self.catalog), self._read.get(entry.name)
            rejecting = self.reject_after if self._rejects(entry) else None
            records = self._records.get(entry.name)
            work = StreamRewind(kept, entry, self.step, self.writer.now(), self.to, read, records, rejecting)
            manifest = work.manifest()
            if read is not None or records is not None:  # event queries get them with all others
                trace, seen = TraceId("inbox", entry.name), manifest.seen_by_events
                runs = tuple(replace_run(run, step=seen) for run in manifest.runs(trace))
                manifest = manifest.with_traces({trace: runs})
        for fed in self.catalog:
            if isinstance(fed, (StreamEntry, TableEntry)):
                manifest = visible_from(self.writer.kept(manifest, self.catalog), fed, self.step)
        manifest = self._with_earlier_definitions(manifest)
        newest = [
            manifest.newest.get(entry.name, {}).get(entry.timelines[0].column, BEFORE_ALL)
            for entry in self._streams
        ]
        present = min(self.before.present, max([manifest.bound, *newest]))
        return replace(manifest, present=present, start=self._start(manifest))

    def _start(self, manifest: Manifest) -> int | None:
        """Return the least timestamp of the first slice: earlier if no row is known any more."""
        start = self.before.start
        if start is None or start <= manifest.bound:
            return start
        inboxes = (manifest.runs(TraceId("inbox", entry.name)) for entry in self._streams)
        return min((run.least_from for runs in inboxes for run in runs), default=start)

    def _with_earlier_definitions(self, manifest: Manifest) -> Manifest:
        """Return the manifest with views that were replaced after the instant: so they are after it.

        Where the history of a view begins later, nothing is known of its earlier definition.
        """
        plans, end = self._compiled().views, self.to + 1
        ended = horizons(self.before, self.catalog)
        for name, found in manifest.replaced.items():
            if found.anew or name not in plans:
                continue
            trace = TraceId("view", name, REPLACED)
            if self._falls and ended.get(trace, BEFORE_ALL) > self.to:
                replaced = {**manifest.replaced, name: replace(found, anew=True)}
                manifest = replace(manifest.with_traces({trace: ()}), replaced=replaced)
                continue
            if found.at <= end:
                continue
            rows = self.writer.kept(manifest, self.catalog).read(
                manifest.runs(trace), plans[name].physical.types
            )
            cut = rows.where(f"{FROM} < {long_sql(end)}").withColumn(
                UNTIL, F.expr(f"least({UNTIL}, {long_sql(end)})")
            )
            runs = write_rows(cut, trace, self.writer.store.files, self.step)
            replaced = {**manifest.replaced, name: replace(found, at=end)}
            manifest = replace(manifest.with_traces({trace: runs}), replaced=replaced)
        return manifest

    def _with_views(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the views computed anew."""
        change, names = self._change(), self._views
        plan = plan_backfill(self.writer, change, names, manifest, self.report)
        with (
            protect_files(self.writer, plan.backfill, manifest),
            explained_failures(doing=doing_words(names)),
        ):
            plan.backfill.advance(manifest, last=True)
            return joined_manifest(self.writer, change, plan, manifest)

    def _with_marks(self, manifest: Manifest) -> Manifest:
        """Return the manifest with what followers of changes must know.

        Changed files may have changed everything.
        """
        void = [step for step, bound in self.before.marks if bound > self.to]
        done = Rewound(self.step, self.to, 0 if self._changed() else min(void, default=self.step))
        marks = (*manifest.marks, (self.step, manifest.bound))
        manifest = without_later_marks(manifest)
        return replace(manifest, marks=marks, rewound=(*self.before.rewound[-_REWOUND:], done))

    def next_bound(self, after: Manifest) -> Chronon:
        """Return up to where the rows that are there take the next run."""
        return advance_bounds(self._streams, after, now=self.writer.now()).bound
