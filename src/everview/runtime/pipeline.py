"""The running pipeline of a store: rows are taken in, steps move the bound, views are asked.

A store has one bound for all its views. `take_in` puts rows into the inbox of their stream; `run` moves the
bound as far as the streams allow and evaluates the slice in one Spark job; after it, every view is the exact
answer over the inputs up to the bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.schema import Field, Schema
from everview.algebra.text import expression_sql
from everview.algebra.time import INFINITY, LEAST, Chronon, format_timestamp
from everview.algebra.types import DataType
from everview.catalog import Catalog, Entry, EventStreamEntry, StreamEntry, TableEntry
from everview.errors import PlanError, StoreError
from everview.kernels.frame import BEFORE_ALL, FROM, Slice
from everview.runtime.evaluate import evaluate, operator_name, scans_of
from everview.runtime.files import Files
from everview.runtime.manifest import Manifest
from everview.runtime.rows import frame_of, record_of
from everview.runtime.runs import Run, TraceId
from everview.runtime.session import local_session
from everview.runtime.store import Settings, Store
from everview.runtime.task import KernelTask, ReadTask
from everview.runtime.trace import Trace
from everview.spark import physical as P
from everview.spark.catalyst import spark_schema
from everview.spark.exchange import Layout
from everview.spark.lower import lower
from everview.spark.step import Step
from everview.sql.query import Query

_LAST = INFINITY - 1  # the last instant that there is


@dataclass(frozen=True)
class Taken:
    """How many rows were taken in, and how many came too late."""

    rows: int
    late: int


@dataclass(frozen=True)
class Done:
    """What a run did: the step, the bound that it came to, and the change rows of each view."""

    step: int
    bound: Chronon
    changes: Mapping[str, int]


class Pipeline:
    """A store with its views, on a Spark session that is made when it is first needed."""

    def __init__(self, store: Store, session: SparkSession | None = None) -> None:
        self.store = store
        self._session = session
        self._own = session is None

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            self._session = local_session()
        return self._session

    def close(self) -> None:
        """Lets the store go, and the session if it was made here."""
        self.store.close()
        if self._own and self._session is not None:
            self._session.stop()
            self._session = None

    def require_runnable(self, entry: Entry) -> None:
        """Refuses what this pipeline cannot run."""
        if isinstance(entry, (StreamEntry, TableEntry)) and entry.source is not None:
            raise PlanError(
                f"'{entry.name}' reads {entry.source.format}, and sources are not read yet",
                next_step="declare it without FROM and INSERT its rows",
            )
        if isinstance(entry, EventStreamEntry):
            raise PlanError(f"the event query '{entry.name}' binds, but does not run yet")
        self.require_new()

    def require_new(self) -> None:
        """Names can change until the first step: what a new view would need of the past is not kept yet."""
        if self.store.manifest().bound > BEFORE_ALL:
            raise PlanError(
                "the store has run, and its names cannot change any more yet",
                next_step="make a new store with all its streams, tables and views",
            )

    # Taking in

    def take_in_rows(self, entry: Entry, rows: Iterable[Mapping[str, object]]) -> Taken:
        """The same, each row by the names of its columns."""
        return self.take_in(entry, [record_of(row, _fed_by_hand(entry).columns) for row in rows])

    def take_in(self, entry: Entry, records: Sequence[Record], at: Chronon | None = None) -> Taken:
        """Puts rows into the inbox of a stream or a table; late ones go to the late rows of their stream."""
        before = self.store.manifest()
        entry = _fed_by_hand(entry)
        if isinstance(entry, StreamEntry):
            return self._take_stream(entry, records, before)
        begin = self._begin(before, at)
        self._keep(before, {TraceId("inbox", entry.name): (records, [begin] * len(records))}, entry.columns)
        return Taken(len(records), 0)

    def _begin(self, manifest: Manifest, at: Chronon | None) -> Chronon:
        """From when a change of a table holds: at first from the beginning, later after the bound."""
        if at is None:
            return LEAST if manifest.bound == BEFORE_ALL else manifest.bound + 1
        if at <= manifest.bound:
            raise StoreError("a table can only change after the bound", next_step="give a later AT, or none")
        return at

    def _take_stream(self, entry: StreamEntry, records: Sequence[Record], before: Manifest) -> Taken:
        bounds = before.bounds.get(entry.name, {})
        positions = {line.column: entry.columns.names.index(line.column) for line in entry.timelines}

        def is_late(record: Record) -> bool:
            return any(_instant(record[p]) <= bounds.get(line, BEFORE_ALL) for line, p in positions.items())

        first = positions[entry.timelines[0].column]
        good: list[Record] = []
        late: list[Record] = []
        for record in records:
            (late if is_late(record) else good).append(record)
        begins = [[_instant(r[first]) for r in rows] for rows in (good, late)]
        kept = {
            TraceId("inbox", entry.name): (good, begins[0]),
            TraceId("late", entry.name): (late, begins[1]),
        }
        self._keep(before, kept, entry.columns)
        return Taken(len(good), len(late))

    def _keep(
        self,
        before: Manifest,
        kept: Mapping[TraceId, tuple[Sequence[Record], Sequence[int]]],
        columns: Schema,
    ) -> None:
        step = before.step + 1
        traces = {}
        for trace, (records, begins) in kept.items():
            frame = frame_of(records, columns.types, begins)
            traces[trace] = Trace(trace, before.runs(trace), self.store.files).append(frame, step).runs
        self.store.write_manifest(_next(before.with_traces(traces), step))

    # Steps

    def run(self, catalog: Catalog, views: Mapping[str, N.Node], finish: bool = False) -> Done:
        """Moves the bound as far as it goes and evaluates the slice; with `finish` to the end of time."""
        before = self.store.manifest()
        streams = [e for e in catalog if isinstance(e, StreamEntry)]
        bounds = {e.name: self._bounds(e, before, finish) for e in streams}
        firsts = [bounds[e.name][e.timelines[0].column] for e in streams]
        bound = min(firsts) if firsts else self._changed(before)
        step = before.step + 1
        if bound <= before.bound:
            self.store.write_manifest(_next(before, step, bounds=bounds))
            return Done(step, before.bound, {})
        slice_ = Slice(before.bound, bound, first=before.bound == BEFORE_ALL)
        plans = {name: lower(plan) for name, plan in views.items()}
        scans = {s: self._scan(s, before, slice_) for s in scans_of(plans.values())}
        partitions = self.store.settings.partitions
        done = evaluate(self.session, self.store.files, partitions, plans, scans, before.traces, step, slice_)
        traces = done.traces
        for entry in streams:
            inbox = TraceId("inbox", entry.name)
            traces[inbox] = tuple(r for r in before.runs(inbox) if r.greatest_from > bound)
        present = max([before.present, *(self._newest(e, before) for e in streams)])
        after = _next(before.with_traces(traces), step, bounds=bounds, bound=bound, present=present)
        self.store.write_manifest(after)
        self.store.clean()  # what tasks told, and files that no late manifest names, would pile up
        return Done(step, bound, done.changes)

    def _changed(self, manifest: Manifest) -> Chronon:
        """Without streams, time goes as far as the tables have changed."""
        return max(
            (r.greatest_from for runs in manifest.of("inbox").values() for r in runs), default=BEFORE_ALL
        )

    def _newest(self, entry: StreamEntry, manifest: Manifest) -> Chronon:
        return max((r.greatest_from for r in manifest.runs(TraceId("inbox", entry.name))), default=BEFORE_ALL)

    def _bounds(self, entry: StreamEntry, manifest: Manifest, finish: bool) -> dict[str, int]:
        """A stream that is fed by INSERT moves to the newest timestamp inserted, less its lateness."""
        known = manifest.bounds.get(entry.name, {})
        first = entry.timelines[0]
        newest = self._newest(entry, manifest)
        reached = BEFORE_ALL if newest == BEFORE_ALL else newest - first.lateness
        bounds = {line.column: known.get(line.column, BEFORE_ALL) for line in entry.timelines}
        bounds[first.column] = _LAST if finish else max(bounds[first.column], reached)
        return bounds

    def _scan(self, scan: P.Scan, manifest: Manifest, slice_: Slice) -> DataFrame:
        """The new rows of a stream or a table: those that begin in the slice."""
        runs = [r for r in manifest.runs(TraceId("inbox", scan.name)) if r.greatest_from > slice_.b0]
        rows = self._read([r for r in runs if r.least_from <= slice_.b1], scan.of)
        return rows.filter((F.col(FROM) > slice_.b0) & (F.col(FROM) <= slice_.b1))

    def _read(self, runs: Sequence[Run], types: tuple[DataType, ...]) -> DataFrame:
        schema = spark_schema(types)
        if not runs:
            return self.session.createDataFrame([], schema)
        read = ReadTask(
            tuple(r.path for r in runs), self.store.files, to_arrow_schema(schema, timezone="UTC")
        )
        return self.session.range(0, len(runs), 1, len(runs)).mapInArrow(read, schema)

    # Questions

    def ask(self, query: Query) -> DataFrame:
        """The answer of a query at an instant, or at the present, over the snapshots of views and tables."""
        manifest = self.store.manifest()
        if query.as_of is not None and query.as_of > manifest.bound:
            raise StoreError(
                f"nothing is known yet of that instant: the bound is {format_timestamp(manifest.bound)}",
                next_step="ask AS OF an earlier one, or run the pipeline first",
            )
        t = min(manifest.present, manifest.bound) if query.as_of is None else query.as_of
        stored = lower(_as_stored(query.plan))
        scans = {s: self._snapshot(s, manifest, t) for s in scans_of([stored])}
        with tempfile.TemporaryDirectory() as folder:
            answer = self._at(stored, scans, t, Files(folder))
        return _part(answer.toDF(*query.plan.schema.names), query)

    def _at(self, plan: P.Physical, scans: Mapping[P.Scan, DataFrame], t: Chronon, files: Files) -> DataFrame:
        """The records that hold at an instant, each as often as it occurs."""

        def task(node: P.Physical, layout: Layout) -> KernelTask:
            schema = to_arrow_schema(spark_schema(node.types), timezone="UTC")
            slice_ = Slice(BEFORE_ALL, _LAST, first=True)
            return KernelTask(node, layout, operator_name(node), {}, files, 0, slice_, schema)

        built = Step(self.session, scans, 1, True, task)
        rows = built.frames([plan])[0].filter((F.col("_from") <= t) & (F.col("_until") > t))
        columns = [c.name for c in plan.columns]
        counted = rows.groupBy(*columns).agg(F.sum("_n").alias("_n")).filter("_n > 0")
        copies = counted.withColumn("_copy", F.explode(F.sequence(F.lit(1), F.col("_n").cast("int"))))
        answer = copies.select(*columns).localCheckpoint()
        built.done()
        return answer

    def _snapshot(self, scan: P.Scan, manifest: Manifest, t: Chronon) -> DataFrame:
        """What a view or a table holds at an instant, as rows that hold just then."""
        kind = "view" if manifest.runs(TraceId("view", scan.name)) else "inbox"
        runs = [r for r in manifest.runs(TraceId(kind, scan.name)) if r.least_from <= t < r.greatest_until]
        rows = self._read(runs, scan.of).filter((F.col("_from") <= t) & (F.col("_until") > t))
        return rows.withColumns({"_from": F.lit(t).cast("long"), "_until": F.lit(t + 1).cast("long")})


def _as_stored(plan: N.Node) -> N.Node:
    """The plan over what a store keeps: views and tables by their name."""
    if isinstance(plan, N.View):
        return N.Stream(plan.name, Schema(tuple(_plain(f) for f in plan.schema)))
    if isinstance(plan, (N.Synchronize, N.SynchronizeOn, N.IStream, N.DStream, N.RStream)) or (
        isinstance(plan, N.TableJoin) and not plan.retroactive
    ):
        raise PlanError(
            f"{type(plan).__name__} needs what was before, and an ad hoc query sees one instant",
            next_step="make a view of it and ask the view",
        )
    if isinstance(plan, N.Stream):
        raise PlanError(
            f"the rows of the stream '{plan.name}' are not kept",
            next_step=f"make a view over it: CREATE VIEW … AS SELECT … FROM {plan.name}",
        )
    return N.with_inputs(plan, [_as_stored(i) for i in plan.inputs]) if plan.inputs else plan


def _plain(field: Field) -> Field:
    return replace(field, relation=None)


def _part(answer: DataFrame, query: Query) -> DataFrame:
    """The answer in its order, and the part of it that was asked for."""
    keys = []
    for expression, descending, nulls_first in query.order:
        key = F.expr(expression_sql(expression))
        if descending:
            keys.append(key.desc_nulls_first() if nulls_first else key.desc_nulls_last())
        else:
            keys.append(key.asc_nulls_first() if nulls_first else key.asc_nulls_last())
    shown = answer.orderBy(*keys) if keys else answer
    shown = shown.offset(query.offset) if query.offset else shown
    return shown if query.limit is None else shown.limit(query.limit)


def _fed_by_hand(entry: Entry) -> StreamEntry | TableEntry:
    if isinstance(entry, (StreamEntry, TableEntry)) and entry.source is None:
        return entry
    raise StoreError(f"rows go into a stream or a table without FROM, and '{entry.name}' is none")


def _next(manifest: Manifest, step: int, **changed: Any) -> Manifest:
    return replace(manifest, step=step, **changed)


def open_pipeline(path: str, session: SparkSession | None = None, partitions: int | None = None) -> Pipeline:
    """The pipeline of the store at a path, which is made where there is none; this process now writes it."""
    settings = None if partitions is None else Settings(partitions)
    return Pipeline(Store.open(path, settings, create=True).lock(), session)


def _instant(value: object) -> Chronon:
    if not isinstance(value, int):
        raise StoreError("a row without a timestamp cannot be taken in")
    return value
