"""The command line: what it prints, and its exit codes. No JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EVERVIEW = Path(sys.executable).with_name("everview")


def everview(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([EVERVIEW, *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def test_demo_shows_the_numbers_of_the_paper() -> None:
    done = everview("demo")
    assert done.returncode == 0
    for number in ("18.28", "19.805", "19.7666", "20.5099", "19.69"):
        assert number in done.stdout
    assert done.stderr == ""


def test_explain_a_file(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(
        "CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT v FROM s [NOW];"
    )
    done = everview("explain", "v.sql", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "View v  · WKS"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["explain", "SELECT v FROM nothing"],
            "there is no stream, table or view 'nothing'\n  line 1, column 15",
        ),
        (["explain", "SELEC 1"], "no statement begins like this\n  line 1, column 1"),
        (
            ["explain", "missing.sql"],
            "cannot read missing.sql: No such file or directory\n  next: check the path",
        ),
        (["demo", "highwy"], "there is no demo 'highwy'\n  did you mean 'highway'?"),
        (["nothing"], "No such command"),
        (["explain"], "Missing argument"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_1(arguments: list[str], said: str) -> None:
    done = everview(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
