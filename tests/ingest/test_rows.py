"""Rows by the names of their columns: values fit their column, or are refused with one clear message."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.errors import EverviewError, StoreError
from everview.ingest.rows import frame_of, record_of

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        (T.INT, 5, 5),
        (T.INT, None, None),
        (T.TINYINT, -128, -128),
        (T.DOUBLE, 5, 5.0),
        (T.FLOAT, 0.5, 0.5),
        (T.decimal(5, 2), Decimal("1.255"), Decimal("1.26")),
        (T.decimal(5, 2), 7, Decimal("7.00")),
        (T.STRING, "a", "a"),
        (T.BINARY, b"a", b"a"),
        (T.BOOLEAN, True, True),
        (T.DATE, date(1970, 1, 3), 2),
        (T.DATE, "1970-01-03", 2),
        (T.TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1), SECOND),
        (T.TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), SECOND),
        (T.TIMESTAMP, datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), SECOND),
        (T.TIMESTAMP, "1970-01-01T00:00:01Z", SECOND),
        (T.INTERVAL, timedelta(seconds=1), SECOND),
    ],
)
def test_a_value_that_fits(type_: T.DataType, value: object, wanted: object) -> None:
    record = record_of(["V"], [value], Schema.of(("v", type_)))
    assert record == (wanted,)
    assert frame_of([record], [type_], [0]).height == 1


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (T.INT, "abc"),
        (T.INT, 2**40),
        (T.INT, True),
        (T.INT, 1.5),
        (T.STRING, 5),
        (T.BOOLEAN, 1),
        (T.decimal(3, 2), Decimal("10.00")),
        (T.TIMESTAMP, "noon"),
        (T.TIMESTAMP, 5),
        (T.DATE, datetime(1970, 1, 3)),
    ],
)
def test_a_value_that_does_not_fit(type_: T.DataType, value: object) -> None:
    with pytest.raises(StoreError) as refused:
        record_of(["v"], [value], Schema.of(("v", type_)))
    assert str(refused.value) == (
        f"the column 'v' takes {type_}, not {value!r}\n  next: convert the value, or declare another type"
    )


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(EverviewError, match="there is no column 'speeed'\n  did you mean 'speed'"):
        record_of(["speeed"], [1], Schema.of(("speed", T.INT)))
