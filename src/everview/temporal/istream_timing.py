"""The times in the rows of ISTREAM when an event query reads it: its instant, and the times in the view."""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.types import TIMESTAMP
from everview.temporal.cases import TimeCase
from everview.temporal.clocks import (
    STORE_BOUND,
    Alternative,
    Clock,
    Moment,
    Origin,
    Requirement,
    StreamLine,
)
from everview.temporal.delay import insertion_delay
from everview.temporal.distances import Attribute, Distances
from everview.temporal.event_query import EventQueryError, Knowledge, Timing
from everview.temporal.formulas import Atom


def new_case(node: N.Node) -> TimeCase:
    """Return a case in which nothing is known but the names of the times."""
    columns = tuple(Attribute(f.qualified) if f.type == TIMESTAMP else None for f in node.schema)
    return TimeCase(Distances.of(*(a for a in columns if a is not None)), columns)


def istream_timing(node: N.View | N.IStream, known: Knowledge) -> Timing:
    """Return the timing of ISTREAM, or of a view that is one: a row is known with the view at its instant.

    Where rows are inserted at most so long after the time in them, that time and the instant are related.
    """
    name = node.name if isinstance(node, N.View) else "ISTREAM"
    stream = node.definition if isinstance(node, N.View) else node
    if not isinstance(stream, N.IStream) or not stream.stamped:
        return _timing_without_instant(node, name, known)
    case = new_case(node)
    instant = case.columns[-1]
    assert instant is not None
    requirement = Requirement((Alternative(instant, _clock_of_view(node, known)),), (Origin(name, name),))
    case = replace(case, present=frozenset((instant,)), requirements=(requirement,))
    line, delay = stream.input.schema.timeline, insertion_delay(stream.input)
    if line is None or delay is None:
        return Timing(node, (), (case,))
    time = case.columns[stream.input.schema.index(line)]
    assert time is not None
    cases = replace(case, present=case.present | {time}).restrict(Atom(time, instant, 0))
    return Timing(node, (), tuple(c for each in cases for c in each.restrict(Atom(instant, time, delay))))


def _timing_without_instant(node: N.Node, name: str, known: Knowledge) -> Timing:
    """Return the timing of ISTREAM in a view of an earlier release: by the time line in its rows."""
    line = node.schema.timeline
    if line is None:
        raise EventQueryError(
            "these rows carry no time",
            next_step="CREATE OR REPLACE VIEW gives it a column for the instant"
            if isinstance(node, N.View)
            else "select a time line",
        ).about("relation", name)
    delay = insertion_delay(node)
    if delay is None:
        raise EventQueryError(
            f"a row may be inserted any time after its {line.name}",
            next_step="ISTREAM of the stream's window",
        ).about("relation", name)
    case = new_case(node)
    time = case.columns[node.schema.index(line)]
    assert time is not None
    alternative = Alternative(time, _clock_of_view(node, known), delay)
    requirement = Requirement((alternative,), (Origin(name, name),))
    return Timing(node, (), (replace(case, present=frozenset((time,)), requirements=(requirement,)),))


def _clock_of_view(node: N.Node, known: Knowledge) -> Clock:
    """Return up to where a view is known: to the bound of the store and those of its event streams."""
    parts = [(Moment(STORE_BOUND),)]
    for stream in node.walk():
        line = stream.schema.timeline if isinstance(stream, N.Stream) else None
        if isinstance(stream, N.Stream) and line is not None and known.is_event_stream(stream.name):
            parts.append((Moment(StreamLine(stream.name, line.name)),))
    return Clock.earliest(parts)
