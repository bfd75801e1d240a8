"""Exact sums: any numbers added up in any order, divided and rounded once, against fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.operators.aggregates import exact

DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(1, 2**31)


def nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def totals(limbs: exact.Limbs, size: int) -> list[Fraction]:
    """What the limbs stand for."""
    found = [exact.to_integer({j: int(limb[row]) for j, limb in limbs.items()}) for row in range(size)]
    return [Fraction(whole) * Fraction(2) ** power for whole, power in found]


@given(st.lists(st.tuples(DOUBLES, COUNTS), min_size=1))
def test_doubles(rows: list[tuple[float, int]]) -> None:
    values, by = np.array([v for v, _ in rows]), np.array([n for _, n in rows])
    limbs = exact.from_floats(values)
    assert totals(limbs, len(rows)) == [Fraction(v) for v, _ in rows]
    assert exact.round_to_double(limbs, None, len(rows)).tolist() == values.tolist()
    assert exact.round_to_double(limbs, by, len(rows)).tolist() == [nearest(Fraction(v) / n) for v, n in rows]


@given(st.lists(st.tuples(LONGS, st.integers(1, 2**62)), min_size=1))
def test_integers(rows: list[tuple[int, int]]) -> None:
    values, by = np.array([v for v, _ in rows]), np.array([n for _, n in rows])
    limbs = exact.from_integers(values)
    assert totals(limbs, len(rows)) == [v for v, _ in rows]
    assert exact.wrap_to_int64(limbs, len(rows)).tolist() == values.tolist()
    assert exact.round_to_double(limbs, by, len(rows)).tolist() == [nearest(Fraction(v, n)) for v, n in rows]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1))
def test_decimals(values: list[int]) -> None:
    series = pl.Series([Decimal(v) for v in values], dtype=pl.Decimal(38, 0))
    assert totals(exact.from_decimals(series), len(values)) == values


@given(st.lists(DOUBLES), st.integers(0, 50), COUNTS)
def test_what_is_added_and_taken_away_leaves_no_trace(values: list[float], kept: int, by: int) -> None:
    """A sum over rows, some of which are taken back."""
    limbs = exact.from_floats(np.array([*values, *(-v for v in values[kept:])]))
    summed = {j: limb.sum(keepdims=True) for j, limb in limbs.items()}
    wanted = sum((Fraction(v) for v in values[:kept]), Fraction(0))
    for same in (summed, exact.normalize_limbs(summed)):
        assert exact.round_to_double(same, np.array([by]), 1).tolist() == [nearest(wanted / by)]


@given(st.lists(st.tuples(LONGS, st.integers(-(2**63) + 1, 2**63 - 1)), min_size=1))
@pytest.mark.parametrize("most", [1, 2**29, 2**63])
def test_copies(most: int, rows: list[tuple[int, int]]) -> None:
    values = np.array([v for v, _ in rows])
    copies = np.array([int(math.fmod(n, most + 1)) if most < 2**63 else n for _, n in rows])
    limbs = exact.multiply_by_n(exact.from_integers(values), copies)
    assert totals(limbs, len(rows)) == [v * n for v, n in zip(values.tolist(), copies.tolist(), strict=True)]
    assert all(np.abs(limb).max() <= 2**32 for limb in limbs.values())


@given(st.lists(DOUBLES, min_size=1))
def test_squares(values: list[float]) -> None:
    limbs = exact.normalize_limbs(exact.from_floats(np.array(values)))
    assert totals(exact.multiply_limbs(limbs, limbs), len(values)) == [Fraction(v) ** 2 for v in values]


def test_numbers_without_53_bits_are_rounded_once() -> None:
    least = 5e-324
    values = np.array([least, 3 * least, 2**-1022 - least, 1e-310, least, 3 * least])
    by = np.array([2, 2, 3, 7, 3, 4])
    wanted = [nearest(Fraction(v) / n) for v, n in zip(values.tolist(), by.tolist(), strict=True)]
    assert exact.round_to_double(exact.from_floats(values), by, len(by)).tolist() == wanted
