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

    MAX_BY and MIN_BY have a second argument: what the rows are compared by.
    """

    function: str
    argument: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    by: Expression | None = None
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
        if self.where is not None and self.where.type not in (BOOLEAN, VOID):
            raise AlgebraError(f"FILTER needs a condition, not {self.where.type.a}")
        argument = self.argument.type if self.argument is not None else VOID
        result = function.result_type(argument)
        if result is None:
            raise AlgebraError(f"{function.name.upper()} of {argument} has no meaning")
        object.__setattr__(self, "type", result)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(e for e in (self.argument, self.where, self.by) if e is not None)


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


def _stddev(values: Sequence[Any], argument: DataType, result: DataType) -> object:
    """Return the standard deviation of a sample: the root of the exact variance; NULL below two values."""
    if len(values) < 2:
        return None
    total = _exact(values)
    if isinstance(total, float):
        return NAN
    mean = total / len(values)
    spread = sum(((Fraction(v) - mean) ** 2 for v in values), Fraction(0))
    return math.sqrt(_to_float(spread / (len(values) - 1)))


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


_NONE = (None, None)

AGGREGATES: dict[str, AggregateFunction] = {
    f.name: f
    for f in (
        AggregateFunction("count", lambda t: BIGINT, lambda values, a, r: len(values)),
        AggregateFunction("sum", _sum_type, _sum),
        AggregateFunction("avg", _mean_type, _avg),
        AggregateFunction("min", _same, lambda values, a, r: min(values, key=ordering, default=None)),
        AggregateFunction("max", _same, lambda values, a, r: max(values, key=ordering, default=None)),
        AggregateFunction("stddev", _number_type, _stddev),
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

_ALIASES = {"mean": "avg", "stddev_samp": "stddev", "std": "stddev", **BY_TIME}

# Spark's other aggregates: the error says that Everview lacks them, and guesses no similar name.
_OTHERS = {
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "array_agg",
    "bit_and", "bit_or", "bit_xor", "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or",
    "collect_list", "collect_set", "corr", "count_if", "count_min_sketch", "covar_pop", "covar_samp",
    "every", "first_value", "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg",
    "hll_union_agg", "kurtosis", "last_value", "listagg", "median", "mode",
    "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy",
    "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "skewness", "some", "stddev_pop", "string_agg", "try_avg", "try_sum", "var_pop", "var_samp",
    "variance",
}  # fmt: skip
