"""Columns of an inserted table, converted to the columns of a stream or a table: all rows at once.

The rule is that of `rows.py` for single values. Values of a plain form are converted by Polars; text in any
other form, by the rule itself, each different text once.
"""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.algebra.storing import convert_for_storage
from everview.errors import StoreError
from everview.ingest.arrow_values import (
    arrow_of,
    arrow_to_series,
    decimal_texts,
    is_number,
    is_text_type,
    micros,
    texts,
    to_plain_array,
    valid_mask,
)
from everview.ingest.rows import series_of, shown_value
from everview.operators.columnar.types import frame_type

_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?[0-9]{1,15}(\.[0-9]{1,15})?$"
_MOST_DIGITS = 20  # after the point, with 18 before it
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6})?Z?$"


def fit_column(values: pa.Array, field: Field) -> pl.Series:
    """Convert values to the type of the column; raise an error for the first that does not fit."""
    values = to_plain_array(values)
    found = fit_values(values, field.type)
    refused = valid_mask(values) if found is None else valid_mask(values) & found.is_null()
    if refused.any():
        row = refused.arg_max()
        assert row is not None
        raise StoreError(
            f"row {row + 1}: the column '{field.name}' takes {field.type}, not {_show_value(values, row)}",
            next_step="convert the value, or declare another type",
        )
    return null_column(len(values), field.type) if found is None else found


def _show_value(values: pa.Array, row: int) -> str:
    """Return one of the values as Python writes it, or as text if Python has no such value."""
    try:
        return shown_value(values[row].as_py())
    except (ValueError, OverflowError):
        return str(texts(values.slice(row, 1))[0])


def null_column(size: int, type_: T.DataType) -> pl.Series:
    """Return a column of NULLs."""
    return pl.Series([None], dtype=frame_type(type_)).new_from_index(0, size)


def fit_values(values: pa.Array, target: T.DataType) -> pl.Series | None:
    """Convert the values of a plain array, NULL where one does not fit; None if their type never fits."""
    source, type_ = values.type, frame_type(target)
    if pa.types.is_null(source):
        return null_column(len(values), target)
    if is_text_type(source):
        return None if target in (T.BINARY, T.INTERVAL) else fit_texts(arrow_to_series(values), target)
    if is_number(source) and target.is_numeric:
        if pa.types.is_decimal256(source):
            return fit_texts(decimal_texts(values), target)
        return _number(arrow_to_series(values), target)
    match target.name:
        case "BOOLEAN" if pa.types.is_boolean(source):
            return arrow_to_series(values)
        case "BINARY" if pa.types.is_large_binary(source):
            return arrow_to_series(values)
        case "DATE" if pa.types.is_date32(source):
            return arrow_to_series(values)
        case "TIMESTAMP" if pa.types.is_date32(source) or pa.types.is_timestamp(source):
            return micros(values).cast(type_)
        case "INTERVAL" if pa.types.is_duration(source):
            return micros(values).cast(type_)
    return None


def _number(values: pl.Series, target: T.DataType) -> pl.Series:
    source, type_ = values.dtype, frame_type(target)
    if target.is_integer:
        found = values.cast(type_, strict=False)
        same = pl.Series([True]) if source.is_integer() else found.cast(source, strict=False) == values
        return _where(found, same)
    if source.is_float() and target.is_decimal:
        wide = values.cast(pl.Float64)
        return fit_texts(_where(wide, wide.is_finite()).cast(pl.String), target)
    if isinstance(source, pl.Decimal) and target.is_decimal and source.scale > target.scale:
        return _round_decimals(values, target)
    # A decimal's quotient would be rounded twice.
    exact = values.cast(pl.String) if source.is_decimal() and target.is_float else values
    found = exact.cast(type_, strict=False)
    if target.is_float and source.is_float():
        return _where(found, found.is_infinite() == values.is_infinite())
    return _where(found, ~found.is_infinite()) if target.is_float else found


def _round_decimals(values: pl.Series, target: T.DataType) -> pl.Series:
    """Return decimals with fewer digits after the point, rounded half away from zero as by CAST."""
    given = arrow_of(values)
    wide = given.cast(pa.decimal256(76, given.type.scale))  # rounding may add one digit
    rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), pa.decimal256(76, given.type.scale))
    fits = pc.less(pc.abs(rounded), limit)
    kept = pc.if_else(fits, rounded, pa.scalar(None, rounded.type))
    return arrow_to_series(kept.cast(pa.decimal128(target.precision, target.scale)))


def _where(values: pl.Series, mask: pl.Series) -> pl.Series:
    """Return the values where the mask is true; NULL elsewhere."""
    return pl.select(pl.when(mask.fill_null(False)).then(values).otherwise(None)).to_series()


def fit_texts(values: pl.Series, target: T.DataType) -> pl.Series:
    """Convert texts to values, with NULL where a text is no value of the type."""
    if target == T.STRING:
        return values
    plain = _plain(values, target)
    odd = values.filter(plain.is_null() & values.is_not_null()).unique()
    if odd.is_empty():
        return plain
    read = series_of([convert_for_storage(text, T.STRING, target) for text in odd], target)
    return plain.fill_null(values.replace_strict(odd, read, default=None, return_dtype=plain.dtype))


def _plain(values: pl.Series, target: T.DataType) -> pl.Series:
    """Convert the texts that have the most common form; NULL for others."""
    type_ = frame_type(target)
    if target.is_integer:
        return _where(values, values.str.contains(_WHOLE)).cast(type_, strict=False)
    if target.is_float:
        return _where(values, values.str.contains(_NUMBER)).cast(type_, strict=False)
    if target.is_decimal:
        scale = max(target.scale, _MOST_DIGITS)
        form = rf"^[+-]?[0-9]{{1,18}}(\.[0-9]{{0,{scale}}})?$"
        exact = _where(values, values.str.contains(form)).cast(pl.Decimal(38, scale), strict=False)
        return _round_decimals(exact, target)
    days = _where(values, values.str.contains(_DATE)).str.to_date("%Y-%m-%d", strict=False)
    if target == T.DATE:
        return days
    if target == T.TIMESTAMP:
        times = _where(values, values.str.contains(_TIME)).str.replace("T", " ").str.strip_chars_end("Z")
        read = times.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
        return read.fill_null(days.cast(pl.Datetime("us"))).dt.replace_time_zone("UTC")
    return null_column(len(values), target)
