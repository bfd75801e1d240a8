"""Values of files with types of their own, as those of declared columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.ingest.fit import fit_file_column

INTEGERS = {T.TINYINT: 8, T.SMALLINT: 16, T.INT: 32, T.BIGINT: 64}


def fitted(values: pa.Array, type_: T.DataType) -> tuple[list[object], list[str | None]]:
    found, reasons = fit_file_column(values, Field("c", type_), "f.parquet")
    return found.to_list(), [None] * len(values) if reasons is None else reasons.to_list()


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from(list(INTEGERS)),
)
def test_an_integer_fits_where_its_number_does(values: list[int | None], type_: T.DataType) -> None:
    half = 2 ** (INTEGERS[type_] - 1)
    expected = [v if v is not None and -half <= v < half else None for v in values]
    found, reasons = fitted(pa.array(values, pa.int64()), type_)
    assert found == expected
    bad = [v is not None and e is None for v, e in zip(values, expected, strict=True)]
    assert reasons == [f"c: {v} is no {type_}" if b else None for v, b in zip(values, bad, strict=True)]


@given(st.lists(st.decimals(-99999, 99999, places=4)))
def test_a_decimal_is_rounded_as_by_cast(values: list[Decimal]) -> None:
    found, _ = fitted(pa.array(values, pa.decimal128(12, 4)), T.decimal(6, 2))
    rounded = [v.quantize(Decimal("0.01"), ROUND_HALF_UP) for v in values]
    assert found == [v if abs(v) < 10_000 else None for v in rounded]


@given(
    st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))),
    st.sampled_from(("us", "ns")),
    st.sampled_from((None, "UTC", "Asia/Tokyo")),
)
def test_a_timestamp_is_an_instant_in_any_unit_and_zone(
    values: list[datetime], unit: str, zone: str | None
) -> None:
    plain = pa.array(values, pa.timestamp("us")).cast(pa.timestamp(unit))
    given_ = plain.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    found, reasons = fitted(given_, T.TIMESTAMP)
    assert found == [v.replace(tzinfo=UTC) for v in values]
    assert not any(reasons)


@pytest.mark.parametrize(
    ("values", "type_", "found"),
    [
        (pa.array([1.0, 1.5, None, float("nan"), 1e20]), T.INT, [1, None, None, None, None]),
        (pa.array([2**64 - 1, 5], pa.uint64()), T.BIGINT, [None, 5]),
        (pa.array([Decimal("7.0"), Decimal("7.5")]), T.INT, [7, None]),
        (pa.array([1.005, 1e30]), T.decimal(4, 2), [Decimal("1.01"), None]),
        (pa.array([7, 10**6]), T.decimal(5, 2), [Decimal("7.00"), None]),
        (pa.array(["a", None]).dictionary_encode(), T.STRING, ["a", None]),
        (pa.array([b"a", b"\xff"]), T.STRING, ["a", None]),
        (pa.array([datetime(2026, 1, 2), datetime(2026, 1, 2, 1)]), T.DATE, [date(2026, 1, 2), None]),
        (pa.array([date(2026, 1, 2)]), T.TIMESTAMP, [datetime(2026, 1, 2, tzinfo=UTC)]),
        (pa.array([None, None]), T.TIMESTAMP, [None, None]),
        (pa.array([1.5], pa.float32()), T.DOUBLE, [1.5]),
        (pa.array([3], pa.int8()), T.DOUBLE, [3.0]),
        (pa.array(["a"]), T.BINARY, [b"a"]),
    ],
)
def test_what_is_a_value_of_another_type(values: pa.Array, type_: T.DataType, found: list[object]) -> None:
    assert fitted(values, type_)[0] == found


@pytest.mark.parametrize(
    ("values", "type_", "said"),
    [
        (pa.array(["1"]), T.INT, "c: string of f.parquet does not fit INT"),
        (pa.array([1]), T.BOOLEAN, "c: int64 of f.parquet does not fit BOOLEAN"),
        (pa.array([1]), T.TIMESTAMP, "c: int64 of f.parquet does not fit TIMESTAMP"),
        (pa.array(["2026-01-01"]), T.DATE, "c: string of f.parquet does not fit DATE"),
        (pa.array([[1]]), T.STRING, "c: list<item: int64> of f.parquet does not fit STRING"),
        (pa.array([True]), T.DOUBLE, "c: bool of f.parquet does not fit DOUBLE"),
    ],
)
def test_types_that_cannot_fit_are_both_named(values: pa.Array, type_: T.DataType, said: str) -> None:
    assert fitted(values, type_) == ([None], [said])
