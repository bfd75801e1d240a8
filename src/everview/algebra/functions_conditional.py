"""The table of conditional functions: about NULL, conditions and order."""

from __future__ import annotations

from typing import Any

from everview.algebra.convert import convert
from everview.algebra.signatures import Constants, Types
from everview.algebra.signatures import Signature as Row
from everview.algebra.types import DataType, wider_type
from everview.algebra.values import ordering
from everview.errors import AlgebraError


def coalesce_values(*values: Any) -> Any:
    """Return the first value that is not NULL.

    >>> coalesce_values(None, 2, 3)
    2
    """
    return next((v for v in values if v is not None), None)


def greatest(*values: Any) -> Any:
    """Return the greatest value that is not NULL; NaN is greater than every number.

    >>> greatest(1.0, None, float("nan"))
    nan
    """
    return max((v for v in values if v is not None), key=ordering, default=None)


def least(*values: Any) -> Any:
    """Return the least value that is not NULL.

    >>> least(1.0, None, float("nan"))
    1.0
    """
    return min((v for v in values if v is not None), key=ordering, default=None)


def nullif(types: Types, a: Any, b: Any) -> Any:
    """Return NULL if both are equal, else the first.

    >>> from everview.algebra.types import INT
    >>> nullif((INT, INT), 1, 1), nullif((INT, INT), 1, None)
    (None, 1)
    """
    common = wider_type(*types)
    if a is None or b is None or common is None:
        return a
    x, y = convert(a, types[0], common), convert(b, types[1], common)
    return None if x is not None and y is not None and ordering(x) == ordering(y) else a


def _comparable(types: Types, _: Constants) -> DataType:
    if wider_type(*types) is None:
        raise AlgebraError(f"nullif cannot compare {types[0]} with {types[1]}", next_step="CAST one of them")
    return types[0]


CONDITIONAL_FUNCTIONS = (
    Row("coalesce", "T...", "T", coalesce_values, strict=False),
    Row("nvl", "T, T", "T", coalesce_values, ("ifnull",), strict=False),
    Row("nvl2", "ANY, T, T", "T", lambda a, b, c: c if a is None else b, strict=False),
    Row("nullif", "ANY, ANY", _comparable, nullif, strict=False, typed=True),
    Row("if", "BOOLEAN, T, T", "T", lambda condition, a, b: a if condition else b, strict=False),
    Row("isnull", "ANY", "BOOLEAN", lambda a: a is None, strict=False),
    Row("isnotnull", "ANY", "BOOLEAN", lambda a: a is not None, strict=False),
    Row("equal_null", "T, T", "BOOLEAN", lambda a, b: ordering(a) == ordering(b), strict=False),
    Row("greatest", "T, T...", "T", greatest, strict=False),
    Row("least", "T, T...", "T", least, strict=False),
)
