"""The types of columns in frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from everview.algebra import types as T
from everview.operators.columnar.frame import CHANGE, Frame
from everview.operators.columnar.lazy import pl


@cache
def frame_type(type_: T.DataType) -> pl.DataType:
    """Return the type of a column that holds values of a SQL type."""
    if type_.is_decimal:
        return pl.Decimal(type_.precision, type_.scale)
    plain: dict[T.DataType, pl.DataType] = {
        T.BOOLEAN: pl.Boolean(), T.TINYINT: pl.Int8(), T.SMALLINT: pl.Int16(), T.INT: pl.Int32(),
        T.BIGINT: pl.Int64(), T.FLOAT: pl.Float32(), T.DOUBLE: pl.Float64(), T.STRING: pl.String(),
        T.BINARY: pl.Binary(), T.DATE: pl.Date(), T.TIMESTAMP: pl.Datetime("us", "UTC"),
        T.INTERVAL: pl.Duration("us"),
    }  # fmt: skip
    return plain[type_]


def series_of(values: Sequence[object], type_: T.DataType) -> pl.Series:
    """Return values of records as a column; times, which are integers in a record, get their type here."""
    if type_ in (T.TIMESTAMP, T.INTERVAL):
        return pl.Series(values, dtype=pl.Int64).cast(frame_type(type_))
    if type_ == T.DATE:
        return pl.Series(values, dtype=pl.Int32).cast(pl.Date)
    return pl.Series(values, dtype=frame_type(type_))


def column_type(type_: T.DataType) -> pl.DataType:
    """Return the type of a column that came through Spark; an untyped NULL is represented as an INT."""
    return pl.Int32() if type_ == T.VOID else frame_type(type_)


def empty_frame(types: Sequence[T.DataType]) -> Frame:
    """Return a frame without rows, with the columns c0, c1, … and the change."""
    return pl.DataFrame(schema=_schema(types))


def cast_columns(frame: Frame, types: Sequence[T.DataType]) -> Frame:
    """Return the frame with its columns in order, each of the type that the plan says."""
    wanted = _schema(types)
    if frame.schema == wanted:
        return frame
    return frame.select(pl.col(c) if frame.schema[c] == t else pl.col(c).cast(t) for c, t in wanted.items())


def _schema(types: Sequence[T.DataType]) -> dict[str, pl.DataType]:
    return {**{f"c{i}": column_type(t) for i, t in enumerate(types)}, **dict.fromkeys(CHANGE, pl.Int64())}
