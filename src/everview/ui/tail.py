"""The changes of a view as they come: the store is polled, without its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.ui.output import Sheet

if TYPE_CHECKING:
    from everview.database import Database, DataFrame

PAUSE = 0.5  # seconds between two polls


def follow(
    db: Database, view: str, encoding: str, sheet: Sheet, since: int | None, ended: Callable[[float], bool]
) -> int | None:
    """Print the changes after a step, then those of every new step, until `ended` returns True.

    `ended` is called with the seconds to wait. Return the last step whose changes were printed.
    """
    seen = since
    while True:
        step = db.manifest().step
        if seen is None or step > seen:
            frame, seen = _changes_up_to_now(db, view, encoding, seen)
            sheet.write(frame)
        if ended(PAUSE):
            return seen


def _changes_up_to_now(db: Database, view: str, encoding: str, since: int | None) -> tuple[DataFrame, int]:
    """Return the changes after a step, and the step up to which they go.

    A step may end between two reads of the store. Then it is unknown which step the changes include, and
    the store is read again. Nothing is computed before the rows are fetched.
    """
    while True:
        before = db.manifest().step
        frame = db.changes(view, encoding, since)
        if db.manifest().step == before:
            return frame, before
