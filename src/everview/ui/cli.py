"""The command line."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everview.database import (
    bind_on_copy,
    bind_question,
    connect,
    explain_text,
    is_show_statement,
    read_catalog,
    status_at,
)
from everview.errors import CatalogError, EverviewError, Fault, StoreError, nearest
from everview.query import Report
from everview.ui.output import ENDS, Sheet, require_format, write_answer, write_report
from everview.ui.progress import DEFAULT_PATH, Meter, Summary
from everview.ui.running import RunningStore
from everview.ui.signals import WorkStopped, catch_stop_signals
from everview.ui.tail import follow as follow_changes

app = typer.Typer(
    help="SQL views over streams, kept continuously correct, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


_LOOK_AGAIN = 1.0  # seconds between two reports of `status --watch`

StorePath = Annotated[str, typer.Option("--path", metavar="STORE", help="the store, a folder")]
Format = Annotated[str, typer.Option("--format", metavar="table | json | csv", help="how rows are written")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"everview {metadata.version('everview')}")
        raise typer.Exit()


@app.callback()
def everview(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="the version"),
    ] = False,
) -> None:
    """SQL views over streams, kept continuously correct, on Spark."""


@app.command()
def run(
    file: Annotated[str, typer.Argument(metavar="FILE.sql", help="a script")],
    path: StorePath = DEFAULT_PATH,
    finish: Annotated[bool, typer.Option("--finish", help="no more will come")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="go on until Ctrl-C")] = False,
) -> None:
    """Run a script: make its streams and views, take in all that is there, and say what was done. The store
    is made if there is none. Run it again to take in what is new.

    A SELECT is answered over all that stands before it in the script, and
    those at its end over everything.

    Rows younger than what is known of the streams wait for the next run;
    --finish says that no more will come, and they count.

    Ctrl-C ends after the step under way: the store is whole, and the next
    run goes on from there.

    everview run views.sql

    everview run views.sql --finish

    everview run views.sql --path /data/store --follow
    """
    script = _file(file)
    statements = bind_on_copy(script, read_catalog(path, create=True))
    if finish and follow:
        raise EverviewError(
            "--finish says that no more will come, and --follow waits for more", next_step="use one of them"
        )
    summary = Summary(path)
    note = "stopping after the step under way; again to stop at once"
    console = Console(stderr=True)
    with _output(), catch_stop_signals(note) as stop, connect(path) as db, Meter(console) as meter:
        summary.before, summary.bound = db.manifest().counts, db.manifest().bound
        work = RunningStore(db, meter, summary, stop, sys.stdout, sys.stderr)
        try:
            work.run_script(script, statements, finish)
            if follow and not stop.is_set():
                meter.show_text("waiting for rows")
                work.run_until_stopped()
        except WorkStopped:
            if not follow:
                raise StoreError("stopped before all was taken in", next_step="run again to go on") from None
        with meter.pause():
            print("\n".join(summary.lines(db.manifest(), db.status().waits)))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="a SELECT")],
    path: StorePath = DEFAULT_PATH,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIMESTAMP", help="at this instant")] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="what :NAME stands for")
    ] = None,
    format: Format = "table",
) -> None:
    """Ask a store: views, tables and windows as they are at the present, or as of an instant.

    A table has the first 1,000 rows; json (one object a line) and csv
    have all.

    everview query "SELECT * FROM parked ORDER BY vid"

    everview query "SELECT vtype, COUNT(*) AS n FROM parked GROUP BY vtype" --as-of 2026-01-01T00:00:02

    everview query 'SELECT _reason, _original FROM came$rejected' --format json

    everview query "SELECT * FROM parked WHERE vid = :vid" --param vid=v1

    everview query "SELECT * FROM parked" --path /data/store --format csv > parked.csv

    everview query "DESCRIBE parked" --format json
    """
    require_format(format)
    names, parameters = read_catalog(path), _parameters(param or [])
    if is_show_statement(sql, names):
        with _output(), connect(path) as db:
            report = db.execute(sql)
            assert isinstance(report, Report)
            write_report(report, format, sys.stdout)
        return
    bind_question(sql, names, as_of, parameters)
    with _output(), connect(path) as db:
        write_answer(db.query(sql, as_of, **parameters), format, sys.stdout, sys.stderr)


@app.command("changes")
def changes_command(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="a view")],
    path: StorePath = DEFAULT_PATH,
    encoding: Annotated[
        str, typer.Option(metavar="tags | intervals", help="what comes and goes, or from when until when")
    ] = "tags",
    format: Format = "table",
    follow: Annotated[bool, typer.Option("--follow", help="show changes as they come, until Ctrl-C")] = False,
    since: Annotated[int | None, typer.Option(metavar="STEP", help="only those after this step")] = None,
) -> None:
    """Show the changes of a view. As tags: + a row comes, - it goes, u it replaces the old one, and when. As
    intervals: from when until when a row held, and how often, once it has ended.

    With --follow the store is watched while another process runs it. At
    the end the last step is told, to go on after it.

    everview changes parked

    everview changes parked --encoding intervals --format csv

    everview changes parked --follow --format json

    everview changes parked --follow --since 12
    """
    require_format(format)
    if encoding not in ENDS:
        raise EverviewError(
            f"changes are not shown as '{encoding}'", meant=nearest(encoding, ENDS), choices=ENDS
        )
    read_catalog(path).get(view)
    with _output(), connect(path) as db:
        if not follow:
            write_answer(db.changes(view, encoding, since), format, sys.stdout, sys.stderr, ENDS[encoding])
            return
        with catch_stop_signals() as stop:
            sheet = Sheet(format, sys.stdout, ENDS[encoding])
            step = follow_changes(db, view, encoding, sheet, since, stop.wait)
        print(f"up to step {step}; go on with --since {step}", file=sys.stderr)


@app.command()
def status(
    path: StorePath = DEFAULT_PATH,
    watch: Annotated[bool, typer.Option("--watch", help="look again every second, until Ctrl-C")] = False,
    format: Format = "table",
) -> None:
    """Show the state of a store: how far each stream is known, how many rows came, were late, rejected and
    wait, what holds time back, since when each view is complete, and who is writing. Spark is not started.

    everview status

    everview status --watch

    everview status --path /data/store --format json
    """
    require_format(format)
    with _output(), catch_stop_signals() as stop:
        while True:
            found = status_at(path).report()
            if watch and sys.stdout.isatty():
                Console().clear()
            write_report(found, format, sys.stdout)
            sys.stdout.flush()
            if not watch or stop.wait(_LOOK_AGAIN):
                return
            if format == "table" and not sys.stdout.isatty():
                print()


@app.command("explain")
def explain_command(
    what: Annotated[str, typer.Argument(metavar="FILE.sql | SQL", help="a script, as a file or as text")],
    path: StorePath = DEFAULT_PATH,
    format: Annotated[
        str, typer.Option(metavar="text | svg | json", help="for reading, as a picture, for programs")
    ] = "text",
) -> None:
    """Show the plan of every view and query in a script: operators, how their results come and go, what they
    keep and for how long, how far the streams are known, the rules that made the plan better. Nothing is run.

    What the store has is known, if there is one.

    everview explain views.sql

    everview explain "SELECT vtype, COUNT(*) AS n FROM parked GROUP BY vtype" --path /data/store

    everview explain views.sql --format svg > views.svg

    everview explain views.sql --format json | jq .parts
    """
    script = _script(what)
    # A script may be meant for a store that does not exist yet; a query with --path is not.
    names = read_catalog(path, create=_is_file(what) or path == DEFAULT_PATH)
    try:
        plan = explain_text(script, names, format)
    except CatalogError as error:
        plan = _explained_alone(script, format, error)
        print(f"explained by itself: at {path} {error.what}", file=sys.stderr)
    with _output():
        print(plan)


@app.command()
def shell(path: StorePath = DEFAULT_PATH) -> None:
    """Open a prompt on a store, which is made if there is none. Statements end with ; and may have many
    lines; Tab completes, \\? helps, Ctrl-D leaves.

    everview shell

    everview shell --path /data/store

    echo "SELECT COUNT(*) AS n FROM parked;" | everview shell
    """
    read_catalog(path, create=True)
    from everview.ui.shell import open_shell

    with connect(path) as db:
        open_shell(db)


@app.command()
def demo(
    name: Annotated[str | None, typer.Argument(help="highway, parking, rooms or links")] = None,
    speed: Annotated[
        float | None, typer.Option(metavar="X", help="replay it X times as fast as it happened")
    ] = None,
) -> None:
    """Show a worked example from a paper, with its data: the SQL, what goes in, what comes out, and why.
    Without a name all are listed, and the first is shown.

    everview demo

    everview demo parking

    everview demo rooms --speed 2
    """
    from everview.ui.demo import list_demos, show_demo

    console = Console(highlight=False)
    if name is None:
        list_demos(console)
    with _output():
        show_demo(name or "highway", console, connect, speed)


def _parameters(given: Sequence[str]) -> dict[str, object]:
    """Return the values of parameters as strings; SQL reads each as the type that it is compared with."""
    found: dict[str, object] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise EverviewError(f"'{each}' is no parameter", next_step="write it as --param name=value")
        if name in found:
            raise EverviewError(f"the parameter '{name}' is given twice", next_step="give it once")
        found[name] = value
    return found


@contextmanager
def _output() -> Iterator[None]:
    """Ignore a closed standard output: `| head` is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def _explained_alone(script: str, format: str, refused: CatalogError) -> str:
    """Explain a script without the store: it defines all its names, some differently from the store."""
    try:
        return explain_text(script, format=format)
    except EverviewError:
        raise refused from None


def _script(what: str) -> str:
    """Return the text of a script, or the contents of the file of that name."""
    return _file(what) if _is_file(what) else what


def _is_file(what: str) -> bool:
    return what.lower().endswith(".sql")


def _file(what: str) -> str:
    try:
        return Path(what).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StoreError(f"cannot read {what}: {reason}", next_step="check the path") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 0 for success, 1 for a user's mistake, 2 for a fault of Everview."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
    try:
        app(arguments)
    except EverviewError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2 if isinstance(error, Fault) else 1) from None
    except SystemExit as stop:
        # Wrong arguments and Ctrl-C are the user's too; typer has already printed the message.
        raise SystemExit(1 if stop.code in (2, 130) else stop.code) from None
    except KeyboardInterrupt:
        raise SystemExit(1) from None
    except BaseException as fault:  # a panic of Polars is not an Exception
        first, *_ = str(fault).splitlines() or [""]
        print(Fault(f"{type(fault).__name__}: {first}"), file=sys.stderr)
        raise SystemExit(2) from fault
