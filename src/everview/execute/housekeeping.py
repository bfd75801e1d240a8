"""What keeps a store small: small runs are merged, old history is forgotten, unused state is dropped.

What is merged here are the rows of inboxes, the changes of views and the rows that were not taken; the
state of operators is merged by the tasks that read it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa  # type: ignore[import-untyped]
from msgspec.structs import replace as replace_run
from pyspark.sql import SparkSession

from everview.algebra.time import INFINITY
from everview.catalog import Catalog, EventStreamEntry, QueryEntry, StreamEntry, ViewEntry
from everview.execute.kept import REPLACED
from everview.execute.pieces import merge_waiting, pieces_of
from everview.execute.tasks import RUN_LINES, by_trace, read_lines, run_line, write_run
from everview.operators.columnar.frame import BEFORE_ALL, Frame, consolidate_frame, sum_begun
from everview.plan.views import next_name
from everview.storage.compaction import Policy, merges
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.packs import move_runs, packing
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace

POLICY = Policy(cancelling=False, fan=8, large=50_000)  # what is read by time needs no large files
_ANSWERS = Policy(cancelling=True)
MERGE_ON_DRIVER = 100_000  # rows; up to so many are merged without a Spark job

_MergeGroups = list[tuple[TraceId, tuple[Run, ...], int]]  # what is merged, and up to where it is forgotten


def horizons(manifest: Manifest, catalog: Catalog) -> dict[TraceId, int]:
    """Return the instant up to which the changes of each view may be forgotten."""
    ended = {
        e.name: manifest.forgotten.get(e.name, BEFORE_ALL) if e.least_changes else seen - e.history
        for e in catalog
        if isinstance(e, QueryEntry)
        and e.history < INFINITY
        and (seen := _seen(manifest, e)) > BEFORE_ALL + e.history
    }
    return {
        TraceId("view", name, part): instant
        for name, instant in ended.items()
        if instant > BEFORE_ALL
        for part in ("", REPLACED)
    }


def _seen(manifest: Manifest, entry: QueryEntry) -> int:
    """Return how far a view or an event stream has come: its history is counted back from there."""
    if isinstance(entry, EventStreamEntry):
        newest = (run.greatest_from for run in manifest.runs(TraceId("view", entry.name)))
        known = manifest.event_bounds.get(entry.name, {}).get(entry.timelines[0], BEFORE_ALL)
        # Without history there is no row to go by: everything up to the bound may be forgotten.
        return min(known, max(newest, default=BEFORE_ALL if entry.history else known))
    return min(manifest.bound, manifest.present)


def _last_instant(run: Run, entry: object) -> int:
    """Return the instant after which the rows of a run change nothing; rows of event streams never end."""
    return run.greatest_from if isinstance(entry, EventStreamEntry) else run.greatest_until


def _forgotten(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return up to which instant views forget their changes that retain a number of them in any case.

    Whole runs are forgotten, the oldest first, as long as enough changes are left.
    """
    found = {}
    for entry in catalog:
        if not isinstance(entry, QueryEntry) or not entry.least_changes:
            continue
        seen = _seen(manifest, entry)
        instant = manifest.forgotten.get(entry.name, BEFORE_ALL)
        traces = [TraceId("view", entry.name, part) for part in ("", REPLACED)]
        ends = {r.path: _last_instant(r, entry) for t in traces for r in manifest.runs(t)}
        runs = sorted((r for t in traces for r in manifest.runs(t)), key=lambda run: ends[run.path])
        left = sum(run.rows for run in runs)
        for run in runs:
            left -= run.rows
            if left < entry.least_changes or ends[run.path] > seen - entry.history:
                break
            instant = max(instant, ends[run.path])
        if instant > BEFORE_ALL:
            found[entry.name] = instant
    return found


def forget(manifest: Manifest, catalog: Catalog, operators: Iterable[str]) -> Manifest:
    """Return the manifest without rows that no query can read any more.

    Gone are the state of operators that no view has, all of entries that were dropped, rows of sources that
    every view has seen, runs of changes that ended before the history of their view, and what was scheduled
    for an instant that has passed.
    """
    alive = set(operators)
    names = set(catalog.entries) | {next_name(view).casefold() for view in manifest.next}
    sources = {e.name.casefold() for e in catalog if isinstance(e, StreamEntry) and e.source is not None}
    manifest = replace(
        manifest, scheduled=manifest.still_scheduled(), forgotten=_forgotten(manifest, catalog)
    )
    ended = horizons(manifest, catalog)
    waiting = defaultdict(set, {t: {c.number for c in cs} for t, cs in manifest.scheduled.items()})
    changed: dict[TraceId, tuple[Run, ...]] = {}
    for trace, runs in manifest.traces.items():
        if trace.kind == "port":
            continue
        passed = trace.kind == "scheduled" and trace.change not in waiting[trace.owner]
        if passed or trace.owner not in (alive if trace.kind == "state" else names):
            changed[trace] = ()
        elif trace.kind == "inbox" and trace.owner in sources:
            changed[trace] = tuple(r for r in runs if r.greatest_from > manifest.seen)
        elif trace.kind == "complete":
            changed[trace] = tuple(
                r for r in runs if r.greatest_until > min(manifest.bound, manifest.present)
            )
        elif trace in ended:
            entry = catalog.entries.get(trace.owner)
            changed[trace] = tuple(r for r in runs if _last_instant(r, entry) > ended[trace])
    left = manifest.with_traces(changed)
    return left.with_traces(pieces_of(left))


def refresh_answers(before: Manifest, after: Manifest, catalog: Catalog) -> Manifest:
    """Return the manifest with the new changes of COMPLETE views added to their present answers.

    The answer of such a view at the present is a trace of its own: the same runs at first, but merging makes
    them one table without a past, however long the history of the view grows.
    """
    changed = {}
    for entry in catalog:
        if isinstance(entry, ViewEntry) and entry.complete:
            view, answer = TraceId("view", entry.name), TraceId("complete", entry.name)
            known = {run.path for run in before.runs(view)}
            new = [run for run in after.runs(view) if run.path not in known]
            changed[answer] = (*after.runs(answer), *new)
    return after.with_traces(changed)


def merge(session: SparkSession, files: Files, manifest: Manifest, catalog: Catalog) -> Manifest:
    """Merge small runs that have added up: one job, if there are any.

    Rows of streams and tables that still wait for the bound stay apart from those that have passed it, so
    that a slice reads only its own. Where many runs of them wait, they are few rows each, and merged at once.
    """
    with packing(files, manifest.step) as packed:
        merged = _merge(session, packed, manifest, catalog)
        return merged.with_traces(move_runs(merged.traces, packed, merged.step))


def _merge(session: SparkSession, files: Files, manifest: Manifest, catalog: Catalog) -> Manifest:
    manifest = manifest.with_traces(merge_waiting(manifest, files, POLICY))
    ended = horizons(manifest, catalog)
    seen = min(manifest.bound, manifest.present)
    groups: _MergeGroups = []
    for trace, runs in manifest.traces.items():
        if trace.kind in ("state", "port", "scheduled"):
            continue
        horizon = seen if trace.kind == "complete" else ended.get(trace, BEFORE_ALL)
        waiting = trace.kind in ("inbox", "late", "rejected")
        passed = [r for r in runs if not waiting or r.greatest_from <= manifest.bound]
        policy = _ANSWERS if trace.kind == "complete" else _policy(trace)
        groups += [(trace, tuple(g), horizon) for g in merges(passed, policy, horizon)]
    if not groups:
        return manifest
    task = MergeTask(groups, files, manifest.step)
    if sum(run.rows for _, runs, _ in groups for run in runs) <= MERGE_ON_DRIVER:
        merged = by_trace(task.merged(range(len(groups))))
    else:
        parts = min(len(groups), session.sparkContext.defaultParallelism)
        lines = session.range(0, len(groups), 1, parts).mapInArrow(task, RUN_LINES).collect()
        merged = read_lines((line.trace, line.run) for line in lines)
    return manifest.with_traces(_replaced(manifest, groups, merged))


def _policy(trace: TraceId) -> Policy:
    """Return when runs of a trace are merged; those of different views not all in the same steps."""
    return replace(
        POLICY, fan=POLICY.fan + zlib.crc32(trace.owner.encode("utf-8", "surrogatepass")) % POLICY.fan
    )


def merge_inserted(files: Files, manifest: Manifest, name: str) -> Manifest:
    """Merge small runs of rows that were inserted into a stream or a table, of which each insertion adds one.

    Rows that wait for the bound stay apart from those that have passed it, and rows that event queries have
    seen from those that they have not.
    """
    groups: _MergeGroups = []
    for trace in (TraceId("inbox", name), TraceId("late", name)):
        runs = [run for run in manifest.runs(trace) if run.rows < POLICY.small]
        new = {run.path for run in manifest.new_arrivals(runs)}
        sides: dict[tuple[bool, bool], list[Run]] = defaultdict(list)
        for run in runs:
            sides[run.greatest_from <= manifest.bound, run.path in new].append(run)
        for side in sides.values():
            groups += [(trace, tuple(group), BEFORE_ALL) for group in merges(side, POLICY, BEFORE_ALL)]
    merged = by_trace(MergeTask(groups, files, manifest.step).merged(range(len(groups))))
    return manifest.with_traces(_replaced(manifest, groups, merged))


def _replaced(
    manifest: Manifest, groups: _MergeGroups, merged: Mapping[TraceId, tuple[Run, ...]]
) -> dict[TraceId, tuple[Run, ...]]:
    changed: dict[TraceId, Sequence[Run]] = {}
    for trace, group, _ in groups:
        gone = {run.path for run in group}
        changed[trace] = [r for r in changed.get(trace, manifest.runs(trace)) if r.path not in gone]
    return {trace: (*runs, *merged.get(trace, ())) for trace, runs in changed.items()}


@dataclass(frozen=True)
class MergeTask:
    """Writes groups of runs as one run each; the input rows are the numbers of the groups."""

    groups: _MergeGroups
    files: Files
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a line for each run that was written."""
        for batch in batches:
            for trace, run in self.merged(batch.column(0).to_pylist()):
                yield run_line(trace, run)

    def merged(self, numbers: Iterable[int]) -> Iterator[tuple[TraceId, Run]]:
        """Yield the runs that were written for some of the groups."""
        for number in numbers:
            trace, runs, horizon = self.groups[number]
            rows = Trace(trace, runs, self.files).read(until_after=horizon)
            small = rows if rows.is_empty() else _small(trace, runs, rows, horizon)
            if not small.is_empty():
                written = write_run(trace, small, self.files, self.step, merged=True)
                step = max(run.step for run in runs)  # whether event queries have seen the rows goes by it
                yield trace, replace_run(written, places=runs[0].places, step=step)


def _small(trace: TraceId, runs: Iterable[Run], rows: Frame, horizon: int) -> Frame:
    """Return as few rows as say the same from the horizon on.

    Changes of a view with retractions may cancel, those before the horizon also where they begin at different
    instants; rows of streams never cancel.
    """
    if trace.kind == "complete":
        return consolidate_frame(rows, horizon)
    if trace.kind == "view" and any(run.negative for run in runs):
        return consolidate_frame(sum_begun(rows, horizon))
    return rows
