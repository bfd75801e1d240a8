"""Whole queries on Spark, one job a step for all views, state in files: as the reference says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.reference import meaning
from everview.algebra.values import normal
from everview.kernels.frame import BEFORE_ALL, Slice
from everview.runtime.evaluate import evaluate, scans_of
from everview.runtime.files import Files
from everview.runtime.runs import Run, TraceId
from everview.spark import physical as P
from everview.spark.catalyst import spark_schema
from everview.spark.lower import lower
from everview.sql import plan_of
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class StepLoop:
    """A little step loop: what the runtime does, without sources and manifests."""

    def __init__(
        self, spark: SparkSession, folder: Path, plans: dict[str, P.Physical], partitions: int
    ) -> None:
        self.spark, self.files, self.plans, self.partitions = spark, Files(str(folder)), plans, partitions
        self.traces: dict[TraceId, tuple[Run, ...]] = {}
        self.number = 0

    def step(self, given: dict[str, list[ChangeRow]], slice_: Slice) -> dict[str, list[ChangeRow]]:
        scans = {s: self._frame(given[s.name], s.of) for s in scans_of(self.plans.values())}
        done = evaluate(
            self.spark, self.files, self.partitions, self.plans, scans, self.traces, self.number, slice_
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


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "partitions"), [(1, 1), (2, 3)])
def test_queries_on_spark(spark: SparkSession, tmp_path: Path, seed: int, partitions: int) -> None:
    rng = random.Random(seed)
    catalog_ = catalog()
    chosen = [c.sql for c in CASES if seed == 1 or rng.random() < 0.2][seed % 4 :: 6]
    plans = {f"v{i}": plan_of(sql, catalog_) for i, sql in enumerate(chosen)}
    inputs = random_inputs(rng)
    run = StepLoop(spark, tmp_path, {v: lower(p) for v, p in plans.items()}, partitions)
    emitted: dict[str, list[ChangeRow]] = {v: [] for v in plans}
    b0 = BEFORE_ALL
    for b1 in (rng.randrange(4, 8), rng.randrange(9, 13), 99):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        for view, rows in run.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL)).items():
            assert all(r.from_ > b0 for r in rows)
            emitted[view] += rows
        b0 = b1
    wrong = [
        sql for (view, plan), sql in zip(plans.items(), chosen, strict=True)
        if to_logical(emitted[view], DOMAIN) != meaning(plan, inputs, DOMAIN)
    ]  # fmt: skip
    assert not wrong
