"""Whole pipelines against Spark's own operators, in the same session on the same files.

Where Spark has the operator, it reads the same files as a stream, one file a batch, and writes nowhere.
Where it refuses the query, Spark SQL recomputes the answer from the rows of the window.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import everview
from bench.spark_counts import SparkCounts, count_spark_work
from everview.database import Database
from everview.execute.session import own_session

PARTITIONS = 2
SECOND = 1_000_000
START = 1_767_225_600  # 2026-01-01


@cache
def session() -> SparkSession:
    """Return the session of all benchmarks; it ends with the process."""
    spark = own_session()
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    return spark


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder, and remove it afterwards."""
    path = Path(tempfile.mkdtemp(prefix="everview-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_rows(path: Path, name: str, first: int, count: int, per_second: int, keys: int, seed: int) -> None:
    """Write a file of rows (k, v, ts): `per_second` rows a second from row `first` on, with random keys."""
    rows = session().range(first, first + count, 1, 1)
    micros = F.lit(START * SECOND) + (F.col("id") * F.lit(SECOND // per_second)).cast("long")
    columns = [
        (F.abs(F.xxhash64(F.col("id"), F.lit(seed))) % keys).cast("int").alias("k"),
        (F.abs(F.xxhash64(F.col("id"), F.lit(seed + 1))) % 1000).cast("int").alias("v"),
        F.timestamp_micros(micros).alias("ts"),
    ]
    written = path / f"{name}-tmp"
    rows.select(*columns).coalesce(1).write.parquet(str(written))
    part = next(written.glob("*.parquet"))
    (path / name).mkdir(exist_ok=True)
    number = len(list((path / name).glob("*.parquet")))
    target = path / name / f"{number:04}.parquet"
    part.rename(target)
    os.utime(target, (START + number, START + number))  # Spark reads files in the order of their times
    shutil.rmtree(written)


@dataclass(frozen=True)
class StepTimes:
    """The seconds of each step, and the jobs, stages, tasks and bytes of Spark for a step."""

    seconds: list[float]
    counts: SparkCounts

    @property
    def typical(self) -> float:
        return median(self.seconds)


def run_steps(db: Database, skip: int) -> StepTimes:
    """Run all files, one a step; the first `skip` steps are a warm-up and not counted."""
    ends: list[float] = []
    counts: list[SparkCounts] = []

    def record_step(_: object) -> None:
        ends.append(time.perf_counter())
        counts.append(count_spark_work(session()))

    started = time.perf_counter()
    db.run(progress=record_step)
    begins = [started, *ends]
    seconds = [b - a for a, b in zip(begins, ends, strict=False)][skip:]
    return StepTimes(seconds, (counts[-1] - counts[skip - 1]) / len(seconds))


def run_spark_steps(query: Callable[[], DataFrame], checkpoint: Path, skip: int) -> StepTimes:
    """Run a streaming query of Spark, without output, a file a batch."""
    before = count_spark_work(session())
    writer = query().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running = writer.outputMode("append").trigger(availableNow=True).start()
    running.awaitTermination()
    took = [p.durationMs["triggerExecution"] / 1000 for p in running.recentProgress if p.numInputRows]
    return StepTimes(took[skip:], (count_spark_work(session()) - before) / max(1, len(took)))


def report(
    title: str, ours: StepTimes, peer: StepTimes, rows: int, target: float, peer_name: str = "Spark"
) -> float:
    """Print both times and their ratio, and return the ratio."""
    ratio = peer.typical / ours.typical
    table = Table(
        "", "s a step", "rows/s", "jobs", "stages", "tasks", "shuffled", title=title, title_justify="left"
    )
    for name, timed in (("Everview", ours), (peer_name, peer)):
        counts = timed.counts
        table.add_row(
            name, f"{timed.typical:.3f}", f"{rows / timed.typical:,.0f}",
            *(f"{n:.1f}" for n in (counts.jobs, counts.stages, counts.tasks)),
            f"{counts.shuffled / 1e6:.1f} MB",
        )  # fmt: skip
    table.add_row("ratio", f"{ratio:.2f} × as fast", f"target {target:g}", "", "", "", "")
    Console(width=110).print(table)
    return ratio


def read_stream(path: Path, lateness: str) -> DataFrame:
    """Return a folder of files as a streaming DataFrame of Spark."""
    rows = session().readStream.schema("k INT, v INT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    return rows.name(path.name).parquet(str(path)).withWatermark("ts", lateness)


def create_stream(name: str, path: Path, lateness: str = "INTERVAL '0' SECOND") -> str:
    """Return the CREATE STREAM statement of a folder of files."""
    return (
        f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS {lateness}) "
        f"FROM parquet('{path}', maxFilesPerTrigger => 1);"
    )


def bench_window_join() -> None:
    """Window equi-join: steps of 200,000 rows, windows of 200,000 rows a side, 50,000 keys."""
    side, steps, keys = 100_000, 12, 50_000
    with temporary_folder() as path:
        for step in range(steps):
            for seed, name in enumerate(("a", "b")):
                write_rows(path, name, step * side, side, side // 10, keys, 10 * seed)
        with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
            db.execute(
                create_stream("a", path / "a") + create_stream("b", path / "b") + "CREATE VIEW pairs AS "
                "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SECONDS] JOIN b [RANGE 20 SECONDS] ON a.k = b.k"
            )
            ours = run_steps(db, skip=6)

        def joined() -> DataFrame:
            a, b = (
                read_stream(path / "a", "0 seconds").alias("a"),
                read_stream(path / "b", "0 seconds").alias("b"),
            )
            near = "a.k = b.k AND a.ts > b.ts - INTERVAL 20 SECONDS AND a.ts < b.ts + INTERVAL 20 SECONDS"
            return a.join(b, F.expr(near)).selectExpr("a.k", "a.v", "b.v AS w")

        peer = run_spark_steps(joined, path / "spark", skip=6)
        report("window equi-join, 200,000 rows a step", ours, peer, 2 * side, 4)


def bench_sliding_aggregate() -> None:
    """COUNT, SUM and MAX per key over a sliding minute, per arrival: 2 M rows in 10 steps, 10,000 keys."""
    size, steps, keys = 200_000, 10, 10_000
    with temporary_folder() as path:
        for step in range(steps):
            write_rows(path, "s", step * size, size, 10_000, keys, 3)
        with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
            db.execute(
                create_stream("s", path / "s") + "CREATE VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v, "
                "MAX(v) AS m FROM s [RANGE 60 SECONDS] GROUP BY k"
            )
            ours = run_steps(db, skip=3)

        def grouped() -> DataFrame:
            rows = read_stream(path / "s", "0 seconds")
            by = rows.groupBy(F.window("ts", "60 seconds", "2 seconds"), "k")
            return by.agg(F.count("*").alias("n"), F.sum("v").alias("v"), F.max("v").alias("m"))

        peer = run_spark_steps(grouped, path / "spark", skip=3)
        report("sliding count, sum, max, 200,000 rows a step (Spark: every 2 s)", ours, peer, size, 4)


OVER_A_WINDOW = {
    "DISTINCT": ("SELECT DISTINCT k FROM s {w}", "SELECT DISTINCT k FROM s"),
    "NOT EXISTS": (
        "SELECT k, v FROM s {w} WHERE NOT EXISTS (SELECT 1 FROM r {w} WHERE r.k = s.k)",
        "SELECT k, v FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    ),
    "EXCEPT ALL": (
        "SELECT k FROM s {w} EXCEPT ALL SELECT k FROM r {w}",
        "SELECT k FROM s EXCEPT ALL SELECT k FROM r",
    ),
    "sliding AVG": ("SELECT k, AVG(v) AS v FROM s {w} GROUP BY k", "SELECT k, AVG(v) AS v FROM s GROUP BY k"),
}


def _window_steps(
    sql: str, window: int, step: int, path: Path, steps: int = 8, keys: int = 50_000
) -> StepTimes:
    """Run steps of `step` rows after a window of `window` rows is full."""
    two = " r " in sql
    for seed, name in enumerate(("s", "r")[: 1 + two]):
        write_rows(path, name, 0, window, 10_000, keys if name == "s" else keys // 2, 20 * seed)
        for i in range(steps):
            write_rows(
                path, name, window + i * step, step, 10_000, keys if name == "s" else keys // 2, 20 * seed
            )
    with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
        names = ("s", "r")[: 1 + two]
        script = "".join(create_stream(name, path / name) for name in names)
        db.execute(f"{script} CREATE VIEW answer AS {sql.format(w=f'[RANGE {window // 10_000} SECONDS]')}")
        return run_steps(db, skip=3)


def _recompute_steps(sql: str, window: int, step: int, path: Path, skip: int) -> StepTimes:
    """Run batches over the same files, each of which recomputes the answer from the rows of the window."""
    names = [name for name in ("s", "r") if (path / name).exists()]
    before = count_spark_work(session())

    def recompute(_: DataFrame, batch: int) -> None:
        now = START + (window + batch * step) / 10_000
        for name in names:
            files = sorted(map(str, (path / name).glob("*.parquet")))[: batch + 1]
            inside = f"ts > timestamp_seconds({now - window / 10_000}) AND ts <= timestamp_seconds({now})"
            session().read.parquet(*files).where(inside).createOrReplaceTempView(name)
        session().sql(sql).write.format("noop").mode("overwrite").save()

    came = reduce(DataFrame.unionAll, [read_stream(path / name, "0 seconds") for name in names])
    running = (
        came.writeStream.foreachBatch(recompute)
        .option("checkpointLocation", str(path / "recomputed"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    took = [
        p.durationMs["triggerExecution"] / 1000 for p in running.recentProgress if "addBatch" in p.durationMs
    ]
    return StepTimes(took[skip:], (count_spark_work(session()) - before) / max(1, len(took)))


def bench_against_recomputing() -> None:
    """DISTINCT, NOT EXISTS, EXCEPT ALL, AVG per key: steps of 10,000 rows over a window of 1,000,000."""
    window, step = 1_000_000, 10_000
    for title, (sql, plain) in OVER_A_WINDOW.items():
        with temporary_folder() as path:
            ours = _window_steps(sql, window, step, path)
            peer = _recompute_steps(plain, window, step, path, skip=3)
            title = f"{title}, {step:,} rows a step over {window:,}"
            report(title, ours, peer, step, 5, "recomputed by Spark")


def bench_growth() -> None:
    """A step of 10,000 rows when the window grows from 100,000 to 1,000,000 rows: at most 2.5 times."""
    for title, (sql, _) in OVER_A_WINDOW.items():
        times = []
        for window in (100_000, 1_000_000):
            with temporary_folder() as path:
                times.append(_window_steps(sql, window, 10_000, path).typical)
        print(f"{title}: {times[0]:.3f} s → {times[1]:.3f} s, {times[1] / times[0]:.2f} times (at most 2.5)")


def bench_small_step() -> None:
    """A step of 100 rows of a join, warm, against a batch of Spark's own stream-stream join."""
    size, steps = 50, 20
    with temporary_folder() as path:
        for step in range(steps):
            for seed, name in enumerate(("a", "b")):
                write_rows(path, name, step * size, size, 10, 20, 10 * seed)
        with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
            db.execute(
                create_stream("a", path / "a") + create_stream("b", path / "b") + "CREATE VIEW pairs AS "
                "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SECONDS] JOIN b [RANGE 20 SECONDS] ON a.k = b.k"
            )
            ours = run_steps(db, skip=8)

        def joined() -> DataFrame:
            a, b = (
                read_stream(path / "a", "0 seconds").alias("a"),
                read_stream(path / "b", "0 seconds").alias("b"),
            )
            near = "a.k = b.k AND a.ts > b.ts - INTERVAL 20 SECONDS AND a.ts < b.ts + INTERVAL 20 SECONDS"
            return a.join(b, F.expr(near)).selectExpr("a.k", "a.v", "b.v AS w")

        peer = run_spark_steps(joined, path / "spark", skip=8)
        report("join, 100 rows a step", ours, peer, 2 * size, 2)


def bench_expiry() -> None:
    """Rows with known ends against explicit negative rows (paper 2's NT) on the same queries and data."""
    size, steps = 50_000, 8
    queries = {
        "join": "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SECONDS] JOIN b [RANGE 20 SECONDS] ON a.k = b.k",
        "distinct": "SELECT DISTINCT k FROM a [RANGE 20 SECONDS]",
        "sum": "SELECT k, SUM(v) AS v FROM a [RANGE 20 SECONDS] GROUP BY k",
    }
    for title, sql in queries.items():
        times = {}
        for strategy in ("UPA", "NT"):
            with temporary_folder() as path:
                names = ("a", "b") if title == "join" else ("a",)
                for step in range(steps):
                    for seed, name in enumerate(names):
                        write_rows(path, name, step * size, size, size // 10, 20_000, 10 * seed)
                with everview.connect(str(path / "store"), session(), PARTITIONS, strategy) as db:
                    db.execute("".join(create_stream(name, path / name) for name in names))
                    db.execute(f"CREATE VIEW answer AS {sql}")
                    times[strategy] = run_steps(db, skip=3).typical
        ratio = times["NT"] / times["UPA"]
        print(
            f"{title}: {times['UPA']:.3f} s a step, with negative rows {times['NT']:.3f} s: {ratio:.2f} times"
        )


def bench_shared_views() -> None:
    """Ten views over one join against one: less than twice the time, because the join runs once."""
    side, steps = 20_000, 8
    times = []
    for views in (1, 10):
        with temporary_folder() as path:
            for step in range(steps):
                for seed, name in enumerate(("a", "b")):
                    write_rows(path, name, step * side, side, side // 10, 10_000, 10 * seed)
            with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
                db.execute(create_stream("a", path / "a") + create_stream("b", path / "b"))
                db.execute(
                    "CREATE VIEW pairs AS SELECT a.k, a.v, b.v AS w "
                    "FROM a [RANGE 20 SECONDS] JOIN b [RANGE 20 SECONDS] ON a.k = b.k"
                )
                for i in range(views - 1):
                    db.execute(f"CREATE VIEW v{i} AS SELECT k, v + w AS x FROM pairs WHERE v > {50 * i}")
                times.append(run_steps(db, skip=3).typical)
    print(
        f"one view {times[0]:.3f} s a step, ten {times[1]:.3f} s: {times[1] / times[0]:.2f} times (below 2)"
    )
