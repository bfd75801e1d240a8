"""The running pipeline of a store: it takes in rows, and its steps advance the bound.

A store has one bound for all its views. Rows that are inserted go into the inbox of their stream; sources
are read by Structured Streaming, one query for all of them, one batch a step. A step moves the bound as far
as the streams allow and evaluates the slice; after it, every view is the exact answer over the inputs up to
the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from everview.algebra.expressions import Expression
from everview.algebra.time import Chronon, instant_words
from everview.catalog import Catalog, Entry, QueryEntry, SinkEntry, StreamEntry, TableEntry
from everview.compile_store import CompiledStore
from everview.errors import StoreError
from everview.execute.evaluable import require_evaluable
from everview.execute.event_bounds import MARKS
from everview.execute.failures import explained_failures
from everview.execute.housekeeping import forget
from everview.ingest.clauses import require_evaluable_conditions
from everview.ingest.tables import Assignments
from everview.operators.columnar.frame import BEFORE_ALL
from everview.pipeline import inserts
from everview.pipeline.admit import Admission, admit_rows
from everview.pipeline.alter import add_columns, rename_entry
from everview.pipeline.backfill import BackfillProgress
from everview.pipeline.migration import adopt_first_plans, begin_migrations
from everview.pipeline.rewind import StoreRewind
from everview.pipeline.steps import StepRunner
from everview.pipeline.streaming import SourceQuery, require_interval
from everview.pipeline.views import ViewChange, change_views
from everview.pipeline.writer import StoreWriter
from everview.query.questions import FEW_ROWS, StoreSnapshot, require_going_on, require_view
from everview.settings import SparkSettings
from everview.sinks.targets.functions import SinkFunction, function_name
from everview.sql import declare
from everview.sql.ad_hoc import Query
from everview.sql.statements import AddColumns, Rename, Selection
from everview.storage.altered import without_names
from everview.storage.arrivals import Arrived, Progress
from everview.storage.store import Settings, Store


class Pipeline(StoreWriter):
    """A store with its views, on a Spark session that is created when it is first needed."""

    def __init__(self, store: Store, session: SparkSession | SparkSettings | None = None) -> None:
        super().__init__(store, session)
        self._steps = StepRunner(self)
        self._query: SourceQuery | None = None  # the background steps
        self.sinks = self._steps.sinks
        self.report_backfill: Callable[[BackfillProgress], None] = lambda _: None
        self.last_failure: Exception | None = None  # of the background steps, until they are started again

    def close(self) -> None:
        """Stop background steps and close the store."""
        try:
            self.stop()
        finally:
            self.sinks.close()
            self.close_store()

    @property
    def running(self) -> bool:
        """Whether steps run in the background."""
        return self._query is not None

    # Questions

    def store_snapshot(self, views: CompiledStore) -> StoreSnapshot:
        """Return the present state of the store, to answer queries from."""
        kept = self.kept(self.store.manifest(), views.catalog, FEW_ROWS)
        return StoreSnapshot(kept, views, self.store.settings.partitions)

    def answer(self, views: CompiledStore, query: Query) -> DataFrame:
        """Return the answer of a query; errors of a part that is computed at once are explained."""
        with explained_failures(views.sourced_entries):
            return self.store_snapshot(views).answer(query)

    def changes(self, views: CompiledStore, view: str, encoding: str, since: int | None) -> DataFrame:
        """Return the changes of a view, after a step if one is given."""
        snapshot = self.store_snapshot(views)
        name = require_view(views.catalog, view).name
        require_going_on(snapshot.kept.manifest, name)
        manifest = snapshot.kept.manifest
        marks = dict(manifest.marks)
        void = None if since is None else manifest.voided(since)
        if void is not None:
            raise StoreError(
                f"the store was taken back to {instant_words(void.to)} in step {void.step}: "
                f"the changes up to step {since} count no longer",
                next_step=f"read all changes of '{name}', and go on after step {manifest.step}",
            )
        if since is not None and len(marks) >= MARKS and since < min(marks):
            raise StoreError(
                f"where step {since} ended is not known any more",
                next_step=f"go on after a step from {min(marks)} on, or read all changes",
            )
        found = manifest.replaced.get(name)
        if since is not None and found is not None and since < found.followed_from:
            raise StoreError(
                f"the view '{name}' was replaced in step {found.followed_from}, and its changes begin anew",
                next_step=f"read all its changes, and go on after step {found.followed_from} or a later one",
            )
        snapshot.require_changes(name, since)
        with explained_failures(views.sourced_entries):
            return snapshot.changes(name, encoding, since)

    # Inserted rows

    def take_in(
        self, entry: Entry, rows: object, at: Chronon | None = None, lossless: bool = True
    ) -> Arrived:
        """Insert rows into a stream or a table."""
        return inserts.insert_rows(self, entry, rows, at, lossless)

    def admit(
        self, views: CompiledStore, entry: StreamEntry, kind: str, where: Expression | None
    ) -> Admission:
        """Let late or rejected rows of a stream count from now on."""
        return admit_rows(self, views, entry, kind, where)

    def fill_table(self, entry: TableEntry, rows: DataFrame) -> None:
        """Write the first rows of a table."""
        inserts.fill_table(self, entry, rows)

    def change_table(
        self,
        views: CompiledStore,
        entry: TableEntry,
        rows: Selection,
        assignments: Assignments | None,
        at: Chronon | None,
    ) -> int:
        """Execute an UPDATE, or a DELETE if there are no assignments; return how many rows it changes."""
        with self.one_at_a_time:
            return inserts.change_table(self, self.store_snapshot(views), entry, rows, assignments, at)

    # New and dropped names

    def require_evaluable_stream(self, entry: StreamEntry) -> None:
        """Refuse conditions that Spark does not accept, if there is a session to ask; else a step does."""
        if self.has_session:
            require_evaluable_conditions(self.session, entry)

    def begin_stream(self, entry: StreamEntry) -> None:
        """Begin a stream in a store that has already run: its rows count from the bound on.

        That is so on all its time lines. Those that are stamped on ARRIVAL go by the clock; the first one
        must not be before the bound even then.
        """
        with self.one_at_a_time:
            before = self.store.manifest()
            if before.bound > BEFORE_ALL:
                first = entry.timelines[0]
                own = {
                    line.column: before.bound for line in entry.timelines if line == first or not line.arrival
                }
                bounds = {**before.bounds, entry.name: own}
                self.store.write_manifest(replace(before, step=before.step + 1, bounds=bounds))

    def alter(self, statement: Rename | AddColumns, before: CompiledStore) -> None:
        """Give an entry another name, or further columns, and save the catalog with it.

        `before` are the views before.
        """
        before = adopt_first_plans(self, before)
        catalog = before.catalog.copy()
        declare(statement, catalog)
        match statement:
            case AddColumns(name, fields) if fields:
                entry = before.catalog.get(name)
                assert isinstance(entry, (StreamEntry, TableEntry))
                add_columns(self, catalog, name, len(entry.columns), tuple(f.name for f in fields))
            case Rename(name, new_name):
                if self.store.manifest().keeps_rows_of(new_name):
                    self.forget_names(before)  # a DROP was interrupted
                rename_entry(self, before, catalog, name, new_name)
                self.sinks.rename_view(name, new_name)

    def create_view(self, entry: QueryEntry, catalog: Catalog, before: CompiledStore) -> None:
        """Create or replace a view, and save the catalog that has it; background steps go on with it."""
        for name in entry.depends_on:
            require_going_on(self.store.manifest(), name)
        self._change_views(ViewChange(catalog, adopt_first_plans(self, before), entry=entry))

    def resume_view(self, entry: QueryEntry, views: CompiledStore) -> None:
        """Compute a view anew that was set aside, with all that it waits for."""
        found = self.store.manifest().aside.get(entry.name)
        if found is None:
            raise StoreError(
                f"the view '{entry.name}' goes on: it was not set aside", next_step="nothing needs to be done"
            )
        for name in views.views:  # each after those that it reads
            cause = views.catalog.get(name)
            aside = self.store.manifest().aside.get(name)
            own = aside is not None and (name == aside.because_of or name == entry.name)
            if isinstance(cause, QueryEntry) and own and _reads(entry.name, name, views.catalog):
                views = self.compiled(views.catalog, views)
                self._change_views(ViewChange(views.catalog, views, entry=cause, resumes=True))

    def _change_views(self, change: ViewChange) -> None:
        query = self._query
        if query is None:
            change_views(self, change, self.report_backfill)
            return

        def pause() -> None:
            self._query = None  # first: a query that is being stopped must not look as if it had failed
            query.stop()

        try:
            change_views(self, change, self.report_backfill, pause)
        finally:
            if self._query is None:
                self._resume(query)

    def create_sink(self, sink: SinkEntry, catalog: Catalog, views: CompiledStore) -> None:
        """Create a sink, and save the catalog that has it; the target gets the view's present answer.

        If the target cannot be written, there is no sink.
        """
        require_going_on(self.store.manifest(), sink.view)
        with self.one_at_a_time:
            made = catalog.copy()
            made.add_sink(sink)
            self.store.save_catalog(made)
            try:
                self.sinks.create(sink, views)
            except BaseException:
                self.store.save_catalog(catalog)
                raise

    def give_to(
        self, view: QueryEntry, function: SinkFunction, name: str | None, views: CompiledStore, anew: bool
    ) -> None:
        """Give the changes of a view to a function from now on; without a name, by its own."""
        own = name or function_name(function, view.name)
        require_going_on(self.store.manifest(), view.name)
        with self.one_at_a_time:
            self.sinks.give_to(view, function, own, views, anew)

    def drop_sink(self, name: str, catalog: Catalog) -> None:
        """Drop a sink from the catalog, save it, and forget how far the sink had come."""
        dropped = catalog.drop_sink(name)
        self.store.save_catalog(catalog)
        self.sinks.forget(dropped)

    def resume_sink(self, sink: SinkEntry, views: CompiledStore) -> None:
        """Let a sink go on that was set aside."""
        with self.one_at_a_time:
            self.sinks.resume(sink, views)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the background steps, if they run, after the current one; let them go on after the block."""
        query, self._query = self._query, None
        if query is None:
            yield
            return
        try:
            query.stop()
            yield
        finally:
            self._resume(query)

    def _resume(self, paused: SourceQuery) -> None:
        """Start the background steps again, with the views that the store has now."""
        try:
            views = self.compiled(self.store.load_catalog(), paused.views)
            self._query = SourceQuery(self, self._steps, views, paused.report, paused.interval)
        except Exception as error:
            self.last_failure = error
            raise

    def forget_names(self, views: CompiledStore) -> None:
        """Remove the traces of names that were dropped."""
        with self.one_at_a_time:
            before = self.store.manifest()
            known = views.catalog.entries
            after = replace(without_names(before, lambda name: name not in known), step=before.step + 1)
            self.store.write_manifest(forget(after, views.catalog, views.operator_names()))

    def plan_rewind(self, catalog: Catalog, to: Chronon, reject_after: Chronon | None) -> StoreRewind:
        """Decide what is to be done to take the store back to an instant."""
        return StoreRewind(self, catalog, to, reject_after, self.report_backfill)

    # Steps

    def run(
        self, views: CompiledStore, finish: bool = False, progress: Callable[[Progress], None] | None = None
    ) -> list[Progress]:
        """Take in all available rows and advance the bound; with `finish` to the end of time."""
        self._require_stopped("run")
        self._require_evaluable(views)
        views = begin_migrations(self, views, self.report_backfill)
        with self.one_at_a_time:
            self.sinks.write_all(views, at_once=True)
        done: list[Progress] = []

        def report(step: Progress) -> None:
            done.append(step)
            if progress is not None:
                progress(step)

        if views.sourced_entries:
            views = SourceQuery(self, self._steps, views, report).finish()
        self.last_failure = None
        # Rows that the clock has stamped are before the bound only when it has gone on.
        if finish or not done or any(entry.stamped for entry in views.streams):
            with explained_failures(views.sourced_entries):
                self._steps.run_step(views, None, finish, report)
        self.clean_store()
        return done

    def start(
        self,
        views: CompiledStore,
        interval: str = "1 second",
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Run steps in the background: one whenever rows have arrived, and at least one a second."""
        self._require_stopped("start")
        require_interval(interval)
        self._require_evaluable(views)
        views = begin_migrations(self, views, self.report_backfill)
        self._query = SourceQuery(self, self._steps, views, progress or (lambda _: None), interval)
        self.last_failure = None

    def check(self) -> None:
        """Raise the error that ended the background steps, once."""
        found, query = self.failed(), self._query
        if found is not None and query is not None:
            self._query, self.last_failure = None, found
            query.abandon()
            raise found

    def failed(self) -> Exception | None:
        """Return the error that ended the background steps since they were started, if any."""
        query = self._query  # another thread may pause the steps meanwhile
        return None if query is None else query.failed()

    def stop(self) -> None:
        """Stop the background steps, after the current step."""
        self.check()
        query, self._query = self._query, None
        if query is not None:
            query.stop()
            self.clean_store()

    def wait(self) -> None:
        """Wait while steps run in the background; raise the error that ended them."""
        if self._query is not None:
            self._query.wait()
            self.check()

    def _require_stopped(self, what: str) -> None:
        if self._query is not None:
            raise StoreError(
                f"steps go on in the background, so {what}() is not possible", next_step="stop() first"
            )

    def _require_evaluable(self, views: CompiledStore) -> None:
        """Check the views before the first step: they may have been created without a Spark session."""
        before = self.store.manifest()
        entries = [entry for entry in views.catalog if isinstance(entry, QueryEntry)]
        if entries and before.bound == BEFORE_ALL:
            require_evaluable(self.session, entries, views.plans)

    def reader(self) -> Pipeline:
        """Return another pipeline of the same store on the same Spark, for another thread that only reads."""
        store = Store.open(self.store.files.root, strategy=self.store.settings.strategy)
        return Pipeline(store, self.session)


def _reads(view: str, other: str, catalog: Catalog) -> bool:
    """Return whether a view is another one, or reads it, perhaps through others."""
    entry = catalog.get(view)
    below = entry.depends_on if isinstance(entry, QueryEntry) else ()
    return view == other or any(_reads(name, other, catalog) for name in below)


def open_pipeline(
    path: str,
    session: SparkSession | SparkSettings | None = None,
    partitions: int | None = None,
    strategy: str | None = None,
) -> Pipeline:
    """Open the pipeline of the store at a path, or create the store."""
    settings = None if partitions is None else Settings(partitions)
    return Pipeline(Store.open(path, settings, create=True, strategy=strategy), session)
