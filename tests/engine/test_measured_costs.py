"""A store that has run: EXPLAIN COST beside what was measured, and views that keep their plans."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM {} (k INT, v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => {}, distinct(k) => 20);"
THREE = (
    "SELECT a.v, c.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS]"
    " WHERE a.k = b.k AND b.v = c.v"
)


def rows(rng: random.Random, number: int) -> list[dict[str, object]]:
    return [
        {"k": rng.randrange(20), "v": rng.randrange(100), "ts": f"2026-01-01 00:00:{second:09.6f}"}
        for second in sorted(rng.uniform(0, 40) for _ in range(number))
    ]


def test_figures_are_measured_and_plans_stay(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        # What is declared is wrong: a has far more rows than c.
        db.execute(STREAM.format("a", 1) + STREAM.format("b", 5) + STREAM.format("c", 1000))
        db.execute(f"CREATE VIEW declared AS {THREE}")
        for name, number in (("a", 1200), ("b", 200), ("c", 120)):
            db.insert(name, rows(rng, number))
        db.run()
        shown = str(db.explain("SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k", cost=True))
        assert re.search(r"at 30(\.\d)? rows/s of a \(measured\) it keeps about 3\d\d rows", shown)
        before = db.manifest().plans["declared"]
        assert before.statistics is not None
        assert before.statistics.relations["c"].rate == 1000
        joined = str(db.explain(f"CREATE VIEW x AS {THREE}", cost=True))
        assert re.search(r"Join ON .* keeps ≈ \d+ rows, .* · measured \d+ rows", joined), joined
    with everview.connect(path, spark) as db:
        db.execute(f"CREATE VIEW equal AS {THREE}")
        db.execute(f"CREATE VIEW measured AS {THREE.replace('a.v, c.k', 'a.ts, c.k')}")
        db.insert("a", [{"k": 1, "v": 1, "ts": "2026-01-01 00:01:00"}])
        db.run()
        plans = db.manifest().plans
        assert plans["declared"] == before, "new statistics change no plan of an existing view"
        assert plans["equal"].plan == before.plan, "an equal view takes the plan that there is"
        measured = plans["measured"].statistics
        assert measured is not None
        assert (measured.relations["a"].rate, measured.relations["c"].known) == (32.0, "measured")
