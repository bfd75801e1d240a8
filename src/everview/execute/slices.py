"""From one manifest to the next: the slice of a step."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from everview.catalog import StreamEntry
from everview.compile import CompiledStore
from everview.execute.evaluate import evaluate_slice, scans_of, without_fsync
from everview.execute.housekeeping import completed, forget, merge
from everview.execute.kept import Kept
from everview.execute.lanes import Lane, lanes_of
from everview.execute.pieces import due
from everview.execute.prepare import Prepared
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.views import KeptPlan
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.plans import save_plans
from everview.storage.store import Store

MARKS = 1000  # steps after which a reader of changes can no longer resume


def first_instant(manifest: Manifest) -> int:
    """Return the instant from which a view answers that begins now, at the bound."""
    return min(manifest.bound, manifest.present)


def next_slice(
    session: SparkSession, store: Store, views: CompiledStore, before: Manifest, moved: Manifest
) -> tuple[Manifest, dict[str, int]]:
    """Return the store after a step in which the bound moved, and the number of changes of each view."""
    step = before.step + 1
    files, partitions = store.files, store.settings.partitions
    plans = views.running
    changes = dict.fromkeys(views.plans, 0)
    if moved.bound > before.bound:
        slice_ = Slice(before.bound, moved.bound, before.bound == BEFORE_ALL, *moved.clock_range)
        kept = Kept(session, files, moved, views.catalog)
        ready = due(source_lanes(views, before, partitions), moved, slice_)
        scans = {
            scan: kept.new_rows(scan, slice_.b0, slice_.b1, ready.rest.get(scan))
            for scan in scans_of(plans.values())
        }
        done = evaluate_slice(
            session, files, partitions, plans, scans, before.traces, step, slice_, pieces=ready.pieces
        )
        moved = moved.with_traces(done.traces)
        changes |= {view: rows for view, rows in done.changes.items() if view in changes}
    marks = (*before.marks[-MARKS:], (step, moved.bound))
    moved = completed(before, replace(moved, step=step, marks=marks), views.catalog)
    moved = with_plans(moved, views, files)
    after = forget(moved, views.catalog, views.operator_names())
    return merge(session, without_fsync(files), after, views.catalog), changes


def with_plans(manifest: Manifest, views: CompiledStore, files: Files) -> Manifest:
    """Return the manifest with the plans of the views that run; write those that are not yet in the store."""
    if manifest.bound == BEFORE_ALL:
        return manifest
    plans = dict(manifest.plans)
    for name, plan in views.plans.items():
        known = plans.get(name)
        if known is None or known.plan != plan.digest:
            plans[name] = KeptPlan(plan.digest, plan.digest)
    save_plans(files, views.running.values(), manifest.stored_plans())
    return manifest if plans == manifest.plans else replace(manifest, plans=plans)


def source_lanes(views: CompiledStore, manifest: Manifest, partitions: int) -> tuple[Lane, ...]:
    """Return the lanes by which the rows of sources come to the operators."""
    streams = {e.name for e in views.sourced_entries if isinstance(e, StreamEntry)}
    return lanes_of(Prepared.of(views.running, manifest.traces).stages, streams, partitions)
