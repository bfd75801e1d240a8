"""A store outlives its plans: views whose plans come out different keep their answers (DESIGN section 9).

Rewrite rules and strategies are switched between runs of one store. After each step every view is what the
reference says, up to the bound. Where rows have known ends a new plan takes over; else the old one stays.
"""

from __future__ import annotations

import random
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import everview
from everview import compile as compiling
from everview import operators as P
from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.time import LEAST, SECOND
from everview.algebra.types import INT, TIMESTAMP
from everview.algebra.windows import Range
from everview.database import Database
from everview.errors import StoreError
from everview.maintenance import check_at, repair
from everview.pipeline import migration
from everview.plan.look_back import look_back
from everview.plan.lower import Lowering
from everview.plan.views import KeptPlan
from everview.reference.meaning import meaning
from everview.reference.work_out import work_out
from everview.rewrite import FIRST_RULES, RULES, rewrite
from everview.sql import plan_of
from everview.storage.addresses import file_of
from tests.engine.test_random_plans import (
    LATENESS,
    Table,
    _arrived,
    change_tables,
    emitted,
    feed,
    random_views,
)
from tests.seeds import seeds
from tests.sql.oracle import SCRIPT, VIEWS, known

pytestmark = pytest.mark.spark

STEPS = 6
LAST = 10 * STEPS
DOMAIN = range(LAST + 20)


@contextmanager
def release(rules: tuple[Any, ...], strategy: str) -> Iterator[None]:
    """A release of Everview that has these rules and this strategy."""

    def lowering(_: str, views: Any, first: bool = False, *more: Any) -> Lowering:
        return Lowering(strategy, views, first, *more)

    with (
        patch.object(compiling, "rewrite", lambda plan, _=(): rewrite(plan, rules)),
        patch.object(compiling, "Lowering", lowering),
    ):
        yield


def some_rows(rng: random.Random) -> dict[str, list[list[tuple[object, ...]]]]:
    """The rows of each stream for each step: their times are spread over all steps."""

    def few() -> int | None:
        return rng.choice([None, 0, 1, 2])

    def of(kind: str, step: int) -> tuple[object, ...]:
        ts = rng.randrange(10 * step, 10 * step + 10)
        if kind == "m":
            word, number = rng.choice([None, "", "a", "7"]), rng.choice([None, 0.5, 1.5])
            return word, number, None, rng.choice([None, True, False]), few(), ts
        return few(), few(), ts

    return {
        kind: [[of(kind, step) for _ in range(rng.randrange(1, 6))] for step in range(STEPS)]
        for kind in ("s", "r", "m")
    }


def require_right(
    db: Database, named: Mapping[str, str], inputs: Mapping[str, list[ChangeRow]], bound: int
) -> None:
    domain = [t for t in DOMAIN if t <= bound]
    wrong = {}
    for view, sql in named.items():
        found = to_logical(emitted(db, view), domain)
        means = {k: n for k, n in meaning(plan_of(sql, known()), inputs, DOMAIN).items() if k[1] <= bound}
        if found != means:
            wrong[view, sql] = sorted(
                ((k, found.get(k, 0), means.get(k, 0)) for k in {*found, *means}
                if found.get(k, 0) != means.get(k, 0)), key=str,
            )[:5]  # fmt: skip
    assert not wrong, (bound, wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "files"), [(2, True), (3, False), (1, True)][: len(seeds(2, 3))])
def test_random_plans_whose_rules_are_switched(
    spark: SparkSession, tmp_path: Path, seed: int, files: bool
) -> None:
    rng = random.Random(seed)
    named = {f"v{i}": sql for i, sql in enumerate(random_views(24, seed))}
    named["moving"] = (
        "SELECT s.k, r.v FROM s [RANGE 5 MICROSECONDS] JOIN r [RANGE 4 MICROSECONDS] ON s.k = r.k"
        " WHERE s.v > 0"
    )
    script = SCRIPT.replace("TIMELINE ts", f"TIMELINE ts LATENESS INTERVAL '{LATENESS}' MICROSECOND")
    script += "".join(f"CREATE VIEW {v} AS {sql};\n" for v, sql in {**VIEWS, **named}.items())
    streams = some_rows(rng)
    for name in streams if files else ():
        (tmp_path / "in" / name).mkdir(parents=True)
        begin = rf"(CREATE STREAM {name} \([^;]*\))\s*;"
        script = re.sub(begin, rf"\1 FROM parquet('{tmp_path}/in/{name}');", script)
    folder = tmp_path / "in" if files else None
    tables = {name: Table(name) for name in ("t", "nrr")}
    clock, seen = [0], {"outdated": 0, "took over": 0, "stayed": 0}
    plans: Mapping[str, KeptPlan] = {}
    first = FIRST_RULES if seed == 2 else ()
    releases = [(first, "UPA"), (RULES, "UPA"), (RULES, "DIRECT"), (RULES[::2], "NT")]
    for step in range(STEPS):
        old = releases[0] if step < 1 else releases[1 + (step // 3 + seed) % 3]
        with release(*old), everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
            if step == 0:
                db.execute(script)
                for table in tables.values():
                    for _ in range(3):
                        db.execute(table.insert(LEAST, rng.choice([None, 0, 1, 2]), rng.choice("xy")))
            else:
                seen["outdated"] += len(db._views().outdated)
                change_tables(db, tables, rng, clock)
            for name, parts in streams.items():
                feed(db, name, parts[step], folder, step)
            db.run()
            after = db.manifest().plans
            seen["took over"] += sum(v in plans and plans[v].plan != kept.plan for v, kept in after.items())
            plans = after
            seen["stayed"] += sum(plan.stays for plan in db.manifest().plans.values())
            come = {name: [r for part in parts[: step + 1] for r in part] for name, parts in streams.items()}
            inputs = {name: [_arrived(row) for row in rows] for name, rows in come.items()}
            inputs |= {name: table.rows for name, table in tables.items()}
            require_right(db, named, inputs, db.manifest().bound)
    assert seen["outdated"] > 10
    assert seen["took over"] > 3


QUERIES = {
    "pairs": "SELECT a.k, b.v FROM s [RANGE 10 SECONDS] a JOIN s [RANGE 9 SECONDS] b ON a.k = b.k"
    " WHERE a.v > 0",
    "total": "SELECT COUNT(*) AS n, SUM(v) AS v FROM pairs",
    "most": "SELECT MAX(v) AS v FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM s) WHERE k = 1",
}


def write(folder: Path, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [
        f"{i % 2},{i % 3},2026-01-01T00:{s // 60:02}:{s % 60:02}Z" for i, s in enumerate(seconds, seconds[0])
    ]
    (folder / f"{seconds[0]}.csv").write_text("\n".join(lines))


def create(path: Path, spark: SparkSession, folder: Path) -> Database:
    db = everview.connect(str(path), spark, partitions=2)
    db.execute(f"CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}')")
    for name, sql in QUERIES.items():
        db.execute(f"CREATE VIEW {name} AS {sql}")
    return db


def answers(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {v: sorted(map(tuple, db.query(f"SELECT * FROM {v}").collect()), key=str) for v in QUERIES}


def notes(db: Database) -> dict[str, str]:
    return {view.name: view.note for view in db.status().views}


def test_a_new_plan_takes_over_when_the_rows_it_has_not_seen_have_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
        old = dict(db.manifest().plans)
        assert notes(db) == {"pairs": "", "total": "", "most": ""}
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, *range(9, 12))
        db.run()
        assert notes(db) == {
            "pairs": "a new plan takes over at 2026-01-01T00:00:18.000000",
            "total": "a new plan takes over at 2026-01-01T00:00:18.000000",
            "most": "keeps an older plan",
        }
        assert "keeps an older plan" in str(db.status())
        both = len({trace.owner for trace in db.manifest().of("state")})
        before = answers(db)
        write(folder, *range(12, 30))
        step = db.run().step
        assert notes(db) == {"pairs": "", "total": "", "most": "keeps an older plan"}
        assert len({trace.owner for trace in db.manifest().of("state")}) < both, "the old state is gone"
        assert db.manifest().plans["pairs"] != old["pairs"]
        assert db.manifest().plans["most"].plan == old["most"].plan
        earlier = db.query("SELECT * FROM total", as_of="2026-01-01 00:00:10.999999")
        assert [tuple(r) for r in earlier.collect()] == before["total"]
        after = answers(db)
    with create(tmp_path / "always", spark, folder) as other:
        other.run()
        assert after == answers(other)
        write(folder, *range(30, 35))
        other.run()
        with everview.connect(str(tmp_path / "store"), spark) as db:
            db.run()
            assert answers(db) == answers(other)
            assert notes(db)["most"] == "keeps an older plan"
            db.execute(f"CREATE OR REPLACE VIEW most AS {QUERIES['most']}")
            assert notes(db)["most"] == "", "it was computed anew"
            assert answers(db) == answers(other)
            assert db.run().step > step


def test_a_new_plan_takes_over_while_steps_go_on(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.start(interval="100 milliseconds")
        for begin in (9, 20, 31):
            write(folder, *range(begin, begin + 11))
            wait_until(lambda b=begin: db.manifest().counts["s"][0] >= b + 11)  # type: ignore[misc]
        wait_until(lambda: not db.manifest().next)
        write(folder, *range(42, 50))
        wait_until(lambda: db.manifest().counts["s"][0] == 50)
        db.stop()
        found = answers(db)
    with create(tmp_path / "always", spark, folder) as other:
        other.run()
        assert found == answers(other)


def wait_until(true: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_view_that_is_replaced_or_dropped_while_its_plan_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, *range(9, 12))
        db.run()
        assert set(db.manifest().next) == {"pairs", "total"}
        db.execute("CREATE OR REPLACE VIEW total AS SELECT COUNT(*) AS n, MAX(v) AS v FROM pairs")
        assert set(db.manifest().next) == {"pairs"}
        write(folder, *range(12, 14))
        db.run()
        db.execute("DROP VIEW total")
        db.execute("DROP VIEW pairs")
        assert not db.manifest().next
        assert set(db.manifest().plans) == {"most"}
        write(folder, *range(14, 30))
        db.run()
        assert not [t for t in db.manifest().traces if "next" in t.owner]


def test_a_store_written_before_plans_were_kept(spark: SparkSession, tmp_path: Path) -> None:
    stored = Path(__file__).parent.parent / "stores" / "format-3.tar.gz"
    for name in ("a", "b"):
        with tarfile.open(stored) as archive:
            archive.extractall(tmp_path / name, filter="data")
    rows = """INSERT INTO bids VALUES
        (1, 5, TIMESTAMP '2026-01-01 00:00:12'), (2, 6, TIMESTAMP '2026-01-01 00:00:13')"""
    with everview.connect(str(tmp_path / "a"), spark) as db:
        assert not db.manifest().plans
        db.execute(rows)
        db.run()
        assert set(db.manifest().plans) == {"recent", "totals", "named", "highest", "unsold", "once"}
        found = {
            v: sorted(tuple(r) for r in db.query(f"SELECT * FROM {v}").collect()) for v in db.manifest().plans
        }
        assert found["totals"] == [(1, 2, 25), (2, 3, 27)]
        assert found["named"] == [("chair", 3, 27), ("lamp", 2, 25)]
        assert (found["highest"], found["unsold"], found["once"]) == ([(20,)], [], [(1,), (2,)])
    with release(RULES, "NT"), everview.connect(str(tmp_path / "b"), spark) as db:
        db.execute(rows)
        with pytest.raises(StoreError) as refused:
            db.run()
        assert str(refused.value) == (
            "the store was written by an Everview that kept no plans, and its views have other plans now\n"
            "  next: run its SQL with --path on a new folder, or open it with the Everview that made it"
        )


EARLIER = """
    CREATE STREAM a (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM b (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM c (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO names VALUES (1, 'lamp'), (2, 'chair');
"""


def earlier_rows(step: int) -> Iterator[str]:
    """Yield the INSERTs of a step; the first three were those of the earlier release."""
    for i, stream in enumerate("abc"):
        rows = [(1 + (step + i + j) % 2, (step * (i + 2) + j) % 4, 4 * step + j) for j in range(3)]
        values = (f"({k}, {v}, TIMESTAMP '2026-01-01 00:00:{s:02}')" for k, v, s in rows)
        yield f"INSERT INTO {stream} VALUES {', '.join(values)};"


def test_a_store_of_a_release_with_fewer_rules(spark: SparkSession, tmp_path: Path) -> None:
    """Its plans are kept with it; new ones take over, from the rows that are kept, and all answers hold."""
    path = tmp_path / "store"
    with tarfile.open(Path(__file__).parent.parent / "stores" / "fewer-rules.tar.gz") as archive:
        archive.extractall(path, filter="data")
    with everview.connect(str(path), spark) as db:
        made = [str(db.execute(f"SHOW CREATE VIEW {e.name}")) for e in db.catalog if e.kind == "view"]
        before, outdated = db.manifest().plans, set(db._views().outdated)
        assert outdated >= {"three", "sums", "padded", "big", "ones", "lasting"}
        for step in range(3, 9):
            db.execute("".join(earlier_rows(step)))
            db.run()
        given = "".join(row for step in range(9) for row in earlier_rows(step))
        bound = db.manifest().bound
        domain = range(bound - 34 * SECOND, bound + 1, SECOND)  # from the first row on
        for answer in work_out(EARLIER + given + "".join(made)):
            found = to_logical(emitted(db, answer.name), domain)
            assert found == to_logical(answer.rows, domain), answer.name
        after = db.manifest().plans
        assert {v for v in after if after[v].plan != before[v].plan} == outdated
        assert not db.manifest().next
    assert check_at(str(path))[1]


def test_views_over_a_view_whose_plan_was_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """A view that is created later, one that is recomputed by a repair, and plans that others refer to."""
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
    with everview.connect(str(tmp_path / "store"), spark) as db:
        for begin in (9, 20):
            write(folder, *range(begin, begin + 11))
            db.run()
        assert not db.manifest().next
        db.execute("CREATE VIEW came AS SELECT * FROM ISTREAM(SELECT k, v FROM pairs)")
        later = db.query("SELECT k, COUNT(*) AS n FROM came GROUP BY k ORDER BY k").collect()
        db.run()
        assert not db._views().outdated.keys() & {"pairs", "total", "came"}
    with create(tmp_path / "always", spark, folder) as other:
        other.execute("CREATE VIEW came AS SELECT * FROM ISTREAM(SELECT k, v FROM pairs)")
        other.run()
        assert later == other.query("SELECT k, COUNT(*) AS n FROM came GROUP BY k ORDER BY k").collect()
        with everview.connect(str(tmp_path / "store"), spark) as db:
            views = db._views()
            own = views.operator_names() - views.operator_names(without={"pairs", "total", "came"})
            runs = [r for t, rs in db.manifest().of("state").items() if t.owner in own for r in rs]
            for run in runs:
                Path(db._pipeline.store.files.full_path(file_of(run.path))).write_bytes(b"")
        assert repair(str(tmp_path / "store"), spark=spark)[1]
        write(folder, *range(31, 35))
        other.run()
        with everview.connect(str(tmp_path / "store"), spark) as db:
            db.run()
            assert answers(db) == answers(other)


def test_dropping_a_view_leaves_the_plans_of_others_whole(spark: SparkSession, tmp_path: Path) -> None:
    """The plan of one view may be a part of the plan of another that does not read it."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW a AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
            CREATE VIEW b AS SELECT MAX(n) AS n FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS g;
            INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01');
        """)
        db.run()
        db.execute("DROP VIEW a")
        db._pipeline.store.clean(keep_manifests=1)
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute("INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:02')")
        db.run()
        assert [tuple(r) for r in db.query("SELECT * FROM b").collect()] == [(2,)]
    assert check_at(str(tmp_path / "store"))[1]


def test_a_new_plan_that_fails_is_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, *range(9))
    with release((), "UPA"), create(tmp_path / "store", spark, folder) as db:
        db.run()
    with everview.connect(str(tmp_path / "store"), spark) as db:
        with (
            patch.object(migration.Backfill, "advance", side_effect=ValueError("odd plan")),
            pytest.warns(UserWarning, match="the new plans of .* fail, and the old ones stay: .*odd plan"),
        ):
            db.run()
        write(folder, *range(9, 30))
        db.run()
        assert set(notes(db).values()) == {"keeps an older plan"}
        with create(tmp_path / "always", spark, folder) as other:
            other.run()
            assert answers(db) == answers(other)


def test_a_window_on_another_time_line_looks_back_for_ever() -> None:
    scan = P.ScanOperator("s", (INT, TIMESTAMP, TIMESTAMP), since=5)
    columns = scan.columns
    swapped = P.ProjectOperator(scan, (columns[2], columns[1]))
    assert look_back(P.TimeWindowOperator(swapped, 1, Range(9)), {}, {"s": 1}) == 10
    assert look_back(P.TimeWindowOperator(swapped, 0, Range(9)), {}, {"s": 1}) is None
    whole = P.TimeWindowOperator(P.ScanOperator("s", (INT, TIMESTAMP)), 1, Range(9))
    assert look_back(P.RowWindowOperator(whole, 3, (), (0,)), {}, {"s": 1}) == 0
    kept = P.ScanOperator("v", (INT,), source="view")
    assert look_back(P.DistinctOperator(kept, signed=False), {kept: 1}, {}) == 1
    assert look_back(P.InsertionsOperator(kept, deletions=False), {kept: 1}, {}) is None
