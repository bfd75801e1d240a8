"""From one manifest to the next: the slice of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from everview import operators as P
from everview.catalog import QueryEntry, StreamEntry
from everview.compile_store import CompiledStore, catalog_reads
from everview.execute.evaluate import evaluate_slice, scans_of, without_fsync
from everview.execute.event_bounds import MARKS, step_slices, with_event_bounds
from everview.execute.failures import failure
from everview.execute.housekeeping import forget, merge, refresh_answers
from everview.execute.isolate import failing_views
from everview.execute.kept import Kept
from everview.execute.lanes import Lane, lanes_of
from everview.execute.pieces import find_due_pieces
from everview.execute.prepare import SliceOutput, StepStages
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan.views import next_name
from everview.storage.files import Files
from everview.storage.manifest import Manifest, SetAside
from everview.storage.plans import save_plans
from everview.storage.store import Store


def first_instant(manifest: Manifest) -> int:
    """Return the instant from which a view answers that begins now, at the bound."""
    return min(manifest.bound, manifest.present)


@dataclass(frozen=True)
class SliceResult:
    """A step: the store after it, the number of changes of each view, and the views with which it was run."""

    manifest: Manifest
    changes: dict[str, int]
    views: CompiledStore


def next_slice(
    session: SparkSession, store: Store, views: CompiledStore, before: Manifest, moved: Manifest
) -> SliceResult:
    """Evaluate a step in which the bound moved. Views that make it fail are set aside; the others go on."""
    step = before.step + 1
    files = store.files
    changes = dict.fromkeys(views.plans, 0)
    if moved.bound > before.bound or (views.events and _events_go_on(before, moved)):
        try:
            done = _evaluate(session, store, views, before, moved)
        except Exception as error:
            failed = failing_views(
                list(views.running),
                lambda names: _evaluate(session, store, views.only(names), before, moved),
                error,
            )
            views = views.without(failed)
            done = _evaluate(session, store, views, before, moved)
            moved = _set_aside(moved, views, failed, before)
        moved = moved.with_traces(done.traces)
        changes |= {view: rows for view, rows in done.changes.items() if view in changes}
    marks = (*before.marks[-MARKS:], (step, moved.bound))
    moved = with_event_bounds(replace(moved, step=step, marks=marks, evaluated=step), views)
    moved = refresh_answers(before, moved, views.catalog)
    moved = with_plans(moved, views, files)
    after = forget(moved, views.catalog, views.operator_names())
    return SliceResult(merge(session, without_fsync(files), after, views.catalog), changes, views)


def _evaluate(
    session: SparkSession, store: Store, views: CompiledStore, before: Manifest, moved: Manifest
) -> SliceOutput:
    files, partitions, plans = store.files, store.settings.partitions, views.running
    slices = step_slices(before, moved, views)
    kept = Kept(session, files, moved, views.catalog)
    ready = find_due_pieces(source_lanes(views, before, partitions), moved, slices)
    scans: dict[P.ScanOperator, DataFrame | None] = {}
    for scan in scans_of(plans.values()):
        slice_, rest = slices.of_operator(scan), ready.rest.get(scan)
        if scan.source == P.ARRIVALS:
            scans[scan] = kept.arrivals(scan, slice_, rest)
        else:
            scans[scan] = kept.new_rows(scan, slice_.b0, slice_.b1, rest)
    return evaluate_slice(
        session, files, partitions, plans, scans, before.traces, before.step + 1, slices, pieces=ready.pieces
    )


def _events_go_on(before: Manifest, moved: Manifest) -> bool:
    """Return whether event queries have work: rows that they have not seen, or a bound that moved."""
    new = (moved.new_arrivals(runs) for runs in moved.of("inbox").values())
    return moved.bounds != before.bounds or moved.finished != before.finished or any(new)


def _set_aside(
    moved: Manifest, views: CompiledStore, failed: Mapping[str, Exception], before: Manifest
) -> Manifest:
    """Return the manifest with the views that failed, and those over them, set aside."""
    aside = dict(moved.aside)
    for name in views.views:  # each after those that it reads
        entry = views.catalog.get(name)
        if name not in views.aside or name in aside or not isinstance(entry, QueryEntry):
            continue
        below = next((n for n in catalog_reads(entry, views.catalog) if n in aside), None)
        if below is not None:  # whatever it is missing itself, it can only go on when that one does
            aside[name] = replace(aside[below], step=before.step + 1, bound=before.bound)
        else:
            why = failure(failed[name], doing="it cannot be evaluated")
            next_step = why.next_step or ""
            aside[name] = SetAside(before.step + 1, before.bound, name, why.what, next_step, entry.kind)
    gone = {name for name in moved.next if next_name(name) in failed or name in views.aside}
    refused = {n: plan.compiled for n, plan in moved.next.items() if next_name(n) in failed}
    kept = {
        n: replace(p, stays=p.stays or n in gone, refused=refused.get(n, p.refused))
        for n, p in moved.plans.items()
    }
    left = {name: plan for name, plan in moved.next.items() if name not in gone}
    return replace(moved, aside=aside, next=left, plans=kept)


def with_plans(manifest: Manifest, views: CompiledStore, files: Files) -> Manifest:
    """Return the manifest with the plans of the views that run; write those that are not yet in the store."""
    if manifest.bound == BEFORE_ALL and not views.events:
        return manifest
    plans = dict(manifest.plans)
    for name, plan in views.plans.items():
        known = plans.get(name)
        if known is None or known.plan != plan.digest:
            plans[name] = views.views[name].keep()
    save_plans(files, views.running.values(), manifest.stored_plans())
    return manifest if plans == manifest.plans else replace(manifest, plans=plans)


def source_lanes(views: CompiledStore, manifest: Manifest, partitions: int) -> tuple[Lane, ...]:
    """Return the lanes by which the rows of sources come to the operators.

    Rows that are stamped on ARRIVAL have none: their time is not known yet where Catalyst reads the source.
    """
    entries = [e for e in views.sourced_entries if isinstance(e, StreamEntry)]
    streams = frozenset(e.name for e in entries if not e.stamped)
    return lanes_of(StepStages.of(views.running, manifest.traces).stages, streams, partitions)
