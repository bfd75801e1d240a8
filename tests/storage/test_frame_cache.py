"""Frames that are kept in memory answer as their files do, whatever happens to the files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everview.errors import StoreError
from everview.operators.columnar.frame import UNTIL, consolidate_frame, make_frame
from everview.storage import files as files_module
from everview.storage.files import FileMissing, Files, seal
from everview.storage.frame_cache import LARGEST_COPY, FrameCache, bytes_in_memory, version_of
from everview.storage.packs import packing
from everview.storage.runs import TraceId
from everview.storage.trace import Trace

LARGE = LARGEST_COPY // 8 + 1  # rows of one column that are more than a copied file has


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> tuple[FrameCache, FrameCache]:
    """Give the process caches of its own."""
    return use_caches(monkeypatch, 1 << 20, 1 << 22)


def use_caches(monkeypatch: pytest.MonkeyPatch, copied: int, mapped: int) -> tuple[FrameCache, FrameCache]:
    both = FrameCache(copied), FrameCache(mapped)
    for name, cache in zip(("COPIED", "MAPPED"), both, strict=True):
        monkeypatch.setattr(files_module, name, cache)
    return both


def numbers(seed: int, rows: int) -> pl.DataFrame:
    return pl.DataFrame({"v": range(seed, seed + rows), "w": [seed] * rows})


PATHS = ("runs/a.arrow", "runs/b.arrow", "views/c.arrow")
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "replace", "delete", "read", "read", "columns", "rows"]),
        st.sampled_from(PATHS),
        st.integers(0, 9),
    ),
    max_size=30,
)


@given(ACTIONS, st.sampled_from([0, 400, 1200, 1 << 20]), st.sampled_from([3, 20, LARGE]))
@settings(
    max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_reads_are_those_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, int]], most: int, rows: int
) -> None:
    """Files written again with as many bytes, by this process or another, deleted, and read; few are kept."""
    files, there = Files(str(tmp_path_factory.mktemp("store")), durable=False), {}
    with pytest.MonkeyPatch.context() as patch:
        both = use_caches(patch, most, 8 * most)
        for action, path, seed in actions:
            frame = numbers(seed, rows)
            if action == "write":
                files.save_frame(path, frame)
                there[path] = frame
            elif action == "replace":
                replace_from_outside(files, path, frame)
                there[path] = frame
            elif action == "delete":
                files.delete(path)
                there.pop(path, None)
            elif path not in there:
                with pytest.raises(FileMissing):
                    files.read_frame(path)
            elif action == "columns":
                assert files.read_frame(path, ["w"]).equals(there[path].select("w"))
            elif action == "rows":
                found = files.read_frame(path, ["w"], pl.col("v") > seed, rows)
                assert found.equals(there[path].filter(pl.col("v") > seed).select("w"))
            else:
                assert files.read_frame(path, rows=rows).equals(there[path])
            assert all(cache.bytes <= cache.most_bytes for cache in both)


def replace_from_outside(files: Files, path: str, frame: pl.DataFrame) -> None:
    """Write a file as another process does: this one is not told."""
    other = files.below("elsewhere")
    other.save_frame("x.arrow", frame)
    full, data = files.full_path(path), other._mapped("x.arrow").to_pybytes()[:-8]
    os.makedirs(os.path.dirname(full), exist_ok=True)
    Path(f"{full}.new").write_bytes(data + seal(path, memoryview(data)))
    os.replace(f"{full}.new", full)


@pytest.mark.parametrize("rows", [3, LARGE])
def test_a_second_read_decodes_nothing(
    tmp_path: Path, caches: tuple[FrameCache, FrameCache], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    files = Files(str(tmp_path))
    files.save_frame("x.arrow", numbers(1, rows))
    files.read_frame("x.arrow")
    assert [len(cache) for cache in caches] == ([1, 0] if rows == 3 else [0, 1])
    monkeypatch.setattr(files_module, "decode_frame", None)
    assert files.read_frame("x.arrow", ["v"]).equals(numbers(1, rows).select("v"))


def test_least_recently_read_frames_go_first() -> None:
    cache, frame = FrameCache(300), numbers(1, 1)
    for name in "abc":
        cache.put(name, (1,), frame, 100)
    assert cache.get("a", (1,)) is not None
    cache.put("d", (1,), frame, 150)
    assert [name for name in "abcd" if cache.get(name, (1,)) is not None] == ["a", "d"]
    assert cache.bytes == 250
    cache.put("e", (1,), frame, 301)
    assert (len(cache), cache.bytes) == (2, 250), "a frame that is too large drives out no other"


@pytest.mark.parametrize("rows", [3, LARGE])
def test_damage_is_noticed_although_the_frame_is_kept(
    tmp_path: Path, caches: tuple[FrameCache, FrameCache], rows: int
) -> None:
    files = Files(str(tmp_path))
    files.save_frame("x.arrow", numbers(1, rows))
    files.read_frame("x.arrow")
    data = bytearray((tmp_path / "x.arrow").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "x.arrow").write_bytes(data)
    with pytest.raises(StoreError, match="its checksum is wrong"):
        files.read_frame("x.arrow")


def test_a_file_that_was_copied_over_another_has_another_version(tmp_path: Path) -> None:
    """Even with the size and the modification time of the old one, as `rsync --inplace --times` leaves it."""
    (tmp_path / "x").write_bytes(b"old")
    before = os.stat(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"new")
    os.utime(tmp_path / "x", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.chmod(tmp_path / "x", 0o600)
    after = os.stat(tmp_path / "x")
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert version_of(after) != version_of(before)


def test_who_changes_a_frame_changes_his_own(tmp_path: Path, caches: tuple[FrameCache, FrameCache]) -> None:
    files = Files(str(tmp_path))
    files.save_frame("x.arrow", numbers(1, 3))
    for _ in range(3):
        found = files.read_frame("x.arrow")
        assert found.equals(numbers(1, 3))
        found.insert_column(0, pl.Series("other", [7, 8, 9]))


def test_a_deleted_file_takes_no_space(tmp_path: Path, caches: tuple[FrameCache, FrameCache]) -> None:
    """Small files are not mapped; larger ones are let go at the next read after they were deleted."""
    files = Files(str(tmp_path))
    for name in ("own.arrow", "other.arrow", "third.arrow"):
        files.save_frame(name, numbers(1, LARGE))
        files.read_frame(name)
    files.save_frame("small.arrow", numbers(1, 3))
    files.read_frame("small.arrow")
    assert mapped_files(tmp_path) == {"own.arrow", "other.arrow", "third.arrow"}
    files.delete("own.arrow")
    assert mapped_files(tmp_path) == {"other.arrow", "third.arrow"}
    os.unlink(tmp_path / "other.arrow")
    caches[1]._next_sweep = 0.0
    files.read_frame("small.arrow")
    assert mapped_files(tmp_path) == {"third.arrow"}


def mapped_files(folder: Path) -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {
        line.split(f"{folder}/", 1)[1].removesuffix(" (deleted)") for line in lines if f"{folder}/" in line
    }


def test_runs_of_a_packed_file_are_kept_one_by_one(
    tmp_path: Path, caches: tuple[FrameCache, FrameCache]
) -> None:
    with packing(Files(str(tmp_path)), step=7) as packed:
        paths = [packed.save_frame(f"views/v/{i}.arrow", numbers(i, 3))[0] for i in range(4)]
        assert packed.read_frame(paths[1]).equals(numbers(1, 3))
        assert not len(caches[0]), "a file that is not written yet has no version"
    for _ in range(2):
        for i, path in enumerate(paths):
            assert Files(str(tmp_path)).read_frame(path).equals(numbers(i, 3))
    assert [len(cache) for cache in caches] == [4, 0]
    assert not mapped_files(tmp_path)


@pytest.mark.slow
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=8), max_size=12))
@settings(max_examples=settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_trace_answers_the_same_without_them(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[int, int]]]
) -> None:
    """A trace grows and is merged; steps run twice, as after a crash, the second time with other rows."""
    answers: list[list[Any]] = []
    for most in (0, 700, 1 << 20):
        folder, found = str(tmp_path_factory.mktemp("store")), []
        with pytest.MonkeyPatch.context() as patch:
            use_caches(patch, most, most)
            trace = Trace(TraceId("state", "join", "left"), (), Files(folder, durable=False))
            for step, rows in enumerate(steps):
                for given_rows in (rows[1:], rows):
                    frame = make_frame(
                        {"v": pl.Series([v for v, _ in given_rows], dtype=pl.Int64)},
                        [(0, until, 1) for _, until in given_rows],
                    )
                    grown = trace.append(frame, step, bound=step)
                    found.append(sorted(grown.read(frame.clear(), until_after=step).rows()))
                    found.append(sorted(grown.read(frame.clear(), due=(step, step + 9)).rows()))
                    found.append(sorted(grown.read(frame.clear(), at=step, columns=["v", UNTIL]).rows()))
                trace = grown.compact(lambda rows, _: consolidate_frame(rows), step, step)
        answers.append(found)
    assert answers[0] == answers[1] == answers[2]


def test_small_frames_count_with_what_their_columns_take() -> None:
    """A frame of a few rows takes 2 KiB a column beside its values: many of them are not nothing."""
    few = numbers(1, 1)
    assert bytes_in_memory(few, 100) >= 100 + 2048 * few.width
    many = numbers(1, 100_000)
    assert bytes_in_memory(many, 100) < 1.1 * many.estimated_size()
