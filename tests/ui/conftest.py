"""The command line in this process, on the session that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import everview
from everview.ui import cli, commands


class Said(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def call(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command; nothing but the start of Spark is left out."""

    def connect(
        path: str, settings: object = None, partitions: int = 2, strategy: str | None = None
    ) -> everview.Database:
        return everview.connect(path, spark, None if everview_is_at(path) else partitions, strategy)

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    monkeypatch.setattr(commands, "connect", connect)
    return call


def everview_is_at(path: str) -> bool:
    from everview.storage.files import Files
    from everview.storage.store import SETTINGS_FILE

    return Files(path).exists(SETTINGS_FILE)
