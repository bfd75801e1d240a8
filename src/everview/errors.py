"""Errors for users: one root class, and one class per stage that a query passes through.

An error says what is wrong, where in the SQL (line, column, the text underlined), what was
perhaps meant, which choices there are, and the next step:

>>> sql = "SELECT sped FROM highway"
>>> raise_me = SqlError(
...     "there is no column 'sped' in highway",
...     place=Place.of(sql, 7, 11),
...     meant=nearest("sped", ["lane", "speed", "length"]),
...     choices=["lane", "speed", "length"],
... )
>>> print(raise_me)
there is no column 'sped' in highway
  line 1, column 8
    SELECT sped FROM highway
           ^^^^
  did you mean 'speed'?
  choices: lane, speed, length
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MOST_CHOICES = 16


@dataclass(frozen=True)
class Place:
    """The part of a SQL text that an error is about. Lines and columns count from 1."""

    line: int
    column: int
    text: str
    width: int = 1

    @classmethod
    def of(cls, sql: str, start: int, end: int | None = None) -> Place:
        """Return the place of sql[start:end]; it is underlined up to the end of its first line."""
        start = max(0, min(start, len(sql)))
        line_start = sql.rfind("\n", 0, start) + 1
        line_end = sql.find("\n", start)
        line_end = len(sql) if line_end < 0 else line_end
        end = min(line_end, start + 1 if end is None else end)
        return cls(
            line=sql.count("\n", 0, start) + 1,
            column=start - line_start + 1,
            text=sql[line_start:line_end],
            width=max(1, end - start),
        )

    def underlined(self) -> str:
        """Return the line of SQL with carets below the place; tabs are kept so that the carets align."""
        lead = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"  line {self.line}, column {self.column}\n    {self.text}\n    {lead}{'^' * self.width}"


class EverviewError(Exception):
    """The root of all errors that are meant for the user to read."""

    def __init__(
        self,
        what: str,
        *,
        place: Place | None = None,
        meant: str | None = None,
        choices: Iterable[str] = (),
        next_step: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.place = place
        self.meant = meant
        self.choices = tuple(choices)
        self.next_step = next_step

    def at(self, place: Place | None) -> EverviewError:
        """Set the place of the error, unless it already has one closer to the cause, and return it."""
        if self.place is None:
            self.place = place
        return self

    def __str__(self) -> str:
        lines = [self.what]
        if self.place is not None:
            lines.append(self.place.underlined())
        if self.meant is not None:
            lines.append(f"  did you mean '{self.meant}'?")
        if self.choices:
            lines.append(f"  choices: {format_choices(self.choices)}")
        if self.next_step is not None:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


class AlgebraError(EverviewError):
    """A node of the algebra that cannot be built: a missing column, types that do not fit."""


class SqlError(EverviewError):
    """SQL text that does not parse, or whose names and types do not bind."""


class CatalogError(EverviewError):
    """A name that is missing, taken, or still needed by something else."""


class TemporalError(EverviewError):
    """A query that could never answer, or whose state could never stop growing."""


class PlanError(EverviewError):
    """A query that means something but that this engine cannot run."""

    view: str | None = None  # the view, if the error is found only when the view is about to run

    def of_view(self, view: str) -> PlanError:
        """Return the same error with the name of a view."""
        self.view = view
        return self


class StoreError(EverviewError):
    """A store or a source that cannot be read or written as it is."""


class Fault(EverviewError):
    """A fault inside Everview, not a mistake of the user."""

    def __str__(self) -> str:
        return f"a fault of Everview, not of yours: {super().__str__()}"


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most similar to this one, if any is similar enough; 1.0 is equality.

    >>> nearest("tempreture", ["room_id", "temperature"])
    'temperature'
    >>> nearest("xyz", ["room_id", "temperature"]) is None
    True
    """
    by_folded = {k.casefold(): k for k in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=likeness)
    return by_folded[found[0]] if found else None


def format_count(number: int, thing: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> format_count(1, "column"), format_count(2, "column")
    ('1 column', '2 columns')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_choices(choices: Sequence[str]) -> str:
    """Return the choices on one line, shortened if there are many.

    >>> format_choices(["a", "b"])
    'a, b'
    """
    if len(choices) <= _MOST_CHOICES:
        return ", ".join(choices)
    return ", ".join(choices[:_MOST_CHOICES]) + f", … ({len(choices)} in all)"
