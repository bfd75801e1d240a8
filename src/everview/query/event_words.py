"""Why an event stream waits, in words: up to where its time lines are known, and which streams hold them.

The clocks are those of the plan that runs; it is read from the store, so that nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everview.algebra.time import UNDATED, instant_words
from everview.catalog import EventStreamEntry
from everview.execute.event_bounds import clock_bound
from everview.operators import EventOutputOperator, Operator
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, Clock, LineBounds, StreamLine

if TYPE_CHECKING:
    from everview.storage.manifest import Manifest


def all_bounds(manifest: Manifest) -> dict[StreamLine, int]:
    """Return the bounds of the time lines of all streams, event streams included, and of the store."""
    every = {**manifest.bounds, **manifest.event_bounds}
    found = {StreamLine(name, line): b for name, lines in every.items() for line, b in lines.items()}
    return {**clock_bound(manifest), **found, STORE_BOUND: manifest.bound}


def line_clocks(
    entry: EventStreamEntry, manifest: Manifest, load: Callable[[str], Operator]
) -> dict[str, Clock]:
    """Return the clocks of the time lines of an event stream; none before its first step."""
    kept = manifest.plans.get(entry.name)
    plan = None if kept is None else load(kept.plan)
    if not isinstance(plan, EventOutputOperator):
        return {}
    return {line: w.clock or Clock() for line, w in zip(entry.timelines, plan.lines, strict=True)}


def wait_words(line: str, clock: Clock, bounds: LineBounds, holding_store: Sequence[str] = ()) -> str:
    """Return up to where a time line is known, and which streams hold it back.

    `holding_store` are the streams that hold back the bound of the store.

    >>> fire, brigade = StreamLine("fire", "ts"), StreamLine("brigade", "ts")
    >>> clock = Clock.earliest([[moment] for part in (Clock.line(fire), Clock.line(brigade).less(5))
    ...                         for moment in part.parts[0]])
    >>> wait_words("deadline", clock, {fire: 70, brigade: 60})
    'deadline is known to 1970-01-01T00:00:00.000055: brigade is known to 1970-01-01T00:00:00.000060'
    >>> wait_words("deadline", clock, {fire: 70})
    'deadline is not known yet: brigade has no rows'
    >>> wait_words("at", Clock.line(STORE_BOUND), {STORE_BOUND: 70}, ["exits"])
    'at is known to 1970-01-01T00:00:00.000070: exits is known to 1970-01-01T00:00:00.000070'
    """
    known = clock.value(bounds)
    if known >= ENDED:
        return f"{line} is known to the end"
    holding: dict[str, StreamLine] = {}
    for held in clock.holding(bounds):
        names = [held.stream] if held.stream else holding_store or ["the store"]
        holding |= {name: held for name in names if name not in holding}
    silent = [name for name, held in holding.items() if bounds.get(held, NOT_BEGUN) <= NOT_BEGUN]
    if known < UNDATED:
        return f"{line} is not known yet: {_listed(silent or list(holding))} {_has(silent)} no rows"
    why = [f"{name} is known to {instant_words(bounds[held])}" for name, held in holding.items()]
    return f"{line} is known to {instant_words(known)}: {_listed(why)}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _has(names: list[str]) -> str:
    return "have" if len(names) > 1 else "has"
