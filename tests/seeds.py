"""How many random cases a test on Spark has, which are too slow for hypothesis."""

from __future__ import annotations

from hypothesis import settings

_MANY = 1000  # examples of each property in `make fuzz`


def seeds(few: int, many: int) -> range:
    """The numbers of the cases: `few` of them in `make test`, `many` in `make fuzz`."""
    return range(many if settings().max_examples >= _MANY else few)
