"""ALTER on a store that has run: one manifest and one catalog, written together.

No rows are written, but for rows of a source that wait for the bound when columns are added.
Plans name the streams and tables that they read. When one gets another name, the plans get it, too: they are
other plans then, whose state is that of the old ones. So a new stream of the old name shares nothing with
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from msgspec.structs import replace as replace_run

from everview import operators as P
from everview.catalog import Alteration, Catalog, FedEntry, StreamEntry, TableEntry
from everview.compile import CompiledView
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import CatalogError
from everview.execute.failures import explained_failures
from everview.execute.pieces import pieces_of
from everview.ingest.differences import new_differences
from everview.ingest.reading import source_name
from everview.ingest.replay import Replay, is_replayable, write_waiting_rows
from everview.ingest.sources import open_source
from everview.operators.base import stateful_operators
from everview.pipeline.writer import StoreWriter
from everview.plan.views import NextPlan
from everview.storage.altered import altered_manifest, with_owners
from everview.storage.checkpoint import CHECKPOINT, last_batch_read
from everview.storage.manifest import Manifest
from everview.storage.plans import PlanReader, save_plans
from everview.storage.runs import TraceId
from everview.storage.source_log import source_offsets
from everview.temporal.clocks import Clock


def add_columns(writer: StoreWriter, after: Catalog, name: str, columns: int, added: tuple[str, ...]) -> None:
    """Save a catalog in which a stream or table has more columns than before."""
    with writer.one_at_a_time:
        before = writer.store.manifest()
        done = Alteration(before.step + 1, name, columns=columns, added=added)
        entry = after.get(name)
        assert isinstance(entry, (StreamEntry, TableEntry))
        after.date_columns(name, done.step, _read_so_far(writer, entry, before))
        manifest = _with_waiting_values(writer, after, name, altered_manifest(before, done), done.step)
        after.alterations = (*after.alterations, done)
        writer.commit_step(before, replace(manifest, step=done.step), after)


def _with_waiting_values(
    writer: StoreWriter, catalog: Catalog, name: str, manifest: Manifest, step: int
) -> Manifest:
    """Return the manifest with the values of new columns in rows of a source that wait for the bound.

    A view that is created later reads rows before the bound from their files, with these values. Where the
    files cannot be read again, they are NULL in both.
    """
    entry, inbox = catalog.get(name), TraceId("inbox", name)
    if not isinstance(entry, StreamEntry) or entry.source is None or not is_replayable(entry):
        return manifest
    if all(run.greatest_from <= manifest.bound for run in manifest.runs(inbox)):
        return manifest
    with explained_failures([entry]):
        found = Replay.of(writer.session, writer.store.files, entry, manifest)
        if isinstance(found, str):
            return manifest
        written = write_waiting_rows(writer.kept(manifest, catalog), found, step)
    runs = tuple(replace_run(run, step=manifest.seen_by_events) for run in written)
    waiting = manifest.with_traces({inbox: runs})
    return waiting.with_traces(pieces_of(waiting))


def _read_so_far(writer: StoreWriter, entry: FedEntry, manifest: Manifest) -> int:
    """Return up to which entry of Spark's log the files of a source were read; -1: none, or no files.

    Raise an error if the source has not got the columns: those that are no files have columns of their own.
    """
    if entry.source is None:
        return -1
    if entry.source.format not in ("csv", "json", "parquet"):
        open_source(writer.session, entry, new_differences(writer.session.sparkContext))
    files = writer.store.files
    batch = last_batch_read(files, manifest)
    read = {} if batch is None else source_offsets(files.below(CHECKPOINT), batch)
    return read.get(source_name(entry), -1)


def rename_entry(writer: StoreWriter, views: CompiledStore, after: Catalog, old: str, new: str) -> None:
    """Save a catalog in which an entry has another name; `views` are those before.

    Raise an error if the views do not mean the same then.
    """
    with writer.one_at_a_time:
        before = writer.store.manifest()
        done = Alteration(before.step + 1, old, new)
        renamed = altered_manifest(before, done)
        plans = _RenamedPlans({f"{old}{part}": f"{new}{part}" for part in ("", "$late", "$rejected")})
        for view in views.views.values():
            plans.add(view)
        for plan in views.next.values():
            plans.rename(plan)
        manifest = plans.applied(renamed)
        wanted = manifest.stored_plans()
        new_plans = [plan for plan in plans.changed() if plan.digest in wanted]
        save_plans(writer.store.files, new_plans, renamed.stored_plans())
        _require_same_meaning(after, manifest, views, before, plans, {old: new})
        manifest = _with_compiled_plans(writer, after, manifest, views, before, {old: new})
        after.alterations = (*after.alterations, done)
        writer.store.save_catalog(after, replace(manifest, step=done.step))


class _RenamedPlans:
    """Plans in which scans and clocks have other relations; parts without such stay the same objects."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._done: dict[P.Operator, P.Operator] = {}

    def add(self, view: CompiledView) -> None:
        """Rename the plan of a view that runs, and the one to which it is compiled now."""
        self.rename(view.physical)
        self.rename(view.compiled)

    def rename(self, part: P.Operator) -> P.Operator:
        """Return a plan with the new names."""
        if part not in self._done:
            below = [self.rename(i) for i in part.inputs]
            same = all(n is o for n, o in zip(below, part.inputs, strict=True))
            made = part if same else part.with_inputs(below)
            if isinstance(made, P.ScanOperator) and made.relation in self._names:
                made = replace(made, relation=self._names[made.relation])
            self._done[part] = self._with_renamed_clocks(made)
        return self._done[part]

    def _with_renamed_clocks(self, part: P.Operator) -> P.Operator:
        """Return an operator whose clocks, if it has any, go by the new names of streams."""
        values = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
        renamed = {name: self._renamed(value) for name, value in values.items()}
        changed: dict[str, Any] = {name: v for name, v in renamed.items() if v != values[name]}
        return replace(part, **changed) if changed else part

    def _renamed(self, value: object) -> object:
        match value:
            case Clock():
                return value.renamed(self._names)
            case P.EventWait(column, clock):
                return P.EventWait(column, None if clock is None else clock.renamed(self._names))
            case (P.EventWait(), *_):
                return tuple(map(self._renamed, value))
        return value

    def changed(self) -> Iterable[P.Operator]:
        """Return all plans and parts of plans that have changed."""
        return [new for old, new in self._done.items() if new is not old]

    def applied(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the digests of the renamed plans, and the state of their operators."""
        digests = {old.digest: new.digest for old, new in self._done.items()}

        def digest(known: str) -> str:
            return digests.get(known, known)

        kept = {
            view: replace(
                plan,
                plan=digest(plan.plan),
                compiled=digest(plan.compiled),
                refused=digest(plan.refused),
                statistics=plan.statistics and plan.statistics.renamed(self._names),
                shares=digest(plan.shares),
                answered=tuple(self._names.get(name, name) for name in plan.answered),
            )
            for view, plan in manifest.plans.items()
        }
        next_ = {
            view: NextPlan(digest(plan.plan), digest(plan.compiled), plan.at)
            for view, plan in manifest.next.items()
        }
        owners = {
            old.name.casefold(): self._done[old].name
            for old in stateful_operators(self._done)
            if self._done[old] is not old
        }
        found = with_owners(manifest, owners, lambda trace: trace.kind == "state")
        return replace(found, plans=kept, next=next_)


def _require_same_meaning(
    catalog: Catalog,
    manifest: Manifest,
    views: CompiledStore,
    before: Manifest,
    plans: _RenamedPlans,
    names: Mapping[str, str],
) -> None:
    """Raise an error if a view would mean something else than before, but for the new name.

    Rules are left out: what they make of a query depends on its names, as joins of equal cost are ordered by
    the names of their inputs.
    """
    then = compile_store(views.catalog.copy(), before.starts, rules=())
    now = compile_store(catalog.copy(), manifest.starts, rules=())
    for name, view in _concerned(then, names):
        if now.views[names.get(name, name)].compiled != plans.rename(view.compiled):
            raise CatalogError(
                f"with another name of '{next(iter(names))}' the view '{name}' would mean something else",
                next_step="choose another name",
            )


def _with_compiled_plans(
    writer: StoreWriter,
    catalog: Catalog,
    manifest: Manifest,
    views: CompiledStore,
    before: Manifest,
    names: Mapping[str, str],
) -> Manifest:
    """Return the manifest with the plans to which views are compiled by their new names.

    A view that was not outdated before is not outdated then, also where rules make another plan of it.
    """
    stored = StoredViews(manifest.plans, manifest.next, manifest.aside, PlanReader(writer.store.files))
    now = compile_store(catalog.copy(), manifest.starts, None, stored, strategy=views.strategy)
    kept, next_ = dict(manifest.plans), dict(manifest.next)
    for old, view in _concerned(views, names):
        name, known = names.get(old, old), view.compiled.digest
        compiled = now.views[name].compiled.digest
        if old in before.plans and before.plans[old].compiled == known:
            kept[name] = replace(kept[name], compiled=compiled)
        if old in before.plans and before.plans[old].refused == known:
            kept[name] = replace(kept[name], refused=compiled)
        if old in before.next and before.next[old].compiled == known:
            next_[name] = replace(next_[name], compiled=compiled)
    return replace(manifest, plans=kept, next=next_)


def _concerned(views: CompiledStore, names: Mapping[str, str]) -> Iterator[tuple[str, CompiledView]]:
    """Yield the views that are renamed, or read what is."""
    for old in names:
        for name in (old, *views.catalog.dependants(old)):
            if name in views.views:
                yield name, views.views[name]
