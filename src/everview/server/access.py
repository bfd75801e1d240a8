"""What can be asked of a store, and the answers in this process. `client.py` asks a server the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from everview.query.answers import FetchedAnswer
from everview.query.report import Report
from everview.server.protocol import NamedEntry, RunDone

if TYPE_CHECKING:
    from everview.database import Database, DataFrame


class StoreAccess(Protocol):
    """A store that commands and the prompt ask: in this process, or through its server.

    `most` limits the rows of an answer. An answer must be read before the next one is asked for.
    """

    def query(
        self, sql: str, as_of: str | None, parameters: Mapping[str, str], most: int | None
    ) -> FetchedAnswer | Report:
        """Return the answer of one SELECT, DESCRIBE or SHOW."""

    def changes(self, view: str, encoding: str, since: int | None, most: int | None) -> FetchedAnswer:
        """Return the changes of a view, after a step if one is given."""

    def new_changes(self, view: str, encoding: str, seen: int | None) -> tuple[FetchedAnswer | None, int]:
        """Return the changes after the last step that was seen, and the step up to which they go.

        None if there was no other step.
        """

    def status(self) -> Report:
        """Return the state of the store."""

    def names(self) -> list[NamedEntry]:
        """Return the entries of the catalog."""

    def explain(self, sql: str) -> str:
        """Return the plan of a script."""

    def execute(self, sql: str, most: int | None) -> Iterator[FetchedAnswer | Report | str]:
        """Execute statements one after the other, and yield the answers of those that have one."""

    def run(self, finish: bool) -> RunDone:
        """Take in all available rows; with `finish`, to the end of time."""


class LocalAccess:
    """A store that is open in this process."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def query(
        self, sql: str, as_of: str | None, parameters: Mapping[str, str], most: int | None
    ) -> FetchedAnswer | Report:
        from everview.without_spark import is_show_statement

        self._load_names()
        if is_show_statement(sql, self._db.catalog):
            report = self._db.execute(sql)
            assert isinstance(report, Report)
            return report
        return _fetch_frame(self._db.query(sql, as_of, **parameters), most)

    def changes(self, view: str, encoding: str, since: int | None, most: int | None) -> FetchedAnswer:
        self._load_names()
        return _fetch_frame(self._db.changes(view, encoding, since), most)

    def new_changes(self, view: str, encoding: str, seen: int | None) -> tuple[FetchedAnswer | None, int]:
        """Read again if a step ended meanwhile: it is unknown then which step the changes include.

        Nothing is computed before the rows are fetched.
        """
        self._load_names()
        while True:
            before = self._db.manifest().step
            if seen is not None and before <= seen:
                return None, seen
            frame = self._db.changes(view, encoding, seen)
            if self._db.manifest().step == before:
                return _fetch_frame(frame), before

    def status(self) -> Report:
        return self._db.status().report()

    def names(self) -> list[NamedEntry]:
        self._load_names()
        return [
            NamedEntry(entry.name, entry.kind, tuple(field.name for field in getattr(entry, "columns", ())))
            for entry in self._db.catalog
        ]

    def explain(self, sql: str) -> str:
        self._load_names()
        return str(self._db.explain(sql))

    def execute(self, sql: str, most: int | None) -> Iterator[FetchedAnswer | Report | str]:
        for statement in self._db.statements(sql):
            answer = self._db.carry_out(statement)
            if answer is not None:
                yield answer if isinstance(answer, (str, Report)) else _fetch_frame(answer, most)

    def run(self, finish: bool) -> RunDone:
        done = self._db.run(finish)
        changes = sum(done.changes.values())
        return RunDone(done.rows, changes, done.bound, self._db.status().waits)

    def _load_names(self) -> None:
        """Load what other processes have created."""
        self._db.execute("")


def _fetch_frame(frame: DataFrame, most: int | None = None) -> FetchedAnswer:
    from everview.query.answers import fetch_answer

    return fetch_answer(frame, most)
