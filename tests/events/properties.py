"""The properties that every accepted event query has, checked step by step on a feed (EVENTS 3.7)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.catalog import Catalog
from everview.compile import stream_facts
from everview.errors import EverviewError
from everview.reference.events import (
    Bag,
    EventInputs,
    emitted_rows,
    event_meaning,
    increment_rows,
    visible_rows,
)
from everview.rewrite import EVENT_RULES, rewrite
from everview.sql import bind_script, declare
from everview.sql import statements as S
from everview.temporal.clocks import NOT_BEGUN
from everview.temporal.output_bounds import EventTiming, event_timing
from tests.events.random_queries import SCHEMA, Feed, RandomQuery, random_feed, random_query


def random_catalog() -> Catalog:
    catalog = Catalog()
    for statement in bind_script(SCHEMA, catalog):
        declare(statement, catalog)
    return catalog


CATALOG = random_catalog()
FACTS = stream_facts(CATALOG)


@dataclass(frozen=True)
class Accepted:
    """An event query that passed the blocking check."""

    query: RandomQuery
    plan: N.Node
    timing: EventTiming

    @property
    def positions(self) -> list[int]:
        return [self.plan.schema.index(self.plan.schema.find(line)) for line in self.query.lines]


def bind_event_query(query: RandomQuery) -> N.Node:
    """Return the rewritten plan of a random query."""
    (statement,) = bind_script(f"CREATE STREAM o TIMELINE {', '.join(query.lines)} AS {query.sql}", CATALOG)
    assert isinstance(statement, S.Create)
    assert statement.plan is not None
    return rewrite(statement.plan, EVENT_RULES).plan


def accept(query: RandomQuery) -> Accepted | None:
    """Return the query if it can answer."""
    plan = bind_event_query(query)
    try:
        timing = event_timing(plan, query.lines, FACTS)
    except EverviewError:
        return None
    return None if timing is None else Accepted(query, plan, timing)


def random_accepted(rng: random.Random, views: bool = False) -> Accepted:
    """Return a random query that can answer, with ISTREAM of views if asked for."""
    while (found := accept(random_query(rng, views))) is None:
        pass
    return found


def output_bounds(accepted: Accepted, feed: Feed, step: int) -> list[int]:
    """Return the bounds of the output's time lines after a step; -1: before the first."""
    if step < 0:
        return [NOT_BEGUN] * len(accepted.query.lines)
    return list(accepted.timing.bounds(feed.steps[step].bounds).values())


def check_feed(accepted: Accepted, feed: Feed) -> None:
    """Check properties 1 to 6 of the analysis and of the model of what is emitted."""
    everything = event_meaning(
        accepted.plan, EventInputs(feed.rows(), feed.tables, instants=accepted.query.instants)
    )
    lines = accepted.positions
    before: Bag = Counter()
    for number, step in enumerate(feed.steps):
        known = EventInputs(feed.rows(number), feed.tables, step.bounds, accepted.query.instants)
        so_far = event_meaning(accepted.plan, known)
        old, new = output_bounds(accepted, feed, number - 1), output_bounds(accepted, feed, number)
        emitted = emitted_rows(accepted.timing.timing, known)
        where = f"step {number} of {accepted.query}\n{feed}\n"
        for line, bound in zip(lines, new, strict=True):
            assert _upto(so_far, line, bound) == _upto(everything, line, bound), f"1 prefix: {where}"
            assert _upto(emitted, line, bound) == _upto(everything, line, bound), f"4 complete: {where}"
        assert emitted <= everything, f"2 never wrong: {where}"
        assert before <= emitted, f"never taken back: {where}"
        for row in emitted - before:
            late = [row[line] <= bound for line, bound in zip(lines, old, strict=True)]  # type: ignore[operator]
            assert not any(late), f"3 never late: {row} {where}"
        shown = visible_rows(emitted, lines, new) - visible_rows(before, lines, old)
        assert shown == increment_rows(so_far, lines, old, new), f"6 literal: {where}"
        before = emitted
    assert before == everything, f"5 whole: {accepted.query}\n{feed}"


def _upto(rows: Bag, line: int, bound: int) -> Bag:
    return visible_rows(rows, [line], [bound])


def check_seeds(seeds: Sequence[int], feeds: int = 3) -> int:
    """Check some random queries with some feeds each; return how many queries were checked."""
    for seed in seeds:
        rng = random.Random(seed)
        accepted = random_accepted(rng, views=seed % 4 == 3)
        for number in range(feeds):
            check_feed(accepted, random_feed(rng, accepted.query.scale, eager=number == 0))
    return len(seeds)
