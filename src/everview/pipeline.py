"""The running pipeline of a store: it takes in rows, and its steps advance the bound.

A store has one bound for all its views. Rows that are inserted go into the inbox of their stream; sources
are read by Structured Streaming, one query for all of them, one batch a step. A step moves the bound as far
as the streams allow and evaluates the slice; after it, every view is the exact answer over the inputs up to
the bound.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everview.algebra.time import LEAST, Chronon
from everview.catalog import Catalog, Entry, StreamEntry, TableEntry, ViewEntry
from everview.compile import CompiledStore, compile_store
from everview.errors import StoreError, format_count
from everview.execute.evaluable import require_evaluable
from everview.execute.evaluate import without_fsync
from everview.execute.failures import SPARK_FAILURES, explained_failures, failure
from everview.execute.housekeeping import forget
from everview.execute.kept import Kept
from everview.execute.session import LOCAL, local_session, prepared, stop_session
from everview.execute.slices import MARKS, first_instant, first_slice, next_slice, source_lanes
from everview.execute.tasks import write_rows
from everview.ingest.batch_files import files_with_wildcards
from everview.ingest.bounds import advance_bounds, record_arrivals
from everview.ingest.changed_files import changed_files
from everview.ingest.differences import report_differences
from everview.ingest.inserts import table_rows
from everview.ingest.intake import IntakeResult, take_in
from everview.ingest.late import split_late
from everview.ingest.scheduled import changes_after
from everview.ingest.sources import Sources
from everview.ingest.tables import Assignments, carry_out, change_of, require_key, rows_after
from everview.operators.columnar.frame import BEFORE_ALL
from everview.query.questions import StoreSnapshot, require_view
from everview.sql.ad_hoc import Query
from everview.sql.statements import Selection
from everview.storage.arrivals import Arrived
from everview.storage.arrivals import Progress as Progress
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId, bring_to_disk
from everview.storage.store import CHECKPOINT, Settings, Store
from everview.storage.trace import Trace

_INTERVAL = re.compile(
    r"\s*(?:interval\s+)?(?:\d+\s+(?:microsecond|millisecond|second|minute|hour|day|week)s?\s*)+", re.I
)
_CLEAN_EVERY = 10  # steps
_LOOK_EVERY = 60.0  # seconds between two checks of files that were read
_LOOK_SHARE = 0.02  # the checks take at most this part of the time


class Pipeline:
    """A store with its views, on a Spark session that is created when it is first needed."""

    def __init__(self, store: Store, session: SparkSession | None = None) -> None:
        self.store = store
        self.now: Callable[[], int] = lambda: time.time_ns() // 1000
        self._given = session
        self._session: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self._background: CompiledStore | None = None
        self._failure: Exception | None = None
        self.last_failure: Exception | None = None  # of the background steps, until they are started again
        self._stopping = False
        self._look_at = 0.0  # when files that were read are checked again
        self._one_at_a_time = threading.RLock()

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            self._session = local_session() if self._given is None else prepared(self._given)
            for name, value in (LOCAL if self.store.files.local else {}).items():
                self._session.conf.set(name, value)
        return self._session

    def close(self) -> None:
        """Close the store; stop the Spark session if this object created it."""
        try:
            self.stop()
        finally:
            self.store.close()
            if self._given is None and self._session is not None:
                stop_session(self._session)
                self._session = None

    @property
    def running(self) -> bool:
        """Whether steps run in the background."""
        return self._query is not None

    def store_snapshot(self, views: CompiledStore) -> StoreSnapshot:
        """Return the present state of the store, to answer queries from."""
        kept = Kept(self.session, self.store.files, self.store.manifest(), views.catalog)
        return StoreSnapshot(kept, views, self.store.settings.partitions)

    def answer(self, views: CompiledStore, query: Query) -> DataFrame:
        """Return the answer of a query; errors of a part that is computed at once are explained."""
        with explained_failures(views.fed):
            return self.store_snapshot(views).answer(query)

    def changes(self, views: CompiledStore, view: str, encoding: str, since: int | None) -> DataFrame:
        """Return the changes of a view, after a step if one is given."""
        snapshot = self.store_snapshot(views)
        name = require_view(views.catalog, view).name
        marks = dict(snapshot.kept.manifest.marks)
        if since is None or not marks or since < min(marks):
            after = BEFORE_ALL
        else:
            after = max(bound for step, bound in marks.items() if step <= since)
        if since is not None and len(marks) >= MARKS and since < min(marks):
            raise StoreError(
                f"where step {since} ended is not known any more",
                next_step=f"go on after a step from {min(marks)} on, or read all changes",
            )
        with explained_failures(views.fed):
            return snapshot.changes(name, encoding, after)

    # Inserted rows

    def take_in(
        self, entry: Entry, rows: object, at: Chronon | None = None, lossless: bool = True
    ) -> Arrived:
        """Write rows into the inbox of a stream or a table; late rows go to stream$late.

        A Spark frame whose types fit is cast; with `lossless`, a value that the cast would change is refused.
        """
        target = _fed_by_hand(entry)
        if isinstance(rows, DataFrame):
            return self._take_in_frame(target, rows, at, lossless)
        with self._one_at_a_time:
            before = self.store.manifest()
            step = before.step + 1
            frame = table_rows(
                rows, target, self._change_begin(before, at) if isinstance(target, TableEntry) else None
            )
            good, late, arrived = split_late(frame, target, before, step)
            parts = {TraceId("inbox", target.name): good}
            parts |= {} if late is None else {TraceId("late", target.name): late}
            traces = {
                trace: Trace(trace, before.runs(trace), self.store.files).append(part, step).runs
                for trace, part in parts.items()
            }
            self._finish_intake(target, before, step, arrived, traces, at)
            return arrived

    def _take_in_frame(
        self, target: StreamEntry | TableEntry, rows: DataFrame, at: Chronon | None, lossless: bool
    ) -> Arrived:
        """Do the same for a Spark frame, whose rows are not collected on the driver."""
        with explained_failures(doing=f"rows for '{target.name}' cannot be taken"), self._one_at_a_time:
            before = self.store.manifest()
            step = before.step + 1
            begin = LEAST if isinstance(target, StreamEntry) else self._change_begin(before, at)
            sources = Sources.of_frame(rows, target, lossless)
            taken = self._write_batch(sources, sources.frame, before, begin, self.now())
            arrived = taken.arrived[target.name]
            if arrived.rejected:
                raise StoreError(
                    f"{format_count(arrived.rejected, 'row')} for '{target.name}' "
                    f"cannot be taken: {taken.reason}",
                    next_step="leave such rows out, or mend them",
                )
            traces = {trace: (*before.runs(trace), *runs) for trace, runs in taken.traces.items()}
            self._finish_intake(target, before, step, arrived, traces, at)
            return arrived

    def fill_table(self, entry: TableEntry, rows: DataFrame) -> None:
        """Write the first rows of a table; remove what an interrupted attempt has left."""
        with self._one_at_a_time:
            before, trace = self.store.manifest(), TraceId("inbox", entry.name)
            if before.runs(trace):
                self.store.write_manifest(replace(before.with_traces({trace: ()}), step=before.step + 1))
            self._take_in_frame(entry, rows, None, lossless=False)

    def _write_batch(
        self, sources: Sources, frame: DataFrame, before: Manifest, begin: int, now: int
    ) -> IntakeResult:
        """Write the rows of a batch into the store; return their numbers and their runs."""
        files, partitions = without_fsync(self.store.files), self.store.settings.partitions
        return take_in(sources, frame, before, begin, before.step + 1, files, partitions, now)

    def _finish_intake(
        self,
        target: StreamEntry | TableEntry,
        before: Manifest,
        step: int,
        arrived: Arrived,
        traces: Mapping[TraceId, tuple[Run, ...]],
        at: Chronon | None,
    ) -> None:
        trace = TraceId("inbox", target.name)
        new = traces.get(trace, ())[len(before.runs(trace)) :]
        if isinstance(target, TableEntry) and new:
            begin = self._change_begin(before, at)
            later = changes_after(before, target, begin)
            if later or target.key:
                kept = self._kept(before, Catalog({target.name.casefold(): target}))
                if later:
                    followed = rows_after(kept, target, kept.read(new, target.columns.types), later)
                    new = write_rows(followed, trace, kept.files, step)
                    traces = {**traces, trace: (*before.runs(trace), *new)}
                require_key(kept, target, new, begin)
        known = record_arrivals(before, {target.name: arrived}, self.now())
        self._commit_step(before, replace(known.with_traces(traces), step=step))

    def _commit_step(self, before: Manifest, after: Manifest) -> None:
        """Commit a step: sync all its files to the disk, then write the manifest that names them."""
        bring_to_disk(self.store.files, before.traces, after.traces)
        self.store.write_manifest(after)

    def _change_begin(self, manifest: Manifest, at: Chronon | None) -> Chronon:
        """Return the instant from which a change of a table holds: AT, or just after the bound."""
        if manifest.finished:
            raise StoreError(
                "nothing can change any more: the store was run to its end",
                next_step="make another store; to go on later, run without finish",
            )
        if at is None:
            return manifest.bound + 1
        if at <= manifest.bound:
            raise StoreError("a table can only change after the bound", next_step="give a later AT, or none")
        return at

    def change_table(
        self,
        views: CompiledStore,
        entry: TableEntry,
        rows: Selection,
        assignments: Assignments | None,
        at: Chronon | None,
    ) -> int:
        """Execute an UPDATE, or a DELETE if there are no assignments; return how many rows it changes."""
        with explained_failures(doing=f"'{entry.name}' cannot be changed"), self._one_at_a_time:
            before = self.store.manifest()
            step, begin = before.step + 1, self._change_begin(before, at)
            change = change_of(entry, rows, assignments, begin, step)
            done = carry_out(
                self._kept(before, views.catalog), self.store_snapshot(views).relation, entry, change, rows
            )
            after = replace(before.with_traces(done.traces), step=step, scheduled=done.scheduled)
            self._commit_step(before, after)
            return done.rows

    def _kept(self, manifest: Manifest, catalog: Catalog) -> Kept:
        return Kept(self.session, self.store.files, manifest, catalog)

    # New and dropped names

    def begin_stream(self, entry: StreamEntry) -> None:
        """Begin a stream in a store that has already run: its rows count from the bound on."""
        with self._one_at_a_time:
            before = self.store.manifest()
            if before.bound > BEFORE_ALL:
                own = {line.column: before.bound for line in entry.timelines[:1]}
                bounds = {**before.bounds, entry.name: own}
                self.store.write_manifest(replace(before, step=before.step + 1, bounds=bounds))

    def begin_view(self, entry: ViewEntry, catalog: Catalog) -> None:
        """Begin a view in a store that has already run: backfill it up to the bound from retained rows."""
        with self._one_at_a_time:
            before = self.store.manifest()
            begun = {entry.name: first_instant(before)} if before.bound > BEFORE_ALL else {}
            views = compile_store(catalog, {**before.since, **begun})
            if before.bound > BEFORE_ALL or self._given is not None or self._session is not None:
                require_evaluable(self.session, [entry], views.plans)
            if before.bound > BEFORE_ALL:
                with explained_failures(doing=f"the view '{entry.name}' cannot be computed"):
                    self._commit_step(
                        before, first_slice(self.session, self.store, views, before, entry.name)
                    )

    def forget_names(self, views: CompiledStore) -> None:
        """Remove the traces of names that were dropped."""
        with self._one_at_a_time:
            before = self.store.manifest()
            parts: dict[str, Any] = {
                part: {
                    n: v for n, v in getattr(before, part).items() if n.casefold() in views.catalog.entries
                }
                for part in ("since", "bounds", "newest", "heard", "counts", "changed", "scheduled", "told")
            }
            after = replace(before, step=before.step + 1, **parts)
            self.store.write_manifest(forget(after, views.catalog, views.operator_names()))

    # Steps

    def run(
        self, views: CompiledStore, finish: bool = False, progress: Callable[[Progress], None] | None = None
    ) -> list[Progress]:
        """Take in all available rows and advance the bound; with `finish` to the end of time."""
        self._require_still("run")
        self._require_evaluable(views)
        steps: list[Progress] = []

        def told(step: Progress) -> None:
            steps.append(step)
            if progress is not None:
                progress(step)

        if views.fed:
            with explained_failures(views.fed):
                query = self._stream(views, told)
            self._wait(query, views)
        self.last_failure = None
        if finish or not steps:
            with explained_failures(views.fed):
                self._step(views, None, None, finish, told)
        self._clean()
        return steps

    def start(
        self,
        views: CompiledStore,
        interval: str = "1 second",
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Run steps in the background: one whenever rows have arrived, and at least one a second."""
        self._require_still("start")
        if not _INTERVAL.fullmatch(interval):
            raise StoreError(f"{interval!r} is no interval", next_step="give one like '1 second'")
        self._require_evaluable(views)
        self._background = views
        with explained_failures(views.fed):
            self._query = self._stream(views, progress or (lambda _: None), interval)
        self.last_failure = None

    def check(self) -> None:
        """Raise the error that ended the background steps, once."""
        found = self.failed()
        if found is not None:
            query, self._query, self._failure, self.last_failure = self._query, None, None, found
            with suppress(*SPARK_FAILURES):
                if query is not None:
                    query.stop()
            raise found

    def failed(self) -> Exception | None:
        """Return the error that ended the background steps since they were started, if any."""
        if self._query is None:
            return None
        ended: Exception | None = self._failure
        try:
            if ended is None and self._query.isActive:
                return None
            ended = ended or self._query.exception()
        except SPARK_FAILURES as error:
            ended = error
        if ended is None:
            return StoreError("the steps in the background have ended", next_step="start() them again")
        spark = isinstance(ended, SPARK_FAILURES)
        return failure(ended, [] if self._background is None else self._background.fed) if spark else ended

    def stop(self) -> None:
        """Stop the background steps, after the current step."""
        self.check()
        query, self._query = self._query, None
        if query is None or self._background is None:
            return
        with self._one_at_a_time:  # wait for the current step; no other begins after it
            self._stopping = True
        with explained_failures(self._background.fed):
            query.stop()
        self._raise_failure(self._background)
        self._clean()

    def _clean(self) -> None:
        with self._one_at_a_time:  # no manifest names the files that a step is writing
            self.store.clean()

    def wait(self) -> None:
        """Wait while steps run in the background; raise the error that ended them."""
        if self._query is not None:
            with suppress(*SPARK_FAILURES):
                self._query.awaitTermination()
            self.check()

    def _require_still(self, what: str) -> None:
        if self._query is not None:
            raise StoreError(
                f"steps go on in the background, so {what}() is not possible", next_step="stop() first"
            )

    def _require_evaluable(self, views: CompiledStore) -> None:
        """Check the views before the first step: they may have been created without a Spark session."""
        before = self.store.manifest()
        entries = [entry for entry in views.catalog if isinstance(entry, ViewEntry)]
        if entries and before.bound == BEFORE_ALL:
            require_evaluable(self.session, entries, views.plans)

    def _stream(
        self,
        views: CompiledStore,
        told: Callable[[Progress], None],
        interval: str | None = None,
    ) -> StreamingQuery:
        """Start one streaming query over all sources; without an interval, over the available rows only."""
        lanes = source_lanes(views, self.store.manifest(), self.store.settings.partitions)
        sources = Sources.open(self.session, views.fed, lanes, heartbeat=interval is not None)
        self._failure, self._stopping, self._look_at = None, False, 0.0

        def step(frame: DataFrame, batch: int) -> None:
            with self._one_at_a_time:
                if self._stopping:
                    raise InterruptedError("the pipeline is being stopped")  # the batch is not committed
                try:
                    found = files_with_wildcards(self.store.files.below(CHECKPOINT), views.fed, batch)
                    self._step(views, (sources.with_files(frame, found), sources), batch, False, told)
                except Exception as error:
                    self._failure = error
                    raise

        writer = sources.frame.writeStream.foreachBatch(step)
        writer = writer.option("checkpointLocation", self.store.checkpoint)
        timed = (
            writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)
        )
        return timed.start()

    def _with_changed_files(
        self, views: CompiledStore, before: Manifest, taken: IntakeResult
    ) -> IntakeResult:
        """Report files that changed after they were read; check when a run begins, and from time to time."""
        started = time.monotonic()
        if started < self._look_at or not views.fed:
            return taken
        checkpoint = self.store.files.below(CHECKPOINT)
        found = changed_files(checkpoint, views.fed, before.batch, before.changed)
        seconds = time.monotonic() - started
        self._look_at = started + max(_LOOK_EVERY, seconds / _LOOK_SHARE)
        return taken.with_changed_files(found, before, without_fsync(self.store.files))

    def _wait(self, query: StreamingQuery, views: CompiledStore) -> None:
        try:
            query.awaitTermination()
        except SPARK_FAILURES as error:
            self._raise_failure(views)
            raise failure(error, views.fed) from error
        except BaseException:
            query.stop()
            raise

    def _raise_failure(self, views: CompiledStore) -> None:
        """Raise the error of a background step; a fault of Everview stays a fault."""
        error, self._failure = self._failure, None
        if isinstance(error, SPARK_FAILURES):
            raise failure(error, views.fed) from error
        if error is not None:
            raise error

    def _step(
        self,
        views: CompiledStore,
        came: tuple[DataFrame, Sources] | None,
        number: int | None,
        finish: bool,
        told: Callable[[Progress], None],
    ) -> None:
        """Run one step: take in the batch, advance the bound, evaluate the slice, write the manifest.

        Spark repeats a batch if it does not know that its step was committed; the repetition is ignored.
        """
        with self._one_at_a_time:
            started, now = time.perf_counter(), self.now()
            before = self.store.manifest()
            if number is not None and before.batch is not None and number <= before.batch:
                return
            taken = IntakeResult({}, {})
            if came is not None and came[1].entries:
                taken = self._write_batch(came[1], came[0], before, before.bound + 1, now)
            taken = self._with_changed_files(views, before, taken)
            arrived = taken.arrived
            new = {trace: (*before.runs(trace), *runs) for trace, runs in taken.traces.items()}
            moved = advance_bounds(views.streams, before.with_traces(new), arrived, finish=finish, now=now)
            if number is not None and moved == before and not any(arrived.values()):
                return  # a heartbeat batch without rows
            moved = replace(moved, changed=taken.changed or before.changed)
            session = self.session if came is None else came[0].sparkSession
            after, changes = next_slice(session, self.store, views, before, moved)
            after = replace(after, batch=before.batch if number is None else number)
            if number is not None:
                self.store.sync_checkpoint(number)
            found = None if came is None else came[1].differences
            messages, told_columns = report_differences(() if found is None else found.value, before.told)
            self._commit_step(before, replace(after, told=told_columns))
            for message in messages:
                warnings.warn(message, stacklevel=2)
            if after.step % _CLEAN_EVERY == 0:
                self.store.clean()
            state = sum(r.rows for runs in after.of("state").values() for r in runs)
            rows = sum(a.rows for a in arrived.values())
            seconds = time.perf_counter() - started
            told(Progress(after.step, rows, after.bound, after.present, seconds, state, arrived, changes))


def _fed_by_hand(entry: Entry) -> StreamEntry | TableEntry:
    if isinstance(entry, (StreamEntry, TableEntry)) and entry.source is None:
        return entry
    raise StoreError(f"rows go into a stream or a table without FROM, and '{entry.name}' is none")


def open_pipeline(path: str, session: SparkSession | None = None, partitions: int | None = None) -> Pipeline:
    """Open the pipeline of the store at a path, or create the store."""
    settings = None if partitions is None else Settings(partitions)
    return Pipeline(Store.open(path, settings, create=True), session)
