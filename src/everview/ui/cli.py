"""The command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everview import engine
from everview.errors import EverviewError, StoreError
from everview.ui.demo import show_demo

app = typer.Typer(
    help="SQL views over streams, kept continuously correct, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def everview() -> None:
    """SQL views over streams, kept continuously correct, on Spark."""


@app.command()
def explain(
    what: Annotated[str, typer.Argument(metavar="FILE.sql | SQL", help="a script, as a file or as text")],
) -> None:
    """Show the plan of every view and query in a script.

    everview explain views.sql
    """
    print(engine.explain(_script(what)))


@app.command()
def demo(
    name: Annotated[str, typer.Argument(help="which worked example to show")] = "highway",
) -> None:
    """Show a worked example from a paper, with its data.

    everview demo highway
    """
    show_demo(name, Console(width=110))


def _script(what: str) -> str:
    """The text of a script, or what is in the file of that name."""
    if not what.lower().endswith(".sql"):
        return what
    try:
        return Path(what).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StoreError(f"cannot read {what}: {reason}", next_step="check the path") from None


def main() -> None:
    """Runs the command line: 0 done, 1 the user's mistake, 2 a fault of ours."""
    try:
        app()
    except EverviewError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as stop:
        # Wrong arguments are the user's mistake too; typer has already said what is wrong with them.
        raise SystemExit(1 if stop.code == 2 else stop.code) from None
    except Exception as fault:
        print(f"a fault of Everview, not of yours: {type(fault).__name__}: {fault}", file=sys.stderr)
        raise SystemExit(2) from fault
