"""The streaming query of a store: Spark reads all sources and calls a step for each batch."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everview.compile_store import CompiledStore
from everview.errors import StoreError
from everview.execute.failures import SPARK_FAILURES, explained_failures, failure, may_be_of_a_view
from everview.execute.slices import source_lanes
from everview.ingest.batch_files import files_with_wildcards
from everview.ingest.read_kafka import note_topics
from everview.ingest.sources import Sources
from everview.pipeline.steps import Batch, StepRunner
from everview.pipeline.writer import StoreWriter
from everview.storage.arrivals import Progress
from everview.storage.checkpoint import CHECKPOINT, clear_first_batch, require_agreement

_INTERVAL = re.compile(
    r"\s*(?:interval\s+)?(?:\d+\s+(?:microsecond|millisecond|second|minute|hour|day|week)s?\s*)+", re.I
)


def require_interval(interval: str) -> None:
    """Raise an error if a text is not an interval between two steps."""
    if not _INTERVAL.fullmatch(interval):
        raise StoreError(f"{interval!r} is no interval", next_step="give one like '1 second'")


class SourceQuery:
    """One streaming query over all sources: over the available rows only, or with an interval for ever.

    An error of a step is kept: what Spark raises for it says less. When a step changes the views that run,
    the query is ended and started again: how rows are read depends on the views. After an error in the job
    that takes rows in, which also evaluates the first expressions of the views, the batch is taken in once
    more without these: if a view was the reason, its own evaluation fails, and it is set aside.
    """

    def __init__(
        self,
        writer: StoreWriter,
        steps: StepRunner,
        views: CompiledStore,
        report: Callable[[Progress], None],
        interval: str | None = None,
    ) -> None:
        self.views, self.report, self.interval = views, report, interval
        self._writer, self._steps = writer, steps
        self._error: Exception | None = None
        self._stopping = False
        self._next_views: CompiledStore | None = None
        self._without_lanes = False
        self._restarts = threading.Lock()
        with self._restarts, explained_failures(views.sourced_entries):
            self._query = self._start()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        if interval is not None:
            self._supervisor.start()

    def _start(self) -> StreamingQuery:
        writer, steps, views, interval = self._writer, self._steps, self.views, self.interval
        store = writer.store
        require_agreement(store.files, store.manifest())
        clear_first_batch(store.files)
        lanes = source_lanes(views, store.manifest(), store.settings.partitions)
        plain = self._without_lanes
        if plain:
            lanes = ()
        sources = Sources.open(writer.session, views.sourced_entries, lanes, heartbeat=interval is not None)
        for note in note_topics(writer.session, store.files.below(CHECKPOINT), views.sourced_entries):
            warnings.warn(note, stacklevel=2)
        steps.begin_run()

        def run_batch(frame: DataFrame, number: int) -> None:
            with writer.one_at_a_time:
                if self._stopping or self._next_views is not None:
                    raise InterruptedError("the pipeline is being stopped")  # the batch is not committed
                try:
                    found = files_with_wildcards(store.files.below(CHECKPOINT), views.sourced_entries, number)
                    batch = Batch(number, sources.with_files(frame, found), sources)
                    others = steps.run_step(views, batch, False, self.report)
                    self._next_views, self._without_lanes = others or (views if plain else None), False
                    if self._next_views is not None:
                        threading.Thread(target=self._end, daemon=True).start()
                except Exception as error:
                    if lanes and may_be_of_a_view(error):
                        self._next_views, self._without_lanes = views, True
                    else:
                        self._error = error
                    raise

        stream = sources.frame.writeStream.foreachBatch(run_batch)
        stream = stream.option("checkpointLocation", store.checkpoint)
        if interval is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=interval).start()

    def _end(self) -> None:
        """End the query after a step from which on other views run."""
        with self._restarts:
            if self._next_views is not None:
                self._query.stop()

    def finish(self) -> CompiledStore:
        """Wait until all available rows were taken in; return the views with which steps go on.

        Raise the error that ended it.
        """
        while True:
            try:
                self._query.awaitTermination()
            except SPARK_FAILURES as error:
                if self._next_views is None:
                    self._raise_error()
                    raise failure(error, self.views.sourced_entries) from error
            except BaseException:
                self._query.stop()
                raise
            if not self._started_again():
                return self.views

    def _supervise(self) -> None:
        """Wait until the query ends; start it again as long as it ended because other views run."""
        while True:
            with suppress(*SPARK_FAILURES):
                self._query.awaitTermination()
            try:
                if not self._started_again():
                    return
            except Exception as error:
                self._error = error
                return

    def _started_again(self) -> bool:
        """Start the query again if it ended because other views run; return whether it did."""
        with self._restarts:
            if self._next_views is None or self._stopping:
                return False
            self.views, self._next_views = self._next_views, None
            with explained_failures(self.views.sourced_entries):
                self._query = self._start()
            return True

    def wait(self) -> None:
        """Wait until the steps in the background end, for whatever reason."""
        self._supervisor.join()

    def failed(self) -> Exception | None:
        """Return the error that ended the query, if it has ended."""
        ended: Exception | None = self._error
        try:
            if ended is None and (self._query.isActive or self._supervisor.is_alive()):
                return None
            ended = ended or self._query.exception()
        except SPARK_FAILURES as error:
            ended = error
        if ended is None:
            return StoreError("the steps in the background have ended", next_step="start() them again")
        return failure(ended, self.views.sourced_entries) if isinstance(ended, SPARK_FAILURES) else ended

    def stop(self) -> None:
        """Stop after the current step; raise the error of that step."""
        with self._writer.one_at_a_time:  # wait for the current step; no other begins after it
            self._stopping = True
        with self._restarts, explained_failures(self.views.sourced_entries):
            self._query.stop()
        self._supervisor.join()
        self._raise_error()

    def abandon(self) -> None:
        """Stop a query that has failed."""
        with suppress(*SPARK_FAILURES):
            self._query.stop()

    def _raise_error(self) -> None:
        """Raise the error of a step; a fault of Everview stays a fault."""
        error, self._error = self._error, None
        if isinstance(error, SPARK_FAILURES):
            raise failure(error, self.views.sourced_entries) from error
        if error is not None:
            raise error
