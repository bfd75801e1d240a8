"""Rows of every form are taken or refused alike, and stored alike: dicts, tuples, Polars, Arrow, pandas."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.ingest.inserts import table_rows

TYPES = (
    *(T.BOOLEAN, T.TINYINT, T.INT, T.BIGINT, T.FLOAT, T.DOUBLE, T.decimal(5, 2), T.decimal(20, 0)),
    *(T.STRING, T.BINARY, T.DATE, T.TIMESTAMP, T.INTERVAL),
)
TEXTS = (
    *(
        "1",
        " 7 ",
        "1.0",
        "1.5",
        "-3",
        "+4",
        "abc",
        "",
        "1e3",
        "1e400",
        "NaN",
        "inf",
        ".5",
        "5.",
        "99999999999999999999",
    ),
    *(
        "true",
        "no",
        "2026-01-31",
        "2026-1-2",
        "2026-01-31 01:02:03",
        "2026-01-31T01:02:03.5Z",
        "2026-02-30",
        "12.345",
    ),
    *("2026-01-31 01:02:03+02:00", "123.456", "1000", "0.005", "-0.004"),
)
SOURCES: dict[str, tuple[st.SearchStrategy[object], pl.DataType]] = {
    "int": (st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1)), pl.Int64()),
    "float": (
        st.one_of(
            st.sampled_from([1.0, 26.5, 1.9, -0.0, math.nan, math.inf, 1e300, 2.0**31, 1.005, 127.0, 128.0]),
            st.floats(),
        ),
        pl.Float64(),
    ),
    "decimal": (
        st.decimals(min_value=-2000, max_value=2000, places=3, allow_nan=False),
        pl.Decimal(20, 3),
    ),
    "text": (st.sampled_from(TEXTS), pl.String()),
    "bool": (st.booleans(), pl.Boolean()),
    "bytes": (st.binary(max_size=3), pl.Binary()),
    "date": (st.dates(date(1900, 1, 1), date(2100, 1, 1)), pl.Date()),
    "datetime": (
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
        pl.Datetime("us", "UTC"),
    ),
    "timedelta": (st.timedeltas(timedelta(-9), timedelta(9)), pl.Duration("us")),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[T.DataType, list[object], pl.DataType]:
    """A column's type, and values of one kind for it, some of them None."""
    values, type_ = SOURCES[draw(st.sampled_from(sorted(SOURCES)))]
    return (
        draw(st.sampled_from(TYPES)),
        draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=4)),
        type_,
    )


def outcome(rows: Callable[[], object], entry: TableEntry) -> object:
    try:
        stored = table_rows(rows(), entry, 0).get_column("c0").to_list()
    except StoreError as error:
        return error.what.partition(", not ")[0]
    return [repr(value) for value in stored]


@pytest.mark.slow
@given(columns())
@settings(max_examples=4 * settings().max_examples)
def test_every_form_is_taken_or_refused_alike(case: tuple[T.DataType, list[object], pl.DataType]) -> None:
    target, values, type_ = case
    entry = TableEntry("t", Schema.of(("v", target)))
    frame = pl.DataFrame({"v": pl.Series(values, dtype=type_)})
    forms: dict[str, Callable[[], object]] = {
        "tuples": lambda: [(value,) for value in values],
        "polars": lambda: frame,
        "lazy": lambda: frame.lazy(),
        "arrow": lambda: frame.to_arrow(),
    }
    if None not in values or type_ not in (pl.Float64(), pl.Int64()):  # pandas has no NULL among numbers
        forms["pandas"] = lambda: pd.DataFrame({"v": pd.Series(values, dtype=_pandas(type_))})
    wanted = outcome(lambda: [{"v": value} for value in values], entry)
    for name, rows in forms.items():
        assert outcome(rows, entry) == wanted, name


def _pandas(type_: pl.DataType) -> str:
    return {"Float64": "float64", "Int64": "int64"}.get(str(type_), "object")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"v": 1}, {"v": 26.5}], "row 2: the column 'v' takes INT, not 26.5"),
        ([(1,), ("x",)], "row 2: the column 'v' takes INT, not 'x'"),
        ([(1, 2)], "row 1: 2 values for 1 column: v"),
        (pd.DataFrame({"v": [1.0, 1.9]}), "row 2: the column 'v' takes INT, not 1.9"),
        (pd.DataFrame({"v": [1.0, math.nan]}), "row 2: the column 'v' takes INT, not nan"),
        (pl.DataFrame({"v": [2**31]}), "row 1: the column 'v' takes INT, not 2147483648"),
        (pa.table({"v": ["1", "1.5"]}), "row 2: the column 'v' takes INT, not '1.5'"),
        (pa.table({"v": [True]}), "row 1: the column 'v' takes INT, not True"),
    ],
)
def test_what_is_said_of_a_value_that_does_not_fit(rows: object, said: str) -> None:
    with pytest.raises(StoreError) as refused:
        table_rows(rows, TableEntry("t", Schema.of(("v", T.INT))), 0)
    assert refused.value.what == said


def test_missing_numbers_of_pandas() -> None:
    """The nullable types of pandas have NULL; whole numbers that became floats are whole numbers again."""
    entry = TableEntry("t", Schema.of(("v", T.INT)))
    for values in (pd.array([1, None], dtype="Int64"), pd.array([1.0, None], dtype="Float64")):
        assert table_rows(pd.DataFrame({"v": values}), entry, 0)["c0"].to_list() == [1, None]
    assert table_rows(pd.DataFrame({"v": [1.0, 2.0]}), entry, 0)["c0"].to_list() == [1, 2]
