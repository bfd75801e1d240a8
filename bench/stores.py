"""How a store grows: with its views, and with its steps."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

import everview
from bench.engine import PARTITIONS, START, session, temporary_folder
from everview.algebra.time import MINUTE
from everview.catalog import ViewEntry
from everview.database import Database
from everview.sql.statements import Create
from everview.storage.arrivals import Progress

FEW, MANY = 10, 500  # views
STEPS, WARM_UP = 16, 8
SHOWN = (200, 500, 1_000, 1_500, 2_000)  # steps of the soak at which it is measured

# Views of five kinds. The windows differ, so that no state is shared.
KINDS = (
    "SELECT k, v + {i} AS x FROM s WHERE v > {i} % 90",
    "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM s [RANGE {w} SECONDS] GROUP BY k",
    "SELECT DISTINCT v FROM s [RANGE {w} SECONDS]",
    "SELECT s.k, s.v, r.v AS w FROM s [RANGE {w} SECONDS] JOIN r [RANGE {w} SECONDS] ON s.k = r.k",
    "SELECT k FROM s [RANGE {w} SECONDS] EXCEPT ALL SELECT k FROM r [RANGE {w} SECONDS]",
)


def write_file(folder: Path, number: int, rows: int) -> None:
    """Write a file of rows (k, v, ts), five seconds after the one before it."""
    begin = datetime.fromtimestamp(START + 5 * number, UTC)
    lines = ["k,v,ts"]
    for i in range(rows):
        at = begin + timedelta(milliseconds=i * 5000 // rows)
        lines.append(f"{(7 * i + number) % 20},{(13 * i + number) % 100},{at:%Y-%m-%d %H:%M:%S.%f}")
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:05}.csv"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (START + number, START + number))  # Spark reads files in the order of their times


def create_stream(name: str, folder: Path) -> str:
    """Return the CREATE STREAM statement of a folder, a file of which is a step."""
    return (
        f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP, TIMELINE ts) "
        f"FROM csv('{folder}', header => true, maxFilesPerTrigger => 1);"
    )


def create_views(count: int) -> str:
    """Return the CREATE VIEW statements of so many views."""
    return ";".join(
        f"CREATE VIEW v{i} AS {KINDS[i % len(KINDS)].format(i=i, w=20 + i)}" for i in range(count)
    )


def bench_many_views() -> None:
    """A step of 100 rows in a store with 500 views, against one with 10: ratio, seconds, CPU."""
    seconds, processor = {}, {}
    for views in (FEW, MANY):
        with temporary_folder() as path:
            for number in range(STEPS):
                for name in ("s", "r"):
                    write_file(path / name, number, 50)
            with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
                db.execute(create_stream("s", path / "s") + create_stream("r", path / "r"))
                db.execute(create_views(views))
                marks = [(time.perf_counter(), used_processor())]
                db.run(progress=lambda _, marks=marks: marks.append((time.perf_counter(), used_processor())))  # type: ignore[misc]
                steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks)][WARM_UP:]
                seconds[views], processor[views] = (median(each) for each in zip(*steps, strict=True))
    few, many = seconds[FEW], seconds[MANY]
    print(f"{FEW} views {few:.2f} s a step, {MANY} views {many:.2f} s: {many / few:.1f} times")
    print(f"of CPU: {FEW} views {processor[FEW]:.2f} s a step, {MANY} views {processor[MANY]:.2f} s")


def bench_soak() -> None:
    """2,000 steps of a join, aggregates, a DISTINCT and a COMPLETE view: memory and files stay level."""
    table = Table(
        "step", "driver MiB", "JVM MiB", "workers MiB", "heap MiB", "files", "KiB", "rows of views",
        "checkpoint files", "KiB", title="soak", title_justify="left",
    )  # fmt: skip
    with temporary_folder() as path:
        for line in soak(path, SHOWN, report=lambda line: print(*line, flush=True)):
            table.add_row(*map(str, line))
    Console(width=120).print(table)


def soak(
    path: Path, shown: tuple[int, ...], report: Callable[[tuple[int, ...]], None] = lambda _: None
) -> list[tuple[int, ...]]:
    """Run steps; return, at the steps to be shown, what memory, files and rows there are."""
    for number in range(max(shown)):
        write_file(path / "s", number, 50)
    with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
        db.execute(create_stream("s", path / "s"))
        db.execute(SOAKED)
        for statement in db.statements(COUNTED):
            assert isinstance(statement, Create)
            assert isinstance(statement.entry, ViewEntry)
            entry = replace(statement.entry, history=MINUTE, least_changes=10_000)
            db.carry_out(replace(statement, entry=entry))
        found: list[tuple[int, ...]] = []

        def measure(done: Progress) -> None:
            for line in _measured(db, path / "store", done.step, shown):
                found.append(line)
                report(line)

        db.run(progress=measure)
    return found


SOAKED = """
    CREATE VIEW pairs WITH (history => INTERVAL '1' MINUTE) AS
        SELECT x.k, x.v, y.v AS w FROM s [RANGE 20 SECONDS] x JOIN s [RANGE 10 SECONDS] y ON x.k = y.k;
    CREATE VIEW sums WITH (history => INTERVAL '1' MINUTE) AS SELECT k, SUM(v) AS v FROM pairs GROUP BY k;
    CREATE VIEW once WITH (history => INTERVAL '1' MINUTE) AS SELECT DISTINCT v FROM s [RANGE 30 SECONDS];
    CREATE VIEW totals WITH (history => INTERVAL '1' MINUTE) AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
    CREATE COMPLETE VIEW top WITH (history => INTERVAL '1' MINUTE) AS SELECT MAX(n) AS n FROM totals;
"""
# It keeps a minute, and the last 10,000 changes: as views do that do not say what they keep, but earlier.
COUNTED = "CREATE VIEW counted AS SELECT v, COUNT(*) AS n, MAX(ts) AS last FROM s GROUP BY v"


def _measured(db: Database, store: Path, step: int, shown: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if step in shown:
        memory = memory_by_process()
        own, checkpoint = (
            count_files(store, lambda p: "checkpoint" not in p.parts),
            count_files(store / "checkpoint"),
        )
        rows = sum(run.rows for runs in db.manifest().of("view").values() for run in runs)
        yield step, *memory, used_heap(), *own, rows, *checkpoint


def used_heap() -> int:
    """Return what is in use of the heap of the Java process after a collection, in MiB."""
    java = session()._jvm
    assert java is not None
    java.java.lang.System.gc()
    runtime = java.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) // 2**20


def memory_by_process() -> tuple[int, int, int]:
    """Return the resident memory, in MiB, of this process, its Java process and Spark's Python workers."""
    found = own_processes()
    memory = {p: int(status.get("VmRSS", "0 kB").split()[0]) // 1024 for p, status in found.items()}
    java = {p for p, status in found.items() if status["Name"] == "java"}
    workers = found.keys() - java - {os.getpid()}
    return memory[os.getpid()], sum(memory[p] for p in java), sum(memory[p] for p in workers)


def used_processor() -> float:
    """Return the seconds of CPU that this process, its Java process and Spark's workers have used."""
    ticks = 0
    for process in own_processes():
        with suppress(OSError):  # the process has ended
            ticks += sum(
                map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15])
            )
    return ticks / os.sysconf("SC_CLK_TCK")


def own_processes() -> dict[int, dict[str, str]]:
    """Return what the system says of this process and all that descend from it, by their numbers."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            lines = (line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            found[int(folder.name)] = {line[0]: line[1].strip() for line in lines if len(line) > 1}
    mine = {os.getpid()}
    while more := {p for p, status in found.items() if int(status["PPid"]) in mine} - mine:
        mine |= more
    return {p: status for p, status in found.items() if p in mine}


def count_files(folder: Path, counts: Callable[[Path], bool] = lambda _: True) -> tuple[int, int]:
    """Return how many files there are below a folder, and their size in KiB."""
    sizes = [f.stat().st_size for f in folder.rglob("*") if f.is_file() and counts(f)]
    return len(sizes), sum(sizes) // 1024
