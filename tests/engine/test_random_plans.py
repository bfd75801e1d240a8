"""Random views through SQL and Spark, end to end: at every instant what the reference says they mean.

Many views share one store. Rows of streams arrive in a random order within the lateness and in random
batches, tables change meanwhile. After each step every view must be exact up to the bound.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type

import everview
from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.time import INFINITY, LEAST
from everview.algebra.values import normal
from everview.database import Database
from everview.errors import TemporalError
from everview.execute.catalyst import spark_type
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.storage.runs import TraceId
from everview.temporal.runnable import require_runnable
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, SCRIPT, VIEWS, at, known
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LATENESS = 4
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_CARRIERS = (N.Stream, N.Table, N.Values, N.Alias, N.Project)


def operators(plan: N.Node) -> int:
    """How many operators a plan has that do more than name and carry columns; not those of other views."""
    if isinstance(plan, N.View):
        return 0
    return sum(map(operators, plan.inputs)) + (not isinstance(plan, _CARRIERS))


def random_views(count: int, seed: int) -> dict[str, N.Node]:
    """Different random queries of two to six operators, and some of those that were thought out."""
    found: dict[str, N.Node] = {}

    @settings(
        max_examples=4 * count, phases=[Phase.generate], database=None, deadline=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(queries())
    def collect(sql: str) -> None:
        plan = plan_of(sql, known())
        if 2 <= operators(plan) <= 6 and _runs(plan):
            found.setdefault(sql, plan)

    collect()
    rng = random.Random(seed)
    cases = {c.sql: plan_of(c.sql, known()) for c in CASES if re.search(r"\b(t|nrr|rooms|SYNC|m)\b", c.sql)}
    thought_out = rng.sample([sql for sql, plan in cases.items() if _runs(plan)], count // 4)
    chosen = rng.sample(list(found), count - len(thought_out))
    return {sql: {**found, **cases}[sql] for sql in (*chosen, *thought_out)}


def _runs(plan: N.Node) -> bool:
    """Windows of rows over rows that end out of order are refused."""
    try:
        require_runnable(plan)
    except TemporalError:
        return False
    return True


@dataclass
class Table:
    """A table that statements change: what they do, and what it held when."""

    name: str
    held: Counter[tuple[object, ...]] = field(default_factory=Counter)
    rows: list[ChangeRow] = field(default_factory=list)

    def insert(self, t: int, id_: int | None, word: str) -> str:
        self._become(t, self.held + Counter([(id_, word)]))
        return f"INSERT INTO {self.name} VALUES ({'NULL' if id_ is None else id_}, '{word}'){_from(t)}"

    def update(self, t: int, id_: int) -> str:
        self._changed(t, lambda e: (e[0], f"{e[1]}y") if e[0] == id_ else e)
        return f"UPDATE {self.name} SET name = name || 'y' WHERE id = {id_}{_from(t)}"

    def delete(self, t: int, id_: int) -> str:
        self._changed(t, lambda e: None if e[0] == id_ else e)
        return f"DELETE FROM {self.name} WHERE id = {id_}{_from(t)}"

    def _changed(self, t: int, change: Callable[[tuple[object, ...]], tuple[object, ...] | None]) -> None:
        self._become(t, Counter(n for e in self.held.elements() if (n := change(e)) is not None))

    def _become(self, t: int, now: Counter[tuple[object, ...]]) -> None:
        for e in {*now, *self.held}:
            if now[e] != self.held[e]:
                self.rows.append(ChangeRow(e, t, INFINITY, now[e] - self.held[e]))
        self.held = now


def _from(t: int) -> str:
    return "" if t == LEAST else f" AT {at(t)}"


def arrivals(rng: random.Random) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the streams in the order in which they come; none is late, whatever the batches are."""

    def few() -> int | None:
        return rng.choice([None, 0, 1, 2])

    def some() -> tuple[object, ...]:
        word, number = rng.choice([None, "", "a", "7"]), rng.choice([None, 0.5, 1.5])
        return word, number, None, rng.choice([None, True, False]), few()

    given = {
        "s": [(few(), few(), rng.randrange(13)) for _ in range(12)],
        "r": [(few(), few(), rng.randrange(13)) for _ in range(10)],
        "m": [(*some(), rng.randrange(13)) for _ in range(6)],
    }
    for rows in given.values():
        delays = {id(row): row[-1] + rng.randrange(LATENESS) for row in rows}
        rows.sort(key=lambda row: delays[id(row)])
    return given


def emitted(db: Database, view: str) -> list[ChangeRow]:
    """The change rows of a view as they lie in the store."""
    store = db._pipeline.store
    frames = [store.files.read_frame(r.path) for r in store.manifest().runs(TraceId("view", view))]
    return [ChangeRow(tuple(map(_plain, r[:-3])), *r[-3:]) for frame in frames for r in frame.rows()]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
    return value // MICROSECOND if isinstance(value, timedelta) else normal(value)


def pieces(total: int, count: int, rng: random.Random) -> list[int]:
    """Where a list of so many is cut into parts, some of them perhaps empty."""
    return [0, *sorted(rng.randrange(total + 1) for _ in range(count - 1)), total]


def change_tables(db: Database, tables: Mapping[str, Table], rng: random.Random, clock: list[int]) -> None:
    """One statement for each table, some time after the bound and after the statement before."""
    for table in tables.values():
        t = max(clock[0] + 1, db._pipeline.store.manifest().bound + 1) + rng.randrange(2)
        clock[0] = t
        id_ = rng.randrange(3)
        change = rng.choice([table.update, table.delete, lambda t, i: table.insert(t, i, "x")])  # noqa: B023
        db.execute(change(t, id_))


def feed(db: Database, name: str, rows: list[tuple[object, ...]], folder: Path | None, step: int) -> None:
    """Rows come to a stream as an INSERT, or as a file that its source will find."""
    columns = db.catalog.get(name).columns  # type: ignore[union-attr]
    batch = [_dict(columns.names, row) for row in rows]
    if folder is None:
        assert db.insert(name, batch).late == 0
    elif batch:
        types = {f.name: to_arrow_type(spark_type(f.type), timezone="UTC") for f in columns}
        path = folder / name / f"{step}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, pa.schema(types.items())), path)
        os.utime(path, (1_700_000_000 + step,) * 2)


@pytest.mark.parametrize(
    ("seed", "count", "partitions", "files"),
    [(1, 26, 3, False), (3, 20, 4, True), (2, 14, 1, False), (4, 14, 2, True)][: len(seeds(2, 4))],
)
def test_random_views(
    spark: SparkSession, tmp_path: Path, seed: int, count: int, partitions: int, files: bool
) -> None:
    rng = random.Random(seed)
    views = random_views(count, seed)
    named = {f"v{i}": sql for i, sql in enumerate(views)}
    script = SCRIPT.replace("TIMELINE ts", f"TIMELINE ts LATENESS INTERVAL '{LATENESS}' MICROSECOND")
    script += "".join(f"CREATE VIEW {v} AS {sql};\n" for v, sql in {**VIEWS, **named}.items())
    tables = {name: Table(name) for name in ("t", "nrr")}
    streams = arrivals(rng)
    folder = tmp_path / "in" if files else None
    for name in streams if folder else ():
        (tmp_path / "in" / name).mkdir(parents=True)
        begin = rf"(CREATE STREAM {name} \([^;]*\))\s*;"
        script, found = re.subn(begin, rf"\1 FROM parquet('{tmp_path}/in/{name}');", script)
        assert found == 1
    cuts = {name: pieces(len(rows), 3, rng) for name, rows in streams.items()}
    with everview.connect(str(tmp_path / "store"), spark, partitions=partitions) as db:
        db.execute(script)
        for table in tables.values():
            for _ in range(3):
                db.execute(table.insert(LEAST, rng.choice([None, 0, 1, 2]), rng.choice("xy")))
        clock = [0]
        bounds = []
        for step in range(4):
            for name, rows in streams.items() if step < 3 else ():
                feed(db, name, rows[cuts[name][step] : cuts[name][step + 1]], folder, step)
            if 0 < step < 3:
                change_tables(db, tables, rng, clock)
            done = db.run(finish=step == 3)
            assert not any(came.late or came.rejected for came in done.arrived.values())
            bounds.append(done.bound)
            inputs = {name: [_arrived(row) for row in rows] for name, rows in streams.items()}
            inputs |= {name: table.rows for name, table in tables.items()}
            require_right(db, named, inputs, bounds[-1])
        assert len(set(bounds)) > 2, "time has moved several times"
        require_shown(db, named, inputs)


def _dict(columns: tuple[str, ...], row: tuple[object, ...]) -> dict[str, object]:
    *values, second = row
    return dict(zip(columns, (*values, EPOCH + int(str(second)) * MICROSECOND), strict=True))


def _arrived(row: tuple[object, ...]) -> ChangeRow:
    return ChangeRow(row, int(str(row[-1])), INFINITY)


def require_right(
    db: Database, named: Mapping[str, str], inputs: Mapping[str, list[ChangeRow]], bound: int
) -> None:
    """Each view is, up to the bound, what the reference says of all inputs."""
    domain = [t for t in DOMAIN if t <= bound]
    wrong = {}
    for view, sql in named.items():
        found = to_logical(emitted(db, view), domain)
        means = {
            key: n for key, n in meaning(plan_of(sql, known()), inputs, DOMAIN).items() if key[1] <= bound
        }
        if found != means:
            wrong[sql] = {key: (found.get(key, 0), means.get(key, 0)) for key in {*found, *means}
                          if found.get(key, 0) != means.get(key, 0)}  # fmt: skip
    assert not wrong, (bound, wrong, inputs)


def require_shown(db: Database, named: Mapping[str, str], inputs: Mapping[str, list[ChangeRow]]) -> None:
    """The same by the two ways in which a person asks: the change stream, and AS OF."""
    for view, sql in list(named.items())[::8]:
        means = meaning(plan_of(sql, known()), inputs, DOMAIN)
        shown = [
            ChangeRow(
                tuple(map(_plain, row[3:])),
                LEAST if row[0] is None else _chronon(row[0]),
                INFINITY if row[1] is None else _chronon(row[1]),
                row[2],
            )
            for row in db.changes(view, "intervals").collect()
        ]
        assert to_logical(shown, DOMAIN) == means, sql
        answer = db.query(f"SELECT * FROM {view}", as_of=at(9).removeprefix("TIMESTAMP ").strip("'"))
        held = Counter(tuple(map(_plain, row)) for row in answer.collect())
        assert held == {e: n for (e, t), n in means.items() if t == 9}, sql


def _chronon(value: datetime) -> int:
    return (value.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
