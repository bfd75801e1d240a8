"""Aggregates over numbers that break things: the ends of every type, NaN, ±∞, sums that overflow."""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra import types as T
from everview.algebra.aggregates import SPREADS, AggregateCall
from everview.algebra.changes import Record
from everview.algebra.schema import Schema
from everview.errors import AlgebraError
from everview.operators.aggregate import Sweep, compact_sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from tests.algebra.hostile import FINEST, VALUES, WIDEST
from tests.operators.harness import Input, check, each_seed

COLUMNS: dict[str, tuple[T.DataType, pl.DataType]] = {
    "tiny": (T.TINYINT, pl.Int8()),
    "small": (T.SMALLINT, pl.Int16()),
    "whole": (T.INT, pl.Int32()),
    "big": (T.BIGINT, pl.Int64()),
    "single": (T.FLOAT, pl.Float32()),
    "real": (T.DOUBLE, pl.Float64()),
    "wide": (WIDEST, pl.Decimal(38, 0)),
    "fine": (FINEST, pl.Decimal(38, 38)),
    "length": (T.INTERVAL, pl.Duration("us")),
    "day": (T.DATE, pl.Int32()),
    "text": (T.STRING, pl.String()),
}
STREAM = N.Stream("s", Schema.of(*((name, type_) for name, (type_, _) in COLUMNS.items())))


def hostile(rng: random.Random) -> Record:
    """Ends of types, and seldom enough NaN and ±∞ that other sums are seen too."""
    odd = rng.random() < 0.3
    return tuple(
        None
        if rng.random() < 0.1
        else rng.choice([v for v in VALUES[t] if odd or not (t.is_float and not abs(v) < 1e309)])  # type: ignore[arg-type]
        for t, _ in COLUMNS.values()
    )


def calls_of(column: str) -> dict[str, AggregateCall]:
    """Every aggregate that has a meaning for a column, also over different values only."""
    found = {}
    extremes = () if column == "length" else ("min", "max")  # a frame shows lengths in another form
    for function in ("count", "sum", "avg", *SPREADS, *extremes):
        for distinct in (False, True):
            try:
                call = AggregateCall(function, STREAM.column(column), distinct)
            except AlgebraError:  # it has no meaning
                continue
            found[f"{function} {distinct}"] = call
    return found


@each_seed(2 * len(COLUMNS))
@pytest.mark.parametrize("column", COLUMNS)
def test_aggregates_of_hostile_numbers(seeds: range, column: str) -> None:
    calls = calls_of(column)
    chosen = tuple(
        AggregateColumn(c.function, column, name, c.distinct, c.type.precision, c.type.scale)
        for name, c in calls.items()
    )
    swept = Sweep((), chosen, signed=True)
    plan = N.Aggregate(STREAM, (), tuple(calls.items()))
    given = Input({name: type_ for name, (_, type_) in COLUMNS.items()}, hostile, signed=True)
    for seed in seeds:
        check(
            seed, {"s": given},
            lambda new, state, slice_: sweep(swept, new[0], state, slice_),
            lambda new: empty_sweep(swept, new[0]), plan,
            lambda name, rows, bound: compact_sweep(swept, name, rows, bound),
        )  # fmt: skip
