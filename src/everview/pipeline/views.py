"""CREATE VIEW and CREATE OR REPLACE VIEW on a store that has run: what must be computed, and from where.

A view is computed from the beginning where its streams can be read again. Else it begins at the bound, and
that is said. A replaced view and all views over it are computed anew; the old ones answer until then, and
all change at one step.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra.time import INFINITY, instant_words
from everview.catalog import Catalog, QueryEntry, StreamEntry
from everview.compile import CompiledEventStream
from everview.compile_store import CompiledStore, compile_store
from everview.errors import PlanError
from everview.execute.catalyst import long_sql
from everview.execute.evaluable import require_evaluable
from everview.execute.evaluate import scans_of
from everview.execute.event_bounds import with_event_bounds
from everview.execute.failures import explained_failures
from everview.execute.housekeeping import forget, refresh_answers
from everview.execute.slices import first_instant, with_plans
from everview.execute.tasks import write_rows
from everview.ingest.replay import Replay, lost_rows
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL
from everview.pipeline.admit import require_no_corrections
from everview.pipeline.backfill import Backfill, BackfillProgress
from everview.pipeline.writer import StoreWriter
from everview.plan.views import ViewStart
from everview.query.questions import require_going_on
from everview.storage.history import horizons
from everview.storage.manifest import Manifest, Replacement
from everview.storage.runs import BACKFILL, REPLACED, Run, TraceId

PauseSteps = Callable[[], object]


@dataclass(frozen=True)
class CatalogChange:
    """A catalog of which some views must be computed, and the views before it.

    `lost` has the views whose earlier changes cannot be read any more.
    """

    catalog: Catalog
    before: CompiledStore
    lost: frozenset[str] = frozenset()

    def compiled(self, starts: Mapping[str, ViewStart], anew: Container[str] = ()) -> CompiledStore:
        """Return the views of the catalog; those that have changed, or are computed `anew`, get new plans."""
        others = {name: view for name, view in self.before.views.items() if name not in anew}
        return compile_store(self.catalog, starts, replace(self.before, views=others))

    def require_complete(self, view: str, why: str) -> None:
        """Raise an error if a view must not begin at the bound; `why` says why it would."""


@dataclass(frozen=True, kw_only=True)
class ViewChange(CatalogChange):
    """A view that is created, replaced or resumed: the catalog with it, and the views before it."""

    entry: QueryEntry
    resumes: bool = False

    def require_complete(self, view: str, why: str) -> None:
        if self.replaces and not self.resumes:
            raise PlanError(
                f"the view '{self.entry.name}' cannot be replaced: {why}",
                next_step=f"DROP VIEW {self.entry.name} and create it anew: it then begins at the bound",
            )

    @property
    def replaces(self) -> bool:
        """Whether there is already a view of this name."""
        return self.entry.name in self.before.views

    @property
    def old_entry(self) -> QueryEntry | None:
        """The view of this name that there is already."""
        found = self.before.catalog.entries.get(self.entry.name.casefold())
        return found if isinstance(found, QueryEntry) else None

    def compiled(self, starts: Mapping[str, ViewStart], anew: Container[str] = ()) -> CompiledStore:
        return super().compiled(starts, (self.entry.name, *(n for n in self.before.views if n in anew)))

    def names(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the views that must be computed: the new one, and those whose plans change with it."""
        if manifest.bound == BEFORE_ALL and not manifest.evaluated:
            return ()
        kept = {name: start for name, start in manifest.starts.items() if name != self.entry.name}
        views = self.compiled(kept)
        old, entry = self.before.plans, self.old_entry
        longer = entry is not None and self.entry.remembers_more(entry)  # the new history is longer
        return tuple(
            name
            for name, plan in views.plans.items()
            if (old.get(name) != plan or (longer and name == self.entry.name))
            and (manifest.bound > BEFORE_ALL or views.reads_events(name))
        )

    def with_answer(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the present answer of a view that becomes COMPLETE, or without it."""
        view, answer = TraceId("view", self.entry.name), TraceId("complete", self.entry.name)
        if self.old_entry is None or self.old_entry.complete == self.entry.complete:
            return manifest
        return manifest.with_traces({answer: manifest.runs(view) if self.entry.complete else ()})


def change_views(
    writer: StoreWriter,
    change: ViewChange,
    report: Callable[[BackfillProgress], None],
    pause: PauseSteps | None = None,
) -> None:
    """Create or replace a view, and save the catalog with it.

    With `pause`, steps go on while most of the work is done; it is called before the views are joined.
    """
    manifest = writer.store.manifest()
    if not change.names(manifest):
        _check_evaluable(writer, change, manifest)
        if pause is not None:
            pause()
            pause = None
        with writer.one_at_a_time:
            manifest = writer.store.manifest()  # a step may have ended since
            if not change.names(manifest):
                writer.store.save_catalog(change.catalog, change.with_answer(manifest))
                return
    names = change.names(manifest)
    plan = plan_backfill(writer, change, names, manifest, report)
    plans = plan.backfill.views.plans
    require_no_corrections(writer.store.files, manifest, change.catalog, plans, names)
    entries = [e for e in change.catalog if isinstance(e, QueryEntry) and e.name in names]
    require_evaluable(writer.session, entries, plans)
    with protect_files(writer, plan.backfill, manifest), explained_failures(doing=doing_words(names)):
        if pause is not None:
            if not plan.incomplete and not plan.backfill.reads_events:
                plan.backfill.advance(manifest, last=False)
            pause()
        with writer.one_at_a_time:
            before = writer.store.manifest()
            then, now = ((m.plans, m.next, m.aside, m.forgotten.keys()) for m in (manifest, before))
            # A step has set a view aside, a new plan has taken over, or a view has begun to forget.
            stale = then != now
            if stale:
                change = replace(change, before=writer.compiled(change.before.catalog, change.before))
                for name in change.entry.depends_on:
                    require_going_on(before, name)
                names = change.names(before)
            if stale or (plan.incomplete and before.step != manifest.step):
                plan = plan_backfill(writer, change, names, before, report, plan.backfill.token)
            plan.backfill.advance(before, last=True)
            after = joined_manifest(writer, change, plan, before)
            writer.commit_step(before, after, change.catalog)
    for name, why in plan.incomplete.items():
        since = instant_words(plan.starts[name].since)
        kind = change.catalog.get(name).kind
        warnings.warn(f"the {kind} '{name}' is complete from {since} on: {why}", stacklevel=2)


def _check_evaluable(writer: StoreWriter, change: ViewChange, manifest: Manifest) -> None:
    """Refuse what Spark does not accept, where there is a session to ask; else the first step does it."""
    if writer.has_session or manifest.bound > BEFORE_ALL:
        require_evaluable(
            writer.session,
            [change.entry],
            change.compiled(manifest.starts).plans,
        )


def doing_words(names: tuple[str, ...]) -> str:
    """Return what could not be done, in words, if the computation of some views fails."""
    shown = ", ".join(f"'{name}'" for name in names)
    return f"the view{'s' if len(names) > 1 else ''} {shown} cannot be computed"


@contextmanager
def protect_files(writer: StoreWriter, backfill: Backfill, manifest: Manifest) -> Iterator[None]:
    """Keep the files that a backfill writes, and those of the manifest that it reads, from clean-up."""
    folder, store = f"{BACKFILL}/{backfill.token}/", writer.store
    store.in_progress.add(folder)
    store.in_use = manifest.paths()
    try:
        yield
    finally:
        store.in_progress.discard(folder)
        store.in_use = set()


@dataclass(frozen=True)
class BackfillPlan:
    """A backfill, where all views of the store begin, and why some of the new ones are not complete."""

    backfill: Backfill
    starts: Mapping[str, ViewStart]
    incomplete: Mapping[str, str]


def plan_backfill(
    writer: StoreWriter,
    change: CatalogChange,
    names: tuple[str, ...],
    manifest: Manifest,
    report: Callable[[BackfillProgress], None],
    token: str | None = None,
) -> BackfillPlan:
    """Find out where the new views can begin; refuse to replace a view by one that is not complete."""
    starts = {name: start for name, start in manifest.starts.items() if name not in names}
    views = change.compiled(starts, names)
    ended = horizons(manifest, change.catalog)
    problems: dict[str, str | None] = {}

    def unreadable(name: str, kept: Mapping[P.Operator, str]) -> list[str]:
        """Return the streams of a view that cannot be read again."""
        streams = sorted(_inputs(views.plans[name], kept)[0])
        for stream in streams:
            if stream not in problems:
                problems[stream] = replay_problem(writer, change.catalog, stream, manifest)
        return [stream for stream in streams if problems[stream] is not None]

    # The changes of a view that forgets are of use only where what it reads cannot be read again.
    forgetful = any(unreadable(name, _kept_plans(views, names, ended)) for name in names)
    kept = _kept_plans(views, names, {} if forgetful else ended)
    incomplete: dict[str, str] = {}
    for name in names:
        gone, below = unreadable(name, kept), _inputs(views.plans[name], kept)[1]
        begins = {v: starts[v].since for v in below if v in starts}
        begins |= {v: ended[t] for v in below if (t := TraceId("view", v)) in ended}
        last = max(begins, key=lambda v: begins[v]) if begins else ""
        known_from = f"it reads '{last}', which is known from there on"
        event = views.views[name]
        if isinstance(event, CompiledEventStream) and (gone or begins):
            incomplete[name] = str(problems[gone[0]]) if gone else known_from
            after = event_stream_begin(event, manifest, gone, begins.values(), incomplete[name])
            starts[name] = ViewStart(after, tuple(gone))
        elif gone:
            starts[name] = ViewStart(first_instant(manifest), tuple(gone))
            incomplete[name] = str(problems[gone[0]])
        elif begins:
            starts[name] = ViewStart(begins[last], ())
            incomplete[name] = known_from
        if name in incomplete:
            change.require_complete(name, incomplete[name])
    views = change.compiled(starts, names)
    kept = _kept_plans(views, names, {} if forgetful else ended)
    backfill = Backfill(writer, views, names, report, token or uuid.uuid4().hex, kept)
    return BackfillPlan(backfill, starts, incomplete)


def event_stream_begin(
    event: CompiledEventStream, manifest: Manifest, gone: Sequence[str], begins: Iterable[int], why: str
) -> int:
    """Return the instant after which an event stream that misses rows is complete; refuse it if none is.

    Its rows depend on rows of its inputs that are at most its look-back older: a NOT EXISTS that looks back
    further would report an absence that is not one.
    """
    back = event.timing.look_back(event.lines[0])
    if back is None:
        raise PlanError(
            f"the event stream '{event.name}' could never be complete: {why}, "
            "and it looks back at any time before its rows",
            next_step="give each time that it looks back at a lower end, or make it in a new store",
        )
    newest = [max(manifest.newest.get(stream, {}).values(), default=BEFORE_ALL) for stream in gone]
    return min(max([*newest, *begins, BEFORE_ALL]) + back, INFINITY - 1)


def _kept_plans(
    views: CompiledStore, names: tuple[str, ...], ended: Mapping[TraceId, int]
) -> dict[P.Operator, str]:
    """Return the plans whose changes are kept, with the view that has them.

    A view may have such a plan without reading that view, as one of the same definition. Changes that have
    `ended`, because their view keeps no longer history, are left out, if they could be computed again.
    """
    others = [v for v in views.plans if v not in names]
    whole = [
        v
        for v in others
        if TraceId("view", v) not in ended or views.views[v].start is not None or _is_dated(views.plans[v])
    ]
    return {views.plans[v]: v for v in whole}


def _is_dated(plan: P.Operator) -> bool:
    """Return whether a plan reads a stream only from an instant on, as one does that has taken over."""
    return any(scan.since > BEFORE_ALL for scan in scans_of([plan]))


def _inputs(plan: P.Operator, kept: Mapping[P.Operator, str]) -> tuple[set[str], set[str]]:
    """Return the streams and tables, and the views, that a plan starts from."""
    streams: set[str] = set()
    views: set[str] = set()

    def walk(part: P.Operator) -> None:
        if part in kept:
            views.add(kept[part])
        elif isinstance(part, P.ScanOperator):
            streams.add(part.relation)
        else:
            for below in part.inputs:
                walk(below)

    walk(plan)
    return streams, views


def replay_problem(writer: StoreWriter, catalog: Catalog, stream: str, manifest: Manifest) -> str | None:
    """Return why a stream cannot be read from the beginning; None if it can."""
    entry = catalog.entries.get(stream.casefold())
    if not isinstance(entry, StreamEntry):
        return None
    if entry.source is None:
        return lost_rows(manifest, entry, "inbox")
    found = Replay.of(writer.session, writer.store.files, entry, manifest)
    return found if isinstance(found, str) else None


def joined_manifest(
    writer: StoreWriter, change: CatalogChange, plan: BackfillPlan, before: Manifest
) -> Manifest:
    """Return the manifest of the next step: the computed views joined with the others."""
    step, backfill, starts = before.step + 1, plan.backfill, plan.starts
    names = backfill.names
    after = backfill.joined(before)
    # A DROP that was interrupted may have left something of a name.
    after = replace(after, replaced={n: r for n, r in before.replaced.items() if n in change.before.views})
    for name in names:
        old, new = change.before.views.get(name), backfill.views.plans[name]
        if old is not None and old.physical != new:
            # After the end no instant is left for the new rows.
            anew = old.physical.types != new.types or before.finished or name in change.lost
            after = replacement_of(writer, before, after, name, None if anew else old.physical, step)
    since = {n: t for n, t in before.since.items() if n not in names}
    partial = {n: s for n, s in before.partial.items() if n not in names}
    for name in names:
        if name in starts:
            since[name], partial[name] = starts[name].since, starts[name].streams or ()
    after = replace(after, step=step, since=since, partial=partial)
    after = replace(after, forgotten=_forgotten(change, before, after, names))
    after = replace(after, evaluated=before.seen_by_events)
    after = with_event_bounds(refresh_answers(before, after, change.catalog), backfill.views)
    after = with_plans(after.without_plans(lambda view: view in names), backfill.views, writer.store.files)
    return forget(after, change.catalog, backfill.views.operator_names())


def _forgotten(
    change: CatalogChange, before: Manifest, after: Manifest, names: Sequence[str]
) -> dict[str, int]:
    """Return where the history of views begins when some are computed anew: these have all of it again.

    What was there before such a view was replaced, is kept as far back as it was.
    """
    found = {name: instant for name, instant in before.forgotten.items() if name not in names}
    ended = horizons(before, change.before.catalog)
    for name in names:
        earlier, instant = after.replaced.get(name), ended.get(TraceId("view", name))
        if instant is not None and earlier is not None and not earlier.anew:
            found[name] = min(instant, earlier.at)
    return found


def replacement_of(
    writer: StoreWriter, before: Manifest, after: Manifest, name: str, old: P.Operator | None, step: int
) -> Manifest:
    """Return `after` with the replacement of a view whose changes before it were those of the plan `old`.

    Without `old`, the changes of the view begin anew.
    """
    found = before.aside.get(name)
    at = (before.bound if found is None else found.bound) + 1
    known = before.replaced.get(name)
    followed = known.followed_from if known is not None and old is not None else 0
    done = Replacement(step, at, old is None, followed if old is not None else step)
    trace = TraceId("view", name, REPLACED)
    runs: tuple[Run, ...] = ()
    if old is not None:
        runs = write_rows(_earlier_changes(writer, before, name, old, at), trace, writer.store.files, step)
    return replace(after.with_traces({trace: runs}), replaced={**after.replaced, name: done})


def _earlier_changes(
    writer: StoreWriter, before: Manifest, name: str, plan: P.Operator, end: int
) -> DataFrame:
    """Return the changes of a view before an instant, as they were before it is replaced."""
    kept = writer.kept(before, Catalog())
    runs = before.runs(TraceId("view", name))
    rows = kept.read(runs, plan.types).where(f"{FROM} < {long_sql(end)}")
    known = before.replaced.get(name)
    if known is not None and not known.anew:
        rows = rows.where(f"{UNTIL} > {long_sql(known.at)}").withColumn(
            FROM, F.expr(f"greatest({FROM}, {long_sql(known.at)})")
        )
        rows = rows.unionAll(kept.read(before.runs(TraceId("view", name, REPLACED)), plan.types))
    return rows.withColumn(UNTIL, F.expr(f"least({UNTIL}, {long_sql(end)})"))
