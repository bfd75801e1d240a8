"""A server on a store without Spark: names, plans, reports, and answers that a test makes up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import everview
from everview.database import Database
from everview.server.client import ServedAccess, find_server
from everview.server.server import Server

STREAM = "CREATE STREAM rooms (room STRING, temperature INT, ts TIMESTAMP, TIMELINE ts);"


class WithoutSpark:
    """The store that a server holds, with the little of it that would start Spark left out."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.db = everview.connect(path)
        self.cancelled: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    @property
    def answer_from_views(self) -> bool:
        return self.db.answer_from_views

    @answer_from_views.setter
    def answer_from_views(self, on: bool) -> None:
        self.db.answer_from_views = on

    def reader(self) -> Database:
        return everview.connect(self.path)

    def tagged_jobs(self, tag: str) -> AbstractContextManager[None]:
        return nullcontext()

    def cancel_jobs(self, tag: str) -> None:
        self.cancelled.append(tag)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for the sockets of this user; `tmp_path` may be too long for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        yield Path(short) / "everview"


@pytest.fixture
def path(tmp_path: Path, runtime: Path) -> str:
    """A store with a stream, and a place of its own for its socket."""
    store = str(tmp_path / "store")
    with everview.connect(store) as db:
        db.execute(STREAM)
    return store


@pytest.fixture
def held(path: str) -> Iterator[WithoutSpark]:
    """The store as a server holds it."""
    held = WithoutSpark(path)
    yield held
    held.db.close()


@pytest.fixture
def server(path: str, held: WithoutSpark) -> Iterator[Server]:
    """A server that answers until the test ends."""
    server = Server(path, held)  # type: ignore[arg-type]
    server.start()
    yield server
    if server.running:
        server.stop()


@pytest.fixture
def served(path: str, server: Server) -> ServedAccess:
    """The same store as a client sees it."""
    found = find_server(path)
    assert found is not None
    return found
