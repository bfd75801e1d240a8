"""Packed files: several runs in one file, each with its checksum, moved before they grow old."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
import pytest

from everview.errors import StoreError
from everview.operators.columnar.frame import make_frame
from everview.storage.addresses import file_of
from everview.storage.backup import backup_store, restore_store
from everview.storage.check import check_store
from everview.storage.files import FileMissing, Files
from everview.storage.manifest import Manifest
from everview.storage.packs import move_runs, packing
from everview.storage.runs import Run, TraceId
from everview.storage.store import Store
from everview.storage.trace import Trace

SUMS, NAMES = TraceId("view", "sums"), TraceId("view", "names")


def rows(*values: int) -> pl.DataFrame:
    return make_frame({"v": list(values), "s": [f"row {v}" for v in values]}, [(v, 99, 1) for v in values])


def written(files: Files, trace: TraceId, frame: pl.DataFrame, step: int) -> Run:
    return Trace(trace, (), files).append(frame, step).runs[0]


@pytest.fixture(params=["local", "other"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "local":
        return Files(str(tmp_path), durable=False)
    return Files("x", filesystem=arrow_fs.SubTreeFileSystem(str(tmp_path), arrow_fs.LocalFileSystem()))


def test_runs_of_a_kind_are_one_file(files: Files) -> None:
    with packing(files, 3) as packed:
        runs = [written(packed, TraceId("view", f"v{i}"), rows(i, i + 1), 3) for i in range(5)]
        state = written(packed, TraceId("state", "join", "left"), rows(7), 3)
        assert packed.read_frame(runs[2].path).equals(rows(2, 3)), "before the file is written"
    assert len({file_of(run.path) for run in runs}) == 1
    assert sorted(f.path for f in files.list_files()) == sorted({file_of(r.path) for r in (*runs, state)})
    for i, run in enumerate(runs):
        assert files.read_frame(run.path, rows=2).equals(rows(i, i + 1))
        assert files.read_frame(run.path, ["s"], pl.col("v") > i).rows() == [(f"row {i + 1}",)]
        files.verify(run.path)


def test_parts_of_a_piece(files: Files) -> None:
    with packing(files, 3) as packed:
        packed.save_frame("ports/a/x.arrow", rows(1))
        address, _ = packed.save_parts("ports/b/x.arrow", [rows(1), rows(1).clear(), rows(2, 3)])
    assert [part.height for part in files.read_parts(address)] == [1, 0, 2]
    assert files.read_part(address, 2).equals(rows(2, 3))


def test_what_has_a_file_of_its_own(files: Files) -> None:
    """Large runs, and rows that came from outside."""
    with packing(files, 3) as packed:
        large = written(packed, SUMS, rows(*range(20_000)), 3)
        inserted = written(packed, TraceId("inbox", "s"), rows(1), 3)
    assert large.path == SUMS.path(3, 0)
    assert inserted.path == TraceId("inbox", "s").path(3, 0)
    assert files.read_frame(large.path, rows=20_000).height == 20_000


def test_nothing_is_written_by_a_task_that_fails(files: Files) -> None:
    def fail() -> None:
        with packing(files, 3) as packed:
            packed.save_frame("views/a/x.arrow", rows(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not files.list_files()
    with packing(files, 4):
        pass
    assert not files.list_files()


def test_packed_files_are_pickled_as_files(tmp_path: Path) -> None:
    with packing(Files(str(tmp_path)), 3) as packed:
        assert type(pickle.loads(pickle.dumps(packed))) is Files


def test_damage_of_one_run_is_not_that_of_another(files: Files, tmp_path: Path) -> None:
    with packing(files, 3) as packed:
        runs = [written(packed, TraceId("view", f"v{i}"), rows(i), 3) for i in range(3)]
    path = next(tmp_path.rglob("packed-*"))
    data = bytearray(path.read_bytes())
    offset, size = map(int, runs[1].path.split("#")[1].split("+"))
    data[offset + size // 2] ^= 4
    path.write_bytes(data)
    for run in (runs[0], runs[2]):
        files.verify(run.path)
    with pytest.raises(StoreError, match=r"packed-00000003-\w+\.arrow is damaged: its checksum is wrong"):
        files.verify(runs[1].path)
    # The bytes of another run, which are whole, do not pass for it.
    data[offset : offset + size] = data[:size]
    path.write_bytes(data)
    with pytest.raises(StoreError, match="its checksum is wrong: it was changed, or is another file"):
        files.verify(runs[1].path)
    path.write_bytes(data[:offset])
    files.verify(runs[0].path)
    for run in runs[1:]:
        with pytest.raises(StoreError, match="it was cut off"):
            files.read_frame(run.path)
    path.unlink()
    with pytest.raises(FileMissing):
        files.read_frame(runs[0].path)


def test_runs_that_last_are_moved(files: Files) -> None:
    """Moved as they are, and once, also if two traces have them; the file that they were in can go."""
    with packing(files, 1) as packed:
        kept, gone = written(packed, SUMS, rows(1), 1), written(packed, NAMES, rows(2), 1)
    own = written(files, SUMS, rows(3), 1)
    answer = TraceId("complete", "sums")
    traces = {SUMS: (own, kept), answer: (kept,), NAMES: (written(files, NAMES, rows(4), 1),)}
    with packing(files, 20) as packed:
        assert move_runs(traces, packed, 20) == {}
    with packing(files, 40) as packed:
        moved = move_runs(traces, packed, 40)
    assert set(moved) == {SUMS, answer}
    assert moved[SUMS][0] == own
    assert moved[SUMS][1].path == moved[answer][0].path != kept.path
    assert moved[SUMS][1].rows == kept.rows
    files.delete(file_of(gone.path))
    assert files.read_frame(moved[answer][0].path).equals(rows(1))


def test_a_store_with_packed_files(tmp_path: Path) -> None:
    """Clean-up, check, backup and restore go by files, of which several runs may be parts."""
    path = str(tmp_path / "store")
    with Store.open(path, create=True, durable=False).lock() as store:
        runs: dict[TraceId, tuple[Run, ...]] = {}
        for step in range(1, 6):
            with packing(store.files, step) as packed:
                for trace in (SUMS, NAMES):
                    runs[trace] = (*runs.get(trace, ()), written(packed, trace, rows(step), step))
            store.write_manifest(Manifest(step, step, traces=runs))
        assert len(store.files.list_files("views")) == 5
        store.write_manifest(Manifest(6, 6, traces={SUMS: runs[SUMS][2:], NAMES: runs[NAMES][:1]}))
        assert store.clean(keep_manifests=1).files == 5 + 1, "five manifests, and the file of step 2"
        found = check_store(store)
        assert (found.files, found.problems) == (4, ())
        backup_store(store, Files(str(tmp_path / "backup")))
        restore_store(Files(str(tmp_path / "backup")), Files(str(tmp_path / "again")))
        again = Store.open(str(tmp_path / "again"))
        assert Trace(SUMS, again.manifest().runs(SUMS), again.files).read().equals(rows(3, 4, 5))
        store.files.delete(file_of(runs[SUMS][3].path))
        (problem,) = check_store(store).problems
        assert (problem.path, problem.contents) == (file_of(runs[SUMS][3].path), "changes of the view 'sums'")


def test_a_task_maps_a_packed_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(str(tmp_path))
    with packing(files, 3) as packed:
        runs = [written(packed, TraceId("view", f"v{i}"), rows(i), 3) for i in range(5)]
    mapped: list[str] = []
    original = Files._mapped_file

    def counted(self: Files, file: str) -> object:
        mapped.append(file)
        return original(self, file)

    monkeypatch.setattr(Files, "_mapped_file", counted)
    with packing(files, 4) as packed:
        assert [packed.read_frame(run.path)["v"].to_list() for run in runs] == [[i] for i in range(5)]
    assert mapped == [file_of(runs[0].path)]
