"""Aggregates that can be added to and taken from: count, sum, avg, stddev.

An accumulator is a set of columns of integers: what a row adds to them, times n, is subtracted again when
the row ends. The answer is worked out from the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from everview.kernels import exact
from everview.kernels.frame import Frame, N
from everview.kernels.hashing import Ints

Sums = Mapping[str, Ints]  # the columns of accumulators, by name

COUNT = "+n"  # how many rows a group has; a + marks the columns of accumulators
FUNCTIONS = ("count", "sum", "avg", "stddev", "min", "max")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: its function, the column of its argument (None: COUNT(*)), its name in the output.

    `scale` is the number of decimals of a DECIMAL result; `precision` its digits.
    """

    function: str
    argument: str | None
    output: str
    distinct: bool = False
    precision: int = 0
    scale: int = 0

    @property
    def extreme(self) -> bool:
        return self.function in ("min", "max")


def contributions(frame: Frame, aggregates: Sequence[tuple[int, Aggregate]]) -> dict[str, Ints]:
    """What each row adds to the accumulators: value · n, NULLs nothing; COUNT(*) has the rows' own."""
    n = frame[N].to_numpy()
    out: dict[str, Ints] = {}
    for i, aggregate in aggregates:
        if aggregate.argument is None:
            continue
        values = frame[aggregate.argument]
        present = n * values.is_not_null().to_numpy() if values.null_count() else n
        out[f"+c{i}"] = present
        if aggregate.function in ("sum", "avg", "stddev"):
            out |= _sums(i, aggregate, values, present)
    return out


def _sums(i: int, aggregate: Aggregate, values: pl.Series, n: Ints) -> dict[str, Ints]:
    out: dict[str, Ints] = {}
    if values.dtype.is_float():
        numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
        finite = np.isfinite(numbers)
        if not finite.all():
            odd = (("nan", np.isnan(numbers)), ("up", numbers == np.inf), ("down", numbers == -np.inf))
            out = {f"+{name}{i}": which * n for name, which in odd if which.any()}
            numbers = np.where(finite, numbers, 0.0)
        limbs = exact.of_floats(numbers)
    elif isinstance(values.dtype, pl.Decimal):
        limbs = exact.of_decimals(values.fill_null(0))
    else:
        limbs = exact.of_integers(values.to_physical().cast(pl.Int64).fill_null(0).to_numpy())
    out |= {f"+s{i}:{j}": limb for j, limb in exact.times(limbs, n).items()}
    if aggregate.function == "stddev":
        limbs = exact.narrow(limbs)
        squares = exact.times(exact.product(limbs, limbs), n)
        out |= {f"+q{i}:{j}": limb for j, limb in squares.items()}
    return out


def narrowed(sums: Sums) -> dict[str, Ints]:
    """The same sums with small limbs, as they are kept in a state; limbs that are all zero are left out."""
    out = {name: column for name, column in sums.items() if ":" not in name}
    for prefix in dict.fromkeys(name.partition(":")[0] + ":" for name in sums if ":" in name):
        out |= {f"{prefix}{j}": limb for j, limb in exact.narrow(_limbs(sums, prefix)).items()}
    return out


def answers(
    sums: Sums, size: int, aggregates: Sequence[tuple[int, Aggregate]], types: Mapping[str, pl.DataType]
) -> dict[str, pl.Series]:
    """The values of the aggregates from their accumulators, a row each."""
    return {a.output: _answer(sums, size, i, a, types) for i, a in aggregates}


def _answer(
    sums: Sums, size: int, i: int, aggregate: Aggregate, types: Mapping[str, pl.DataType]
) -> pl.Series:
    count = _column(sums, COUNT if aggregate.argument is None else f"+c{i}", size)
    if aggregate.function == "count":
        return pl.Series(count)
    argument = types[aggregate.argument or ""]
    if aggregate.function == "stddev":
        return _deviations(sums, i, count, argument)
    limbs = _limbs(sums, f"+s{i}:")
    divisor = np.maximum(count, 1) if aggregate.function == "avg" else None
    values: pl.Series
    if argument.is_float():
        values = pl.Series(_special(exact.rounded(limbs, divisor, size), sums, i))
    elif isinstance(argument, pl.Decimal):
        values = _decimals(limbs, divisor, size, argument.scale or 0, aggregate)
    elif isinstance(argument, pl.Duration):
        values = _total_lengths(limbs, size) if divisor is None else _mean_lengths(limbs, divisor, size)
    elif divisor is None:
        values = pl.Series(exact.wrapped(limbs, size))
    else:
        values = pl.Series(exact.rounded(limbs, divisor, size))
    return _blank(values, count == 0)


def _total_lengths(limbs: exact.Limbs, size: int) -> pl.Series:
    """The sum of lengths of time; NULL if it is too long for one."""
    digits, negative = exact.whole_digits(limbs, size)
    fits = exact.is_below(digits, 2**63) | (negative & exact.is_below(digits, 2**63 + 1))
    return _blank(pl.Series(exact.wrapped(limbs, size)), ~fits)


def _mean_lengths(limbs: exact.Limbs, divisor: Ints, size: int) -> pl.Series:
    """The mean of lengths of time, rounded half up."""
    digits, negative = exact.whole_digits(limbs, size)
    whole, _ = exact.halves(_divided_half_up(digits, divisor), negative)
    return pl.Series(whole)


def _divided_half_up(digits: exact.Words, divisor: Ints) -> exact.Words:
    quotient, rest = exact.divided(digits, divisor)
    return exact.increased(quotient, 2 * rest >= divisor.astype(np.uint64))


def _decimals(
    limbs: exact.Limbs, divisor: Ints | None, size: int, scale: int, aggregate: Aggregate
) -> pl.Series:
    """The sum or mean of decimals, rounded half up to the result's scale; NULL if it has too many digits."""
    digits, negative = exact.whole_digits(limbs, size)
    digits = exact.multiplied(digits, 10 ** (aggregate.scale - scale))
    if divisor is not None:
        digits = _divided_half_up(digits, divisor)
    fits = exact.is_below(digits, 10**aggregate.precision)
    lower, upper = exact.halves(np.where(fits, digits, np.uint64(0)), negative)
    data = pa.py_buffer(np.stack([lower, upper], axis=1).tobytes())
    type_ = pa.decimal128(aggregate.precision, aggregate.scale)
    unscaled = pl.Series(pa.Array.from_buffers(type_, size, [None, data]))
    return unscaled if fits.all() else _blank(unscaled, ~fits)


def _special(value: np.ndarray, sums: Sums, i: int) -> np.ndarray:
    """NaN where a NaN or infinities of both signs are among the values, ±∞ where infinities of one are."""
    if not any(f"+{name}{i}" in sums for name in ("nan", "up", "down")):
        return value
    nan, up, down = (_column(sums, f"+{name}{i}", len(value)) > 0 for name in ("nan", "up", "down"))
    value = np.where(up, np.inf, np.where(down, -np.inf, value))
    return np.where(nan | (up & down), np.nan, value)


def _deviations(sums: Sums, i: int, count: Ints, argument: pl.DataType) -> pl.Series:
    """The last step of STDDEV needs integers longer than any column's: it is done outside of numpy."""
    totals, squares = (
        [exact.to_integer(row) for row in _rows(_limbs(sums, f"+{p}{i}:"), len(count))] for p in "sq"
    )
    decimals = argument.scale or 0 if isinstance(argument, pl.Decimal) else 0
    odd = ~np.isfinite(_special(np.zeros(len(count)), sums, i))
    out = [
        None if c < 2 else float("nan") if o else exact.deviation(c, t, q, decimals)
        for c, o, t, q in zip(count.tolist(), odd, totals, squares, strict=True)
    ]
    return pl.Series(out, dtype=pl.Float64)


def _rows(limbs: exact.Limbs, size: int) -> list[dict[int, int]]:
    columns = {j: limb.tolist() for j, limb in limbs.items()}
    return [{j: column[row] for j, column in columns.items()} for row in range(size)]


def _limbs(sums: Sums, prefix: str) -> exact.Limbs:
    return {int(c[len(prefix) :]): sums[c] for c in sums if c.startswith(prefix)}


def _column(sums: Sums, name: str, size: int) -> Ints:
    return sums[name] if name in sums else np.zeros(size, dtype=np.int64)


def _blank(values: pl.Series, empty: np.ndarray) -> pl.Series:
    """NULL in the empty places."""
    if not empty.any():
        return values
    return pl.select(pl.when(pl.Series(~empty)).then(values)).to_series()
