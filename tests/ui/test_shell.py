"""The shell without a terminal: entries in, text out; and the prompt with a terminal that is none."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import everview
from everview.server.access import LocalAccess
from everview.ui.prompt import Names, history_file, prompt_session, read_typed_entries
from everview.ui.shell import HELP, Shell, read_piped_entries

STREAM = "CREATE STREAM rooms (room STRING, temperature INT, ts TIMESTAMP, TIMELINE ts);"
HOT = "CREATE VIEW hot AS SELECT room, temperature FROM rooms [RANGE 1 MINUTE] WHERE temperature > 80;"


class Desk:
    """A shell, and what it has said since one last looked."""

    def __init__(self, db: everview.Database, looks: int = 0) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.looks = looks
        self.shell = Shell(LocalAccess(db), self.out, self.err, self.ended)

    def ended(self, seconds: float) -> bool:
        self.looks -= 1
        return self.looks < 0

    def say(self, *entries: str) -> tuple[str, str]:
        for entry in entries:
            assert self.shell.take(entry), f"{entry} left the shell"
        said = self.out.getvalue(), self.err.getvalue()
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        return said


@pytest.fixture
def db(tmp_path: Path) -> Iterator[everview.Database]:
    """A store that nobody asks anything: Spark is not started."""
    with everview.connect(str(tmp_path / "store")) as db:
        yield db


def test_names_plans_and_mistakes_need_no_spark(db: everview.Database) -> None:
    desk = Desk(db)
    assert desk.say("\\d") == ("nothing yet; make a stream with CREATE STREAM\n", "")
    assert desk.say(STREAM, HOT) == ("", "")
    assert desk.say("\\d") == ("stream         rooms\nview           hot\n", "")
    assert desk.say("\\d rooms;") == (
        "stream rooms\n  room         STRING\n  temperature  INT\n  ts           TIMESTAMP  TIMELINE\n"
        "source: INSERT\nwatermark: nothing is known yet\nrows: 0 taken, 0 late, 0 rejected\nused by: hot\n",
        "",
    )
    assert "Filter rooms.temperature > 80" in desk.say("\\explain SELECT * FROM hot")[0]
    assert desk.say("\\?") == desk.say("help") == desk.say("HELP;") == (HELP + "\n", "")
    assert desk.say("\\status")[0].startswith("step 0: not known yet\n\nstream ")
    out, err = desk.say("SELECT * FROM cold;")
    assert (out, err.splitlines()[0]) == ("", "there is no stream, table or view 'cold'")
    assert "did you mean '\\run'?" in desk.say("\\runn")[1]
    assert "\\run does not know 'away'" in desk.say("\\run away")[1]
    assert "only a view has a change stream" in desk.say("\\tail rooms")[1]
    assert desk.say("SHOW VIEWS;") == ("hot\n", "")
    for word in ("\\q", "exit", "Quit;", " exit ; "):
        assert not desk.shell.take(word)


def test_a_fault_does_not_end_the_shell(db: everview.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sql: str) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(db, "statements", fail)
    assert Desk(db).say("SELECT 1;") == ("", "a fault of Everview, not of yours: KeyError: 'odd'\n")


@pytest.mark.spark
def test_a_session(spark: Any, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        desk = Desk(db, looks=1)
        desk.say(STREAM + HOT, "INSERT INTO rooms VALUES ('a', 99, TIMESTAMP '2026-01-01 00:00:01');")
        assert desk.say("\\run") == ("0 rows in, 1 change; known up to 2026-01-01T00:00:01.000000\n", "")
        assert desk.say("SELECT room FROM hot;\n") == ("room\na\n", "")
        out, err = desk.say("\\tail hot")
        assert err == ""
        assert out.splitlines()[1].split() == ["+", "2026-01-01T00:00:01.000000", "a", "99", "NULL"]
        assert desk.say("\\run finish")[0].endswith("known to the end\n")


def test_entries_from_a_pipe() -> None:
    lines = ["SELECT\n", "  ';' AS a -- not yet;\n", ";\n", "\\d\n", "\n", "SELECT 2"]
    assert [e for e in read_piped_entries(lines) if e.strip()] == [
        "SELECT\n  ';' AS a -- not yet;\n;\n",
        "\\d\n",
        "SELECT 2",
    ]


def test_the_prompt(db: everview.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several lines, Ctrl-C that drops what was begun, Ctrl-D; and a history for the next time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    db.execute(STREAM)
    with create_pipe_input() as keys:
        keys.send_text("SELECT 1\nAS one;\n")
        keys.send_text("DROP \x03")
        keys.send_text("SELECT * FROM rooms;\n")
        keys.send_text("\\d\n\x04")
        session = prompt_session(LocalAccess(db), keys, DummyOutput())
        assert isinstance(session.completer, Names)
        found = list(read_typed_entries(session))
    assert found == ["SELECT 1\nAS one;", "SELECT * FROM rooms;", "\\d"]
    assert history_file() == tmp_path / "state" / "everview" / "history"
    assert "+SELECT * FROM rooms;" in history_file().read_text()


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("SELECT temp", ["temperature"]),
        ("sele", ["SELECT"]),
        ("\\ta", ["\\tail"]),
        ("SELECT * FROM roo", ["room", "rooms"]),
        ("SELECT * FROM odd", ["`odd name`"]),
        ("SELECT ", []),
    ],
)
def test_completion(db: everview.Database, text: str, completed: list[str]) -> None:
    db.execute(STREAM + "CREATE TABLE `odd name` (a INT);")
    found = Names(LocalAccess(db)).get_completions(Document(text), CompleteEvent())
    assert sorted(c.text for c in found) == completed
