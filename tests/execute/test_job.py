"""Whole queries on Spark, one job a step for all views, state in files: as the reference says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.changes import ChangeRow, to_logical, to_pairs
from everview.algebra.values import normal
from everview.execute.catalyst import spark_schema
from everview.execute.evaluate import evaluate_slice, scans_of
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.operators.step_slices import StepSlices
from everview.plan.lower import lower
from everview.plan.strategies import STRATEGIES
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.storage.addresses import file_of
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId
from tests.plan.test_stages import BANDS, ONE_STAGE, R, S
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class StepLoop:
    """A little step loop: what the runtime does, without sources and manifests."""

    def __init__(
        self, spark: SparkSession, folder: Path, plans: dict[str, P.Operator], partitions: int
    ) -> None:
        self.spark, self.files, self.plans, self.partitions = spark, Files(str(folder)), plans, partitions
        self.traces: dict[TraceId, tuple[Run, ...]] = {}
        self.number = 0

    def step(self, given: dict[str, list[ChangeRow]], slice_: Slice) -> dict[str, list[ChangeRow]]:
        scans = {s: self._frame(given[s.relation], s.of) for s in scans_of(self.plans.values())}
        done = evaluate_slice(
            self.spark,
            self.files,
            self.partitions,
            self.plans,
            scans,
            self.traces,
            self.number,
            StepSlices(slice_),
        )
        emitted: dict[str, list[ChangeRow]] = {v: [] for v in self.plans}
        for view in self.plans:
            trace = TraceId("view", view)
            for run in done.traces.get(trace, ())[len(self.traces.get(trace, ())) :]:
                rows = self.files.read_frame(run.path).rows()
                emitted[view] += [ChangeRow(tuple(_plain(v) for v in r[:-3]), *r[-3:]) for r in rows]
        self.traces |= done.traces
        self.number += 1
        return emitted

    def _frame(self, rows: Sequence[ChangeRow], types: Sequence[T.DataType]) -> DataFrame:
        data = [(*(_sparks(v, t) for v, t in zip(r.record, types, strict=True)), *r[1:]) for r in rows]
        return self.spark.createDataFrame(data, spark_schema(tuple(types)))


def _sparks(value: object, type_: T.DataType) -> object:
    return EPOCH + value * MICROSECOND if type_ == T.TIMESTAMP and isinstance(value, int) else value


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
    return value // MICROSECOND if isinstance(value, timedelta) else normal(value)


def check(
    spark: SparkSession, folder: Path, sqls: Sequence[str], rng: random.Random, partitions: int
) -> None:
    """All queries as views of one store, in three steps: every instant as the reference says."""
    catalog_ = catalog()
    plans = {f"v{i}": plan_of(sql, catalog_) for i, sql in enumerate(sqls)}
    inputs = random_inputs(rng)
    for table in ("t", "nrr"):  # a table does not know when its rows will go: they are retracted
        inputs[table] = to_pairs(inputs[table])
    strategy = rng.choice(STRATEGIES)
    run = StepLoop(spark, folder, {v: lower(p, strategy) for v, p in plans.items()}, partitions)
    emitted: dict[str, list[ChangeRow]] = {v: [] for v in plans}
    b0 = BEFORE_ALL
    for b1 in (rng.randrange(4, 8), rng.randrange(9, 13), 99):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        for view, rows in run.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL)).items():
            assert all(r.from_ > b0 for r in rows)
            emitted[view] += rows
        b0 = b1
    wrong = [
        sql for (view, plan), sql in zip(plans.items(), sqls, strict=True)
        if to_logical(emitted[view], DOMAIN) != meaning(plan, inputs, DOMAIN)
    ]  # fmt: skip
    assert not wrong, strategy


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_queries_on_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """A part of all queries each time; the seed is the number of partitions, too."""
    sqls = [c.sql for c in CASES][seed - 1 :: 7]
    sqls += [f"SELECT s.k, r.v FROM {S} JOIN {R} ON {c}" for c in list(BANDS)[seed - 1 :: 4]]
    check(spark, tmp_path, sqls, random.Random(seed), partitions=seed)


@pytest.mark.spark
def test_fused_stages_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, list(ONE_STAGE.values()), random.Random(5), partitions=3)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", [10 + i for i in seeds(4, 8)])
def test_queries_on_spark_many_times(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    sqls = rng.sample([*(c.sql for c in CASES), *ONE_STAGE.values()], 20)
    check(spark, tmp_path, sqls, rng, partitions=1 + seed % 4)


@pytest.mark.spark
def test_one_job_with_as_many_exchanges_as_stages(spark: SparkSession, tmp_path: Path) -> None:
    """Ten views over one join: one job, two exchanges, no file but runs."""
    join = f"SELECT s.k AS k, s.v AS v, r.v AS w FROM {S} JOIN {R} ON s.k = r.k"
    views = [join, f"SELECT k, COUNT(*) AS n FROM ({join}) GROUP BY k"]
    views += [f"SELECT v, MAX(w) AS m FROM ({join}) WHERE w > {i} GROUP BY v" for i in range(8)]
    plans = {f"v{i}": lower(plan_of(sql, catalog())) for i, sql in enumerate(views)}
    run = StepLoop(spark, tmp_path, plans, partitions=3)
    inputs = random_inputs(random.Random(2))
    spark.sparkContext.setJobGroup("ten views", "")
    run.step(inputs, Slice(BEFORE_ALL, 99, first=True))
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    tracker = spark.sparkContext.statusTracker()
    [job] = tracker.getJobIdsForGroup("ten views")
    assert len(tracker.getJobInfo(job).stageIds) == 3, "two exchanges"
    named = {file_of(run.path) for runs in run.traces.values() for run in runs}
    assert {f.path for f in run.files.list_files()} == named


@pytest.mark.spark
def test_a_long_row_of_views(spark: SparkSession, tmp_path: Path) -> None:
    """Each column stands twice in the next one: texts get names before they grow without end."""
    sql = f"SELECT k, ts FROM {S}"
    for _ in range(14):
        sql = f"SELECT CASE WHEN k > 0 THEN k ELSE -k END AS k, ts FROM ({sql})"
    check(spark, tmp_path, [sql, f"SELECT k, COUNT(*) AS n FROM ({sql}) GROUP BY k"], random.Random(6), 2)
