"""A fault stays where it is: a view that makes a step fail is set aside, and the others go on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.errors import EverviewError, StoreError
from everview.execute import catalyst
from everview.execute.lanes import lanes_of
from everview.operators.aggregate import AggregateOperator
from everview.storage.addresses import file_of
from everview.storage.runs import TraceId
from tests.engine.damages import flip_run

pytestmark = pytest.mark.spark

VIEWS = {
    "good": "SELECT k, COUNT(*) AS n FROM s [RANGE 20 SECONDS] GROUP BY k",
    "odd": "SELECT k, SUM(v) AS total FROM s [RANGE 20 SECONDS] GROUP BY k",
    "over": "SELECT MAX(total) AS high FROM odd",
    "beside": "SELECT DISTINCT v FROM s [RANGE 20 SECONDS]",
}


def write(folder: Path, begin: int, end: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [f"{s % 2},{s % 3},2026-01-01T00:{s // 60:02}:{s % 60:02}Z" for s in range(begin, end)]
    (folder / f"{begin:03}.csv").write_text("\n".join(lines))


def create(path: Path, spark: SparkSession, folder: Path, views: dict[str, str] = VIEWS) -> Database:
    db = everview.connect(str(path), spark, partitions=2)
    db.execute(f"CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}')")
    for name, sql in views.items():
        db.execute(f"CREATE VIEW {name} AS {sql}")
    return db


def answers(db: Database, *names: str) -> dict[str, list[tuple[object, ...]]]:
    return {v: sorted(map(tuple, db.query(f"SELECT * FROM {v}").collect()), key=str) for v in names or VIEWS}


def expected(path: Path, spark: SparkSession, folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with create(path, spark, folder) as db:
        db.run()
        return answers(db)


def damage(db: Database, view: str) -> bytes:
    """Flip a bit in a state file that only one view needs; return what was there."""
    store, views = db._pipeline.store, db._views()
    own = views.operator_names() - views.operator_names(without={view, "over"})
    runs = [
        r
        for t, runs in store.manifest().of("state").items()
        if t.owner in own and t.part == "sums"
        for r in runs
    ]
    before = Path(store.files.full_path(file_of(runs[0].path))).read_bytes()
    flip_run(Path(store.files.root), runs[0].path)
    return before


def test_a_view_whose_state_is_damaged(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, 0, 10)
    with create(tmp_path / "store", spark, folder) as db:
        db.run()
        seen = answers(db)
        damage(db, "odd")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, 10, 15)
        with pytest.warns(UserWarning, match="the view 'odd' was set aside, and the others go on: .*damaged"):
            step = db.run().step
        right = expected(tmp_path / "always", spark, folder)
        assert answers(db, "good", "beside") == {v: right[v] for v in ("good", "beside")}
        for name, because in (("odd", ""), ("over", " with 'odd'")):
            for ask in (lambda n=name: db.query(f"SELECT * FROM {n}"), lambda n=name: db.changes(n)):  # type: ignore[misc]
                with pytest.raises(StoreError) as refused:
                    ask()
                assert str(refused.value).startswith(
                    f"the view '{name}' was set aside{because} in step {step}: "
                )
                assert refused.value.next_step == "mend that, and ALTER VIEW odd RESUME"
            earlier = db.query(f"SELECT * FROM {name}", as_of="2026-01-01 00:00:08.999999")
            assert sorted(map(tuple, earlier.collect()), key=str) == seen[name], "it knows what it knew"
        assert f"set aside in step {step}: " in str(db.status())
        shown = str(db.execute("SHOW VIEWS")).splitlines()
        assert shown[0] == "good"
        assert shown[1].startswith("odd (set aside: ")
        assert "set aside with 'odd' in step" in str(db.execute("DESCRIBE over"))
        with pytest.raises(StoreError, match="'odd' was set aside"):
            db.execute("CREATE VIEW late AS SELECT k FROM odd")
        with pytest.raises(StoreError, match="'good' goes on: it was not set aside"):
            db.execute("ALTER VIEW good RESUME")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, 15, 20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            db.run()  # it stays set aside, and that is not said again
        assert not [t for t in db.manifest().of("state") if t.owner.startswith("max")]
        db.execute("ALTER VIEW over RESUME")
        right = expected(tmp_path / "always2", spark, folder)
        assert answers(db) == right
        assert not db.manifest().aside
        write(folder, 20, 30)
        db.run()
        assert answers(db) == expected(tmp_path / "always3", spark, folder)
        tags = db.changes("over").collect()
        assert tags[-1].high == answers(db)["over"][0][0]


def test_a_view_that_needs_too_much_memory(spark: SparkSession, tmp_path: Path) -> None:
    """A step of few rows runs in the driver: the increment of one view meets the limit there."""
    folder = tmp_path / "in"
    write(folder, 0, 10)
    views = {name: VIEWS[name] for name in ("good", "odd")}
    with create(tmp_path / "store", spark, folder, views) as db:
        db.run()
        write(folder, 10, 15)
        known = AggregateOperator.increment

        def limited(self: AggregateOperator, *args: Any) -> Any:
            if any(a.function == "sum" for a in self.aggregates):
                raise MemoryError
            return known(self, *args)

        said = "the view 'odd' was set aside, and the others go on: .* has run out of memory"
        with patch.object(AggregateOperator, "increment", limited), pytest.warns(UserWarning, match=said):
            db.run()
        right = expected(tmp_path / "always", spark, folder)
        assert answers(db, "good") == {"good": right["good"]}
        db.execute("ALTER VIEW odd RESUME")
        assert answers(db, *views) == {v: right[v] for v in views}


@contextmanager
def failing_expression() -> Iterator[None]:
    """Expressions with 41 fail in Spark when a row comes, as one would that the guards do not know."""
    known = catalyst.catalyst_sql

    def sql(expression: Any) -> str:
        text = known(expression)
        return f"CAST(raise_error('odd row') AS INT) + {text}" if "41" in text and "+" in text else text

    lanes_of.cache_clear()
    with patch.object(catalyst, "catalyst_sql", sql):
        yield
    lanes_of.cache_clear()


def test_an_expression_that_fails_as_rows_are_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, 0, 10)
    views = {**VIEWS, "odd": "SELECT k, SUM(v + 41) AS total FROM s [RANGE 20 SECONDS] GROUP BY k"}
    with create(tmp_path / "store", spark, folder, views) as db:
        db.run()
        write(folder, 10, 15)
        db._compiled = None
        with failing_expression(), pytest.warns(UserWarning, match="'odd' was set aside"):
            db.run()
        assert set(db.manifest().aside) == {"odd", "over"}
        right = expected(tmp_path / "always", spark, folder)
        assert answers(db, "good", "beside") == {v: right[v] for v in ("good", "beside")}
        db.execute("ALTER VIEW odd RESUME")
        assert not db.manifest().aside
        assert len(answers(db)["odd"]) == 2


def test_while_steps_go_on_in_the_background(spark: SparkSession, tmp_path: Path) -> None:
    from tests.engine.test_changed_plans import wait_until

    folder = tmp_path / "in"
    write(folder, 0, 10)
    with create(tmp_path / "store", spark, folder) as db:
        db.run()
        damage(db, "odd")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, 10, 15)
        db.start(interval="100 milliseconds")
        wait_until(lambda: db.manifest().aside)
        write(folder, 15, 20)
        wait_until(lambda: db.manifest().counts["s"][0] == 20)
        db.execute("ALTER VIEW odd RESUME")
        write(folder, 20, 25)
        wait_until(lambda: db.manifest().counts["s"][0] == 25)
        db.stop()
        assert answers(db) == expected(tmp_path / "always", spark, folder)


def test_when_every_view_fails_the_step_fails(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, 0, 10)
    only = {"odd": VIEWS["odd"], "over": VIEWS["over"]}
    with create(tmp_path / "store", spark, folder, only) as db:
        db.run()
        before = db.manifest()
        damage(db, "odd")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, 10, 15)
        with pytest.raises(EverviewError, match="damaged"):
            db.run()
        assert db.manifest() == before


@pytest.mark.parametrize("said", ["[Errno 28] No space left on device", "[Errno 13] Permission denied: 'x'"])
def test_an_error_of_the_machine_sets_nothing_aside(spark: SparkSession, tmp_path: Path, said: str) -> None:
    folder = tmp_path / "in"
    write(folder, 0, 10)
    with create(tmp_path / "store", spark, folder) as db:
        db.run()
        before = db.manifest()
        write(folder, 10, 15)

        def fail(*_: object, **__: object) -> None:
            raise OSError(said)

        with patch("everview.execute.slices.evaluate_slice", fail), pytest.raises((EverviewError, OSError)):
            db.run()
        assert db.manifest() == before
        db.run()
        assert answers(db) == expected(tmp_path / "always", spark, folder)


def test_a_replaced_view_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A view that was set aside is mended by another definition, too, and all views over it go on."""
    folder = tmp_path / "in"
    write(folder, 0, 10)
    with create(tmp_path / "store", spark, folder) as db:
        db.run()
        damage(db, "odd")
    with everview.connect(str(tmp_path / "store"), spark) as db:
        write(folder, 10, 15)
        with pytest.warns(UserWarning, match="set aside"):
            db.run()
        db.execute(
            "CREATE OR REPLACE VIEW odd AS SELECT k, SUM(v) * 2 AS total FROM s [RANGE 20 SECONDS] GROUP BY k"
        )
        assert not db.manifest().aside
        right = expected(tmp_path / "always", spark, folder)
        assert answers(db)["over"] == [(right["over"][0][0] * 2,)]  # type: ignore[operator]
        db.execute("DROP VIEW over")
        assert TraceId("view", "over") not in db.manifest().traces
