"""A view's changes as they come: the store is looked at again and again, without its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.ui.output import Sheet

if TYPE_CHECKING:
    from everview.database import Database, DataFrame

PAUSE = 0.5  # seconds between two looks


def follow(
    db: Database, view: str, encoding: str, sheet: Sheet, since: int | None, ended: Callable[[float], bool]
) -> int | None:
    """Writes the changes after a step, then those of every new step, until `ended` says so.

    `ended` is given the seconds to wait. The last step whose changes were written.
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
    """The changes after a step, and the step up to which they go.

    A step may end between two looks at the store; then we cannot know which one the changes include, and
    look again. Nothing is computed before the rows are asked for.
    """
    while True:
        before = db.manifest().step
        frame = db.changes(view, encoding, since)
        if db.manifest().step == before:
            return frame, before
