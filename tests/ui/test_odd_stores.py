"""Every command on stores in odd states: one clear message, exit code 1, never a traceback. No JVM."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from everview.storage.files import MEND_OR_RESTORE
from everview.storage.store import STORE_FORMAT, Store
from everview.ui import cli

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("query", "SELECT 1 AS x"),
    ("query", "DESCRIBE v"),
    ("changes", "v"),
    ("status",),
    ("status", "--format", "json"),
)


def make_file(path: Path) -> None:
    path.write_text("hello")


def make_folder_with_other_files(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("hello")


def make_damaged_settings(path: Path) -> None:
    path.mkdir()
    (path / "everview.json").write_text("{")


def make_odd_settings(path: Path) -> None:
    path.mkdir()
    (path / "everview.json").write_text(json.dumps({"format": STORE_FORMAT, "partitions": "many"}))


def make_damaged_catalog(path: Path) -> None:
    Store.open(str(path), create=True)
    (path / "catalog.json").write_text("[]")


def make_damaged_manifest(path: Path) -> None:
    Store.open(str(path), create=True)
    (path / "manifests").mkdir()
    (path / "manifests" / "00000001.json").write_text("{}")


def make_nothing(path: Path) -> None:
    pass


STATES: tuple[tuple[Callable[[Path], None], str], ...] = (
    (make_nothing, "there is no Everview store at {path}\n  next: check the path, or make a store there\n"),
    (
        make_file,
        "could not list {path}: a file is where a folder should be, or the other way round\n"
        "  next: move it away, or choose another place for the store\n",
    ),
    (
        make_folder_with_other_files,
        "{path} is not an Everview store: it holds other files (notes.txt)\n"
        "  next: check the path, or make a store there\n",
    ),
    (
        make_damaged_settings,
        "{path}/everview.json is damaged: Expecting property name enclosed in double quotes: line 1 column 2 "
        f"(char 1)\n  next: {MEND_OR_RESTORE}\n",
    ),
    (
        make_odd_settings,
        f"{{path}}/everview.json is damaged: partitions is no whole number\n  next: {MEND_OR_RESTORE}\n",
    ),
    (
        make_damaged_catalog,
        "{path}/catalog.json: this is not a catalog\n  next: check that the path is an Everview store\n",
    ),
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0), *capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("make", "said"), STATES, ids=[make.__name__ for make, _ in STATES])
def test_what_is_no_store(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    said: str,
    command: tuple[str, ...],
) -> None:
    path = tmp_path / "store"
    make(path)
    assert run(capsys, *command, "--path", str(path)) == (1, "", said.format(path=path))


def test_an_empty_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "store")
    Store.open(path, create=True)
    assert run(capsys, "status", "--path", path) == (0, "step 0: not known yet\n", "")
    assert run(capsys, "query", "SHOW VIEWS", "--path", path) == (0, "\n", "")
    code, out, err = run(capsys, "changes", "v", "--path", path)
    assert (code, out) == (1, "")
    assert err == (
        "there is no stream, table or view 'v'\n"
        "  next: make one with CREATE STREAM, CREATE TABLE or CREATE VIEW\n"
    )


def test_a_store_whose_only_manifest_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store"
    make_damaged_manifest(path)
    code, out, err = run(capsys, "status", "--path", str(path))
    assert (code, out) == (1, "")
    assert err.startswith(
        f"{path}/manifests/00000001.json is damaged: this is no manifest\n  next: everview repair"
    )


def test_state_as_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "store")
    Store.open(path, create=True)
    code, out, _ = run(capsys, "status", "--path", path, "--format", "json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "kind": "store", "name": None, "watermark": None, "step": 0, "present": None, "finished": False,
            "background": "not running", "error": None,
        }
    ]  # fmt: skip
    code, out, err = run(capsys, "status", "--path", path, "--format", "cvs")
    assert (code, err) == (
        1,
        "an answer is not shown as 'cvs'\n  did you mean 'csv'?\n  choices: table, json, csv\n",
    )


def test_the_version_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, "everview 0.1.0\n", "")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "--install-completion" in out
    assert "--show-completion" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["car"], "'car' is no parameter\n  next: write it as --param name=value\n"),
        (["a=1", "a=2"], "the parameter 'a' is given twice\n  next: give it once\n"),
        (["kar=1"], "no parameter is called :kar\n  did you mean ':car'?\n  choices: :car\n"),
    ],
)
def test_parameters_that_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    path = str(tmp_path / "store")
    Store.open(path, create=True)
    options = [word for each in given for word in ("--param", each)]
    assert run(capsys, "query", "SELECT :car AS x", "--path", path, *options) == (1, "", said)


@pytest.mark.slow
def test_what_java_says_when_it_does_not_start(tmp_path: Path) -> None:
    """The cause is shown, not the warnings before it."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2\n"
        "echo 'Error: Could not create the Java Virtual Machine.' >&2\n"
        "echo 'Invalid maximum heap size: -Xmx1q' >&2\n"
        "echo 'WARNING: and so on' >&2\n"
        "exit 1\n"
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(
        [sys.executable, "-c", """
import everview, sys
try:
    everview.connect(sys.argv[1]).query('SELECT 1 AS x')
except everview.EverviewError as error:
    print(error)
""", str(tmp_path / "store")],
        env={**os.environ, "JAVA_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == (
        "Spark does not start: Invalid maximum heap size: -Xmx1q\n"
        "  next: check that Java 17 or later is there: java -version; "
        "EVERVIEW_LOG=FILE keeps what Spark says\n"
    )
