"""A SYNC sums what waits for the same point: state and output do not grow with the updates between points."""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.time import INFINITY
from everview.algebra.types import INT, TIMESTAMP
from everview.catalog import Catalog
from everview.compile import compile_view
from everview.operators import ScanOperator, SyncOnOperator
from everview.operators.columnar.frame import BEFORE_ALL, Slice, make_frame
from everview.sql import bind_script, declare
from tests.lanes import one_in
from tests.pipeline import StagedPipeline

KEYS, UPDATES = 40, 30
SCRIPT = """
    CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM p (at TIMESTAMP, TIMELINE at);
    CREATE TAGGED STREAM rooms OVER s KEY (k);
    CREATE VIEW points AS SELECT at FROM p;
"""
LAST = 1_000
EVERY = 100


def made() -> Catalog:
    catalog = Catalog()
    for statement in bind_script(SCRIPT, catalog):
        declare(statement, catalog)
    return catalog


def updates() -> list[ChangeRow]:
    """Return many updates of each key, all at other instants."""
    rng = random.Random(5)
    instants = [(k, ts) for k in range(KEYS) for ts in rng.sample(range(1, LAST), UPDATES)]
    return [ChangeRow((k, rng.randrange(10**6), ts), ts, INFINITY) for k, ts in instants]


def run(
    sql: str, given: dict[str, list[ChangeRow]], length: int, last: int = LAST
) -> tuple[list[ChangeRow], int]:
    """Return what a view emits in steps of a length, and the most rows that wait after a step."""
    pipeline = StagedPipeline({"v": compile_view(sql, made()).physical}, random.Random(1), partitions=2)
    emitted, most, b0 = [], 0, BEFORE_ALL
    for b1 in range(length, last + length, length):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in given.items()}
        emitted += pipeline.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL))["v"]
        waiting = [runs for trace, runs in pipeline.traces.items() if trace.part == "waiting"]
        most = max(most, sum(run.rows for runs in waiting for run in runs))
        b0 = b1
    return emitted, most


@pytest.mark.slow
def test_sync_on_keeps_two_rows_a_key() -> None:
    given = {"s": updates(), "p": [ChangeRow((at,), at, INFINITY) for at in (500, 1_000)]}
    emitted, most = run("SELECT k, v FROM rooms SYNC ON points", given, 25)
    assert KEYS < most <= 2 * KEYS
    assert len(emitted) == 3 * KEYS  # the first rows, and an update of each at the second point


@pytest.mark.parametrize("length", one_in(4, [350, 25, 70, 100]))
def test_sync_every_emits_per_point_and_key(length: int) -> None:
    sql = f"SELECT k, v FROM rooms SYNC EVERY INTERVAL '{EVERY}' MICROSECOND"
    given = {"s": updates()}
    emitted, most = run(sql, given, length, LAST + EVERY)
    assert len(emitted) <= 2 * KEYS * (LAST // EVERY)
    assert most <= 2 * KEYS
    domain = range(0, LAST + 1, 10)
    assert to_logical(emitted, domain) == to_logical(run(sql, given, LAST)[0], domain)


def test_changes_that_an_earlier_release_kept_are_summed_at_the_next_point() -> None:
    """It kept each begin and end by itself, with its instant."""
    sync = SyncOnOperator(ScanOperator("s", (INT,)), ScanOperator("p", (TIMESTAMP,)))
    old = [(7, 2, 1), (7, 3, -1), (8, 3, 1), (9, 4, 1), (8, 5, -1), (7, 5, 1), (9, 30, -1)]
    kept = make_frame({"c0": [v for v, _, _ in old]}, [(at, INFINITY, n) for _, at, n in old])
    kept = kept.with_columns(pl.col("c0").cast(pl.Int32))
    points = make_frame({"c0": [20]}, [(20, INFINITY, 1)])
    state = {"waiting": kept}
    step = sync.increment([kept.clear(), points], state, Slice(10, 25))
    assert sorted(step.output.rows()) == [(7, 20, INFINITY, 1), (9, 20, INFINITY, 1)]
    left = sync.compact("waiting", pl.concat([kept, step.added["waiting"]]), 25)
    assert left.rows() == [(9, 30, INFINITY, -1)]
