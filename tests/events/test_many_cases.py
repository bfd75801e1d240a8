"""Trap 7: of too many cases the analysis makes fewer and weaker ones. They may refuse more, and are right."""

from __future__ import annotations

import random
import time

import pytest

from everview.temporal import cases, timing
from tests.events.harness import EventScript
from tests.events.properties import Accepted, accept, check_feed, random_accepted
from tests.events.random_queries import random_feed
from tests.events.test_operators import run_feed
from tests.lanes import seed_lanes

lanes = seed_lanes("seeds", 2, 10, 30)
NEAR = "ON {0}.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND AND {0}.k = a.k"
STREAMS = "".join(f"CREATE STREAM s{n} (k INT, ts TIMESTAMP, TIMELINE ts);" for n in range(3))


def weakly_accepted(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> Accepted:
    """Return a random query that is accepted where at most a few cases are kept as they are."""
    with monkeypatch.context() as patch:
        for module in (cases, timing):
            patch.setattr(module, "MOST_CASES", rng.choice((1, 2, 3)))
        while True:
            found = random_accepted(rng)
            if any(case.hulled for each in found.timing.timing.walk() for case in each.cases):
                return found


@pytest.mark.slow
@lanes
def test_weaker_cases_are_never_wrong(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the model and by the operators; what is accepted with few cases is also accepted with all."""
    for seed in seeds:
        rng = random.Random(seed + 110_000)
        accepted = weakly_accepted(rng, monkeypatch)
        for number in range(4):
            check_feed(accepted, random_feed(rng, accepted.query.scale, eager=number < 2))
        run_feed(accepted, random_feed(rng, accepted.query.scale), seed)
        assert accept(accepted.query) is not None


@pytest.mark.slow
@pytest.mark.parametrize("right", ["s1", "(SELECT k, ts FROM s1 UNION ALL SELECT k, ts FROM s2)"])
@pytest.mark.parametrize("kind", ["LEFT JOIN", "JOIN"])
def test_outer_joins_and_unions_do_not_multiply(kind: str, right: str) -> None:
    """With 14 of them there would be 16,384 combinations of rows that meet or do not, from either side."""
    joins = " ".join(f"{kind} {right} b{n} {NEAR.format(f'b{n}')}" for n in range(14))
    shown = ", ".join(f"b{n}.ts AS t{n}" for n in range(14))
    begun = time.process_time()
    script = EventScript.of(
        f"{STREAMS} CREATE STREAM o TIMELINE ts AS SELECT a.ts, {shown} FROM s0 a {joins}"
    )
    clock = str(script.timing("o").clocks["ts"])
    assert time.process_time() - begun < 10
    assert clock == (
        "min(s0.ts, s1.ts − 5 s, s2.ts − 5 s)" if "UNION" in right else "min(s0.ts, s1.ts − 5 s)"
    )
