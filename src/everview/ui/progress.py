"""The progress of a run: a status line while it runs, and a summary at its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console

from everview.algebra.text import name_sql
from everview.algebra.time import INFINITY, SECOND, UNDATED, Chronon, format_timestamp
from everview.catalog import Alteration
from everview.errors import format_count
from everview.ui import DEFAULT_PATH
from everview.ui.output import align_cells, printable

if TYPE_CHECKING:
    from everview.database import Manifest, Progress


class Meter:
    """The status line of a run, on a terminal only: a context manager that is called with every step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting Spark") if console.is_terminal else None

    def __enter__(self) -> Meter:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Hide the status line while something else is printed."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def show_text(self, what: str) -> None:
        if self._status is not None:
            self._status.update(what)

    def __call__(self, step: Progress) -> None:
        self.show_text(step_line(step))


def step_line(step: Progress) -> str:
    """Return a step on one line."""
    rate = step.rows / step.seconds if step.seconds > 0 else 0
    parts = [
        f"step {step.step}",
        f"{step.rows:,} rows in, {rate:,.0f} a second",
        known_up_to(step.bound),
        f"{seconds_text(step.present, step.bound)} behind the newest",
        f"{step.seconds:.2f} s",
        f"{step.state_rows:,} rows kept",
    ]
    return " · ".join(parts)


def known_up_to(bound: Chronon) -> str:
    """Return the bound in words.

    >>> known_up_to(0), known_up_to(INFINITY - 1), known_up_to(-INFINITY - 1)
    ('known up to 1970-01-01T00:00:00.000000', 'known to the end', 'nothing known yet')
    """
    if bound >= INFINITY - 1:
        return "known to the end"
    return "nothing known yet" if bound < UNDATED else f"known up to {format_timestamp(bound)}"


def seconds_text(present: Chronon, bound: Chronon) -> str:
    """Return the distance from the bound to the newest timestamp.

    >>> seconds_text(7_500_000, 5_000_000), seconds_text(5, INFINITY - 1)
    ('2.5 s', '0 s')
    """
    if present <= bound or bound < UNDATED:
        return "0 s"
    return f"{(present - bound) / SECOND:,.6g} s"


@dataclass
class Summary:
    """What a run did: filled in while it runs, printed at its end."""

    path: str = DEFAULT_PATH
    steps: int = 0
    seconds: float = 0.0
    bound: Chronon = -INFINITY - 1  # of the store, before the run
    before: Mapping[str, Sequence[int]] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    history: str = ""  # what the views keep that the run has created, unless they say it

    def step(self, step: Progress) -> None:
        """Add a step that has ended."""
        self.steps += 1
        self.seconds += step.seconds
        for name, number in step.changes.items():
            self.changes[name] = self.changes.get(name, 0) + number

    def follow_names(self, alterations: Iterable[Alteration], since: int) -> None:
        """Move the counts of a renamed entry, as of a step, to its new name."""
        for alteration in alterations:
            old, new = alteration.name, alteration.new_name
            if alteration.step > since and new:
                self.before = {new if name == old else name: n for name, n in self.before.items()}
                if old in self.changes:
                    self.changes[new] = self.changes.pop(old)

    def lines(self, manifest: Manifest, waits: Sequence[str] = ()) -> list[str]:
        """Return the lines of the summary, given the status of the store and the reasons for waiting."""
        new = {
            name: [now - was for now, was in zip(counts, self.before.get(name, (0, 0, 0)), strict=True)]
            for name, counts in manifest.counts.items()
        }
        came = [[name, *(f"{n:,}" for n in counts)] for name, counts in new.items() if any(counts)]
        moved = came or any(self.changes.values()) or manifest.bound != self.bound
        done = f"{format_count(self.steps, 'step')} in {self.seconds:.1f} s" if moved else "nothing new"
        lines = [f"{done}; {known_up_to(manifest.bound)}", *waits]
        if came:
            lines += ["", *_table(["stream", "rows", "late", "rejected"], came)]
        if moved and self.changes:
            lines += ["", *_table(["view", "changes"], [[n, f"{k:,}"] for n, k in self.changes.items()])]
        if self.history:
            lines += ["", f"history of new views: {self.history}; WITH (history => …) sets it"]
        look = [
            self._query(f"SELECT * FROM {_beside(name, kind)}")
            for name, (_, late, rejected) in new.items()
            for kind, number in (("late", late), ("rejected", rejected))
            if number
        ]
        look = look or [self._query(f"SELECT * FROM {name_sql(name)}") for name in [*self.changes][:1]]
        return [*lines, "", *(f"look: {each}" for each in look)] if look else lines

    def _query(self, sql: str) -> str:
        where = "" if self.path == DEFAULT_PATH else f" --path {shlex.quote(self.path)}"
        return f"everview query {shlex.quote(sql)}{where}"


def _beside(name: str, kind: str) -> str:
    """Return the name of the relation of a stream's late or rejected rows."""
    whole = f"{name}${kind}"
    return whole if name_sql(name) == name else name_sql(whole)


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    shown = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [align_cells(row, widths) for row in shown]
