"""`everview repair`: what is damaged is told, mended, and answers as before; what cannot be had is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.maintenance import check_at, repair
from everview.storage.runs import TraceId
from everview.ui.cli import main
from tests.engine.damages import (
    catalog_deleted,
    damaged_last_manifest,
    flip,
    manifest_of,
    mend,
    runs,
)
from tests.engine.feeding import put

pytestmark = pytest.mark.spark

# A small store: a stream of files, one that is fed by INSERT, and views over both.


def write_file(folder: Path, number: int) -> None:
    put(folder / f"{number}.csv", f"{number},2026-01-01 00:00:{number:02}\n", number)


def small(spark: SparkSession, tmp_path: Path) -> Path:
    """A store that has taken in two files, in two steps, and two inserted rows."""
    path, source = tmp_path / "store", tmp_path / "in"
    write_file(source, 1)
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}', maxFilesPerTrigger => 1);
            CREATE STREAM h (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
            CREATE VIEW twice AS SELECT n + n AS n FROM n;
            CREATE VIEW both AS SELECT k FROM s UNION ALL SELECT k FROM h;
        """)
        db.insert("h", [{"k": 10, "ts": "2026-01-01 00:00:01"}])
        db.run()
        write_file(source, 2)
        db.insert("h", [{"k": 20, "ts": "2026-01-01 00:00:02"}])
        db.run()
    return path


def ended(path: Path, spark: SparkSession, *views: str) -> list[list[tuple[object, ...]]]:
    """What the views say when a third file was taken in, at the end."""
    write_file(path.with_name("in"), 3)
    with everview.connect(str(path), spark) as db:
        db.run(finish=True)
        return [sorted(tuple(r) for r in db.query(f"SELECT * FROM {view}").collect()) for view in views]


ALL = [[(3,)], [(6,)], [(1,), (2,), (3,), (10,), (20,)]]


def test_a_deleted_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """All files that are there are read again, and none twice; what is gone cannot be known."""
    path = small(spark, tmp_path)
    shutil.rmtree(path / "checkpoint")
    report, whole = repair(str(path), spark=spark)
    assert not whole
    assert (
        "lost: rows of 's' from files that were removed or changed since they were read: which these are is "
        in (str(report))
    )
    assert "(2 rows had been taken)" in str(report)
    assert str(report).endswith(
        "nothing was done: --yes accepts what is lost, everview restore puts a backup back"
    )
    assert "repair: everything is read again by the next run" in mend(path, spark, True)
    assert ended(path, spark, "n", "twice", "both") == ALL


def test_a_file_that_is_gone_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """The last step is lost, and so is the file that it had read."""
    path = small(spark, tmp_path)
    for manifest in sorted((path / "manifests").glob("*.json"))[-1:]:
        manifest.unlink()
    (tmp_path / "in" / "2.csv").unlink()
    report, whole = repair(str(path), spark=spark)
    assert not whole
    assert "in/2.csv: it is gone or was changed" in str(report)
    mend(path, spark, accept_losses=True)
    assert ended(path, spark, "n") == [[(2,)]]


def test_all_manifests_of_a_store_of_files(spark: SparkSession, tmp_path: Path) -> None:
    path, source = tmp_path / "store", tmp_path / "in"
    write_file(source, 1)
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM s;
        """)
        db.run()
        write_file(source, 2)
        db.run()
    shutil.rmtree(path / "manifests")
    assert "lost:" not in mend(path, spark)
    assert ended(path, spark, "n") == [[(3,)]]


def test_all_manifests_of_a_store_with_inserted_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = small(spark, tmp_path)
    shutil.rmtree(path / "manifests")
    report, whole = repair(str(path), accept_losses=True, spark=spark)
    assert not whole
    assert "cannot be mended: which rows were inserted into 'h' is not known any more" in str(report)
    assert str(report).endswith("nothing was done: everview restore puts a backup back, if there is one")


def test_rows_that_were_inserted_in_a_lost_step(spark: SparkSession, tmp_path: Path) -> None:
    path = small(spark, tmp_path)
    with everview.connect(str(path), spark) as db:
        db.insert("h", [{"k": 30, "ts": "2026-01-01 00:00:03"}])
    flip(max((path / "manifests").glob("*.json")))
    assert "1 row of 'h', inserted in step " in mend(path, spark)
    assert ended(path, spark, "both") == [sorted([*ALL[2], (30,)])]


def test_names_of_a_lost_step(spark: SparkSession, tmp_path: Path) -> None:
    path = small(spark, tmp_path)
    with everview.connect(str(path), spark) as db:
        db.execute("CREATE VIEW most AS SELECT MAX(k) AS k FROM s")
    max((path / "manifests").glob("*.json")).unlink()
    assert "all views are computed anew" in mend(path, spark)
    assert ended(path, spark, "n", "twice", "both", "most") == [*ALL, [(3,)]]


def test_a_stream_that_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """The view, and what reads it, begin at the bound, and DESCRIBE says so; other views are untouched."""
    path = small(spark, tmp_path)
    (tmp_path / "in" / "1.csv").unlink()
    runs("view", "n")(path)
    report, whole = repair(str(path), spark=spark)
    assert not whole
    assert "lost: the view 'n' before " in str(report)
    assert "1.csv, which is gone" in str(report)
    mend(path, spark, accept_losses=True)
    with everview.connect(str(path), spark) as db:
        assert "complete since: 2026-01-01T00:00:0" in str(db.execute("DESCRIBE n"))
        assert "complete since: 2026-01-01T00:00:0" in str(db.execute("DESCRIBE twice"))
        assert "complete since: 2026" not in str(db.execute("DESCRIBE both"))
    (n,), (twice,), both = ended(path, spark, "n", "twice", "both")
    assert n[0] * 2 == twice[0]  # type: ignore[operator]
    assert n[0] in (1, 2)
    assert both == ALL[2]


def test_inserted_rows_are_nowhere_else(spark: SparkSession, tmp_path: Path) -> None:
    """They are named; views that have seen them keep them, those that are made later begin at the bound."""
    path = small(spark, tmp_path)
    first = manifest_of(path).of("inbox", "h")
    flip(path / next(iter(first.values()))[0].path)
    report, whole = repair(str(path), spark=spark)
    assert not whole
    assert "lost: rows of 'h': 1 row, 2026-01-01T00:00:01.000000 … 2026-01-01T00:00:01.0" in str(report)
    mend(path, spark, accept_losses=True)
    with everview.connect(str(path), spark) as db, pytest.warns(UserWarning, match="1 row of 'h' is lost"):
        db.execute("CREATE VIEW later AS SELECT COUNT(*) AS n FROM h")
    assert ended(path, spark, "both") == ALL[2:]


def test_rows_of_a_table_cannot_be_had(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute("CREATE TABLE t (k INT); CREATE VIEW v AS SELECT SUM(k) AS k FROM t")
        db.execute("INSERT INTO t VALUES (1), (2)")
        db.run()
    runs("inbox", "t")(path)
    report, whole = repair(str(path), accept_losses=True, spark=spark)
    assert not whole
    assert "cannot be mended: rows of 't': 2 rows, which are nowhere else" in str(report)
    assert str(report).endswith("nothing was done: everview restore puts a backup back, if there is one")


@pytest.mark.parametrize("where", ["joined_manifest", "mend_checkpoint"])
def test_an_interrupted_repair_is_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = small(spark, tmp_path)
    damaged_last_manifest(path)
    runs("view", "n")(path)
    with monkeypatch.context() as patch:

        def kill(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(f"everview.pipeline.repair.{where}", kill)
        with pytest.raises(KeyboardInterrupt):
            repair(str(path), spark=spark)
    assert not check_at(str(path))[1]
    mend(path, spark)
    assert ended(path, spark, "n", "twice", "both") == ALL


def test_names_that_cannot_be_had(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small(spark, tmp_path)
    flip(path / "catalog.json")
    flip(path / "copies" / "catalog.json")
    with pytest.raises(SystemExit, match="1"):
        main(["repair", "--path", str(path)])
    assert capsys.readouterr().err == (
        f"the names of {path} cannot be had: catalog.json is missing or damaged, and so is its copy\n"
        "  next: everview restore puts a backup back, if there is one\n"
    )


def test_the_command_line_of_a_repair(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["repair", "--path", str(path), *arguments])
        return int(stopped.value.code or 0), capsys.readouterr().out

    path = small(spark, tmp_path)
    assert call() == (0, "all is well: there is nothing to repair\n")
    catalog_deleted(path)
    text = f"1 problem:\n  {path}/catalog.json is missing, and the store has run\n"
    text += "repair: catalog.json is put back from its copy\n"
    assert call("--dry-run") == (1, f"{text}nothing was done: this is what everview repair would do\n")
    with everview.connect(str(tmp_path / "other"), spark) as db:
        db.execute("CREATE TABLE t (k INT)")
        with pytest.raises(SystemExit, match="1"):
            main(["repair", "--path", str(tmp_path / "other")])
        assert "is being written by this same process" in capsys.readouterr().err
    assert call() == (0, f"{text}done: the store is whole\n")
    assert call("--format", "json") == (
        0, '{"kind": "outcome", "what": "all is well: there is nothing to repair"}\n',
    )  # fmt: skip
    with pytest.raises(SystemExit, match="1"):
        main(["repair", "--path", str(tmp_path / "none")])
    assert "there is no Everview store at" in capsys.readouterr().err


def test_inserted_rows_that_were_merged_in_a_lost_step(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of one insertion are taken from its own file; those that were merged with it are not lost."""
    path = tmp_path / "store"
    with everview.connect(str(path), spark, partitions=1) as db:
        db.execute("CREATE STREAM h (k INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT k FROM h")
        for k in range(8):
            db.insert("h", [{"k": k, "ts": "2026-01-01 00:00:01"}])
        assert len(db.manifest().of("inbox", "h")[TraceId("inbox", "h")]) == 1
    flip(max((path / "manifests").glob("*.json")))
    assert "1 row of 'h', inserted in step 8" in mend(path, spark)
    with everview.connect(str(path), spark) as db:
        db.run(finish=True)
        assert sorted(r.k for r in db.query("SELECT k FROM v").collect()) == list(range(8))
