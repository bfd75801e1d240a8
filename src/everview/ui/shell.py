"""The shell: statements that end with a semicolon, and commands that begin with a backslash.

`Shell` executes one entry after the other and prints; it does not know where entries come from. So it works
with a terminal (completion, history, several lines), with a pipe, and in tests.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING

from everview.algebra.text import name_sql
from everview.errors import EverviewError, Fault, format_count, nearest
from everview.query.answers import FetchedAnswer
from everview.ui.output import ENDS, MOST_ROWS, Sheet, printable, write_answer
from everview.ui.progress import known_up_to
from everview.ui.signals import catch_stop_signals
from everview.ui.tail import follow

if TYPE_CHECKING:
    from everview.server.access import StoreAccess

HELP = """\
SELECT … ;           any statement, on as many lines as it needs, up to the ;
\\d                   the names of the store
\\d NAME              what a name stands for
\\explain SELECT …    the plan of a query
\\run                 take in all that is there
\\run finish          the same, and say that no more will come
\\tail VIEW           the changes of a view as they come; Ctrl-C ends it
\\status              how far time is, what came, what waits
\\? or help           this help
\\q, exit or quit     leave, as Ctrl-D does"""

# Commands of other prompts.
_COMMAND_WORDS = {"help": "\\?", "exit": "\\q", "quit": "\\q"}

COMMANDS = ("\\d", "\\explain", "\\run", "\\tail", "\\status", "\\?", "\\q")

# Quoted text and comments, which may still be open: a semicolon in them ends no statement.
_QUIET = re.compile(
    r"""--[^\n]* | /\*.*?(?:\*/|\Z)
      | '(?:[^'\\]|\\.|'')*(?:'|\Z) | "(?:[^"\\]|\\.|"")*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z)""",
    re.S | re.X,
)


def _word(entry: str) -> str:
    """Return an entry in lower case without its semicolon."""
    return entry.strip().rstrip(";").strip().lower()


def is_complete_entry(entry: str) -> bool:
    """Return whether an entry can be executed: a command, or statements up to a semicolon.

    >>> [is_complete_entry(entry) for entry in ("SELECT 1", "SELECT ';", "SELECT ';'; -- done", "\\\\d")]
    [False, False, True, True]
    >>> is_complete_entry("help"), is_complete_entry("EXIT;")
    (True, True)
    """
    text = entry.strip()
    if _word(entry) in _COMMAND_WORDS:
        return True
    return not text or text.startswith("\\") or _QUIET.sub(" ", text).rstrip().endswith(";")


class Shell:
    """Executes entries on a store; an error is shown, and the next entry is executed."""

    def __init__(
        self, store: StoreAccess, out: IO[str], err: IO[str], ended: Callable[[float], bool] | None = None
    ) -> None:
        self._store = store
        self._out = out
        self._err = err
        self._ended = ended  # for tests: whether a tail should end

    def take(self, entry: str) -> bool:
        """Execute one entry; return False if it ends the shell."""
        text = _COMMAND_WORDS.get(_word(entry), entry).strip()
        try:
            if text.startswith("\\"):
                command, _, rest = text.rstrip("; \t\n").partition(" ")
                return self._command(command, rest.strip())
            self._execute(text)
        except EverviewError as error:
            print(error, file=self._err)
        except KeyboardInterrupt:
            print("stopped", file=self._err)
        except Exception as fault:
            print(Fault(f"{type(fault).__name__}: {fault}"), file=self._err)
        return True

    def _execute(self, sql: str) -> None:
        for answer in self._store.execute(sql, MOST_ROWS):
            if isinstance(answer, FetchedAnswer):
                write_answer(answer, "table", self._out, self._err)
            else:
                print(answer, file=self._out)

    def _command(self, command: str, rest: str) -> bool:
        match command:
            case "\\q":
                return False
            case "\\?":
                print(HELP, file=self._out)
            case "\\d" if rest:
                self._execute(f"DESCRIBE {name_sql(rest.strip('`'))}")
            case "\\d":
                self._names()
            case "\\explain":
                print(self._store.explain(rest), file=self._out)
            case "\\run":
                self._run(rest)
            case "\\status":
                print(self._store.status(), file=self._out)
            case "\\tail":
                self._tail(rest.strip("`"))
            case _:
                raise EverviewError(
                    f"there is no command {command}", meant=nearest(command, COMMANDS), choices=COMMANDS
                )
        return True

    def _names(self) -> None:
        names = self._store.names()
        for entry in names:
            print(f"{entry.kind:14} {printable(entry.name)}", file=self._out)
        if not names:
            print("nothing yet; make a stream with CREATE STREAM", file=self._out)

    def _run(self, how: str) -> None:
        if how not in ("", "finish"):
            raise EverviewError(f"\\run does not know '{how}'", choices=["\\run", "\\run finish"])
        done = self._store.run(finish=how == "finish")
        what = f"{format_count(done.rows, 'row')} in, {format_count(done.changes, 'change')}"
        print(f"{what}; {known_up_to(done.bound)}", file=self._out)
        for line in done.waits:
            print(line, file=self._out)

    def _tail(self, view: str) -> None:
        sheet = Sheet("table", self._out, ENDS["tags"])
        if self._ended is not None:
            follow(self._store, view, "tags", sheet, None, self._ended)
            return
        with catch_stop_signals() as stop:
            follow(self._store, view, "tags", sheet, None, stop.wait)


def read_piped_entries(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield entries from lines of text.

    >>> list(read_piped_entries(["SELECT 1\n", ";\n", "\\d\n", "SELECT 2"]))
    ['SELECT 1\n;\n', '\\d\n', 'SELECT 2']
    """
    entry = ""
    for line in lines:
        entry += line
        if is_complete_entry(entry):
            yield entry
            entry = ""
    if entry.strip():
        yield entry


def open_shell(store: StoreAccess) -> None:
    """Run the shell on standard input, with a prompt if that is a terminal."""
    shell = Shell(store, sys.stdout, sys.stderr)
    if sys.stdin.isatty():
        from everview.ui.prompt import prompt_session, read_typed_entries

        print("Everview. Statements end with ; and help helps.")
        entries = read_typed_entries(prompt_session(store))
    else:
        entries = read_piped_entries(sys.stdin)
    for entry in entries:
        if entry.strip() and not shell.take(entry):
            return
