"""CAST with ANSI mode off: a value that does not fit becomes NULL, or is cut as Java cuts it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from everview.algebra.dates import BLANK, date_text, instant_text, interval_text, parse_date, parse_instant
from everview.algebra.numbers import (
    double_text,
    fit_decimal,
    round_exact_to_single,
    round_to_single,
    saturate,
    single_text,
    whole_part,
    wrap,
)
from everview.algebra.time import DAY, SECOND
from everview.algebra.types import TIMESTAMP, DataType
from everview.algebra.values import NAN

_INTEGER = re.compile(r"[+-]?(?=[\d.])(\d*)(?:\.\d*)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_JAVA_BLANK = "".join(map(chr, range(0x21)))
_SPECIAL = {"nan": NAN} | {
    sign + name: -math.inf if sign == "-" else math.inf
    for sign in ("", "+", "-")
    for name in ("inf", "infinity")
}
_TRUTHS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)


def convert(value: object, source: DataType, target: DataType) -> object:
    """Return CAST(value AS target) of a value of the source type; NULL stays NULL.

    >>> from everview.algebra.types import BIGINT, DOUBLE, INT, STRING, TINYINT, decimal
    >>> convert(" 12.7 ", STRING, INT), convert("twelve", STRING, INT), convert(300, INT, TINYINT)
    (12, None, 44)
    >>> convert(1e20, DOUBLE, INT), convert(1e10, DOUBLE, STRING), convert(1.005, DOUBLE, decimal(4, 2))
    (2147483647, '1.0E10', Decimal('1.01'))
    """
    if value is None:
        return None
    if source == target:
        return canonical(value)
    return canonical(_CASTS[target.name](value, source, target))


def try_convert(value: object, source: DataType, target: DataType) -> object:
    """Return TRY_CAST(value AS target): as CAST, but NULL for values out of range and for fractions in text.

    >>> from everview.algebra.types import DOUBLE, INT, STRING, TINYINT
    >>> try_convert("12", STRING, INT), try_convert("12.7", STRING, INT), try_convert(300, INT, TINYINT)
    (12, None, None)
    >>> try_convert(1.9, DOUBLE, INT), try_convert(1e20, DOUBLE, INT)
    (1, None)
    """
    if isinstance(value, Decimal) and target.name == "STRING":
        return f"{value:f}"  # without an exponent, unlike CAST
    if value is None or not _loses(value, source, target):
        return convert(value, source, target)
    return None


def _loses(value: Any, source: DataType, target: DataType) -> bool:
    """Return whether CAST would cut a value so that TRY_CAST is NULL."""
    if source == target:
        return False
    if target.is_integer and source.name == "STRING":
        return _WHOLE.fullmatch(value.strip(BLANK)) is None
    if target.is_integer and source.is_float:
        least, most = -(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1
        return not math.isfinite(value) or math.floor(value) > most or math.ceil(value) < least
    if target.is_integer and (source.is_integer or source.is_decimal):
        return _if_fits(whole_part(Decimal(value)), target) is None
    if target == TIMESTAMP and source.is_float:
        return not math.isfinite(value) or abs(value * SECOND) >= 2**63
    return False


def canonical(value: object) -> object:
    """Return the value, with every NaN replaced by NAN.

    >>> canonical(float("nan")) is NAN, canonical(-0.0)
    (True, -0.0)
    """
    return NAN if isinstance(value, float) and math.isnan(value) else value


def checked_micros(micros: int) -> int | None:
    """Return the microseconds of a timestamp or an interval; NULL if they are out of its range.

    >>> checked_micros(5), checked_micros(2**63)
    (5, None)
    """
    return micros if wrap(micros, 64) == micros else None


def _to_boolean(value: Any, source: DataType, _: DataType) -> object:
    if source.name == "STRING":
        return _TRUTHS.get(value.strip(BLANK).lower())
    return value != 0


def _to_integer(value: Any, source: DataType, target: DataType) -> object:
    if source.name == "STRING":
        match = _INTEGER.fullmatch(value.strip(BLANK))
        if match is None:
            return None
        whole = int(match[1] or 0)
        return _if_fits(-whole if match[0].startswith("-") else whole, target)
    if source.is_float:
        return wrap(saturate(value, max(32, target.bits)), target.bits)
    if source.is_decimal:
        return wrap(whole_part(value), target.bits)
    if source == TIMESTAMP:
        return _if_fits(value // SECOND, target)
    return wrap(int(value), target.bits)


def _if_fits(value: int, target: DataType) -> int | None:
    return value if wrap(value, target.bits) == value else None


def _to_double(value: Any, source: DataType, _: DataType) -> object:
    if source.name == "STRING":
        return _parse_double(value)
    if source == TIMESTAMP:
        return float(value) / SECOND
    return float(value)


def _parse_double(text: str) -> float | None:
    """Parse a number as Java's Double.parseDouble does; NaN and ∞ in upper or lower case."""
    trimmed = text.strip(_JAVA_BLANK)
    body = trimmed[:-1] if trimmed[-1:] in tuple("dDfF") else trimmed
    if _NUMBER.fullmatch(body):
        return float(body)
    if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+", body):
        try:
            return float.fromhex(body)
        except (ValueError, OverflowError):
            return None
    return _SPECIAL.get(text.strip(BLANK).lower())


def _to_float(value: Any, source: DataType, target: DataType) -> object:
    if source.name == "STRING":
        trimmed = value.strip(_JAVA_BLANK)
        body = trimmed[:-1] if trimmed[-1:] in tuple("dDfF") else trimmed
        if _NUMBER.fullmatch(body) and math.isfinite(float(body)) and float(body):
            return round_exact_to_single(Fraction(body))
    elif source.is_decimal or source.is_integer:
        return round_exact_to_single(Fraction(value)) if value else 0.0
    double = _to_double(value, source, target)
    return None if double is None else round_to_single(double)  # type: ignore[arg-type]


def _to_decimal(value: Any, source: DataType, target: DataType) -> object:
    if source.name == "STRING":
        text = value.strip(_JAVA_BLANK)
        if not _NUMBER.fullmatch(text):
            return None
        try:
            return fit_decimal(Decimal(text), target)
        except InvalidOperation:
            return None
    if source == TIMESTAMP:
        value = float(value) / SECOND
    if isinstance(value, float):
        return fit_decimal(Decimal(repr(value)), target)
    return fit_decimal(Decimal(value), target)


def _to_string(value: Any, source: DataType, _: DataType) -> object:
    match source.name:
        case "BOOLEAN":
            return "true" if value else "false"
        case "DOUBLE":
            return double_text(value)
        case "FLOAT":
            return single_text(value)
        case "DATE":
            return date_text(value)
        case "TIMESTAMP":
            return instant_text(value)
        case "INTERVAL":
            return interval_text(value)
        case "BINARY":
            return value.decode("utf-8", errors="replace")
        case _:
            return str(value)


def _to_binary(value: Any, source: DataType, _: DataType) -> object:
    if source.name == "STRING":
        return value.encode()
    return wrap(value, source.bits).to_bytes(source.bits // 8, "big", signed=True)


def _to_date(value: Any, source: DataType, _: DataType) -> object:
    return parse_date(value) if source.name == "STRING" else value // DAY


def _to_timestamp(value: Any, source: DataType, _: DataType) -> object:
    if source.name == "STRING":
        return parse_instant(value)
    if source.name == "DATE":
        return checked_micros(value * DAY)
    if source.is_float:
        return saturate(value * SECOND, 64) if math.isfinite(value) else None
    if source.is_decimal:
        return wrap(whole_part(value.scaleb(6)), 64)
    if source.name == "BOOLEAN":
        return int(value)
    return max(-(2**63), min(2**63 - 1, value * SECOND))


_CASTS: dict[str, Callable[[Any, DataType, DataType], object]] = {
    "BOOLEAN": _to_boolean,
    "TINYINT": _to_integer,
    "SMALLINT": _to_integer,
    "INT": _to_integer,
    "BIGINT": _to_integer,
    "FLOAT": _to_float,
    "DOUBLE": _to_double,
    "DECIMAL": _to_decimal,
    "STRING": _to_string,
    "BINARY": _to_binary,
    "DATE": _to_date,
    "TIMESTAMP": _to_timestamp,
}
