"""Which cases of a test run in the fast lane: all of them run in the slow one, and so in `make test`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.seeds import seeds


def one_in(
    n: int, cases: Iterable[Any], id: Callable[[Any], str] | None = None
) -> list[Any]:  # parameter sets of pytest
    """Return the cases for `parametrize`, the first and every nth after it in the fast lane too."""
    return [
        pytest.param(case, id=None if id is None else id(case), marks=[pytest.mark.slow] if i % n else [])
        for i, case in enumerate(cases)
    ]


def seed_lanes(name: str, fast: int, more: int, many: int) -> pytest.MarkDecorator:
    """Parametrize a test by ranges of seeds: `fast` of them in the fast lane, others in the slow one.

    The slow lane has `more` in `make test`, and `many` in `make fuzz`.
    """
    rest = len(seeds(more, many))
    lanes = [
        pytest.param(range(fast), id="fast"),
        pytest.param(range(fast, fast + rest), id="slow", marks=pytest.mark.slow),
    ]
    return pytest.mark.parametrize(name, lanes)
