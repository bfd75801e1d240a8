"""Aggregates that are sums of contributions of rows: counts, sum, avg, variances, bool_and, bool_or.

An accumulator is a column of integers. A row adds its contribution times n when it begins, and subtracts it
when it ends. The value of the aggregate is computed from the accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from everview.algebra.aggregates import PERCENTILE, SPREADS, Spread
from everview.operators.aggregates import exact
from everview.operators.columnar.frame import Frame, N
from everview.operators.columnar.hashing import Ints, Words
from everview.operators.columnar.lazy import np, pa, pl

_EXTREMES = ("min", "max", "min_by", "max_by", "any_value")
_CONDITIONS = ("count_if", "bool_and", "bool_or")
AGGREGATE_FUNCTIONS = ("count", "sum", "avg", *SPREADS, *_CONDITIONS, *_EXTREMES, PERCENTILE)


class SumKind(StrEnum):
    """The quantity that an accumulator sums.

    ROWS, LEFT and RIGHT count rows: of a group, and of one record on two sides. VALUES counts the
    values of an argument that are not NULL, TRUE those that are true, SUM and SQUARES are limbs of exact
    sums, and the rest count the floating-point values that are not finite.
    """

    ROWS = "rows"
    LEFT = "left"
    RIGHT = "right"
    VALUES = "values"
    TRUE = "true"
    SUM = "sum"
    SQUARES = "squares"
    NAN = "nan"
    PLUS_INFINITY = "plus_infinity"
    MINUS_INFINITY = "minus_infinity"


@dataclass(frozen=True)
class Accumulator:
    """A column of integer sums: the quantity, the number of the aggregate, and the limb of the sum.

    >>> Accumulator(SumKind.SUM, 0, 3).column, Accumulator.of_column("+sum.0.3"), Accumulator.of_column("c0")
    ('+sum.0.3', Accumulator(kind=<SumKind.SUM: 'sum'>, aggregate=0, limb=3), None)
    """

    kind: SumKind
    aggregate: int | None = None
    limb: int | None = None

    @property
    def column(self) -> str:
        """The name of its column in a state; no column of a record begins with a +."""
        return "+" + ".".join(str(v) for v in (self.kind, self.aggregate, self.limb) if v is not None)

    @classmethod
    def of_column(cls, name: str) -> Accumulator | None:
        """Return the accumulator that a column of a state is; None for other columns."""
        if not name.startswith("+"):
            return None
        kind, *numbers = name[1:].split(".")
        return cls(SumKind(kind), *map(int, numbers))


Sums = Mapping[Accumulator, Ints]  # the columns of accumulators

ROWS = Accumulator(SumKind.ROWS)  # how many rows a group has


def find_accumulators(frame: Frame) -> dict[Accumulator, pl.Series]:
    """Return the accumulators among the columns of a frame."""
    found = ((Accumulator.of_column(name), name) for name in frame.columns)
    return {accumulator: frame[name] for accumulator, name in found if accumulator is not None}


def name_accumulators(sums: Sums) -> dict[str, Ints]:
    """Return accumulators under the names that their columns have in a state."""
    return {accumulator.column: values for accumulator, values in sums.items()}


@dataclass(frozen=True)
class AggregateColumn:
    """One aggregate: its function, the column of its argument (None: COUNT(*)), its name in the output.

    `scale` is the number of decimals of a DECIMAL result; `precision` its digits. `by` is the column that
    MIN_BY and MAX_BY compare; PERCENTILE has a `fraction`.
    """

    function: str
    argument: str | None
    output: str
    distinct: bool = False
    precision: int = 0
    scale: int = 0
    by: str | None = None
    fraction: float | None = None

    def __repr__(self) -> str:
        """Return the text that digests are made of; what only some aggregates have is left out of others.

        So it is as it was in releases before there were MIN_BY and PERCENTILE.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values = {name: v for name, v in values.items() if name not in ("by", "fraction") or v is not None}
        return f"AggregateColumn({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @property
    def extreme(self) -> bool:
        return self.function in _EXTREMES

    @property
    def is_least(self) -> bool:
        return self.function in ("min", "min_by", "any_value")

    @property
    def reads_rows(self) -> bool:
        """Whether it needs the rows of a group: it cannot be computed from sums."""
        return self.extreme or self.function == PERCENTILE

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(c for c in (self.argument, self.by) if c is not None))


def row_contributions(
    frame: Frame, aggregates: Sequence[tuple[int, AggregateColumn]]
) -> dict[Accumulator, Ints]:
    """Return what each row adds to the accumulators: value · n, nothing for NULL; COUNT(*) uses ROWS."""
    n = frame[N].to_numpy()
    out: dict[Accumulator, Ints] = {}
    for i, aggregate in aggregates:
        if aggregate.argument is None:
            continue
        values = frame[aggregate.argument]
        present = n * values.is_not_null().to_numpy() if values.null_count() else n
        out[Accumulator(SumKind.VALUES, i)] = present
        if aggregate.function in _CONDITIONS:
            out[Accumulator(SumKind.TRUE, i)] = present * values.fill_null(False).to_numpy()
        elif aggregate.function != "count":
            out |= _sum_contributions(i, aggregate, values, present)
    return out


def _sum_contributions(
    i: int, aggregate: AggregateColumn, values: pl.Series, n: Ints
) -> dict[Accumulator, Ints]:
    out: dict[Accumulator, Ints] = {}
    if values.dtype.is_float():
        numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
        finite = np.isfinite(numbers)
        if not finite.all():
            odd = (
                (SumKind.NAN, np.isnan(numbers)),
                (SumKind.PLUS_INFINITY, numbers == np.inf),
                (SumKind.MINUS_INFINITY, numbers == -np.inf),
            )
            out = {Accumulator(kind, i): which * n for kind, which in odd if which.any()}
            numbers = np.where(finite, numbers, 0.0)
        limbs = exact.from_floats(numbers)
    elif isinstance(values.dtype, pl.Decimal):
        limbs = exact.from_decimals(values.fill_null(0))
    else:
        whole = values if values.dtype.is_integer() else values.to_physical()
        whole = whole.cast(pl.Int64)
        limbs = exact.from_integers((whole.fill_null(0) if whole.null_count() else whole).to_numpy())
    out |= {Accumulator(SumKind.SUM, i, j): limb for j, limb in exact.multiply_by_n(limbs, n).items()}
    if aggregate.function in SPREADS:
        limbs = exact.normalize_limbs(limbs)
        squares = exact.multiply_by_n(exact.multiply_limbs(limbs, limbs), n)
        out |= {Accumulator(SumKind.SQUARES, i, j): limb for j, limb in squares.items()}
    return out


def narrow_limbs(sums: Sums) -> dict[Accumulator, Ints]:
    """Return the sums with narrow limbs, as a state keeps them; limbs that are all zero are left out."""
    out = {accumulator: column for accumulator, column in sums.items() if accumulator.limb is None}
    for kind, i in dict.fromkeys((a.kind, a.aggregate) for a in sums if a.limb is not None):
        narrow = exact.normalize_limbs(_limbs(sums, kind, i))
        out |= {Accumulator(kind, i, j): limb for j, limb in narrow.items()}
    return out


def aggregate_values(
    sums: Sums, size: int, aggregates: Sequence[tuple[int, AggregateColumn]], types: Mapping[str, pl.DataType]
) -> dict[str, pl.Series]:
    """Return the values of the aggregates, computed from their accumulators row by row."""
    return {a.output: _aggregate_value(sums, size, i, a, types) for i, a in aggregates}


def _aggregate_value(
    sums: Sums, size: int, i: int, aggregate: AggregateColumn, types: Mapping[str, pl.DataType]
) -> pl.Series:
    count = _column(sums, ROWS if aggregate.argument is None else Accumulator(SumKind.VALUES, i), size)
    if aggregate.function == "count":
        return pl.Series(count)
    if aggregate.function in _CONDITIONS:
        return _conditions(aggregate.function, _column(sums, Accumulator(SumKind.TRUE, i), size), count)
    argument = types[aggregate.argument or ""]
    if aggregate.function in SPREADS:
        return _spreads(SPREADS[aggregate.function], sums, i, count, argument)
    limbs = _limbs(sums, SumKind.SUM, i)
    divisor = np.maximum(count, 1) if aggregate.function == "avg" else None
    values: pl.Series
    if argument.is_float():
        values = pl.Series(_apply_non_finite(exact.round_to_double(limbs, divisor, size), sums, i))
    elif isinstance(argument, pl.Decimal):
        values = _decimals(limbs, divisor, size, argument.scale or 0, aggregate)
    elif isinstance(argument, pl.Duration):
        values = _total_lengths(limbs, size) if divisor is None else _mean_lengths(limbs, divisor, size)
    elif divisor is None:
        values = pl.Series(exact.wrap_to_int64(limbs, size))
    else:
        values = pl.Series(exact.round_to_double(limbs, divisor, size))
    return _set_null(values, count == 0)


def _conditions(function: str, true: Ints, count: Ints) -> pl.Series:
    """Return COUNT_IF, BOOL_AND or BOOL_OR from how many conditions are true, and how many are not NULL."""
    if function == "count_if":
        return pl.Series(true)
    return _set_null(pl.Series(true == count if function == "bool_and" else true > 0), count == 0)


def _total_lengths(limbs: exact.Limbs, size: int) -> pl.Series:
    """Return the sum of intervals; NULL if it exceeds 64 bits."""
    digits, negative = exact.whole_digits(limbs, size)
    fits = exact.is_below(digits, 2**63) | (negative & exact.is_below(digits, 2**63 + 1))
    return _set_null(pl.Series(exact.wrap_to_int64(limbs, size)), ~fits)


def _mean_lengths(limbs: exact.Limbs, divisor: Ints, size: int) -> pl.Series:
    """Return the mean of intervals, rounded half up."""
    digits, negative = exact.whole_digits(limbs, size)
    whole, _ = exact.to_halves(_divide_half_up(digits, divisor), negative)
    return pl.Series(whole)


def _divide_half_up(digits: Words, divisor: Ints) -> Words:
    quotient, rest = exact.divide_digits(digits, divisor)
    return exact.add_one(quotient, 2 * rest >= divisor.astype(np.uint64))


def _decimals(
    limbs: exact.Limbs, divisor: Ints | None, size: int, scale: int, aggregate: AggregateColumn
) -> pl.Series:
    """Return the sum or mean of decimals, rounded half up; NULL if it exceeds the result's precision."""
    digits, negative = exact.whole_digits(limbs, size)
    digits = exact.multiply_digits(digits, 10 ** (aggregate.scale - scale))
    if divisor is not None:
        digits = _divide_half_up(digits, divisor)
    fits = exact.is_below(digits, 10**aggregate.precision)
    lower, upper = exact.to_halves(np.where(fits, digits, np.uint64(0)), negative)
    data = pa.py_buffer(np.stack([lower, upper], axis=1).tobytes())
    type_ = pa.decimal128(aggregate.precision, aggregate.scale)
    unscaled = pl.Series(pa.Array.from_buffers(type_, size, [None, data]))
    return unscaled if fits.all() else _set_null(unscaled, ~fits)


def _apply_non_finite(value: np.ndarray, sums: Sums, i: int) -> np.ndarray:
    """Return NaN for groups with a NaN or infinities of both signs, ±∞ for those with one sign."""
    odd = [Accumulator(s, i) for s in (SumKind.NAN, SumKind.PLUS_INFINITY, SumKind.MINUS_INFINITY)]
    if not any(accumulator in sums for accumulator in odd):
        return value
    nan, up, down = (_column(sums, accumulator, len(value)) > 0 for accumulator in odd)
    value = np.where(up, np.inf, np.where(down, -np.inf, value))
    return np.where(nan | (up & down), np.nan, value)


def _spreads(spread: Spread, sums: Sums, i: int, count: Ints, argument: pl.DataType) -> pl.Series:
    """Return variances or deviations; the last step needs integers of more than 64 bits, so not in NumPy."""
    totals, squares = (
        [exact.to_integer(row) for row in _rows(_limbs(sums, kind, i), len(count))]
        for kind in (SumKind.SUM, SumKind.SQUARES)
    )
    decimals = argument.scale or 0 if isinstance(argument, pl.Decimal) else 0
    odd = ~np.isfinite(_apply_non_finite(np.zeros(len(count)), sums, i))
    out = [
        None
        if c <= spread.less
        else float("nan")
        if o
        else exact.spread_of_values(c, spread.less, t, q, spread.root, decimals)
        for c, o, t, q in zip(count.tolist(), odd, totals, squares, strict=True)
    ]
    return pl.Series(out, dtype=pl.Float64)


def _rows(limbs: exact.Limbs, size: int) -> list[dict[int, int]]:
    columns = {j: limb.tolist() for j, limb in limbs.items()}
    return [{j: column[row] for j, column in columns.items()} for row in range(size)]


def _limbs(sums: Sums, kind: SumKind, aggregate: int | None) -> exact.Limbs:
    return {
        a.limb: column
        for a, column in sums.items()
        if a.limb is not None and (a.kind, a.aggregate) == (kind, aggregate)
    }


def _column(sums: Sums, accumulator: Accumulator, size: int) -> Ints:
    return sums[accumulator] if accumulator in sums else np.zeros(size, dtype=np.int64)


def _set_null(values: pl.Series, empty: np.ndarray) -> pl.Series:
    """Return the values with NULL where `empty` is true."""
    if not empty.any():
        return values
    return pl.select(pl.when(pl.Series(~empty)).then(values)).to_series()
