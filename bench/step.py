"""What one warm step costs, and where: `evaluate` over files of 100, 10,000 and 200,000 rows a stream.

Times are medians of wall time; under them the processor time of the driver, the JVM and the Python workers,
which a busy machine changes less. Exchanges are stages less one; a step is one job.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import py4j.java_gateway
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from bench.work import work_done
from everview.catalog import Catalog
from everview.kernels.frame import BEFORE_ALL, INFINITY, Slice
from everview.runtime.evaluate import evaluate, scans_of
from everview.runtime.files import Files
from everview.runtime.runs import Run, TraceId
from everview.runtime.session import SETTINGS
from everview.spark import physical as P
from everview.spark.catalyst import spark_schema
from everview.spark.lower import lower
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create

SECOND = 1_000_000
STREAMS = """
    CREATE STREAM a (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM b (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
"""
A, B = "a [RANGE 10 SECONDS]", "b [RANGE 10 SECONDS]"
JOIN = f"SELECT a.k AS k, a.v AS v, b.v AS w FROM {A} JOIN {B} ON a.k = b.k"
QUERIES = {
    "join": [JOIN],
    "group by": [f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM {A} GROUP BY k"],
    "not exists": [f"SELECT k, v FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k)"],
    "left join": [f"SELECT a.k, a.v, b.v AS w FROM {A} LEFT JOIN {B} ON a.k = b.k"],
    "ten views": [
        JOIN,
        f"SELECT k, COUNT(*) AS n FROM ({JOIN}) GROUP BY k",
        *(f"SELECT v, MAX(w) AS m FROM ({JOIN}) WHERE w > {i} GROUP BY v" for i in range(8)),
    ],
}
WARM_UP, MEASURED = 25, 20
SIZES = {100: (2, 4, 8), 10_000: (2, 4, 8), 200_000: (2, 8)}


@cache
def session() -> SparkSession:
    """Two cores, as every measurement of ours has."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def plans_of(name: str) -> dict[str, P.Physical]:
    """The views of a query by their names."""
    catalog = Catalog()
    for statement in bind_script(STREAMS, catalog):
        assert isinstance(statement, Create)
        catalog.add(statement.entry)
    return {f"v{i}": lower(plan_of(sql, catalog)) for i, sql in enumerate(QUERIES[name])}


@dataclass(frozen=True)
class Cpu:
    """Milliseconds of processor time of each process that takes part."""

    driver: float
    jvm: float
    workers: float

    @classmethod
    def now(cls) -> "Cpu":
        jvm = int(session()._jvm.java.lang.ProcessHandle.current().pid())
        return cls(_spent(os.getpid()), _spent(jvm), sum(map(_spent, _below(jvm))))

    def since(self, before: "Cpu", steps: int) -> "Cpu":
        return Cpu(
            *((b - a) / steps for a, b in zip(vars(before).values(), vars(self).values(), strict=True))
        )


def _spent(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _below(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _below(child)


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How often the driver asks the JVM something."""
    calls = [0]
    plain = py4j.java_gateway.JavaMember.__call__

    def counting(self: object, *args: object) -> object:
        calls[0] += 1
        return plain(self, *args)

    py4j.java_gateway.JavaMember.__call__ = counting
    try:
        yield calls
    finally:
        py4j.java_gateway.JavaMember.__call__ = plain


class Steps:
    """A store in a folder of its own, fed by files."""

    def __init__(self, name: str, rows: int, partitions: int, folder: Path) -> None:
        self.plans, self.rows, self.partitions, self.folder = plans_of(name), rows, partitions, folder
        self.files = Files(str(folder / "store"))
        self.files.make_root()
        self.traces: dict[TraceId, tuple[Run, ...]] = {}
        self.rng = np.random.default_rng(1)
        self.number, self.b0 = 0, BEFORE_ALL

    def step(self) -> tuple[float, int]:
        """One step: its seconds, and how many calls it made."""
        scans = {s: self._frame(s) for s in sorted(scans_of(self.plans.values()), key=lambda s: s.name)}
        b1 = (self.number + 1) * SECOND - 1
        slice_ = Slice(self.b0, b1, first=self.number == 0)
        with counted_calls() as calls:
            start = time.perf_counter()
            done = evaluate(
                session(), self.files, self.partitions, self.plans, scans, self.traces, self.number, slice_
            )
            seconds = time.perf_counter() - start
        self.traces |= done.traces
        self.number, self.b0 = self.number + 1, b1
        return seconds, calls[0]

    def _frame(self, scan: P.Scan) -> DataFrame:
        """A file of rows whose timestamps are those of the step."""
        rows, begin = self.rows, self.number * SECOND
        ts = np.sort(self.rng.integers(begin, begin + SECOND, rows))
        columns = {
            "c0": pa.array(self.rng.integers(0, max(10, rows), rows), pa.int32()),
            "c1": pa.array(self.rng.integers(0, 1000, rows), pa.int32()),
            "c2": pa.array(ts, pa.timestamp("us", "UTC")),
            "_from": ts,
            "_until": np.full(rows, INFINITY),
            "_n": np.ones(rows, np.int64),
        }
        path = str(self.folder / f"{scan.name}-{self.number}.parquet")
        pq.write_table(pa.table(columns), path)
        return session().read.schema(spark_schema(scan.of)).parquet(path)


def measure(name: str, rows: int, partitions: int, table: Table, warm_up: int = WARM_UP) -> None:
    """Adds a line with what a step costs."""
    folder = Path(tempfile.mkdtemp(prefix="everview-bench-"))
    try:
        steps = Steps(name, rows, partitions, folder)
        for _ in range(warm_up):
            steps.step()
        work, cpu = work_done(session()), Cpu.now()
        found = [steps.step() for _ in range(MEASURED)]
        cost, done = Cpu.now().since(cpu, MEASURED), (work_done(session()) - work) / MEASURED
        runs = sum(len(r) for t, r in steps.traces.items() if t.kind == "state")
    finally:
        shutil.rmtree(folder)
    times = sorted(seconds * 1000 for seconds, _ in found)
    table.add_row(
        name, f"{rows:,}", str(partitions), f"{median(times):.0f}", f"{times[0]:.0f}–{times[-1]:.0f}",
        f"{done.jobs:.0f}", f"{done.stages - 1:.0f}", f"{done.tasks:.0f}", f"{done.shuffled / 1024:.0f}",
        f"{median(calls for _, calls in found):.0f}", str(runs),
        f"{cost.driver:.0f}", f"{cost.jvm:.0f}", f"{cost.workers:.0f}",
    )  # fmt: skip


def compared(queries: list[str]) -> None:
    """The table of some queries, all sizes and numbers of partitions."""
    table = Table(
        "query", "rows a stream", "partitions", "median ms", "ms", "jobs", "exchanges", "tasks",
        "KB shuffled", "calls to the JVM", "runs of state", "driver ms", "JVM ms", "workers ms",
        title="a warm step", title_justify="left",
    )  # fmt: skip
    for query in queries:
        for rows, numbers in SIZES.items():
            for partitions in numbers:
                measure(query, rows, partitions, table)
    Console(width=160).print(table)


def bench_step() -> None:
    """A warm step over one join and one GROUP BY: time, jobs, exchanges, bytes, and who spends the time."""
    compared(["join", "group by"])


def bench_fused_step() -> None:
    """A warm step where several kernels share a stage: NOT EXISTS, LEFT JOIN, ten views over one join."""
    compared(["not exists", "left join", "ten views"])
