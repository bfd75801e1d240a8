"""Snapshot-reducibility against DuckDB (DESIGN section 8, 4): at every instant, what a query is bound to
means what DuckDB answers to the same SQL over the rows that its windows hold at that instant."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra.changes import ChangeRow
from tests.lanes import one_in
from tests.sql.oracle import Case, compared, random_inputs
from tests.sql.queries import CASES, TOPICS
from tests.sql.random_sql import queries


def rounds(seed: int, count: int) -> list[dict[str, list[ChangeRow]]]:
    return [random_inputs(random.Random(seed + i)) for i in range(count)]


def topic(case: Case) -> str:
    return f"{case.topic}: {case}"


@pytest.mark.parametrize("case", one_in(12, CASES, topic))
def test_every_snapshot(case: Case) -> None:
    assert compared(case, rounds(1, 1)).difference is None


@pytest.mark.slow
@pytest.mark.parametrize("name", TOPICS)
def test_every_snapshot_of_many_inputs(name: str) -> None:
    for case in (c for c in CASES if c.topic == name):
        verdict = compared(case, rounds(1000, 6))
        assert verdict.difference is None
        assert verdict.agreed or case.sql.endswith(("WHERE NULL", "NOT IN (1, NULL)")), f"no row of {case}"


@settings(max_examples=settings().max_examples // 4)
@given(sql=queries(), seed=st.integers(0, 10_000))
def test_random_queries(sql: str, seed: int) -> None:
    assert compared(Case(sql), rounds(seed, 1)).difference is None


@pytest.mark.slow
@given(sql=queries(), seed=st.integers(0, 10_000))
def test_many_random_queries(sql: str, seed: int) -> None:
    assert compared(Case(sql), rounds(seed, 1)).difference is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT k FROM s [RANGE 5 MICROSECONDS]", "SELECT k FROM s [RANGE 6 MICROSECONDS]"),
        ("SELECT k FROM s [ROWS 2]", "SELECT k FROM s [ROWS 3]"),
        ("SELECT v FROM s SYNC EVERY INTERVAL '4' MICROSECOND", "SELECT v FROM s"),
        ("SELECT k FROM s UNION SELECT k FROM r", "SELECT k FROM s UNION ALL SELECT k FROM r"),
    ],
)
def test_a_difference_is_found(ours: str, theirs: str) -> None:
    """The witness is no yes-man."""
    assert compared(Case(ours, theirs), rounds(1, 2)).difference is not None
