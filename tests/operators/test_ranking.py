"""Ranks and top-N: random rows, slices and orders against the reference; state and work follow the limit."""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.expressions import SortKey
from everview.algebra.over import RANK_FUNCTIONS, Rank, RankLimit
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, DOUBLE, STRING
from everview.operators import RankOperator, ScanOperator
from everview.operators.columnar import standings
from everview.operators.columnar.frame import Slice, make_frame
from everview.operators.columnar.standings import SortColumn
from tests.operators.harness import Input, check_operator, each_seed

COLUMNS = {"k": pl.Int64, "x": pl.Float64, "t": pl.String}
TYPES = (BIGINT, DOUBLE, STRING)
S = N.Stream("s", Schema.of(*zip(COLUMNS, TYPES, strict=True)))


def record(rng: random.Random) -> Record:
    return (
        rng.choice([None, 0, 1]),
        rng.choice([None, 0.0, -0.0, 1.5, float("nan"), -2.0]),
        rng.choice([None, "a", "b"]),
    )


def random_ranking(rng: random.Random, signed: bool) -> tuple[RankOperator, Rank]:
    """A ranking as an operator and as a node."""
    partition = rng.choice([(), (0,), (0, 2), (1,)])
    order = tuple(
        SortColumn(i, rng.random() < 0.5, rng.random() < 0.5)
        for i in rng.sample(range(3), rng.randrange(0, 3))
    )
    limit = RankLimit(rng.choice(RANK_FUNCTIONS), rng.randrange(1, 4)) if rng.random() < 0.8 else None
    ranks = tuple(rng.sample(RANK_FUNCTIONS, rng.randrange(0 if limit else 1, 4)))
    columns = [S.column(name) for name in COLUMNS]
    node = Rank(
        S,
        tuple(columns[i] for i in partition),
        tuple(SortKey(columns[o.position], o.descending, o.nulls_first) for o in order),
        tuple((f"r{i}", function) for i, function in enumerate(ranks)),
        limit,
    )
    return RankOperator(ScanOperator("s", TYPES), 3, partition, order, ranks, limit, signed), node


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_ranking(seeds: range, signed: bool) -> None:
    for seed in seeds:
        operator, node = random_ranking(random.Random(seed), signed)
        given = Input(COLUMNS, record, signed, grid=random.Random(seed).choice([1, 1, 4]))
        check_operator(seed, {"s": given}, operator, node)


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_ranking_a_few_leaves_at_a_time(seeds: range, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large to be worked out at once is divided; that changes no result."""
    monkeypatch.setattr(standings, "_MOST", 3)
    monkeypatch.setattr(standings, "_FEW_LEAVES", 4)
    for seed in seeds:
        operator, node = random_ranking(random.Random(seed), signed)
        check_operator(seed, {"s": Input(COLUMNS, record, signed)}, operator, node)


def best_of(count: int, signed: bool = False) -> RankOperator:
    """The rows with the greatest values of each partition."""
    order = (SortColumn(1, descending=True, nulls_first=False),)
    limit = RankLimit("row_number", count)
    return RankOperator(ScanOperator("s", (BIGINT, BIGINT)), 2, (0,), order, (), limit, signed)


@pytest.mark.slow
def test_state_and_output_follow_the_limit() -> None:
    """200 steps of 50 random rows in 2 partitions: what is kept and emitted is about the best 3."""
    chance = random.Random(5)
    operator, last, emitted = best_of(3), 0, 0
    state = operator.empty_state([make_frame({"c0": [0], "c1": [0]}, [(0, 1, 1)])])
    for step in range(200):
        times = [(last + 1 + i, INFINITY if i % 2 else last + 20_000, 1) for i in range(50)]
        rows = make_frame(
            {"c0": [i % 2 for i in range(50)], "c1": [chance.randrange(10**9) for _ in range(50)]}, times
        )
        made = operator.increment([rows], state, Slice(last, last + 50, first=step == 0))
        last += 50
        emitted += made.output.height
        for name, added in made.added.items():
            state[name] = operator.compact(name, pl.concat([state[name], added], how="diagonal"), last)
    assert state["rows"].height <= 2 * 3 * 10  # of 10,000
    assert state["queue"].height <= 2 * 3 * 20
    assert emitted <= 2 * 3 * 40


def test_a_row_behind_the_limit_makes_no_leaf() -> None:
    """Changes that concern no row within the limit are left out before the order is worked out."""
    operator = best_of(2)
    rows = make_frame({"c0": [0] * 3, "c1": [7, 8, 9]}, [(1, INFINITY, 1)] * 3)
    first = operator.increment([rows], operator.empty_state([rows]), Slice(0, 1))
    assert first.added["rows"]["c1"].to_list() == [8, 9]
    worse = make_frame(
        {"c0": [0] * 100, "c1": list(range(-100, 0))}, [(2 + i, INFINITY, 1) for i in range(100)]
    )
    step = operator.increment([worse], first.added, Slice(1, 200))
    assert step.output.is_empty()
    assert step.added["rows"].is_empty()
    signed = best_of(2, signed=True)
    assert signed.increment([worse], {**first.added}, Slice(1, 200)).added["rows"].height == 100
