"""`everview check`: every damaged file is named; damage that it does not name has no effect."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

import pytest

import everview
from everview.algebra.time import INFINITY
from everview.catalog import Catalog, ViewEntry
from everview.errors import StoreError
from everview.maintenance import check_at
from everview.operators.columnar.frame import make_frame
from everview.storage.check import check_store
from everview.storage.manifest import Manifest
from everview.storage.repair import RepairNotes, diagnose
from everview.storage.runs import TraceId
from everview.storage.store import Settings, Store
from everview.storage.trace import Trace
from everview.ui.cli import main
from tests.lanes import one_in
from tests.seeds import seeds

TRACES = [TraceId("state", "join", "left"), TraceId("view", "v"), TraceId("inbox", "s"), TraceId("late", "s")]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of five steps."""
    path = tmp_path_factory.mktemp("check") / "store"
    rng = random.Random(7)
    with Store.open(str(path), Settings(partitions=1), create=True).lock() as store:
        catalog = Catalog()
        catalog.add(ViewEntry("v", "SELECT 1 AS one"))
        manifest = Manifest()
        for step in range(1, 6):
            traces = {}
            for trace in TRACES:
                values = {"c0": [rng.randrange(100) for _ in range(20)], "c1": ["some text"] * 20}
                frame = make_frame(values, [(step, INFINITY, 1)] * 20)
                traces[trace] = Trace(trace, manifest.runs(trace), store.files).append(frame, step).runs
            manifest = Manifest(step=step, bound=step, traces=traces)
            store.write_manifest(manifest)
        store.save_catalog(catalog)
    return path


def contents(path: Path) -> object:
    """All that a reader gets from a store."""
    store = Store.open(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manifest, catalog = store.manifest(), store.load_catalog()
    frames = [
        Trace(trace, runs, store.files).read(until_after=-1).rows() for trace, runs in manifest.traces.items()
    ]
    return store.settings, manifest, list(catalog), frames


def damage(path: Path, rng: random.Random) -> str:
    """Damage a random file in a random way; return what was done."""
    file = rng.choice(sorted(f for f in path.rglob("*") if f.is_file() and f.name != "everview.lock"))
    data = bytearray(file.read_bytes())
    kind = rng.choice(["flip", "flip", "flip", "cut", "delete", "zero", "swap"])
    match kind:
        case "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "cut":
            del data[rng.randrange(len(data)) :]
        case "zero":
            begin = rng.randrange(len(data))
            data[begin : begin + 64] = bytes(len(data[begin : begin + 64]))
        case "swap":
            data = bytearray(rng.choice(sorted(f for f in file.parent.glob("*") if f.is_file())).read_bytes())
    if kind == "delete":
        file.unlink()
    else:
        file.write_bytes(data)
    return f"{kind} {file.relative_to(path)}"


@pytest.mark.parametrize("seed", one_in(12, seeds(80, 150)))
def test_damage_is_noticed_or_without_effect(good: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "store"
    shutil.copytree(good, path)
    done = damage(path, random.Random(seed))
    try:
        noticed = bool(check_store(Store.open(str(path))).problems)
    except StoreError:
        noticed = True
    if not noticed:
        assert contents(path) == contents(good), done


def test_the_report_names_the_file_and_what_it_holds(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store"
    shutil.copytree(good, path)
    with pytest.raises(SystemExit, match="0"):
        main(["check", "--path", str(path)])
    assert capsys.readouterr().out.endswith("; all is well\n")
    file = sorted((path / "views" / "v").glob("*.arrow"))[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (path / "inbox" / "s").rename(path / "inbox" / "gone")
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--path", str(path)])
    out = capsys.readouterr().out
    assert f"{file} is damaged: its checksum is wrong" in out
    assert "\n  holds: changes of the view 'v'\n  next: everview repair mends it" in out
    assert "is missing\n  holds: rows of 's'" in out
    assert "6 problems" in out
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--path", str(path), "--format", "json"])
    assert capsys.readouterr().out.count('"contents"') == 6
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--path", str(tmp_path / "none")])
    assert "there is no Everview store" in capsys.readouterr().err


def test_missing_manifests_are_noticed(tmp_path: Path) -> None:
    """The last one, or all with the number of the last step; readers are warned."""
    path = tmp_path / "store"
    with everview.connect(str(path), partitions=1) as db:
        db.execute("CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts)")
        db.execute("INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01')")
        assert db.manifest().step == 1
    (path / "manifests" / "00000001.json").unlink()
    assert not check_at(str(path))[1]
    with pytest.warns(UserWarning, match="the manifest of step 1 of .* is missing; .* after step 0"):
        assert not Store.open(str(path)).manifest().counts
    shutil.rmtree(path / "manifests")
    (path / "everview.step").unlink()
    report, well = check_at(str(path))
    assert not well
    assert "the manifests of " in str(report)
    with pytest.warns(UserWarning, match="the manifests of .* are missing"):
        Store.open(str(path)).manifest()
    with (
        everview.connect(str(path)) as db,
        pytest.raises(StoreError, match=r"the manifests of .* are missing"),
    ):
        db.execute("INSERT INTO s VALUES (2, TIMESTAMP '2026-01-01 00:00:01')")
    notes = RepairNotes()
    diagnose(Store.open(str(path)), notes)
    assert notes.unmendable == ["which rows were inserted into 's' is not known any more"]
