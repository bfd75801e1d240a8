"""The run of a script: execute its statements in order, take in all available rows, answer its queries."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from everview.database import is_select
from everview.query import Report
from everview.ui.output import write_answer
from everview.ui.progress import Meter, Summary
from everview.ui.signals import WorkStopped

if TYPE_CHECKING:
    from everview.database import Database, Progress, Statement


@dataclass(frozen=True)
class RunningStore:
    """A store that runs a script: where progress is shown, and the event that stops it."""

    db: Database
    meter: Meter
    summary: Summary
    stop: threading.Event
    out: IO[str]
    err: IO[str]

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
                write_answer(answer, "table", self.out, self.err)
            print(file=self.out)

    def _report_step(self, step: Progress) -> None:
        """Show a committed step; raise WorkStopped if the user wants to stop."""
        self._show_step(step)
        if self.stop.is_set():
            raise WorkStopped

    def _show_step(self, step: Progress) -> None:
        self.meter(step)
        self.summary.step(step)

    def run_until_stopped(self) -> None:
        """Run steps in the background until the stop event is set, or a step fails."""
        failed: list[Exception] = []

        def wait() -> None:
            try:
                self.db.wait()
            except Exception as error:
                failed.append(error)

        self.db.start(progress=self._show_step)
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        while waiting.is_alive() and not self.stop.wait(0.2):
            pass
        waiting.join(0.1)
        ended_by_itself = not waiting.is_alive()
        self.db.stop()  # raises the error of a step
        waiting.join()
        if ended_by_itself and failed:  # otherwise the error only says that the steps were stopped
            raise failed[0]
