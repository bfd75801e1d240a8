"""One step: take in a batch, advance the bound, evaluate the slice, write the manifest."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from everview.compile_store import CompiledStore
from everview.execute.evaluate import without_fsync
from everview.execute.failures import failure
from everview.execute.slices import next_slice
from everview.ingest.bounds import advance_bounds
from everview.ingest.changed_files import changed_files
from everview.ingest.differences import report_differences
from everview.ingest.intake import IntakeResult
from everview.ingest.sources import Sources
from everview.pipeline.migration import end_migrations
from everview.pipeline.writer import CLEAN_EVERY, StoreWriter
from everview.sinks.runner import SinkRunner
from everview.storage.arrivals import Progress
from everview.storage.checkpoint import CHECKPOINT, last_batch_read, read_progress
from everview.storage.manifest import Manifest

_LOOK_EVERY = 60.0  # seconds between two checks of files that were read
_LOOK_SHARE = 0.02  # the checks take at most this part of the time


@dataclass(frozen=True)
class Batch:
    """A batch of Spark: its number, its rows, and the sources that they come from."""

    number: int
    frame: DataFrame
    sources: Sources


class StepRunner:
    """Runs the steps of a store, one at a time."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._look_at = 0.0  # when files that were read are checked again
        self.sinks = SinkRunner(writer.store, lambda: writer.session)

    def begin_run(self) -> None:
        """Check the files that were read in the next step."""
        self._look_at = 0.0

    def run_step(
        self,
        views: CompiledStore,
        batch: Batch | None,
        finish: bool,
        report: Callable[[Progress], None],
    ) -> CompiledStore | None:
        """Run one step over a batch, or over inserted rows only.

        Return the views with which steps go on, if they are others from now on. Spark repeats a batch if it
        does not know that its step was committed; the repetition is ignored.
        """
        writer, store = self._writer, self._writer.store
        with writer.one_at_a_time:
            started, now = time.perf_counter(), writer.now()
            before = store.manifest()
            if batch is not None and before.batch is not None and batch.number <= before.batch:
                return None
            progress = before.progress if batch is None else read_progress(store.files, batch.number)
            if batch is not None and any(entry.stamped for entry in views.streams):
                now = store.clock_of_batch(batch.number, progress, now)
            taken = IntakeResult({}, {})
            if batch is not None and batch.sources.entries:
                taken = writer.write_batch(batch.sources, batch.frame, before, before.bound + 1, now)
            taken = self._with_changed_files(views, before, taken)
            arrived = taken.arrived
            new = {trace: (*before.runs(trace), *runs) for trace, runs in taken.traces.items()}
            moved = advance_bounds(views.streams, before.with_traces(new), arrived, finish=finish, now=now)
            nothing_came = moved == before and not any(arrived.values())
            if batch is not None and nothing_came and progress == before.progress:
                self.sinks.write_all(views)  # one that failed may be there again
                return None  # a heartbeat batch without rows
            moved = replace(moved, changed=taken.changed or before.changed)
            session = writer.session if batch is None else batch.frame.sparkSession
            done = next_slice(session, store, views, before, moved)
            after = done.manifest
            number = before.batch if batch is None else batch.number
            after = replace(after, batch=number, progress=progress)
            if batch is not None:
                store.sync_checkpoint(batch.number)
            found = None if batch is None else batch.sources.differences
            kinds = {entry.name: entry.kind for entry in views.sourced_entries}
            differences = () if found is None else found.value
            stamped = {entry.name: entry.stamped for entry in views.streams}
            messages, told_columns = report_differences(differences, before.told, kinds, stamped)
            writer.commit_step(before, replace(after, told=told_columns))
            for message in (*messages, *_aside_messages(before, after)):
                warnings.warn(message, stacklevel=2)
            self.sinks.write_all(done.views)
            if after.step % CLEAN_EVERY == 0:
                store.clean()
            state = sum({r.path: r.rows for runs in after.of("state").values() for r in runs}.values())
            rows = sum(a.rows for a in arrived.values())
            seconds = time.perf_counter() - started
            report(
                Progress(after.step, rows, after.bound, after.present, seconds, state, arrived, done.changes)
            )
            return self._taken_over(done.views) or (None if done.views is views else done.views)

    def _taken_over(self, views: CompiledStore) -> CompiledStore | None:
        """Let new plans take over that can; if that fails, the old ones go on until the next step."""
        try:
            return end_migrations(self._writer, views)
        except Exception as error:
            warnings.warn(f"a new plan could not take over yet: {failure(error)}", stacklevel=2)
            return None

    def _with_changed_files(
        self, views: CompiledStore, before: Manifest, taken: IntakeResult
    ) -> IntakeResult:
        """Report files that changed after they were read; check when a run begins, and from time to time."""
        started = time.monotonic()
        if started < self._look_at or not views.sourced_entries:
            return taken
        files = self._writer.store.files
        batch = last_batch_read(files, before)
        found = changed_files(files.below(CHECKPOINT), views.sourced_entries, batch, before.changed)
        seconds = time.monotonic() - started
        self._look_at = started + max(_LOOK_EVERY, seconds / _LOOK_SHARE)
        return taken.with_changed_files(found, before, without_fsync(files))


def _aside_messages(before: Manifest, after: Manifest) -> list[str]:
    """Return what to say of the views that a step has set aside."""
    return [
        f"the {found.kind} '{name}' was set aside, and the others go on: {found.error}; "
        f"once that is mended, {found.resume_sql}"
        for name, found in after.aside.items()
        if name not in before.aside and found.because_of == name
    ]
