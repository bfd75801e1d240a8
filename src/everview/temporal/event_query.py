"""The records of the analysis of event queries: what it knows, and what it finds for each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.errors import TemporalError
from everview.temporal.cases import TimeCase
from everview.temporal.clocks import Wait
from everview.temporal.waits import Unbounded


@dataclass(frozen=True)
class StreamFacts:
    """What is known of a stream beside its columns: its CHECK, which columns are NOT NULL, its event query.

    A CHECK is G of the paper's stream definition (definition 3).
    """

    check: Expression | None = None
    not_null: tuple[str, ...] = ()
    query: N.Node | None = None


@dataclass(frozen=True)
class Trial:
    """A condition that is tried at a node: the time `later` is at most `apart` after the time `earlier`."""

    node: N.Node
    later: str
    earlier: str
    apart: int


@dataclass(frozen=True)
class Timing:
    """A node of an event query: the cases of its rows, the waits of its state, and what blocks it.

    `growing` says, for each part of the state that is kept for ever, what nothing bounds. `pairs` are the
    cases in which two rows match.
    """

    node: N.Node
    inputs: tuple[Timing, ...]
    cases: tuple[TimeCase, ...]
    waits: tuple[Wait, ...] = ()
    blocked: tuple[Unbounded, ...] = ()
    growing: Mapping[str, tuple[Unbounded, ...]] = field(default_factory=dict)
    pairs: tuple[TimeCase, ...] = ()

    def walk(self) -> Iterator[Timing]:
        """Yield the timings of all nodes, each after those below it."""
        for below in self.inputs:
            yield from below.walk()
        yield self

    def wait(self, part: str) -> Wait:
        """Return the wait of a part of the state."""
        return next(wait for wait in self.waits if wait.part == part)


class EventQueryError(TemporalError):
    """An event query that could never answer; `part` and `name` say where in its text the reason stands."""

    part: str = "relation"
    name: str = ""

    def about(self, part: str, name: str) -> EventQueryError:
        """Return the error with the part of the query that it is about."""
        self.part, self.name = part, name
        return self


class Knowledge(NamedTuple):
    """What the analysis knows beside the plan."""

    facts: Mapping[str, StreamFacts]
    trial: Trial | None = None

    def is_event_stream(self, name: str) -> bool:
        """Return whether a stream is defined by an event query."""
        return self.facts.get(name, StreamFacts()).query is not None
