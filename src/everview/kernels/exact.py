"""Exact sums of floating point: integers by powers of two, rounded once at the end.

A double is an integer times a power of two. Cut at fixed powers (2^60, 1, 2^-60, …) it is a few limbs,
integers below 2^60, and limbs are summed exactly: what is added and taken away again leaves no trace.
A limb is a column of 128-bit integers named after its power; only the limbs that occur are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

BITS = 60
_BASE = pl.Series([1 << BITS], dtype=pl.Int128)
_TWO = pl.Series([2], dtype=pl.Int128)
_POWERS = pl.Series([1 << s for s in range(BITS + 1)], dtype=pl.Int128)


def limbs_of_floats(values: np.ndarray) -> dict[int, pl.Series]:
    """Finite doubles as limbs: the number at j counts 2^(60·j).

    >>> {j: limb.to_list() for j, limb in limbs_of_floats(np.array([2.5, -1.0])).items()}
    {0: [2, -1], -1: [576460752303423488, 0]}
    """
    nonzero = values[values != 0]
    if not len(nonzero):
        return {}
    _, exponents = np.frexp(nonzero)
    highest = int(exponents.max() - 1) // BITS
    lowest = (int(exponents.min()) - 53) // BITS
    limbs: dict[int, pl.Series] = {}
    rest = values.astype(np.float64)
    for j in range(highest, lowest - 1, -1):
        part = np.trunc(np.ldexp(rest, -BITS * j))
        if part.any():
            limbs[j] = pl.Series(part.astype(np.int64), dtype=pl.Int64).cast(pl.Int128)
        rest = rest - np.ldexp(part, BITS * j)
    return limbs


def squares_of_floats(values: np.ndarray) -> dict[int, pl.Series]:
    """The exact squares of finite doubles as limbs: each square is a sum of two doubles."""
    high, low = _split(values)
    parts = [high * high, 2 * high * low, low * low]
    total: dict[int, pl.Series] = {}
    for part in parts:
        for j, limb in limbs_of_floats(part).items():
            total[j] = limb if j not in total else total[j] + limb
    return total


def _split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A double as the sum of two of 26 bits each, so that their products are exact."""
    mantissas, exponents = np.frexp(values)
    high = np.ldexp(np.trunc(np.ldexp(mantissas, 26)), exponents - 26)
    return high, values - high


def limbs_of_integers(values: pl.Series) -> dict[int, pl.Series]:
    """128-bit integers as limbs; the highest keeps the sign."""
    limbs: dict[int, pl.Series] = {}
    rest = values.cast(pl.Int128)
    for j in range(3):
        low = _low_bits(rest)
        limbs[j] = low
        rest = (rest - low) // _BASE
    limbs[2] = limbs[2] + rest * _BASE
    return {j: limb for j, limb in limbs.items() if (limb != 0).any()}


def _low_bits(limb: pl.Series) -> pl.Series:
    """The remainder by 2^60, never negative."""
    rest = limb % _BASE
    return rest + (rest < 0).cast(pl.Int128) * _BASE


def rounded(limbs: Mapping[int, pl.Series], divisor: pl.Series) -> pl.Series:
    """The sum of the limbs divided by a positive integer, as the nearest double; rounded once.

    >>> tenths = limbs_of_floats(np.array([0.1, 0.2]))
    >>> rounded({j: limb.head(1) for j, limb in tenths.items()}, pl.Series([1])).to_list()
    [0.1]
    """
    size = len(divisor)
    if not limbs:
        return pl.Series([0.0] * size, dtype=pl.Float64)
    digits, negative = _magnitude(limbs, size)
    top = _highest(digits)
    lowest = min(digits)
    head, middle, tail = (_pick(digits, top - offset) for offset in (0, 1, 2))
    shift = BITS - _bit_length(head)
    up, down = _POWERS.gather(shift), _POWERS.gather(BITS - shift)
    # 120 bits of the magnitude, and whether anything lies below them.
    leading = head * up * _BASE + middle * up + tail // down
    sticky = (tail % down != 0) | _any_below(digits, top - 2, lowest)
    quotient = leading // divisor.cast(pl.Int128)
    sticky = sticky | (leading % divisor.cast(pl.Int128) != 0)
    odd = quotient + ((quotient % _TWO == 0) & sticky).cast(pl.Int128)
    exponent = BITS * (top - 1) - shift
    value = np.ldexp(odd.cast(pl.Float64).to_numpy(), exponent)
    return pl.Series(np.where(negative, -value, value), dtype=pl.Float64)


def _magnitude(limbs: Mapping[int, pl.Series], size: int) -> tuple[dict[int, pl.Series], np.ndarray]:
    """The sum as digits below 2^60, all of one sign, and whether that sign is minus."""
    digits = _carried(limbs, size)
    negative = (digits[max(digits)] < 0).to_numpy()
    if negative.any():
        sign = pl.Series(np.where(negative, -1, 1)).cast(pl.Int128)
        digits = _carried({j: limb * sign for j, limb in digits.items()}, size)
    return digits, negative


def _carried(limbs: Mapping[int, pl.Series], size: int) -> dict[int, pl.Series]:
    """Each limb but the highest brought below 2^60; three more above, so that the highest is small."""
    digits: dict[int, pl.Series] = {}
    zero = pl.Series([0] * size, dtype=pl.Int128)
    carry = zero
    for j in range(min(limbs), max(limbs) + 4):
        total = limbs.get(j, zero) + carry
        low = _low_bits(total)
        digits[j] = low
        carry = (total - low) // _BASE
    top = max(digits)
    digits[top] = digits[top] + carry * _BASE
    return digits


def _highest(digits: Mapping[int, pl.Series]) -> np.ndarray:
    """The place of the highest digit that is not zero; of zero, the lowest place."""
    top = np.full(len(next(iter(digits.values()))), min(digits), dtype=np.int64)
    for j in sorted(digits):
        top[(digits[j] != 0).to_numpy()] = j
    return top


def _pick(digits: Mapping[int, pl.Series], places: np.ndarray) -> pl.Series:
    """Per row the digit at its place."""
    picked = pl.Series([0] * len(places), dtype=pl.Int128)
    for j in np.unique(places):
        if int(j) in digits:
            picked = picked + digits[int(j)] * pl.Series((places == j).astype(np.int64)).cast(pl.Int128)
    return picked


def _any_below(digits: Mapping[int, pl.Series], places: np.ndarray, lowest: int) -> pl.Series:
    """Per row whether a digit below its place is not zero."""
    found = np.zeros(len(places), dtype=bool)
    for j in range(lowest, int(places.max()) if len(places) else lowest):
        if j in digits:
            found |= (digits[j] != 0).to_numpy() & (places > j)
    return pl.Series(found)


def _bit_length(values: pl.Series) -> np.ndarray:
    """How many bits each of some integers below 2^60 has."""
    whole = values.cast(pl.Int64).to_numpy()
    high = whole >> 30
    length = np.where(high > 0, 30 + _small_length(high), _small_length(whole))
    return length.astype(np.int64)


def _small_length(values: np.ndarray) -> np.ndarray:
    return np.frexp(values.astype(np.float64))[1]


def to_integer(limbs: Mapping[int, int]) -> tuple[int, int]:
    """One row's limbs as an integer and the power of two that it counts.

    >>> to_integer({0: 2, -1: 576460752303423488})
    (2882303761517117440, -60)
    """
    lowest = min(limbs, default=0)
    return sum(limb << (BITS * (j - lowest)) for j, limb in limbs.items()), BITS * lowest


def deviation(count: int, total: tuple[int, int], squares: tuple[int, int]) -> float:
    """The standard deviation of a sample from its exact sums: the variance rounded, then its root."""
    from fractions import Fraction

    s1, s2 = (Fraction(whole) * Fraction(2) ** power for whole, power in (total, squares))
    variance = (s2 - s1 * s1 / count) / (count - 1)
    try:
        return math.sqrt(float(variance))
    except OverflowError:
        return math.inf
