"""The table of mathematical functions. Outside its domain a function is NaN, a logarithm NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from everview.algebra.convert import convert
from everview.algebra.numbers import (
    decimal_arithmetic,
    fit_decimal,
    float_remainder,
    negate_number,
    remainder,
    round_to_single,
    saturate,
    wrap,
)
from everview.algebra.signatures import VARIABLE, Constants, Types, first_type
from everview.algebra.signatures import Signature as Row
from everview.algebra.types import (
    BIGINT,
    DOUBLE,
    INT,
    MAX_PRECISION,
    SMALLINT,
    DataType,
    arithmetic_type,
    decimal,
)
from everview.algebra.values import NAN
from everview.errors import AlgebraError

_EXACT = Context(prec=400)


def real(function: Callable[..., float]) -> Callable[..., float]:
    """Return a function of Python's on doubles, with NaN and ∞ where Python raises.

    >>> real(math.sqrt)(-1.0), real(math.exp)(1000.0), real(math.cosh)(-1000.0)
    (nan, inf, inf)
    """

    def total(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return NAN
        except OverflowError:
            return -math.inf if function in (math.sinh, math.expm1) and values[0] < 0 else math.inf

    return total


def power(base: float, exponent: float) -> float:
    """Return base to the power of exponent, as Java computes it.

    >>> power(2.0, -1.0), power(0.0, -1.0), power(-8.0, 1 / 3), power(-1e200, 3.0), power(1.0, NAN)
    (0.5, inf, nan, -inf, nan)
    """
    odd = math.isfinite(exponent) and exponent % 2 == 1
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return NAN  # in C it is 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0:
            return math.copysign(math.inf, base) if odd else math.inf
        return NAN


def logarithm(function: Callable[[float], float], least: float = 0.0) -> Callable[[float], float | None]:
    """Return a logarithm, NULL at and below its asymptote.

    >>> logarithm(math.log2)(8.0), logarithm(math.log2)(0.0)
    (3.0, None)
    """
    return lambda x: None if x <= least else function(x)


def log_of_base(base: float, x: float) -> float | None:
    """Return the logarithm of x to a base.

    >>> log_of_base(10.0, 1.0), log_of_base(-1.0, 1.0)
    (0.0, None)
    """
    if base <= 0 or x <= 0:
        return None
    above, below = math.log(x), math.log(base)
    if below == 0:
        return NAN if above == 0 or math.isnan(above) else math.copysign(math.inf, above)
    return above / below


def round_value(types: Types, value: Any, digits: int = 0, mode: str = ROUND_HALF_UP) -> Any:
    """Return the value rounded to so many digits after the point, or before it where they are negative.

    >>> from everview.algebra.types import INT, TINYINT, decimal
    >>> round_value((DOUBLE,), 2.5), round_value((INT, INT), 1250, -2), round_value((TINYINT, INT), 127, -1)
    (3.0, 1300, -126)
    >>> round_value((decimal(5, 3), INT), Decimal("1.255"), 2)
    Decimal('1.26')
    """
    type_ = types[0]
    if type_.is_float and not math.isfinite(value):
        return value
    if type_.is_integer and digits >= 0:
        return value
    exact = Decimal(repr(value)) if type_ == DOUBLE else Decimal(value)
    digits = max(-400, min(400, digits))
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= digits:
        found = exact  # it has no digits beyond those that are asked for
    else:
        found = exact.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=_EXACT)
    if type_.is_integer:
        return wrap(int(found), type_.bits)
    if type_.is_decimal:
        return fit_decimal(found, round_decimal(type_, digits))
    return (float(found) if type_ == DOUBLE else round_to_single(float(found))) + 0.0


def round_decimal(t: DataType, digits: int) -> DataType:
    """Return the type of a decimal rounded to so many digits: rounding may carry into one more.

    >>> from everview.algebra.types import decimal
    >>> str(round_decimal(decimal(4, 3), 2)), str(round_decimal(decimal(2, 1), -3))
    ('DECIMAL(4,2)', 'DECIMAL(4,0)')
    """
    whole = t.precision - t.scale + 1
    if digits < 0:
        return DataType("DECIMAL", min(max(whole, 1 - digits), MAX_PRECISION), 0)
    scale = min(t.scale, digits)
    return DataType("DECIMAL", min(whole + scale, MAX_PRECISION), scale)


def _rounded_type(types: Types, constants: Constants) -> DataType:
    if not types[0].is_decimal:
        return types[0]
    if len(types) == 1:
        return round_decimal(types[0], 0)
    digits = constants[1] if len(constants) > 1 else VARIABLE
    if digits is not None and not isinstance(digits, int):
        raise AlgebraError(
            "the digits to which a decimal is rounded must be a constant",
            next_step="CAST it to a DECIMAL instead",
        )
    return round_decimal(types[0], digits or 0)


def _whole_type(types: Types, _: Constants) -> DataType:
    """Return the result type of ceil and floor of a decimal."""
    return types[0] if types[0].scale == 0 else round_decimal(types[0], 0)


def to_whole(value: Any, mode: str) -> Any:
    """Return ceil or floor of a value: a decimal stays one, a double becomes a BIGINT.

    >>> to_whole(1.5, ROUND_CEILING), to_whole(Decimal("-1.5"), ROUND_FLOOR), to_whole(NAN, ROUND_FLOOR)
    (2, Decimal('-2'), 0)
    """
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return saturate(value if not math.isfinite(value) else _floor_or_ceil(value, mode), 64)
    found = value.quantize(Decimal(1), rounding=mode, context=_EXACT)
    return found if found else found.copy_abs()


def _floor_or_ceil(value: float, mode: str) -> int:
    return math.ceil(value) if mode == ROUND_CEILING else math.floor(value)


def modulo(types: Types, a: Any, b: Any) -> Any:
    """Return a % b with the sign of a; NULL if b is 0.

    >>> from everview.algebra.types import INT
    >>> modulo((INT, INT), -7, 3), modulo((INT, INT), 1, 0)
    (-1, None)
    """
    result = _modulo_type(types)
    if result.is_decimal:
        return decimal_arithmetic("%", Decimal(a), Decimal(b), result) if b else None
    x: Any = convert(a, types[0], result)
    y: Any = convert(b, types[1], result)
    if y == 0:
        return None
    return float_remainder(x, y) if result.is_float else remainder(x, y)


def positive_modulo(types: Types, a: Any, b: Any) -> Any:
    """Return the remainder that is not negative, for a positive b.

    >>> from everview.algebra.types import INT
    >>> positive_modulo((INT, INT), -7, 3), positive_modulo((INT, INT), -7, -3)
    (2, -1)
    """
    result = _modulo_type(types)
    r = modulo(types, a, b)
    if r is None or not r < 0:
        return r
    if result.is_decimal:
        return decimal_arithmetic("%", _EXACT.add(r, Decimal(b)), Decimal(b), result)
    y: Any = convert(b, types[1], result)
    if result.is_float:
        total = r + y
        return float_remainder(round_to_single(total) if result.name == "FLOAT" else total, y)
    return remainder(wrap(r + y, max(32, result.bits)), y)  # Java adds shorts as ints


def _modulo_type(types: Types, constants: Constants = ()) -> DataType:
    """Return the type of %: an integer constant beside a decimal has its own digits (not a TINYINT)."""
    a, b = types
    if len(constants) == 2 and a.is_decimal != b.is_decimal:
        a, b = (
            decimal(len(str(abs(c))), 0) if t in (SMALLINT, INT, BIGINT) and isinstance(c, int) else t
            for t, c in zip(types, constants, strict=True)
        )
    result = arithmetic_type("%", a, b)
    if result is None:
        raise AlgebraError(f"{types[0]} % {types[1]} has no meaning")
    return result


def _absolute(types: Types, value: Any) -> Any:
    return negate_number(value, types[0]) if value < 0 else value if types[0].is_decimal else abs(value)


def _shifted(left: bool) -> Callable[[Types, int, int], int]:
    def shift(types: Types, value: int, by: int) -> int:
        bits = types[0].bits
        return wrap(value << by % bits, bits) if left else value >> by % bits

    return shift


def _shifted_unsigned(types: Types, value: int, by: int) -> int:
    bits = types[0].bits
    return wrap(value % (1 << bits) >> by % bits, bits)


def _bit(types: Types, value: int, position: int) -> int | None:
    return value >> position & 1 if 0 <= position < types[0].bits else None


def nanvl(a: float | None, b: float | None) -> float | None:
    """Return the first, unless it is NaN.

    >>> nanvl(NAN, 1.0), nanvl(2.0, None), nanvl(None, 1.0)
    (1.0, 2.0, None)
    """
    return b if a is not None and math.isnan(a) else a


def _sign(x: float) -> float:
    return x if x == 0 or math.isnan(x) else math.copysign(1.0, x)


def _rint(x: float) -> float:
    return math.copysign(round(x), x) if math.isfinite(x) else x


def _cot(x: float) -> float:
    tangent = math.tan(x)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


def _csc(x: float) -> float:
    sine = math.sin(x)
    return 1 / sine if sine else math.copysign(math.inf, sine)


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


_REAL: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "cbrt": math.cbrt, "exp": math.exp, "expm1": math.expm1,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": _atanh, "cot": _cot, "sec": lambda x: 1 / math.cos(x), "csc": _csc,
    "degrees": math.degrees, "radians": math.radians, "rint": _rint,
}  # fmt: skip


def _half_even(types: Types, value: Any, digits: int = 0) -> Any:
    return round_value(types, value, digits, ROUND_HALF_EVEN)


def _factorial(n: int) -> int | None:
    return math.factorial(n) if 0 <= n <= 20 else None


MATH_FUNCTIONS = (
    *(Row(name, "DOUBLE", "DOUBLE", real(function)) for name, function in _REAL.items()),
    Row("ln", "DOUBLE", "DOUBLE", logarithm(math.log)),
    Row("log", "DOUBLE", "DOUBLE", logarithm(math.log)),
    Row("log", "DOUBLE, DOUBLE", "DOUBLE", log_of_base),
    Row("log2", "DOUBLE", "DOUBLE", logarithm(math.log2)),
    Row("log10", "DOUBLE", "DOUBLE", logarithm(math.log10)),
    Row("log1p", "DOUBLE", "DOUBLE", logarithm(math.log1p, -1.0)),
    Row("power", "DOUBLE, DOUBLE", "DOUBLE", power, ("pow",)),
    Row("atan2", "DOUBLE, DOUBLE", "DOUBLE", lambda y, x: math.atan2(y + 0.0, x + 0.0)),
    Row("hypot", "DOUBLE, DOUBLE", "DOUBLE", math.hypot),
    Row("pi", "", "DOUBLE", lambda: math.pi),
    Row("e", "", "DOUBLE", lambda: math.e),
    Row("sign", "DOUBLE", "DOUBLE", _sign, ("signum",)),
    Row("abs", "NUMBER", first_type, _absolute, typed=True),
    Row("negative", "NUMBER", first_type, lambda types, x: negate_number(x, types[0]), typed=True),
    Row("positive", "NUMBER", first_type, lambda x: x),
    Row("ceil", "DECIMAL", _whole_type, lambda x: to_whole(x, ROUND_CEILING), ("ceiling",)),
    Row("ceil", "NUMBER", "BIGINT", lambda x: to_whole(x, ROUND_CEILING)),
    Row("floor", "DECIMAL", _whole_type, lambda x: to_whole(x, ROUND_FLOOR)),
    Row("floor", "NUMBER", "BIGINT", lambda x: to_whole(x, ROUND_FLOOR)),
    Row("round", "NUMBER[, INT]", _rounded_type, round_value, typed=True, constant=1),
    Row("bround", "NUMBER[, INT]", _rounded_type, _half_even, typed=True, constant=1),
    Row("mod", "NUMBER, NUMBER", _modulo_type, modulo, typed=True),
    Row("pmod", "NUMBER, NUMBER", _modulo_type, positive_modulo, typed=True),
    Row("isnan", "DOUBLE", "BOOLEAN", lambda x: x is not None and math.isnan(x), strict=False),
    Row("nanvl", "SINGLE, SINGLE", "FLOAT", nanvl, strict=False),
    Row("nanvl", "DOUBLE, DOUBLE", "DOUBLE", nanvl, strict=False),
    Row("factorial", "INT", "BIGINT", _factorial),
    Row("shiftleft", "WORD, INT", first_type, _shifted(left=True), typed=True),
    Row("shiftright", "WORD, INT", first_type, _shifted(left=False), typed=True),
    Row("shiftrightunsigned", "WORD, INT", first_type, _shifted_unsigned, typed=True),
    Row("bit_count", "INTEGER", "INT", lambda n: (n % 2**64).bit_count()),
    Row("bit_count", "BOOLEAN", "INT", int),
    Row("getbit", "INTEGER, INT", "TINYINT", _bit, ("bit_get",), typed=True),
)
