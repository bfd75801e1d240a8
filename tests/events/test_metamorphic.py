"""Property 12 of event queries, over random SQL: another plan of the same query emits the same rows.

Both sides of the first join are exchanged, and filters stay where they were written or go part of the way
down. Each plan runs through the operators, where every step is compared with the model.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from everview.errors import EverviewError
from everview.reference.events import Bag
from everview.rewrite import RULES, rewrite
from everview.sql import bind_script
from everview.sql import statements as S
from everview.temporal.output_bounds import event_timing
from tests.events.properties import CATALOG, FACTS, Accepted, accept, random_accepted
from tests.events.random_queries import Feed, RandomQuery, random_feed
from tests.events.test_operators import run_feed
from tests.seeds import seeds

lanes = pytest.mark.parametrize(
    "count",
    [pytest.param(2, id="fast"), pytest.param(len(seeds(15, 40)), id="slow", marks=pytest.mark.slow)],
)

FIRST_JOIN = re.compile(r"FROM ([pqw] x\d+) (JOIN|LEFT JOIN|RIGHT JOIN|FULL JOIN) ([pqw] x\d+) ON ")
EXCHANGED = {"LEFT JOIN": "RIGHT JOIN", "RIGHT JOIN": "LEFT JOIN"}


def exchanged(query: RandomQuery) -> RandomQuery | None:
    """Return the query with the sides of its first join exchanged; None if it has no join."""

    def turn(found: re.Match[str]) -> str:
        left, kind, right = found.groups()
        return f"FROM {right} {EXCHANGED.get(kind, kind)} {left} ON "

    sql, count = FIRST_JOIN.subn(turn, query.sql, count=1)
    return RandomQuery(sql, query.lines, query.scale) if count else None


def planned(query: RandomQuery, rules: tuple) -> Accepted | None:  # type: ignore[type-arg]
    """Return the query with a plan that only some rules have rewritten, if it can answer so."""
    (statement,) = bind_script(f"CREATE STREAM o TIMELINE {', '.join(query.lines)} AS {query.sql}", CATALOG)
    assert isinstance(statement, S.Create)
    assert statement.plan is not None
    plan = rewrite(statement.plan, rules).plan
    try:
        timing = event_timing(plan, query.lines, FACTS)
    except EverviewError:
        return None
    return None if timing is None else Accepted(query, plan, timing)


def whole_answer(accepted: Accepted, feed: Feed, seed: int) -> Bag:
    return sum(run_feed(accepted, feed, seed), Counter())


@lanes
def test_the_sides_of_a_join_are_exchanged(count: int) -> None:
    tried, seed = 0, 0
    while tried < count:
        rng, seed = random.Random(seed + 80_000), seed + 1
        first = random_accepted(rng)
        other = exchanged(first.query)
        if other is None:
            continue
        second = accept(other)
        if second is None:  # its rows wait by another column, which bounds less
            continue
        feed = random_feed(rng, first.query.scale)
        assert whole_answer(first, feed, seed) == whole_answer(second, feed, seed), other
        tried += 1


@pytest.mark.slow
@lanes
def test_filters_are_pushed_or_not(count: int) -> None:
    tried, seed = 0, 0
    while tried < count:
        rng, seed = random.Random(seed + 90_000), seed + 1
        first = random_accepted(rng)
        feed = random_feed(rng, first.query.scale)
        some = tuple(rule for rule in RULES if rng.random() < 0.5)
        for rules in ((), some):
            second = planned(first.query, rules)
            if second is not None and second.plan != first.plan:
                assert whole_answer(first, feed, seed) == whole_answer(second, feed, seed), first.query
                tried += 1
