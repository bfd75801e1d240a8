"""Ad hoc queries at an instant, and the changes of a view. Readers take no lock and see whole steps."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.expressions import SortKey
from everview.algebra.schema import names_beside
from everview.algebra.text import name_sql, string_sql
from everview.algebra.time import INFINITY, LEAST, UNDATED, Chronon, instant_words
from everview.catalog import Catalog, EventStreamEntry, QueryEntry, StreamEntry, TableEntry
from everview.compile import CompiledEventStream, CompiledView, compile_view
from everview.compile_store import CompiledStore
from everview.errors import StoreError
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.evaluate import evaluate_slice, scans_of
from everview.execute.event_bounds import kept_bounds
from everview.execute.guards import catalyst_sql
from everview.execute.job import rows_of
from everview.execute.kept import Kept, empty_rows
from everview.ingest.admit import count_corrections
from everview.ingest.bounds import LAST
from everview.ingest.replay import replayed_rows
from everview.operators.columnar.frame import BEFORE_ALL, CHANGE, FROM, UNTIL, Slice
from everview.operators.step_slices import StepSlices
from everview.plan.corrections import TAKE_IN_TIME, refuse_correction
from everview.plan.views import cut_at_views, find_views
from everview.query.output import interval_rows, snapshot_rows, tag_rows
from everview.sql.ad_hoc import Query
from everview.storage.files import Files
from everview.storage.history import forgotten_before, horizons
from everview.storage.manifest import Manifest
from everview.storage.runs import REPLACED, TraceId
from everview.temporal.clocks import STORE_BOUND, LineBounds, StreamLine
from everview.temporal.keys import keys_of

ENCODINGS = ("tags", "intervals")
_WITH_HISTORY = (N.Synchronize, N.SynchronizeOn, N.IStream, N.DStream, N.RStream)
FEW_ROWS = 5_000  # so many are read by the driver, at once
_MANY = 100_000  # rows; more than that are read in several partitions


@dataclass(frozen=True)
class StoreSnapshot:
    """A store in the state of one manifest, with the plans of its views."""

    kept: Kept
    store: CompiledStore
    partitions: int

    @property
    def catalog(self) -> Catalog:
        return self.kept.catalog

    @property
    def views(self) -> Mapping[str, CompiledView]:
        return self.store.views

    @cached_property
    def bounds(self) -> LineBounds:
        """The bounds of the store and of event streams."""
        return kept_bounds(self.kept.manifest)

    def answer(self, query: Query) -> DataFrame:
        """Return the answer of a query at its instant, or at present."""
        answer = self._relation(query.plan, self._instant(query.plan, query.as_of), query.as_of is None)
        return _part(answer, query)

    def relation(self, plan: N.Node, tables_at: Chronon) -> DataFrame:
        """Return the answer of a plan at present, but with tables in their known state at an instant."""
        return self._relation(plan, self._instant(plan, None), True, tables_at)

    def _relation(self, whole: N.Node, t: Chronon, now: bool, tables_at: Chronon | None = None) -> DataFrame:
        compiled = self._compiled(whole, t, tables_at is None)
        self._require_meaning(compiled.physical)
        read = list(dict.fromkeys(find_views(compiled.plan, self.views)))
        for name in read:
            self._require_known(name, t)
        for name, instant in _reach(compiled.plan, self.views, t).items():
            self._require_history(name, instant)
        plan, _ = cut_at_views(compiled.physical, {self.views[name].physical: name for name in read})
        alone = now and len(relations_of(whole, self.views)) == 1
        rows = self._rows(plan, t, _needs_history(compiled.plan, self.views), now, tables_at, alone)
        return snapshot_rows(rows, len(plan.types), t).toDF(*whole.schema.names)

    def _compiled(self, whole: N.Node, t: Chronon, answers: bool) -> CompiledView:
        """Return the plan of a question, answered from views that contain it and are known at the instant."""
        known = {
            name: view
            for name, view in self.views.items()
            if answers and self.store.answers and view.can_answer and self._is_known(name, t)
        }
        compiled = compile_view(
            whole,
            self.catalog,
            self.views,
            continuous=False,
            find_statistics=lambda: self.store.statistics(self.catalog),
            strategy=self.store.strategy,
            answering=known,
            once=True,
        )
        if not compiled.answering or not _needs_history(compiled.plan, self.views):
            return compiled
        # A view tells what held before the instant only as far as all its changes are kept.
        whole_history = {n: v for n, v in known.items() if self._known_from(n) == BEFORE_ALL}
        return compile_view(
            whole, self.catalog, self.views, continuous=False, strategy=self.store.strategy,
            answering=whole_history, once=True,
        )  # fmt: skip

    def _is_known(self, view: str, t: Chronon) -> bool:
        """Return whether the changes of a view tell what held at an instant by its present definition."""
        manifest = self.kept.manifest
        return view not in manifest.aside and self._known_from(view) <= t <= manifest.bound

    def _known_from(self, view: str) -> Chronon:
        manifest = self.kept.manifest
        since = manifest.since.get(view, BEFORE_ALL)
        replaced = manifest.replaced.get(view)
        horizon = horizons(manifest, self.catalog).get(TraceId("view", view), BEFORE_ALL)
        return max(since, horizon, BEFORE_ALL if replaced is None else replaced.at)

    def _require_meaning(self, plan: P.Operator) -> None:
        """Refuse a question about the order of rows of which some came too late and were re-admitted."""
        manifest = self.kept.manifest
        for entry in self.catalog:
            if not isinstance(entry, StreamEntry) or not manifest.admitted(entry.name):
                continue
            why = refuse_correction(plan, entry.name)
            if why is not None and count_corrections(self.kept.files, manifest, entry):
                raise StoreError(
                    f"the question has {why}, and rows of '{entry.name}' came too late and were re-admitted",
                    next_step=TAKE_IN_TIME,
                )

    def _instant(self, plan: N.Node, as_of: Chronon | None) -> Chronon:
        """Return the instant at which a query is answered: the present, as far as all that it reads is known.

        The present of a query that reads event streams is the newest timestamp among them and the store's.
        """
        read = relations_of(plan, self.views)
        events = {e.name: e for name in read for e in self._events_of(name)}
        known = min((self._known_up_to(name) for name in read), default=self.kept.manifest.bound)
        if as_of is None:
            runs = [r for name in events for r in self.kept.manifest.runs(TraceId("view", name))]
            present = max((r.greatest_from for r in runs), default=BEFORE_ALL)
            return max(min(max(self.kept.manifest.present, present), known), LEAST)
        if as_of > known:
            shown = "nothing is known yet" if known < UNDATED else instant_words(known)
            what = "the bound of the store"
            if known < self.kept.manifest.bound or events:
                what = "the bound of " + ", ".join(f"'{name}'" for name in sorted(events))
            raise StoreError(
                f"{instant_words(as_of)} lies after {what}: {shown}",
                next_step="ask AS OF an earlier instant, or run the pipeline first",
            )
        return as_of

    def _events_of(self, name: str) -> tuple[CompiledEventStream, ...]:
        """Return the event streams that a relation is, or reads."""
        view = self.views.get(name)
        if view is None:
            return ()
        return (view,) if isinstance(view, CompiledEventStream) else view.events

    def _known_up_to(self, name: str) -> Chronon:
        """Return up to where a relation is known."""
        view = self.views.get(name)
        return self.kept.manifest.bound if view is None else self._bound_of(view, self.bounds)

    def _require_known(self, name: str, t: Chronon, rows_only: bool = False) -> None:
        """Refuse an instant at which a view is not known; with `rows_only` what was forgotten is left out."""
        manifest = self.kept.manifest
        require_going_on(manifest, name, t)
        if rows_only:
            return
        since, horizon = manifest.since.get(name, BEFORE_ALL), self.horizon(name)
        if t < since:
            raise StoreError(
                f"the view '{name}' was made when the store had run, and answers from "
                f"{instant_words(since)} on",
                next_step="ask AS OF a later instant",
            )
        if t < horizon:
            raise StoreError(
                f"the history of the view '{name}' is kept from {instant_words(horizon)} on",
                next_step="ask AS OF a later instant, or make it with a longer history",
            )

    def horizon(self, name: str) -> Chronon:
        """Return the instant at which the history of a view or an event stream begins."""
        return self._horizons.get(TraceId("view", name), BEFORE_ALL)

    @cached_property
    def _horizons(self) -> Mapping[TraceId, Chronon]:
        return horizons(self.kept.manifest, self.catalog)

    def complete_from(self, name: str) -> Chronon:
        """Return the instant from which on all changes of a view are known."""
        return max(self.kept.manifest.since.get(name, BEFORE_ALL), self.horizon(name))

    def _require_history(self, name: str, instant: Chronon) -> None:
        """Refuse a question about the changes of a view from an instant on, if not all of them are kept."""
        horizon = self.horizon(name)
        if instant < horizon:
            raise StoreError(
                f"the question needs earlier changes of the view '{name}', and its history is kept from "
                f"{instant_words(horizon)} on",
                next_step="make a view of the question, or make the view with a longer history",
            )

    def _rows(
        self,
        plan: P.Operator,
        t: Chronon,
        history: bool,
        now: bool,
        tables_at: Chronon | None,
        alone: bool,
    ) -> DataFrame:
        """Return the change rows of a plan that determine what holds at t, which may be the present.

        Of an event stream that is read `alone` at present, all rows count that are known by any time line.
        """
        kept = self.kept
        scans = {}
        for scan in scans_of([plan]):
            entry = self._entry(scan)
            whole = history or (scan.source != "view" and isinstance(entry, (StreamEntry, EventStreamEntry)))
            if scan.source != "view" and isinstance(entry, EventStreamEntry):
                self._require_known(entry.name, t, now)
            if kept.trace(scan).kind in ("late", "rejected"):
                scans[scan] = _always(kept.all_rows(scan))
            elif tables_at is not None and not history and isinstance(entry, TableEntry):
                times = {FROM: F.lit(t), UNTIL: F.lit(t + 1)}
                scans[scan] = kept.rows_at(scan, tables_at).withColumns(times)
            elif isinstance(event := self.views.get(scan.relation), CompiledEventStream) and alone:
                shown = self._since_horizon(event.name, kept.all_rows(scan))
                shown = shown.where(visible_sql(event, self.bounds))
                scans[scan] = shown.withColumn(FROM, F.least(FROM, F.lit(t)))
            elif isinstance(entry, StreamEntry) and entry.source is not None:
                own = [P.column(i) for i in range(len(scan.of))]
                scans[scan] = self._replayed(entry, t).select(*own, *CHANGE)
            elif isinstance(event, CompiledEventStream):
                scans[scan] = self._since_horizon(event.name, kept.known_rows(scan, t))
            else:
                scans[scan] = kept.known_rows(scan, t) if whole else kept.rows_at(scan, t, now)
        if not _has_kernels(plan):
            return rows_of(kept.session, plan, scans)
        size = sum(r.rows for scan in scans for r in kept.runs(scan))
        partitions = self.partitions if size > _MANY else 1
        with _place_for_answers(kept) as files:
            slices = StepSlices(Slice(BEFORE_ALL, LAST, True, kept.manifest.clock_range[0], t))
            done = evaluate_slice(kept.session, files, partitions, {"answer": plan}, scans, {}, 0, slices)
            runs = done.traces.get(TraceId("view", "answer"), ())
            found = Kept(kept.session, files, kept.manifest, self.catalog, kept.few).read(runs, plan.types)
            return found if sum(run.rows for run in runs) <= kept.few else found.localCheckpoint()

    def _since_horizon(self, event: str, rows: DataFrame) -> DataFrame:
        """Return the rows of an event stream in its history; in files there may be older ones beside them."""
        horizon = self.horizon(event)
        return rows if horizon == BEFORE_ALL else rows.where(f"{FROM} > {long_sql(horizon)}")

    def _replayed(self, entry: StreamEntry, t: Chronon) -> DataFrame:
        """Return the rows of a stream up to an instant, read again from its source."""
        rows = replayed_rows(self.kept, entry)
        if rows is None:
            return empty_rows(self.kept.session, spark_schema(entry.columns.types))
        return rows.where(f"{FROM} <= {long_sql(t)}")

    def _entry(self, scan: P.ScanOperator) -> object:
        return self.catalog.get(scan.relation) if scan.relation in self.catalog else None

    def changes(self, name: str, encoding: str = "tags", since: int | None = None) -> DataFrame:
        """Return the changes of a view, or the rows of an event stream, in one of the two encodings.

        With `since`, what the steps after that one have made known.
        """
        if encoding not in ENCODINGS:
            raise StoreError(f"there is no encoding '{encoding}'", choices=ENCODINGS)
        view, manifest = self.views[name], self.kept.manifest
        earlier = {} if since is None else kept_bounds(manifest, since)
        rows, size, names = (
            self._changes(name, view.plan),
            len(view.plan.schema),
            list(view.plan.schema.names),
        )
        after, upto = (self._bound_of(view, bounds) for bounds in (earlier, self.bounds))
        if encoding == "tags":
            if isinstance(view, CompiledEventStream):
                new = f"{visible_sql(view, self.bounds)} AND NOT {visible_sql(view, earlier)}"
                rows, after, upto = rows.where(new), BEFORE_ALL, LAST
            found = tag_rows(rows, size, keys_of(view.own_plan), after, upto)
            record = ", ".join(f"{string_sql(n)}, old.{P.column(i)}" for i, n in enumerate(names))
            old = f"CASE WHEN old IS NOT NULL THEN named_struct({record}) END AS old"
            shown = found.selectExpr("tag", "timestamp_micros(at) AS at", *map(P.column, range(size)), old)
            tag, at, old = names_beside(names, "tag", "at", "old")
            return shown.toDF(tag, at, *names, old)
        found = interval_rows(rows, size, after, upto, manifest.finished)
        times = [f"timestamp_micros(`{c}`) AS `{c}`" for c in ("from", "until")]
        shown = found.selectExpr(*times, "n", *map(P.column, range(size)))
        return shown.toDF(*names_beside(names, "from", "until", "n"), *names)

    def require_changes(self, name: str, since: int | None) -> None:
        """Refuse the changes after a step if not all are kept; say from when on they are complete."""
        manifest, view = self.kept.manifest, self.views[name]
        begin = forgotten_before(manifest, self.catalog, name)
        if since is None:
            begin = max(begin, manifest.since.get(name, BEFORE_ALL))
            if begin > BEFORE_ALL:
                shown = instant_words(begin)
                warnings.warn(f"the changes of '{name}' are complete from {shown} on", stacklevel=2)
        elif begin > BEFORE_ALL and self._bound_of(view, kept_bounds(manifest, since)) < begin:
            raise StoreError(
                f"not all changes of '{name}' after step {since} are kept: its history begins at "
                f"{instant_words(begin)}",
                next_step=f"read all its changes, and go on after step {manifest.step}; "
                "WITH (history => …) keeps more",
            )

    def _bound_of(self, view: CompiledView, bounds: LineBounds) -> Chronon:
        """Return up to where a view or an event stream was known when the bounds were these."""
        if isinstance(view, CompiledEventStream):
            return bounds.get(view.first_line, BEFORE_ALL)
        return bounds.get(STORE_BOUND, BEFORE_ALL) if view.clock is None else view.clock.value(bounds)

    def _changes(self, name: str, plan: N.Node) -> DataFrame:
        """Return the change rows of a view since it is complete, as far back as its history reaches."""
        manifest = self.kept.manifest
        trace = TraceId("view", name)
        rows = self.kept.read(manifest.runs(trace), plan.schema.types)
        replaced = manifest.replaced.get(name)
        if replaced is not None and not replaced.anew:
            earlier = self.kept.read(manifest.runs(TraceId("view", name, REPLACED)), plan.schema.types)
            rows = _from_on(rows, replaced.at).unionAll(earlier)
        if isinstance(self.views[name], CompiledEventStream):
            return self._since_horizon(name, rows)
        begin = self.complete_from(name)
        return rows if begin == BEFORE_ALL else _from_on(rows, begin)


def _from_on(rows: DataFrame, begin: Chronon) -> DataFrame:
    """Return change rows as far as they hold at an instant or later."""
    later = rows.where(f"{UNTIL} > {long_sql(begin)}")
    return later.withColumn(FROM, F.expr(f"greatest({FROM}, {long_sql(begin)})"))


def relations_of(plan: N.Node, views: Container[str]) -> set[str]:
    """Return the streams, tables and views that a query reads itself."""
    if isinstance(plan, N.View) and plan.name in views:
        return {plan.name}
    own = {plan.name} if isinstance(plan, (N.Stream, N.Table)) else set()
    return own.union(*(relations_of(below, views) for below in plan.inputs))


def visible_sql(event: CompiledEventStream, bounds: LineBounds) -> str:
    """Return the condition that a row of an event stream is known by one of its time lines (def. 26)."""
    known = [
        f"unix_micros({P.column(line.column or 0)}) <= {long_sql(bounds[StreamLine(event.name, name)])}"
        for name, line in zip(event.lines, event.output.lines, strict=True)
        if StreamLine(event.name, name) in bounds
    ]
    return f"({' OR '.join(known) or 'FALSE'})"


def _needs_history(plan: N.Node, views: Container[str]) -> bool:
    """Return whether the answer at an instant depends on what held before it."""
    if isinstance(plan, N.View) and plan.name in views:
        return False
    versions = isinstance(plan, N.TableJoin) and not plan.retroactive
    return versions or isinstance(plan, _WITH_HISTORY) or any(_needs_history(i, views) for i in plan.inputs)


def _reach(plan: N.Node, views: Container[str], t: Chronon) -> dict[str, Chronon]:
    """Return from which instant on the changes of each view matter for the answer at t."""
    if isinstance(plan, N.View) and plan.name in views:
        return {plan.name: t}
    if isinstance(plan, N.Synchronize):
        t = plan.grid.after(t) - plan.grid.step  # the last point
    elif isinstance(plan, _WITH_HISTORY):
        t = BEFORE_ALL
    found: dict[str, Chronon] = {}
    for below in plan.inputs:
        for name, instant in _reach(below, views, t).items():
            found[name] = min(instant, found.get(name, INFINITY))
    return found


def require_going_on(manifest: Manifest, view: str, t: Chronon = INFINITY) -> None:
    """Refuse a view that was set aside before an instant; without one, at any time."""
    aside = manifest.aside.get(view)
    if aside is not None and t > aside.bound:
        because = "" if aside.because_of == view else f" with '{aside.because_of}'"
        kind = aside.kind if aside.because_of == view else "view"
        raise StoreError(
            f"the {kind} '{view}' was set aside{because} in step {aside.step}: {aside.error}",
            next_step=f"mend that, and {aside.resume_sql}",
        )


def _has_kernels(plan: P.Operator) -> bool:
    return isinstance(plan, P.StatefulOperator) or any(_has_kernels(i) for i in plan.inputs)


def _always(rows: DataFrame) -> DataFrame:
    """Return late or rejected rows as rows that hold for ever: they have no time of their own."""
    return rows.withColumns({FROM: F.lit(BEFORE_ALL + 1), UNTIL: F.lit(INFINITY)})


def _part(answer: DataFrame, query: Query) -> DataFrame:
    """Apply ORDER BY, LIMIT and OFFSET to the answer, and name its columns as the query does."""
    for part in query.parts:
        keys = [_sort_key(key) for key in part.order]
        answer = answer.orderBy(*keys) if keys else answer
        answer = answer.offset(part.offset) if part.offset else answer
        answer = answer if part.limit is None else answer.limit(part.limit)
    shown = query.plan.schema.names[: len(query.names)]
    return answer.select(*map(name_sql, shown)).toDF(*query.names)


def _sort_key(key: SortKey) -> SparkColumn:
    column = F.expr(catalyst_sql(key.expression))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def require_view(catalog: Catalog, name: str) -> QueryEntry:
    """Return the view or event stream of this name; raise an error if the name is another one."""
    entry = catalog.get(name)
    if isinstance(entry, QueryEntry):
        return entry
    raise StoreError(
        f"'{entry.name}' is a {entry.kind}, and only a view has a change stream",
        next_step=f"make a view of it: CREATE VIEW … AS SELECT * FROM {entry.name}",
    )


@contextmanager
def _place_for_answers(kept: Kept) -> Iterator[Files]:
    """Return a folder for the computation of an answer: local, or one that all machines of a cluster see."""
    if (kept.session.sparkContext.master or "").startswith("local"):
        with tempfile.TemporaryDirectory() as folder:
            yield Files(folder, durable=False)
        return
    files = kept.files.below(f"answers/{uuid.uuid4().hex}")
    try:
        yield files
    finally:
        for file in files.list_files():
            files.delete(file.path)
