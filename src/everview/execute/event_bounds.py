"""The bounds of all time lines after a step: of streams, the store and event streams (paper 3, def. 24).

They are functions of the manifest and the plans alone, so that a step that runs again has the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.algebra.time import INFINITY
from everview.catalog import CLOCK, CLOCK_ENTRY
from everview.compile_store import CompiledStore
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.operators.step_slices import StepSlices
from everview.temporal.clocks import ENDED, STORE_BOUND, StreamLine

if TYPE_CHECKING:  # explain comes by here, and starts without Arrow
    from everview.storage.manifest import Manifest

MARKS = 1000  # steps after which a reader of changes can no longer resume


def line_bounds(manifest: Manifest, views: CompiledStore) -> dict[StreamLine, int]:
    """Return up to where each time line is known; event streams after those that they read."""
    known = {
        StreamLine(stream, line): bound
        for stream, lines in manifest.bounds.items()
        for line, bound in lines.items()
    }
    known[STORE_BOUND] = manifest.bound
    if CLOCK not in views.catalog.entries:
        known |= clock_bound(manifest)
    for event in views.events.values():
        known |= {line: clock.value(known) for line, clock in event.line_clocks().items()}
    return known


def clock_bound(manifest: Manifest) -> dict[StreamLine, int]:
    """Return up to where the stream of the clock is known, which is built in."""
    ticks = ENDED if manifest.finished else min(manifest.bound, manifest.present)
    return {StreamLine(CLOCK, CLOCK_ENTRY.timelines[0].column): ticks}


def step_slices(before: Manifest, moved: Manifest, views: CompiledStore) -> StepSlices:
    """Return the slices of a step."""
    first = before.bound == BEFORE_ALL < moved.bound
    store = Slice(before.bound, moved.bound, first, *moved.clock_range)
    if not views.events:
        return StepSlices(store)
    return StepSlices(store, line_bounds(before, views), line_bounds(moved, views), moved.finished)


def with_event_bounds(manifest: Manifest, views: CompiledStore) -> Manifest:
    """Return the manifest with the bounds of event streams; of those that were set aside, as they were."""
    if not views.events:
        return replace(manifest, event_bounds={}, event_marks={}, slowest=INFINITY)
    known = line_bounds(manifest, views)
    bounds: dict[str, Mapping[str, int]] = {
        name: {line: known[StreamLine(name, line)] for line in event.lines}
        for name, event in views.events.items()
        if name not in views.aside
    }
    aside = {name: lines for name, lines in manifest.event_bounds.items() if name in views.aside}
    slowest = min((clock.value(known) for clock in views.domain_clocks), default=INFINITY)
    bounds |= aside
    marks = {
        name: {line: _marked(manifest, name, line, bound) for line, bound in lines.items()}
        for name, lines in bounds.items()
    }
    return replace(manifest, event_bounds=bounds, event_marks=marks, slowest=slowest)


def _marked(manifest: Manifest, name: str, line: str, bound: int) -> tuple[tuple[int, int], ...]:
    """Return the bounds that a time line had after the last steps; of equal ones, the first."""
    known = manifest.event_marks.get(name, {}).get(line, ())
    return known if known and known[-1][1] == bound else (*known[-MARKS:], (manifest.step, bound))


def without_later_marks(manifest: Manifest) -> Manifest:
    """Return the manifest of a store that was rewound, without marks after its bounds."""
    marks = {
        name: {
            line: tuple(mark for mark in manifest.event_marks[name].get(line, ()) if mark[1] <= bound)
            for line, bound in lines.items()
        }
        for name, lines in manifest.event_bounds.items()
    }
    return replace(manifest, event_marks=marks)


def kept_bounds(manifest: Manifest, step: int | None = None) -> dict[StreamLine, int]:
    """Return the bounds of the store and of event streams as they are kept, or as they were after a step.

    Steps that a rewind has made void do not count.
    """
    found = {STORE_BOUND: manifest.bound if step is None else _bound_after(manifest, manifest.marks, step)}
    for name, lines in manifest.event_bounds.items():
        for line, bound in lines.items():
            marks = manifest.event_marks.get(name, {}).get(line, ())
            found[StreamLine(name, line)] = bound if step is None else _bound_after(manifest, marks, step)
    return found


def _bound_after(manifest: Manifest, marks: Sequence[tuple[int, int]], step: int) -> int:
    valid = (bound for number, bound in marks if number <= step and manifest.voided(number) is None)
    return max(valid, default=BEFORE_ALL)
