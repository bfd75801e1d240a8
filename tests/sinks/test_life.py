"""A sink on a store that runs: made late, down, killed, rewound, its view replaced, renamed and dropped."""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.errors import CatalogError, PlanError, StoreError
from everview.sinks.position import SinkPositions

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1)
SCRIPT = """
    CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM s GROUP BY k;
    CREATE VIEW held AS SELECT k, v FROM s [RANGE 2 SECONDS];
    CREATE VIEW seen AS SELECT k, v FROM s;
"""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as found:
        found.execute(SCRIPT)
        yield found


def step(db: Database, second: int, *rows: tuple[int, int]) -> None:
    """One step, in which time moves just past a second."""
    at = START + timedelta(seconds=second)
    db.insert("s", [(k, v, at) for k, v in rows])
    db.run()


def written(folder: Path) -> list[dict[str, Any]]:
    return [
        row for part in sorted(folder.glob("step=*/part-*")) for row in pl.read_parquet(part).rows(named=True)
    ]


def replayed(changes: list[dict[str, Any]], key: str = "k") -> Counter[tuple[Any, ...]]:
    """What a reader of changes ends up with."""
    found: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        record = tuple(v for n, v in change.items() if n not in ("tag", "at"))
        if change["tag"] == "u":
            old = next(r for r in found if r[0] == change[key])
            del found[old]
        found[record] += -1 if change["tag"] == "-" else 1
    return +found


def answer(db: Database, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in db.query(f"SELECT * FROM {view}").collect())


def test_a_folder_has_the_changes_of_every_step(db: Database, tmp_path: Path) -> None:
    out = tmp_path / "out"
    db.execute(f"""
        CREATE SINK f FROM sums INTO parquet('{out / "early"}');
        CREATE SINK g FROM held INTO parquet('{out / "held"}');
        CREATE SINK a FROM seen INTO json('{out / "seen"}') MODE append;
    """)
    step(db, 1, (1, 10), (2, 20))
    step(db, 2, (1, 5))
    db.execute(f"CREATE SINK late FROM sums INTO csv('{out / 'late'}')")
    step(db, 5, (2, 1), (3, 7))
    db.run()  # without changes: no folder
    steps = sorted(path.name for path in (out / "early").glob("step=*"))
    assert len(steps) == 3
    early = written(out / "early")
    assert [(c["tag"], c["k"], c["v"]) for c in early] == [
        ("+", 1, 10), ("+", 2, 20), ("u", 1, 15), ("u", 2, 21), ("+", 3, 7),
    ]  # fmt: skip
    assert [c["at"].second for c in early] == [1, 1, 2, 5, 5]
    assert replayed(early) == answer(db, "sums")
    assert Counter((c["tag"], c["k"], c["v"]) for c in written(out / "held")) == Counter(
        [
            ("+", 1, 10),
            ("+", 2, 20),
            ("+", 1, 5),
            ("-", 1, 10),
            ("-", 2, 20),
            ("-", 1, 5),
            ("+", 2, 1),
            ("+", 3, 7),
        ]
    )
    lines = [
        json.loads(line)
        for p in sorted((out / "seen").glob("step=*/*"))
        for line in p.read_text().splitlines()
    ]
    assert Counter((r["k"], r["v"]) for r in lines) == answer(db, "seen")
    late = [p.read_text().splitlines() for p in sorted((out / "late").glob("step=*/*"))]
    assert late[0] == [
        "tag,at,k,v", "+,2026-01-01T00:00:02.000000Z,1,15", "+,2026-01-01T00:00:02.000000Z,2,20",
    ]  # fmt: skip
    assert late[1][1:] == ["u,2026-01-01T00:00:05.000000Z,2,21", "+,2026-01-01T00:00:05.000000Z,3,7"]


def test_a_function_gets_each_step(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[int, list[Any]]] = []

    def collect(changes: Any, number: int) -> None:
        calls.append((number, [(r["tag"], r["k"], r["v"], r["old"]) for r in changes.to_pylist()]))

    db.sink("sums", collect)
    step(db, 1, (1, 10))
    step(db, 2, (1, 5), (2, 1))
    old = {"k": 1, "v": 10}
    assert [rows for _, rows in calls] == [[("+", 1, 10, None)], [("u", 1, 15, old), ("+", 2, 1, None)]]
    assert calls[0][0] < calls[1][0]
    db.execute("ALTER VIEW sums RENAME TO totals")
    step(db, 3, (2, 2))
    assert len(calls) == 3
    db.close()
    with everview.connect(str(tmp_path / "store"), spark) as again:
        step(again, 4, (7, 7))  # nobody listens
        again.sink("totals", collect)
        assert calls[-1][1] == [("+", 7, 7, None)]
        again.sink("totals", lambda changes, number: 1 / 0, name="broken")
        with pytest.warns(UserWarning, match="the sink 'broken' was set aside.*division by zero"):
            again.sink("totals", lambda changes, number: 1 / 0, name="broken", anew=True)
        assert "division by zero" in str(again.status())


def test_a_sink_that_is_down_catches_up(db: Database, tmp_path: Path) -> None:
    out, away = tmp_path / "out", tmp_path / "away"
    db.execute(
        f"CREATE SINK f FROM sums INTO parquet('{out}'); CREATE SINK g FROM sums INTO json('{tmp_path}/g')"
    )
    step(db, 1, (1, 1))
    shutil.move(out, away)
    with pytest.warns(
        UserWarning, match="the sink 'f' was set aside, and the others go on: .*is not the folder"
    ):
        step(db, 2, (1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        for second in range(3, 8):
            step(db, second, (second, second))
    assert len(list((tmp_path / "g").glob("step=*"))) == 7
    assert "f (set aside: " in str(db.execute("SHOW SINKS"))
    described = str(db.execute("DESCRIBE SINK f"))
    assert "6 steps behind" in described
    assert "ALTER SINK f RESUME" in described
    with pytest.raises(StoreError, match="does not go on yet"):
        db.execute("ALTER SINK f RESUME")
    shutil.move(away, out)
    step(db, 9, (9, 9))
    assert len(list(out.glob("step=*"))) == 8
    assert replayed(written(out)) == answer(db, "sums")
    assert "set aside" not in str(db.execute("SHOW SINKS"))
    with pytest.raises(StoreError, match="goes on: it was not set aside"):
        db.execute("ALTER SINK f RESUME")


def test_a_step_is_written_once_if_the_position_is_lost_after_it(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    db.execute(f"CREATE SINK f FROM held INTO parquet('{out}')")
    step(db, 1, (1, 1))
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(SinkPositions, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            step(db, 2, (2, 2))
    step(db, 5, (3, 3))
    assert replayed(written(out)) == answer(db, "held") == Counter({(3, 3): 1})


def test_views_below_sinks_change(db: Database, tmp_path: Path) -> None:
    out = tmp_path / "out"
    db.execute(f"CREATE SINK f FROM sums INTO parquet('{out}')")
    step(db, 1, (1, 1), (2, 5))
    with pytest.raises(CatalogError, match="is still written by sink f"):
        db.execute("DROP VIEW sums")
    with pytest.raises(CatalogError, match="the sink 'f' no longer fits"):
        db.execute("CREATE OR REPLACE VIEW sums AS SELECT k FROM s")
    db.execute("CREATE OR REPLACE VIEW sums AS SELECT k, SUM(v * 2) AS v FROM s GROUP BY k")
    step(db, 2, (1, 1))
    db.execute("ALTER VIEW sums RENAME TO totals")
    step(db, 3, (3, 3))
    assert replayed(written(out)) == answer(db, "totals") == Counter({(1, 4): 1, (2, 10): 1, (3, 6): 1})
    assert db.execute("SHOW CREATE SINK f") is not None
    db.execute("DROP VIEW totals CASCADE")
    assert str(db.execute("SHOW SINKS")) == ""
    step(db, 4, (4, 4))
    with pytest.raises(StoreError, match="holds what another sink has written"):
        db.execute(f"CREATE SINK f FROM held INTO parquet('{out}')")
    assert str(db.execute("SHOW SINKS")) == ""


def test_a_store_that_goes_back_sets_its_sinks_aside(
    db: Database, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    db.execute(f"CREATE SINK f FROM sums INTO parquet('{out}')")
    step(db, 1, (1, 1))
    step(db, 4, (2, 2))
    db.backup(str(tmp_path / "backup"))
    db.rewind(START + timedelta(seconds=2))
    with pytest.warns(UserWarning, match="'f' was set aside.*taken back.*ALTER SINK f RESUME"):
        db.run()
    step(db, 6, (3, 3))
    db.execute("ALTER SINK f RESUME")
    assert replayed(written(out)) == answer(db, "sums")
    step(db, 8, (3, 1))
    assert replayed(written(out)) == answer(db, "sums")
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "other"))
    with everview.connect(str(tmp_path / "other"), spark) as other:
        with pytest.warns(UserWarning, match="'f' was set aside.*how far it has come is not known"):
            step(other, 9, (5, 5))
        assert (5, 5) not in replayed(written(out))


def test_modes_that_do_not_go_with_a_view_are_refused(db: Database, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refused:
        db.execute(f"CREATE SINK f FROM sums INTO parquet('{tmp_path}/f') MODE append")
    assert (
        str(refused.value).splitlines()[0]
        == "MODE append only adds rows, and rows of the view 'sums' take others back"
    )
    assert str(refused.value).splitlines()[-1] == "  next: write MODE changes, or MODE upsert"
    with pytest.raises(PlanError, match="rows of the view 'held' end"):
        db.execute(f"CREATE SINK f FROM held INTO parquet('{tmp_path}/f') MODE append")
