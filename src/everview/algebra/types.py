"""The types of values, and how Spark SQL (ANSI mode off) widens them.

In the reference a TIMESTAMP and an INTERVAL are ints (microseconds), a DATE is an int (days since
1970-01-01), a DECIMAL is a decimal.Decimal, everything else its plain Python value; NULL is None.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_PRECISION = 38
BITWISE = ("&", "|", "^")


@dataclass(frozen=True)
class DataType:
    """A scalar type of Spark SQL; precision and scale belong to DECIMAL only."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"{self.name}({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def a(self) -> str:
        """The type with its article, for messages."""
        return f"an {self}" if self.name.startswith("I") else f"a {self}"

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGERS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_temporal(self) -> bool:
        return self.name in ("DATE", "TIMESTAMP")

    @property
    def bits(self) -> int:
        """How wide an integer type is."""
        return _INTEGERS[self.name]


_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

VOID = DataType("VOID")
BOOLEAN = DataType("BOOLEAN")
TINYINT = DataType("TINYINT")
SMALLINT = DataType("SMALLINT")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
FLOAT = DataType("FLOAT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
BINARY = DataType("BINARY")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
INTERVAL = DataType("INTERVAL")

SIMPLE_TYPES = {
    t.name: t
    for t in (
        BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, INTERVAL,
    )
}  # fmt: skip

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_WIDTH = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"]


def decimal(precision: int, scale: int) -> DataType:
    """Return DECIMAL(precision, scale); what would be too wide loses scale first, down to 6 digits of it.

    That is Spark's `DecimalType.adjustPrecisionScale`.

    >>> str(decimal(10, 2)), str(decimal(40, 10))
    ('DECIMAL(10,2)', 'DECIMAL(38,8)')
    """
    if precision <= MAX_PRECISION:
        return DataType("DECIMAL", precision, scale)
    scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
    return DataType("DECIMAL", MAX_PRECISION, scale)


def as_decimal(t: DataType) -> DataType:
    """Return the decimal type that holds every value of an integer type."""
    return t if t.is_decimal else DataType("DECIMAL", _DIGITS[t.name], 0)


def wider_type(a: DataType, b: DataType) -> DataType | None:
    """Return the narrowest type that both fit, as for CASE, COALESCE, UNION and comparisons; None if none.

    >>> str(wider_type(INT, DOUBLE)), str(wider_type(INT, decimal(5, 2))), wider_type(INT, STRING)
    ('DOUBLE', 'DECIMAL(12,2)', None)
    """
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if a.is_numeric and b.is_numeric:
        return _wider_number(a, b)
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return None


def _wider_number(a: DataType, b: DataType) -> DataType:
    if a.is_decimal or b.is_decimal:
        if a.is_float or b.is_float:
            return DOUBLE
        x, y = as_decimal(a), as_decimal(b)
        scale = max(x.scale, y.scale)
        whole = max(x.precision - x.scale, y.precision - y.scale)
        # What is too wide loses digits after the point first: Spark's `boundedPreferIntegralDigits`.
        excess = max(0, whole + scale - MAX_PRECISION)
        return DataType("DECIMAL", whole + scale - excess, max(0, scale - excess))
    return max(a, b, key=lambda t: _WIDTH.index(t.name))


def arithmetic_type(operator: str, a: DataType, b: DataType) -> DataType | None:
    """Return the type of a <operator> b for + - * / % & | ^, or None where there is none.

    >>> str(arithmetic_type("/", INT, INT)), str(arithmetic_type("+", TIMESTAMP, INTERVAL))
    ('DOUBLE', 'TIMESTAMP')
    >>> str(arithmetic_type("*", decimal(5, 2), decimal(4, 1)))
    'DECIMAL(10,3)'
    """
    a, b = _with_void(a, b), _with_void(b, a)
    if operator in BITWISE:
        return _wider_number(a, b) if a.is_integer and b.is_integer else None
    if a.is_numeric and b.is_numeric:
        if (a.is_decimal or b.is_decimal) and not (a.is_float or b.is_float):
            return _decimal_arithmetic(operator, as_decimal(a), as_decimal(b))
        return DOUBLE if operator == "/" else _wider_number(a, b)
    return (
        _TIME_ARITHMETIC.get((a.name, operator, b.name))
        or (INTERVAL if a == INTERVAL and b.is_integer and operator == "*" else None)
        or (INTERVAL if b == INTERVAL and a.is_integer and operator == "*" else None)
    )


def _with_void(t: DataType, other: DataType) -> DataType:
    """Return the type; for an untyped NULL, the type of the other side."""
    return t if t != VOID else (other if other != VOID else DOUBLE)


_TIME_ARITHMETIC = {
    ("TIMESTAMP", "+", "INTERVAL"): TIMESTAMP,
    ("TIMESTAMP", "-", "INTERVAL"): TIMESTAMP,
    ("INTERVAL", "+", "TIMESTAMP"): TIMESTAMP,
    ("TIMESTAMP", "-", "TIMESTAMP"): INTERVAL,
    ("INTERVAL", "+", "INTERVAL"): INTERVAL,
    ("INTERVAL", "-", "INTERVAL"): INTERVAL,
    ("DATE", "+", "INTERVAL"): TIMESTAMP,
    ("DATE", "-", "INTERVAL"): TIMESTAMP,
    ("INTERVAL", "+", "DATE"): TIMESTAMP,
    ("DATE", "-", "DATE"): INTERVAL,
    ("DATE", "-", "TIMESTAMP"): INTERVAL,
    ("TIMESTAMP", "-", "DATE"): INTERVAL,
    **{("DATE", operator, days): DATE for operator in "+-" for days in ("TINYINT", "SMALLINT", "INT")},
    **{(days, "+", "DATE"): DATE for days in ("TINYINT", "SMALLINT", "INT")},
}


def _decimal_arithmetic(operator: str, a: DataType, b: DataType) -> DataType:
    """Return Spark's result type for arithmetic on decimals (DecimalPrecision)."""
    p1, s1, p2, s2 = a.precision, a.scale, b.precision, b.scale
    if operator in "+-":
        scale = max(s1, s2)
        return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return decimal(min(p1 - s1, p2 - s2) + scale, scale)


_CASTS = {
    "STRING": {"BINARY"},
    "BINARY": {"STRING"},
    "DATE": {"TIMESTAMP"},
    "TIMESTAMP": {"DATE", "BIGINT", "DOUBLE", "INT", "FLOAT"},
}


def can_cast(source: DataType, target: DataType) -> bool:
    """Return whether CAST(source AS target) is defined; a value that does not fit becomes NULL."""
    if source in (target, VOID) or target == STRING:
        return source != INTERVAL or target in (INTERVAL, STRING)
    if source == STRING:
        return target not in (INTERVAL,)
    if source.is_numeric or source == BOOLEAN:
        if target == TIMESTAMP:
            return source.is_integer or source.is_float
        return target.is_numeric or target == BOOLEAN
    return target.name in _CASTS.get(source.name, ())
