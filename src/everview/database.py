"""An open store: the Python interface, which the command line uses as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.algebra.text import name_sql
from everview.algebra.time import Chronon
from everview.algebra.types import VOID
from everview.catalog import (
    Catalog,
    Entry,
    EventStreamEntry,
    QueryEntry,
    SinkEntry,
    StreamEntry,
    TableEntry,
)
from everview.compile import check_event_stream
from everview.compile_store import CompiledStore
from everview.errors import PlanError, StoreError
from everview.explain import explain_script, explain_statements
from everview.plan.explain import Explanation, MeasuredStore
from everview.query.admit import admission_report
from everview.query.charts import ChartView, TimelineChart
from everview.query.charts.view import Instant
from everview.query.create import create_sql
from everview.query.describe import Facts, describe_entry
from everview.query.report import Report, show_names
from everview.query.status import Status
from everview.query.summary import RunSummary as RunSummary
from everview.settings import SparkSettings
from everview.sql import bind_script, declare, relation_of
from everview.sql import statements as S
from everview.sql.ad_hoc import Query
from everview.temporal.keys import keys_of
from everview.temporal.runnable import require_runnable
from everview.without_spark import bind_question, check_sink, event_clocks, status_of

if TYPE_CHECKING:
    from everview.pipeline import DataFrame as DataFrame
    from everview.pipeline import Pipeline, SparkSession
    from everview.pipeline import Progress as Progress
    from everview.sinks.targets.functions import SinkFunction
    from everview.sql.statements import Statement as Statement
    from everview.storage.arrivals import Arrived
    from everview.storage.manifest import Manifest as Manifest


class Database:
    """An open store. Many processes can read it; the first that writes holds its lock until it closes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._catalog = pipeline.store.load_catalog()
        self._locked = False
        self._compiled: CompiledStore | None = None
        self._stored: tuple[object, ...] = ()  # what the manifest says of the views that were compiled
        self.answer_from_views = True  # a setting of this object, as SET changes it

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop background steps and close the store; stop the Spark session if this object created it."""
        self._pipeline.close()

    @property
    def catalog(self) -> Catalog:
        """The catalog of the store."""
        return self._catalog

    def execute(self, sql: str, /, **parameters: object) -> DataFrame | Report | str | None:
        """Execute a script and return the result of its last statement. `:name` is a parameter."""
        answer: DataFrame | Report | str | None = None
        for statement in self.statements(sql, parameters):
            answer = self.carry_out(statement)
        return answer

    def statements(self, sql: str, parameters: Mapping[str, object] | None = None) -> Iterator[S.Statement]:
        """Yield the statements of a script. Each is bound lazily, after those before it were executed."""
        self._pipeline.check()
        if not self._locked:
            self._reload()
        return bind_script(sql, self._catalog, parameters)

    def carry_out(self, statement: S.Statement) -> DataFrame | Report | str | None:
        """Execute one statement and return its result, if it has one."""
        match statement:
            case S.Select(query):
                return self._answer(query)
            case S.SetAnswerFromViews(on):
                self.answer_from_views = on
                return None
            case S.Explain() | S.ExplainCreate():
                manifest = self.manifest()
                measured = self._measured(manifest)
                return str(
                    explain_statements(
                        iter([statement]), self._catalog, manifest.starts, measured=measured,
                        strategy=self._strategy, answers=self.answer_from_views,
                    )
                )  # fmt: skip
            case S.Show("SINKS"):
                return self._report_sinks(None)
            case S.ShowSink(name, sql):
                return self._report_sinks(self._catalog.get_sink(name), sql)
            case S.Show(kind):
                names = [e.name for e in self._catalog if e.kind.upper().endswith(kind[:-1])]
                aside = self.manifest().aside if kind == "VIEWS" else {}
                return show_names(names, {name: found.error for name, found in aside.items()})
            case S.ShowCreate(name):
                made = create_sql(self._catalog.get(name), self._catalog.clock_grain)
                return Report(made, ({"name": name, "sql": made},))
            case S.Describe(name):
                entry, store = self._catalog.get(name), self._pipeline.store
                clocks = event_clocks(store, self._catalog, self.manifest()).get(entry.name, {})
                shown, now = relation_of(name, self._catalog), self._pipeline.now()
                return describe_entry(entry, Facts(self._catalog, self.manifest(), shown, clocks, now))
        self._write()
        match statement:
            case S.Insert(target, _, at):
                self._pipeline.take_in(self._catalog.get(target), statement, at)
            case S.InsertQuery(target, query, columns, at):
                answer = self._answer(query).toDF(*columns)
                typed = zip(columns, query.plan.schema.types, strict=False)
                fitting = ["NULL AS " + name_sql(n) if t == VOID else name_sql(n) for n, t in typed]
                self._pipeline.take_in(
                    self._catalog.get(target), answer.selectExpr(*fitting), at, lossless=False
                )
            case S.Update(target, assignments, rows, at):
                self._change(target, rows, assignments, at)
            case S.Delete(target, rows, at):
                self._change(target, rows, None, at)
            case S.CreateAs(entry, query):
                self._create_as(statement, entry, query)
            case S.Create(entry, plan):
                self._create(statement, entry, plan)
            case S.CreateSink(sink):
                self._create_sink(statement, sink)
            case S.DropSink(there):
                if there is not None:
                    with self._pipeline.paused():
                        self._pipeline.drop_sink(there, self._catalog)
            case S.ResumeSink(name):
                self._pipeline.resume_sink(self._catalog.get_sink(name), self._views())
            case S.Drop():
                with self._pipeline.paused():
                    self._drop(lambda: declare(statement, self._catalog))
            case S.Resume(name):
                entry = self._catalog.get(name)
                assert isinstance(entry, QueryEntry)
                self._pipeline.resume_view(entry, self._views())
            case S.ReplayRows(stream, kind, where):
                source = self._catalog.get(stream)
                assert isinstance(source, StreamEntry)
                done = self._pipeline.admit(self._views(), source, kind, where)
                return admission_report(done.name, done.rows, done.begin, done.without_effect, done.refused)
            case S.Rename() | S.AddColumns():
                with self._pipeline.paused():
                    try:
                        self._pipeline.alter(statement, self._views())
                    finally:
                        self._reload()  # it may have been done when an error came
            case S.SetClock():
                with self._pipeline.paused():
                    self._remember(statement)
        return None

    def _answer(self, query: Query) -> DataFrame:
        return self._pipeline.answer(self._views(), query)

    def _change(
        self,
        target: str,
        rows: S.Selection,
        assignments: Sequence[tuple[str, Expression]] | None,
        at: Chronon | None,
    ) -> None:
        self._pipeline.change_table(self._views(), self._table(target), rows, assignments, at)

    def _create(self, statement: S.Create, entry: Entry, plan: N.Node | None) -> None:
        """Create an entry; creating exactly the same entry again changes nothing.

        CREATE OR REPLACE of a view that was set aside, or keeps an older plan, computes it anew.
        """
        manifest = self.manifest()
        if self._catalog.entries.get(entry.name.casefold()) == entry:
            kept = manifest.plans.get(entry.name)
            anew = entry.name in manifest.aside or (kept is not None and kept.stays)
            if not (statement.replace and anew):
                return
        if isinstance(entry, EventStreamEntry):
            check_event_stream(statement, self._catalog)
        elif isinstance(entry, StreamEntry):
            self._pipeline.require_evaluable_stream(entry)
        elif plan is not None:
            require_runnable(plan)
        known = self._catalog.copy()
        declare(statement, known)
        if isinstance(entry, QueryEntry):
            made = known.get(entry.name)
            assert isinstance(made, QueryEntry)
            try:
                self._pipeline.create_view(made, known, self._views())
            except BaseException:
                self._reload()  # it may have been created when the error came
                raise
            declare(statement, self._catalog)
            self._views()  # planned by the settings of now, also where no plan is kept before the first step
            return
        with self._pipeline.paused():
            if isinstance(entry, (StreamEntry, TableEntry)) and self.manifest().keeps_rows_of(entry.name):
                self._pipeline.forget_names(self._views())  # a DROP was interrupted
            if isinstance(entry, StreamEntry):
                self._pipeline.begin_stream(entry)
            self._remember(statement)

    def _create_sink(self, statement: S.CreateSink, sink: SinkEntry) -> None:
        """Create a sink; creating exactly the same sink again changes nothing."""
        from everview.sinks.runner import new_sink

        if sink.name.casefold() in self._catalog.sinks:
            return  # the binder has compared them
        check_sink(statement, self._catalog)
        made = new_sink(sink)
        with self._pipeline.paused():
            self._pipeline.create_sink(made, self._catalog, self._views())
            self._catalog.add_sink(made)

    def _report_sinks(self, sink: SinkEntry | None, sql: bool = False) -> Report:
        from everview.sinks.report import describe_sink, show_sink_sql, show_sinks

        files = self._pipeline.store.files
        if sink is None:
            return show_sinks(self._catalog, files)
        return show_sink_sql(sink) if sql else describe_sink(sink, self._catalog, files, self.manifest())

    def _create_as(self, statement: S.CreateAs, entry: TableEntry, query: Query) -> None:
        """Create a table with rows. The rows are written first, so that a table in the catalog has them."""
        if self._catalog.entries.get(entry.name.casefold()) == entry:
            return
        with self._pipeline.paused():
            self._pipeline.fill_table(entry, self._answer(query).toDF(*entry.columns.names))
            self._remember(statement)

    def _table(self, name: str) -> TableEntry:
        entry = self._catalog.get(name)
        if not isinstance(entry, TableEntry) or entry.source is not None:
            raise StoreError(f"'{name}' has a source or is no table, and cannot be changed by hand")
        return entry

    def _remember(self, statement: S.Statement) -> None:
        declare(statement, self._catalog)
        self._pipeline.store.save_catalog(self._catalog)

    def _drop(self, drop: Callable[[], object]) -> None:
        """Drop entries of the catalog, save it, and remove what the store has of them."""
        before, store = [entry.name for entry in self._catalog], self._pipeline.store
        drop()
        gone = [name for name in before if name.casefold() not in self._catalog.entries]
        if gone:
            self._catalog.date_drops(gone, self.manifest().step + 1, store.oldest_step())
        store.save_catalog(self._catalog)
        self._pipeline.forget_names(self._views())
        self._pipeline.sinks.forget_dropped(self._catalog)

    def _write(self) -> None:
        """Take the lock of the store for writing, and load what other processes have written before."""
        if not self._locked:
            self._pipeline.store.lock()
            self._locked = True
            self._reload()

    def _views(self) -> CompiledStore:
        """Return the compiled views; compile again only those whose catalog entries have changed."""
        manifest = self.manifest()
        stored = (manifest.starts, manifest.plans, manifest.next, manifest.aside, self._strategy)
        if self._compiled is None or self._compiled.catalog != self._catalog or self._stored != stored:
            self._compiled = self._pipeline.compiled(
                self._catalog.copy(), self._compiled, self.answer_from_views
            )
            self._catalog.remember_definitions_of(self._compiled.catalog)
            self._stored = stored
        if self._compiled.answers != self.answer_from_views:
            self._compiled = replace(self._compiled, answers=self.answer_from_views)
        return self._compiled

    def _reload(self) -> None:
        """Reload the catalog in place: a script that is being executed holds a reference to it."""
        self._catalog.take_over(self._pipeline.store.load_catalog())

    def insert(self, name: str, rows: object) -> Arrived:
        """Insert rows: tuples by position; dicts, named tuples, Spark rows and tables by column name.

        A table is a pandas, Arrow, Polars or Spark table.
        """
        self._pipeline.check()
        self._write()
        return self._pipeline.take_in(self._catalog.get(name), rows)

    def run(self, finish: bool = False, progress: Callable[[Progress], None] | None = None) -> RunSummary:
        """Take in all available rows and update every view; with `finish`, to the end of time."""
        self._pipeline.check()
        self._write()
        with self._without_refused_views():
            steps = self._pipeline.run(self._views(), finish, progress)
        manifest = self._pipeline.store.manifest()
        arrived: dict[str, Arrived] = {}
        changes: dict[str, int] = {}
        for step in steps:
            for name, came in step.arrived.items():
                arrived[name] = arrived[name] + came if name in arrived else came
            changes = {n: changes.get(n, 0) + k for n, k in step.changes.items()}
        seconds = sum(s.seconds for s in steps)
        return RunSummary(
            len(steps), manifest.step, manifest.bound, manifest.present, seconds, arrived, changes
        )

    @contextmanager
    def _without_refused_views(self) -> Iterator[None]:
        """Drop a view that is refused only now, before the first step, with all that depends on it.

        It can then be created again with another definition, like any other view that was refused.
        """
        try:
            yield
        except PlanError as error:
            if error.view is not None:
                view = error.view
                self._drop(lambda: self._catalog.drop(view, cascade=True))
                error.next_step = f"{error.next_step}; then make the view again: it is not in the store"
            raise

    def start(self, interval: str = "1 second", progress: Callable[[Progress], None] | None = None) -> None:
        """Run steps in the background: one when rows have arrived, at most one an interval.

        An error that ends them is raised by the next call of any method, and shown by `status()`.
        """
        self._pipeline.check()
        self._write()
        with self._without_refused_views():
            self._pipeline.start(self._views(), interval, progress)

    def show_backfill(self, show: Callable[[str], None]) -> None:
        """Call `show` with a line of text whenever the computation of a new view has progressed."""
        self._pipeline.report_backfill = lambda done: show(f"{', '.join(done.views)}: {done.text}")

    def wait(self) -> None:
        """Wait while steps run in the background; raise the error that ended them."""
        self._pipeline.wait()

    def stop(self) -> None:
        """Stop the background steps, after the current step."""
        self._pipeline.stop()

    def paused(self) -> AbstractContextManager[None]:
        """Stop the background steps, if they run, after the current one; let them go on after the block."""
        return self._pipeline.paused()

    def failure(self) -> Exception | None:
        """Return the error that ended the background steps since they were last started, if any."""
        return self._pipeline.failed() or self._pipeline.last_failure

    def hold(self) -> None:
        """Take the lock of the store and start Spark now, not when they are first needed."""
        self._write()
        self._pipeline.session  # noqa: B018

    def reader(self) -> Database:
        """Return the same store on the same Spark for another thread, which only reads: it takes no lock."""
        return Database(self._pipeline.reader())

    def tagged_jobs(self, tag: str) -> AbstractContextManager[None]:
        """Tag the Spark jobs of this thread inside the block, so that another thread can cancel them."""
        return self._pipeline.tagged_jobs(tag)

    def cancel_jobs(self, tag: str) -> None:
        """Cancel the Spark jobs with a tag."""
        self._pipeline.cancel_jobs(tag)

    def query(self, sql: str, /, as_of: Instant = None, **parameters: object) -> DataFrame:
        """Return the answer of a SELECT, at present or as of an instant, as a Spark DataFrame.

        `:name` in the query is the value of the parameter of that name.
        """
        self._pipeline.check()
        if not self._locked:
            self._reload()
        return self._answer(bind_question(sql, self._catalog, as_of, parameters))

    def changes(self, view: str, encoding: str = "tags", since: int | None = None) -> DataFrame:
        """Return the changes of a view up to the bound, as tags or intervals; `since`: after that step."""
        from everview.query.questions import require_view

        self._pipeline.check()
        require_view(self._catalog, view)  # before Spark is started in vain
        if since is not None and type(since) is not int:
            raise PlanError(f"since: {since!r} is no step", next_step="give the number of a step")
        return self._pipeline.changes(self._views(), view, encoding, since)

    def explain(self, sql: str, cost: bool = False) -> Explanation:
        """Return the plan of a script: it prints as text, and a notebook shows it as a picture.

        With `cost`, operators have figures: estimated, and as the store has measured them.
        """
        self._pipeline.check()
        manifest = self.manifest()
        measured = self._measured(manifest)
        return explain_script(
            sql, self._catalog, manifest.starts, cost, measured, self._strategy, self.answer_from_views
        )

    @property
    def _strategy(self) -> str:
        return self._pipeline.store.settings.strategy

    def _measured(self, manifest: Manifest) -> MeasuredStore:
        from everview.storage.statistics import measure_store

        return measure_store(manifest, self._catalog)

    def view(self, name: str) -> ChartView:
        """Return a view for charts: `db.view("v").plot()` draws its numbers over time."""
        from everview.query.questions import require_view

        self._pipeline.check()
        found = require_view(self._catalog, name).name
        plan = self._views().views[found].own_plan
        key = keys_of(plan)
        return ChartView(self, found, None if key is None else tuple(plan.schema.names[i] for i in key))

    def sink(self, view: str, function: SinkFunction, name: str | None = None, anew: bool = False) -> None:
        """Give the changes of a view to a function after each step: `function(changes, step)`.

        `changes` is an Arrow table with tag, at, the columns of the view, and old. The first call has the
        present answer. How far the function has come is kept by its name: in a later process it goes on
        there, unless it is to begin `anew`.
        """
        from everview.query.questions import require_view

        self._pipeline.check()
        entry = require_view(self._catalog, view)
        self._write()
        self._pipeline.give_to(entry, function, name, self._views(), anew)

    def timeline(self, view: str, since: Instant = None, until: Instant = None) -> TimelineChart:
        """Return the rows of a view as bars over time: the newest, or those of a range."""
        return self.view(view).timeline(since, until)

    def status(self) -> Status:
        """Return the state of the store after its last step, and the state of the background steps."""
        if not self._locked:
            self._reload()
        error = self.failure()
        running = "running" if self._pipeline.running and error is None else "not running"
        return status_of(
            self._pipeline.store,
            self._catalog,
            self._pipeline.now(),
            running if error is None else "failed",
            None if error is None else str(error),
        )

    def backup(self, folder: str) -> Report:
        """Copy the store as it is after its last step into an empty folder; steps may go on meanwhile."""
        from everview.maintenance import backup_to

        return backup_to(self._pipeline.store, folder)

    def rewind(
        self,
        to: Instant,
        reject_after: Instant = None,
        accept_losses: bool = False,
        dry_run: bool = False,
    ) -> Report:
        """Take the store back to an instant: rows after it are taken in again, and views go on from there.

        Rows after `reject_after` are rejected. What cannot be had again is given up only with
        `accept_losses`. With `dry_run` nothing is done.
        """
        from everview.maintenance import rewind_store

        self._pipeline.check()
        self._write()
        with self._pipeline.paused():
            return rewind_store(self._pipeline, self._catalog, to, reject_after, accept_losses, dry_run)[0]

    def manifest(self) -> Manifest:
        """Return the last manifest of the store: its bound, the rows that arrived, the number of steps."""
        return self._pipeline.store.manifest()


def connect(
    path: str,
    spark: SparkSession | SparkSettings | None = None,
    partitions: int | None = None,
    strategy: str | None = None,
) -> Database:
    """Open the store at a path, or create it; without a session, use a local one on this machine.

    `spark` may also be the settings of a session to start: `SparkSettings("spark://host:7077")`.

    `strategy` says how views are computed: "upa" (by default), "direct" or "nt" (paper 2). The store keeps
    it from the first change or run on. It may be another one later; the answers are the same.
    """
    from everview.pipeline import open_pipeline  # Spark is loaded only where it is needed

    return Database(open_pipeline(path, spark, partitions, strategy))
