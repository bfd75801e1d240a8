"""The state of a store: watermarks, rows that came and rows that wait, and since when views are complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from everview.algebra.time import LEAST, UNDATED, Chronon, instant_words
from everview.catalog import Catalog, EventStreamEntry, QueryEntry, StreamEntry, TableEntry
from everview.errors import format_count
from everview.query.event_words import all_bounds, wait_words
from everview.query.report import Report, ReportRow, table_lines, watermark
from everview.temporal.clocks import STORE_BOUND, Clock

if TYPE_CHECKING:
    from everview.storage.manifest import Manifest


@dataclass(frozen=True)
class StreamStatus:
    """One stream or table: its watermark, and the numbers of rows taken in, late, rejected and waiting."""

    name: str
    kind: str
    watermark: Chronon
    rows: int
    late: int
    rejected: int
    waiting: int
    note: str = ""


@dataclass(frozen=True)
class ViewStatus:
    """One view: the time for which it is complete, its size, and what there is to say of its plan."""

    name: str
    since: Chronon
    watermark: Chronon
    bytes: int = 0
    note: str = ""
    kind: str = "view"


@dataclass(frozen=True)
class SinkStatus:
    """One sink: the view, the target, the last step that it has, and why it was set aside."""

    name: str
    view: str
    target: str
    step: int
    note: str = ""


@dataclass(frozen=True)
class Status:
    """A store after its last step. `background` is running, failed or not running; `error` is the reason."""

    step: int
    watermark: Chronon
    present: Chronon
    finished: bool
    streams: tuple[StreamStatus, ...]
    views: tuple[ViewStatus, ...]
    waits: tuple[str, ...] = ()
    background: str = "not running"
    error: str | None = None
    sinks: tuple[SinkStatus, ...] = ()

    def report(self) -> Report:
        """Return the status as text and as records."""
        return Report("\n".join(_lines(self)), tuple(_records(self)))

    def __str__(self) -> str:
        return self.report().text

    __repr__ = __str__


def store_status(
    catalog: Catalog,
    manifest: Manifest,
    waiting: Mapping[str, int],
    now: int,
    background: str = "not running",
    error: str | None = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
    clocks: Mapping[str, Mapping[str, Clock]] = MappingProxyType({}),
    sinks: tuple[SinkStatus, ...] = (),
) -> Status:
    """Return the state of a store by its catalog and its last manifest.

    `waiting` counts the rows that wait, `sizes` the bytes of views; `clocks` are those of event streams.
    """
    waiting = {name: count for name, count in waiting.items() if is_read_by_bound(catalog, name)}
    holding = (
        holding_streams(catalog, manifest, now) if any(waiting.values()) or _apart(catalog, manifest) else []
    )
    streams = [
        _stream(entry, manifest, waiting, entry.name in holding, now)
        for entry in catalog
        if isinstance(entry, (StreamEntry, TableEntry))
    ]
    views = [
        ViewStatus(
            e.name,
            manifest.since.get(e.name, LEAST),
            view_bound(catalog, manifest, e.name),
            sizes.get(e.name, 0),
            view_note(manifest, e.name),
            e.kind,
        )
        for e in catalog
        if isinstance(e, QueryEntry)
    ]
    waits = [*why_waiting(catalog, manifest, waiting, now), *_waiting_events(catalog, manifest, clocks, now)]
    return Status(
        manifest.step,
        manifest.bound,
        manifest.present,
        manifest.finished,
        tuple(streams),
        tuple(views),
        tuple(waits),
        background,
        error,
        sinks,
    )


def view_bound(catalog: Catalog, manifest: Manifest, view: str) -> Chronon:
    """Return up to which instant a view or an event stream is known: one that was set aside stays behind.

    A view over event streams is known up to the least of their bounds and the store's.
    """
    if view in manifest.aside:
        return manifest.aside[view].bound
    bounds = [
        manifest.event_bounds.get(e.name, {}).get(e.timelines[0], LEAST) for e in event_streams(catalog, view)
    ]
    own = isinstance(catalog.get(view), EventStreamEntry)
    return min(bounds if own else [manifest.bound, *bounds])


def event_streams(catalog: Catalog, name: str) -> list[EventStreamEntry]:
    """Return the event streams that an entry is, or reads through views and tagged streams."""
    entry = catalog.get(name)
    if isinstance(entry, EventStreamEntry):
        return [entry]
    return [e for below in entry.depends_on for e in event_streams(catalog, below)]


def view_note(manifest: Manifest, view: str) -> str:
    """Return what there is to say of how a view runs: that it was set aside, or of its plan."""
    aside = manifest.aside.get(view)
    if aside is not None:
        because = "" if aside.because_of == view else f" with '{aside.because_of}'"
        return f"set aside{because} in step {aside.step}: {aside.error}"
    kept, next_plan = manifest.plans.get(view), manifest.next.get(view)
    if next_plan is not None:
        return f"a new plan takes over at {instant_words(next_plan.at)}"
    return "keeps an older plan" if kept is not None and kept.stays else ""


def is_read_by_bound(catalog: Catalog, name: str) -> bool:
    """Return whether rows of a stream or table wait for the bound of the store.

    Event queries take the rows of their streams as they come; so if nothing else reads a stream, none waits.
    """
    readers = [e for e in catalog if name in e.depends_on]
    if not readers or not isinstance(catalog.get(name), StreamEntry):
        return True
    return any(not isinstance(e, EventStreamEntry) or "istream" in e.sql.casefold() for e in readers)


def why_waiting(catalog: Catalog, manifest: Manifest, waiting: Mapping[str, int], now: int) -> list[str]:
    """Return a line for each stream or table with waiting rows, with the streams that they wait for."""
    names = holding_streams(catalog, manifest, now)
    known = [f"{name} is {_known(own_bound(catalog, manifest, name))}" for name in names]
    why = " and ".join(known) or f"time is {_known(manifest.bound)}"
    return [
        f"{format_count(number, 'row')} of {name} {'waits' if number == 1 else 'wait'}: {why}"
        for name, number in waiting.items()
        if number
    ]


def _waiting_events(
    catalog: Catalog, manifest: Manifest, clocks: Mapping[str, Mapping[str, Clock]], now: int
) -> list[str]:
    """Return a line for each event stream that is behind the newest row, with the streams that hold it."""
    bounds = all_bounds(manifest)
    holding = holding_of(catalog, manifest, [c for lines in clocks.values() for c in lines.values()], now)
    return [
        f"{name}: {wait_words(line, clock, bounds, holding)}"
        for name, lines in clocks.items()
        for line, clock in lines.items()
        if clock.value(bounds) < manifest.present
    ]


def holding_streams(catalog: Catalog, manifest: Manifest, now: int) -> list[str]:
    """Return the streams that hold the bound back: those with the least watermark that are not idle."""
    streams = [e for e in catalog if isinstance(e, StreamEntry)]
    awake = [e for e in streams if _holds_time(e, manifest, now)] or streams
    bounds = {e.name: own_bound(catalog, manifest, e.name) for e in awake}
    least = min(bounds.values(), default=LEAST)
    return [name for name, bound in bounds.items() if bound == least]


def holding_of(catalog: Catalog, manifest: Manifest, clocks: Iterable[Clock], now: int) -> list[str]:
    """Return the streams that hold back the bound of the store, if some of the clocks go by it."""
    by_store = any(STORE_BOUND in clock.lines for clock in clocks)
    return holding_streams(catalog, manifest, now) if by_store else []


def own_bound(catalog: Catalog, manifest: Manifest, name: str) -> Chronon:
    """Return the watermark of a stream on its first time line; for a table, that of the store."""
    entry = catalog.entries[name.casefold()]
    if not isinstance(entry, StreamEntry):
        return manifest.bound
    return manifest.bounds.get(entry.name, {}).get(entry.timelines[0].column, LEAST)


def _is_idle(entry: StreamEntry, manifest: Manifest, now: int) -> bool:
    from everview.ingest.bounds import is_idle  # loaded only where it is needed

    return is_idle(entry, manifest, now)


def _holds_time(entry: StreamEntry, manifest: Manifest, now: int) -> bool:
    from everview.ingest.bounds import holds_time  # loaded only where it is needed

    return holds_time(entry, manifest, now)


def _apart(catalog: Catalog, manifest: Manifest) -> bool:
    """Return whether the watermarks of the streams differ."""
    names = [e.name for e in catalog if isinstance(e, StreamEntry)]
    return len({own_bound(catalog, manifest, name) for name in names}) > 1


def _stream(
    entry: StreamEntry | TableEntry, manifest: Manifest, waiting: Mapping[str, int], holds: bool, now: int
) -> StreamStatus:
    taken, late, rejected = manifest.counts.get(entry.name, (0, 0, 0))
    own, note = manifest.bound, ""
    if isinstance(entry, StreamEntry):
        own = manifest.bounds.get(entry.name, {}).get(entry.timelines[0].column, LEAST)
        note = (
            "idle" if _is_idle(entry, manifest, now) else _holding_note(entry, manifest, now) if holds else ""
        )
    wait = waiting.get(entry.name, 0)
    return StreamStatus(entry.name, entry.kind, own, taken, late, rejected, wait, note)


def _holding_note(entry: StreamEntry, manifest: Manifest, now: int) -> str:
    """Return that a stream holds time back, and which of the parts of its source is the slowest."""
    from everview.ingest.bounds import slowest_part  # loaded only where it is needed

    slowest = slowest_part(entry, manifest, now)
    return "holds time back" if slowest is None else f"holds time back: {slowest} is the slowest"


def _known(t: Chronon) -> str:
    return "not known yet" if t < UNDATED else f"known to {instant_words(t)}"


def _show_instant(t: Chronon) -> str:
    return "nothing known yet" if t < UNDATED else instant_words(t)


def _lines(status: Status) -> list[str]:
    newest = "" if status.present < UNDATED else f", newest row {instant_words(status.present)}"
    lines = [f"step {status.step}: {_known(status.watermark)}{newest}"]
    if status.streams:
        header = ["stream", "watermark", "rows", "late", "rejected", "waiting", ""]
        rows = [
            [s.name, _show_instant(s.watermark), *_numbers(s.rows, s.late, s.rejected, s.waiting), s.note]
            for s in status.streams
        ]
        lines += ["", *table_lines(header, rows)]
    if status.views:
        rows = [
            [v.name, _show_instant(v.watermark), instant_words(v.since), f"{v.bytes:,}", v.note]
            for v in status.views
        ]
        header = ["view", "watermark", "complete since", "bytes", ""]
        lines += ["", *table_lines(header, rows)]
    if status.sinks:
        rows = [[s.name, s.view, s.target, f"{s.step:,}", s.note] for s in status.sinks]
        lines += ["", *table_lines(["sink", "view", "into", "step", ""], rows)]
    if status.waits:
        lines += ["", *status.waits]
    if status.background != "not running" or status.error is not None:
        lines += ["", f"background: {status.background}"]
        lines += [f"  {line}" for line in (status.error or "").splitlines()]
    return lines


def _numbers(*numbers: int) -> list[str]:
    return [f"{n:,}" for n in numbers]


def _records(status: Status) -> Sequence[ReportRow]:
    store = {
        "kind": "store",
        "name": None,
        "watermark": watermark(status.watermark),
        "step": status.step,
        "present": watermark(status.present),
        "finished": status.finished,
        "background": status.background,
        "error": status.error,
    }
    streams = [
        {
            "kind": s.kind, "name": s.name, "watermark": watermark(s.watermark), "rows": s.rows,
            "late": s.late, "rejected": s.rejected, "waiting": s.waiting, "note": s.note or None,
        }
        for s in status.streams
    ]  # fmt: skip
    views = [
        {
            "kind": v.kind,
            "name": v.name,
            "watermark": watermark(v.watermark),
            "complete_since": watermark(v.since),
            "bytes": v.bytes,
            "note": v.note or None,
        }
        for v in status.views
    ]
    sinks = [
        {
            "kind": "sink",
            "name": s.name,
            "view": s.view,
            "into": s.target,
            "step": s.step,
            "note": s.note or None,
        }
        for s in status.sinks
    ]
    return [store, *streams, *views, *sinks]
