"""Which values a column takes: one rule for INSERT, UPDATE and rows from Python.

A value is stored unchanged, or refused: nothing is truncated silently. Digits after the point of a DECIMAL
and the precision of floating point are rounded.
"""

from __future__ import annotations

import math
import re

from everview.algebra.convert import convert
from everview.algebra.dates import BLANK
from everview.algebra.types import STRING, DataType

_WHOLE = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


def convert_for_storage(value: object, source: DataType, target: DataType) -> object:
    """Convert a value to the type of its column; None if it does not fit.

    >>> from everview.algebra.types import DOUBLE, FLOAT, INT
    >>> convert_for_storage("12", STRING, INT), convert_for_storage("12.5", STRING, INT)
    (12, None)
    >>> convert_for_storage(12.0, DOUBLE, INT), convert_for_storage(12.5, DOUBLE, INT)
    (12, None)
    >>> convert_for_storage(1e300, DOUBLE, FLOAT) is None
    True
    """
    if source == STRING and target.is_integer and not _WHOLE.fullmatch(str(value).strip(BLANK)):
        return None
    fitted = convert(value, source, target)
    if source.is_numeric and target.is_integer and fitted != value:
        return None
    if isinstance(fitted, float) and math.isinf(fitted) and not _is_infinite(value):
        return None
    return fitted


def _is_infinite(value: object) -> bool:
    if isinstance(value, str):
        return _INFINITE.fullmatch(value.strip(BLANK)) is not None
    return isinstance(value, float) and math.isinf(value)
