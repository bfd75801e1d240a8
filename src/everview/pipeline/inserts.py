"""Rows that are inserted by hand, and changes of tables: each is a step of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from everview.algebra.time import LEAST, Chronon
from everview.catalog import Catalog, Entry, StreamEntry, TableEntry
from everview.errors import StoreError, format_count
from everview.execute.evaluate import without_fsync
from everview.execute.failures import explained_failures
from everview.execute.housekeeping import merge_inserted
from everview.execute.tasks import write_rows
from everview.ingest.bounds import record_arrivals
from everview.ingest.clauses import stamped_rows
from everview.ingest.inserts import table_rows
from everview.ingest.late import split_late
from everview.ingest.scheduled import changes_after
from everview.ingest.sources import Sources
from everview.ingest.tables import Assignments, carry_out, change_of, require_key, rows_after
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE
from everview.pipeline.writer import CLEAN_EVERY, StoreWriter, change_begin
from everview.query.questions import StoreSnapshot
from everview.sql.statements import Selection
from everview.storage.arrivals import Arrived
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace


def insert_rows(
    writer: StoreWriter, entry: Entry, rows: object, at: Chronon | None, lossless: bool
) -> Arrived:
    """Write rows into the inbox of a stream or a table; late rows go to stream$late.

    A Spark frame whose types fit is cast; with `lossless`, a value that the cast would change is refused.
    """
    target = _fed_by_hand(entry)
    if isinstance(rows, DataFrame):
        return _insert_frame(writer, target, rows, at, lossless)
    with writer.one_at_a_time:
        before = writer.store.manifest()
        step = before.step + 1
        begin = change_begin(before, at) if isinstance(target, TableEntry) else None
        came = table_rows(rows, target, begin, lambda: writer.session)
        came = stamped_rows(came, target, before, writer.now())
        good, late, arrived = split_late(came, target, before, step)
        own = [column(i) for i in range(len(target.columns))]
        parts = {TraceId("inbox", target.name): good.select(*own, *CHANGE)}
        parts |= {} if late is None else {TraceId("late", target.name): late}
        traces = {
            trace: Trace(trace, before.runs(trace), writer.store.files).append(part, step).runs
            for trace, part in parts.items()
        }
        _finish_intake(writer, target, before, arrived, traces, at)
        return arrived


def _insert_frame(
    writer: StoreWriter,
    target: StreamEntry | TableEntry,
    rows: DataFrame,
    at: Chronon | None,
    lossless: bool,
) -> Arrived:
    """Do the same for a Spark frame, whose rows are not collected on the driver."""
    with explained_failures(doing=f"rows for '{target.name}' cannot be taken"), writer.one_at_a_time:
        before = writer.store.manifest()
        begin = LEAST if isinstance(target, StreamEntry) else change_begin(before, at)
        sources = Sources.of_frame(rows, target, lossless)
        taken = writer.write_batch(sources, sources.frame, before, begin, writer.now())
        arrived = taken.arrived[target.name]
        if arrived.rejected:
            rows_text = format_count(arrived.rejected, "row")
            raise StoreError(
                f"{rows_text} for '{target.name}' cannot be taken: {taken.reason}",
                next_step="leave such rows out, or mend them",
            )
        traces = {trace: (*before.runs(trace), *runs) for trace, runs in taken.traces.items()}
        _finish_intake(writer, target, before, arrived, traces, at)
        return arrived


def fill_table(writer: StoreWriter, entry: TableEntry, rows: DataFrame) -> None:
    """Write the first rows of a table; remove what an interrupted attempt has left."""
    with writer.one_at_a_time:
        before, trace = writer.store.manifest(), TraceId("inbox", entry.name)
        if before.runs(trace):
            writer.store.write_manifest(replace(before.with_traces({trace: ()}), step=before.step + 1))
        _insert_frame(writer, entry, rows, None, lossless=False)


def _finish_intake(
    writer: StoreWriter,
    target: StreamEntry | TableEntry,
    before: Manifest,
    arrived: Arrived,
    traces: Mapping[TraceId, tuple[Run, ...]],
    at: Chronon | None,
) -> None:
    """Commit inserted rows; those of a table follow the changes that are scheduled after them."""
    step = before.step + 1
    trace = TraceId("inbox", target.name)
    new = traces.get(trace, ())[len(before.runs(trace)) :]
    if isinstance(target, TableEntry) and new:
        begin = change_begin(before, at)
        later = changes_after(before, target, begin)
        if later or target.key:
            kept = writer.kept(before, Catalog({target.name.casefold(): target}))
            if later:
                followed = rows_after(kept, target, kept.read(new, target.columns.types), later)
                new = write_rows(followed, trace, kept.files, step)
                traces = {**traces, trace: (*before.runs(trace), *new)}
            require_key(kept, target, new, begin)
    known = record_arrivals(before, {target.name: arrived}, writer.now())
    _commit(writer, target, before, replace(known.with_traces(traces), step=step))


def _commit(writer: StoreWriter, target: StreamEntry | TableEntry, before: Manifest, after: Manifest) -> None:
    """Commit a step, and keep the number of files bounded however many such steps there are."""
    writer.commit_step(before, merge_inserted(without_fsync(writer.store.files), after, target.name))
    if after.step % CLEAN_EVERY == 0:
        writer.store.clean()


def change_table(
    writer: StoreWriter,
    snapshot: StoreSnapshot,
    entry: TableEntry,
    rows: Selection,
    assignments: Assignments | None,
    at: Chronon | None,
) -> int:
    """Execute an UPDATE, or a DELETE if there are no assignments; return how many rows it changes."""
    with explained_failures(doing=f"'{entry.name}' cannot be changed"):
        before = writer.store.manifest()
        step, begin = before.step + 1, change_begin(before, at)
        change = change_of(entry, rows, assignments, begin, step)
        done = carry_out(snapshot.kept, snapshot.relation, entry, change, rows)
        after = replace(before.with_traces(done.traces), step=step, scheduled=done.scheduled)
        _commit(writer, entry, before, after)
        return done.rows


def _fed_by_hand(entry: Entry) -> StreamEntry | TableEntry:
    if isinstance(entry, (StreamEntry, TableEntry)) and entry.source is None:
        return entry
    raise StoreError(f"rows go into a stream or a table without FROM, and '{entry.name}' is none")
