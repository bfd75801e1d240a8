"""`python -m bench profile QUERY`: where the time of a large and of a small step goes, part by part.

The parts of a step in the driver are timed as it runs. What happens inside the tasks is found in two ways:
the batch is read once more without Python and once more with Python that only drops rows, and the work of the
tasks is repeated in this process, where each function can be timed.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

import everview
from bench.engine import PARTITIONS, SECOND, START, session, temporary_folder

STEPS, LARGE, SMALL = 8, 200_000, 100  # of each size: so many steps; only the last is shown

QUERIES = {
    "q0": "SELECT auction, bidder, price, channel, url, ts, extra FROM bid",
    "q1": "SELECT auction, bidder, price * 908 div 1000 AS price, ts, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q15": "SELECT date_trunc('DAY', ts) AS day, COUNT(*) AS bids, COUNT(DISTINCT bidder) AS bidders "
    "FROM bid GROUP BY date_trunc('DAY', ts)",
    "q17": "SELECT auction, COUNT(*) AS n, MIN(price) AS low, MAX(price) AS high, AVG(price) AS mean, "
    "SUM(price) AS total FROM bid GROUP BY auction",
    "q18": "SELECT auction, bidder, price, channel, url, ts, extra FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bid) WHERE place <= 1",
}


def write_bids(path: Path, number: int, first: int, count: int, format_: str) -> None:
    """Write one file of bids, from bid `first` on: 10,000 a second, half of them for hot auctions."""

    def random(seed: int, below: str) -> str:
        return f"pmod(xxhash64(id, {seed}), {below})"

    auction, person = "(1000 + id * 3 div 46)", "(1000 + id div 46)"
    columns = {
        "auction": f"IF({random(1, '2')} = 0, {auction} div 100 * 100, {auction} - {random(2, '100')})",
        "bidder": f"IF({random(3, '4')} > 0, {person} div 100 * 100 + 1, {person} - {random(4, '900')})",
        "price": f"CAST(pow(10, {random(5, '6000000')} / 1e6) * 100 AS BIGINT)",
        "channel": f"concat('channel-', {random(6, '10000')})",
        "url": f"concat('https://www.example.com/', {random(7, '100000')}, '/item.htm?query=1')",
        "ts": f"timestamp_micros({START * SECOND} + id * 100)",
        "extra": "concat(md5(CAST(id AS STRING)), md5(CAST(id + 1 AS STRING)))",
    }
    rows = session().range(first, first + count, 1, 1)
    written = path / f"{number}-tmp"
    frame = rows.selectExpr(*(f"{text} AS {name}" for name, text in columns.items()))
    getattr(frame.write, format_)(str(written))
    [part] = written.glob(f"part-*.{format_}") or [next(written.glob("part-*"))]
    target = path / f"{number:04}.{format_}"
    part.rename(target)
    os.utime(target, (START + number, START + number))  # Spark reads files in the order of their times


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all processes that it has started, so far."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))  # with its children that have ended
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")


class Clock:
    """Adds up the seconds of named parts; those of a part inside another count for the inner one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[str] = []
        self._since = time.perf_counter()

    def _note(self) -> None:
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the seconds inside the block for a part."""
        self._note()
        self._inside.append(name)
        try:
            yield
        finally:
            self._note()
            self._inside.pop()

    def wrap(self, stack: ExitStack, owner: object, function: str, name: str) -> None:
        """Count each call of a function for a part, until the stack is left."""
        original: Callable[..., Any] = getattr(owner, function)

        @wraps(original)
        def timed(*args: Any, **named: Any) -> Any:
            with self.part(name):
                return original(*args, **named)

        stack.enter_context(patch.object(owner, function, timed))


def drop_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """Read all batches, and yield nothing."""
    for _ in batches:
        pass
    return iter(())


def _time_tasks(clock: Clock, stack: ExitStack) -> None:
    """Count reading, encoding and writing of files in this process for their parts."""
    from everview.storage import files, packs

    for owner in (files, packs):
        for function in ("encode_frame", "encode_parts"):
            if hasattr(owner, function):
                clock.wrap(stack, owner, function, "rows to Arrow files")
    clock.wrap(stack, files.Files, "write", "files written")
    for function in ("read_frame", "read_part"):
        clock.wrap(stack, files.Files, function, "files read")


def run_profiled(sql: str, path: Path, sizes: list[int], shown: set[int]) -> dict[int, dict[str, float]]:
    """Run steps; return the milliseconds of each part of those that are shown, by their number."""
    from everview.execute import evaluate, slices
    from everview.execute.prepare import StepStages
    from everview.execute.tasks import RUN_LINES
    from everview.ingest import intake
    from everview.pipeline import writer
    from everview.storage.store import Store

    found: dict[int, dict[str, float]] = {}
    clock, extra = Clock(), 0.0
    step, programs = 0, []
    tasks: dict[str, dict[str, float]] = {}
    take_in, programs_of = intake.take_in, StepStages.programs

    def again(work: Callable[[], object]) -> float:
        nonlocal extra
        started = time.perf_counter()
        work()
        took = time.perf_counter() - started
        extra += took
        return took

    def profiled_intake(sources: Any, frame: Any, *args: Any) -> Any:
        if step in shown:
            captured: list[Any] = []
            maker = intake.IntakeTask

            def made(*given: Any) -> Any:
                captured.append(maker(*given))
                return captured[-1]

            read = again(lambda: frame.write.format("noop").mode("overwrite").save())
            sent = again(lambda: frame.mapInArrow(drop_rows, RUN_LINES).collect())
            batches: list[Any] = []
            again(lambda: batches.extend(frame.toArrow().to_batches()))
            tasks["intake"] = {"read": read, "sent": sent}
            with clock.part("intake"), patch.object(intake, "IntakeTask", made):
                started = time.perf_counter()
                result = take_in(sources, frame, *args)
                tasks["intake"]["whole"] = time.perf_counter() - started
            own = Clock()
            with ExitStack() as stack:
                _time_tasks(own, stack)

                def repeat() -> None:
                    with own.part("kernel"):
                        list(captured[0](iter(batches)))

                again(repeat)
            tasks["intake here"] = dict(own.seconds)
            return result
        with clock.part("intake"):
            return take_in(sources, frame, *args)

    def kept_programs(self: Any, *args: Any, **named: Any) -> Any:
        made = programs_of(self, *args, **named)
        programs[:] = made
        return made

    evaluate_slice = evaluate.evaluate_slice

    def profiled_slice(*args: Any, **named: Any) -> Any:
        with clock.part("slice"):
            result = evaluate_slice(*args, **named)
        if step in shown:
            own = Clock()
            with ExitStack() as stack:
                _time_tasks(own, stack)

                def repeat() -> None:
                    with own.part("kernel"):
                        for program in programs:
                            for partition in range(PARTITIONS):
                                program.run([None] * len(program.stage.ports), partition)

                again(repeat)
            tasks["slice here"] = dict(own.seconds)
        return result

    ends: list[tuple[float, float]] = []

    def record(progress: Any) -> None:
        nonlocal step, extra
        now, cpu = time.perf_counter(), cpu_seconds()
        if step in shown:
            whole = now - ends[-1][0] - extra
            parts = {k: 1000 * v for k, v in clock.seconds.items()}
            parts["whole"] = 1000 * whole
            parts["Spark's turn"] = 1000 * (now - ends[-1][0] - progress.seconds)
            for place, inner in tasks.items():
                parts |= {f"{place}: {k}": 1000 * v for k, v in inner.items()}
            found[step] = parts
        elif step:
            found[step] = {"whole": 1000 * (now - ends[-1][0]), "cpu": 1000 * (cpu - ends[-1][1])}
        ends.append((now, cpu))
        clock.seconds.clear()
        extra, step = 0.0, step + 1

    with ExitStack() as stack:
        stack.enter_context(patch.object(writer, "take_in", profiled_intake))
        stack.enter_context(patch.object(slices, "evaluate_slice", profiled_slice))
        stack.enter_context(patch.object(StepStages, "programs", kept_programs))
        clock.wrap(stack, slices, "merge", "runs merged")
        clock.wrap(stack, writer, "bring_to_disk", "files brought to the disk")
        clock.wrap(stack, Store, "write_manifest", "manifest")
        columns = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING"
        format_ = "csv" if list(path.glob("bid/*.csv")) else "parquet"
        with everview.connect(str(path / "store"), session(), PARTITIONS) as db:
            db.execute(
                f"CREATE STREAM bid ({columns}, ts TIMESTAMP, extra STRING, TIMELINE ts) "
                f"FROM {format_}('{path / 'bid'}', maxFilesPerTrigger => 1); CREATE VIEW answer AS {sql}"
            )
            db.run(progress=record)
    return found


def _table(title: str, parts: dict[str, float], usual: tuple[float, float]) -> Table:
    """Return the parts of a step as a table; `usual` are the ms and CPU ms of one that was not profiled."""
    got = parts.get
    intake, slice_ = got("intake", 0.0), got("slice", 0.0)
    read, sent, whole = (got(f"intake: {k}", 0.0) for k in ("read", "sent", "whole"))
    rows = [
        ("Spark's turn: files listed, offsets logged, planning", got("Spark's turn", 0.0)),
        ("intake: reading and Catalyst", min(read, whole)),
        ("intake: Arrow across the socket to Python", max(0.0, sent - read)),
        ("intake: the rest of the job, of which in one process:", max(0.0, intake - max(read, sent))),
        *((f"    {k}", v) for k, v in _here(parts, "intake here")),
        ("slice, of which in one process:", slice_),
        *((f"    {k}", v) for k, v in _here(parts, "slice here")),
        *((k, got(k, 0.0)) for k in ("runs merged", "files brought to the disk", "manifest")),
    ]
    table = Table("part", "ms", title=title, title_justify="left")
    for name, ms in rows:
        table.add_row(name, f"{ms:,.1f}")
    table.add_row("a whole step, not profiled (median)", f"{usual[0]:,.0f}")
    table.add_row("CPU of driver, JVM and Python workers", f"{usual[1]:,.0f}")
    return table


def _here(parts: dict[str, float], place: str) -> list[tuple[str, float]]:
    prefix = f"{place}: "
    return [(k.removeprefix(prefix), v) for k, v in parts.items() if k.startswith(prefix)]


def main(arguments: list[str]) -> int:
    """Print the profile of a query over Parquet files, or over CSV files with `--csv`."""
    names = [a for a in arguments if not a.startswith("-")]
    if len(names) != 1 or names[0] not in QUERIES:
        print(f"bench profile: give one of {', '.join(QUERIES)}, and --csv for CSV files")
        return 1
    format_ = "csv" if "--csv" in arguments else "parquet"
    sizes = [LARGE] * STEPS + [SMALL] * STEPS
    with temporary_folder() as path:
        (path / "bid").mkdir()
        first = 0
        for number, size in enumerate(sizes):
            write_bids(path / "bid", number, first, size, format_)
            first += size
        shown = {STEPS - 1, 2 * STEPS - 1}
        found = run_profiled(QUERIES[names[0]], path, sizes, shown)
        for last, size in zip(sorted(shown), (LARGE, SMALL), strict=True):
            steps = [found[i] for i in range(last - STEPS // 2, last)]
            usual = tuple(sorted(s[k] for s in steps)[len(steps) // 2] for k in ("whole", "cpu"))
            title = f"{names[0]}, {format_}: a step of {size:,} rows"
            Console(width=110).print(_table(title, found[last], (usual[0], usual[1])))
        size_ = sum(f.stat().st_size for f in (path / "store").rglob("*") if f.is_file())
        given = sum(f.stat().st_size for f in (path / "bid").rglob("*"))
        print(f"store {size_ / 1e6:,.0f} MB of {given / 1e6:,.0f} MB of files")
    return 0
