"""The streaming query of a store: Spark reads all sources and calls a step for each batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everview.compile import CompiledStore
from everview.errors import StoreError
from everview.execute.failures import SPARK_FAILURES, explained_failures, failure
from everview.execute.slices import source_lanes
from everview.ingest.batch_files import files_with_wildcards
from everview.ingest.sources import Sources
from everview.pipeline.steps import Batch, StepRunner
from everview.pipeline.writer import StoreWriter
from everview.storage.arrivals import Progress
from everview.storage.checkpoint import CHECKPOINT, require_agreement

_INTERVAL = re.compile(
    r"\s*(?:interval\s+)?(?:\d+\s+(?:microsecond|millisecond|second|minute|hour|day|week)s?\s*)+", re.I
)


def require_interval(interval: str) -> None:
    """Raise an error if a text is no interval between two steps."""
    if not _INTERVAL.fullmatch(interval):
        raise StoreError(f"{interval!r} is no interval", next_step="give one like '1 second'")


class SourceQuery:
    """One streaming query over all sources: over the available rows only, or with an interval for ever.

    An error of a step is kept: what Spark raises for it says less.
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
        self._writer = writer
        self._error: Exception | None = None
        self._stopping = False
        with explained_failures(views.sourced_entries):
            self._query = self._start(steps)

    def _start(self, steps: StepRunner) -> StreamingQuery:
        writer, views, interval = self._writer, self.views, self.interval
        store = writer.store
        require_agreement(store.files, store.manifest())
        lanes = source_lanes(views, store.manifest(), store.settings.partitions)
        sources = Sources.open(writer.session, views.sourced_entries, lanes, heartbeat=interval is not None)
        steps.begin_run()

        def run_batch(frame: DataFrame, number: int) -> None:
            with writer.one_at_a_time:
                if self._stopping:
                    raise InterruptedError("the pipeline is being stopped")  # the batch is not committed
                try:
                    found = files_with_wildcards(store.files.below(CHECKPOINT), views.sourced_entries, number)
                    batch = Batch(number, sources.with_files(frame, found), sources)
                    steps.run_step(views, batch, False, self.report)
                except Exception as error:
                    self._error = error
                    raise

        stream = sources.frame.writeStream.foreachBatch(run_batch)
        stream = stream.option("checkpointLocation", store.checkpoint)
        if interval is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=interval).start()

    def finish(self) -> None:
        """Wait until all available rows were taken in; raise the error that ended it."""
        try:
            self._query.awaitTermination()
        except SPARK_FAILURES as error:
            self._raise_error()
            raise failure(error, self.views.sourced_entries) from error
        except BaseException:
            self._query.stop()
            raise

    def wait(self) -> None:
        """Wait until the query ends, for whatever reason."""
        with suppress(*SPARK_FAILURES):
            self._query.awaitTermination()

    def failed(self) -> Exception | None:
        """Return the error that ended the query, if it has ended."""
        ended: Exception | None = self._error
        try:
            if ended is None and self._query.isActive:
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
        with explained_failures(self.views.sourced_entries):
            self._query.stop()
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
