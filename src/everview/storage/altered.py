"""A manifest after ALTER: what it has of a name under the new one, and where the columns are in older files.

No file of rows is written: runs stay where they are. The catalog keeps what was altered in which step, so
that a repair which goes on from an earlier manifest can do the same to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replace_run

from everview.catalog import Alteration, Catalog
from everview.operators.base import column
from everview.plan.views import next_name
from everview.storage.manifest import LEFT_OUT, MISSING, Manifest
from everview.storage.runs import Run, TraceId

# What a manifest has by the names of streams, tables and views.
PARTS_BY_NAME = (
    "since", "partial", "replaced", "plans", "next", "aside", "forgotten", "bounds", "newest",
    "heard", "counts", "changed", "scheduled", "told", "event_bounds", "event_marks", "reread", "punctuated",
    "parts",
)  # fmt: skip


def altered_manifest(manifest: Manifest, alteration: Alteration) -> Manifest:
    """Return a manifest from before an alteration with that alteration."""
    if alteration.drops:
        return without_names(manifest, lambda name: name == alteration.name.casefold())
    return (
        _rename_in_manifest(manifest, alteration)
        if alteration.new_name
        else _widen_manifest(manifest, alteration)
    )


def without_names(manifest: Manifest, gone: Callable[[str], bool]) -> Manifest:
    """Return a manifest without all that it has by some names, which are given in lower case."""
    parts: dict[str, Any] = {
        part: {n: value for n, value in getattr(manifest, part).items() if not gone(n.casefold())}
        for part in PARTS_BY_NAME
    }

    def is_gone(trace: TraceId) -> bool:
        owner = trace.owner.removesuffix(next_name(""))
        return trace.kind not in ("state", "port") and gone(owner)

    return replace(manifest, traces={t: r for t, r in manifest.traces.items() if not is_gone(t)}, **parts)


def altered_since(manifest: Manifest, catalog: Catalog) -> Manifest:
    """Return a manifest with all alterations that later steps have made to its names."""
    for alteration in catalog.alterations:
        if alteration.step > manifest.step:
            manifest = altered_manifest(manifest, alteration)
    return manifest


def name_at(catalog: Catalog, name: str, step: int) -> str | None:
    """Return the name that an entry had in a step; None if it was created after that.

    Where another entry had its name before, and was renamed or dropped, it was created later.

    >>> catalog = Catalog(alterations=(Alteration(3, "s", "t"), Alteration(5, "t", "u"), Alteration(7, "v")))
    >>> [name_at(catalog, "u", step) for step in (2, 3, 4, 5)]
    ['s', 't', 't', 'u']
    >>> [name_at(catalog, name, 2) for name in ("s", "t", "v")], name_at(catalog, "v", 7)
    ([None, None, None], 'v')
    """
    for alteration in reversed(catalog.alterations):
        if alteration.step <= step:
            break
        if alteration.new_name == name:
            name = alteration.name
        elif alteration.name.casefold() == name.casefold() and not alteration.added:
            return None
    return name


def _rename_in_manifest(manifest: Manifest, alteration: Alteration) -> Manifest:
    old, new = alteration.name, alteration.new_name

    def name(known: str) -> str:
        return new if known == old else known

    parts: dict[str, Any] = {
        part: {name(n): value for n, value in getattr(manifest, part).items()} for part in PARTS_BY_NAME
    }
    folded = {old.casefold(): new.casefold()}  # scheduled changes are keyed by names in lower case
    parts["scheduled"] = {folded.get(n, n): changes for n, changes in manifest.scheduled.items()}
    parts["partial"] = {view: tuple(map(name, streams)) for view, streams in parts["partial"].items()}
    parts["aside"] = {
        view: replace(found, because_of=name(found.because_of)) for view, found in parts["aside"].items()
    }
    owners = {old.casefold(): new, next_name(old).casefold(): next_name(new)}
    return with_owners(replace(manifest, **parts), owners, lambda trace: trace.kind not in ("state", "port"))


def with_owners(
    manifest: Manifest, owners: Mapping[str, str], concerns: Callable[[TraceId], bool]
) -> Manifest:
    """Return a manifest in which some traces belong to other owners; their files stay where they are."""
    traces = {
        TraceId(t.kind, owners[t.owner], t.part, t.partition, t.route, t.change)
        if concerns(t) and t.owner in owners
        else t: runs
        for t, runs in manifest.traces.items()
    }
    return replace(manifest, traces=traces)


def _widen_manifest(manifest: Manifest, alteration: Alteration) -> Manifest:
    """Return the manifest with the places of columns in the files that lack some.

    Scheduled changes leave new columns as they are. That files have a new column was reported; that some
    lack it is expected.
    """
    name, before, added = alteration.name, alteration.columns, alteration.added
    changed = {}
    for kind, own in (("inbox", before), ("late", before + 3)):
        for trace, runs in manifest.of(kind, name).items():
            changed[trace] = tuple(placed_run(run, alteration, own) for run in runs)
    new = tuple(column(before + i) for i in range(len(added)))
    scheduled = dict(manifest.scheduled)
    if name.casefold() in scheduled:
        scheduled[name.casefold()] = tuple(
            change if change.new is None else replace(change, new=(*change.new, *new))
            for change in scheduled[name.casefold()]
        )
    return replace(
        manifest.with_traces(changed), scheduled=scheduled, told=_reported_differences(manifest, alteration)
    )


def placed_run(run: Run, alteration: Alteration, columns: int) -> Run:
    """Return a run of a stream or table with the places of its columns after some were added.

    `columns` is how many there were in the rows of the run; those that say why a row is late come last.

    >>> placed_run(Run("late", 1, 0, 0, 0, 0, 0), Alteration(7, "s", columns=2, added=("b",)), 5).places
    (0, 1, -1, 2, 3, 4)
    """
    if run.step >= alteration.step:
        return run
    places = run.places or tuple(range(columns))
    own = alteration.columns
    return replace_run(run, places=(*places[:own], *(-1 for _ in alteration.added), *places[own:]))


def _reported_differences(
    manifest: Manifest, alteration: Alteration
) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the differences of columns reported so far: that older files lack a new column is expected."""
    names = {n.casefold() for n in alteration.added}
    own = manifest.told.get(alteration.name, {})
    left_out = tuple(n for n in own.get(LEFT_OUT, ()) if n.casefold() not in names)
    missing = (*own.get(MISSING, ()), *alteration.added)
    return {**manifest.told, alteration.name: {**own, LEFT_OUT: left_out, MISSING: missing}}
