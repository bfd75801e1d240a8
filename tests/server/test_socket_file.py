"""Where the socket of a server lies, and who may use it."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from everview.errors import StoreError
from everview.server.client import find_server
from everview.server.socket_file import make_folder, require_own_folder, socket_path


def test_the_path_is_short_and_one_for_a_store(runtime: Path, tmp_path: Path) -> None:
    store = tmp_path / "a" / "store"
    store.mkdir(parents=True)
    (tmp_path / "link").symlink_to(store)
    found = socket_path(str(store))
    assert found.parent == runtime
    assert found == socket_path(f"{store}/") == socket_path(str(tmp_path / "a" / ".." / "link"))
    assert found != socket_path(str(tmp_path / "a"))
    assert len(os.fsencode(socket_path("/" + "long/" * 500))) < 104
    assert socket_path("s3://bucket/store/") == socket_path("s3://bucket/store") != found


def test_a_runtime_folder_that_is_not_usable_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    own = Path(f"/tmp/everview-{os.getuid()}")
    for runtime in (tmp_path / "gone", tmp_path / ("n" * 90)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        assert socket_path("store").parent == own
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert socket_path("store").parent == own
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/" + "n" * 100)
    with pytest.raises(StoreError, match="has too long a path for a socket"):
        socket_path("store")


def test_the_folder_is_the_users_alone(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(runtime)
    make_folder(runtime)
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    runtime.chmod(0o755)
    with pytest.raises(StoreError) as refused:
        make_folder(runtime)
    assert str(refused.value) == (
        f"{runtime}, where the socket of a server lies, has mode 0755, not 0700\n  next: chmod 700 {runtime}"
    )
    runtime.chmod(0o700)
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: 4711)
        with pytest.raises(StoreError, match="is not a folder of yours"):
            require_own_folder(runtime)
    link = tmp_path / "link"
    link.symlink_to(runtime)
    with pytest.raises(StoreError, match="is not a folder of yours"):
        require_own_folder(link)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made: Not a directory"):
        make_folder(tmp_path / "file" / "everview")


def test_a_client_does_not_ask_in_a_folder_that_others_could_use(runtime: Path) -> None:
    runtime.mkdir(mode=0o755)
    runtime.chmod(0o755)
    assert find_server("store") is None, "there is no socket"
    socket_path("store").touch()
    with pytest.raises(StoreError, match="has mode 0755, not 0700"):
        find_server("store")


def test_a_stale_socket_is_no_server(runtime: Path) -> None:
    """A server that was killed leaves its socket behind, and nobody listens at it."""
    make_folder(runtime)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path("store")))
        listener.listen()
        assert find_server("store") is not None
    assert socket_path("store").exists()
    assert find_server("store") is None
