"""Records to frames: inserted rows, with the columns and types that Spark passes to kernels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import polars as pl

from everview.algebra import types as T
from everview.algebra.changes import Record
from everview.algebra.convert import checked_micros
from everview.algebra.schema import Field, Schema
from everview.algebra.storing import convert_for_storage
from everview.algebra.time import DAY, INFINITY
from everview.catalog import Defaults, FedEntry, StreamEntry
from everview.errors import StoreError, format_count
from everview.operators.base import column
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N
from everview.operators.columnar.types import series_of as series_of

_STAMPED = "the clock stamps it on ARRIVAL, so no value can be given"
_COMPUTED = "it is computed, so no value can be given"


def why_made(name: str, entry: FedEntry) -> str:
    """Return why no value can be given for a column that is stamped or computed."""
    return _STAMPED if isinstance(entry, StreamEntry) and name in entry.stamped else _COMPUTED


def frame_of(records: Sequence[Record], types: Sequence[T.DataType], begins: Sequence[int]) -> Frame:
    """Return records as a frame of rows that hold from these instants on.

    >>> frame_of([("a", 5)], [T.STRING, T.TIMESTAMP], [5]).select("c0", FROM).rows()
    [('a', 5)]
    """
    columns: dict[str, pl.Series] = {}
    for i, type_ in enumerate(types):
        values = [record[i] for record in records]
        columns[column(i)] = series_of(values, type_)
    size = len(records)
    times = {FROM: list(begins), UNTIL: [INFINITY] * size, N: [1] * size}
    return pl.DataFrame({**columns, **{k: pl.Series(v, dtype=pl.Int64) for k, v in times.items()}})


def record_by_position(row: Sequence[object], columns: Schema) -> Record:
    """Return a row whose values stand in the order of the columns, as a record.

    >>> record_by_position((5, "a"), Schema.of(("v", T.INT), ("name", T.STRING)))
    (5, 'a')
    """
    if len(row) != len(columns):
        raise StoreError(
            f"{format_count(len(row), 'value')} for {format_count(len(columns), 'column')}: "
            f"{', '.join(columns.names)}",
            next_step="give a value for every column, or dicts with the names of some",
        )
    return tuple(fit_value(value, f) for value, f in zip(row, columns, strict=True))


def record_of(
    names: Sequence[object], values: Sequence[object], columns: Schema, defaults: Defaults = ()
) -> Record:
    """Return a row, given by column names, as a record; a column that is not named has its default or NULL.

    >>> record_of(["ts"], [datetime(1970, 1, 1, 0, 0, 1)], Schema.of(("v", T.INT), ("ts", T.TIMESTAMP)))
    (None, 1000000)
    """
    places = match_columns(names, columns)
    absent = dict(defaults)
    return tuple(
        fit_value(values[places[f.name]], f) if f.name in places else absent.get(f.name) for f in columns
    )


def match_columns(names: Sequence[object], columns: Schema) -> dict[str, int]:
    """Return the position of each column among the given names; raise an error for unknown or repeated names.

    >>> match_columns(["ts", "V"], Schema.of(("v", T.INT), ("ts", T.TIMESTAMP)))
    {'ts': 0, 'v': 1}
    """
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if not isinstance(name, str) or not _is_text(name):
            raise StoreError(
                f"a column is named by text, not by {shown_value(name)}", choices=list(columns.names)
            )
        found = columns.find(name).name
        if found in places:
            first = names[places[found]]
            spelt = "" if first == name else f", as '{first}' and as '{name}'"
            raise StoreError(f"the column '{found}' is given twice{spelt}", next_step="give each column once")
        places[found] = place
    return places


def _is_text(value: str) -> bool:
    """Return whether a Python string is text: one with a lone surrogate has no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def fit_value(value: object, field: Field) -> object:
    """Convert a Python value: times to microseconds, dates to days; raise an error if it does not fit."""
    plain = python_value(value)
    found = _convert_value(plain, field.type)
    if found is None and plain is not None:
        raise StoreError(
            f"the column '{field.name}' takes {field.type}, not {shown_value(value)}",
            next_step="convert the value, or declare another type",
        )
    return found


def python_value(value: object) -> object:
    """Return the Python value for one of NumPy; None for what pandas and NumPy have for a missing value.

    >>> import numpy
    >>> python_value(numpy.int64(5)), python_value(numpy.bool_(True)), python_value(numpy.datetime64("NaT"))
    (5, True, None)
    """
    if type(value).__module__.startswith("pandas") and type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else _python_time(value)
    return value.item() if isinstance(value, np.generic) else value


def _python_time(value: np.datetime64 | np.timedelta64) -> object:
    """Return a time of numpy, rounded down to microseconds; itself if Python has no such time."""
    unit, _ = np.datetime_data(value.dtype)
    if unit in ("ns", "ps", "fs", "as"):
        kind = "datetime64" if isinstance(value, np.datetime64) else "timedelta64"
        value = value.astype(f"{kind}[us]")
    found = value.item()
    return value if isinstance(found, int) else found


def shown_value(value: object) -> str:
    """Return a value for a message, as Python writes it; what is long is cut.

    >>> shown_value("a" * 200) == "'" + "a" * 99 + "…"
    True
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4300 digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _convert_value(value: object, type_: T.DataType) -> object:
    """Return the value as a value of the type; None if it is none."""
    match value:
        case datetime() if type_ == T.TIMESTAMP:
            return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
        case datetime():
            return None
        case date() if type_.is_temporal:
            days = (value - _EPOCH.date()).days
            return days if type_ == T.DATE else days * DAY
        case timedelta() if type_ == T.INTERVAL:
            return checked_micros(value // timedelta(microseconds=1))
        case bool():
            return value if type_ == T.BOOLEAN else None
        case int() if type_.is_integer:
            return value if -(2 ** (type_.bits - 1)) <= value < 2 ** (type_.bits - 1) else None
        case int() if type_.is_numeric:
            return convert_for_storage(str(value), T.STRING, type_) if abs(value) < _HUGE else None
        case float() if type_.is_numeric:
            return convert_for_storage(value, T.DOUBLE, type_)
        case Decimal() if type_.is_numeric:
            return convert_for_storage(f"{_near(value):f}", T.STRING, type_)
        case str() if type_ not in (T.BINARY, T.INTERVAL):
            return convert_for_storage(value, T.STRING, type_) if _is_text(value) else None
        case bytes() if type_ == T.BINARY:
            return value
    return None


def _near(value: Decimal) -> Decimal:
    """Return the value, or one that every type rounds alike if its exponent makes its text endless."""
    if not value.is_finite() or not value or abs(value.adjusted()) < _DIGITS:
        return value
    return Decimal(1).scaleb(_DIGITS if value.adjusted() > 0 else -_DIGITS).copy_sign(value)


_SHOWN = 100  # letters
_DIGITS = 400  # more than a DOUBLE has, before the point or after
_HUGE = 10**_DIGITS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
