"""Columns of a frame that a person inserts, as columns of a stream or a table: all rows at once.

The rule is that of `rows.py` for single values. Values of a plain form are converted by Polars; text in any
other form, by the rule itself, each different text once.
"""

from __future__ import annotations

import polars as pl
import pyarrow.compute as pc  # type: ignore[import-untyped]

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.algebra.storing import stored
from everview.errors import StoreError
from everview.runtime.rows import frame_type, series_of

_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?[0-9]{1,15}(\.[0-9]{1,15})?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z?$"


def fitted_column(values: pl.Series, field: Field) -> pl.Series:
    """The values as the column keeps them; the first that does not fit is refused."""
    if values.dtype == pl.Null:
        return _nulls(values, field.type)
    if isinstance(values.dtype, (pl.Categorical, pl.Enum)):
        values = values.cast(pl.String)
    found = _fitted(values, field.type)
    refused = values.is_not_null() & found.is_null() if found is not None else values.is_not_null()
    if refused.any():
        row = refused.arg_max()
        assert row is not None
        raise StoreError(
            f"row {row + 1}: the column '{field.name}' takes {field.type}, not {values[row]!r}",
            next_step="convert the value, or declare another type",
        )
    return _nulls(values, field.type) if found is None else found


def _nulls(values: pl.Series, type_: T.DataType) -> pl.Series:
    return pl.Series(values.name, [None] * len(values), dtype=frame_type(type_))


def _fitted(values: pl.Series, target: T.DataType) -> pl.Series | None:
    """The values, with NULL where one does not fit; None if no value of such a type does."""
    source, type_ = values.dtype, frame_type(target)
    if source == pl.String:
        return None if target in (T.BINARY, T.INTERVAL) else _text(values, target)
    if source.is_numeric() and target.is_numeric:
        return _number(values, target)
    if source in (pl.Boolean, pl.Binary, pl.Date) and source == type_:
        return values
    if source == pl.Date and target == T.TIMESTAMP:
        return values.cast(type_)
    if isinstance(source, pl.Datetime) and target == T.TIMESTAMP:
        if source.time_zone is None:
            return values.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        return values.dt.convert_time_zone("UTC").cast(type_)
    if isinstance(source, pl.Duration) and target == T.INTERVAL:
        return values.cast(type_)
    return None


def _number(values: pl.Series, target: T.DataType) -> pl.Series:
    source, type_ = values.dtype, frame_type(target)
    if target.is_integer:
        found = values.cast(type_, strict=False)
        same = pl.Series([True]) if source.is_integer() else found.cast(source, strict=False) == values
        return _where(found, same)
    if source.is_float() and target.is_decimal:
        return _text(_where(values, values.is_finite()).cast(pl.String), target)
    exact = values
    if isinstance(source, pl.Decimal) and target.is_decimal and source.scale > target.scale:
        wide = values.cast(pl.Decimal(38, source.scale)).to_arrow()
        rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        exact = pl.Series(values.name, rounded)
    elif source.is_decimal() and target.is_float:
        exact = values.cast(pl.String)  # a quotient would be rounded twice
    found = exact.cast(type_, strict=False)
    if target.is_float and source.is_float():
        return _where(found, found.is_infinite() == values.is_infinite())
    return _where(found, ~found.is_infinite()) if target.is_float else found


def _where(values: pl.Series, mask: pl.Series) -> pl.Series:
    """The values where the mask is true; NULL elsewhere."""
    return pl.select(pl.when(mask.fill_null(False)).then(values).otherwise(None)).to_series()


def _text(values: pl.Series, target: T.DataType) -> pl.Series:
    if target == T.STRING:
        return values
    plain = _plain(values, target)
    odd = values.filter(plain.is_null() & values.is_not_null()).unique()
    if odd.is_empty():
        return plain
    read = series_of([stored(text, T.STRING, target) for text in odd], target)
    return plain.fill_null(values.replace_strict(odd, read, default=None, return_dtype=plain.dtype))


def _plain(values: pl.Series, target: T.DataType) -> pl.Series:
    """The values of those texts that have the form most have; NULL for others."""
    type_ = frame_type(target)
    if target.is_integer:
        return _where(values, values.str.contains(_WHOLE)).cast(type_, strict=False)
    if target.is_float:
        return _where(values, values.str.contains(_NUMBER)).cast(type_, strict=False)
    if target.is_decimal:  # what is not to be rounded
        form = rf"^[+-]?[0-9]{{1,18}}(\.[0-9]{{0,{target.scale}}})?$"
        return _where(values, values.str.contains(form)).cast(type_, strict=False)
    days = _where(values, values.str.contains(_DATE)).str.to_date("%Y-%m-%d", strict=False)
    if target == T.DATE:
        return days
    if target == T.TIMESTAMP:
        times = _where(values, values.str.contains(_TIME)).str.replace("T", " ").str.strip_chars_end("Z")
        read = times.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
        return read.fill_null(days.cast(pl.Datetime("us"))).dt.replace_time_zone("UTC")
    return _nulls(values, target)
