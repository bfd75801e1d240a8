"""The run of a script: execute its statements in order, take in all available rows, answer its queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from everview.query.answers import fetch_answer
from everview.query.report import Report
from everview.server.server import Server
from everview.ui.output import MOST_ROWS, write_answer
from everview.ui.progress import Meter, Summary
from everview.ui.signals import WorkStopped
from everview.without_spark import is_select

if TYPE_CHECKING:
    from everview.database import Database, Progress, Statement

_LOOK_AGAIN = 0.2  # seconds between two looks at the background steps


@dataclass(frozen=True)
class RunningStore:
    """A store that runs a script, the meter that shows progress, and the event that stops it."""

    db: Database
    meter: Meter
    summary: Summary
    stop: threading.Event
    out: IO[str]
    err: IO[str]
    watchers: list[Callable[[Progress], None]] = field(default_factory=list)  # called with every step

    def run_script(self, sql: str, statements: Sequence[Statement], finish: bool) -> None:
        """Execute the statements of a script and take in all available rows.

        Rows are taken in before each query, so that it sees the effect of all statements before it. Queries
        at the end of the script are answered after the whole input; with `finish`, at the end of time.
        """
        questions = [is_select(statement) for statement in statements]
        last = max((i for i, is_question in enumerate(questions) if not is_question), default=-1)
        for place, statement in enumerate(self.db.statements(sql)):
            if place == last + 1:
                self.db.run(finish, self._report_step)
            elif questions[place] and not (place and questions[place - 1]):
                self.db.run(progress=self._report_step)
            self._carry_out(statement)
        if last + 1 == len(questions):
            self.db.run(finish, self._report_step)

    def _carry_out(self, statement: Statement) -> None:
        answer = self.db.carry_out(statement)
        if answer is None:
            return
        with self.meter.pause():
            if isinstance(answer, (str, Report)):
                print(answer, file=self.out)
            else:
                write_answer(fetch_answer(answer, MOST_ROWS), "table", self.out, self.err)
            print(file=self.out)

    def _report_step(self, step: Progress) -> None:
        """Show a committed step; raise WorkStopped if the user wants to stop."""
        self._show_step(step)
        if self.stop.is_set():
            raise WorkStopped

    def _show_step(self, step: Progress) -> None:
        self.meter(step)
        self.summary.step(step)
        for watch in self.watchers:
            watch(step)

    @contextmanager
    def serve(self) -> Iterator[Server]:
        """Answer other processes through the socket of the store, inside the block.

        At its end, other processes are told that the server stops, or which error ended it.
        """
        self.db.hold()
        server = Server(self.summary.path, self.db)
        server.start()
        server.warm_up()
        try:
            yield server
        except Exception as failure:
            server.stop(None if isinstance(failure, WorkStopped) else failure)
            raise
        except BaseException:  # a second Ctrl-C: do not wait for the step
            server.remove_socket()
            raise
        else:
            server.stop()

    def run_until_stopped(self, server: Server) -> None:
        """Run steps in the background until the stop event is set, or a step fails.

        Clients of the server may pause the steps and start them again meanwhile.
        """
        with server.writing:
            self.db.start(progress=self._show_step)
        while self.db.failure() is None and not self.stop.wait(_LOOK_AGAIN):
            pass
        with server.writing:
            self.db.stop()  # raises the error of a step
            failure = self.db.failure()
        if failure is not None:  # a client has come upon it first
            raise failure
