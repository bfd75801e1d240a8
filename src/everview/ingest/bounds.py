"""Bounds: how far each stream is known, and how far all of them together are (DESIGN section 2).

>>> from everview.algebra.schema import Schema
>>> from everview.algebra.types import TIMESTAMP
>>> from everview.catalog import Lateness, Source
>>> columns = Schema.of(("ts", TIMESTAMP), timeline="ts")
>>> a = StreamEntry("a", columns, (Lateness("ts", 5),), source=Source("csv", "a"))
>>> b = StreamEntry("b", columns, (Lateness("ts"),))
>>> arrived = {"a": Arrived(9, newest={"ts": 50}, oldest=3)}
>>> moved = advance_bounds([a, b], Manifest(newest={"b": {"ts": 40}}), arrived)
>>> moved.bounds["a"], moved.bounds["b"], moved.bound, moved.present
({'ts': 44}, {'ts': 40}, 40, 50)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from everview.algebra.time import INFINITY, Chronon
from everview.catalog import Lateness, StreamEntry
from everview.operators.columnar.frame import BEFORE_ALL
from everview.storage.arrivals import Arrived, PartTimes, add_parts, latest
from everview.storage.manifest import Manifest

LAST = INFINITY - 1  # the last instant


def record_arrivals(manifest: Manifest, arrived: Mapping[str, Arrived], now: int) -> Manifest:
    """Return the manifest after an intake: the newest timestamps, the time of the last row, the counters."""
    newest = {**manifest.newest}
    counts = {**manifest.counts}
    heard = {**manifest.heard}
    punctuated = {**manifest.punctuated}
    parts = {**manifest.parts}
    start = manifest.start
    for name, came in arrived.items():
        if came.newest:
            newest[name] = latest(newest.get(name, {}), came.newest)
        if came.punctuated:
            punctuated[name] = latest(punctuated.get(name, {}), came.punctuated)
        if came.parts:
            spoke = {part: replace(times, heard=now) for part, times in came.parts.items()}
            parts[name] = add_parts(parts.get(name, {}), spoke)
        before = counts.get(name, (0, 0, 0))
        if came:
            counts[name] = (before[0] + came.rows, before[1] + came.late, before[2] + came.rejected)
        if came.rows or name not in heard:
            heard[name] = now
        if came.oldest is not None and manifest.bound == BEFORE_ALL:
            start = came.oldest if start is None else min(start, came.oldest)
    return replace(
        manifest, newest=newest, counts=counts, heard=heard, start=start, punctuated=punctuated, parts=parts
    )


def advance_bounds(
    streams: Sequence[StreamEntry],
    before: Manifest,
    arrived: Mapping[str, Arrived] | None = None,
    *,
    finish: bool = False,
    now: int = 0,
) -> Manifest:
    """Return the manifest with its bounds advanced as far as possible; they never fall.

    The bound of the store is the least bound of the streams that are not idle. An idle stream advances with
    it, on all its time lines; a second line also as far as the second lines of the others, so that an event
    query by these lines does not wait for it. Rows that it sends later for an earlier time are late. When all
    streams are idle, the bound goes on by the clock, so that windows end while nothing comes. A time line
    that is stamped on ARRIVAL always goes by the clock.
    """
    silent = {e.name: Arrived() for e in streams if e.name not in before.heard}
    known = record_arrivals(before, {**silent, **(arrived or {})}, now)
    own = {e.name: _own(e, known, finish, now) for e in streams}
    firsts = {e.name: own[e.name][e.timelines[0].column] for e in streams}
    awake = {e.name for e in streams if holds_time(e, known, now)}
    reached = min((firsts[n] for n in awake), default=max(firsts.values(), default=BEFORE_ALL))
    silent_until = BEFORE_ALL
    if streams and not awake and not finish:
        silent_until = max(_by_the_clock(e, known, now) for e in streams)
        reached = max(reached, silent_until)
    if not streams:
        reached = LAST if finish else _tables_changed(known)
    bound = max(before.bound, reached)
    least = _least_bounds([e for e in streams if not is_idle(e, known, now)], own)
    for entry in streams:
        if is_idle(entry, known, now):
            for number, line in enumerate(entry.timelines):
                if not line.arrival:
                    known_before = own[entry.name][line.column]
                    own[entry.name][line.column] = max(known_before, bound, least.get(number, BEFORE_ALL))
    newest = [known.newest.get(e.name, {}).get(e.timelines[0].column, BEFORE_ALL) for e in streams]
    present = max([before.present, silent_until, *(newest if streams else [_tables_changed(known)])])
    finished = before.finished or finish
    return replace(known, bounds={**before.bounds, **own}, bound=bound, present=present, finished=finished)


def _least_bounds(
    streams: Sequence[StreamEntry], own: Mapping[str, Mapping[str, Chronon]]
) -> dict[int, Chronon]:
    """Return the least bound of the second time lines of some streams, of the third ones, and so on.

    Those that are stamped on ARRIVAL are left out: they may be far from the times in rows.
    """
    found: dict[int, Chronon] = {}
    for entry in streams:
        for number, line in enumerate(entry.timelines):
            if number and not line.arrival:
                bound = own[entry.name][line.column]
                found[number] = min(found.get(number, bound), bound)
    return found


def _by_the_clock(entry: StreamEntry, manifest: Manifest, now: int) -> Chronon:
    """Return how far time has gone on for an idle stream: from its newest row, less idle time and lateness.

    It goes on as fast as the clock from where the rows were, so that it does not jump for rows of the past.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.catalog import Lateness
    >>> s = StreamEntry("s", Schema.of(("ts", TIMESTAMP), timeline="ts"), (Lateness("ts", 5),), idle_after=20)
    >>> _by_the_clock(s, Manifest(newest={"s": {"ts": 100}}, heard={"s": 1000}), 1120)
    195
    """
    line = entry.timelines[0]
    newest = manifest.newest.get(entry.name, {}).get(line.column)
    if newest is None or entry.idle_after is None:
        return BEFORE_ALL
    silence = now - manifest.heard.get(entry.name, now)
    return min(newest + silence - entry.idle_after - line.lateness - _ahead(entry), LAST)


def is_idle(entry: StreamEntry, manifest: Manifest, now: int) -> bool:
    """Return whether a stream has sent no rows for as long as its IDLE AFTER."""
    return entry.idle_after is not None and now - manifest.heard.get(entry.name, now) >= entry.idle_after


def holds_time(entry: StreamEntry, manifest: Manifest, now: int) -> bool:
    """Return whether the bound of the store waits for a stream: unless it is idle.

    A stream whose first time line is stamped on ARRIVAL is never passed by: its next row would be late. Its
    bound goes by the clock, so that it stops nothing.
    """
    return entry.timelines[0].arrival or not is_idle(entry, manifest, now)


def arrival_time(entry: StreamEntry, line: str, manifest: Manifest, now: int) -> Chronon:
    """Return the timestamp of rows that are taken in now, on a time line that is stamped on ARRIVAL.

    It is after the bound of the line, so that no row is late, also if the clock was set back. In a store that
    was run to its end, every row is.
    """
    bound = manifest.bounds.get(entry.name, {}).get(line, BEFORE_ALL)
    return now if bound >= LAST else max(now, bound + 1)


def _own(entry: StreamEntry, manifest: Manifest, finish: bool, now: int) -> dict[str, Chronon]:
    """Return the bound of each time line: up to it all rows are known.

    Rows of a source with the newest timestamp may still come; those of an INSERT have all come. Up to the
    timestamp of a punctuation all rows have come, whatever the lateness. Rows that are stamped by the clock
    will not be stamped with an earlier time than it has now (paper 3, note 21). Where a source has parts side
    by side, the least of those that are not idle counts.
    """
    known = manifest.bounds.get(entry.name, {})
    whole = PartTimes(manifest.newest.get(entry.name, {}), manifest.punctuated.get(entry.name, {}))
    parts = list(live_parts(entry, manifest, now).values()) or [whole]
    bounds = {}
    for line in entry.timelines:
        reached = min(_reached(entry, line, part, now) for part in parts)
        bounds[line.column] = LAST if finish else max(known.get(line.column, BEFORE_ALL), reached)
    return bounds


def live_parts(entry: StreamEntry, manifest: Manifest, now: int) -> dict[str, PartTimes]:
    """Return the parts of a source that hold its bound back: all that had rows and are not idle.

    Parts are read side by side, each in an order of its own: a row is not late because those of another part
    were read first. A part without rows so far is not waited for. There are none if all are idle.
    """
    parts, idle = manifest.parts.get(entry.name, {}), entry.idle_after
    return {name: part for name, part in parts.items() if idle is None or now - part.heard < idle}


def slowest_part(entry: StreamEntry, manifest: Manifest, now: int) -> str | None:
    """Return the part of a source whose rows are the oldest; None if there are not several."""
    parts, line = live_parts(entry, manifest, now), entry.timelines[0]
    if len(parts) < 2:
        return None
    return min(sorted(parts), key=lambda name: _reached(entry, line, parts[name], now))


def _reached(entry: StreamEntry, line: Lateness, part: PartTimes, now: int) -> Chronon:
    """Return up to which instant all rows of a part have come."""
    reached = part.punctuated.get(line.column, BEFORE_ALL)
    if line.arrival:
        return max(reached, now - 1)
    newest = part.newest.get(line.column)
    return reached if newest is None else max(reached, newest - line.lateness - _ahead(entry))


def _ahead(entry: StreamEntry) -> int:
    return 0 if entry.source is None else 1


def _tables_changed(manifest: Manifest) -> Chronon:
    """Return the bound of a store without streams: the last change of its tables."""
    inboxes = manifest.of("inbox").values()
    return max((run.greatest_from for runs in inboxes for run in runs), default=BEFORE_ALL)
