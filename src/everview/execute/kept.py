"""The kept rows of a store as Spark frames: streams, tables, views, late and rejected rows, clock ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S
from pyspark.sql.pandas.types import to_arrow_schema

from everview import operators as P
from everview.algebra.time import INFINITY, Grid
from everview.algebra.types import DataType
from everview.catalog import CLOCK, Catalog, EventStreamEntry, StreamEntry, TableEntry, untaken_columns
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.tasks import ReadTask, layout_of
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, N, Slice
from everview.operators.columnar.types import series_of
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import REPLACED, Run, TraceId


class Kept:
    """Reads the rows of the runs that a manifest names.

    Runs that have no more than `few` rows together are read at once, by the driver, into one partition:
    Spark then plans no exchange above them, and an answer over them is one task.
    """

    def __init__(
        self, session: SparkSession, files: Files, manifest: Manifest, catalog: Catalog, few: int = 0
    ) -> None:
        self.few = few
        self.session = session
        self.files = files
        self.manifest = manifest
        self.catalog = catalog

    def new_rows(
        self, scan: P.ScanOperator, b0: int, b1: int, runs: Sequence[Run] | None = None
    ) -> DataFrame | None:
        """Return the rows of a stream or a table that begin in (b0, b1], of all its runs or of some.

        Return None if no run can have such rows.
        """
        b0 = max(b0, scan.since)
        if self.is_clock(scan):
            return self._ticks(b0, b1)
        there = self.runs(scan) if runs is None else runs
        due = [r for r in there if r.greatest_from > b0 and r.least_from <= b1]
        return self._read_scan(scan, due, (b0, b1)) if due else None

    def arrivals(self, scan: P.ScanOperator, slice_: Slice, runs: Sequence[Run] | None) -> DataFrame | None:
        """Return the rows of a stream that event queries have not seen, of all its runs or of some.

        The clock ticks by the store's slice. Return None if there are none.
        """
        if self.is_clock(scan):
            return self._ticks(slice_.b0, slice_.b1) if slice_.b1 > slice_.b0 else None
        new = self.manifest.new_arrivals(self.runs(scan)) if runs is None else runs
        return self._read_scan(scan, new) if new else None

    def earlier_arrivals(self, scan: P.ScanOperator, slice_: Slice) -> DataFrame | None:
        """Return the rows of a stream that event queries have seen, or would have if there were any."""
        if self.is_clock(scan):
            return self._ticks(slice_.b0, slice_.b1)
        if scan.since > BEFORE_ALL:  # it cannot be read again: only what comes from now on counts
            return None
        seen = [run for run in self.runs(scan) if run.step <= self.manifest.seen_by_events]
        return self._read_scan(scan, seen) if seen else None

    def known_rows(self, scan: P.ScanOperator, upto: int) -> DataFrame:
        """Return all kept rows of a stream, a table or a view that begin by an instant."""
        if self.is_clock(scan):
            return self._ticks(BEFORE_ALL, upto)
        runs = [r for r in self.runs(scan) if r.least_from <= upto]
        return self._read_scan(scan, runs, (scan.since, upto))

    def all_rows(self, scan: P.ScanOperator) -> DataFrame:
        """Return all kept rows that a scan reads."""
        return self._read_scan(scan, self.runs(scan))

    def later_rows(self, scan: P.ScanOperator, b0: int) -> DataFrame:
        """Return all kept changes of a view that begin after an instant, including those of the future."""
        return self._read_scan(scan, self.runs(scan), (b0, INFINITY))

    def rows_at(self, scan: P.ScanOperator, t: int, now: bool = False) -> DataFrame:
        """Return the rows that hold at an instant, as rows of that instant; not consolidated.

        At the present, a COMPLETE view has its answer ready.
        """
        if self.is_clock(scan):
            rows = self._ticks(BEFORE_ALL, t)
        else:
            runs = [r for r in self._runs_at(scan, t, now) if r.least_from <= t < r.greatest_until]
            rows = self._read_scan(scan, runs).filter(f"{FROM} <= {long_sql(t)} AND {UNTIL} > {long_sql(t)}")
        columns = [P.column(i) for i in range(len(scan.of))]
        return rows.selectExpr(*columns, f"{long_sql(t)} AS {FROM}", f"{long_sql(t + 1)} AS {UNTIL}", N)

    def _runs_at(self, scan: P.ScanOperator, t: int, now: bool) -> tuple[Run, ...]:
        if scan.source == "view" and now:
            return self.manifest.runs(TraceId("complete", scan.relation)) or self.runs(scan)
        if scan.source == "view" and t < self._replaced_at(scan.relation):
            return self.manifest.runs(TraceId("view", scan.relation, REPLACED))
        return self.runs(scan)

    def _replaced_at(self, view: str) -> int:
        """Return the instant before which another definition of a view counts, if its changes are kept."""
        found = self.manifest.replaced.get(view)
        return BEFORE_ALL if found is None or found.anew else found.at

    def runs(self, scan: P.ScanOperator) -> tuple[Run, ...]:
        """Return the runs that a scan reads; those of a stream include rows that were re-admitted."""
        trace = self.trace(scan)
        runs = self.manifest.runs(trace)
        return (*runs, *self.manifest.admitted(trace.owner)) if trace.kind == "inbox" else runs

    def trace(self, scan: P.ScanOperator) -> TraceId:
        """Return the trace that a scan reads."""
        if scan.source == "view":
            return TraceId("view", scan.relation)
        if scan.relation.casefold() not in self.catalog.entries:
            stream, _, kind = scan.relation.rpartition("$")
            if kind in ("late", "rejected"):
                return TraceId(kind, stream)
        is_event = isinstance(self.catalog.entries.get(scan.relation.casefold()), EventStreamEntry)
        return TraceId("view" if is_event else "inbox", scan.relation)

    def is_clock(self, scan: P.ScanOperator) -> bool:
        """Return whether a scan reads the built-in clock."""
        return scan.relation == CLOCK and CLOCK not in self.catalog.entries

    def _read_scan(
        self, scan: P.ScanOperator, runs: Sequence[Run], begins: tuple[int, int] | None = None
    ) -> DataFrame:
        """Return the rows of some runs that a scan reads, perhaps fewer columns than there are now.

        What columns hold in rows from before they were added is their DEFAULT, or NULL.
        """
        trace, size = self.trace(scan), len(scan.of)
        entry = self.catalog.entries.get(trace.owner)
        if not isinstance(entry, (StreamEntry, TableEntry)) or trace.kind not in ("inbox", "late"):
            return self.read(runs, scan.of, begins)
        own, more = len(entry.columns), len(untaken_columns(entry, "rejected"))
        positions = list(range(size))
        if trace.kind == "late":
            positions = [*range(size - more), *range(own, own + more)]
        defaults, fields = dict(entry.defaults), entry.columns.fields
        constants = {
            i: series_of([defaults[fields[p].name]], fields[p].type)
            for i, p in enumerate(positions)
            if own - entry.added <= p < own and fields[p].name in defaults
        }
        return self.read(runs, scan.of, begins, positions, constants)

    def read(
        self,
        runs: Sequence[Run],
        types: tuple[DataType, ...],
        begins: tuple[int, int] | None = None,
        positions: Sequence[int] | None = None,
        constants: Mapping[int, pl.Series] = MappingProxyType({}),
    ) -> DataFrame:
        """Return the rows of some runs; with bounds, those that begin in (b0, b1].

        The bounds are no part of Spark's plan, so that it is planned and compiled once for all steps.
        `positions` are those of the columns, `constants` what some hold where a run does not have them.
        """
        schema = spark_schema(types)
        if not runs:
            return empty_rows(self.session, schema)
        paths = tuple(r.path for r in runs)
        places = range(len(types)) if positions is None else positions
        layouts = tuple(layout_of(run, places, constants) for run in runs)
        read = ReadTask(paths, self.files, to_arrow_schema(schema, timezone="UTC"), begins, layouts)
        if sum(run.rows for run in runs) <= self.few:
            numbers = pa.record_batch([pa.array(range(len(runs)), pa.int64())], ["id"])
            table = pa.Table.from_batches(read([numbers]), read.output)
            return self.session.createDataFrame(table, schema).coalesce(1)
        parts = min(len(runs), self.session.sparkContext.defaultParallelism)
        return self.session.range(0, len(runs), 1, parts).mapInArrow(read, schema)

    def _ticks(self, b0: int, b1: int) -> DataFrame:
        """Return the ticks of the clock, from the least timestamp of the first slice to the present."""
        start, present = self.manifest.clock_range
        end, grain = min(b1, present), self.catalog.clock_grain
        if end < start:
            return empty_rows(self.session, spark_schema(P.ScanOperator(CLOCK, _CLOCK_TYPES).types))
        first = Grid(grain).ceil(max(start, b0 + 1))
        ticks = self.session.range(first, end + 1, grain, 1)
        return ticks.selectExpr(
            "timestamp_micros(id) AS c0", f"id AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}", f"1L AS {N}"
        )


_CLOCK_TYPES = (DataType("TIMESTAMP"),)


def empty_rows(session: SparkSession, schema: S.StructType) -> DataFrame:
    """Return a frame without rows that Spark evaluates without a job."""
    columns = [f"CAST(NULL AS {f.dataType.simpleString()}) AS `{f.name}`" for f in schema]
    return session.range(0, 1, 1, 1).selectExpr(*columns).where("false")


def unite(one: DataFrame | None, other: DataFrame | None) -> DataFrame | None:
    """Return the rows of two frames of the same columns, either of which may be missing."""
    if one is None or other is None:
        return one if other is None else other
    return one.unionAll(other)
