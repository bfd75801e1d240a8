"""The views of Nexmark, all in one store, are DuckDB's batch answers at sampled instants and at the end."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import everview
from bench.nexmark.generator import START, Events, make_events, write_events
from bench.nexmark.streams import (
    ARRIVAL_QUERIES,
    QUERIES,
    declare_arrivals,
    declare_side_input,
    declare_streams,
    read_query,
)
from bench.nexmark.witness import NexmarkWitness, Rows
from everview.algebra.time import INFINITY, LEAST
from everview.database import Database

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EVENTS, PER_SECOND, FILES, DISORDER = 20_000, 500, 3, 1.0  # 40 s of event time
SECONDS = (
    7.3,
    20.0,
    31.0041,
    39.998,
    45.0,
)  # the last: after all events, with windows and sessions still to end


@pytest.fixture(scope="module")
def events() -> Events:
    return make_events(EVENTS, seed=11, per_second=PER_SECOND, disorder=DISORDER)


def test_every_query_is_the_batch_answer_at_every_sampled_instant(
    spark: SparkSession, tmp_path: Path, events: Events
) -> None:
    write_events(events, tmp_path, FILES)
    witness = NexmarkWitness(events)
    queries = [name for name in QUERIES if name not in ARRIVAL_QUERIES]
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(declare_streams(tmp_path, lateness=DISORDER) + declare_side_input())
        db.execute("".join(map(read_query, queries)))
        done = db.run(finish=True)
        assert done.rows == EVENTS
        assert not any(arrived.late or arrived.rejected for arrived in done.arrived.values())
        for query in queries:
            changes, agreed = _changes(db, query), 0
            for seconds in SECONDS:
                instant = START + round(seconds * 1_000_000)
                theirs = witness.answer(query, datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
                                        + timedelta(microseconds=instant))  # fmt: skip
                _require_same(_snapshot(changes, instant), theirs, f"{query} at {seconds} s")
                agreed += len(theirs)
            assert agreed, f"{query} has no rows at any instant"


def test_windows_of_the_clock_hold_every_bid_once(
    spark: SparkSession, tmp_path: Path, events: Events
) -> None:
    write_events(events, tmp_path, FILES)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(declare_arrivals(tmp_path) + read_query("q12"))
        db.run(finish=True)
        changes = _changes(db, "q12").rename({"2": "bidder", "3": "bids"})
    ours = changes.group_by("bidder").agg(pl.col("bids").sum())
    ends = datetime(2026, 1, 2)
    _require_same(list(ours.rows()), NexmarkWitness(events).answer("q12", ends), "q12")


def _changes(db: Database, view: str) -> pl.DataFrame:
    """Return the changes of a view with `from`, `until`, `n` and its columns by number, from 2 on."""
    shown = db.changes(view, "intervals")
    names = ["from", "until", "n", *(str(i + 2) for i in range(len(shown.columns) - 3))]
    changes = pl.from_arrow(shown.toDF(*names).toArrow())
    assert isinstance(changes, pl.DataFrame)
    return changes.with_columns(
        pl.col("from").dt.epoch("us").fill_null(LEAST), pl.col("until").dt.epoch("us").fill_null(INFINITY)
    )


def _snapshot(changes: pl.DataFrame, instant: int) -> Rows:
    here = changes.filter((pl.col("from") <= instant) & (pl.col("until") > instant))
    return [row for n, *row in here.drop("from", "until").rows() for _ in range(n)]


def _require_same(ours: Rows, theirs: Rows, where: str) -> None:
    """Equal as multisets; floating point to nine digits."""
    assert len(ours) == len(theirs), where
    both = (sorted(([_plain(v) for v in row] for row in rows), key=_order) for rows in (ours, theirs))
    for mine, yours in zip(*both, strict=True):
        assert all(map(_equal, mine, yours)), (where, mine, yours)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return float(value) if isinstance(value, Decimal) else value


def _order(row: list[object]) -> list[tuple[bool, str]]:
    """Whole values first: floats that differ in their last digits do not disturb the order."""
    whole = [value for value in row if not isinstance(value, float)]
    rest = [f"{value:.6e}" for value in row if isinstance(value, float)]
    return [(value is not None, str(value)) for value in (*whole, *rest)]


def _equal(a: object, b: object) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9))
