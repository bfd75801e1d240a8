"""Values: which count as equal, and their order, as Spark groups and sorts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

NAN = float("nan")


def normal(value: object) -> object:
    """Return the one value that stands for all that Spark groups together: -0.0 as 0.0, every NaN as NAN.

    >>> str(normal(-0.0)), normal(float("nan")) is NAN, normal(5)
    ('0.0', True, 5)
    """
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def ordering(value: object) -> tuple[int, Any]:
    """Return a sort key for one value.

    >>> sorted([2.0, None, float("nan"), float("inf"), 1.0], key=ordering)
    [None, 1.0, 2.0, inf, nan]
    """
    if value is None:
        return 0, 0
    if isinstance(value, float) and math.isnan(value):
        return 2, 0
    return 1, value


def record_ordering(record: Iterable[object]) -> tuple[tuple[int, Any], ...]:
    """Return a sort key for a record: column by column."""
    return tuple(ordering(value) for value in record)
