"""A store: made, opened, locked, cleaned; and what is not a store is said to be none."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.fs as arrow_fs
import pytest

from everview import operators as P
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY
from everview.algebra.types import INT, TIMESTAMP
from everview.catalog import Catalog, Lateness, StreamEntry, ViewEntry
from everview.errors import PlanError, StoreError
from everview.operators.columnar.frame import Frame, consolidate_frame, make_frame
from everview.plan.views import KeptPlan
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.plans import save_plans
from everview.storage.runs import Run, TraceId
from everview.storage.sizes import view_bytes
from everview.storage.store import Settings, Store

LEFT = TraceId("state", "join", "left")


def rows(*ends: int) -> Frame:
    return make_frame({"v": list(range(len(ends)))}, [(0, end, 1) for end in ends])


def new_store(path: Path) -> Store:
    return Store.open(str(path), create=True, durable=False)


def step(store: Store, manifest: Manifest, frame: Frame, bound: int = 0) -> Manifest:
    """A step as the loop does it: runs first, the manifest last."""
    number = manifest.step + 1
    trace = store.trace(manifest, LEFT).drop_expired(bound).append(frame, number, bound)
    trace = trace.compact(consolidate_frame, number, bound)
    after = Manifest(number, bound, batch=number).with_traces({LEFT: trace.runs})
    store.write_manifest(after)
    return after


def test_made_once_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    made = Store.open(str(path), Settings(4, "Europe/Berlin"), create=True)
    assert made.settings == Settings(4, "Europe/Berlin")
    for again in (Store.open(str(path)), Store.open(str(path), create=True), Store.open(f"file://{path}")):
        assert again.settings == made.settings
    assert json.loads((path / "everview.json").read_text()) == {
        "format": 3, "partitions": 4, "time_zone": "Europe/Berlin", "crc32": 1826132722,
    }  # fmt: skip
    assert Store.open(str(path)).manifest() == Manifest()


def test_other_settings_than_those_of_the_store(tmp_path: Path) -> None:
    new_store(tmp_path)
    with pytest.raises(
        StoreError, match="was made with 8 partitions and time zone UTC, not with 4 partitions"
    ):
        Store.open(str(tmp_path), Settings(4), create=True)


def test_the_strategy_is_kept_and_may_change(tmp_path: Path) -> None:
    """It is saved under the lock; a store by UPA is as it was before there were strategies."""
    new_store(tmp_path)
    before = (tmp_path / "everview.json").read_bytes()
    early = Store.open(str(tmp_path))
    direct = Store.open(str(tmp_path), strategy="direct")
    assert (direct.settings.strategy, Store.open(str(tmp_path)).settings.strategy) == ("DIRECT", "UPA")
    with direct.lock():
        assert Store.open(str(tmp_path)).settings == Settings(strategy="DIRECT")
    kept = json.loads((tmp_path / "everview.json").read_text())
    assert (kept["format"], kept["strategy"]) == (4, "DIRECT")
    assert (tmp_path / "copies/everview.json").read_bytes() == (tmp_path / "everview.json").read_bytes()
    with early.lock():  # it was opened before, and asks for none
        assert early.settings.strategy == "DIRECT"
    Store.open(str(tmp_path), Settings(8), create=True)
    with Store.open(str(tmp_path), strategy="upa").lock():
        assert (tmp_path / "everview.json").read_bytes() == before
    assert Store.open(str(tmp_path / "new"), create=True, strategy="nt").settings.strategy == "NT"


def test_a_strategy_that_there_is_not_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no strategy 'drect'\n  did you mean 'DIRECT'\?\n  choices: UPA"):
        Store.open(str(tmp_path / "s"), create=True, strategy="drect")
    assert not (tmp_path / "s").exists()


def test_settings_that_cannot_be() -> None:
    with pytest.raises(StoreError, match="cannot have 0 partitions"):
        Settings(0)
    with pytest.raises(StoreError, match=r"no time zone 'Europe/Berlni'\n  did you mean 'Europe/Berlin'\?"):
        Settings(time_zone="Europe/Berlni")
    for odd in ("", "../../etc/passwd", "\0"):
        with pytest.raises(StoreError, match="no time zone"):
            Settings(time_zone=odd)


@pytest.mark.parametrize("create", [False, True])
def test_a_folder_with_other_files_is_no_store(tmp_path: Path, create: bool) -> None:
    (tmp_path / "thesis.doc").touch()
    (tmp_path / "pictures").mkdir()
    with pytest.raises(
        StoreError, match=r"is not an Everview store: it holds other files \(pictures, thesis.doc\)"
    ):
        Store.open(str(tmp_path), create=create)
    assert sorted(os.listdir(tmp_path)) == ["pictures", "thesis.doc"]


@pytest.mark.parametrize("create", [False, True])
def test_a_file_is_no_store(tmp_path: Path, create: bool) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(StoreError, match="a file is where a folder should be"):
        Store.open(str(tmp_path / "x"), create=create)
    assert (tmp_path / "x").read_text() == "hello"


def test_no_store_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError, match=f"there is no Everview store at {path}\n  next: check the path"):
            Store.open(str(path))
    assert not (tmp_path / "nowhere").exists()


def test_no_right_to_make_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", denied)
    with pytest.raises(StoreError, match=r"no right to make .*/new: Permission denied"):
        Store.open(str(tmp_path / "new"), create=True)


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"format": 3, "colour": "red"}'])
def test_damaged_settings(tmp_path: Path, content: str) -> None:
    (tmp_path / "everview.json").write_text(content)
    with pytest.raises(StoreError, match=r"everview\.json is damaged"):
        Store.open(str(tmp_path))


def test_a_newer_store(tmp_path: Path) -> None:
    (tmp_path / "everview.json").write_text('{"format": 5, "colour": "red"}')
    with pytest.raises(StoreError, match=r"made by a newer Everview \(format 5, this one reads 3 and 4\)"):
        Store.open(str(tmp_path))


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_store(version: int) -> None:
    """Each was written by the last version of its format.

    After 1 all bytes of a string counted in its hash. After 2 operators and columns of state were renamed,
    and facts that stood in names of files became fields of the manifest.
    """
    path = Path(__file__).parent / "stores" / f"format-{version}"
    for create in (False, True):
        with pytest.raises(StoreError) as refused:
            Store.open(str(path), create=create)
        assert str(refused.value) == (
            f"the store {path} was made by an older Everview (format {version}, this one reads 3 and 4)\n"
            "  next: run its SQL with --path on a new folder, or open it with the Everview that made it"
        )


def test_a_store_whose_making_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "everview.lock").touch()
    (tmp_path / ".everview.json.0a.tmp").touch()
    new_store(tmp_path)
    Store.open(str(tmp_path))


def test_the_catalog(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert list(store.load_catalog()) == []
    catalog = Catalog()
    columns = Schema.of(("id", INT), ("ts", TIMESTAMP), timeline="ts")
    catalog.add(StreamEntry("größe 🚗", columns, (Lateness("ts", 5),)))
    catalog.add(ViewEntry("v", "SELECT id FROM `größe 🚗`", depends_on=("größe 🚗",)))
    with pytest.raises(StoreError, match="is open for reading\n  next: lock"):
        store.save_catalog(catalog)
    with store.lock():
        store.save_catalog(catalog)
    assert Store.open(str(tmp_path)).load_catalog() == catalog
    for content in (
        "",
        "{",
        '{"format": 1}',
        '{"format": 9}',
        '{"format": 1, "entries": [{}], "clock_grain": 1}',
    ):
        (tmp_path / "catalog.json").write_text(content)
        with pytest.raises(StoreError, match=r"catalog\.json"):
            store.load_catalog()


def test_readers_need_no_lock_and_writers_do(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        first = step(store, store.manifest(), rows(5, 9))
        reader = Store.open(str(tmp_path))
        assert reader.manifest() == first
        assert reader.trace(first, LEFT).read().height == 2
        with pytest.raises(StoreError, match="is being written by this same process"):
            reader.lock()
        with pytest.raises(StoreError, match="is open for reading"):
            reader.write_manifest(first)
        with pytest.raises(StoreError, match="is open for reading"):
            reader.clean()
    reader.lock().close()
    store.close()


def test_a_reader_keeps_its_manifest_while_the_writer_goes_on(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        before = manifest = step(store, store.manifest(), rows(100))
        for _ in range(10):
            manifest = step(store, manifest, rows(100, 200))
            store.clean(keep_manifests=20)
        reader = Store.open(str(tmp_path))
        assert reader.trace(before, LEFT).read().height == 1
        store.clean(keep_manifests=1)
        with pytest.raises(StoreError, match="read again, the file was cleaned away"):
            reader.trace(before, LEFT).read()
        assert consolidate_frame(reader.trace(reader.manifest(), LEFT).read()).rows() == [
            (0, 0, 100, 11), (1, 0, 200, 10),
        ]  # fmt: skip


def test_clean_keeps_what_is_named_and_nothing_else_of_ours(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        manifest = Manifest()
        for bound in range(0, 60, 10):
            manifest = step(store, manifest, rows(bound + 5, bound + 25, INFINITY), bound)
        store.save_catalog(Catalog())
        for orphan in (
            "runs/join/left/p0000-00000099-0000.arrow", "late/s/p0000-00000001-0000.arrow",
            "ports/k/00000006-0a.arrow", "views/x/.y.0a.tmp", ".catalog.json.0a.tmp", "manifests/.9.tmp",
        ):  # fmt: skip
            store.files.write(orphan, b"12345")
        store.files.write("checkpoint/offsets/0", b"Spark's")
        cleaned = store.clean(keep_manifests=2)
        assert cleaned.files >= 10
        assert cleaned.bytes > 30
        kept = [f.path for f in store.files.list_files()]
        previous = Manifest.from_json(store.files.read("manifests/00000005.json"))
        assert set(kept) == {
            "everview.json", "everview.lock", "catalog.json", "checkpoint/offsets/0",
            "copies/everview.json", "copies/catalog.json", "everview.step",
            "manifests/00000005.json", "manifests/00000006.json", *manifest.paths(), *previous.paths(),
        }  # fmt: skip
        assert store.clean(keep_manifests=2).files == 0
        assert store.clean(keep_manifests=0).files >= 1, "the last manifest stays"
        assert replace(store.manifest(), catalog=None) == manifest


def test_clean_before_the_first_step(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        store.trace(Manifest(), LEFT).append(rows(5), 1)
        assert store.clean().files == 1


def test_clean_never_goes_by_a_damaged_last_manifest(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        manifest = step(store, step(store, Manifest(), rows(5)), rows(6))
        store.files.write("manifests/00000001.json", b"damaged")
        store.clean()
        assert store.manifest() == manifest, "an old one that is damaged does not matter"
        store.files.write("manifests/00000002.json", b"damaged")
        with pytest.raises(StoreError, match=r"00000002\.json is damaged"):
            store.clean()
        assert all(store.files.exists(path) for path in manifest.paths())


def test_a_writer_is_told_of_a_missing_run_at_the_start(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        manifest = step(store, Manifest(), rows(5))
        (path,) = manifest.paths()
        store.files.delete(path)
        assert store.manifest() == manifest, "who wrote it reads nothing again"
    with (
        Store.open(str(tmp_path)).lock() as store,
        pytest.raises(StoreError, match=f"{path} is missing, and a manifest names it: manifests/00000001"),
    ):
        store.manifest()


def test_a_step_that_was_cut_off_leaves_no_trace(tmp_path: Path) -> None:
    """A crash between the runs and the manifest: the store is as before, the step is run again."""
    with new_store(tmp_path).lock() as store:
        first = step(store, Manifest(), rows(50, 60))
        cut_off = store.trace(first, LEFT).append(rows(70), 2).append(rows(80), 2)
    with Store.open(str(tmp_path)).lock() as store:
        assert store.manifest() == first
        assert store.trace(store.manifest(), LEFT).read().height == 2
        second = step(store, store.manifest(), rows(70))
        assert second.paths() >= {cut_off.runs[1].path}, "the same name"
        assert store.trace(second, LEFT).read().height == 3
        store.clean()
        assert not store.files.exists(cut_off.runs[2].path)
        assert all(store.files.exists(path) for path in second.paths())


def test_a_full_disk_in_the_middle_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with new_store(tmp_path).lock() as store:
        first = step(store, Manifest(), rows(50))
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            with pytest.raises(StoreError, match="there is no space left to write"):
                step(store, first, rows(60))
        assert store.manifest() == first
        assert step(store, first, rows(60)).step == 2


def test_a_lost_lock_stops_the_writer(tmp_path: Path) -> None:
    with new_store(tmp_path).lock() as store:
        manifest = step(store, Manifest(), rows(5))
        os.unlink(tmp_path / "everview.lock")
        with pytest.raises(StoreError, match="was lost"):
            step(store, manifest, rows(6))
        assert Store.open(str(tmp_path)).manifest() == manifest


STEPS = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.storage.test_store import *
store = Store.open(sys.argv[1], create=True).lock()
store.clean()
manifest = store.manifest()
while True:
    manifest = step(store, manifest, rows(10**6, 10**6 + manifest.step), manifest.step)
    store.clean(keep_manifests=3)
    print(manifest.step, flush=True)
"""


@pytest.mark.slow
def test_kill_a_writer_at_any_moment(tmp_path: Path) -> None:
    """After kill -9 the store is whole, holds each step just once, and can be written at once."""
    rng = random.Random(5)
    root = str(Path(__file__).parents[2])
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", STEPS, str(tmp_path), root], stdout=subprocess.PIPE)
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 9))]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Store.open(str(tmp_path)).lock() as store:
            manifest = store.manifest()
            assert manifest.step >= told[-1]
            state = consolidate_frame(store.trace(manifest, LEFT).read(until_after=manifest.bound))
            assert state["_n"].sum() == 2 * manifest.step


@pytest.mark.slow
def test_two_processes_make_a_store_at_once(tmp_path: Path) -> None:
    code = "import sys; from everview.storage.store import *; Store.open(sys.argv[1], create=True)"
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s")], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate()[1] for process in both]
    assert all("is being written by" in error for error in errors if error)
    assert Store.open(str(tmp_path / "s")).settings == Settings()


def test_a_store_that_is_not_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.storage.lock._PAUSE", 0)
    files = Files("bucket/store", filesystem=arrow_fs._MockFileSystem())
    with Store.open(files, create=True).lock() as store:
        manifest = step(store, step(store, Manifest(), rows(5, 50)), rows(60), 10)
        assert store.clean(keep_manifests=1).files > 0
    reader = Store.open(files)
    assert reader.manifest() == manifest
    assert reader.trace(manifest, LEFT).read(until_after=10).height == 2


def test_the_size_of_a_view(tmp_path: Path) -> None:
    """Its changes and the state of its operators; what two views share counts for both."""
    shared = P.DistinctOperator(P.ScanOperator("s", (INT,)), signed=False)
    other = P.DistinctOperator(P.ScanOperator("r", (INT,)), signed=False)
    files = Files(str(tmp_path))
    save_plans(files, [shared, P.UnionOperator(shared, other)], ())

    def run(size: int) -> Run:
        return Run(f"runs/{size}", 1, 2, 3, 0, 1, size)

    manifest = Manifest(
        plans={
            name: KeptPlan(plan.digest, plan.digest)
            for name, plan in {"a": shared, "b": P.UnionOperator(shared, other)}.items()
        }
    ).with_traces(
        {
            TraceId("state", shared.name, "rows"): (run(1), run(2)),
            TraceId("state", other.name, "rows"): (run(10),),
            TraceId("view", "a"): (run(100),),
            TraceId("complete", "a"): (run(1000),),
            TraceId("view", "B"): (run(10000),),
        }
    )
    assert view_bytes(files, manifest, ["a", "b", "new"]) == {"a": 1103, "b": 10013, "new": 0}
