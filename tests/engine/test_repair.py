"""`everview repair`: what is damaged is told, mended, and answers as before; what cannot be had is named."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.errors import StoreError
from everview.maintenance import check_at, repair
from everview.storage.manifest import Manifest
from everview.storage.source_log import read_files, source_offsets
from everview.storage.store import Store
from everview.storage.trace import Trace
from everview.ui.cli import main
from tests.engine.feeding import Feed, everything, put, rows

pytestmark = pytest.mark.spark

MORE = """
    CREATE COMPLETE VIEW per_key AS SELECT k, COUNT(*) AS n FROM orders [RANGE 30 SECONDS] GROUP BY k;
    CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
    INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two');
    CREATE VIEW named AS SELECT o.id, t.name FROM orders [RANGE 30 SECONDS] AS o JOIN names AS t ON o.k = t.k;
"""
ROUNDS = 3
Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Made:
    """A store that has run, its input, and the same store when it has run to the end."""

    folder: Path
    feed: Feed
    expected: dict[str, object]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder / "store", to / "store")
        return to / "store"


def shown(db: Database) -> dict[str, object]:
    """All that a store shows."""
    answers: dict[str, object] = dict(everything(db))
    answers |= {f"{v} changes": rows(db.changes(v, "intervals")) for v in ("per_key", "named")}
    return {**answers, "per_key": rows(db.query("SELECT * FROM per_key"))}


def finish(path: Path, feed: Feed, spark: SparkSession) -> dict[str, object]:
    """Go on to the end: with what is read again, then with the last round, which is removed again."""
    before = set(feed.folder.rglob("*"))
    try:
        with everview.connect(str(path), spark) as db:
            db.run()
            feed.work(db, ROUNDS)
            db.run(finish=True)
            return shown(db)
    finally:
        for file in set(feed.folder.rglob("*")) - before:
            file.unlink()


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("repair")
    feed = Feed(folder / "in", ROUNDS)
    with everview.connect(str(folder / "store"), spark, partitions=2) as db:
        db.execute(feed.script)
        db.execute(MORE)
        feed.work(db, ROUNDS - 2)
        db.execute("UPDATE names SET name = 'ONE' WHERE k = 1")
        feed.work(db, ROUNDS - 1)
        # A row that waits for the bound.
        put(feed.folder / "orders" / "wait.csv", "900,1,1,2026-01-01 00:02:30\n", 900)
        db.run()
    shutil.copytree(folder / "store", folder / "whole")
    return Made(folder, feed, finish(folder / "whole", feed, spark))


def mend(path: Path, spark: SparkSession, accept_losses: bool = False) -> str:
    """Repair a store: it is damaged before, and whole afterwards; what a repair would do, it does."""
    assert noticed(path), "the damage is not noticed"
    before = {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"}
    would, whole = repair(str(path), dry_run=True, spark=spark)
    assert not whole
    after = {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"}
    assert before == after, "a dry run writes nothing"
    done, whole = repair(str(path), accept_losses=accept_losses, spark=spark)
    assert whole, str(done)
    assert str(would).splitlines()[:-1] == str(done).splitlines()[:-1]
    assert str(done).endswith("done: the store is whole")
    report, well = check_at(str(path))
    assert well, str(report)
    again, whole = repair(str(path), spark=spark)
    assert (str(again), whole) == ("all is well: there is nothing to repair", True)
    return str(done)


def noticed(path: Path) -> bool:
    """Whether `everview check` tells of damage."""
    try:
        return not check_at(str(path))[1]
    except StoreError:
        return True


def manifest_of(path: Path) -> Manifest:
    return Store.open(str(path)).manifest()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def numbers(folder: Path) -> list[Path]:
    return sorted((f for f in folder.glob("[0-9]*")), key=lambda f: int(f.name))


RANDOM = 100


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_damage_is_noticed_or_without_effect(made: Made, tmp_path: Path, seed: int) -> None:
    """Of a store that Spark has run, with its checkpoint."""
    path = made.copy(tmp_path)
    done = damage_at_random(path, random.Random(seed))
    if not noticed(path):
        assert read_whole(path) == read_whole(made.folder / "store"), done


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_is_mended(spark: SparkSession, made: Made, tmp_path: Path, seed: int) -> None:
    """The store answers as before, or the repair says what is lost."""
    path = made.copy(tmp_path)
    rng = random.Random(f"mend {seed}")
    done = [damage_at_random(path, rng) for _ in range(3)]
    report, whole = repair(str(path), spark=spark)
    if whole:
        assert finish(path, made.feed, spark) == made.expected, (done, str(report))
    else:
        assert "\nlost: " in str(report) or "\ncannot be mended: " in str(report), done


def damage_at_random(path: Path, rng: random.Random) -> str:
    """Damage a random file in a random way; return what was done."""
    file = rng.choice(sorted(f for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"))
    data, kind = bytearray(file.read_bytes()), rng.choice(["flip", "flip", "cut", "delete", "zero"])
    at = rng.randrange(max(len(data), 1))
    if kind == "delete" or not data:
        file.unlink()
        return f"delete {file.relative_to(path)}"
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[at:]
    else:
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    file.write_bytes(data)
    return f"{kind} {file.relative_to(path)} at {at}"


def read_whole(path: Path) -> object:
    """All that Everview and Spark read of a store when it goes on."""
    store = Store.open(str(path))
    manifest, checkpoint = store.manifest(), store.files.below("checkpoint")
    offsets = numbers(path / "checkpoint" / "offsets")[-2:]
    last = source_offsets(checkpoint, int(offsets[-1].name))
    return (
        store.settings,
        manifest,
        list(store.load_catalog()),
        [Trace(t, r, store.files).read().rows() for t, r in manifest.traces.items() if t.kind != "port"],
        [store.files.read_parts(r.path) for runs in manifest.of("port").values() for r in runs] != [],
        [file.read_text() for file in offsets],
        {name: read_files(checkpoint, name, end) for name, end in last.items()},
    )


def runs(kind: str, owner: str | None = None) -> Damage:
    """Damage the runs of a kind, or those of one owner: one is changed, and the others are deleted."""

    def damage(path: Path) -> None:
        found = [run.path for those in manifest_of(path).of(kind, owner).values() for run in those]
        assert found
        for name in found[1:]:
            (path / name).unlink(missing_ok=True)
        flip(path / found[0])

    damage.__name__ = f"runs of {kind} {owner or ''}".strip()
    return damage


def damaged_last_manifest(path: Path) -> None:
    flip(max((path / "manifests").glob("*.json")))


def last_manifests_deleted(path: Path) -> None:
    for manifest in sorted((path / "manifests").glob("*.json"))[-2:]:
        manifest.unlink()


def old_manifest_damaged(path: Path) -> None:
    flip(min((path / "manifests").glob("*.json")))


def catalog_edited(path: Path) -> None:
    text = (path / "catalog.json").read_text()
    (path / "catalog.json").write_text(text.replace("30 SECONDS", "31 SECONDS"))


def catalog_deleted(path: Path) -> None:
    (path / "catalog.json").unlink()


def copies_damaged(path: Path) -> None:
    flip(path / "copies" / "catalog.json")
    flip(path / "copies" / "everview.json")


def settings_damaged(path: Path) -> None:
    text = (path / "everview.json").read_text()
    (path / "everview.json").write_text(text.replace('"partitions": 2', '"partitions": 3'))


def settings_deleted(path: Path) -> None:
    (path / "everview.json").unlink()


def newest_offsets_deleted(path: Path) -> None:
    numbers(path / "checkpoint" / "offsets")[-1].unlink()


def newest_batch_deleted(path: Path) -> None:
    for log in ("offsets", "commits"):
        numbers(path / "checkpoint" / log)[-1].unlink()


def offsets_damaged(path: Path) -> None:
    for file in numbers(path / "checkpoint" / "offsets")[-2:]:
        flip(file)


def offsets_before_deleted(path: Path) -> None:
    numbers(path / "checkpoint" / "offsets")[-2].unlink()


def commit_and_metadata_damaged(path: Path) -> None:
    flip(numbers(path / "checkpoint" / "commits")[-1])
    flip(path / "checkpoint" / "metadata")


def newest_log_entry_damaged(path: Path) -> None:
    for source in (path / "checkpoint" / "sources").glob("s_*"):
        entries = [f for f in source.glob("[0-9]*") if f.name.isdecimal()]
        flip(max(entries, key=lambda f: int(f.name)))


def everything_small_at_once(path: Path) -> None:
    runs("view", "sums")(path)
    for damage in (catalog_edited, settings_deleted, damaged_last_manifest, commit_and_metadata_damaged):
        damage(path)


EXACT: list[Damage] = [
    runs("state"), runs("view", "newest"), runs("view", "sums"), runs("complete"), runs("port"),
    runs("inbox", "orders"), damaged_last_manifest, last_manifests_deleted, old_manifest_damaged,
    catalog_edited, catalog_deleted, copies_damaged, settings_damaged, settings_deleted,
    newest_offsets_deleted, newest_batch_deleted, offsets_damaged, offsets_before_deleted,
    commit_and_metadata_damaged, newest_log_entry_damaged, everything_small_at_once,
]  # fmt: skip


@pytest.mark.parametrize("damage", EXACT, ids=lambda d: d.__name__)
def test_a_repaired_store_answers_as_an_undamaged_one(
    spark: SparkSession, made: Made, tmp_path: Path, damage: Damage
) -> None:
    path = made.copy(tmp_path)
    damage(path)
    said = mend(path, spark)
    assert "lost:" not in said
    assert finish(path, made.feed, spark) == made.expected


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
