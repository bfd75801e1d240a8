"""The strategies by which views are computed (paper 2, sections 2.3 and 5): a setting of a store.

All three give the same answers; they differ in what is kept and emitted. `lower.py` follows them.
"""

from __future__ import annotations

from everview.errors import PlanError, nearest

STRATEGY_TEXTS = {
    "UPA": "rows have ends, and update patterns say how state is kept",
    "DIRECT": "rows have ends; state is kept as if any row could be retracted",
    "NT": "rows of windows have no ends: negative rows retract them",
}
"""What each strategy does, in words."""

STRATEGIES = tuple(STRATEGY_TEXTS)
"""The strategies; the first is the default."""


def find_strategy(name: str) -> str:
    """Return a strategy by its name, in upper or lower case; raise an error if there is none of that name.

    >>> find_strategy("direct")
    'DIRECT'
    """
    found = str(name).upper()
    if found not in STRATEGIES:
        raise PlanError(
            f"there is no strategy '{name}'", meant=nearest(found, STRATEGIES), choices=STRATEGIES
        )
    return found
