"""Columns of typed files, converted to the declared types.

A value is taken if it is one of the declared type: 7 of a BIGINT or a DOUBLE is an INT, a timestamp at
midnight is a DATE. Other values are refused row by row; if no value of a type can fit, the reason names both.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from everview.algebra import types as T
from everview.algebra.schema import Field
from everview.ingest.arrow_values import (
    arrow_to_integers,
    arrow_to_series,
    is_text_type,
    texts,
    to_plain_array,
    units_of_second,
    valid_mask,
)
from everview.ingest.columns import fit_values, null_column


def fit_file_column(
    values: pa.Array, field: Field, file: str, of_folder: bool = False
) -> tuple[pl.Series, pl.Series | None]:
    """Convert values to the type of a column, NULL where one does not fit; return also the reasons, if any.

    >>> values, reasons = fit_file_column(pa.array([7, 2**40, None]), Field("k", T.INT), "a.parquet")
    >>> values.to_list(), reasons.to_list()
    ([7, None, None], [None, 'k: 1099511627776 is no INT', None])
    >>> fit_file_column(pa.array(["x"]), Field("k", T.INT), "a.parquet")[1].to_list()
    ['k: string of a.parquet does not fit INT']
    """
    declared, values = values.type, to_plain_array(values)
    fitted = _of_folder(values, field.type) if of_folder else _fit_array(values, field.type)
    there = valid_mask(values)
    if fitted is None:
        cannot = pl.lit(f"{field.name}: {declared} of {file} does not fit {field.type}")
        return null_column(len(values), field.type), pl.select(pl.when(there).then(cannot)).to_series()
    bad = fitted.is_null() & there
    if not bad.any():
        return fitted, None
    shown = pl.concat_str(pl.lit(f"{field.name}: "), texts(values), pl.lit(f" is no {field.type}"))
    return fitted, pl.select(pl.when(bad).then(shown)).to_series()


def _of_folder(values: pa.Array, type_: T.DataType) -> pl.Series | None:
    """Convert texts from the names of folders."""
    if type_ == T.BINARY:
        return arrow_to_series(values).cast(pl.Binary)
    return fit_values(values, type_)


def _fit_array(values: pa.Array, type_: T.DataType) -> pl.Series | None:
    """Convert the values of a plain array to a type; None if their type never fits."""
    found = values.type
    match type_.name:
        case "STRING" if pa.types.is_large_binary(found):
            return _decode_bytes(arrow_to_series(values))
        case "STRING" if pa.types.is_integer(found) or pa.types.is_boolean(found):
            return texts(values)
        case "BINARY" if is_text_type(found):
            return arrow_to_series(values).cast(pl.Binary)
        case "DATE" if pa.types.is_timestamp(found):
            return _date(values)
    if is_text_type(found) and type_ != T.STRING:
        return None
    return fit_values(values, type_)


def _decode_bytes(given: pl.Series) -> pl.Series:
    """Return bytes as text; NULL where they are not UTF-8."""
    try:
        return given.cast(pl.String)
    except pl.exceptions.ComputeError:  # some are not UTF-8: only then check each
        return pl.Series([_utf8(value) for value in given.to_list()], dtype=pl.String)


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _date(values: pa.Array) -> pl.Series:
    """Return instants at midnight as dates."""
    instants = arrow_to_integers(values)
    day = 86_400 * units_of_second(values.type)
    days = (instants // day).cast(pl.Int32, strict=False)
    return pl.select(pl.when(instants % day == 0).then(days)).to_series().cast(pl.Date)
