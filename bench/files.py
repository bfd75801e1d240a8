"""Many small files: a run that reads them, and one without new files, against a stream of Spark."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import everview
from bench.engine import PARTITIONS, START, session, temporary_folder
from everview.execute.session import RELIED_ON
from everview.ingest.reading import FILES_A_STEP

FILES = 10_000
LISTING = ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "spark.sql.files.openCostInBytes")


def write_files(path: Path, count: int) -> None:
    """Write files of one row each, in the order of their times."""
    path.mkdir()
    for i in range(count):
        file = path / f"{i:06}.csv"
        file.write_text(f"{i % 10},{i},2026-01-01 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}\n")
        os.utime(file, (START + i, START + i))


def bench_many_small_files() -> None:
    """10,000 files of one row, and a run without new files, against a stream of Spark."""
    with temporary_folder() as path:
        write_files(path / "in", FILES)
        plain = session().newSession()
        for name in LISTING:
            assert name in RELIED_ON
            plain.conf.unset(name)

        def read_by_spark() -> None:
            rows = plain.readStream.schema("k INT, v INT, ts TIMESTAMP")
            read = rows.name("files").option("maxFilesPerTrigger", FILES_A_STEP).csv(str(path / "in"))
            writer = read.where("v >= 0").writeStream.format("noop")
            writer = writer.option("checkpointLocation", str(path / "spark"))
            writer.trigger(availableNow=True).start().awaitTermination()

        with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
            db.execute(
                f"CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{path}/in');"
                "CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s [RANGE 1 HOUR] GROUP BY k"
            )
            table = Table("", "Everview", "Spark", "ratio", title="many small files", title_justify="left")
            for title in (f"{FILES:,} files of one row", "nothing new", "nothing new, again"):
                ours, peer = _seconds(db.run), _seconds(read_by_spark)
                table.add_row(title, f"{ours:.1f} s", f"{peer:.1f} s", f"{peer / ours:.2f} × as fast")
        Console(width=110).print(table)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
