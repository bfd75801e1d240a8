"""A store that this process writes: its Spark session, its lock between threads, and the end of a step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from everview.algebra.time import Chronon
from everview.catalog import Catalog
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import StoreError
from everview.execute.evaluate import without_fsync
from everview.execute.kept import Kept
from everview.execute.session import LOCAL, own_session, prepare_session, stop_session
from everview.ingest.intake import IntakeResult, take_in
from everview.ingest.sources import Sources
from everview.plan.statistics import Statistics
from everview.settings import SparkSettings
from everview.storage.manifest import Manifest
from everview.storage.plans import PlanReader
from everview.storage.runs import bring_to_disk
from everview.storage.statistics import measured_statistics
from everview.storage.store import Store

CLEAN_EVERY = 10  # steps after which files that are not needed any more are deleted

_POOL = "spark.scheduler.pool"


class StoreWriter:
    """A store and a Spark session, which is created when it is first needed.

    `one_at_a_time` is held while a step, an insert or a change of names is in progress.
    """

    def __init__(self, store: Store, session: SparkSession | SparkSettings | None = None) -> None:
        self.store = store
        self.now: Callable[[], int] = lambda: time.time_ns() // 1000
        self.one_at_a_time = threading.RLock()
        self._given = None if isinstance(session, SparkSettings) else session
        self._settings = session if isinstance(session, SparkSettings) else None
        self._session: SparkSession | None = None
        self._load_plan = PlanReader(store.files)

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            given = self._given
            self._session = own_session(self._settings) if given is None else prepare_session(given)
            for name, value in (LOCAL if self.store.files.local else {}).items():
                self._session.conf.set(name, value)
        return self._session

    @property
    def has_session(self) -> bool:
        """Whether a session was given, or is running already."""
        return self._given is not None or self._session is not None

    def close_store(self) -> None:
        """Close the store; stop the Spark session if this object created it."""
        self.store.close()
        if self._given is None and self._session is not None:
            stop_session(self._session)
            self._session = None

    def compiled(
        self, catalog: Catalog, before: CompiledStore | None = None, answers: bool | None = None
    ) -> CompiledStore:
        """Return the views of a catalog as they run in this store; those that have not changed are reused.

        New ones are answered from views that contain them, if `answers` or the views before say so.
        """
        manifest = self.store.manifest()
        stored = StoredViews(manifest.plans, manifest.next, manifest.aside, self._load_plan)
        return compile_store(
            catalog, manifest.starts, before, stored,
            statistics=self._statistics, strategy=self.store.settings.strategy,
            answers=answers,
        )  # fmt: skip

    def _statistics(self, catalog: Catalog) -> Statistics:
        """Return the statistics by which new views are planned: those that the store has measured by now."""
        return measured_statistics(self.store.manifest(), catalog).rounded()

    def kept(self, manifest: Manifest, catalog: Catalog, few: int = 0) -> Kept:
        """Return what the store has kept of its streams, tables and views."""
        return Kept(self.session, self.store.files, manifest, catalog, few)

    @contextmanager
    def tagged_jobs(self, tag: str) -> Iterator[None]:
        """Tag the Spark jobs of this thread inside the block, so that another thread can cancel them.

        They share the machine evenly with the steps, however long they take.
        """
        context = self.session.sparkContext
        context.addJobTag(tag)
        context.setLocalProperty(_POOL, "questions")
        try:
            yield
        finally:
            context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]
            context.removeJobTag(tag)

    def cancel_jobs(self, tag: str) -> None:
        """Cancel the Spark jobs with a tag."""
        self.session.sparkContext.cancelJobsWithTag(tag)

    def write_batch(
        self, sources: Sources, frame: DataFrame, before: Manifest, begin: int, now: int
    ) -> IntakeResult:
        """Write the rows of a batch into the store; return their numbers and their runs."""
        files, partitions = without_fsync(self.store.files), self.store.settings.partitions
        return take_in(sources, frame, before, begin, before.step + 1, files, partitions, now)

    def commit_step(self, before: Manifest, after: Manifest, catalog: Catalog | None = None) -> None:
        """Commit a step: sync its files to the disk, then write the manifest that names them.

        With a catalog, that is saved with the manifest.
        """
        bring_to_disk(self.store.files, before.traces, after.traces)
        if catalog is None:
            self.store.write_manifest(after)
        else:
            self.store.save_catalog(catalog, after)

    def clean_store(self) -> None:
        """Delete the files that no manifest names; none of a step, which names its files at its end."""
        with self.one_at_a_time:
            self.store.clean()


def change_begin(manifest: Manifest, at: Chronon | None) -> Chronon:
    """Return the instant from which a change of a table holds: AT, or just after the bound."""
    if manifest.finished:
        raise StoreError(
            "nothing can change any more: the store was run to its end",
            next_step="everview rewind --to TS takes it back in time; to go on later, run without finish",
        )
    if at is None:
        return manifest.bound + 1
    if at <= manifest.bound:
        raise StoreError("a table can only change after the bound", next_step="give a later AT, or none")
    return at
