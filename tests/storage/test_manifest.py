"""Manifests: what is written is read, what is damaged is named, what is newer is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.time import INFINITY, LEAST
from everview.errors import StoreError
from everview.operators.columnar.frame import BEFORE_ALL, make_frame
from everview.storage import manifest as manifests
from everview.storage.files import FileMissing, Files
from everview.storage.manifest import MANIFEST_FORMAT, DamagedManifest, Manifest
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace

instants = st.integers(BEFORE_ALL, INFINITY)
names = st.text(max_size=8)
runs = st.builds(
    Run, st.text(), st.integers(1), instants, instants, instants, instants, st.integers(0),
    st.lists(instants, max_size=7).map(tuple), st.none() | st.integers(0), st.integers(0), st.integers(-1),
    names, st.none() | names,
)  # fmt: skip
ids = st.builds(
    TraceId,
    st.sampled_from(["state", "view", "inbox", "late", "rejected"]),
    names,
    names,
    st.integers(0, 99),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.integers(0, 99),
)
some_manifests = st.builds(
    Manifest, st.integers(0, 10**9), instants, st.dictionaries(names, st.dictionaries(names, instants)),
    instants,
    st.dictionaries(ids, st.lists(runs, min_size=1, max_size=3).map(tuple), max_size=4),
    st.none() | st.integers(0, 10**9), st.booleans(),
)  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path))


@given(some_manifests)
def test_what_is_written_is_read(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_the_last_one_counts(files: Files) -> None:
    assert manifests.read_latest(files) is None
    for step in (1, 2, 10, 9, 99_999_999, 123_456_789):
        manifests.write(files, Manifest(step, bound=step))
        files.write("manifests/notes.txt", b"not ours")
    assert [f.path for f in files.list_files("manifests")][:2] == [
        "manifests/00000001.json", "manifests/00000002.json",
    ]  # fmt: skip
    found = manifests.read_latest(files)
    assert found is not None
    assert found.step == 123_456_789


def test_a_step_that_is_run_again_writes_the_same_manifest(files: Files) -> None:
    manifests.write(files, Manifest(4, bound=7))
    manifests.write(files, Manifest(4, bound=7))
    assert manifests.list_steps(files) == [4]


def test_traces() -> None:
    run = Run("runs/a", 1, 2, 3, 0, 1, 9)
    left, right = (TraceId("state", "Join", side, 0) for side in ("left", "right"))
    manifest = Manifest().with_traces({left: (run,), TraceId("view", "v"): (run,)})
    assert manifest.runs(left) == (run,)
    assert manifest.runs(right) == ()
    assert set(manifest.of("state", "JOIN")) == {left}
    assert set(manifest.of("view")) == {TraceId("view", "v")}
    assert manifest.paths() == {"runs/a"}
    assert manifest.with_traces({left: (), right: (run,)}).of("state") == {right: (run,)}


def test_a_newer_format_is_refused(files: Files) -> None:
    manifests.write(files, Manifest(1))
    body = json.loads(Manifest(2).to_json()) | {"format": MANIFEST_FORMAT + 1, "body": "who knows"}
    files.write("manifests/00000002.json", json.dumps(body).encode())
    for only_reading in (False, True):
        with pytest.raises(StoreError) as caught:
            manifests.read_latest(files, only_reading)
        assert str(caught.value) == (
            f"{files}/manifests/00000002.json: it was written by a newer Everview "
            f"(format {MANIFEST_FORMAT + 1}, this one reads {MANIFEST_FORMAT})\n  next: upgrade Everview"
        )


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    return data.replace(b'"bound":7', b'"bound":8')


@pytest.mark.parametrize(
    "damage",
    [_cut, _flipped, lambda _: b"", lambda _: b"null", lambda _: b"[]", lambda _: b"\xff\xfe",
     lambda _: b"{}", lambda _: b'{"format": 1}', lambda _: b'{"format": "1"}'],
)  # fmt: skip
def test_a_damaged_manifest(files: Files, damage: object) -> None:
    assert callable(damage)
    manifests.write(files, Manifest(1, bound=5))
    manifests.write(files, Manifest(2, bound=7))
    files.write("manifests/00000002.json", damage(files.read("manifests/00000002.json")))
    with pytest.raises(
        DamagedManifest,
        match=r"manifests/00000002.json is damaged: .*\n  next: everview repair .* backup back",
    ):
        manifests.read_latest(files)
    with pytest.warns(UserWarning, match=r"00000002.json is damaged.*as it was before step 2"):
        found = manifests.read_latest(files, only_reading=True)
    assert found is not None
    assert found.bound == 5


def test_nothing_before_a_damaged_manifest(files: Files) -> None:
    files.write("manifests/00000001.json", b"")
    for only_reading in (False, True):
        with pytest.raises(DamagedManifest, match=r"00000001\.json is damaged"):
            manifests.read_latest(files, only_reading)


def test_a_manifest_is_cleaned_away_while_a_reader_looks(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        manifests.write(files, Manifest(step))
    read = manifests.read

    def read_late(files: Files, step: int) -> Manifest:
        if step == 2:
            files.delete(manifests.path_of(2))
            manifests.write(files, Manifest(3))
        return read(files, step)

    monkeypatch.setattr(manifests, "read", read_late)
    found = manifests.read_latest(files)
    assert found is not None
    assert found.step == 3


def test_a_missing_run_is_named(files: Files) -> None:
    trace = Trace(TraceId("state", "j"), (), files)
    for step in (1, 2, 3):
        trace = trace.append(make_frame({"v": [1]}, [(0, 9, 1)]), step)
    manifest = Manifest(3).with_traces({trace.id: trace.runs})
    manifests.check_runs(files, manifest)
    files.delete(trace.runs[1].path)
    files.delete(trace.runs[2].path)
    with pytest.raises(FileMissing) as caught:
        manifests.check_runs(files, manifest)
    assert str(caught.value) == (
        f"{files}/runs/j/p0000-00000002-0000.arrow is missing, and a manifest names it: "
        "manifests/00000003.json (and 1 more file)\n"
        "  next: who only reads and has read for long: read again, the file was cleaned away; "
        "else everview repair mends it, or names what is lost; everview restore puts a backup back"
    )


def test_the_ends_of_time_survive() -> None:
    run = Run("a", 1, LEAST, INFINITY, BEFORE_ALL, INFINITY, 1)
    manifest = Manifest(1, INFINITY, finished=True).with_traces({TraceId("view", "v"): (run,)})
    assert Manifest.from_json(manifest.to_json()) == manifest
