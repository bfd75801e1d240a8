"""Whole files, written at once or not at all, and errors that a person can act on."""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.fs as arrow_fs
import pytest

from everview.errors import StoreError
from everview.storage.files import FileMissing, Files, is_temporary, seal


@pytest.fixture(params=["path", "uri", "other"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """A local folder by path and by URI, and a file system that is not local."""
    match request.param:
        case "path":
            return Files(str(tmp_path / "store"))
        case "uri":
            return Files(f"file://{tmp_path}/store")
    return Files("some/store", filesystem=arrow_fs._MockFileSystem())


def odd_frame() -> pl.DataFrame:
    """Types that a state may have, of which pyarrow does not know all."""
    return pl.DataFrame(
        {
            "wide": pl.Series([2**100, None, -(2**100)], dtype=pl.Int128),
            "money": pl.Series(["1.50", None, "-3.25"]).cast(pl.Decimal(38, 2)),
            "length": pl.Series([1, 2, None]).cast(pl.Duration("us")),
            "day": pl.Series([1, 2, None]).cast(pl.Date),
            "list": [[1], None, []],
            "struct": [{"a": 1}, None, {"a": 2}],
            "bytes": [b"\0", b"", None],
            "text": ["🚗", "", None],
            "float": [float("nan"), -0.0, None],
            "_until": [1, 2, 2**63 - 1],
        }
    )


def test_bytes_come_back(files: Files) -> None:
    files.write("a/b/c.json", b"one")
    files.write("a/b/c.json", b"two")
    assert files.read("a/b/c.json") == b"two"
    assert files.exists("a/b/c.json")
    assert not files.exists("a/b")
    assert [(f.path, f.bytes) for f in files.list_files()] == [("a/b/c.json", 3)]


def test_a_frame_comes_back_with_its_types(files: Files) -> None:
    frame = odd_frame()
    _, size = files.save_frame("runs/x.arrow", frame)
    back = files.read_frame("runs/x.arrow", rows=3)
    assert back.schema == frame.schema
    assert back.equals(frame)
    assert [f.bytes for f in files.list_files("runs")] == [size]
    files.save_frame("runs/none.arrow", frame.clear())
    assert files.read_frame("runs/none.arrow", rows=0).schema == frame.schema


@pytest.mark.parametrize("codec", ["lz4", "uncompressed"])
def test_every_type_that_arrow_knows_comes_back(files: Files, codec: Any) -> None:
    """Also from a file that another version has compressed, or has not."""
    frame = pl.concat([odd_frame().drop("wide")] * 2, rechunk=False)
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression=codec)
    files.write("x.arrow", buffer.getbuffer(), seal("x.arrow", buffer.getbuffer()))
    back = files.read_frame("x.arrow", rows=6)
    assert back.schema == frame.schema
    assert back.equals(frame)


def test_a_frame_outlives_its_file(files: Files) -> None:
    """A reader may still look at a run that is cleaned away, or written again."""
    frame = pl.DataFrame({"v": range(10_000), "t": [f"text that is not short {i}" for i in range(10_000)]})
    files.save_frame("x.arrow", frame)
    back, other = files.read_frame("x.arrow"), files.read_frame("x.arrow", ["t"])
    files.save_frame("x.arrow", frame.reverse())
    assert files.read_frame("x.arrow").equals(frame.reverse())
    files.delete("x.arrow")
    assert back.equals(frame)
    assert other.equals(frame.select("t"))


def test_some_columns_and_rows_of_a_frame(files: Files) -> None:
    files.save_frame("x.arrow", odd_frame())
    back = files.read_frame("x.arrow", ["text", "not there"], pl.col("_until") > 1, rows=3)
    assert back.to_dict(as_series=False) == {"text": ["", None]}


def test_list_and_delete(files: Files) -> None:
    assert files.list_files("nowhere") == []
    assert files.names() == []
    for path in ("b/2", "b/1", "a"):
        files.write(path, b"x")
    assert [f.path for f in files.list_files()] == ["a", "b/1", "b/2"]
    assert [f.path for f in files.list_files("", recursive=False)] == ["a"]
    assert files.names() == ["a", "b"]
    files.delete("b/1")
    files.delete("b/1")
    assert [f.path for f in files.list_files("b")] == ["b/2"]


def test_a_missing_file(files: Files) -> None:
    with pytest.raises(
        FileMissing, match=r"store/runs/x\.arrow is missing\n  next: everview repair mends it"
    ):
        files.read_frame("runs/x.arrow")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd"])
def test_nothing_outside_of_the_store(files: Files, path: str) -> None:
    for act in (files.read, files.delete, files.exists, lambda p: files.write(p, b"")):
        with pytest.raises(StoreError, match="does not lie in the store"):
            act(path)


def test_it_goes_to_another_process(files: Files) -> None:
    other = pickle.loads(pickle.dumps(Files(files.root))) if files.local else files
    other.write("x", b"1")
    assert files.read("x") == b"1"


def test_a_root_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Files("store").root == str(tmp_path / "store")
    assert Files("~/store").root == str(tmp_path / "home" / "store")


def test_odd_roots(tmp_path: Path) -> None:
    for name in ("a b%20c", "*[x]?", "🚗", "o'clock"):
        files = Files(str(tmp_path / name))
        files.save_frame("runs/x.arrow", odd_frame())
        assert files.read_frame("runs/x.arrow").height == 3
        assert (tmp_path / name / "runs" / "x.arrow").exists()


def test_an_unknown_file_system() -> None:
    with pytest.raises(StoreError, match="nope://host/x cannot be opened: Unrecognized filesystem") as caught:
        Files("nope://user:secret@host/x").exists("a")
    assert "secret" not in str(caught.value)


def test_where_a_rename_does_not_replace() -> None:
    class Stubborn(arrow_fs.FileSystemHandler):  # as HDFS is
        def __init__(self) -> None:
            self.inner = arrow_fs._MockFileSystem()

        def move(self, src: str, dest: str) -> None:
            if self.inner.get_file_info(dest).type != arrow_fs.FileType.NotFound:
                raise OSError("cannot rename: there is a file")
            self.inner.move(src, dest)

        def get_file_info(self, paths: list[str]) -> Any:
            return self.inner.get_file_info(paths)

        def get_file_info_selector(self, selector: Any) -> Any:
            return self.inner.get_file_info(selector)

        def create_dir(self, path: str, recursive: bool) -> None:
            self.inner.create_dir(path, recursive=recursive)

        def delete_file(self, path: str) -> None:
            self.inner.delete_file(path)

        def open_input_file(self, path: str) -> Any:
            return self.inner.open_input_file(path)

        def open_output_stream(self, path: str, metadata: Any) -> Any:
            return self.inner.open_output_stream(path)

        def get_type_name(self) -> str:
            return "stubborn"

        def normalize_path(self, path: str) -> str:
            return path

    for name in ("copy_file", "delete_dir", "delete_dir_contents", "delete_root_dir_contents",
                 "open_append_stream", "open_input_stream"):  # fmt: skip
        setattr(Stubborn, name, None)
    Stubborn.__abstractmethods__ = frozenset()
    files = Files("store", filesystem=arrow_fs.PyFileSystem(Stubborn()))
    files.write("x", b"one")
    files.write("x", b"two")
    assert files.read("x") == b"two"
    assert [f.path for f in files.list_files()] == ["x"]


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def no_right(*_: Any, **__: Any) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    files = Files(str(tmp_path))
    files.write("runs/x", b"old")
    monkeypatch.setattr(os, place, full_disk)
    with pytest.raises(StoreError) as caught:
        files.write("runs/x", b"new")
    assert str(caught.value) == (
        f"there is no space left to write {tmp_path}/runs/x\n"
        "  next: make space and start again; the store is as its last finished step left it"
    )
    assert [f.path for f in files.list_files()] == ["runs/x"], "what was begun is gone"
    assert files.read("runs/x") == b"old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_of_the_system_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(str(tmp_path))

    def write_to_full(temporary: str, data: Sequence[bytes], mode: int) -> None:
        with open("/dev/full", "wb") as handle:
            handle.writelines(data)

    monkeypatch.setattr(files, "_write_temporary", write_to_full)
    with pytest.raises(StoreError, match="there is no space left to write"):
        files.save_frame("x.arrow", odd_frame())


@pytest.mark.parametrize(
    ("act", "verb"),
    [(lambda f: f.write("x", b""), "write"), (lambda f: f.write("new/x", b""), "write")],
)
def test_no_right_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Files], None], verb: str
) -> None:
    monkeypatch.setattr("builtins.open", no_right)
    with pytest.raises(StoreError, match=f"no right to {verb} .*: Permission denied\n  next: run as a user"):
        act(Files(str(tmp_path)))


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    files.write("a", b"")
    with pytest.raises(StoreError, match="a file is where a folder should be"):
        files.write("a/b", b"")
    with pytest.raises(StoreError, match=r"could not (write|list|read)"):
        files.list_files("a")


@pytest.mark.parametrize("frame", [odd_frame(), odd_frame().drop("wide")], ids=["polars", "arrow"])
@pytest.mark.parametrize("cut", [0, 1, 10, 200, -1])
def test_a_truncated_frame_is_named(tmp_path: Path, cut: int, frame: pl.DataFrame) -> None:
    files = Files(str(tmp_path))
    files.save_frame("x.arrow", frame)
    files.write("x.arrow", files.read("x.arrow")[:cut])
    with pytest.raises(
        StoreError, match=rf"{tmp_path}/x\.arrow is damaged: .*\n  next: everview repair mends it"
    ):
        files.read_frame("x.arrow", ["text"])


def test_another_frame_under_the_same_name_is_named(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    files.save_frame("x.arrow", odd_frame())
    with pytest.raises(StoreError, match="it has 3 rows, and was written with 5"):
        files.read_frame("x.arrow", rows=5)


def test_what_is_temporary() -> None:
    assert is_temporary("runs/.x.arrow.0a1b.tmp")
    assert not is_temporary("runs/x.arrow")
    assert not is_temporary("runs/x.tmp")


def test_definitions_are_for_their_owner_alone(tmp_path: Path) -> None:
    """What tasks read has the usual mode."""
    files = Files(str(tmp_path))
    for path in ("catalog.json", "copies/catalog.json", "manifests/00000001.json", "sinks/x.json"):
        files.write(path, b"{}")
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o600, path
    files.write("everview.json", b"{}")
    assert (tmp_path / "everview.json").stat().st_mode & 0o600 == 0o600
    assert (tmp_path / "everview.json").stat().st_mode & 0o044 == 0o044 & ~umask()


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_one_uri_for_hadoop_and_pyarrow() -> None:
    files = Files("s3a://bucket/store?region=us-east-1")
    assert files.full_path("x") == "bucket/store/x"
    assert str(files).startswith("s3a://bucket/store")
