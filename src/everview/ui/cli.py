"""The command line: what can be typed. `--help` is shown without importing what the commands need."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from everview.errors import EverviewError, Fault
from everview.ui import DEFAULT_PATH

app = typer.Typer(
    help="SQL views over streams, kept continuously correct, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

StorePath = Annotated[str, typer.Option("--path", metavar="STORE", help="the store, a folder")]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="upa | direct | nt", help="how views are computed; the store keeps it"
    ),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, as spark://host:7077")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="a setting of Spark; may be repeated")
]
Packages = Annotated[
    list[str] | None,
    typer.Option("--packages", metavar="GROUP:ARTIFACT:VERSION", help="packages that Spark loads"),
]
Format = Annotated[str, typer.Option("--format", metavar="table | json | csv", help="how rows are written")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

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
    strategy: Strategy = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
) -> None:
    """Run a script: make its streams and views, take in all that is there, and say what was done. The store
    is made if there is none. Run it again to take in what is new.

    A SELECT is answered over all that stands before it in the script, and
    those at its end over everything.

    Rows younger than what is known of the streams wait for the next run;
    --finish says that no more will come, and they count.

    Ctrl-C ends after the step under way: the store is whole, and the next
    run goes on from there. With --follow the store is served, as by serve.

    everview run views.sql

    everview run views.sql --finish

    everview run views.sql --path /data/store --follow

    everview run views.sql --strategy direct

    everview run views.sql --master spark://host:7077 --conf spark.executor.memory=4g

    What is said of Spark and the strategy may stand in everview.toml in the
    working directory instead.
    """
    from everview.ui import commands
    from everview.ui.options import open_options

    options = open_options(strategy, master, conf or [], packages or [])
    commands.run_script(file, path, finish, follow, options)


@app.command()
def serve(
    path: StorePath = DEFAULT_PATH,
    host: Annotated[str, typer.Option(metavar="HOST", help="where the page is shown")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="of the page; 7117, or another if that is taken")
    ] = None,
    strategy: Strategy = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
) -> None:
    """Keep a store running: take rows in as they come, and answer other processes of the same user. Meanwhile
    query, changes, status and shell go through this process, and do not start Spark. The store is made if
    there is none. run --follow serves, too.

    Ctrl-C ends after the step under way: the store is whole, and the next
    run goes on from there.

    everview serve

    everview serve --path /data/store

    A page shows the store, with a JSON API at /api and numbers for
    Prometheus at /metrics. At another host than this machine's own it needs
    a token, which is read from EVERVIEW_TOKEN.

    EVERVIEW_TOKEN=… everview serve --host 0.0.0.0 --port 8080
    """
    from everview.ui import commands
    from everview.ui.options import open_options

    commands.serve_store(path, host, port, open_options(strategy, master, conf or [], packages or []))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="a SELECT")],
    path: StorePath = DEFAULT_PATH,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIMESTAMP", help="at this instant")] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="what :NAME stands for")
    ] = None,
    format: Format = "table",
    strategy: Strategy = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
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
    from everview.ui import asking
    from everview.ui.options import open_options

    options = open_options(strategy, master, conf or [], packages or [])
    asking.ask_store(sql, path, as_of, param or [], format, options)


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
    the end it prints the number of the last step, to go on after it.

    everview changes parked

    everview changes parked --encoding intervals --format csv

    everview changes parked --follow --format json

    everview changes parked --follow --since 12
    """
    from everview.ui import asking

    asking.show_changes(view, path, encoding, format, follow, since)


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
    from everview.ui import asking

    asking.show_status(path, watch, format)


@app.command()
def check(path: StorePath = DEFAULT_PATH, format: Format = "table") -> None:
    """Read every file of a store and compare it with its checksum: runs of rows, manifests, catalog, and
    Spark's checkpoint. Each damaged file is named, with what it holds. Spark is not started.

    everview check

    everview check --path /data/store --format json
    """
    from everview.ui import commands

    commands.check_files(path, format)


@app.command("repair")
def repair_command(
    path: StorePath = DEFAULT_PATH,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done, and do nothing")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="accept that rows are lost which are nowhere else")
    ] = False,
    format: Format = "table",
) -> None:
    """Mend a damaged store: say what is damaged and what is done about it, then do it. Views are computed
    anew, rows are read again from their sources, small files put back from their copies.

    What cannot be had again is named. Nothing is done then, unless --yes
    accepts the loss; a backup may have it: everview restore.

    everview repair --dry-run

    everview repair --path /data/store

    everview repair --yes
    """
    from everview.ui import commands

    commands.repair_files(path, dry_run, yes, format)


@app.command("rewind")
def rewind_command(
    to: Annotated[str, typer.Option("--to", metavar="TS", help="the instant, as 2026-01-31T23:59:59 (UTC)")],
    path: StorePath = DEFAULT_PATH,
    reject_after: Annotated[
        str | None, typer.Option("--reject-after", metavar="TS", help="reject the rows after this instant")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done, and do nothing")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="accept that rows are lost which cannot be read again")
    ] = False,
    format: Format = "table",
) -> None:
    """Take a store back in time: after --finish, or when a wrong row has moved the watermark too far. Rows
    after the instant are late no longer; the next run works them out anew. Up to it, views answer as before.

    Files that changed since they were read are read as they are now: mend
    the file with the wrong row first, or reject what lies too far ahead.
    Rows of other sources cannot be read again: what is lost is named, and
    nothing is done then without --yes.

    everview rewind --to 2026-01-31T12:00:00 --dry-run

    everview rewind --to "2026-01-31 12:00:00" --path /data/store

    everview rewind --to "2026-01-31 12:00:00" --reject-after 2026-02-28
    """
    from everview.ui import commands

    commands.rewind_to(to, path, reject_after, dry_run, yes, format)


@app.command()
def backup(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="an empty folder, or one that is not there")],
    path: StorePath = DEFAULT_PATH,
    format: Format = "table",
) -> None:
    """Copy a store as it is after its last step, while another process may run it. The copy is compared with
    the checksums of the store. Spark is not started.

    everview backup /backups/monday

    everview backup /backups/monday --path /data/store
    """
    from everview.ui import commands

    commands.backup_store_to(folder, path, format)


@app.command("restore")
def restore_command(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="a folder that everview backup wrote")],
    path: StorePath = DEFAULT_PATH,
    format: Format = "table",
) -> None:
    """Put a backup back, to where there is no store yet; all its files are compared with their checksums
    first. The next run goes on from there: files that came since are read. Spark is not started.

    everview restore /backups/monday

    everview restore /backups/monday --path /data/store
    """
    from everview.ui import commands

    commands.restore_from(folder, path, format)


@app.command("explain")
def explain_command(
    what: Annotated[str, typer.Argument(metavar="FILE.sql | SQL", help="a script, as a file or as text")],
    path: StorePath = DEFAULT_PATH,
    format: Annotated[
        str, typer.Option(metavar="text | svg | json", help="for reading, as a picture, for programs")
    ] = "text",
    cost: Annotated[
        bool, typer.Option("--cost", help="rows and state of each operator, estimated and measured")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="upa | direct | nt", help="as by this strategy, and not by that of the store"),
    ] = None,
) -> None:
    """Show the plan of every view and query in a script: operators, how their results come and go, what they
    keep and for how long, how far the streams are known, the rules that made the plan better. Nothing is run.

    What the store has is known, if there is one.

    everview explain views.sql

    everview explain "SELECT vtype, COUNT(*) AS n FROM parked GROUP BY vtype" --path /data/store

    everview explain views.sql --format svg > views.svg

    everview explain views.sql --format json | jq .parts
    """
    from everview.ui import commands

    commands.explain_plan(what, path, format, cost, strategy)


@app.command()
def shell(
    path: StorePath = DEFAULT_PATH,
    strategy: Strategy = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
) -> None:
    """Open a prompt on a store, which is made if there is none. Statements end with ; and may have many
    lines; Tab completes, \\? helps, Ctrl-D leaves.

    everview shell

    everview shell --path /data/store

    echo "SELECT COUNT(*) AS n FROM parked;" | everview shell
    """
    from everview.ui import asking
    from everview.ui.options import open_options

    asking.start_shell(path, open_options(strategy, master, conf or [], packages or []))


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
    from everview.ui import commands

    commands.run_demo(name, speed)


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
