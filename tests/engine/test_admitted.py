"""REPLAY: late and rejected rows count from just after the bound on, in all views alike."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from everview.errors import EverviewError, PlanError, StoreError
from everview.maintenance import check_at
from everview.storage.store import Store

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


def put(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (1_700_000_000 + int(path.stem),) * 2)


def held(db: Database, view: str, second: int) -> Counter[tuple[Any, ...]]:
    return rows(db.query(f"SELECT * FROM {view}", as_of=at(second)))


def test_late_rows_count_from_the_bound_on(spark: SparkSession, tmp_path: Path) -> None:
    """Their windows are cut there; a view that is made later agrees, as does the store after a rewind."""
    folder, store = tmp_path / "in", tmp_path / "store"
    put(folder / "1.csv", f"1,{at(1)}", f"2,{at(20)}")
    window = "SELECT k, COUNT(*) AS n FROM s [RANGE 15 SECONDS] GROUP BY k"
    with everview.connect(str(store), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}');
            CREATE VIEW recent AS {window};
            CREATE VIEW ever AS SELECT COUNT(*) AS n FROM s;
        """)
        db.run()
        put(folder / "2.csv", f"7,{at(10)}", f"8,{at(3)}", f"9,{at(11)}", f"7,{at(10)}")
        db.run()
        assert db.manifest().counts["s"] == (2, 4, 0)
        assert str(db.execute("REPLAY s$late WHERE k = 5")).startswith("no row of 's$late' counts now")
        report = str(db.execute("REPLAY s$late WHERE k < 9"))
        assert report == "3 rows of 's$late' count from 2026-01-01T00:00:20.000000 on"
        assert db.manifest().counts["s"] == (5, 1, 0)
        assert "rows: 5 taken (3 re-admitted), 1 late, 0 rejected" in str(db.execute("DESCRIBE s"))
        assert rows(db.query("SELECT k FROM s$late")) == {(9,): 1}
        assert str(db.execute("REPLAY s$late WHERE k < 9")).startswith("no row")
        put(folder / "3.csv", f"1,{at(40)}")
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            db.run()
            db.execute(
                "CREATE VIEW later AS SELECT k, COUNT(k + 0) AS n FROM s [RANGE 15 SECONDS] GROUP BY k"
            )
        assert held(db, "recent", 12) == {(1, 1): 1}, "what was known stays"
        assert held(db, "recent", 20) == {(2, 1): 1, (7, 2): 1}
        assert held(db, "recent", 24) == {(2, 1): 1, (7, 2): 1}
        assert held(db, "recent", 25) == {(2, 1): 1}
        assert held(db, "ever", 20) == {(5,): 1}
        assert rows(db.changes("later")) == rows(db.changes("recent"))
        assert rows(db.query("SELECT COUNT(*) AS n FROM s", as_of=at(20))) == {(5,): 1}
        with pytest.raises(
            PlanError, match=r"the view 'last' has a window of rows.* 3 rows of 's' came too late"
        ):
            db.execute("CREATE VIEW last AS SELECT k FROM s [ROWS 2]")
        db.backup(str(tmp_path / "backup"))
        db.rewind(at(9))
        db.run()
        assert held(db, "recent", 12) == {(1, 1): 1, (7, 2): 1, (8, 1): 1, (9, 1): 1}
        assert rows(db.changes("later")) == rows(db.changes("recent"))
        assert rows(db.query("SELECT * FROM s$late")) == {}
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "copy"))
    with everview.connect(str(tmp_path / "copy"), spark) as db:
        assert held(db, "recent", 20) == {(2, 1): 1, (7, 2): 1}
        db.execute("CREATE VIEW again AS SELECT k, COUNT(k + 1) AS n FROM s [RANGE 15 SECONDS] GROUP BY k")
        assert rows(db.changes("again")) == rows(db.changes("recent"))
    assert check_at(str(tmp_path / "copy"))[1]


def test_late_rows_of_a_stream_that_is_fed_by_insert(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption does nothing; rows whose windows have ended have no effect; columns may be added."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM h (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW recent AS SELECT k FROM h [RANGE 15 SECONDS];
            INSERT INTO h VALUES (1, TIMESTAMP '{at(20)}');
        """)
        db.run()
        db.execute(f"INSERT INTO h VALUES (2, TIMESTAMP '{at(4)}'), (3, TIMESTAMP '{at(15)}')")
        before = db.manifest()

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Store, "write_manifest", fail)
            with pytest.raises(KeyboardInterrupt):
                db.execute("REPLAY h$late")
        assert db.manifest() == before
        report = str(db.execute("REPLAY h$late"))
        assert report == (
            "2 rows of 'h$late' count from 2026-01-01T00:00:20.000001 on; 1 of them has no effect on any view"
        )
        db.execute("ALTER STREAM h ADD COLUMN v INT")
        db.execute(f"INSERT INTO h VALUES (4, TIMESTAMP '{at(25)}', 7)")
        db.run()
        assert held(db, "recent", 20) == {(1,): 1}
        assert held(db, "recent", 21) == {(1,): 1, (3,): 1}
        db.execute("CREATE VIEW wide AS SELECT k, v FROM h [RANGE 15 SECONDS]")
        assert held(db, "wide", 25) == {(1, None): 1, (3, None): 1, (4, 7): 1}
        with pytest.raises(EverviewError, match=r"'n' reads 'h\$late', from which no row can be taken away"):
            db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM h$late; REPLAY h$late")
        db.execute("DROP VIEW n; DROP VIEW wide; DROP VIEW recent")
        with pytest.raises(PlanError, match="a tagged stream, which holds the row with the latest"):
            db.execute("CREATE TAGGED STREAM newest OVER h KEY (k); CREATE VIEW v AS SELECT k FROM newest")
        db.run(finish=True)
        with pytest.raises(StoreError, match="cannot count any more: the store was run to its end"):
            db.execute("REPLAY h$late")


def test_rejected_rows_that_can_be_read_now(spark: SparkSession, tmp_path: Path) -> None:
    """A row that had a column too many is read when there is one more; one that is broken stays."""
    folder = tmp_path / "in"
    put(folder / "1.csv", f"1,{at(1)}", f"2,{at(2)},5", "x,y", f"3,{at(9)}", f"4,{at(12)},6")
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{folder}');
            CREATE VIEW ks AS SELECT k FROM s;
        """)
        db.run()
        assert db.manifest().counts["s"] == (2, 0, 3)
        assert str(db.execute("REPLAY s$rejected")) == (
            "no row of 's$rejected' counts now: 3 still cannot be read, and stay"
        )
        db.execute("ALTER STREAM s ADD COLUMN v INT")
        assert str(db.execute("REPLAY s$rejected")) == (
            "2 rows of 's$rejected' count from 2026-01-01T00:00:09.000000 on; "
            "1 still cannot be read, and stays"
        )
        assert rows(db.query("SELECT _original FROM s$rejected")) == {("x,y",): 1}
        assert str(db.execute("REPLAY s$rejected")).endswith("1 still cannot be read, and stays")
        put(folder / "2.csv", f"5,{at(20)},7")
        db.run()
        db.execute("CREATE VIEW kvs AS SELECT k, v FROM s")
        assert held(db, "ks", 8) == {(1,): 1}
        assert held(db, "ks", 9) == {(1,): 1, (2,): 1, (3,): 1}
        assert held(db, "ks", 12) == {(1,): 1, (2,): 1, (3,): 1, (4,): 1}
        assert held(db, "kvs", 12) == {(1, None): 1, (2, 5): 1, (3, None): 1, (4, 6): 1}
