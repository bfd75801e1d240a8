"""Ad hoc queries at an instant, and the changes of a view. Readers take no lock and see whole steps."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.schema import names_beside
from everview.algebra.text import name_sql, string_sql
from everview.algebra.time import INFINITY, LEAST, UNDATED, Chronon, instant_words
from everview.catalog import Catalog, StreamEntry, TableEntry, ViewEntry
from everview.compile import CompiledStore, CompiledView, compile_plan
from everview.errors import StoreError
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.evaluate import evaluate_slice, scans_of
from everview.execute.guards import catalyst_sql
from everview.execute.housekeeping import horizons
from everview.execute.job import rows_of
from everview.execute.kept import REPLACED, Kept, nothing
from everview.ingest.bounds import LAST
from everview.ingest.replay import replayed_rows
from everview.operators.columnar.frame import BEFORE_ALL, CHANGE, FROM, UNTIL, Slice
from everview.plan.views import cut_at_views, find_views
from everview.query.output import interval_rows, snapshot_rows, tag_rows
from everview.sql.ad_hoc import Query
from everview.sql.ordering import SortKey
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId
from everview.temporal.keys import keys_of

ENCODINGS = ("tags", "intervals")
_WITH_HISTORY = (N.Synchronize, N.SynchronizeOn, N.IStream, N.DStream, N.RStream)
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

    def answer(self, query: Query) -> DataFrame:
        """Return the answer of a query at its instant, or at present."""
        answer = self._relation(query.plan, self._instant(query), query.as_of is None)
        return _part(answer, query)

    def relation(self, plan: N.Node, tables_at: Chronon) -> DataFrame:
        """Return the answer of a plan at present, but with tables in their known state at an instant."""
        return self._relation(plan, self._instant(Query(plan, plan.schema.names)), True, tables_at)

    def _relation(self, whole: N.Node, t: Chronon, now: bool, tables_at: Chronon | None = None) -> DataFrame:
        compiled = compile_plan(whole, self.catalog, self.views, continuous=False)
        read = list(dict.fromkeys(find_views(compiled.plan, self.views)))
        for name in read:
            self._require_known(name, t)
        plan, _ = cut_at_views(compiled.physical, {self.views[name].physical: name for name in read})
        rows = self._rows(plan, t, _needs_history(compiled.plan, self.views), now, tables_at)
        return snapshot_rows(rows, len(plan.types), t).toDF(*whole.schema.names)

    def _instant(self, query: Query) -> Chronon:
        manifest = self.kept.manifest
        if query.as_of is None:
            return max(min(manifest.present, manifest.bound), LEAST)
        if query.as_of > manifest.bound:
            shown = "nothing is known yet" if manifest.bound < UNDATED else instant_words(manifest.bound)
            raise StoreError(
                f"{instant_words(query.as_of)} lies after the bound of the store: {shown}",
                next_step="ask AS OF an earlier instant, or run the pipeline first",
            )
        return query.as_of

    def _require_known(self, name: str, t: Chronon) -> None:
        manifest = self.kept.manifest
        require_going_on(manifest, name, t)
        since = manifest.since.get(name, BEFORE_ALL)
        horizon = horizons(manifest, self.catalog).get(TraceId("view", name), BEFORE_ALL)
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

    def _rows(
        self, plan: P.Operator, t: Chronon, history: bool, now: bool, tables_at: Chronon | None
    ) -> DataFrame:
        """Return the change rows of a plan that determine what holds at t, which may be the present."""
        kept = self.kept
        scans = {}
        for scan in scans_of([plan]):
            whole = history or (scan.source != "view" and isinstance(self._entry(scan), StreamEntry))
            if kept.trace(scan).kind in ("late", "rejected"):
                scans[scan] = _always(kept.all_rows(scan))
            elif tables_at is not None and not history and isinstance(self._entry(scan), TableEntry):
                times = {FROM: F.lit(t), UNTIL: F.lit(t + 1)}
                scans[scan] = kept.rows_at(scan, tables_at).withColumns(times)
            elif isinstance(entry := self._entry(scan), StreamEntry) and entry.source is not None:
                own = [P.column(i) for i in range(len(scan.of))]
                scans[scan] = self._replayed(entry, t).select(*own, *CHANGE)
            else:
                scans[scan] = kept.known_rows(scan, t) if whole else kept.rows_at(scan, t, now)
        if not _has_kernels(plan):
            return rows_of(kept.session, plan, scans)
        size = sum(r.rows for scan in scans for r in kept.runs(scan))
        partitions = self.partitions if size > _MANY else 1
        with _place_for_answers(kept) as files:
            slice_ = Slice(BEFORE_ALL, LAST, True, kept.manifest.clock_range[0], t)
            done = evaluate_slice(kept.session, files, partitions, {"answer": plan}, scans, {}, 0, slice_)
            runs = done.traces.get(TraceId("view", "answer"), ())
            return (
                Kept(kept.session, files, kept.manifest, self.catalog)
                .read(runs, plan.types)
                .localCheckpoint()
            )

    def _replayed(self, entry: StreamEntry, t: Chronon) -> DataFrame:
        """Return the rows of a stream up to an instant, read again from its source."""
        rows = replayed_rows(self.kept, entry)
        if rows is None:
            return nothing(self.kept.session, spark_schema(entry.columns.types))
        return rows.where(f"{FROM} <= {long_sql(t)}")

    def _entry(self, scan: P.ScanOperator) -> object:
        return self.catalog.get(scan.relation) if scan.relation in self.catalog else None

    def changes(self, name: str, encoding: str = "tags", after: Chronon = BEFORE_ALL) -> DataFrame:
        """Return the changes of a view after an instant, up to the bound, in one of the two encodings."""
        if encoding not in ENCODINGS:
            raise StoreError(f"there is no encoding '{encoding}'", choices=ENCODINGS)
        plan = self.views[name].plan
        manifest = self.kept.manifest
        rows = self._changes(name, plan)
        size = len(plan.schema)
        names = list(plan.schema.names)
        if encoding == "tags":
            found = tag_rows(rows, size, keys_of(plan), after, manifest.bound)
            record = ", ".join(f"{string_sql(n)}, old.{P.column(i)}" for i, n in enumerate(names))
            old = f"CASE WHEN old IS NOT NULL THEN named_struct({record}) END AS old"
            shown = found.selectExpr("tag", "timestamp_micros(at) AS at", *map(P.column, range(size)), old)
            tag, at, old = names_beside(names, "tag", "at", "old")
            return shown.toDF(tag, at, *names, old)
        found = interval_rows(rows, size, after, manifest.bound, manifest.finished)
        times = [f"timestamp_micros(`{c}`) AS `{c}`" for c in ("from", "until")]
        shown = found.selectExpr(*times, "n", *map(P.column, range(size)))
        return shown.toDF(*names_beside(names, "from", "until", "n"), *names)

    def _changes(self, name: str, plan: N.Node) -> DataFrame:
        """Return the change rows of a view since it is complete, as far back as its history reaches."""
        manifest = self.kept.manifest
        trace = TraceId("view", name)
        rows = self.kept.read(manifest.runs(trace), plan.schema.types)
        replaced = manifest.replaced.get(name)
        if replaced is not None and not replaced.anew:
            earlier = self.kept.read(manifest.runs(TraceId("view", name, REPLACED)), plan.schema.types)
            rows = _from_on(rows, replaced.at).unionAll(earlier)
        begin = max(
            manifest.since.get(name, BEFORE_ALL), horizons(manifest, self.catalog).get(trace, BEFORE_ALL)
        )
        if begin == BEFORE_ALL:
            return rows
        return _from_on(rows, begin)


def _from_on(rows: DataFrame, begin: Chronon) -> DataFrame:
    """Return change rows as far as they hold at an instant or later."""
    later = rows.where(f"{UNTIL} > {long_sql(begin)}")
    return later.withColumn(FROM, F.expr(f"greatest({FROM}, {long_sql(begin)})"))


def _needs_history(plan: N.Node, views: Container[str]) -> bool:
    """Return whether the answer at an instant depends on what held before it."""
    if isinstance(plan, N.View) and plan.name in views:
        return False
    versions = isinstance(plan, N.TableJoin) and not plan.retroactive
    return versions or isinstance(plan, _WITH_HISTORY) or any(_needs_history(i, views) for i in plan.inputs)


def require_going_on(manifest: Manifest, view: str, t: Chronon = INFINITY) -> None:
    """Refuse a view that was set aside before an instant; without one, at any time."""
    aside = manifest.aside.get(view)
    if aside is not None and t > aside.bound:
        because = "" if aside.because_of == view else f" with '{aside.because_of}'"
        raise StoreError(
            f"the view '{view}' was set aside{because} in step {aside.step}: {aside.error}",
            next_step=f"mend that, and ALTER VIEW {aside.because_of} RESUME",
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


def require_view(catalog: Catalog, name: str) -> ViewEntry:
    """Return the view of this name; raise an error if the name is no view."""
    entry = catalog.get(name)
    if isinstance(entry, ViewEntry):
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
