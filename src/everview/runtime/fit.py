"""Columns of files that have types of their own, as values of the declared types.

A value is taken if it is one of the declared type: 7 of a BIGINT or a DOUBLE is an INT, a timestamp at
midnight is a DATE. What is none is refused, row by row; where no value of a type can be one, with both types.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.runtime.rows import frame_type

_UTC = pl.Datetime("us", "UTC")


def fit(
    values: pa.Array, field: Field, file: str, of_folder: bool = False
) -> tuple[pl.Series, pl.Series | None]:
    """The values as those of a column, NULL where they are none; and the reasons for those, if there are any.

    >>> values, reasons = fit(pa.array([7, 2**40, None]), Field("k", T.INT), "a.parquet")
    >>> values.to_list(), reasons.to_list()
    ([7, None, None], [None, 'k: 1099511627776 is no INT', None])
    >>> fit(pa.array(["x"]), Field("k", T.INT), "a.parquet")[1].to_list()
    ['k: string of a.parquet does not fit INT']
    """
    declared = values.type
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = values.cast(pa.timestamp(values.type.unit, "UTC"))  # an instant is one in every zone
    given = pl.Series(pl.from_arrow(values))
    fitted = _text(given, field.type) if of_folder else _fitted(given, field.type)
    if fitted is None:
        cannot = pl.lit(f"{field.name}: {declared} of {file} does not fit {field.type}")
        none = pl.Series([None], dtype=frame_type(field.type)).new_from_index(0, len(given))
        return none, pl.select(pl.when(given.is_not_null()).then(cannot)).to_series()
    bad = fitted.is_null() & given.is_not_null()
    if not bad.any():
        return fitted, None
    shown = pl.concat_str(pl.lit(f"{field.name}: "), _shown(given), pl.lit(f" is no {field.type}"))
    plain = pl.lit(f"{field.name}: it is no {field.type}")
    return fitted, pl.select(pl.when(bad).then(pl.coalesce(shown, plain))).to_series()


def _shown(given: pl.Series) -> pl.Series:
    """The values as texts; bytes as Spark writes them."""
    return given.bin.encode("base64") if given.dtype == pl.Binary else given.cast(pl.String, strict=False)


def _text(given: pl.Series, type_: T.DataType) -> pl.Series | None:
    """A text, as the name of a folder has it, as a value."""
    match type_.name:
        case "TIMESTAMP":
            return given.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
        case "DATE":
            return given.str.to_date("%Y-%m-%d", strict=False)
        case "BOOLEAN":
            truths = {"true": True, "false": False}
            return given.str.to_lowercase().replace_strict(truths, default=None, return_dtype=pl.Boolean)
        case "INTERVAL":
            return None
    return given.cast(frame_type(type_), strict=False)


def _fitted(given: pl.Series, type_: T.DataType) -> pl.Series | None:
    """The values of a column as those of a type; None if that cannot be."""
    wanted, found = frame_type(type_), given.dtype
    if found == pl.Null:
        return given.cast(wanted)
    if type_.is_integer:
        return _whole(given, wanted)
    if type_.is_decimal:
        return _decimal(given, type_)
    if type_.is_float:
        return given.cast(wanted, strict=False) if found.is_numeric() else None
    match type_.name:
        case "BOOLEAN":
            return given if found == pl.Boolean else None
        case "STRING":
            if found == pl.Binary:
                return _decoded(given)
            return given.cast(wanted) if found.is_integer() or found in (pl.String, pl.Boolean) else None
        case "BINARY":
            return given.cast(wanted) if found in (pl.Binary, pl.String) else None
        case "DATE":
            return _date(given)
        case "TIMESTAMP":
            return _instant(given)
        case "INTERVAL":
            return given.cast(wanted) if isinstance(found, pl.Duration) else None
    return None


def _whole(given: pl.Series, wanted: pl.DataType) -> pl.Series | None:
    if given.dtype.is_integer():
        return given.cast(wanted, strict=False)
    if given.dtype.is_numeric():
        number = given.cast(wanted, strict=False)
        return number.set(number.cast(given.dtype, strict=False) != given, None)
    return None


def _decimal(given: pl.Series, type_: T.DataType) -> pl.Series | None:
    """Numbers with as many digits after the point as the type has, rounded half away from zero as by CAST."""
    if not given.dtype.is_numeric():
        return None
    if given.dtype.is_float():
        given = given.cast(pl.String).cast(pl.Decimal(38, max(type_.scale, 18)), strict=False)
    if isinstance(given.dtype, pl.Decimal) and given.dtype.scale > type_.scale:
        rounded = pc.round(given.to_arrow(), type_.scale, round_mode="half_towards_infinity")
        given = pl.Series(pl.from_arrow(rounded))
    return given.cast(pl.Decimal(type_.precision, type_.scale), strict=False)


def _decoded(given: pl.Series) -> pl.Series:
    """Bytes as text; NULL where they are no UTF-8."""
    try:
        return given.cast(pl.String)
    except pl.exceptions.ComputeError:  # some are none: only now is it worth to look at each
        texts = [None if b is None else b.decode(errors="replace") for b in given.to_list()]
        return pl.Series([t if t is not None and "\ufffd" not in t else None for t in texts], dtype=pl.String)


def _date(given: pl.Series) -> pl.Series | None:
    if given.dtype == pl.Date:
        return given
    if isinstance(given.dtype, pl.Datetime):
        days = given.cast(pl.Date)
        return days.set(days.cast(given.dtype) != given, None)
    return None


def _instant(given: pl.Series) -> pl.Series | None:
    """An instant in microseconds; without a zone it is one of UTC."""
    if given.dtype == pl.Date:
        return given.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    if not isinstance(given.dtype, pl.Datetime):
        return None
    plain = given if given.dtype.time_zone else given.dt.replace_time_zone("UTC")
    return plain.cast(_UTC, strict=False)
