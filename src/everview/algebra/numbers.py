"""Numbers as Java and Spark have them: integers that wrap, 32-bit floats, bounded decimals.

Python's integers are unbounded and its floats have no 32-bit form; the differences are handled here, once,
for casts, arithmetic and functions.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from everview.algebra.types import MAX_PRECISION, DataType
from everview.algebra.values import NAN

_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_SCALA = Context(prec=34, rounding=ROUND_HALF_EVEN)  # Scala's BigDecimal.defaultMathContext


def wrap(value: int, bits: int) -> int:
    """Return the value as a signed integer of so many bits.

    >>> wrap(128, 8), wrap(-129, 8), wrap(2**63, 64) == -(2**63)
    (-128, 127, True)
    """
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def saturate(value: float, bits: int) -> int:
    """Return a float as Java narrows it to int or long: cut towards zero, clipped to the range, NaN as 0.

    >>> saturate(-1.9, 32), saturate(1e20, 32), saturate(NAN, 64)
    (-1, 2147483647, 0)
    """
    if math.isnan(value):
        return 0
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if math.isinf(value):
        return greatest if value > 0 else least
    return max(least, min(greatest, int(value)))


def round_to_single(value: float) -> float:
    """Return the nearest 32-bit float.

    >>> round_to_single(0.1), round_to_single(1e39)
    (0.10000000149011612, inf)
    """
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def round_exact_to_single(exact: Fraction) -> float:
    """Return the 32-bit float nearest to an exact number, rounded once.

    >>> round_exact_to_single(Fraction(1, 10)) == round_to_single(0.1)
    True
    """
    try:
        rounded = round_to_single(float(exact))
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if math.isinf(rounded):
        return rounded
    # A double that lies exactly between two singles was rounded twice: look at the neighbours.
    (bits,) = struct.unpack("i", struct.pack("f", rounded))
    around = [
        f
        for (f,) in (struct.unpack("f", struct.pack("i", b)) for b in (bits - 1, bits, bits + 1) if b != -1)
        if math.isfinite(f)
    ]
    best: float = min(around, key=lambda f: (abs(Fraction(f) - exact), f != rounded))
    return best


def fit_decimal(value: Decimal, type_: DataType) -> Decimal | None:
    """Return the value with the type's scale, rounded HALF_UP; None if it has too many digits.

    >>> from everview.algebra.types import decimal
    >>> fit_decimal(Decimal("1.005"), decimal(3, 2)), fit_decimal(Decimal("10"), decimal(3, 2))
    (Decimal('1.01'), None)
    """
    if not value.is_finite() or (value and value.adjusted() > MAX_PRECISION):
        return None
    scaled = value.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP, context=_EXACT)
    if not scaled:
        return scaled.copy_abs()  # a decimal has no negative zero
    digits = len(scaled.as_tuple().digits)
    return scaled if digits <= type_.precision else None


def whole_part(value: Decimal) -> int:
    """Return a decimal cut towards zero.

    >>> whole_part(Decimal("-1.9"))
    -1
    """
    return int(value.to_integral_value(rounding=ROUND_DOWN))


def remainder(a: int, b: int) -> int:
    """Return Java's a % b: it has the sign of a.

    >>> remainder(-7, 3), remainder(7, -3)
    (-1, 1)
    """
    return a - b * quotient(a, b)


def quotient(a: int, b: int) -> int:
    """Return Java's a / b: cut towards zero.

    >>> quotient(-7, 2), quotient(7, 2)
    (-3, 3)
    """
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def float_remainder(a: float, b: float) -> float:
    """Return Java's a % b for doubles: NaN where there is none.

    >>> float_remainder(-7.5, 2.0), float_remainder(math.inf, 2.0)
    (-1.5, nan)
    """
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return NAN
    return math.fmod(a, b)


def negate_number(value: Any, type_: DataType) -> Any:
    """Return -value: integers wrap; Spark keeps 34 digits of a decimal, NULL if these do not fit its type.

    >>> from everview.algebra.types import TINYINT
    >>> negate_number(-128, TINYINT)
    -128
    """
    if type_.is_decimal:
        return fit_decimal(_SCALA.minus(value), type_)
    return wrap(-value, type_.bits) if type_.is_integer else -value


def decimal_arithmetic(operator: str, a: Decimal, b: Decimal, result: DataType) -> Decimal | None:
    """Compute a <operator> b for + - * / %, rounded to the result's type; a divisor is not 0.

    >>> from everview.algebra.types import decimal
    >>> decimal_arithmetic("/", Decimal(1), Decimal(3), decimal(10, 6))
    Decimal('0.333333')
    """
    match operator:
        case "+":
            exact = _EXACT.add(a, b)
        case "-":
            exact = _EXACT.subtract(a, b)
        case "*":
            exact = _EXACT.multiply(a, b)
        case "/":
            exact = _divide(a, b)
        case _:
            exact = _EXACT.remainder(a, b)
    return fit_decimal(exact, result)


def _divide(a: Decimal, b: Decimal) -> Decimal:
    """Divide as Spark does: cut to 39 digits after the point, then rounded once, to the result's scale.

    >>> fit_decimal(_divide(Decimal("0." + "9" * 38), Decimal(32766)), DataType("DECIMAL", 38, 38))
    Decimal('0.00003051944088384300799609351156686809')
    """
    scale = MAX_PRECISION + 1
    ratio = abs(Fraction(a) / Fraction(b)) * 10**scale
    units = ratio.numerator // ratio.denominator
    return Decimal(units if (a < 0) == (b < 0) else -units).scaleb(-scale, context=_EXACT)


def double_text(value: float) -> str:
    """Return a double as Java prints it.

    >>> double_text(1.0), double_text(1e10), double_text(1e-5), double_text(123.456)
    ('1.0', '1.0E10', '1.0E-5', '123.456')
    """
    return _java_text(value, repr(value))


def single_text(value: float) -> str:
    """Return a 32-bit float as Java prints it.

    >>> single_text(round_to_single(0.1)), single_text(round_to_single(3e10))
    ('0.1', '3.0E10')
    """
    shortest = next(
        (s for s in (f"{value:.{n}g}" for n in range(1, 10)) if round_to_single(float(s)) == value), "nan"
    )
    return _java_text(value, shortest)


def _java_text(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    if len(text) == 1:  # Java shows two digits, and takes the two that come nearest
        sign, digits, exponent = Decimal(f"{value:.1e}").as_tuple()
        text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)  # where the point stands among the digits
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            body = "0." + "0" * -point + text
        else:
            body = text[:point].ljust(point, "0") + "." + (text[point:] or "0")
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return "-" + body if sign else body
