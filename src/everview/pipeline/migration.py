"""Views whose plans would come out different now take the new plans over while they run (DESIGN section 9).

A later release, another rewrite rule or another strategy makes another plan for the same view; its state
belongs to the old one. The new plan starts from the rows that are kept and from those that come from now on,
and runs beside the old one. When the last row that it has not seen has ended, both hold the same at every
instant from then on (paper 1: the answer is split at that instant), and the new one takes over at one step.
Where rows have no known end, the old plan stays: it is slower at worst, never wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from everview.compile import CompiledStore, compile_store
from everview.errors import StoreError
from everview.execute.housekeeping import completed, forget
from everview.execute.slices import with_plans
from everview.operators.columnar.frame import BEFORE_ALL
from everview.pipeline.backfill import Backfill, BackfillProgress
from everview.pipeline.views import protected, replacement_of
from everview.pipeline.writer import StoreWriter
from everview.plan.look_back import look_back
from everview.plan.views import KeptPlan, NextPlan, ViewStart, next_name
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId


def begin_migrations(
    writer: StoreWriter, views: CompiledStore, report: Callable[[BackfillProgress], None]
) -> CompiledStore:
    """Start the new plans of outdated views; return the views as they run from now on.

    Called before steps begin.
    """
    with writer.one_at_a_time:
        before = writer.store.manifest()
        if before.bound == BEFORE_ALL or before.finished:
            return views
        _require_plans(views, before)
        target, lengths = _target(views, before)
        stays = views.outdated.keys() - lengths.keys()
        kept = {name: replace(plan, stays=name in stays) for name, plan in before.plans.items()}
        wanted = {name: views.views[name].compiled.digest for name in lengths}
        same = wanted == {name: plan.compiled for name, plan in before.next.items()}
        if same and kept == before.plans:
            return views
        for name in sorted(lengths):
            report(BackfillProgress((name,), "its plan is replaced by a new one"))
        plans = {name: plan for name, plan in target.plans.items() if name in lengths}
        beside = replace(views, next=plans)
        after = replace(before, step=before.step + 1, plans=kept, next={})
        if lengths:
            after = _begun(writer, target, beside, after, before.bound + max(lengths.values()), report)
        writer.commit_step(before, forget(after, views.catalog, beside.operator_names()))
        return end_migrations(writer, beside) or beside


def _require_plans(views: CompiledStore, before: Manifest) -> None:
    """Refuse a store of a release that kept no plans, if its state belongs to other plans than those now."""
    if before.plans or not views.plans:
        return
    unknown = {trace.owner for trace in before.of("state")} - views.operator_names()
    if unknown:
        raise StoreError(
            "the store was written by an Everview that kept no plans, and its views have other plans now",
            next_step="run its SQL with --path on a new folder, or open it with the Everview that made it",
        )


def _target(views: CompiledStore, before: Manifest) -> tuple[CompiledStore, dict[str, int]]:
    """Return the views with the new plans of those that can take them over, and the look-backs of these."""
    names = set(views.outdated)
    streams = tuple(entry.name for entry in views.sourced_entries)
    while True:
        starts = {name: view.start for name, view in views.views.items() if view.start is not None}
        starts |= {name: ViewStart(before.bound, streams) for name in names}
        target = compile_store(views.catalog, starts, views)
        known = {target.plans[name] for name in target.plans if name not in names}
        lengths = {name: look_back(target.plans[name], known) for name in names}
        found = {name: length for name, length in lengths.items() if length is not None}
        if len(found) == len(names):
            return target, found
        names = set(found)


def _begun(
    writer: StoreWriter,
    target: CompiledStore,
    beside: CompiledStore,
    before: Manifest,
    at: int,
    report: Callable[[BackfillProgress], None],
) -> Manifest:
    """Return the manifest with the new plans and the state that they have from the kept rows."""
    names = tuple(beside.next)
    kept = {plan: name for name, plan in target.plans.items() if name not in names}
    backfill = Backfill(writer, target, names, report, uuid.uuid4().hex, kept)
    running = replace(beside, next={}).operator_names()
    traces: dict[TraceId, tuple[Run, ...]] = {}
    with protected(writer, backfill, before):
        backfill.advance(before, last=True)
        for trace, runs in backfill.runs_in_store().items():
            if trace.kind == "view":
                traces[TraceId("view", next_name(trace.owner))] = runs
            elif trace.owner not in running:
                traces[trace] = runs
        compiled = {name: beside.views[name].compiled.digest for name in names}
        plans = {name: NextPlan(beside.next[name].digest, compiled[name], at) for name in names}
        with_files = with_plans(before.with_traces(traces), beside, writer.store.files)
        return replace(with_files, next=plans)


def end_migrations(writer: StoreWriter, views: CompiledStore) -> CompiledStore | None:
    """Let the new plans take over if their look-back has passed; return the views then, None if they stay."""
    before = writer.store.manifest()
    if not before.next or before.finished or before.bound < max(plan.at for plan in before.next.values()):
        return None
    step = before.step + 1
    after = before
    for name, plan in before.next.items():
        after = replacement_of(writer, before, after, name, views.plans[name], step)
        hidden = TraceId("view", next_name(name))
        moved = {TraceId("view", name): after.runs(hidden), hidden: (), TraceId("complete", name): ()}
        kept = {**after.plans, name: KeptPlan(plan.plan, plan.compiled)}
        after = replace(after.with_traces(moved), plans=kept)
    after = completed(before, replace(after, step=step, next={}), views.catalog)
    writer.commit_step(before, forget(after, views.catalog, views.operator_names(without=views.next)))
    return writer.compiled(views.catalog, views)
