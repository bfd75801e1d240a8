"""Aggregate functions: their result types and their plain meaning over a multiset of values.

A user's own aggregate is one more entry in the table: `AGGREGATES[name] = AggregateFunction(…)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from everview.algebra.convert import checked_micros
from everview.algebra.expressions import Expression
from everview.algebra.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, MAX_PRECISION, VOID, DataType
from everview.algebra.values import NAN, ordering, record_ordering
from everview.errors import AlgebraError, nearest

Meaning = Callable[[Sequence[Any], DataType, DataType], object]


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate: its result type for an argument type (None: not accepted), its value for a group.

    `meaning` gets the argument's values without NULLs, a value as often as it occurs, then the types
    of the argument and of the result.
    """

    name: str
    result_type: Callable[[DataType], DataType | None]
    meaning: Meaning


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate: COUNT(*) has no argument, DISTINCT drops repeated values, FILTER drops rows.

    MAX_BY and MIN_BY have a second argument: what the rows are compared by. PERCENTILE has a fraction.
    """

    function: str
    argument: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    by: Expression | None = None
    fraction: float | None = None
    type: DataType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        function = aggregate_function(self.function)
        object.__setattr__(self, "function", function.name)
        if self.argument is None and (function.name != "count" or self.distinct):
            raise AlgebraError(f"{function.name.upper()} needs an argument")
        if (self.by is not None) != (function.name in COMPARED_BY):
            raise AlgebraError(
                f"{function.name.upper()} takes {'one argument' if self.by else 'two arguments'}"
            )
        if (self.fraction is not None) != (function.name == PERCENTILE):
            raise AlgebraError("PERCENTILE, and no other aggregate, has a fraction")
        if self.fraction is not None and not 0 <= self.fraction <= 1:
            raise AlgebraError(f"a percentile is between 0 and 1, not {self.fraction}")
        if self.where is not None and self.where.type not in (BOOLEAN, VOID):
            raise AlgebraError(f"FILTER needs a condition, not {self.where.type.a}")
        argument = self.argument.type if self.argument is not None else VOID
        result = function.result_type(argument)
        if result is None:
            raise AlgebraError(
                f"{function.name.upper()} of {argument} has no meaning",
                next_step="compare the value with something"
                if function.result_type(BOOLEAN) in (BIGINT, BOOLEAN)
                else None,
            )
        object.__setattr__(self, "type", result)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(e for e in (self.argument, self.where, self.by) if e is not None)

    def value_of(self, values: Sequence[Any]) -> object:
        """Return the value for the argument's values in a group, without NULLs."""
        if self.fraction is not None:
            return percentile(values, self.fraction)
        argument = VOID if self.argument is None else self.argument.type
        return aggregate_function(self.function).meaning(values, argument, self.type)


def is_aggregate(name: str) -> bool:
    """Return whether there is an aggregate of this name."""
    folded = name.casefold()
    return _ALIASES.get(folded, folded) in AGGREGATES


def aggregate_function(name: str) -> AggregateFunction:
    """Return the aggregate of this name.

    >>> aggregate_function("STDDEV_SAMP").name
    'stddev'
    """
    folded = name.casefold()
    found = AGGREGATES.get(_ALIASES.get(folded, folded))
    if found is None and is_other_aggregate(name):
        raise AlgebraError(f"the aggregate {folded} is not available", choices=AGGREGATES)
    if found is None:
        raise AlgebraError(
            f"there is no aggregate '{name}'", meant=nearest(name, AGGREGATES), choices=AGGREGATES
        )
    return found


def is_other_aggregate(name: str) -> bool:
    """Return whether Spark has an aggregate of this name, and Everview has not."""
    return name.casefold() in _OTHERS


def _sum_type(t: DataType) -> DataType | None:
    if t.is_decimal:
        return _bound_precision(t.precision + 10, t.scale)
    if t.is_integer or t == INTERVAL:
        return BIGINT if t.is_integer else INTERVAL
    return DOUBLE if t.is_float or t == VOID else None


def _bound_precision(precision: int, scale: int) -> DataType:
    """Bound the precision of an aggregate's type, but keep its scale, as Spark's `DecimalType.bounded`."""
    return DataType("DECIMAL", min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def _mean_type(t: DataType) -> DataType | None:
    if t.is_decimal:
        return _bound_precision(t.precision + 4, t.scale + 4)
    return INTERVAL if t == INTERVAL else _number_type(t)


def _number_type(t: DataType) -> DataType | None:
    return DOUBLE if t.is_numeric or t == VOID else None


def _sum(values: Sequence[Any], _: DataType, result: DataType) -> object:
    """Return the exact sum, rounded once; integers wrap as Spark's do."""
    if not values:
        return None
    if result == BIGINT:
        return (sum(_ints(values)) + 2**63) % 2**64 - 2**63
    return _finish(_exact(values), result, Fraction(1))


def _avg(values: Sequence[Any], _: DataType, result: DataType) -> object:
    return _finish(_exact(values), result, Fraction(1, len(values))) if values else None


def _spread_of(spread: Spread) -> Meaning:
    """Return the meaning of a variance or standard deviation: the exact variance, rounded; then its root."""

    def meaning(values: Sequence[Any], argument: DataType, result: DataType) -> object:
        if len(values) <= spread.less:
            return None
        total = _exact(values)
        if isinstance(total, float):
            return NAN
        mean = total / len(values)
        squares = sum(((Fraction(v) - mean) ** 2 for v in values), Fraction(0))
        variance = _to_float(squares / (len(values) - spread.less))
        return math.sqrt(variance) if spread.root else variance

    return meaning


def percentile(values: Sequence[float], fraction: float) -> float | None:
    """Return the value at a fraction of the way through the sorted values; between two, it is interpolated.

    The steps are Spark's, so that the result is the same to the bit. NaN is greater than all other values.

    >>> percentile([4.0, 1.0, 2.0], 0.5), percentile([1.0, 2.0], 0.25), percentile([], 0.5)
    (2.0, 1.25, None)
    """
    if not values:
        return None
    ordered = sorted(values, key=ordering)
    position = (len(ordered) - 1) * fraction
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    if ordering(low) == ordering(high):
        return low
    return low + (position - math.floor(position)) * (high - low)


def _exact(values: Sequence[Any]) -> Fraction | float:
    """Return the sum without any rounding; NaN or ±∞ where floating point says so."""
    odd = [v for v in values if isinstance(v, float) and not math.isfinite(v)]
    if odd:
        return NAN if math.isnan(sum(odd)) else sum(odd)
    return sum((Fraction(v) for v in values), Fraction(0))


def _finish(total: Fraction | float, result: DataType, factor: Fraction) -> object:
    if isinstance(total, float):
        return total
    exact = total * factor
    if result.is_decimal:
        return _to_decimal(exact, result)
    if result == INTERVAL:
        return checked_micros(_half_up(exact))
    return _to_float(exact)


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _to_decimal(exact: Fraction, result: DataType) -> Decimal | None:
    rounded = _half_up(exact * 10**result.scale)
    if abs(rounded) >= 10**result.precision:
        return None
    context = Context(prec=result.precision + 1, rounding=ROUND_HALF_UP)
    return Decimal(rounded).scaleb(-result.scale, context)


def _half_up(exact: Fraction) -> int:
    """Return the nearest integer; of two, the one further from zero."""
    rounded = (abs(exact.numerator) * 2 + exact.denominator) // (exact.denominator * 2)
    return rounded if exact >= 0 else -rounded


def _ints(values: Sequence[Any]) -> list[int]:
    return [v for v in values if isinstance(v, int)]


def _same(t: DataType) -> DataType | None:
    return t


def _boolean_type(t: DataType) -> DataType | None:
    return BOOLEAN if t in (BOOLEAN, VOID) else None


def _least(values: Sequence[Any], argument: DataType, result: DataType) -> object:
    return min(values, key=ordering, default=None)


def _median(values: Sequence[Any], argument: DataType, result: DataType) -> object:
    return percentile(values, 0.5)


@dataclass(frozen=True)
class Spread:
    """A variance, or with `root` a standard deviation; the squares are divided by the count less `less`."""

    less: int
    root: bool


SPREADS = {
    "stddev": Spread(1, True),
    "stddev_pop": Spread(0, True),
    "var_samp": Spread(1, False),
    "var_pop": Spread(0, False),
}
"""The aggregates of variance."""

PERCENTILE = "percentile"


_NONE = (None, None)

AGGREGATES: dict[str, AggregateFunction] = {
    f.name: f
    for f in (
        AggregateFunction("count", lambda t: BIGINT, lambda values, a, r: len(values)),
        AggregateFunction("sum", _sum_type, _sum),
        AggregateFunction("avg", _mean_type, _avg),
        AggregateFunction("min", _same, _least),
        AggregateFunction("max", _same, lambda values, a, r: max(values, key=ordering, default=None)),
        # Of the values of a group any would do; the least is the same on every run.
        AggregateFunction("any_value", _same, _least),
        *(AggregateFunction(name, _number_type, _spread_of(spread)) for name, spread in SPREADS.items()),
        AggregateFunction(PERCENTILE, lambda t: DOUBLE if t in (DOUBLE, VOID) else None, _median),
        AggregateFunction(
            "count_if", lambda t: BIGINT if _boolean_type(t) else None, lambda values, a, r: sum(values)
        ),
        AggregateFunction("bool_and", _boolean_type, lambda values, a, r: all(values) if values else None),
        AggregateFunction("bool_or", _boolean_type, lambda values, a, r: any(values) if values else None),
        AggregateFunction(
            "min_by", _same, lambda pairs, a, r: min(pairs, key=record_ordering)[1] if pairs else None
        ),
        AggregateFunction(
            "max_by", _same, lambda pairs, a, r: max(pairs, key=record_ordering)[1] if pairs else None
        ),
    )
}

COMPARED_BY = ("min_by", "max_by")
"""The aggregates of two arguments. Their meaning gets pairs: what is compared, and the value, for ties."""

BY_TIME = {"first": "min_by", "last": "max_by"}
"""The aggregates that compare rows by their time line."""

_ALIASES = {
    "mean": "avg", "stddev_samp": "stddev", "std": "stddev", "variance": "var_samp", "median": PERCENTILE,
    "every": "bool_and", "any": "bool_or", "some": "bool_or", **BY_TIME,
}  # fmt: skip

# Spark's other aggregates: the error says that Everview lacks them, and guesses no similar name.
_OTHERS = {
    "approx_count_distinct", "approx_percentile", "approx_top_k", "array_agg",
    "bit_and", "bit_or", "bit_xor", "bitmap_construct_agg", "bitmap_or_agg",
    "collect_list", "collect_set", "corr", "count_min_sketch", "covar_pop", "covar_samp",
    "first_value", "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg",
    "hll_union_agg", "kurtosis", "last_value", "listagg", "mode",
    "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy",
    "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "skewness", "string_agg", "try_avg", "try_sum",
}  # fmt: skip
