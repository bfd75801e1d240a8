"""Views that would be compiled to another plan now change to it while they run (DESIGN section 9).

A later release, another rewrite rule or another strategy makes another plan for the same view; its state
belongs to the old one. The new plan starts from the rows that are kept and from those that come from now on,
and runs beside the old one. When the last row that it has not seen has ended, both hold the same at every
instant from then on (paper 1: the answer is split at that instant), and the new one takes over at one step.
Where rows have no known end, the old plan stays: it is slower at worst, never wrong.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from pyspark.sql import functions as F

from everview import operators as P
from everview.catalog import Catalog
from everview.compile_store import CompiledStore, compile_store
from everview.errors import StoreError
from everview.execute.catalyst import long_sql
from everview.execute.failures import failure, is_of_the_machine
from everview.execute.housekeeping import forget, refresh_answers
from everview.execute.slices import with_plans
from everview.execute.tasks import write_rows
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL
from everview.pipeline.backfill import Backfill, BackfillProgress
from everview.pipeline.views import protect_files
from everview.pipeline.writer import StoreWriter
from everview.plan.look_back import look_back
from everview.plan.views import KeptPlan, NextPlan, ViewStart, next_name
from everview.rewrite import FIRST_RULES
from everview.storage.history import horizons
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
        views = adopt_first_plans(writer, views)
        before = writer.store.manifest()
        wanted = {
            name: plan.digest
            for name, plan in views.outdated.items()
            if plan.digest != before.plans[name].refused
        }
        going = {name: plan for name, plan in before.next.items() if wanted.get(name) == plan.compiled}
        target, lengths = _target(views, before, wanted.keys() - going.keys())
        stays = views.outdated.keys() - going.keys() - lengths.keys()
        kept = {name: replace(plan, stays=name in stays) for name, plan in before.plans.items()}
        if not lengths and going == before.next and kept == before.plans:
            return views
        for name in sorted(lengths):
            report(BackfillProgress((name,), "its plan is replaced by a new one"))
        after = replace(before, step=before.step + 1, plans=kept, next=going)
        beside = replace(views, next={name: views.next[name] for name in going})
        if lengths:
            try:
                beside, after = _begun(writer, target, beside, after, lengths, report)
            except Exception as error:
                if is_of_the_machine(error):
                    raise failure(error) from error
                after = _keep_old_plans(after, wanted, lengths, failure(error))
        writer.commit_step(before, forget(after, views.catalog, beside.operator_names()))
        return end_migrations(writer, beside) or beside


def _keep_old_plans(
    after: Manifest, wanted: Mapping[str, str], names: Iterable[str], error: Exception
) -> Manifest:
    """Return the manifest with views that keep their plans because the new ones fail; warn of it."""
    shown = ", ".join(f"'{name}'" for name in names)
    warnings.warn(f"the new plans of {shown} fail, and the old ones stay: {error}", stacklevel=3)
    kept = {name: replace(after.plans[name], stays=True, refused=wanted[name]) for name in names}
    return replace(after, plans={**after.plans, **kept})


def adopt_first_plans(writer: StoreWriter, views: CompiledStore) -> CompiledStore:
    """Keep the plans that the state of a store belongs to, if it was written by a release that kept none.

    They are those of the rules that there were then. Other plans are not known: the store is refused. Called
    before views run, and before names or views change.
    """
    before = writer.store.manifest()
    state = {trace.owner for trace in before.of("state")}
    # Without state there is nothing to look for: a script of many views would walk all plans after each.
    if before.plans or not state or state <= views.operator_names():
        return views
    first = compile_store(views.catalog, before.starts, rules=FIRST_RULES)
    if not state <= first.operator_names():
        raise StoreError(
            "the store was written by an Everview that kept no plans, and its views have other plans now",
            next_step="run its SQL with --path on a new folder, or open it with the Everview that made it",
        )
    after = with_plans(replace(before, step=before.step + 1), first, writer.store.files)
    writer.commit_step(before, after)
    return writer.compiled(views.catalog)


def _target(
    views: CompiledStore, before: Manifest, names: AbstractSet[str]
) -> tuple[CompiledStore, dict[str, int]]:
    """Return the views with the new plans of those that can take them over, and the look-backs of these."""
    streams = tuple(entry.name for entry in views.sourced_entries)
    timelines = {e.name: e.columns.names.index(e.timelines[0].column) for e in views.streams if e.timelines}
    while True:
        starts = {name: view.start for name, view in views.views.items() if view.start is not None}
        ended = horizons(before, views.catalog)
        forgetful = {name for name in views.views if TraceId("view", name) in ended} | starts.keys()
        starts |= {name: ViewStart(before.bound, streams) for name in names}
        target = compile_store(views.catalog, starts, views, answers=False)
        known = {plan: int(n in forgetful) for n, plan in target.plans.items() if n not in names}
        lengths = {name: look_back(target.plans[name], known, timelines) for name in names}
        found = {name: length for name, length in lengths.items() if length is not None}
        if len(found) == len(names):
            return target, found
        names = found.keys()


def _begun(
    writer: StoreWriter,
    target: CompiledStore,
    views: CompiledStore,
    before: Manifest,
    lengths: Mapping[str, int],
    report: Callable[[BackfillProgress], None],
) -> tuple[CompiledStore, Manifest]:
    """Return the views with new plans beside the old ones, whose state the manifest has from kept rows."""
    names = tuple(name for name in target.plans if name in lengths)
    kept = {plan: name for name, plan in target.plans.items() if name not in names}
    backfill = Backfill(writer, target, names, report, uuid.uuid4().hex, kept)
    running = views.operator_names()
    traces: dict[TraceId, tuple[Run, ...]] = {TraceId("view", next_name(name)): () for name in names}
    with protect_files(writer, backfill, before):
        backfill.advance(before, last=True)
        for trace, runs in backfill.runs_in_store().items():
            if trace.kind == "view":
                traces[TraceId("view", next_name(trace.owner))] = runs
            elif trace.owner not in running:
                traces[trace] = runs
        at = before.bound + max(lengths.values())
        beside = replace(views, next={**views.next, **{name: target.plans[name] for name in names}})
        after = with_plans(before.with_traces(traces), beside, writer.store.files)
        new = {n: NextPlan(target.plans[n].digest, views.views[n].compiled.digest, at) for n in names}
        return beside, replace(after, next={**before.next, **new})


def end_migrations(writer: StoreWriter, views: CompiledStore) -> CompiledStore | None:
    """Let new plans take over whose look-back has passed; return the views then, None if nothing changes.

    From the instant after the bound on, the changes of the view are those of the new plan.
    """
    before = writer.store.manifest()
    due = {name: plan for name, plan in before.next.items() if plan.at <= before.bound}
    if not due or before.finished:
        return None
    after = before
    for name, plan in due.items():
        hidden = TraceId("view", next_name(name))
        runs = _splice_changes(writer, before, name, views.plans[name])
        moved = {TraceId("view", name): runs, hidden: (), TraceId("complete", name): ()}
        old = after.plans.get(name, KeptPlan(plan.plan, plan.compiled))  # a new plan is made by the same
        new = KeptPlan(plan.plan, plan.compiled, statistics=old.statistics, shares=old.shares)
        after = replace(after.with_traces(moved), plans={**after.plans, name: new})
    left = {name: plan for name, plan in before.next.items() if name not in due}
    after = refresh_answers(before, replace(after, step=before.step + 1, next=left), views.catalog)
    writer.commit_step(before, forget(after, views.catalog, views.operator_names(without=due)))
    return writer.compiled(views.catalog, views)


def _splice_changes(writer: StoreWriter, before: Manifest, name: str, plan: P.Operator) -> tuple[Run, ...]:
    """Return the changes of a view up to the bound, and from then on those of its next plan.

    Only runs with rows that hold beyond the bound are written anew.
    """
    at, view = before.bound + 1, TraceId("view", name)
    kept = writer.kept(before, Catalog())
    present = min(before.bound, before.present)  # what holds there is the answer of a COMPLETE view
    ended = [run for run in before.runs(view) if run.greatest_until <= present]
    others = [run for run in before.runs(view) if run.greatest_until > present]
    old = kept.read(others, plan.types).where(f"{FROM} < {long_sql(at)}")
    old = old.withColumn(UNTIL, F.expr(f"least({UNTIL}, {long_sql(at)})"))
    new = kept.read(before.runs(TraceId("view", next_name(name))), plan.types)
    new = new.where(f"{UNTIL} > {long_sql(at)}").withColumn(FROM, F.expr(f"greatest({FROM}, {long_sql(at)})"))
    files = writer.store.files
    return (*ended, *write_rows(old.unionAll(new), view, files, before.step + 1))
