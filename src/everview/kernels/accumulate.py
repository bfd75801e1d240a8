"""Aggregates that can be added to and taken from: count, sum, avg, stddev.

An accumulator is a set of integer columns: what a row adds to them, times n, is subtracted again when
the row ends. The answer is worked out from the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from everview.kernels import exact
from everview.kernels.frame import Frame, N

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


def contributions(frame: Frame, aggregates: Sequence[tuple[int, Aggregate]]) -> dict[str, pl.Series]:
    """What each row adds to the accumulators: value · n, NULLs nothing."""
    n = frame[N]
    out: dict[str, pl.Series] = {}
    for i, aggregate in aggregates:
        if aggregate.argument is None:
            out[f"+c{i}"] = n
            continue
        values = frame[aggregate.argument]
        present = values.is_not_null().cast(pl.Int64) * n
        out[f"+c{i}"] = present
        if aggregate.function in ("sum", "avg", "stddev"):
            out |= _sums(i, aggregate, values, present)
    return out


def _sums(i: int, aggregate: Aggregate, values: pl.Series, n: pl.Series) -> dict[str, pl.Series]:
    wide = n.cast(pl.Int128)
    if values.dtype.is_float():
        numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
        out = {}
        for name, which in (
            ("nan", np.isnan(numbers)),
            ("up", numbers == np.inf),
            ("down", numbers == -np.inf),
        ):
            if which.any():
                out[f"+{name}{i}"] = pl.Series(which.astype(np.int64)) * n
        finite = np.where(np.isfinite(numbers), numbers, 0.0)
        limbs = exact.limbs_of_floats(finite)
        squares = exact.squares_of_floats(finite) if aggregate.function == "stddev" else {}
    else:
        whole = _integers(values)
        if aggregate.function != "stddev":
            return {f"+s{i}": whole * wide}
        out, limbs, squares = {}, exact.limbs_of_integers(whole), exact.limbs_of_integers(whole * whole)
    out |= {f"+s{i}:{j}": limb * wide for j, limb in limbs.items()}
    return out | {f"+q{i}:{j}": limb * wide for j, limb in squares.items()}


def _integers(values: pl.Series) -> pl.Series:
    """Integers as they are, decimals without their point, lengths of time in microseconds."""
    physical = values.to_physical() if not values.dtype.is_integer() else values
    return physical.cast(pl.Int128).fill_null(0)


def answers(
    sums: Frame, aggregates: Sequence[tuple[int, Aggregate]], types: dict[str, pl.DataType]
) -> dict[str, pl.Series]:
    """The values of the aggregates from their accumulators, a row each."""
    return {a.output: _answer(sums, i, a, types) for i, a in aggregates}


def _answer(sums: Frame, i: int, aggregate: Aggregate, types: dict[str, pl.DataType]) -> pl.Series:
    count = _column(sums, f"+c{i}", pl.Int64)
    if aggregate.function == "count":
        return count
    argument = types[aggregate.argument or ""]
    if aggregate.function == "stddev":
        return _deviations(sums, i, count, argument)
    divisor = count.clip(1) if aggregate.function == "avg" else pl.Series([1] * len(count), dtype=pl.Int64)
    empty = count == 0
    if argument.is_float():
        value = exact.rounded(_limbs(sums, f"+s{i}:"), divisor)
        return _blank(_special(value, sums, i), empty)
    total = _column(sums, f"+s{i}", pl.Int128)
    if isinstance(argument, pl.Decimal):
        return _blank(_decimals(total, divisor, argument.scale or 0, aggregate), empty)
    if aggregate.function == "sum":
        return _blank(_wrapped(total), empty)
    if isinstance(argument, pl.Duration):
        return _blank(total // divisor.cast(pl.Int128), empty).cast(pl.Int64)
    return _blank(exact.rounded(exact.limbs_of_integers(total), divisor), empty)


def _wrapped(total: pl.Series) -> pl.Series:
    """A sum of BIGINTs wraps as Java's does."""
    half, whole = (pl.Series([v], dtype=pl.Int128) for v in (1 << 63, 1 << 64))
    rest = (total + half) % whole
    return (rest + (rest < 0).cast(pl.Int128) * whole - half).cast(pl.Int64)


def _decimals(total: pl.Series, divisor: pl.Series, scale: int, aggregate: Aggregate) -> pl.Series:
    """The sum or mean of decimals, rounded half up to the result's scale; NULL if it has too many digits."""
    up = 10 ** (aggregate.scale - scale)
    limit = 10**aggregate.precision
    out: list[int | None] = []
    for whole, by in zip(total.to_list(), divisor.to_list(), strict=True):
        magnitude = (2 * abs(whole) * up + by) // (2 * by)
        out.append(None if magnitude >= limit else magnitude if whole >= 0 else -magnitude)
    unscaled = pl.Series(out, dtype=pl.Int128)
    return unscaled.cast(pl.Decimal(38, 0)) if not aggregate.scale else _scaled(unscaled, aggregate)


def _scaled(unscaled: pl.Series, aggregate: Aggregate) -> pl.Series:
    from decimal import Decimal

    values = [None if v is None else Decimal(v).scaleb(-aggregate.scale) for v in unscaled.to_list()]
    return pl.Series(values, dtype=pl.Decimal(aggregate.precision, aggregate.scale))


def _special(value: pl.Series, sums: Frame, i: int) -> pl.Series:
    """NaN where a NaN or infinities of both signs are among the values, ±∞ where infinities of one are."""
    nan, up, down = (_column(sums, f"+{name}{i}", pl.Int64).to_numpy() > 0 for name in ("nan", "up", "down"))
    numbers = value.to_numpy().copy()
    numbers[up] = np.inf
    numbers[down] = -np.inf
    numbers[nan | (up & down)] = np.nan
    return pl.Series(numbers)


def _deviations(sums: Frame, i: int, count: pl.Series, argument: pl.DataType) -> pl.Series:
    """The last step of STDDEV needs integers longer than any column's: it is done outside of Polars."""
    totals, squares = (
        [exact.to_integer(row) for row in _rows(_limbs(sums, f"+{p}{i}:"), len(count))] for p in "sq"
    )
    scale = 10.0 ** (argument.scale or 0) if isinstance(argument, pl.Decimal) else 1.0
    special = pl.Series(np.zeros(len(count)))
    special = _special(special, sums, i) if argument.is_float() else special
    odd = ~np.isfinite(special.to_numpy())
    out = [
        None if c < 2 else float("nan") if o else exact.deviation(c, t, q) / scale
        for c, o, t, q in zip(count.to_list(), odd, totals, squares, strict=True)
    ]
    return pl.Series(out, dtype=pl.Float64)


def _rows(limbs: dict[int, pl.Series], size: int) -> list[dict[int, int]]:
    columns = {j: limb.to_list() for j, limb in limbs.items()}
    return [{j: column[row] for j, column in columns.items()} for row in range(size)]


def _limbs(sums: Frame, prefix: str) -> dict[int, pl.Series]:
    return {int(c[len(prefix) :]): sums[c] for c in sums.columns if c.startswith(prefix)}


def _column(sums: Frame, name: str, type_: pl.DataType | type[pl.DataType]) -> pl.Series:
    if name in sums.columns:
        return sums[name]
    return pl.Series([0] * sums.height, dtype=type_)


def _blank(values: pl.Series, empty: pl.Series) -> pl.Series:
    return pl.select(pl.when(~empty).then(values)).to_series()
