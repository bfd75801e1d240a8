"""A store that is served by a process of its own: the same answers, changes while steps go on, its end."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everview.errors import EverviewError
from everview.query.answers import FetchedAnswer
from everview.server.client import ServedAccess, find_server
from everview.server.socket_file import socket_path
from everview.ui import commands
from tests.ui.conftest import Call, Said
from tests.ui.test_process import EVERVIEW, PATIENCE, put, started, steps, wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (k STRING, ts TIMESTAMP, TIMELINE ts) FROM csv('in', header => true);
CREATE VIEW held AS SELECT k, ts FROM s [RANGE 1 HOUR];
CREATE VIEW number AS SELECT COUNT(*) AS n FROM s;
CREATE TABLE t
  (i INT, l BIGINT, f FLOAT, d DOUBLE, e DECIMAL(20, 3), b BOOLEAN, x STRING, day DATE, y BINARY);
INSERT INTO t VALUES
  (1, 9223372036854775807, 18.28, 0.1, 12345678901234567.125, true, 'a "b"\\n道', DATE '2026-01-31', X'00ff'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE many (v INT);
INSERT INTO many VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12);
"""
LONG = "SELECT a.v FROM many a CROSS JOIN many b CROSS JOIN many c"
HUGE = LONG + " CROSS JOIN many d CROSS JOIN many e CROSS JOIN many f"

COMMANDS = [
    ["query", "SELECT * FROM held ORDER BY k"],
    ["query", "SELECT *, NULL AS nothing, INTERVAL '90' SECOND AS gap FROM t ORDER BY i"],
    ["query", "SELECT * FROM t WHERE i = 1 AND i = 2"],
    ["query", "SELECT k FROM held WHERE k = :k", "--param", "k=k1"],
    ["query", "SELECT k FROM held", "--as-of", "2026-01-01T00:00:01"],
    ["query", LONG],
    ["query", "DESCRIBE held"],
    ["changes", "number"],
    ["query", "SHOW CREATE VIEW held"],
    ["query", "SHOW VIEWS"],
    ["changes", "number", "--encoding", "intervals"],
    ["changes", "held", "--since", "1"],
]
MISTAKES = [
    ["query", "SELECT nope FROM held"],
    ["query", "SELECT * FROM held", "--as-of", "2027-01-01"],
    ["query", "SELECT * FROM held", "--as-of", "noon"],
    ["query", "SELECT * FROM held; SELECT 1 AS one"],
    ["query", "SELECT :x AS x"],
    ["query", "SELECT 1 AS one", "--param", "x"],
    ["query", "SELECT 1 AS one", "--format", "xml"],
    ["query", "INSERT INTO t (i) VALUES (1)"],
    ["changes", "s"],
    ["changes", "nowhere"],
    ["changes", "held", "--encoding", "tag"],
]
ENTRIES = """\\d
\\d held
SELECT * FROM held ORDER BY k;
SHOW STREAMS; SELECT COUNT(*) AS n FROM t;
EXPLAIN SELECT * FROM held;
\\explain SELECT k FROM held
SELECT nope FROM held;
SELECT COUNT(*) AS n FROM t; SELECT * FROM nowhere; SELECT 1 AS one;
\\nope
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Path:
    """A folder with a store that has run."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        put(tmp_path, number)
    (tmp_path / "v.sql").write_text(SCRIPT)
    assert call("run", "v.sql").code == 0
    return tmp_path


def served_store(process: subprocess.Popen[str]) -> ServedAccess:
    """The store of the current folder, when the process serves it."""
    wait_until(lambda: find_server("everview-store") is not None, process)
    found = find_server("everview-store")
    assert found is not None
    return found


def without_writer(said: Said) -> Said:
    """A status without the line that says who writes."""
    out = re.sub(r"\n\nbackground: running in process \d+ on \S+, since [^\n]*", "", said.out)
    return said._replace(out=re.sub(r'"?(running in process [^"\n]*|not running)"?', "", out))


@pytest.fixture
def prompt(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Types entries at the prompt."""

    def type_in(*entries: str) -> Said:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(entries)))
        return call("shell")

    return type_in


def all_answers(call: Call, prompt: Call) -> dict[str, Said]:
    formats = ("table", "json", "csv")
    asked = {" ".join(c): call(*c) for c in MISTAKES}
    asked |= {" ".join(c): call(*c) for c in COMMANDS}
    asked |= {f"{c[1]} as {f}": call(*c, "--format", f) for c in COMMANDS[1::6] for f in formats[1:]}
    asked |= {f"status as {f}": without_writer(call("status", "--format", f)) for f in formats}
    return {**asked, "prompt": prompt(ENTRIES)}


def test_the_answers_are_the_same(
    folder: Path, call: Call, prompt: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = all_answers(call, prompt)
    with started("serve", cwd=folder) as process:
        served_store(process)
        assert socket_path("everview-store").stat().st_mode & 0o777 == 0o600
        with monkeypatch.context() as only:
            for name in ("connect", "read_catalog", "status_at"):
                only.setattr(commands, name, lambda *_: pytest.fail("the server was not asked"))
            served = all_answers(call, prompt)
            for what, said in alone.items():
                assert served[what] == said, what
        refused = call("run", "v.sql")
        assert refused.code == 1
        assert f"is being written by process {process.pid} on" in refused.err
        process.kill()
        process.wait(PATIENCE)
        assert socket_path("everview-store").exists(), "it had no time to clean up"
        assert call("query", "SELECT v FROM many WHERE v = 1") == Said(0, "v\n1\n", "")
        assert prompt("INSERT INTO many VALUES (99); SHOW TABLES;") == Said(0, "t\nmany\n", "")


def test_work_on_a_served_store(folder: Path, prompt: Call) -> None:
    with started("serve", cwd=folder) as process:
        store = served_store(process)
        _change_everything(folder, prompt, process)
        _two_at_once(store)
        _ctrl_c_in_a_client(folder, store)
        _a_client_is_a_small_process()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "stopping after the step under way; again to stop at once\n")
    assert out.startswith("serving everview-store; Ctrl-C ends it\n")
    assert "r       4     0     0" in out
    assert not socket_path("everview-store").exists()


def _change_everything(folder: Path, prompt: Call, process: subprocess.Popen[str]) -> None:
    """Every statement works while steps go on, and the steps go on after it."""
    assert prompt(
        "CREATE VIEW later AS SELECT k FROM s [RANGE 1 HOUR] WHERE k <> 'k1';",
        "CREATE STREAM z (v INT, ts TIMESTAMP, TIMELINE ts); CREATE TABLE u (v INT, PRIMARY KEY (v));",
        "CREATE VIEW late AS SELECT v FROM u WHERE v > 1;",
        "INSERT INTO u VALUES (1), (2), (3); UPDATE u SET v = 7 WHERE v = 3; DELETE FROM u WHERE v = 1;",
        "CREATE OR REPLACE VIEW late AS SELECT v FROM u WHERE v > 2;",
        "CLOCK EVERY INTERVAL '1' MINUTE;",
        "CREATE VIEW late AS SELECT nope FROM u;",
        "DROP STREAM z; SELECT k FROM later; DROP VIEW later;",
        "SHOW VIEWS;",
    ) == Said(
        0,
        "k\nk2\nheld\nnumber\nlate\n",
        "there is no column 'nope'\n  line 1, column 28\n    CREATE VIEW late AS SELECT nope FROM u;\n"
        "                               ^^^^\n  choices: v\n",
    )

    def says(sql: str, *lines: str) -> None:
        wait_until(lambda: prompt(sql).out.splitlines() == list(lines), process)

    put(folder, 4)
    says("SELECT v FROM late;", "v", "7")
    assert prompt("CREATE TABLE copy AS SELECT v FROM u; INSERT INTO copy SELECT v + 1 FROM u;").err == ""
    put(folder, 5)
    says("SELECT v FROM copy ORDER BY v;", "v", "2", "3", "7", "8")
    ran = prompt("\\run")
    assert ran.err == ""
    assert re.match(r"\d+ rows? in, \d+ changes?; known up to 2026-01-01T00:00:04.999999\n", ran.out), ran.out
    put(folder, 6)
    says("SELECT k FROM held WHERE k = 'k5';", "k", "k5")
    assert prompt("ALTER STREAM s RENAME TO r; ALTER STREAM r ADD COLUMN b INT;").err == ""
    assert prompt("ALTER VIEW held RENAME TO kept;").err == ""
    put(folder, 7)
    says("SELECT k FROM kept WHERE k = 'k6';", "k", "k6")


def _two_at_once(store: ServedAccess) -> None:
    """A client that has got half of its rows, and another that is answered meanwhile."""
    long = store.query(LONG, None, {}, None)
    assert isinstance(long, FetchedAnswer)
    first = next(long.rows)
    other = store.query("SELECT v FROM many WHERE v = 3", None, {}, None)
    assert isinstance(other, FetchedAnswer)
    assert [tuple(row) for row in other.rows] == [(3,)]
    assert len([first, *long.rows]) == 12**3


def _ctrl_c_in_a_client(folder: Path, store: ServedAccess) -> None:
    """It ends the question, and nothing else."""
    with started("query", HUGE, "--format", "csv", cwd=folder) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "v\n"
        os.killpg(client.pid, signal.SIGINT)
        client.stdout.read()
        assert client.wait(PATIENCE) == 1
        assert client.stderr is not None
        assert client.stderr.read() == ""
    answer = store.query("SELECT v FROM many WHERE v = 3", None, {}, None)
    assert isinstance(answer, FetchedAnswer)
    assert len(list(answer.rows)) == 1


def _a_client_is_a_small_process() -> None:
    """From its start to its end it has nothing of Spark in it; who stops to read is no mistake."""
    script = (
        "import sys; from everview.ui.cli import main\n"
        "try: main(['query', 'SELECT v FROM many WHERE v = 3'])\n"
        "except SystemExit as end: print(end.code, 'pyspark' in sys.modules, 'sqlglot' in sys.modules)"
    )
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert asked.stdout in ("v\n3\nNone False False\n", "v\n3\n0 False False\n"), asked.stderr
    with subprocess.Popen(
        [EVERVIEW, "query", HUGE, "--format", "csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        client.stdout.close()  # as `| head -1` does
        assert client.wait(PATIENCE) == 0
        assert client.stderr is not None
        assert client.stderr.read() == b""


def test_run_follow_serves(folder: Path, call: Call) -> None:
    """Clients that wait are told why the server ends: it was stopped, or a step failed."""
    (folder / "more.sql").write_text("CREATE VIEW more AS SELECT k FROM held;")
    with started("run", "more.sql", "--follow", cwd=folder) as run:
        store = served_store(run)
        with started("query", HUGE, "--format", "csv", cwd=folder) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "v\n"
            run.send_signal(signal.SIGTERM)
            assert run.wait(PATIENCE) == 0
            rows = client.stdout.read().count("\n")
            assert client.wait(PATIENCE) == 1
            assert client.stderr is not None
            assert client.stderr.read() == (
                "the server of the store everview-store stopped before it had answered\n"
                "  next: ask again; before you repeat a change, look whether it was made\n"
            )
        assert rows < 12**6
        assert run.stderr is not None
        assert run.stderr.read() == "stopping after the step under way; again to stop at once\n"
        with pytest.raises(EverviewError, match="the server of the store everview-store has ended"):
            store.names()
    assert find_server("everview-store") is None
    with (
        started("run", "more.sql", "--follow", cwd=folder) as run,
        started("changes", "more", "--follow", "--format", "csv", cwd=folder) as tail,
    ):
        served_store(run)
        assert call("query", "SELECT COUNT(*) AS n FROM more").out == "n\n2\n"
        lines: list[str] = []
        assert tail.stdout is not None
        threading.Thread(target=lines.extend, args=(tail.stdout,), daemon=True).start()
        before = steps(folder)
        put(folder, 4)
        wait_until(lambda: steps(folder) > before, run)
        (folder / "everview-store" / "everview.lock").unlink()
        put(folder, 5)
        assert run.wait(PATIENCE) == 1
        assert run.stderr is not None
        assert run.stderr.read().startswith("the lock of the store ")
        if find_server("everview-store") is None and tail.poll() is None:
            tail.send_signal(signal.SIGINT)
        assert tail.wait(PATIENCE) in (0, 1)
