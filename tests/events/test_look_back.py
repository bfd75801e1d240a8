"""The look-back of event queries: from when a query is complete that is made when its streams have begun."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from everview.algebra.changes import Record
from everview.algebra.time import DAY, HOUR, MINUTE
from everview.reference.events import Bag, EventInputs, event_meaning
from tests.events.harness import EventScript
from tests.events.properties import random_accepted
from tests.events.random_queries import COLUMNS, LINES, random_feed
from tests.events.test_worked_queries import QUERIES
from tests.lanes import seed_lanes


@pytest.mark.parametrize(
    ("name", "stream", "line", "wanted"),
    [
        ("E1", "evacuated", "arrived", HOUR),
        ("E2", "unanswered", "deadline", HOUR),
        ("E5", "clean", "shipped_at", DAY),
        ("E9", "starts", "ts", 30 * MINUTE),
        ("E9", "ends", "ts", 0),
        ("E10", "allen", "known", None),
        ("E14", "hourly", "hour", 0),
    ],
)
def test_worked_queries(name: str, stream: str, line: str, wanted: int | None) -> None:
    assert EventScript.of(QUERIES[name].sql).timing(stream).look_back(line) == wanted


def _after(rows: Bag, line: int, instant: int) -> Bag:
    return Counter({row: n for row, n in rows.items() if row[line] > instant})  # type: ignore[operator]


@seed_lanes("seeds", 10, 60, 140)
def test_earlier_rows_do_not_matter(seeds: range) -> None:
    """Without the rows up to an instant, the answer is the same for times that are a look-back later."""
    for seed in seeds:
        rng = random.Random(seed + 70_000)
        accepted = random_accepted(rng)
        feed = random_feed(rng, accepted.query.scale)
        since = rng.randrange(8) * accepted.query.scale
        later: dict[str, list[Record]] = {
            name: [row for row in rows if row[COLUMNS[name].index(LINES[name][0])] > since]  # type: ignore[operator]
            for name, rows in feed.rows().items()
        }
        whole = event_meaning(accepted.plan, EventInputs(feed.rows(), feed.tables))
        part = event_meaning(accepted.plan, EventInputs(later, feed.tables))
        for name, position in zip(accepted.query.lines, accepted.positions, strict=True):
            back = accepted.timing.look_back(name)
            if back is not None:
                upto = since + back
                assert _after(part, position, upto) == _after(whole, position, upto), accepted.query
