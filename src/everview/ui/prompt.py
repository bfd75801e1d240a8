"""The prompt of the shell on a terminal: several lines, completion, history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from everview.algebra.text import name_sql
from everview.errors import EverviewError
from everview.ui.shell import COMMANDS, is_complete_entry

if TYPE_CHECKING:
    from everview.server.access import StoreAccess

_KEYWORDS = """
" ALL AND AS ASC AT AVG BETWEEN BY CASE CAST CLOCK COMPLETE COUNT CREATE CROSS DELETE DESC DESCRIBE
DISTINCT DROP DSTREAM ELSE END EVERY EXCEPT EXISTS EXPLAIN FIXED FROM FULL GROUP HAVING HISTORY IDLE
IN INNER INSERT INTERSECT INTERVAL INTO IS ISTREAM JOIN KEY LAG LATENESS LEFT LIKE LIMIT MAX MIN NOT
NOW NULL OF OFFSET ON OR ORDER ORIGIN OUTER OVER PARTITION PRIMARY RANGE RETROACTIVE RIGHT ROWS
RSTREAM SELECT SEQUENCE SET SHOW SINCE SLIDE STDDEV STREAM STREAMED STREAMS SUM SYNC TABLE TABLES
TAGGED THEN TIMELINE TIMESTAMP TUMBLE UNBOUNDED UNION UNTIL UPDATE VALUES VIEW VIEWS WHEN WHERE WITH
"""
_WORD = re.compile(r"[\\\w$?]+$")


class Names(Completer):
    """A completer of keywords, commands, and the names and columns of the store."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        found = _WORD.search(document.text_before_cursor)
        begun = "" if found is None else found[0]
        known = COMMANDS if begun.startswith("\\") else self._words()
        for word in dict.fromkeys(known) if begun else ():
            if word.lstrip("`").casefold().startswith(begun.casefold()):
                yield Completion(word, start_position=-len(begun))

    def _words(self) -> list[str]:
        try:
            entries = self._store.names()
        except EverviewError:  # shown when a statement is executed; nothing may be printed at the prompt
            entries = []
        columns = {column for entry in entries for column in entry.columns}
        names = [*(entry.name for entry in entries), *sorted(columns)]
        return [*map(name_sql, names), *_KEYWORDS.split()]


def history_file() -> Path:
    """Return the path of the history file, in the user's state directory (XDG)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "everview" / "history"


def prompt_session(store: StoreAccess, input: Any = None, output: Any = None) -> PromptSession[str]:
    """Return a prompt on a terminal."""
    path = history_file()
    history: History
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        history = FileHistory(path)
    except OSError:  # without a writable home directory the prompt has no history
        history = InMemoryHistory()
    keys = KeyBindings()
    session: PromptSession[str]

    @keys.add("enter", filter=Condition(lambda: is_complete_entry(session.default_buffer.text)))
    def accept(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    session = PromptSession(
        "everview> ",
        multiline=True,
        prompt_continuation="      ...> ",
        lexer=PygmentsLexer(SqlLexer),
        completer=Names(store),
        complete_while_typing=False,
        history=history,
        key_bindings=keys,
        input=input,
        output=output,
    )
    return session


def read_typed_entries(session: PromptSession[str]) -> Iterator[str]:
    """Yield the entries that a person types; Ctrl-C discards the current one, Ctrl-D ends."""
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
