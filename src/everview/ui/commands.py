"""What the commands of the command line do; `cli.py` declares them, and imports this when one is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
from everview.errors import CatalogError, EverviewError, StoreError, nearest
from everview.query import Report
from everview.ui import DEFAULT_PATH
from everview.ui.output import ENDS, Sheet, require_format, write_answer, write_report
from everview.ui.progress import Meter, Summary
from everview.ui.running import RunningStore
from everview.ui.signals import WorkStopped, catch_stop_signals
from everview.ui.tail import follow as follow_changes

_LOOK_AGAIN = 1.0  # seconds between two reports of `status --watch`


def run_script(file: str, path: str, finish: bool, follow: bool) -> None:
    """Run a script, and print what was done."""
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
        db.show_backfill(meter.show_text)
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


def ask_store(sql: str, path: str, as_of: str | None, param: Sequence[str], format: str) -> None:
    """Print the answer of a question."""
    require_format(format)
    names, parameters = read_catalog(path), _parameters(param)
    if is_show_statement(sql, names):
        with _output(), connect(path) as db:
            report = db.execute(sql)
            assert isinstance(report, Report)
            write_report(report, format, sys.stdout)
        return
    bind_question(sql, names, as_of, parameters)
    with _output(), connect(path) as db:
        write_answer(db.query(sql, as_of, **parameters), format, sys.stdout, sys.stderr)


def show_changes(view: str, path: str, encoding: str, format: str, follow: bool, since: int | None) -> None:
    """Print the changes of a view, with `follow` until the user stops it."""
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


def show_status(path: str, watch: bool, format: str) -> None:
    """Print the state of a store, with `watch` again every second."""
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


def check_files(path: str, format: str) -> None:
    """Print what a check of a store found; exit with 1 if there is damage."""
    from everview.maintenance import check_at

    require_format(format)
    report, well = check_at(path)
    with _output():
        write_report(report, format, sys.stdout)
    if not well:
        raise typer.Exit(1)


def repair_files(path: str, dry_run: bool, yes: bool, format: str) -> None:
    """Mend a store, and print what was done; exit with 1 if it is not whole afterwards."""
    from everview.maintenance import repair

    require_format(format)
    with Meter(Console(stderr=True)) as meter:
        report, whole = repair(path, dry_run, yes, show=meter.show_text)
    with _output():
        write_report(report, format, sys.stdout)
    if not whole:
        raise typer.Exit(1)


def backup_store_to(folder: str, path: str, format: str) -> None:
    """Copy a store to a folder, and print what was copied."""
    from everview.maintenance import backup_at

    require_format(format)
    with _output():
        write_report(backup_at(path, folder), format, sys.stdout)


def restore_from(folder: str, path: str, format: str) -> None:
    """Put a backup back, and print what it holds."""
    from everview.maintenance import restore

    require_format(format)
    with _output():
        write_report(restore(folder, path), format, sys.stdout)


def explain_plan(what: str, path: str, format: str) -> None:
    """Print the plan of a script or of a query."""
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


def start_shell(path: str) -> None:
    """Open the prompt."""
    read_catalog(path, create=True)
    from everview.ui.shell import open_shell

    with connect(path) as db:
        open_shell(db)


def run_demo(name: str | None, speed: float | None) -> None:
    """Show a worked example."""
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
