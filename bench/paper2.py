"""The experiments of paper 2 (figures 9 to 17): queries 1 to 5 by NT, DIRECT and UPA. No Spark.

Each stream brings a row a second, and windows have 2,000, 20,000 and 200,000 seconds. There are as many
sources as make 200 rows of each in a window, and ten destinations of each; one row in 200 is `ftp`, three are
`telnet`, so that query 1 has about as many results as inputs, or ten times as many. A step takes a twentieth
of the window (the paper's interval of lazy expiration), at most 10,000 rows a stream. The window is filled,
then ten steps are counted. `UPA(10)` and `UPA(50)` have so many expiry buckets in place of the number that
follows from the spread of ends. Times are those of a processor. The snapshots of all strategies are compared.
"""

import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from bench.stored_plan import Given, PlanCounts, StoredPlan, arrivals, snapshot_of
from everview.algebra.time import SECOND
from everview.catalog import Catalog
from everview.compile import compile_view
from everview.operators.columnar.frame import BEFORE_ALL, Frame, Slice
from everview.sql import bind_script, declare, plan_of

WINDOWS = (2_000, 20_000, 200_000)
COUNTED = 10
LOGS = Path("/work/shared/data")

_LINK = (
    "CREATE STREAM {} (src INT, dst INT, protocol INT, ts TIMESTAMP, TIMELINE ts)"
    " WITH (rate => 1, distinct(src) => {}, distinct(dst) => {}, distinct(protocol) => {});"
)
FTP, TELNET = 1, 2

QUERIES = {
    "1, ftp": "SELECT l1.src, l1.dst, l2.dst AS other FROM l1 {w} JOIN l2 {w} ON l1.src = l2.src"
    " WHERE l1.protocol = 1 AND l2.protocol = 1",
    "1, telnet": "SELECT l1.src, l1.dst, l2.dst AS other FROM l1 {w} JOIN l2 {w} ON l1.src = l2.src"
    " WHERE l1.protocol = 2 AND l2.protocol = 2",
    "1, three links": "SELECT l1.src, l2.dst, l3.dst AS other FROM l1 {w} JOIN l2 {w} ON l1.src = l2.src"
    " JOIN l3 {w} ON l1.src = l3.src WHERE l1.protocol = 2 AND l2.protocol = 2 AND l3.protocol = 2",
    "2, source": "SELECT DISTINCT src FROM l1 {w}",
    "2, pairs": "SELECT DISTINCT src, dst FROM l1 {w}",
    "3": "SELECT src FROM l1 {w} EXCEPT ALL SELECT src FROM l2 {w}",
    "4": "SELECT a.src FROM (SELECT DISTINCT src FROM l1 {w}) a"
    " JOIN (SELECT DISTINCT src FROM l2 {w}) b ON a.src = b.src",
    "5": "SELECT a.src, l3.dst FROM (SELECT src FROM l1 {w} EXCEPT ALL SELECT src FROM l2 {w}) a"
    " JOIN l3 {w} ON a.src = l3.src WHERE l3.protocol = 1",
    "5, by value": "SELECT a.src, l3.dst FROM (SELECT src FROM l1 {w} WHERE protocol = 2 AND NOT EXISTS"
    " (SELECT 1 FROM l2 {w} WHERE l2.src = l1.src AND l2.protocol = 1)) a"
    " JOIN l3 {w} ON a.src = l3.src WHERE l3.protocol = 1",
}
"""The queries of figure 8, and query 5 of figure 6: with EXCEPT ALL, and with a negation by value.

Query 1 keeps rows in the order of their ends; over three links, the pairs of two are kept in expiry buckets.
"""

WAYS: dict[str, tuple[str, int | None]] = {
    "NT": ("NT", None), "DIRECT": ("DIRECT", None), "UPA(10)": ("UPA", 10), "UPA(50)": ("UPA", 50),
    "UPA": ("UPA", None),
}  # fmt: skip

Draw = Callable[[int, int], Given]  # the rows of all links from one second up to another


@dataclass(frozen=True)
class Workload:
    """Links with their rows: the seconds of a window and of a step, and how many values the columns have."""

    window: int
    step: int
    values: tuple[int, int, int]
    draw: Draw

    @property
    def sources(self) -> int:
        return self.values[0]

    @property
    def catalog(self) -> Catalog:
        known = Catalog()
        for link in ("l1", "l2", "l3"):
            for statement in bind_script(_LINK.format(link, *self.values), known):
                declare(statement, known)
        return known


def generated_links(window: int, per_source: int = 200) -> Workload:
    """Return three links with a row a second each."""
    sources = max(window // per_source, 2)

    def draw(begin: int, end: int) -> Given:
        return {f"l{i}": _generated(begin, end, sources, per_source, i) for i in (1, 2, 3)}

    return Workload(window, min(max(window // 20, 1), 10_000), (sources, 10 * sources, per_source), draw)


def _generated(begin: int, end: int, sources: int, per_source: int, seed: int) -> Frame:
    rng = np.random.default_rng([begin, seed])
    count = end - begin
    src = rng.integers(0, sources, count).astype(np.int32)
    kind = rng.random(count) * per_source
    protocol = np.where(kind < 1, FTP, np.where(kind < 1 + np.sqrt(10), TELNET, 3)).astype(np.int32)
    dst = (10 * src + rng.integers(0, 10, count)).astype(np.int32)
    return _link(src, dst, protocol, np.arange(begin, end) * SECOND)


def _link(src: object, dst: object, protocol: object, instants: object) -> Frame:
    columns = {"c0": src, "c1": dst, "c2": protocol, "c3": pl.Series(instants).cast(pl.Datetime("us"))}
    return arrivals(columns, instants)


def logged_links(window: int) -> Workload | None:
    """Return the Zeek logs as links, a row a second in their order; None if they are not there.

    l1 and l3 are the DNS log, l3 from its middle on, and l2 is the SSL log. `ftp` and `telnet` are a tenth
    and a third of the rows by destination port or version.
    """
    files = [LOGS / "zeek-dns.log.gz", LOGS / "zeek-ssl.log.gz"]
    if not all(file.exists() for file in files):
        return None
    hosts: dict[str, int] = {}
    dns, ssl = (_read_log(file, hosts) for file in files)
    links = {"l1": dns, "l2": ssl, "l3": np.roll(dns, len(dns) // 2, axis=0)}

    def draw(begin: int, end: int) -> Given:
        found = {}
        for name, rows in links.items():
            part = rows[np.arange(begin, end) % len(rows)]
            found[name] = _link(part[:, 0], part[:, 1], part[:, 2], np.arange(begin, end) * SECOND)
        return found

    src, dst = (len({*dns[:, i], *ssl[:, i]}) for i in (0, 1))
    return Workload(window, min(max(window // 20, 1), 10_000), (src, dst, 3), draw)


def _read_log(file: Path, hosts: dict[str, int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    """Return source, destination and a protocol of each record."""
    found = []
    with gzip.open(file, "rt") as lines:
        for number, line in enumerate(each for each in lines if not each.startswith("#")):
            fields = line.split("\t")
            src, dst = (hosts.setdefault(fields[i], len(hosts)) for i in (2, 4))
            found.append((src, dst, FTP if number % 10 == 0 else TELNET if number % 3 == 0 else 3))
    return np.array(found, dtype=np.int32)


def run_query(sql: str, load: Workload, strategy: str, buckets: int | None) -> tuple[PlanCounts, list[Frame]]:
    """Fill the window and count some steps; return the counts, and the snapshots after the last steps."""
    catalog = load.catalog
    plan = compile_view(plan_of(sql, catalog), catalog, strategy=strategy).physical
    folder = tempfile.mkdtemp(prefix="everview-bench-")
    try:
        stored = StoredPlan(plan, folder, buckets)
        emitted, snapshots, b0 = [], [], BEFORE_ALL
        filled = -(-load.window // load.step) + 1
        for number in range(filled + COUNTED):
            if number == filled:
                stored.counts = PlanCounts()
            begin, end = number * load.step, (number + 1) * load.step
            b1 = end * SECOND - 1
            emitted.append(stored.step(load.draw(begin, end), Slice(b0, b1, first=number == 0)))
            if number >= filled + COUNTED - 3:
                snapshots.append(snapshot_of(emitted, b1))
            b0 = b1
        return stored.counts, snapshots
    finally:
        shutil.rmtree(folder)


def measure_query(
    name: str, load: Workload, ways: Mapping[str, tuple[str, int | None]]
) -> dict[str, PlanCounts]:
    """Return the counts of a query by each way to run it; raise an error if their snapshots differ."""
    sql = QUERIES[name].format(w=f"[RANGE {load.window} SECONDS]")
    counts, expected = {}, None
    for way, (strategy, buckets) in ways.items():
        counts[way], snapshots = run_query(sql, load, strategy, buckets)
        if expected is None:
            expected = snapshots
        for one, other in zip(expected, snapshots, strict=True):
            if not one.equals(other):
                raise AssertionError(f"query {name} by {way} has other rows than by {next(iter(ways))}")
    return counts


def find_losses(counts: Mapping[str, PlanCounts]) -> Iterator[str]:
    """Yield where UPA emits or keeps more rows than another strategy."""
    ours = counts["UPA"]
    for way in ("NT", "DIRECT"):
        other = counts[way]
        if ours.emitted > other.emitted:
            yield f"emits {ours.emitted / max(other.emitted, 1):.3f} × the rows of {way}"
        if ours.state_rows > other.state_rows:
            yield f"keeps {ours.state_rows / max(other.state_rows, 1):.3f} × the rows of {way}"


def _measure_all(title: str, load: Workload) -> None:
    table = Table(title=f"{title}, window of {load.window:,} rows, steps of {load.step:,}")
    for head in ("query", "strategy", "ms / 1,000 rows", "state rows", "KiB", "emitted / 1,000", "negative"):
        table.add_column(head, justify="left" if head in ("query", "strategy") else "right")
    losses = []
    for name in QUERIES:
        counts = measure_query(name, load, WAYS)
        links = sum(link in QUERIES[name] for link in ("l1 ", "l2 ", "l3 "))
        for way, found in counts.items():
            thousands = found.steps * load.step * links / 1000
            table.add_row(
                name, way, f"{1000 * found.seconds / thousands:.1f}", f"{found.state_rows:,.0f}",
                f"{found.state_bytes / 1024:,.0f}", f"{found.emitted / thousands:,.0f}",
                f"{found.negative / thousands:,.0f}",
            )  # fmt: skip
        losses += [f"query {name}: UPA {loss}" for loss in find_losses(counts)]
    console = Console(width=120)
    console.print(table)
    console.print("\n".join(losses or ["UPA keeps and emits no more rows than NT and DIRECT"]))


def bench_links() -> None:
    """Queries 1 to 5 by NT, DIRECT and UPA on generated links."""
    for window in WINDOWS:
        _measure_all("generated links", generated_links(window))


def bench_logs() -> None:
    """The same on two Zeek logs."""
    for window in WINDOWS[:2]:  # a longer one has the whole log several times
        load = logged_links(window)
        if load is None:
            print(f"the logs are not there: {LOGS}/zeek-dns.log.gz, zeek-ssl.log.gz")
            return
        _measure_all("Zeek logs", load)
