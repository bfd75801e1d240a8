"""The changes of a view as they come: the store is polled, without its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.ui.output import Sheet

if TYPE_CHECKING:
    from everview.server.access import StoreAccess

PAUSE = 0.5  # seconds between two polls


def follow(
    store: StoreAccess,
    view: str,
    encoding: str,
    sheet: Sheet,
    since: int | None,
    ended: Callable[[float], bool],
) -> int | None:
    """Print the changes after a step, then those of every new step, until `ended` returns True.

    `ended` is called with the seconds to wait. Return the last step whose changes were printed.
    """
    seen = since
    while True:
        answer, seen = store.new_changes(view, encoding, seen)
        if answer is not None:
            sheet.write(answer)
        if ended(PAUSE):
            return seen
