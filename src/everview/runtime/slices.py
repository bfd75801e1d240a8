"""From one manifest to the next: the slice of a step, and the first one of a view that is made later."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from everview.kernels.frame import BEFORE_ALL, Slice
from everview.runtime.evaluate import evaluate, hasty, scans_of
from everview.runtime.housekeeping import completed, forget, merge
from everview.runtime.kept import Kept
from everview.runtime.manifest import Manifest
from everview.runtime.plans import cut, views_in
from everview.runtime.ports import due
from everview.runtime.store import Store
from everview.runtime.work import Work
from everview.spark.physical import operator_name

MARKS = 1000  # so many steps back a reader of changes can go on


def next_slice(
    session: SparkSession, store: Store, work: Work, before: Manifest, moved: Manifest
) -> tuple[Manifest, dict[str, int]]:
    """The store after a step in which the bound moved, with fewer and larger runs; changes of each view."""
    step = before.step + 1
    files, partitions = store.files, store.settings.partitions
    plans = work.plans(before.since)
    changes = dict.fromkeys(plans, 0)
    if moved.bound > before.bound:
        slice_ = Slice(before.bound, moved.bound, before.bound == BEFORE_ALL, *moved.ticking)
        kept = Kept(session, files, moved, work.catalog)
        ready = due(work.lanes(before, partitions), moved, slice_)
        scans = {
            scan: kept.new_rows(scan, slice_.b0, slice_.b1, ready.rest.get(scan))
            for scan in scans_of(plans.values())
        }
        done = evaluate(
            session, files, partitions, plans, scans, before.traces, step, slice_, pieces=ready.pieces
        )
        moved, changes = moved.with_traces(done.traces), {**changes, **done.changes}
    marks = (*before.marks[-MARKS:], (step, moved.bound))
    moved = completed(before, replace(moved, step=step, marks=marks), work.catalog)
    after = forget(moved, work.catalog, work.operators(before.since))
    return merge(session, hasty(files), after, work.catalog), changes


def first_slice(session: SparkSession, store: Store, work: Work, before: Manifest, name: str) -> Manifest:
    """The store with a view that begins at the bound, from all that is kept.

    It is evaluated up to the bound: over the rows that are kept of streams and tables, and the changes that
    are kept of the views that it reads. The state of its operators goes on from there.
    """
    step = before.step + 1
    since = {**before.since, name: min(before.bound, before.present)}
    plans = work.plans(since)
    others = {plans[v]: v for v in views_in(work.views[name], work.views)}
    plan, origin = cut(plans[name], others)
    kept = Kept(session, store.files, before, work.catalog)
    scans = {
        s: kept.known_rows(s, before.bound) if s.kind == "rows" else kept.all_rows(s)
        for s in scans_of([plan])
    }
    slice_ = Slice(BEFORE_ALL, before.bound, True, *before.ticking)
    done = evaluate(
        session, store.files, store.settings.partitions, {name: plan}, scans, {}, step, slice_,
        named=lambda node: operator_name(origin.get(node, node)),
    )  # fmt: skip
    running = work.operators(since, without=name)
    new = {t: r for t, r in done.traces.items() if t.kind == "view" or t.owner not in running}
    after = replace(before.with_traces(new), step=step, since=since)
    return completed(before, after, work.catalog)
