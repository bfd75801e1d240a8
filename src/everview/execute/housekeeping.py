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

from everview.catalog import Catalog, StreamEntry, ViewEntry
from everview.execute.pieces import merge_waiting, pieces_of
from everview.execute.tasks import RUN_LINES, by_trace, read_lines, run_line, write_run
from everview.operators.columnar.frame import BEFORE_ALL, Frame, consolidate_frame, sum_begun
from everview.plan.views import next_name
from everview.storage.compaction import Policy, merges
from everview.storage.files import Files
from everview.storage.history import advance_history, horizons, last_instant
from everview.storage.manifest import Manifest
from everview.storage.packs import move_runs, packing
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace

POLICY = Policy(cancelling=False, fan=8, large=50_000)  # what is read by time needs no large files
_ANSWERS = Policy(cancelling=True)
MERGE_ON_DRIVER = 100_000  # rows; up to so many are merged without a Spark job

_MergeGroups = list[tuple[TraceId, tuple[Run, ...], int]]  # what is merged, and up to where it is forgotten


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
        manifest, scheduled=manifest.still_scheduled(), forgotten=advance_history(manifest, catalog)
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
            changed[trace] = tuple(r for r in runs if last_instant(r, entry) > ended[trace])
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


def merge(
    session: SparkSession, files: Files, manifest: Manifest, catalog: Catalog, policy: Policy | None = None
) -> Manifest:
    """Merge small runs that have added up: one job, if there are any.

    Rows of streams and tables that still wait for the bound stay apart from those that have passed it, so
    that a slice reads only its own. Where many runs of them wait, they are few rows each, and merged at once.
    """
    with packing(files, manifest.step) as packed:
        merged = _merge(session, packed, manifest, catalog, policy or POLICY)
        return merged.with_traces(move_runs(merged.traces, packed, merged.step))


def _merge(
    session: SparkSession, files: Files, manifest: Manifest, catalog: Catalog, policy: Policy
) -> Manifest:
    manifest = manifest.with_traces(merge_waiting(manifest, files, policy))
    ended = horizons(manifest, catalog)
    seen = min(manifest.bound, manifest.present)
    groups: _MergeGroups = []
    for trace, runs in manifest.traces.items():
        if trace.kind in ("state", "port", "scheduled"):
            continue
        horizon = seen if trace.kind == "complete" else ended.get(trace, BEFORE_ALL)
        waiting = trace.kind in ("inbox", "late", "rejected")
        passed = [r for r in runs if not waiting or r.greatest_from <= manifest.bound]
        own = _ANSWERS if trace.kind == "complete" else _spread(policy, trace)
        found = merges(passed, own, horizon)
        if trace in ended:
            # Rows that began before the history are summed, whenever a part of them is new.
            old = [r for r in runs if r.greatest_from <= horizon]
            found = merges([r for r in runs if r.greatest_from > horizon], own, horizon)
            found += merges(old, replace(own, cancelling=True), horizon)
        groups += [(trace, tuple(group), horizon) for group in found]
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


def _spread(policy: Policy, trace: TraceId) -> Policy:
    """Return when runs of a trace are merged; those of different views not all in the same steps."""
    more = zlib.crc32(trace.owner.encode("utf-8", "surrogatepass")) % policy.fan
    return replace(policy, fan=policy.fan + more)


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
                written = written.with_begins(small) if trace.kind == "view" else written
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
