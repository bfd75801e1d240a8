"""The command line: what it prints, and its exit codes. No JVM."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from everview import connect
from everview.ui.cli import main

STREAM = "CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);"
EVERVIEW = Path(sys.executable).with_name("everview")


def process(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([EVERVIEW, *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def everview(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has loaded everything."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
    return subprocess.CompletedProcess(arguments, int(str(code)), out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a stream and a view; to make it needs no Spark."""
    path = str(tmp_path_factory.mktemp("cli") / "store")
    with connect(path) as db:
        db.execute(f"{STREAM} CREATE VIEW w AS SELECT v FROM s [NOW]")
    return path


def test_explain_a_file(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(
        "CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT v FROM s [NOW];"
    )
    done = process("explain", "v.sql", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "View v  · expires within 1 µs (WKS) · state: its changes, 1 wk"


def test_explain_by_a_strategy(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(f"{STREAM} CREATE VIEW v AS SELECT DISTINCT v FROM s [RANGE 10 SECONDS];")
    done = everview("explain", "v.sql", "--strategy", "nt", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "δ, state: its input, until retracted" in done.stdout
    assert "\nstrategy NT: rows of windows have no ends: negative rows retract them\n" in done.stdout
    assert "strategy" not in everview("explain", "v.sql", cwd=tmp_path).stdout


@pytest.mark.parametrize("command", [("run", "v.sql"), ("query", "SELECT 1 AS one"), ("shell",), ("serve",)])
def test_a_strategy_that_there_is_not(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(STREAM)
    with connect(str(tmp_path / "store")) as db:
        db.execute(STREAM)
    done = everview(*command, "--strategy", "eager", "--path", "store", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "there is no strategy 'eager'\n  choices: UPA, DIRECT, NT\n"


@pytest.mark.parametrize(
    ("format", "begin"), [("text", "Project s.v"), ("svg", "<svg "), ("json", '{"parts": ')]
)
def test_explain_in_every_format(format: str, begin: str, tmp_path: Path) -> None:
    done = everview("explain", f"{STREAM} SELECT v FROM s", "--format", format, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(begin)


@pytest.mark.parametrize("named", [True, False], ids=["the store that is named", "the one in this folder"])
def test_explain_knows_the_names_of_a_store(store: str, tmp_path: Path, named: bool) -> None:
    if not named:
        (tmp_path / "everview-store").symlink_to(store)
    done = everview("explain", "SELECT v FROM w", *(["--path", store] if named else []), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "Project w.v  · expires within 1 µs (WKS)\n"
        "  View w  · expires within 1 µs (WKS) · state: its changes, 1 wk"
    )


def test_explain_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(f"{STREAM} SELECT v FROM s;")
    done = everview("explain", "v.sql", "--path", "new", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Project s.v")
    done = everview("explain", "SELECT v FROM s", "--path", "new", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"there is no Everview store at {tmp_path}/new\n  next: ")
    done = everview("explain", "SELECT v FROM s", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no stream, table or view 's'\n")
    assert [p.name for p in tmp_path.iterdir()] == ["v.sql"]


def test_explain_a_script_beside_what_the_store_has(store: str) -> None:
    """As it is there it is no news; otherwise the script is explained by itself, if it can be."""
    same = everview("explain", f"{STREAM} SELECT v FROM s", "--path", store)
    assert (same.returncode, same.stderr) == (0, "")
    other = "CREATE STREAM s (u INT, ts TIMESTAMP, TIMELINE ts); SELECT u FROM s"
    alone = everview("explain", other, "--path", store)
    assert alone.returncode == 0
    assert alone.stdout.startswith("Project s.u")
    assert alone.stderr == (
        f"explained by itself: at {store} there is already a stream 's' with another definition\n"
    )
    both = everview("explain", f"{other}; SELECT v FROM w", "--path", store)
    assert (both.returncode, both.stdout) == (1, "")
    assert both.stderr.startswith("there is already a stream 's' with another definition\n  line 1")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["text", "svg", "json"])
def test_who_reads_a_plan_may_stop_reading(format: str, tmp_path: Path) -> None:
    """As `| head -1` does; here before anything is written."""
    script = STREAM + "".join(f"CREATE VIEW v{i} AS SELECT v FROM s [NOW];" for i in range(400))
    (tmp_path / "v.sql").write_text(script)
    process = subprocess.Popen(
        [EVERVIEW, "explain", "v.sql", "--format", format],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.wait(), process.stderr.read()) == (0, "")
    process.stderr.close()


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("run", "everview run views.sql --path /data/store --follow"),
        ("query", 'everview query "SELECT * FROM parked ORDER BY vid"'),
        ("changes", "everview changes parked --follow --format json"),
        ("explain", "everview explain views.sql --format svg > views.svg"),
        ("shell", "everview shell --path /data/store"),
        ("demo", "everview demo parking"),
    ],
)
def test_help_teaches_by_example(command: str, example: str) -> None:
    done = everview(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert example in done.stdout


def test_a_demo_that_is_not_there_is_known_before_spark_starts() -> None:
    done = everview("demo", "highway", "--speed", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "time cannot pass 0 times as fast\n  next: give a number above 0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["query", "SELECT * FROM x"], "there is no stream, table or view 'x'\n  line 1, column 15"),
        (["query", "SELECT u FROM w"], "'u'"),
        (["query", "DROP VIEW w"], "a query is one SELECT, and this is more or something else"),
        (["query", "SELECT v FROM w; DROP VIEW w"], "a query is one SELECT"),
        (["query", "/* nothing */"], "there is no query"),
        (
            ["query", "SELECT v FROM w", "--format", "xml"],
            "an answer is not shown as 'xml'\n  choices: ",
        ),
        (["query", "SELECT v FROM w", "--as-of", "soon"], "'soon' is no timestamp"),
        (["changes", "ww"], "there is no stream, table or view 'ww'\n  did you mean 'w'?"),
        (["changes", "s"], "'s' is a stream, and only a view has a change stream"),
        (["changes", "w", "--encoding", "tag"], "changes are not shown as 'tag'\n  did you mean 'tags'?"),
        (["changes", "w", "--since", "soon"], "Invalid value for '--since'"),
        (["explain", "SELECT v FROM ww"], "there is no stream, table or view 'ww'\n  line 1, column 15"),
    ],
)
def test_a_mistake_on_a_store_is_told_before_spark_starts(
    store: str, arguments: list[str], said: str
) -> None:
    done = everview(*arguments, "--path", store)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["query", "SELECT 1 AS one"], ["changes", "v"]])
def test_what_is_no_store_is_not_made_one(tmp_path: Path, command: list[str]) -> None:
    done = everview(*command, "--path", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"there is no Everview store at {tmp_path}/nothing\n  next: ")
    (tmp_path / "letter.txt").write_text("Dear Ann")
    done = everview(*command, "--path", str(tmp_path))
    assert done.returncode == 1
    assert "is not an Everview store: it holds other files (letter.txt)" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"{STREAM} CREATE VIEW v AS SELECT u FROM s;", "'u'"),
        ("CREATE VIEW v AS SELECT v FROM nowhere", "there is no stream, table or view 'nowhere'"),
        ("\ud800", "it is no text"),
    ],
)
def test_a_script_with_a_mistake_leaves_nothing(tmp_path: Path, script: str, said: str) -> None:
    (tmp_path / "v.sql").write_bytes(script.encode("utf-8", "surrogatepass"))
    done = everview("run", "v.sql", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["v.sql"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, unlike `tmp_path` and what lies above it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_folder_without_rights(open_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever is allowed everything is nobody for as long."""
    with pytest.raises(SystemExit):  # loads all modules: nobody may have no right to read them either
        main(["query", "SELECT 1 AS one", "--path", str(open_folder / "nothing")])
    capsys.readouterr()
    closed = open_folder / "closed"
    closed.mkdir(0o500)
    script = open_folder / "v.sql"
    script.write_text(STREAM)
    script.chmod(0o644)
    me = os.geteuid()
    os.seteuid(me or 65534)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["run", str(script), "--path", str(closed / "store")])
    finally:
        os.seteuid(me)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    assert said.err.startswith("no right to ")
    assert "next: run as a user who may, or change the rights of the folder" in said.err


@pytest.mark.slow
def test_a_store_that_another_process_writes(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(STREAM)
    with connect(str(tmp_path / "everview-store")) as db:
        db.execute(STREAM)
        done = process("run", "v.sql", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"process {os.getpid()}" in done.stderr


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
        (
            ["explain", "SELECT 1 AS one", "--format", "pdf"],
            "a plan is not shown as 'pdf'\n  choices: text, svg, json",
        ),
        (["demo", "highwy"], "there is no demo 'highwy'\n  did you mean 'highway'?"),
        (["run", "missing.sql"], "cannot read missing.sql: No such file or directory"),
        (["nothing"], "No such command"),
        (["explain"], "Missing argument"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_1(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = everview(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--to", "2026-01-01"),
            "the store has not run yet: there is nothing to take back\n  next: everview run",
        ),
        (("--to", "yesterday"), "--to: 'yesterday' is no timestamp\n  next: write it as 2026-01-31T23:59:59"),
        (("--to", "2026-01-01", "--reject-after", "soon"), "--reject-after: 'soon' is no timestamp"),
        (("--to", "2026-01-01", "--format", "xml"), "an answer is not shown as 'xml'"),
    ],
)
def test_mistakes_of_rewind(arguments: tuple[str, ...], said: str, store: str) -> None:
    done = everview("rewind", *arguments, "--path", store)
    assert done.returncode == 1
    assert done.stderr.startswith(said)


@pytest.mark.slow
def test_a_rewind_needs_an_instant_a_store_and_its_lock(store: str, tmp_path: Path) -> None:
    assert "Missing option '--to'" in process("rewind", "--path", store).stderr
    done = everview("rewind", "--to", "2026-01-01", "--path", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1,
        f"there is no Everview store at {tmp_path / 'none'}",
    )
    with connect(store) as db:
        db.execute("CREATE TABLE t (k INT)")
        locked = process("rewind", "--to", "2026-01-01", "--path", store)
    assert locked.returncode == 1
    assert "is being written by process" in locked.stderr
    assert "next: stop that process first" in locked.stderr
