"""The bounds of the time lines of an event stream (paper 3, definitions 22 and 24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.temporal.clocks import Clock, LineBounds
from everview.temporal.event_query import StreamFacts, Timing
from everview.temporal.timing import timing_of
from everview.temporal.waits import clock_of, look_back_of


@dataclass(frozen=True)
class EventTiming:
    """An event query that can answer: the timing of its plan, and the clock of each time line."""

    timing: Timing
    clocks: Mapping[str, Clock]

    @property
    def is_empty(self) -> bool:
        """Whether its conditions can never hold at once."""
        return not self.timing.cases

    def look_back(self, line: str) -> int | None:
        """Return how far before a time of the output rows of the inputs can matter; None: any time before it.

        A query that is made when its inputs have begun is complete for later times than that.
        """
        schema = self.timing.node.schema
        cases = [(case, case.requirements) for case in self.timing.cases]
        return look_back_of(schema.index(schema.find(line)), cases)

    def bounds(self, known: LineBounds) -> dict[str, int]:
        """Return up to which instant each time line is known, from the bounds of the input streams."""
        return {line: clock.value(known) for line, clock in self.clocks.items()}


def output_clock(timing: Timing, line: str) -> Clock | None:
    """Return the clock of a column of the output; None if it does not bound every input, or may be NULL."""
    position = timing.node.schema.index(timing.node.schema.find(line))
    for case in timing.cases:
        time = case.columns[position]
        if time is None or not case.is_present(time):
            return None
    return clock_of(position, [(case, case.requirements) for case in timing.cases])


def event_timing(
    plan: N.Node, lines: Sequence[str], facts: Mapping[str, StreamFacts] | None = None
) -> EventTiming | None:
    """Return the timing of an event query with these time lines; None if it could never answer."""
    timing = timing_of(plan, facts)
    if any(each.blocked for each in timing.walk()):
        return None
    clocks = {line: output_clock(timing, line) for line in lines}
    sure = {line: clock for line, clock in clocks.items() if clock is not None}
    return EventTiming(timing, sure) if len(sure) == len(clocks) else None
