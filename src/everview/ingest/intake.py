"""The intake of a batch: one job splits it into accepted, late and rejected rows, and writes them.

Rows that are taken go into the inbox of their stream, where they wait for the bound, and as pieces to the
ports that will take them (`execute/pieces.py`); late and refused ones beside it. The tasks report how far
time can go, and only then the slice is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from everview.algebra.time import INFINITY
from everview.catalog import FedEntry, StreamEntry, TableEntry, given_entry
from everview.execute.exchange import SlotLayout, slot
from everview.execute.lanes import InputProjection
from everview.execute.pieces import ArrivalId, write_piece
from everview.execute.tasks import RUN_LINES, by_trace, freeze_imports, report_line, write_run
from everview.ingest.changed_files import ChangedFile
from everview.ingest.clauses import stamped_rows
from everview.ingest.differences import LEFT_OUT, MOST_REPORTED, ColumnDifference, left_out
from everview.ingest.json_keys import undeclared_keys
from everview.ingest.late import known_from, split_late
from everview.ingest.reading import (
    BLOCK,
    FILE,
    ORIGINAL,
    PART,
    PUNCTUATES,
    REASON,
    SOURCE,
    TIME,
    has_json_lines,
    has_parts,
    has_versions,
)
from everview.ingest.refused import REJECTION_REASON as WHY
from everview.ingest.refused import refused_rows, row_text, split_refused
from everview.ingest.sources import Sources
from everview.ingest.table_keys import INDEX, settle_keys
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N
from everview.storage.arrivals import Arrived
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.packs import packing
from everview.storage.records import decode_record, encode_record
from everview.storage.runs import Run, TraceId, Traces

_WIDE = 100  # columns; pyspark asks Java for each of them in every step, so that more are sent as one
_ROW = "_row"


@dataclass(frozen=True)
class IntakeResult:
    """What arrived for each stream and table, the runs that were written, and the reason of one rejected row.

    `changed` has all files that are known to have changed after they were read, if more were found now.
    """

    arrived: Mapping[str, Arrived]
    traces: Traces
    reason: str | None = None
    changed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def with_changed_files(
        self, found: Mapping[str, Sequence[ChangedFile]], before: Manifest, files: Files
    ) -> IntakeResult:
        """Add a rejected row for each file that was found changed."""
        if not found:
            return self
        arrived, traces, changed = dict(self.arrived), dict(self.traces), dict(before.changed)
        for name, those in found.items():
            trace = TraceId("rejected", name)
            reasons, paths = pl.Series([f.reason for f in those]), pl.Series([f.path for f in those])
            rows = refused_rows(reasons, paths, before.step + 1, known_from(before))
            traces[trace] = (*traces.get(trace, ()), write_run(trace, rows, files, before.step + 1))
            arrived[name] = arrived.get(name, Arrived()) + Arrived(rejected=len(those))
            changed[name] = {**changed.get(name, {}), **{f.path: f.now for f in those}}
        return replace(self, arrived=arrived, traces=traces, changed=changed)


def take_in(
    sources: Sources,
    frame: DataFrame,
    manifest: Manifest,
    begin: int,
    step: int,
    files: Files,
    partitions: int,
    now: int,
) -> IntakeResult:
    """Write the rows of a batch into the store; `begin` is when those of tables hold from.

    `now` is the time of the clock, the same for all tasks of a step.
    """
    known = replace(manifest, traces={}, marks=())
    task = IntakeTask(
        sources.entries,
        sources.layout,
        sources.projections,
        known,
        begin,
        step,
        files,
        partitions,
        now,
        sources.differences,
    )
    if len(sources.frame.columns) > _WIDE:
        frame = frame.selectExpr(f"struct(*) AS {_ROW}")
    lines = [decode_record(line.run, _TaskIntake) for line in frame.mapInArrow(task, RUN_LINES).collect()]
    arrived = {entry.name: Arrived() for entry in sources.entries}
    for line in lines:
        for name, came in line.arrived.items():
            arrived[name] += came
    reason = next((line.reason for line in lines if line.reason is not None), None)
    traces = by_trace(pair for line in lines for pair in line.traces)
    for entry in sources.entries:
        aside = [run for line in lines for run in line.aside.get(entry.name, ())]
        if aside and isinstance(entry, TableEntry):
            held = manifest.runs(TraceId("inbox", entry.name))
            settled = settle_keys(frame.sparkSession, files, entry, held, aside, begin, step)
            twice = sum(run.rows for run in settled.get(TraceId("rejected", entry.name), ()))
            arrived[entry.name] += Arrived(-twice, rejected=twice)
            traces |= {trace: (*traces.get(trace, ()), *runs) for trace, runs in settled.items()}
    return IntakeResult(arrived, traces, reason)


@dataclass
class _TaskIntake:
    """What a task has written."""

    arrived: dict[str, Arrived] = field(default_factory=dict)
    traces: list[tuple[TraceId, Run]] = field(default_factory=list)
    aside: dict[str, list[Run]] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True)
class IntakeTask:
    """Sorts the rows of a batch and writes them; reports what came, and which runs were written.

    Rows of a table with a key are first written to runs that no manifest names: which of them count is known
    only when all have arrived.
    """

    entries: tuple[FedEntry, ...]
    layout: SlotLayout
    projections: tuple[Mapping[str, InputProjection], ...]
    manifest: Manifest
    begin: int
    step: int
    files: Files
    partitions: int
    now: int
    found_columns: Accumulator[frozenset[ColumnDifference]] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one report line, if there were rows."""
        received = [_unpack_batch(b) for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received), rechunk=False)
        assert isinstance(frame, pl.DataFrame)
        done = _TaskIntake()
        with packing(self.files, self.step) as files:
            task = replace(self, files=files)
            for number, rows in _by_source(frame):
                if number >= 0:  # the heartbeat has no rows of its own
                    task._take(number, rows, done)
        yield report_line(encode_record(done).decode())
        freeze_imports()

    def _take(self, number: int, rows: Frame, done: _TaskIntake) -> None:
        entry = self.entries[number]
        refused = rows.height - rows.get_column(REASON).null_count()
        if refused:
            wrong = rows.filter(pl.col(REASON).is_not_null())
            text = row_text(self._wide(wrong, number), entry.columns.names)
            self._reject(entry, wrong[REASON], text, done)
            rows = rows.filter(pl.col(REASON).is_null())
        self._find_keys(entry, rows)
        wide = stamped_rows(self._wide(rows, number), entry, self.manifest, self.now)
        wide, wrong = split_refused(wide, entry, self.now, self.begin)
        if not wrong.is_empty():
            refused += wrong.height
            self._reject(entry, wrong[WHY], row_text(wrong, entry.columns.names), done)
        good, late, arrived = split_late(wide, entry, self.manifest, self.step)
        done.arrived[entry.name] = replace(arrived, rejected=refused)
        if late is not None:
            done.traces.append(self._written(TraceId("late", entry.name), late))
        if good.is_empty():
            return
        inbox = TraceId("inbox", entry.name)
        if FILE in good.columns:
            _, run = self._written(inbox, good)
            done.aside.setdefault(entry.name, []).append(run)
            return
        lanes = self.projections[number]
        arrival = ArrivalId.of(self.step, lanes)
        own = [column(i) for i in range(len(entry.columns))]
        done.traces.append((inbox, arrival.write(inbox, good.select(*own, *CHANGE), self.files)))
        context = TaskContext.get()
        here = 0 if context is None else context.partitionId()
        for key, lane in lanes.items():
            port = lane.port(key)
            piece = write_piece(port, lane, good, arrival, self.files, self.partitions, here)
            done.traces += [] if piece is None else [(port, piece)]

    def _find_keys(self, entry: FedEntry, rows: Frame) -> None:
        """Report keys of JSON objects that are not declared, unless they were reported before."""
        if self.found_columns is None or not has_json_lines(entry):
            return
        told = self.manifest.told.get(entry.name, {}).get(LEFT_OUT, ())
        if len(told) < MOST_REPORTED:
            declared = given_entry(entry).columns.names
            keys = undeclared_keys(rows.get_column(ORIGINAL), (*declared, *told))
            self.found_columns.add(left_out(entry.name, keys))

    def _wide(self, rows: Frame, number: int) -> Frame:
        """Return the rows with the names of their columns, the change, and the values for their lanes."""
        entry = self.entries[number]
        own = {slot(s): column(i) for i, s in enumerate(self.layout.sides[number])}
        projected = {c for projection in self.projections[number].values() for c in projection.values()}
        projected -= {*own.values(), *CHANGE}
        begin = rows.get_column(FROM) if isinstance(entry, StreamEntry) else pl.lit(self.begin, pl.Int64)
        columns = [rows.get_column(old).alias(new) for old, new in own.items()]
        made = pl.DataFrame([*columns, *map(rows.get_column, (*sorted(projected), ORIGINAL))])
        if has_versions(entry):
            made = made.with_columns(rows.get_column(c) for c in (FILE, TIME, BLOCK)).with_columns(
                pl.int_range(pl.len(), dtype=pl.Int64).alias(INDEX)
            )
        beside = [PUNCTUATES, *([PART] if has_parts(entry) else [])]
        made = made.with_columns(rows.get_column(c) for c in beside if c in rows.columns)
        return made.with_columns(
            begin.alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.lit(1, pl.Int64).alias(N)
        )

    def _reject(self, entry: FedEntry, reason: pl.Series, text: pl.Series, done: _TaskIntake) -> None:
        done.reason = done.reason or str(reason[0])
        rows = refused_rows(reason, text, self.step, known_from(self.manifest))
        done.traces.append(self._written(TraceId("rejected", entry.name), rows))

    def _written(self, trace: TraceId, rows: Frame) -> tuple[TraceId, Run]:
        return trace, write_run(trace, rows, self.files, self.step)


def _unpack_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with its columns, which may come as one."""
    return pa.RecordBatch.from_struct_array(batch.column(0)) if batch.schema.names == [_ROW] else batch


def _by_source(frame: Frame) -> Iterator[tuple[int, Frame]]:
    """Yield the rows of each source; mostly a task has those of one."""
    numbers = frame.get_column(SOURCE)
    if numbers.min() == numbers.max():
        yield int(numbers[0]), frame
    else:
        for (number,), rows in frame.partition_by(SOURCE, as_dict=True).items():
            yield int(number), rows
