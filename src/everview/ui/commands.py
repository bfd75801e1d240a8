"""What the commands of the command line do; `cli.py` declares them, and imports this when one is called.

Those that ask a store are in `asking.py`, which needs less.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import typer
from rich.console import Console

from everview.database import connect
from everview.errors import CatalogError, EverviewError, StoreError
from everview.query.describe import default_history
from everview.query.report import Report
from everview.server.access import LocalAccess, StoreAccess
from everview.ui import DEFAULT_PATH
from everview.ui.options import OpenOptions, open_options
from everview.ui.output import print_until_closed, require_format, write_report
from everview.ui.progress import Meter, Summary
from everview.ui.running import RunningStore
from everview.ui.signals import WorkStopped, catch_stop_signals
from everview.without_spark import (
    bind_on_copy,
    bind_question,
    explain_text,
    is_show_statement,
    read_catalog,
    status_at,
)


def run_script(file: str, path: str, finish: bool, follow: bool, options: OpenOptions) -> None:
    """Run a script, and print what was done; with `follow`, go on until the user stops it, and serve."""
    script = _file(file)
    statements = bind_on_copy(script, read_catalog(path, create=True))
    if finish and follow:
        raise EverviewError(
            "--finish says that no more will come, and --follow waits for more", next_step="use one of them"
        )
    with _running_store(path, options) as work:
        if not follow:
            try:
                work.run_script(script, statements, finish)
            except WorkStopped:
                raise StoreError("stopped before all was taken in", next_step="run again to go on") from None
            return
        with suppress(WorkStopped), work.serve() as server:
            with server.writing:
                work.run_script(script, statements, finish)
            if not work.stop.is_set():
                work.meter.show_text("waiting for rows")
                work.run_until_stopped(server)


def serve_store(path: str, host: str, port: int | None, options: OpenOptions) -> None:
    """Run the steps of a store, show its page, and answer other processes until the user stops it."""
    read_catalog(path, create=True)
    from everview.server.web import PageServer  # loaded only where it is needed

    page = PageServer(path, host, port, os.environ.get("EVERVIEW_TOKEN"))
    with closing(page), _running_store(path, options) as work, work.serve() as server:
        work.watchers.append(page.record_step)
        page.start()
        with work.meter.pause():
            print(f"serving {path}; Ctrl-C ends it", flush=True)
            print(f"page: {page.url}", flush=True)
        work.meter.show_text("waiting for rows")
        work.run_until_stopped(server)


@contextmanager
def _running_store(path: str, options: OpenOptions) -> Iterator[RunningStore]:
    """Open a store to run its steps, with a status line; at the end print what was done."""
    summary = Summary(path)
    note = "stopping after the step under way; again to stop at once"
    console = Console(stderr=True)
    with (
        print_until_closed(),
        catch_stop_signals(note) as stop,
        connect(path, options.spark, strategy=options.strategy) as db,
        Meter(console) as meter,
    ):
        before, known = db.manifest(), set(db.catalog.entries)
        summary.before, summary.bound = before.counts, before.bound
        db.show_backfill(meter.show_text)
        yield RunningStore(db, meter, summary, stop, sys.stdout, sys.stderr)
        summary.follow_names(db.catalog.alterations, before.step)
        known |= {a.new_name.casefold() for a in db.catalog.alterations if a.step > before.step}
        summary.history = default_history(e for name, e in db.catalog.entries.items() if name not in known)
        with meter.pause():
            print("\n".join(summary.lines(db.manifest(), db.status().waits)))


@contextmanager
def open_here(path: str, options: OpenOptions, create: bool = False) -> Iterator[StoreAccess]:
    """Open a store in this process, to ask it; with `create`, make it if there is none."""
    read_catalog(path, create)
    with connect(path, options.spark, strategy=options.strategy) as db:
        yield LocalAccess(db)


def check_question(sql: str, path: str, as_of: str | None, parameters: Mapping[str, object]) -> None:
    """Raise the errors of a question before Spark is started."""
    names = read_catalog(path)
    if not is_show_statement(sql, names):
        bind_question(sql, names, as_of, parameters)


def check_name(name: str, path: str) -> None:
    """Raise an error if a store has no entry of this name."""
    read_catalog(path).get(name)


def read_status(path: str) -> Report:
    """Read the state of a store from its files."""
    return status_at(path).report()


def check_files(path: str, format: str) -> None:
    """Print what a check of a store found; exit with 1 if there is damage."""
    from everview.maintenance import check_at

    require_format(format)
    report, well = check_at(path)
    with print_until_closed():
        write_report(report, format, sys.stdout)
    if not well:
        raise typer.Exit(1)


def repair_files(path: str, dry_run: bool, yes: bool, format: str) -> None:
    """Mend a store, and print what was done; exit with 1 if it is not whole afterwards."""
    from everview.maintenance import repair

    require_format(format)
    with Meter(Console(stderr=True)) as meter:
        report, whole = repair(path, dry_run, yes, spark=open_options().spark, show=meter.show_text)
    with print_until_closed():
        write_report(report, format, sys.stdout)
    if not whole:
        raise typer.Exit(1)


def rewind_to(to: str, path: str, reject_after: str | None, dry_run: bool, yes: bool, format: str) -> None:
    """Rewind a store and print what was done; exit with 1 if something must be done and was not."""
    from everview.maintenance import rewind
    from everview.query.charts.view import chronon_of

    require_format(format)
    for name, text in (("--to", to), ("--reject-after", reject_after)):
        chronon_of(text, name)  # before Spark is started in vain
    with Meter(Console(stderr=True)) as meter:
        spark = open_options().spark
        report, done = rewind(path, to, dry_run, yes, reject_after, spark=spark, show=meter.show_text)
    with print_until_closed():
        write_report(report, format, sys.stdout)
    if not done and not dry_run:
        raise typer.Exit(1)


def backup_store_to(folder: str, path: str, format: str) -> None:
    """Copy a store to a folder, and print what was copied."""
    from everview.maintenance import backup_at

    require_format(format)
    with print_until_closed():
        write_report(backup_at(path, folder), format, sys.stdout)


def restore_from(folder: str, path: str, format: str) -> None:
    """Put a backup back, and print what it holds."""
    from everview.maintenance import restore

    require_format(format)
    with print_until_closed():
        write_report(restore(folder, path), format, sys.stdout)


def explain_plan(what: str, path: str, format: str, cost: bool = False, strategy: str | None = None) -> None:
    """Print the plan of a script or of a query, with `cost` also what its operators emit and keep."""
    script = _script(what)
    # A script may be meant for a store that does not exist yet; a query with --path is not.
    names = read_catalog(path, create=_is_file(what) or path == DEFAULT_PATH)
    try:
        plan = explain_text(script, names, format, cost, path, strategy)
    except CatalogError as error:
        plan = _explained_alone(script, format, error, cost, strategy)
        print(f"explained by itself: at {path} {error.what}", file=sys.stderr)
    with print_until_closed():
        print(plan)


def run_demo(name: str | None, speed: float | None) -> None:
    """Show a worked example."""
    from everview.ui.demo import list_demos, show_demo

    console = Console(highlight=False)
    if name is None:
        list_demos(console)
    with print_until_closed():
        show_demo(name or "highway", console, connect, speed)


def _explained_alone(
    script: str, format: str, refused: CatalogError, cost: bool, strategy: str | None
) -> str:
    """Explain a script without the store: it defines all its names, some differently from the store."""
    try:
        return explain_text(script, format=format, cost=cost, strategy=strategy)
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
