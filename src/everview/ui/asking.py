"""The commands that ask a store: through the server that holds it, if there is one, else in this process.

What only the second way needs is imported there: through a server, an answer takes less than a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from everview.errors import EverviewError, nearest
from everview.query.answers import FetchedAnswer
from everview.server.client import find_server
from everview.ui.options import OpenOptions, open_options
from everview.ui.output import (
    ENDS,
    Sheet,
    load_output,
    most_rows,
    print_until_closed,
    require_format,
    write_answer,
    write_report,
)
from everview.ui.signals import catch_stop_signals
from everview.ui.tail import follow as follow_changes

if TYPE_CHECKING:
    from everview.query.report import Report
    from everview.server.access import StoreAccess

_LOOK_AGAIN = 1.0  # seconds between two reports of `status --watch`


def ask_store(
    sql: str, path: str, as_of: str | None, param: Sequence[str], format: str, options: OpenOptions
) -> None:
    """Print the answer of a question."""
    most, parameters = most_rows(format), _parameters(param)

    def check() -> None:
        from everview.ui import commands

        commands.check_question(sql, path, as_of, parameters)

    with print_until_closed(), _open_store(path, check, format, options=options) as store:
        answer = store.query(sql, as_of, parameters, most)
        if isinstance(answer, FetchedAnswer):
            write_answer(answer, format, sys.stdout, sys.stderr)
        else:
            write_report(answer, format, sys.stdout)


def show_changes(view: str, path: str, encoding: str, format: str, follow: bool, since: int | None) -> None:
    """Print the changes of a view, with `follow` until the user stops it."""
    most = most_rows(format)
    if encoding not in ENDS:
        raise EverviewError(
            f"changes are not shown as '{encoding}'", meant=nearest(encoding, ENDS), choices=ENDS
        )

    def check() -> None:
        from everview.ui import commands

        commands.check_name(view, path)

    with print_until_closed(), _open_store(path, check, format) as store:
        if not follow:
            answer = store.changes(view, encoding, since, most)
            write_answer(answer, format, sys.stdout, sys.stderr, ENDS[encoding])
            return
        with catch_stop_signals() as stop:
            sheet = Sheet(format, sys.stdout, ENDS[encoding])
            step = follow_changes(store, view, encoding, sheet, since, stop.wait)
        print(f"up to step {step}; go on with --since {step}", file=sys.stderr)


def show_status(path: str, watch: bool, format: str) -> None:
    """Print the state of a store, with `watch` again every second."""
    require_format(format)
    with print_until_closed(), catch_stop_signals() as stop:
        while True:
            found = _status(path)
            if watch and sys.stdout.isatty():
                from rich.console import Console

                Console().clear()
            write_report(found, format, sys.stdout)
            sys.stdout.flush()
            if not watch or stop.wait(_LOOK_AGAIN):
                return
            if format == "table" and not sys.stdout.isatty():
                print()


def start_shell(path: str, options: OpenOptions) -> None:
    """Open the prompt."""
    with _open_store(path, create=True, options=options) as store:
        from everview.ui.shell import open_shell

        open_shell(store)


@contextmanager
def _open_store(
    path: str,
    check: Callable[[], object] = lambda: None,
    format: str = "",
    create: bool = False,
    options: OpenOptions | None = None,
) -> Iterator[StoreAccess]:
    """Yield a store to ask: its server, or the store itself. `check` is called before it is opened here.

    While the server works, what prints the `format` of its answer is imported.
    """
    served = find_server(path)
    if served is not None and options is not None and options.typed:
        typed = " and ".join(options.typed)
        raise EverviewError(
            f"{path} is served by another process, which has its own settings",
            next_step=f"leave out {typed}; or stop that process, and give it {typed}",
        )
    if served is not None:
        served.meanwhile = lambda: load_output(format)
        yield served
        return
    from everview.ui import commands

    check()
    with commands.open_here(path, options or open_options(), create) as store:
        yield store


def _status(path: str) -> Report:
    served = find_server(path)
    if served is not None:
        return served.status()
    from everview.ui import commands

    return commands.read_status(path)


def _parameters(given: Sequence[str]) -> dict[str, str]:
    """Return the values of parameters as strings; SQL reads each as the type that it is compared with."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise EverviewError(f"'{each}' is no parameter", next_step="write it as --param name=value")
        if name in found:
            raise EverviewError(f"the parameter '{name}' is given twice", next_step="give it once")
        found[name] = value
    return found
