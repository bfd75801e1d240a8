"""A batch as it comes from the sources: sorted into rows to take, late ones and refused ones.

A row is late iff a timestamp of it is not after the bound of its own stream, as it stood before the batch.
That is decided here, once. What a step does not use at once is kept: rows that wait for the bound in the
inbox of their stream, late and refused rows with the step, the reason and the original text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview.algebra.text import string_sql
from everview.algebra.time import INFINITY, format_timestamp
from everview.catalog import StreamEntry
from everview.kernels.frame import BEFORE_ALL, FROM, UNTIL, Frame, N
from everview.runtime.bounds import LAST, Arrived
from everview.runtime.files import Files
from everview.runtime.kept import long_sql
from everview.runtime.manifest import Manifest
from everview.runtime.runs import TraceId
from everview.runtime.sources import ORIGINAL, REASON, SOURCE, Fed, Sources
from everview.runtime.task import LINES, run_line
from everview.spark.exchange import Layout, slot
from everview.spark.physical import Scan, column

KIND = "_everview_kind"
GOOD, LATE, REJECTED = range(3)


class Batch:
    """The rows of one batch; they are read once, and kept in memory until the step is done."""

    def __init__(
        self, sources: Sources, manifest: Manifest, begin: int, frame: DataFrame | None = None
    ) -> None:
        """`begin` is when rows of tables hold from; `frame` has the batch, if the sources are streaming."""
        self.sources = sources
        self._manifest = manifest
        self._begin = begin
        lates = [_is_late(e, i, sources.layout, manifest) for i, e in enumerate(sources.entries)]
        kinds = [f"WHEN {SOURCE} = {i} AND ({late}) THEN {LATE}" for i, late in enumerate(lates) if late]
        kind = f"CASE WHEN {REASON} IS NOT NULL THEN {REJECTED} {' '.join(kinds)} ELSE {GOOD} END"
        froms = [f"WHEN {i} THEN {self._from(e, i)}" for i, e in enumerate(sources.entries)]
        from_ = f"CASE {SOURCE} {' '.join(froms)} END" if froms else "CAST(NULL AS BIGINT)"
        rows = sources.frame if frame is None else frame
        self.frame = rows.selectExpr("*", f"{kind} AS {KIND}", f"{from_} AS {FROM}").persist()
        self.arrived = self._arrived()

    def done(self) -> None:
        """Lets the rows go."""
        self.frame.unpersist()

    def _from(self, entry: Fed, number: int) -> str:
        if not isinstance(entry, StreamEntry):
            return long_sql(self._begin)
        return f"unix_micros({_line(entry, number, 0, self.sources.layout)})"

    def _arrived(self) -> dict[str, Arrived]:
        """What came for each stream and table, in one job."""
        columns = []
        for i, entry in enumerate(self.sources.entries):
            for kind in (GOOD, LATE, REJECTED):
                columns.append(f"count_if({SOURCE} = {i} AND {KIND} = {kind}) AS n{i}_{kind}")
            good = f"FILTER (WHERE {SOURCE} = {i} AND {KIND} = {GOOD})"
            for j, _ in enumerate(_lines(entry)):
                time = f"unix_micros({_line(entry, i, j, self.sources.layout)})"
                columns.append(f"max({time}) {good} AS newest{i}_{j}")
            columns.append(f"min({FROM}) {good} AS oldest{i}")
        found = self.frame.agg(*map(F.expr, columns)).collect()[0]
        arrived = {}
        for i, entry in enumerate(self.sources.entries):
            newest = {line: found[f"newest{i}_{j}"] for j, line in enumerate(_lines(entry))}
            arrived[entry.name] = Arrived(
                found[f"n{i}_{GOOD}"],
                found[f"n{i}_{LATE}"],
                found[f"n{i}_{REJECTED}"],
                {line: t for line, t in newest.items() if t is not None},
                found[f"oldest{i}"] if isinstance(entry, StreamEntry) else None,
            )
        return arrived

    def first_reason(self) -> str:
        """Why a row was refused: of one of them."""
        return str(self.frame.where(f"{KIND} = {REJECTED}").select(REASON).limit(1).collect()[0][0])

    def rows(self, scan: Scan, upto: int) -> DataFrame | None:
        """The good rows of a stream or a table that begin by an instant; None if there are none."""
        for i, entry in enumerate(self.sources.entries):
            if entry.name == scan.name and self.arrived[entry.name].rows:
                slots = self.sources.layout.sides[i]
                columns = [f"{slot(s)} AS {column(j)}" for j, s in enumerate(slots)]
                times = f"{FROM} > {long_sql(scan.since)} AND {FROM} <= {long_sql(upto)}"
                mine = self.frame.where(f"{SOURCE} = {i} AND {KIND} = {GOOD} AND {times}")
                return mine.selectExpr(*columns, FROM, f"{long_sql(INFINITY)} AS {UNTIL}", f"1L AS {N}")
        return None

    def kept(self, upto: int, step: int, files: Files, begin: int | None = None) -> DataFrame:
        """Lines that tell of the runs in which it is kept what no slice up to an instant takes.

        All rows of tables are kept: who begins later begins with them. Late and refused rows are known
        from `begin` on, else from the next slice on.
        """
        manifest = self._manifest
        tables = [str(i) for i, e in enumerate(self.sources.entries) if not isinstance(e, StreamEntry)]
        always = f" OR {SOURCE} IN ({', '.join(tables)})" if tables else ""
        rest = self.frame.where(f"{KIND} <> {GOOD} OR {FROM} > {long_sql(upto)}{always}")
        reasons = [
            f"WHEN {SOURCE} = {i} AND {KIND} = {LATE} THEN {_why_late(e, i, self.sources.layout, manifest)}"
            for i, e in enumerate(self.sources.entries)
            if _is_late(e, i, self.sources.layout, manifest)
        ]
        reason = f"CASE {' '.join(reasons)} ELSE {REASON} END" if reasons else REASON
        texts = [
            f"WHEN {SOURCE} = {i} AND {KIND} = {LATE} THEN {_as_text(e, i, self.sources.layout)}"
            for i, e in enumerate(self.sources.entries)
        ]
        text = f"CASE {' '.join(texts)} ELSE {ORIGINAL} END"
        slots = [slot(i) for i in range(len(self.sources.layout.slots))]
        shown = rest.selectExpr(SOURCE, KIND, FROM, *slots, f"{reason} AS {REASON}", f"{text} AS {ORIGINAL}")
        names = tuple(e.name for e in self.sources.entries)
        begin = min(upto + 1, LAST) if begin is None else begin
        return shown.mapInArrow(KeepTask(names, self.sources.layout, files, step, begin), LINES)


def _lines(entry: Fed) -> list[str]:
    return [line.column for line in entry.timelines] if isinstance(entry, StreamEntry) else []


def _line(entry: StreamEntry | Fed, number: int, line: int, layout: Layout) -> str:
    """The slot of a time line."""
    return slot(layout.sides[number][entry.columns.names.index(_lines(entry)[line])])


def _is_late(entry: Fed, number: int, layout: Layout, manifest: Manifest) -> str:
    """When a row is late; an empty condition if none can be."""
    bounds = manifest.bounds.get(entry.name, {})
    return " OR ".join(
        f"unix_micros({_line(entry, number, j, layout)}) <= {long_sql(bounds[name])}"
        for j, name in enumerate(_lines(entry))
        if bounds.get(name, BEFORE_ALL) > BEFORE_ALL
    )


def _why_late(entry: Fed, number: int, layout: Layout, manifest: Manifest) -> str:
    bounds = manifest.bounds.get(entry.name, {})
    cases = []
    for j, name in enumerate(_lines(entry)):
        if bounds.get(name, BEFORE_ALL) > BEFORE_ALL:
            late = f"unix_micros({_line(entry, number, j, layout)}) <= {long_sql(bounds[name])}"
            cases.append(f"WHEN {late} THEN {string_sql(why_late(name, bounds[name]))}")
    return f"CASE {' '.join(cases)} END"


def why_late(line: str, bound: int) -> str:
    """What is said of a late row.

    >>> why_late("ts", 0)
    'ts is not after 1970-01-01T00:00:00.000000, up to where all was known'
    """
    return f"{line} is not after {format_timestamp(bound)}, up to where all was known"


def _as_text(entry: Fed, number: int, layout: Layout) -> str:
    """A row as JSON, with the names of its columns."""
    places = zip(entry.columns.names, layout.sides[number], strict=True)
    named = ", ".join(f"{string_sql(name)}, {slot(place)}" for name, place in places)
    return f"to_json(named_struct({named}))"


@dataclass(frozen=True)
class KeepTask:
    """Writes rows that are kept, a run for each stream and kind, and tells which."""

    names: tuple[str, ...]
    layout: Layout
    files: Files
    step: int
    begin: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A line for each run that was written."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        for (source, kind), rows in frame.partition_by(SOURCE, KIND, as_dict=True).items():
            trace, kept = self._kept(int(source), int(kind), rows)
            yield run_line(trace, kept, self.files, self.step)

    def _kept(self, source: int, kind: int, rows: Frame) -> tuple[TraceId, Frame]:
        own = [pl.col(slot(s)) for s in self.layout.sides[source]]
        said = [pl.lit(self.step, pl.Int64), pl.col(REASON), pl.col(ORIGINAL)]
        parts = {GOOD: own, LATE: [*own, *said], REJECTED: said}[kind]
        begin = pl.col(FROM) if kind == GOOD else pl.lit(self.begin, pl.Int64).alias(FROM)
        times = [begin, pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.lit(1, pl.Int64).alias(N)]
        trace = TraceId({GOOD: "inbox", LATE: "late", REJECTED: "rejected"}[kind], self.names[source])
        return trace, rows.select(*(e.alias(column(i)) for i, e in enumerate(parts)), *times)
