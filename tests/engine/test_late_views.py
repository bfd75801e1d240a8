"""Views that are created when the store has run agree with those of the same definition, at all times."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import StoreError
from everview.operators.columnar.frame import BEFORE_ALL
from everview.storage.store import CATALOG, NEXT_CATALOG, Store
from tests.seeds import seeds

pytestmark = pytest.mark.spark

VIEWS = {
    "held": "SELECT k, v FROM s [RANGE 20 SECONDS]",
    "sums": "SELECT k, SUM(v) AS v FROM s [RANGE 15 SECONDS] GROUP BY k",
    "named": "SELECT k, name FROM s [RANGE 12 SECONDS] JOIN t USING (k)",
    "rest": "SELECT k FROM s [RANGE 30 SECONDS] EXCEPT ALL SELECT k FROM s [RANGE 10 SECONDS]",
    "latest": "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "ever": "SELECT COUNT(*) AS n, MIN(v) AS low FROM s",
    "both": "SELECT a.k, a.v, b.w FROM s [RANGE 9 SECONDS] a JOIN r [RANGE 9 SECONDS] b ON a.k = b.k",
    "over": "SELECT k, v + 1 AS v FROM held WHERE v > 2",
}


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def script(folder: Path, views: dict[str, str]) -> str:
    made = "".join(f"CREATE VIEW {name} AS {sql};" for name, sql in views.items())
    return f"""
        CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' SECOND)
          FROM csv('{folder}/s');
        CREATE STREAM r (k INT, w INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' SECOND)
          FROM json('{folder}/r');
        CREATE TABLE t (k INT, name STRING);
        INSERT INTO t VALUES (0, 'zero'), (1, 'one');
        {made}
    """


def at(second: int) -> str:
    return f"2026-01-01 00:{second // 60:02}:{second % 60:02}"


def write_files(folder: Path, rng: random.Random, number: int) -> None:
    """Write a file for each stream: rows around their time, some of them late, some not readable."""
    for name in ("s", "r"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    times = [10 * number + rng.randrange(10) for _ in range(8)]
    times += [rng.randrange(10 * number + 1) for _ in range(3 if number else 0)]  # late, as a rule
    lines = [f"{rng.randrange(3)},{rng.randrange(4)},{at(t)}" for t in times]
    lines += ["x,1,2026-01-01 00:00:01"] * rng.randrange(2)
    (folder / "s" / f"{number}.csv").write_text("\n".join(lines) + "\n")
    objects = [f'{{"k": {rng.randrange(3)}, "w": {rng.randrange(4)}, "ts": "{at(t)}"}}' for t in times]
    (folder / "r" / f"{number}.json").write_text("\n".join(objects) + "\n")


@pytest.fixture
def quiet() -> Iterator[None]:
    """No note may be given: every view is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def test_the_same_definition_gives_the_same_answer(spark: SparkSession, tmp_path: Path, quiet: None) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n3,2026-01-01 00:00:09\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW early AS SELECT COUNT(*) AS n FROM s;
        """)
        db.run()
        db.execute("CREATE VIEW later AS SELECT COUNT(*) AS n FROM s")
        assert rows(db.query("SELECT * FROM early")) == rows(db.query("SELECT * FROM later")) == {(2,): 1}
        assert rows(db.query("SELECT COUNT(*) AS n FROM s")) == {(2,): 1}
        assert rows(db.query("SELECT k FROM s [NOW]", as_of=at(2))) == {(2,): 1}
        assert "complete since: the beginning of time" in str(db.execute("DESCRIBE later"))
        shown: list[str] = []
        db.show_backfill(shown.append)
        db.execute("CREATE VIEW most AS SELECT MAX(k) AS most FROM s")
        assert shown == ["most: reading 1 file of s again"]
        db.run(finish=True)
        assert rows(db.query("SELECT * FROM early")) == rows(db.query("SELECT * FROM later")) == {(3,): 1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 3))
def test_late_views_agree_with_early_ones_at_all_times(
    spark: SparkSession, tmp_path: Path, quiet: None, seed: int
) -> None:
    """Of late and rejected rows too: what was not taken when it came is not taken in a backfill either."""
    rng = random.Random(seed)
    folder, files = tmp_path / "in", 5
    write_files(folder, rng, 0)
    made_at = {name: rng.randrange(files) for name in VIEWS}
    made_at["over"] = max(made_at["over"], made_at["held"])
    partitions = rng.choice([1, 3])
    with (
        everview.connect(str(tmp_path / "early"), spark, partitions=partitions) as early,
        everview.connect(str(tmp_path / "late"), spark, partitions=partitions) as late,
    ):
        early.execute(script(folder, VIEWS))
        late.execute(script(folder, {}))
        for number in range(files):
            if number:
                write_files(folder, rng, number)
                key = rng.randrange(3)
                for db in (early, late):
                    db.execute(f"INSERT INTO t VALUES ({key}, 'later {number}')")
            for db in (early, late):
                db.run()
            for name in sorted(VIEWS, key=list(VIEWS).index):
                if made_at[name] == number:
                    late.execute(f"CREATE VIEW {name} AS {VIEWS[name]}")
            for name in VIEWS:
                if made_at[name] <= number:
                    sql = f"SELECT * FROM {name}"
                    assert rows(late.query(sql)) == rows(early.query(sql)), (name, number)
        for db in (early, late):
            db.run(finish=True)
        counts = early.manifest().counts
        assert counts == late.manifest().counts
        assert counts["s"][1], "rows were late"
        for name in VIEWS:
            assert rows(late.changes(name)) == rows(early.changes(name)), name
            for second in range(0, 10 * files, 7):
                sql = f"SELECT * FROM {name}"
                assert rows(late.query(sql, as_of=at(second))) == rows(early.query(sql, as_of=at(second)))


def test_a_file_that_is_gone_or_changed_is_told(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rng = random.Random(1)
    for number in range(3):
        write_files(folder, rng, number)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(script(folder, {"held": VIEWS["held"]}))
        db.run()
        (folder / "s" / "1.csv").unlink()
        with pytest.warns(UserWarning, match=r"'sums' is complete from 2026-.*1\.csv, which is gone"):
            db.execute(f"CREATE VIEW sums AS {VIEWS['sums']}")
        assert "complete since: 2026" in str(db.execute("DESCRIBE sums"))
        with pytest.raises(StoreError, match="which is gone"):
            db.query("SELECT * FROM s [RANGE 1 MINUTE]")
        path = folder / "r" / "0.json"
        path.write_text(path.read_text() + '{"k": 1, "w": 1, "ts": "2026-01-01 00:00:01"}\n')
        with pytest.raises(StoreError, match=r"0\.json, which was changed since"):
            db.query("SELECT * FROM r [RANGE 1 MINUTE]")
        write_files(folder, rng, 3)
        db.run()
        assert rows(db.query("SELECT * FROM sums"))


def test_a_source_that_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (timestamp TIMESTAMP, value BIGINT, TIMELINE timestamp)
              FROM rate(rowsPerSecond => 50);
            CREATE VIEW early AS SELECT COUNT(*) AS n FROM s;
        """)
        db.start()
        deadline = time.monotonic() + 60
        while db.manifest().bound == BEFORE_ALL and time.monotonic() < deadline:
            time.sleep(0.2)
        with pytest.warns(UserWarning, match="what the source rate of 's' has sent cannot be read"):
            db.execute("CREATE VIEW later AS SELECT MAX(value) AS n FROM s")
        db.execute("CREATE VIEW same AS SELECT COUNT(*) AS n FROM s")  # those of `early` are there
        with pytest.raises(StoreError, match="cannot be read again"):
            db.query("SELECT COUNT(*) AS n FROM s")
        db.stop()
        assert set(db.manifest().since) == {"later"}
        assert rows(db.changes("same")) == rows(db.changes("early"))


def test_a_view_is_added_while_steps_go_on(spark: SparkSession, tmp_path: Path, quiet: None) -> None:
    folder = tmp_path / "in"
    rng = random.Random(5)
    write_files(folder, rng, 0)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(script(folder, {"sums": VIEWS["sums"]}))
        db.start("100 milliseconds")
        for number in range(1, 4):
            write_files(folder, rng, number)
            db.execute(f"CREATE VIEW sums_{number} AS {VIEWS['sums']}")
            assert db.status().background.startswith("running")
        wanted = 4
        deadline = time.monotonic() + 60
        while db.manifest().counts.get("s", (0,))[0] < 8 * wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        db.stop()
        db.run()
        for number in range(1, 4):
            assert rows(db.changes(f"sums_{number}")) == rows(db.changes("sums"))


def test_a_crash_between_manifest_and_catalog(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    """A view and its rows come together: the catalog that was not put into its place is found."""
    folder = tmp_path / "in"
    write_files(folder, random.Random(2), 0)
    path = tmp_path / "store"
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(script(folder, {}))
        db.run()
        write = type(db._pipeline.store.files).write

        def fail(files: object, name: str, data: bytes) -> None:
            if name == CATALOG:
                raise KeyboardInterrupt
            write(files, name, data)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(type(db._pipeline.store.files), "write", fail)
            with pytest.raises(KeyboardInterrupt):
                db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    assert (path / NEXT_CATALOG).exists()
    with everview.connect(str(path), spark, partitions=1) as db:
        assert rows(db.query("SELECT * FROM n")) == rows(db.query("SELECT COUNT(*) AS n FROM s"))
        db.execute("CREATE VIEW m AS SELECT MAX(n) AS n FROM n")
    assert not (path / NEXT_CATALOG).exists()
    text = (path / CATALOG).read_text()
    (path / CATALOG).write_text(text.replace("COUNT(*)", "SUM(k)"))
    with pytest.raises(StoreError, match="it is not the catalog that step"):
        Store.open(str(path)).load_catalog()


def test_the_log_of_the_last_batch_is_forgotten(spark: SparkSession, tmp_path: Path, quiet: None) -> None:
    """After a hundred batches without rows, Spark has only the logs of these; they say the same."""
    folder, store = tmp_path / "in", tmp_path / "store"
    write_files(folder, random.Random(3), 0)
    with everview.connect(str(store), spark, partitions=1) as db:
        db.execute(script(folder, {"ever": VIEWS["ever"]}))
        db.execute("SET answer_from_views = off")  # the questions below read the files
        db.run()
        batch = db.manifest().batch
        assert batch is not None
        for name in ("offsets", "commits"):
            log = store / "checkpoint" / name / str(batch)
            log.rename(log.with_name(str(batch + 7)))
            log.with_name(f".{batch}.crc").unlink(missing_ok=True)
        assert rows(db.query("SELECT COUNT(*) AS n, MIN(v) AS low FROM s")) == rows(
            db.query("SELECT * FROM ever")
        )
        db.execute("CREATE VIEW again AS SELECT COUNT(*) AS n, MIN(v + 0) AS low FROM s")
        assert rows(db.query("SELECT * FROM again")) == rows(db.query("SELECT * FROM ever"))
        (store / "checkpoint" / "offsets" / str(batch + 7)).unlink()
        with pytest.raises(StoreError, match="which files 's' has read is not known any more"):
            db.query("SELECT COUNT(*) AS n FROM s")
