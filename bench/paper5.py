"""Paper 5, section 10, figures 6 to 11 and 13 to 15, as ratios: rooms in buildings that report temperatures.

Everything runs on the operators in this process, without Spark: counts are exact, times are CPU times of the
same process, each the least of several runs in alternation. Where snapshots differ that should not, it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.plans import PlanRun, as_stream, run_plans
from everview import operators as P
from everview.algebra.time import SECOND
from everview.catalog import Catalog
from everview.compile import compile_view
from everview.compile_store import compile_store
from everview.operators.columnar.frame import Frame
from everview.plan.estimates import Estimates
from everview.plan.lower import lower
from everview.plan.statistics import declared_statistics
from everview.rewrite import RULES
from everview.sql import bind_script, declare, plan_of

SYNCS = (P.SummedSyncOperator, P.SyncedLatestOperator, P.SyncEveryOperator, P.SyncOnOperator)

Streams = Mapping[str, Frame]


@dataclass(frozen=True)
class Readings:
    """Rooms that report temperatures: `rate` readings a second in all, for some seconds.

    With `kept`, a room stays on its side of 80 degrees for so many readings (figure 9: distribution 1).
    """

    rooms: int = 200
    buildings: int = 20
    temperatures: tuple[int, int] = (73, 100)
    rate: int = 20_000
    seconds: int = 12
    kept: int = 1
    seed: int = 5

    @property
    def rows(self) -> int:
        return self.rate * self.seconds

    def draw(self) -> Frame:
        """Return the readings, evenly distributed among the rooms."""
        rng = np.random.default_rng(self.seed)
        room = rng.permuted(np.arange(self.rows) % self.rooms)
        low, high = self.temperatures
        degrees = rng.integers(low, high + 1, self.rows)
        if self.kept > 1:  # each room draws one of two ranges for some readings in turn
            turn = np.argsort(np.argsort(room, kind="stable"), kind="stable") // self.kept
            hot = (turn * 7919 + room * 31) % 2 == 0
            degrees = np.where(hot, rng.integers(81, high + 1, self.rows), rng.integers(low, 81, self.rows))
        instants = np.arange(1, self.rows + 1) * SECOND // self.rate
        columns = {"c0": room, "c1": room % self.buildings, "c2": degrees}
        return as_stream({n: v.astype(np.int32) for n, v in columns.items()}, instants)

    def catalog(self, points: float = 1.0) -> Catalog:
        """Return a catalog of the readings, of the rooms as a tagged stream, and of points to synchronize."""
        low, high = self.temperatures
        known = (
            f"WITH (rate => {self.rate}, distinct(room) => {self.rooms}, "
            f"distinct(building) => {self.buildings}, distinct(degrees) => {high - low + 1})"
        )
        return declared(
            "CREATE STREAM readings (room INT, building INT, degrees INT, ts TIMESTAMP, TIMELINE ts) "
            f"{known}; CREATE TAGGED STREAM rooms OVER readings KEY (room);"
            "CREATE STREAM points (at TIMESTAMP, TIMELINE at) "
            f"WITH (rate => {points:.4f});"
            "CREATE VIEW ticks AS SELECT at FROM points;"
        )


def declared(script: str) -> Catalog:
    """Return the catalog of a script."""
    catalog = Catalog()
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    return catalog


def plan(sql: str, catalog: Catalog, without: tuple[str, ...] = ()) -> P.Operator:
    """Return the plan of a query, without some of the rules."""
    rules = tuple(rule for rule in RULES if rule.__name__ not in without)
    return compile_view(plan_of(sql, catalog), catalog, rules=rules).physical


def alternate(
    ways: Mapping[str, Mapping[str, P.Operator]], streams: Streams, bounds: range, runs: int
) -> dict[str, PlanRun]:
    """Run each way several times, in alternation; return the fastest run of each."""
    best: dict[str, PlanRun] = {}
    for turn in range(runs):
        for name in ways if turn % 2 == 0 else reversed(list(ways)):
            found = run_plans(ways[name], streams, bounds)
            if name not in best or found.seconds < best[name].seconds:
                best[name] = found
    return best


def require_equal(one: PlanRun, other: PlanRun, views: Mapping[str, str], instants: range) -> None:
    """Raise an error if views of two runs differ at an instant."""
    for view, same in views.items():
        for at in instants:
            if one.snapshot(view, at) != other.snapshot(same, at):
                raise AssertionError(f"{view} and {same} differ at {at}")


def show(title: str, head: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """Print a table."""
    table = Table(*head, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{v:,.3g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)
                        for v in row))  # fmt: skip
    Console(width=110).print(table)


def _steps(seconds: int, length: float = 3.0) -> range:
    step = int(length * SECOND)
    return range(step, seconds * SECOND + step, step)


# Figures 6 to 9: the tagger, and the merged select-tagger

NO_MERGE = ("fold_filter_into_tagged", "push_filter_below_tagged")


def measure_tagger(seconds: int = 12, runs: int = 3) -> list[tuple[object, ...]]:
    """Return rooms, rows a second and rows kept of a tagger alone (figure 6)."""
    found = []
    for rooms in (200, 600):
        made = Readings(rooms, seconds=seconds)
        ways = {"tagger": {"v": plan("SELECT room, degrees FROM rooms", made.catalog())}}
        run = alternate(ways, {"readings": made.draw()}, _steps(seconds), runs)["tagger"]
        found.append((rooms, run.seconds, made.rows / run.seconds, run.state_rows()))
    return found


def measure_merged(condition: str, readings: Readings, runs: int = 3) -> tuple[PlanRun, PlanRun, PlanRun]:
    """Run a tagger with a select above it, both merged, and a select without a tagger (figures 7 to 9)."""
    catalog, sql = readings.catalog(), f"SELECT room, degrees FROM rooms WHERE {condition}"
    ways = {
        "separate": {"v": plan(sql, catalog, NO_MERGE)},
        "merged": {"v": plan(sql, catalog)},
        "select only": {"v": plan(sql.replace("rooms", "readings", 1), catalog)},
    }
    found = alternate(ways, {"readings": readings.draw()}, _steps(readings.seconds), runs)
    last = readings.seconds * SECOND
    require_equal(found["separate"], found["merged"], {"v": "v"}, range(SECOND // 3, last, last // 7))
    return found["separate"], found["merged"], found["select only"]


def bench_tagger() -> None:
    """Figures 6 to 9: a tagger, and the select-tagger against a select above a tagger: 1.15 times (paper)."""
    show("figure 6", ("rooms", "s", "rows/s", "rows kept"), measure_tagger())
    cases = [
        (f"figure 7, degrees > 80, {12 * i} s", "degrees > 80", Readings(seconds=12 * i)) for i in (1, 2)
    ]
    cases += [(f"figure 8, room < {n}", f"room < {n}", Readings()) for n in (20, 100, 200)]
    cases += [(f"figure 9, degrees > {d}", f"degrees > {d}", Readings()) for d in (97, 86, 74)]
    cases += [("figure 9, degrees > 80, ten readings on a side", "degrees > 80", Readings(kept=10))]
    rows = []
    for title, condition, readings in cases:
        separate, merged, only = measure_merged(condition, readings)
        rows.append((title, separate.seconds, merged.seconds, separate.seconds / merged.seconds, only.seconds,
                     separate.state_rows(), merged.state_rows()))  # fmt: skip
    show(
        "select-tagger",
        ("", "separate s", "merged s", "ratio", "select only s", "kept", "kept, merged"),
        rows,
    )


# Figures 10 and 11: the synchronizer, and pre-synchronization


def measure_synchronizer(rooms: int, milliseconds: int, seconds: int = 6) -> tuple[int, int]:
    """Return how many rows a synchronizer above a tagger takes and emits (figure 10)."""
    made = Readings(rooms, seconds=seconds)
    sql = f"SELECT room, degrees FROM rooms SYNC EVERY INTERVAL '{milliseconds}' MILLISECOND"
    run = run_plans({"v": plan(sql, made.catalog())}, {"readings": made.draw()}, _steps(seconds))
    emitted = sum(rows for node, rows in run.emitted.items() if isinstance(node, SYNCS))
    return run.count(SYNCS), emitted


def measure_presync(milliseconds: int, readings: Readings, runs: int = 3) -> tuple[PlanRun, PlanRun]:
    """Run hot rooms per building, synchronized above the aggregate, and below it (figure 11)."""
    catalog = readings.catalog()
    sql = (
        "SELECT building, n FROM (SELECT building, COUNT(*) AS n FROM rooms WHERE degrees > 85 "
        f"GROUP BY building) AS g SYNC EVERY INTERVAL '{milliseconds}' MILLISECOND"
    )
    ways = {
        "above": {"v": plan(sql, catalog, ("push_sync_below_operators",))},
        "below": {"v": plan(sql, catalog)},
    }
    found = alternate(ways, {"readings": readings.draw()}, _steps(readings.seconds), runs)
    last = readings.seconds * SECOND
    require_equal(found["above"], found["below"], {"v": "v"}, range(SECOND // 3, last, last // 7))
    return found["above"], found["below"]


def bench_synchronizer() -> None:
    """Figures 10, 11: rows of a synchronizer; pre-synchronization: 5 times fewer rows, 2 times less time."""
    rows: list[tuple[object, ...]] = [
        (rooms, every / 1000, *measure_synchronizer(rooms, every))
        for rooms in (200, 600)
        for every in (100, 200, 500, 1000)
    ]
    show("figure 10", ("rooms", "every s", "rows in", "rows out"), rows)
    rows = []
    for every in (100, 200, 500, 1000):
        above, below = measure_presync(every, Readings())
        taken = [run.count(P.AggregateOperator) for run in (above, below)]
        rows.append((every / 1000, *taken, taken[0] / taken[1], above.seconds, below.seconds,
                     above.seconds / below.seconds))  # fmt: skip
    head = ("every s", "rows of the aggregate", "below", "times fewer", "s", "below, s", "times less time")
    show("figure 11", head, rows)


# Figures 13 to 15: two groupings over one finer grouping


@dataclass(frozen=True)
class Workload:
    """Rooms that report every so many time units, groups, and two synchronizations."""

    title: str
    intervals: tuple[tuple[int, int], ...]  # so many rooms report every so many units
    buildings: int
    temperatures: int
    by_building: int
    by_temperature: int

    @property
    def rooms(self) -> int:
        return sum(rooms for rooms, _ in self.intervals)

    @property
    def rate(self) -> float:
        return sum(rooms / every for rooms, every in self.intervals)

    def draw(self, units: int) -> Streams:
        """Return the readings and the points of both synchronizations; a time unit is a second."""
        rng = np.random.default_rng(7)
        parts = []
        first = 0
        for rooms, every in self.intervals:
            room = np.repeat(np.arange(first, first + rooms), units // every)
            turn = np.tile(np.arange(units // every), rooms)
            parts.append((room, (turn * every * SECOND) + rng.integers(1, every * SECOND, len(room))))
            first += rooms
        room, at = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(at, kind="stable")
        room, at = room[order], at[order]
        degrees = rng.integers(81, 81 + self.temperatures, len(room))
        columns = {"c0": room, "c1": room % self.buildings, "c2": degrees}
        readings = as_stream({n: v.astype(np.int32) for n, v in columns.items()}, at)
        both = {*range(self.by_building, units + 1, self.by_building)}
        both |= {*range(self.by_temperature, units + 1, self.by_temperature)}
        return {"readings": readings, "points": as_stream({}, np.array(sorted(both)) * SECOND)}

    def plans(self) -> tuple[CostedPlans, CostedPlans]:
        """Return the separate plans and those over the finer grouping, and what each is estimated to cost."""
        made = Readings(self.rooms, self.buildings, (81, 80 + self.temperatures), max(int(self.rate), 1))
        every = {"building": self.by_building, "degrees": self.by_temperature}
        points = {point for units in every.values() for point in range(units, 601, units)}
        catalog = made.catalog(len(points) / 600)
        separate = {
            by: f"SELECT {by}, n FROM (SELECT {by}, COUNT(*) AS n FROM rooms GROUP BY {by}) AS g "
            f"SYNC EVERY INTERVAL '{units}' SECOND"
            for by, units in every.items()
        }
        finer = "SELECT building, degrees, COUNT(*) AS n FROM rooms SYNC ON ticks GROUP BY building, degrees"
        shared = {
            by: f"SELECT {by}, t FROM (SELECT {by}, SUM(n) AS t FROM ({finer}) AS f GROUP BY {by}) AS g "
            f"SYNC EVERY INTERVAL '{units}' SECOND"
            for by, units in every.items()
        }
        known = Estimates(declared_statistics(catalog))
        found = []
        for way in (separate, shared):
            plans = {by: plan(sql, catalog) for by, sql in way.items()}
            found.append((plans, sum(known(part).work.total for part in all_parts(plans.values()))))
        return found[0], found[1]


CostedPlans = tuple[dict[str, P.Operator], float]  # with what they are estimated to cost, in rows a second

UNIFORM = ((2000, 1),)
WORKLOADS = (
    Workload("figure 13, 20 buildings", UNIFORM, 20, 10, 12, 15),
    Workload("figure 13, 200 buildings", UNIFORM, 200, 10, 12, 15),
    Workload("figure 14", ((2500, 2), (1500, 4), (1000, 6)), 100, 20, 6, 12),
    Workload("figure 15", ((500, 10), (500, 13), (1000, 15)), 100, 20, 15, 12),
)


def all_parts(plans: Iterable[P.Operator]) -> set[P.Operator]:
    """Return the operators of some plans, each once."""
    found: set[P.Operator] = set()
    for each in plans:
        found |= {each} | all_parts(each.inputs)
    return found


def measure_groupings(workload: Workload, units: int, runs: int = 2) -> GroupingResult:
    """Run both groupings separately, and over a finer grouping that they share."""
    (separate, own), (shared, together) = workload.plans()
    bounds = range(SECOND, units * SECOND + 1, SECOND)
    found = alternate({"separate": separate, "shared": shared}, workload.draw(units), bounds, runs)
    instants = range(13 * SECOND // 2, units * SECOND, 11 * SECOND)
    require_equal(found["separate"], found["shared"], {by: by for by in separate}, instants)
    return GroupingResult(found["separate"], found["shared"], own, together)


@dataclass(frozen=True)
class GroupingResult:
    """Two groupings, each over the rooms, and both over a finer one; and their estimated costs."""

    separate: PlanRun
    shared: PlanRun
    separate_cost: float
    shared_cost: float

    @staticmethod
    def tuples(run: PlanRun) -> tuple[int, int]:
        """Return the rows that synchronizers and aggregates take: NS and NG of the paper."""
        return run.count(SYNCS), run.count(P.AggregateOperator)


def bench_groupings() -> None:
    """Figures 13 to 15: two groupings over one finer grouping, against each alone; where sharing loses."""
    rows: list[tuple[object, ...]] = []
    for workload in WORKLOADS:
        found = measure_groupings(workload, 120)
        own, shared = found.tuples(found.separate), found.tuples(found.shared)
        rows.append((workload.title, *own, *shared, sum(shared) / sum(own),
                     found.shared.seconds / found.separate.seconds,
                     found.shared_cost / found.separate_cost))  # fmt: skip
    head = ("", "NS", "NG", "NS shared", "NG shared", "rows, shared/own", "time, shared/own", "estimated")
    show("figures 13 to 15", head, rows)


# A join that views share, with its cross-over

JOIN = "FROM a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k"
CONDITIONS = {"40 of 100 rows": "a.v >= 60 + {}", "2 of 100 rows": "a.u = {}", "one key": "a.k = {}"}


@dataclass(frozen=True)
class JoinResult:
    """Some views with a join each, and with one for all; and whether the optimiser shares it."""

    separate: PlanRun
    shared: PlanRun
    is_shared: bool


def measure_shared_join(condition: str, views: int, runs: int = 2, rate: int = 2_000) -> JoinResult:
    """Run views of a join that differ in a constant, with joins of their own and with one."""
    known = f"WITH (rate => {rate}, distinct(k) => {rate // 2}, distinct(v) => 100, distinct(u) => 50)"
    streams = "".join(
        f"CREATE STREAM {n} (k INT, v INT, u INT, ts TIMESTAMP, TIMELINE ts) {known};" for n in "ab"
    )
    sqls = {f"v{i}": f"SELECT a.k, a.v, b.v AS w {JOIN} WHERE {condition.format(i)}" for i in range(views)}
    catalog = declared(streams + "".join(f"CREATE VIEW {n} AS {sql};" for n, sql in sqls.items()))
    separate = {name: plan(sql, catalog) for name, sql in sqls.items()}
    store = compile_store(catalog)
    options = {name: view.sharing.options[-1] for name, view in store.views.items() if view.sharing}
    shared = {name: lower(option.lifted.plan) for name, option in options.items()}
    rng = np.random.default_rng(3)
    seconds = 15
    rows = {}
    for name in "ab":
        count = rate * seconds
        columns = {"c0": rng.integers(0, rate // 2, count), "c1": rng.integers(0, 100, count),
                   "c2": rng.integers(0, 50, count)}  # fmt: skip
        instants = np.arange(1, count + 1) * SECOND // rate
        rows[name] = as_stream({n: v.astype(np.int32) for n, v in columns.items()}, instants)
    found = alternate({"separate": separate, "shared": shared}, rows, _steps(seconds, 0.5), runs)
    last = seconds * SECOND
    require_equal(found["separate"], found["shared"], {n: n for n in sqls}, range(last // 3, last, last // 4))
    is_shared = all(view.shares for view in store.views.values())
    return JoinResult(found["separate"], found["shared"], is_shared)


def bench_shared_join() -> None:
    """Views of a join that differ in a constant: one join against one for each; what the optimiser takes."""
    rows: list[tuple[object, ...]] = []
    for title, condition in CONDITIONS.items():
        for views in (2, 4, 6, 10):
            found = measure_shared_join(condition, views)
            own, one = found.separate, found.shared
            times = own.seconds, one.seconds, one.seconds / own.seconds
            rows.append((title, views, *times, one.state_rows() / own.state_rows(), str(found.is_shared)))
    head = ("filters keep", "views", "own joins s", "one join s", "time", "state", "optimiser shares")
    show("a shared join", head, rows)
