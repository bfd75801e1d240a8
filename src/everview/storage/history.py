"""How far back the changes of views are kept.

A view keeps the changes of a length of time, and some views keep a number of them however old they are. The
history of a view begins at an instant, its horizon, which never goes back: answers and changes are exact from
there on, and refused before. Rows that began before it are summed where runs are merged (`housekeeping.py`),
so that a value and its retraction cancel: what is left of them is the answer at the horizon.
"""

from __future__ import annotations

from collections.abc import Iterator

from everview.algebra.time import INFINITY
from everview.catalog import Catalog, EventStreamEntry, QueryEntry
from everview.operators.columnar.frame import BEFORE_ALL
from everview.storage.manifest import Manifest
from everview.storage.runs import REPLACED, Run, TraceId


def horizons(manifest: Manifest, catalog: Catalog) -> dict[TraceId, int]:
    """Return the instant at which the history of each view begins that does not keep all."""
    return {
        TraceId("view", name, part): instant
        for name, instant in advance_history(manifest, catalog, counted=False).items()
        for part in ("", REPLACED)
    }


def forgotten_before(manifest: Manifest, catalog: Catalog, name: str) -> int:
    """Return the instant at which the history of a view begins, if there was anything before it.

    A history that is longer than the time since the first row is whole.
    """
    instant = horizons(manifest, catalog).get(TraceId("view", name), BEFORE_ALL)
    return instant if instant > manifest.clock_range[0] else BEFORE_ALL


def advance_history(manifest: Manifest, catalog: Catalog, counted: bool = True) -> dict[str, int]:
    """Return the instant at which the history of each view begins, as late as what it must keep allows.

    Changes are counted by what is known of runs, and rather too low than too high: no row is read. Without
    `counted`, the history of a view that keeps a number of changes stays as it is.
    """
    found = {}
    for entry in catalog:
        if not isinstance(entry, QueryEntry) or entry.history == INFINITY:
            continue
        instant = manifest.forgotten.get(entry.name, BEFORE_ALL)
        seen = _seen(manifest, entry)
        if seen > BEFORE_ALL + entry.history and (counted or not entry.least_changes):
            last = seen - entry.history
            if entry.least_changes:
                last = min(last, _before_the_last(manifest, entry))
                last = last if _ends_something(manifest, entry, last) else BEFORE_ALL
            instant = max(instant, last)
        if instant > BEFORE_ALL:
            found[entry.name] = instant
    return found


def _seen(manifest: Manifest, entry: QueryEntry) -> int:
    """Return how far a view or an event stream has come: its history is counted back from there."""
    if isinstance(entry, EventStreamEntry):
        newest = (run.greatest_from for run in manifest.runs(TraceId("view", entry.name)))
        known = manifest.event_bounds.get(entry.name, {}).get(entry.timelines[0], BEFORE_ALL)
        # Without history there is no row to go by: everything up to the bound may be forgotten.
        return min(known, max(newest, default=BEFORE_ALL if entry.history else known))
    return min(manifest.bound, manifest.present)


def last_instant(run: Run, entry: object) -> int:
    """Return the instant after which the rows of a run change nothing; rows of event streams never end."""
    return run.greatest_from if isinstance(entry, EventStreamEntry) else run.greatest_until


def _ends_something(manifest: Manifest, entry: QueryEntry, instant: int) -> bool:
    """Return whether a view can forget anything if its history begins at an instant.

    A view whose rows are only added keeps all of them anyway: they are its answer.
    """
    runs = (run for part in ("", REPLACED) for run in manifest.runs(TraceId("view", entry.name, part)))
    if isinstance(entry, EventStreamEntry):
        return any(run.greatest_from <= instant for run in runs)
    return any(run.least_until <= instant or (run.negative and run.least_from <= instant) for run in runs)


def _before_the_last(manifest: Manifest, entry: QueryEntry) -> int:
    """Return the latest instant after which a view has as many changes as it keeps in any case."""
    traces = [TraceId("view", entry.name, part) for part in ("", REPLACED)]
    runs = [run for trace in traces for run in manifest.runs(trace)]
    left = entry.least_changes
    if sum(run.rows for run in runs) < left:
        return BEFORE_ALL
    replaced = manifest.replaced.get(entry.name)
    begin = BEFORE_ALL if replaced is None or replaced.anew else replaced.at
    parts = [part for run in manifest.runs(traces[1]) for part in _last_changes(run, entry)]
    # Before it was replaced, changes of the new definition do not show.
    parts += [p for run in manifest.runs(traces[0]) for p in _last_changes(run, entry) if p[0] >= begin]
    for instant, rows in sorted(parts, reverse=True):
        left -= rows
        if left <= 0:
            return instant - 1
    return BEFORE_ALL


def _last_changes(run: Run, entry: QueryEntry) -> Iterator[tuple[int, int]]:
    """Return instants and numbers of rows, for parts of a run: each row changes something then or later.

    A row does when it begins, and when it ends.
    """
    if run.greatest_until == INFINITY or isinstance(entry, EventStreamEntry):
        return run.parts_by_begin()
    return run.parts_by_end()
