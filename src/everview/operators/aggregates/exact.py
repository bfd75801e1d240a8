"""Exact sums: numbers as integers by powers of two, rounded once at the end.

Any number that SQL can hold is an integer times a power of two (of ten, for a decimal). Cut at 2^32, 1,
2^-32, … it is a few limbs, 64-bit integers whose sums are exact: a value that is added and subtracted again
leaves no residue. Only the limbs that occur are kept. A limb is narrow if it is at most 2^32 in size; limbs
in a state are narrow, so that the sum of a billion of them still fits in 64 bits.

No library is used: NumPy and Polars round at every addition; `math.fsum` sums one list, in Python, and keeps
no exact sum to which later rows can be added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from everview.operators.columnar.hashing import Ints, Words, decimal_halves
from everview.operators.columnar.lazy import np, npt, pl

Limbs = dict[int, Ints]  # limb j counts 2^(32·j)

BITS = 32
_HALF = 1 << (BITS - 1)
_MASK = (1 << BITS) - 1


def from_integers(values: Ints) -> Limbs:
    """Return 64-bit integers as narrow limbs.

    >>> {j: limb.tolist() for j, limb in from_integers(np.array([5, -1, 2**33 + 1])).items()}
    {0: [5, -1, 1], 1: [0, 0, 2]}
    """
    low = values.astype(np.int32).astype(np.int64)  # the lower half, with its sign
    high = (values >> BITS) + (low < 0)
    return _drop_zero_limbs({0: low, 1: high})


def from_decimals(values: pl.Series) -> Limbs:
    """Return unscaled decimals as narrow limbs; those of NULLs are arbitrary."""
    lower, upper = decimal_halves(values)
    low, high = from_integers(lower), from_integers(upper + (lower < 0))
    return {**low, **{j + 2: limb for j, limb in high.items()}}


def from_floats(values: npt.NDArray[np.float64]) -> Limbs:
    """Return finite doubles as narrow limbs.

    >>> {j: limb.tolist() for j, limb in from_floats(np.array([2.5, -1.0])).items()}
    {0: [2, -1], -1: [2147483648, 0]}
    """
    nonzero = values[values != 0]
    if not len(nonzero):
        return {}
    _, exponents = np.frexp(nonzero)
    limbs: Limbs = {}
    rest = values
    for j in range(int(exponents.max() - 1) // BITS, (int(exponents.min()) - 53) // BITS - 1, -1):
        part = np.trunc(_times_power(rest, -BITS * j))
        if part.any():
            limbs[j] = part.astype(np.int64)
            rest = rest - _times_power(part, BITS * j)
    return limbs


def _times_power(values: npt.NDArray[np.float64], power: int) -> npt.NDArray[np.float64]:
    product: npt.NDArray[np.float64] = values * 2.0**power if abs(power) < 1000 else np.ldexp(values, power)
    return product


def multiply_by_n(limbs: Limbs, n: Ints) -> Limbs:
    """Multiply each row's number by its n; the limbs are narrow again."""
    largest = int(np.abs(n).max()) if len(n) else 0
    if largest <= 1:
        return {j: limb * n for j, limb in limbs.items()}
    if largest < 1 << 30:
        return normalize_limbs({j: limb * n for j, limb in limbs.items()})
    return multiply_limbs(normalize_limbs(limbs), normalize_limbs(from_integers(n)))


def multiply_limbs(left: Limbs, right: Limbs) -> Limbs:
    """Multiply two columns of numbers whose limbs are between -2^31 and 2^31."""
    total: Limbs = {}
    for j, a in left.items():
        for k, b in right.items():
            both = a * b
            for limb, part in ((j + k, both & ((1 << BITS) - 1)), (j + k + 1, both >> BITS)):
                total[limb] = total[limb] + part if limb in total else part
    return normalize_limbs(total)


def normalize_limbs(limbs: Mapping[int, Ints]) -> Limbs:
    """Return the same numbers with limbs from -2^31 to 2^31; the excess is carried to the next limb."""
    out: Limbs = {}
    carry: Ints | int = 0
    for j in range(min(limbs), max(limbs) + 3) if limbs else ():
        total = limbs[j] + carry if j in limbs else carry
        carry = (total + _HALF) >> BITS
        if not isinstance(total, int):
            out[j] = total - (carry << BITS)
    return _drop_zero_limbs(out)


def _drop_zero_limbs(limbs: Limbs) -> Limbs:
    return {j: limb for j, limb in limbs.items() if limb.any()}


def wrap_to_int64(limbs: Mapping[int, Ints], size: int) -> Ints:
    """Return integers modulo 2^64, as Java does."""
    zero = np.zeros(size, dtype=np.int64)
    return limbs.get(0, zero) + (limbs.get(1, zero) << BITS)


def round_to_double(limbs: Mapping[int, Ints], divisor: Ints | None, size: int) -> npt.NDArray[np.float64]:
    """Return the numbers, divided by positive integers, as the nearest doubles; rounded once.

    >>> round_to_double(from_floats(np.array([0.1, -7.0])), np.array([1, 3]), 2).tolist()
    [0.1, -2.3333333333333335]
    """
    if not limbs:
        return np.zeros(size)
    if set(limbs) <= {0, 1}:
        small = _round_small(limbs, divisor, size)
        if small is not None:
            return small
    digits, lowest, negative = magnitude(limbs, size)
    # Enough fractional digits that any quotient but zero has more than 96 bits.
    more = 4 if divisor is None or _is_narrow(divisor) else 5
    digits, lowest = np.concatenate([np.zeros((more, size), dtype=np.uint64), digits]), lowest - more
    rest = np.zeros(size, dtype=np.uint64)
    if divisor is not None:
        digits, rest = divide_digits(digits, divisor)
    value = _nearest_double(digits, lowest, rest != 0)
    return np.where(negative, -value, value)


def _round_small(
    limbs: Mapping[int, Ints], divisor: Ints | None, size: int
) -> npt.NDArray[np.float64] | None:
    """Return the quotients of integers below 2^53, where one division rounds once; None if any is larger."""
    zero = np.zeros(size)
    low, high = (limbs[j].astype(np.float64) if j in limbs else zero for j in (0, 1))
    if (np.abs(low) + np.abs(high) * 2.0**BITS >= 2.0**53).any():
        return None
    total: npt.NDArray[np.float64] = low + high * 2.0**BITS
    return total if divisor is None else total / divisor


def magnitude(limbs: Mapping[int, Ints], size: int) -> tuple[Words, int, npt.NDArray[np.bool_]]:
    """Return absolute values as 32-bit digits, lowest first; the limb of the lowest digit; the signs."""
    lowest, highest = min(limbs), max(limbs)
    digits = np.empty((highest - lowest + 3, size), dtype=np.uint64)
    carry: Ints = np.zeros(size, dtype=np.int64)
    for i in range(len(digits)):
        total = limbs[lowest + i] + carry if lowest + i in limbs else carry
        digits[i] = total.view(np.uint64) & _MASK
        carry = total >> BITS
    negative = carry < 0
    if negative.any():
        up = negative.astype(np.uint64)
        flipped = up * _MASK
        for i in range(len(digits)):
            total_up = (digits[i] ^ flipped) + up
            digits[i], up = total_up & _MASK, total_up >> BITS
    return digits, lowest, negative


def whole_digits(limbs: Mapping[int, Ints], size: int) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Return absolute values of integers as at least five digits, of which the lowest counts 1; the signs."""
    zero = np.zeros(size, dtype=np.int64)
    digits, _, negative = magnitude({0: zero, 3: zero, **limbs}, size)
    return digits, negative


def multiply_digits(digits: Words, by: int) -> Words:
    """Multiply digits by a number of at most 32 bits."""
    if by == 1:
        return digits
    out = np.zeros((len(digits) + 1, digits.shape[1]), dtype=np.uint64)
    carry = np.zeros(digits.shape[1], dtype=np.uint64)
    for i, digit in enumerate(digits):
        total = digit * np.uint64(by) + carry
        out[i], carry = total & _MASK, total >> BITS
    out[-1] = carry
    return out


def add_one(digits: Words, where: npt.NDArray[np.bool_]) -> Words:
    """Return the digits, plus one where `where` is true."""
    out, carry = np.empty_like(digits), where.astype(np.uint64)
    for i, digit in enumerate(digits):
        total = digit + carry
        out[i], carry = total & _MASK, total >> BITS
    return out


def is_below(digits: Words, limit: int) -> npt.NDArray[np.bool_]:
    """Return whether numbers are less than a limit."""
    below = np.zeros(digits.shape[1], dtype=bool)
    for i, digit in enumerate(digits):
        wanted = np.uint64((limit >> (BITS * i)) & _MASK)
        below = (digit < wanted) | ((digit == wanted) & below)
    return below


def to_halves(digits: Words, negative: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return the lower and the upper 64 bits of signed numbers below 2^127."""
    lower, upper = (digits[i] | (digits[i + 1] << BITS) for i in (0, 2))
    flip = negative.astype(np.uint64) * np.uint64(2**64 - 1)
    low = (lower ^ flip) + negative.astype(np.uint64)
    return low.view(np.int64), ((upper ^ flip) + (negative & (lower == 0))).view(np.int64)


def divide_digits(digits: Words, divisor: Ints) -> tuple[Words, Words]:
    """Divide by positive numbers, digit by digit; return the quotients and the remainders."""
    # Divisors of more than 32 bits are rare; they are Python integers.
    by, lift = (
        (divisor.astype(np.uint64), np.uint64(BITS))
        if _is_narrow(divisor)
        else (divisor.astype(object), BITS)
    )
    quotient = np.empty_like(digits)
    rest = np.zeros(digits.shape[1], dtype=by.dtype)
    for i in range(len(digits) - 1, -1, -1):
        current = (rest << lift) | digits[i].astype(by.dtype)
        quotient[i] = current // by
        rest = current % by if by.dtype == object else current - quotient[i] * by
    return quotient, rest.astype(np.uint64)


def _is_narrow(divisor: Ints) -> bool:
    return int(divisor.max(initial=1)) <= _MASK


def _nearest_double(digits: Words, lowest: int, more: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the nearest doubles; numbers other than zero have four digits or more.

    `more` marks numbers with a remainder below the lowest digit.
    """
    rows = np.arange(digits.shape[1])
    there = digits != 0
    top = len(digits) - 1 - np.argmax(there[::-1], axis=0)
    top = np.maximum(top, 3)
    head, middle, tail = (digits[top - i, rows] for i in range(3))
    shift = (BITS - np.frexp(head.astype(np.float64))[1]).astype(np.uint64)
    # 63 bits of the number; the last one is also set if any lower bit is.
    leading = (((head << BITS) | middle) << shift) | ((tail << shift) >> BITS)
    below = np.logical_or.accumulate(there, axis=0)[top - 3, rows] | more
    below |= ((tail << shift) & _MASK != 0) | (leading & np.uint64(1) != 0)
    bits = (leading >> np.uint64(1)).view(np.int64) | below
    exponent = BITS * (top + lowest - 1) - shift.astype(np.int64) + 1
    with np.errstate(over="ignore"):
        return np.ldexp(*_round_subnormal(bits, exponent))


def _round_subnormal(bits: Ints, exponent: Ints) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Round numbers below 2^-1022, which have fewer than 53 bits, to the bits that they have."""
    tiny = exponent + 62 < -1022
    if tiny.any():
        bits, exponent = np.where(tiny, (bits >> 1) | (bits & 1), bits), exponent + tiny
        shift = np.where(tiny, -1074 - exponent, 0)
        unit = np.int64(1) << np.minimum(shift, 62)
        above, rest = bits >> np.minimum(shift, 62), bits & (unit - 1)
        up = (2 * rest > unit) | ((2 * rest == unit) & (above & 1 == 1))
        bits, exponent = above + (up & (shift <= 62)), exponent + shift
    return bits.astype(np.float64), exponent.astype(np.int32)


def to_integer(limbs: Mapping[int, int]) -> tuple[int, int]:
    """Return one row's limbs as an integer and the power of two to multiply it with.

    >>> to_integer({0: 2, -1: 2147483648})
    (10737418240, -32)
    """
    lowest = min(limbs, default=0)
    return sum(limb << (BITS * (j - lowest)) for j, limb in limbs.items()), BITS * lowest


def spread_of_values(
    count: int, less: int, total: tuple[int, int], squares: tuple[int, int], root: bool, decimals: int = 0
) -> float:
    """Return the variance of values from exact sums, rounded once; with `root` the root of that.

    The sum of the squared distances from the mean is divided by the count less `less`.
    """
    s1, s2 = (Fraction(whole) * Fraction(2) ** power for whole, power in (total, squares))
    variance = (s2 - s1 * s1 / count) / ((count - less) * 100**decimals)
    try:
        return math.sqrt(float(variance)) if root else float(variance)
    except OverflowError:
        return math.inf
