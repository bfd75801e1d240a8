"""Backup and restore of a store without Spark: whole, verified, and never half."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from everview.algebra.time import INFINITY
from everview.catalog import Catalog, ViewEntry
from everview.errors import StoreError
from everview.operators.columnar.frame import make_frame
from everview.storage import backup as backups
from everview.storage.backup import backup_store, read_backup, restore_store
from everview.storage.check import check_store
from everview.storage.files import Files
from everview.storage.held import HELD, held_steps, hold_manifest
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId
from everview.storage.store import Settings, Store
from everview.storage.trace import Trace
from everview.ui.cli import main
from tests.lanes import one_in
from tests.seeds import seeds

VIEW = TraceId("view", "v")


def grow(store: Store, manifest: Manifest) -> Manifest:
    """One more step: it replaces the rows of the view."""
    step = manifest.step + 1
    frame = make_frame({"c0": list(range(50))}, [(step, INFINITY, 1)] * 50)
    runs = Trace(VIEW, (), store.files).append(frame, step).runs
    after = replace(manifest, step=step, bound=step, traces={VIEW: runs})
    store.write_manifest(after)
    return after


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of three steps."""
    path = tmp_path / "store"
    with Store.open(str(path), Settings(partitions=3), create=True).lock() as store:
        catalog = Catalog()
        catalog.add(ViewEntry("v", "SELECT 1 AS one"))
        store.save_catalog(catalog)
        manifest = store.manifest()
        for _ in range(3):
            manifest = grow(store, manifest)
    return path


def contents(path: Path) -> object:
    store = Store.open(str(path))
    manifest = store.manifest()
    frames = [Trace(t, r, store.files).read().rows() for t, r in manifest.traces.items()]
    return store.settings, manifest, list(store.load_catalog()), frames


def test_a_backup_is_put_back_elsewhere(path: Path, tmp_path: Path) -> None:
    """Checksums hold the path of a file below its store: a store may be moved."""
    made = backup_store(Store.open(str(path)), Files(str(tmp_path / "b")))
    assert (made.step, made.bound, made.settings) == (3, 3, Settings(partitions=3))
    restored = restore_store(Files(str(tmp_path / "b")), Files(str(tmp_path / "elsewhere" / "s")))
    assert restored == made
    assert contents(tmp_path / "elsewhere" / "s") == contents(path)
    assert not check_store(Store.open(str(tmp_path / "elsewhere" / "s"))).problems
    shutil.move(tmp_path / "elsewhere" / "s", tmp_path / "moved")
    assert not check_store(Store.open(str(tmp_path / "moved"))).problems
    with Store.open(str(tmp_path / "moved")).lock() as store:
        grow(store, store.manifest())
    assert not any((path / HELD).iterdir()), "nothing is held any more"


def test_an_empty_store(tmp_path: Path) -> None:
    Store.open(str(tmp_path / "s"), create=True)
    backup_store(Store.open(str(tmp_path / "s")), Files(str(tmp_path / "b")))
    restore_store(Files(str(tmp_path / "b")), Files(str(tmp_path / "t")))
    assert contents(tmp_path / "t") == contents(tmp_path / "s")


def test_the_command_line(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return int(ended.value.code or 0), *capsys.readouterr()

    to, back = str(tmp_path / "b"), str(tmp_path / "back")
    code, out, err = call("backup", to, "--path", str(path))
    files = read_backup(Files(to))
    size = f"{len(files.files)} files, {files.bytes:,} bytes"
    assert (code, err) == (0, "")
    assert out == f"step 3, known to 1970-01-01T00:00:00.000003: {size} copied to {to}\n"
    code, out, err = call("backup", to, "--path", str(path))
    assert (code, out) == (1, "")
    assert err == (
        f"{to} is not empty, and a backup needs a folder of its own\n"
        "  next: choose an empty folder, or one that is not there yet\n"
    )
    assert call("backup", f"{path}/b", "--path", str(path))[2].startswith(
        f"{path}/b lies in the store itself"
    )
    assert call("restore", to, "--path", back)[:2] == (
        0,
        f"step 3, known to 1970-01-01T00:00:00.000003: {size} put back to {back}\n",
    )
    code, out, err = call("restore", to, "--path", back)
    assert (code, out) == (1, "")
    assert err == (
        f"there is already a store at {back}, and restore does not overwrite it\n"
        "  next: move it away first, or give another --path\n"
    )
    assert call("check", "--path", back)[0] == 0
    code, out, err = call("check", "--path", to)
    assert (code, err.splitlines()[0]) == (1, f"{to} is a backup, and no store")
    code, out, err = call("backup", str(tmp_path / "c"), "--path", back, "--format", "json")
    assert json.loads(out)["files"] == len(files.files)
    code, out, err = call("restore", str(path), "--path", str(tmp_path / "d"))
    assert (code, err.splitlines()[0]) == (1, f"{path} is no whole backup: it has no backup.json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("mine")
    code, out, err = call("restore", to, "--path", str(tmp_path / "full"))
    assert (code, err.splitlines()[0]) == (1, f"{tmp_path}/full holds other files (note)")


@pytest.mark.parametrize("seed", one_in(8, seeds(24, 40)))
def test_a_damaged_backup_is_not_put_back(path: Path, tmp_path: Path, seed: int) -> None:
    source = tmp_path / "b"
    backup_store(Store.open(str(path)), Files(str(source)))
    rng = random.Random(seed)
    file = rng.choice(sorted(f for f in source.rglob("*") if f.is_file()))
    data = bytearray(file.read_bytes())
    if rng.random() < 0.2:
        file.unlink()
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged|is no whole backup|newer Everview"):
        restore_store(Files(str(source)), Files(str(tmp_path / "t")))
    assert not (tmp_path / "t").exists()


def test_an_interrupted_backup_is_none(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of files is written last; what an error leaves behind is removed."""
    write = Files.write

    def killed(files: Files, name: str, data: bytes | memoryview) -> None:
        if name.startswith("views/"):
            raise KeyboardInterrupt
        write(files, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", killed)
        patch.setattr(Files, "clear", lambda _: None)  # as after kill -9
        with pytest.raises(KeyboardInterrupt):
            backup_store(Store.open(str(path)), Files(str(tmp_path / "b")))
    with pytest.raises(StoreError, match="is no whole backup"):
        restore_store(Files(str(tmp_path / "b")), Files(str(tmp_path / "t")))
    with pytest.raises(StoreError, match="is not an Everview store"):
        Store.open(str(tmp_path / "b"))
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            backup_store(Store.open(str(path)), Files(str(tmp_path / "c")))
    backup_store(Store.open(str(path)), Files(str(tmp_path / "c")))


def test_an_interrupted_restore_is_run_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = Files(str(tmp_path / "b")), Files(str(tmp_path / "t"))
    backup_store(Store.open(str(path)), source)
    with monkeypatch.context() as patch:
        patch.setattr(backups, "write_settings", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            restore_store(source, target)
    with pytest.raises(StoreError, match="is not an Everview store"):
        Store.open(target)
    restore_store(source, target)
    assert contents(tmp_path / "t") == contents(path)


def test_no_backup_of_a_damaged_store(path: Path, tmp_path: Path) -> None:
    file = next((path / "views").rglob("*3-0000.arrow"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged: its checksum is wrong.*\n  next: everview repair"):
        backup_store(Store.open(str(path)), Files(str(tmp_path / "b")))
    file.unlink()
    with pytest.raises(StoreError, match="is missing\n  next: everview repair"):
        backup_store(Store.open(str(path)), Files(str(tmp_path / "b")))
    assert not any((tmp_path / "b").iterdir())


def test_a_full_disk_and_no_right_to_write(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(files: Files, temporary: str, data: bytes | memoryview, mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Files, "_write_temporary", full)
        with pytest.raises(SystemExit, match="1"):
            main(["backup", str(tmp_path / "b"), "--path", str(path)])
    assert capsys.readouterr().err.startswith("there is no space left to write ")

    def denied(files: Files, folder: str) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Files, "_make_folder", denied)
        with pytest.raises(SystemExit, match="1"):
            main(["backup", str(tmp_path / "c"), "--path", str(path)])
    err = capsys.readouterr().err
    assert err.startswith(f"no right to make {tmp_path}/c: Permission denied\n  next: run as a user who may")


def test_held_manifests_are_kept(path: Path) -> None:
    with Store.open(str(path)).lock() as store:
        manifest = store.manifest()
        with hold_manifest(store.files, manifest.step):
            for _ in range(5):
                manifest = grow(store, manifest)
            store.clean(keep_manifests=1)
            assert held_steps(store.files) == {3}
            assert len(list((path / "views").rglob("*.arrow"))) == 2
        store.clean(keep_manifests=1)
        assert len(list((path / "views").rglob("*.arrow"))) == 1


@pytest.mark.slow
def test_what_a_dead_process_held_is_let_go(path: Path) -> None:
    script = f"""
import os
from everview.storage.files import Files
from everview.storage.held import hold_manifest
with hold_manifest(Files({str(path)!r}), 3):
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    files = Files(str(path))
    assert len(files.list_files(HELD)) == 1
    assert held_steps(files) == set()
    assert not files.list_files(HELD)


@pytest.mark.slow
def test_backups_while_steps_are_written_and_cleaned(path: Path, tmp_path: Path) -> None:
    """Each backup is the store of one step, whatever is cleaned away meanwhile."""
    stop = threading.Event()

    def work() -> None:
        with Store.open(str(path), durable=False).lock() as store:
            manifest = store.manifest()
            while not stop.is_set():
                manifest = grow(store, manifest)
                if manifest.step % 5 == 0:
                    store.save_catalog(store.load_catalog())
                    manifest = store.manifest()
                store.clean(keep_manifests=1)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        steps = []
        for number in range(20):
            source = Files(str(tmp_path / f"b{number}"))
            steps.append(backup_store(Store.open(str(path)), source).step)
            restore_store(source, Files(str(tmp_path / f"t{number}")))
            assert not check_store(Store.open(str(tmp_path / f"t{number}"))).problems
    finally:
        stop.set()
        writer.join()
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]
