"""Bands of times in the match of event queries: the pairs for which the condition holds, and no others.

Random conditions over two inputs go through the lowering and the operator, in steps, over a state that is as
it was added, compacted, shuffled or without hashes, in one partition or in three; the pairs are compared with
the condition evaluated on every pair.
"""

from __future__ import annotations

import random
from collections import Counter

import polars as pl

from everview.algebra.changes import Record
from everview.algebra.evaluate import holds
from everview.algebra.expressions import (
    Arithmetic,
    Column,
    Comparison,
    Expression,
    Literal,
    Negate,
    Not,
    conjunction,
)
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import INT, INTERVAL, TIMESTAMP
from everview.operators import EventWait, FilterOperator, MatchOperator, Operator, ScanOperator
from everview.operators.base import InputRows
from everview.operators.columnar.time_bands import search_ranges
from everview.plan.bands import to_time_band
from everview.plan.lower_joins import LoweredInput, MatchedSides, match
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.clocks import Clock, StreamLine
from tests.events.driver import EventDriver
from tests.lanes import seed_lanes

TYPES = (INT, TIMESTAMP, TIMESTAMP)  # of both sides: a key, and two times, of which the second may be NULL
SIZE = len(TYPES)
PAIR = Schema.of(*((f"c{i}", t) for i, t in enumerate((*TYPES, *TYPES))))
TIMES = {"left": (1, 2), "right": (SIZE + 1, SIZE + 2)}

lanes = seed_lanes("seeds", 8, 120, 400)


def time_of(position: int) -> Column:
    return Column(f"c{position}", TIMESTAMP)


def random_length(rng: random.Random, extreme: bool) -> Expression:
    length = rng.randrange(-6, 7)
    if extreme and rng.random() < 0.3:
        length = rng.choice([2**62, 2**63 - 1, -(2**63) + 1, -(2**63)]) + length * rng.randrange(2)
        length = max(-(2**63), min(2**63 - 1, length))
    return Negate(Literal(length, INTERVAL)) if rng.random() < 0.2 else Literal(length, INTERVAL)


def random_shifted(rng: random.Random, position: int, extreme: bool) -> Expression:
    """Return a time, or a time plus or minus a length."""
    form, time, length = rng.randrange(5), time_of(position), random_length(rng, extreme)
    if form < 2:
        return time
    if form == 2:
        return Arithmetic("+", length, time)
    return Arithmetic("+" if form == 3 else "-", time, length)


def random_comparison(rng: random.Random, extreme: bool) -> Expression:
    """Return a comparison of a time of each side."""
    positions = [rng.choice(TIMES["left"]), rng.choice(TIMES["right"])]
    rng.shuffle(positions)
    operator = rng.choice(["<", "<=", ">", ">="])
    if rng.random() < 0.25:
        sides: list[Expression] = [
            Arithmetic("-", time_of(positions[0]), time_of(positions[1])),
            random_length(rng, extreme),
        ]
        rng.shuffle(sides)
    else:
        sides = [random_shifted(rng, position, extreme) for position in positions]
    found = Comparison(operator, *sides)
    return Not(found) if rng.random() < 0.2 else found


def random_condition(rng: random.Random, extreme: bool) -> Expression:
    parts = [random_comparison(rng, extreme) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
    if rng.random() < 0.6:
        parts.append(Comparison(rng.choice(["=", "<=>"]), Column("c0", INT), Column(f"c{SIZE}", INT)))
    rng.shuffle(parts)
    return conjunction(parts)


def random_records(rng: random.Random, extreme: bool) -> list[Record]:
    """Return rows with few keys and close times; near the ends of time if `extreme`."""

    def time() -> int:
        near = rng.choice([LEAST + 6, 0, INFINITY - 8]) if extreme else 0
        return near + rng.randrange(-6, 7)

    keys = rng.choice([1, 2, 5])
    return [
        (rng.choice([None, *range(keys)]), time(), None if rng.random() < 0.2 else time())
        for _ in range(rng.choice([0, 3, 20, 40]))
    ]


def lowered(condition: Expression) -> Operator:
    """Return the plan of a match whose rows are kept until both streams have ended."""
    sides = [LoweredInput(ScanOperator(name, TYPES), InputRows()) for name in ("s", "r")]

    def make(of: MatchedSides) -> Operator:
        wait = EventWait(1, Clock.line(StreamLine("s", "ts")))
        return MatchOperator(
            of.left, of.right, of.left_keys, of.right_keys, of.nulls_equal, wait, wait, of.bands
        )

    return match(*sides, condition, make)


def run(
    plan: Operator, given: dict[str, list[Record]], rng: random.Random, partitions: int
) -> Counter[Record]:
    """Feed rows in steps and return all pairs; no row's wait is over before the end."""
    driver = EventDriver(plan, rng, partitions=partitions)
    found: Counter[Record] = Counter()
    steps = rng.randrange(1, 5)
    for number in range(steps):
        step = {
            name: rows[len(rows) * number // steps : len(rows) * (number + 1) // steps]
            for name, rows in given.items()
        }
        found += driver.step(step, {}, {})
    return found


@lanes
def test_pairs_are_those_for_which_the_condition_holds(seeds: range) -> None:
    bands = 0
    for seed in seeds:
        rng = random.Random(seed)
        extreme = rng.random() < 0.4
        condition = random_condition(rng, extreme)
        given = {"s": random_records(rng, extreme), "r": random_records(rng, extreme)}
        wanted = Counter(
            left + right
            for left in given["s"]
            for right in given["r"]
            if holds(condition, PAIR, left + right)
        )
        plan = lowered(condition)
        bands += not isinstance(plan, FilterOperator)
        assert decode_plan(encode_plan(plan)) == plan
        for partitions in (1, 3):
            assert run(plan, given, rng, partitions) == wanted, f"seed {seed}: {condition}\n{given}"
    assert bands > len(seeds) // 3  # the operator alone finds the pairs; no filter is above it


@lanes
def test_many_rows_of_a_key(seeds: range) -> None:
    """The search within a key: more rows than are looked at one by one, in any order and in many runs."""
    for seed in seeds[:20]:
        rng = random.Random(seed)
        plan = lowered(
            conjunction(
                [
                    Comparison("=", Column("c0", INT), Column(f"c{SIZE}", INT)),
                    Comparison(">=", time_of(SIZE + 1), time_of(1)),
                    Comparison("<", time_of(SIZE + 1), Arithmetic("+", time_of(1), Literal(9, INTERVAL))),
                ]
            )
        )
        given: dict[str, list[Record]] = {
            name: [(rng.randrange(3), rng.randrange(200), None) for _ in range(150)] for name in ("s", "r")
        }
        wanted = Counter(
            left + right
            for left in given["s"]
            for right in given["r"]
            if left[0] == right[0] and left[1] <= right[1] < left[1] + 9  # type: ignore[operator]
        )
        assert isinstance(plan, MatchOperator)
        assert run(plan, given, rng, rng.choice([1, 3])) == wanted


def test_other_conditions_stay_above() -> None:
    """What compares no two times of both sides, or adds what is no constant, is a filter."""
    left, right = time_of(1), time_of(SIZE + 1)
    apart = Arithmetic("-", right, left)
    for other in (
        Comparison("<>", left, right),
        Comparison("<", time_of(2), left),
        Comparison("<", left, Literal(5, TIMESTAMP)),
        Comparison("<", apart, apart),
        Comparison("<", right, Arithmetic("+", left, apart)),
        Comparison("<", right, Arithmetic("-", left, Literal(-(2**63), INTERVAL))),
    ):
        assert to_time_band(other, SIZE) is None


def test_digest_covers_bands() -> None:
    narrow, wide = (
        lowered(Comparison("<", time_of(SIZE + 1), Arithmetic("+", time_of(1), Literal(n, INTERVAL))))
        for n in (5, 6)
    )
    assert narrow.digest != wide.digest


def test_search_ranges_in_random_ranges() -> None:
    rng = random.Random(7)
    for _ in range(200):
        parts = [sorted(rng.randrange(6) for _ in range(rng.randrange(5))) for _ in range(4)]
        values = pl.Series([v for part in parts for v in part], dtype=pl.Int64).to_numpy()
        edges = [sum(len(p) for p in parts[:i]) for i in range(5)]
        low, high = pl.Series(edges[:-1]).to_numpy(), pl.Series(edges[1:]).to_numpy()
        wanted = pl.Series([rng.randrange(7) for _ in parts]).to_numpy()
        for after in (False, True):
            found = search_ranges(values, low, high, wanted, after)
            expected = [
                low[i] + sum(v < wanted[i] or (after and v == wanted[i]) for v in parts[i]) for i in range(4)
            ]
            assert found.tolist() == expected
