"""Arrow columns in the few plain types that the readers use, and their values as texts.

Arrow has more types than Polars takes, and Polars panics at some values that it does take: timestamps of far
years, bytes in lists, decimals of 256 bits. So types are checked here, before Polars sees them.
"""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def to_plain_array(values: pa.Array) -> pa.Array:
    """Return the values without dictionaries, extensions and views, each kind of value in one type.

    Strings that are no UTF-8 are bytes. Extensions of pandas stay: a period is not the number that it is
    kept as.

    >>> arrays = pa.array(["a", None]).dictionary_encode(), pa.array([b"a"], pa.binary(1))
    >>> tuple(to_plain_array(array).type for array in arrays)
    (DataType(large_string), DataType(large_binary))
    """
    type_ = values.type
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name.startswith("pandas."):
            return values
        return to_plain_array(values.storage.cast(pa.bool_()) if type_ == pa.bool8() else values.storage)
    if pa.types.is_dictionary(type_):
        return to_plain_array(values.dictionary_decode())
    if pa.types.is_run_end_encoded(type_):
        return to_plain_array(pc.run_end_decode(values))
    if is_text_type(type_):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return values.cast(pa.large_binary())
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return values.cast(pa.large_binary())
    if pa.types.is_float16(type_):
        return values.cast(pa.float32())
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        return values.cast(pa.decimal128(type_.precision, type_.scale))
    if pa.types.is_date64(type_):
        return values.cast(pa.int64()).cast(pa.timestamp("ms"))
    return values


def arrow_of(values: pl.Series) -> pa.Array:
    """Return a column of Polars as Arrow has it; integers of 128 bits, which it has not, as decimals."""
    if values.dtype in (pl.Int128, pl.UInt128):
        return values.cast(pl.String).to_arrow().cast(pa.decimal256(39, 0))
    return values.to_arrow(compat_level=pl.CompatLevel.oldest())


def is_text_type(type_: pa.DataType) -> bool:
    """Return whether values of the type are texts."""
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def is_number(type_: pa.DataType) -> bool:
    """Return whether values of the type are numbers; booleans are not."""
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def arrow_to_series(values: pa.Array) -> pl.Series:
    """Return the values of a plain column as Polars has them, if it has such values."""
    return pl.Series(pl.from_arrow(values))


def valid_mask(values: pa.Array) -> pl.Series:
    """Return the mask of the values that are not NULL."""
    return arrow_to_series(values.is_valid())


def arrow_to_integers(values: pa.Array) -> pl.Series:
    """Return the integers that stand for dates, times, instants or durations."""
    wide = values.cast(pa.int32()) if values.type.bit_width == 32 else values
    return arrow_to_series(wide.cast(pa.int64()))


def micros(values: pa.Array) -> pl.Series:
    """Return dates, instants or durations in microseconds, rounded down; NULL where 64 bits do not suffice.

    >>> micros(pa.array([5, -1, 2**62], pa.timestamp("ns"))).to_list()
    [0, -1, 4611686018427387]
    >>> micros(pa.array([5, 2**62], pa.duration("s"))).to_list()
    [5000000, None]
    """
    given = arrow_to_integers(values)
    if pa.types.is_date32(values.type):
        return _times(given, 86_400 * 10**6)
    if values.type.unit == "ns":
        return given // 1000
    return _times(given, 10**6 // units_of_second(values.type))


def units_of_second(type_: pa.DataType) -> int:
    """Return how many units of an instant or a duration are a second."""
    return _SECOND[type_.unit]


def _times(given: pl.Series, factor: int) -> pl.Series:
    fits = given.is_between(-(2**63 // factor), (2**63 - 1) // factor)
    return pl.select(pl.when(fits).then(given * factor)).to_series()


def texts(values: pa.Array) -> pl.Series:
    """Return the values as texts, NULL for NULL: times in ISO 8601, bytes in base 64, what is nested as JSON.

    >>> texts(pa.array([b"x", None])).to_list(), texts(pa.array([[b"x", None], None])).to_list()
    (['eA==', None], ['["eA==",null]', None])
    >>> texts(pa.array([2**62], pa.timestamp("ms"))).to_list()
    ['146140482-04-24T15:36:27.904']
    """
    values = to_plain_array(values)
    type_ = values.type
    if _is_nested(type_):
        return pl.select(pl.when(valid_mask(values)).then(_nested_texts(values))).to_series()
    if is_text_type(type_):
        return arrow_to_series(values)
    if pa.types.is_large_binary(type_):
        return arrow_to_series(values).bin.encode("base64")
    if pa.types.is_decimal(type_):
        return decimal_texts(values)
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return _time_texts(values)
    if pa.types.is_time(type_):
        return arrow_to_series(values.cast(pa.large_string()))
    if pa.types.is_duration(type_):
        return _duration_texts(values)
    if pa.types.is_null(type_) or pa.types.is_boolean(type_) or is_number(type_):
        return arrow_to_series(values).cast(pl.String)
    return pl.Series([None if v is None else str(v) for v in values.to_pylist()], dtype=pl.String)


def json_texts(values: pa.Array) -> pl.Series:
    """Return the values as JSON; a NULL is `null`, and so is a number that JSON does not have.

    >>> json_texts(pa.array([{"a": b"x", "b": [1, None]}, None])).to_list()
    ['{"a":"eA==","b":[1,null]}', 'null']
    >>> json_texts(pa.array([[(1, "x")]], pa.map_(pa.int8(), pa.string()))).to_list()
    ['{"1":"x"}']
    """
    values = to_plain_array(values)
    type_ = values.type
    found = texts(values)
    if pa.types.is_floating(type_):
        found = pl.select(pl.when(arrow_to_series(values).is_finite()).then(found)).to_series()
    elif not (_is_nested(type_) or pa.types.is_boolean(type_) or pa.types.is_integer(type_)):
        found = _quote_texts(found)
    return found.fill_null("null")


def decimal_texts(values: pa.Array) -> pl.Series:
    """Return decimals as texts without an exponent.

    >>> decimal_texts(pa.array([Decimal("1E-9"), Decimal(7)], pa.decimal256(50, 9))).to_list()
    ['0.000000001', '7.000000000']
    """
    found = arrow_to_series(values.cast(pa.large_string()))
    short = found.filter(found.str.contains("E", literal=True)).unique()
    if short.is_empty():
        return found
    long = pl.Series([f"{Decimal(text):f}" for text in short])
    return found.replace(short, long)


def _is_nested(type_: pa.DataType) -> bool:
    return isinstance(type_, (pa.StructType, pa.MapType)) or _is_list(type_)


def _is_list(type_: pa.DataType) -> bool:
    kinds = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
    return isinstance(type_, kinds)


def _nested_texts(values: pa.Array) -> pl.Series:
    """Return nested values as JSON; the text for a NULL is arbitrary."""
    type_ = values.type
    if pa.types.is_map(type_):
        pair = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
        lists = values.cast(pa.list_(pair))
        return _join_elements(lists, _entries(lists.flatten()), "{", "}")
    if _is_list(type_):
        return _join_elements(values, json_texts(values.flatten()), "[", "]")
    return object_texts([field.name for field in type_], values.flatten(), len(values))


def object_texts(names: list[str], columns: list[pa.Array], size: int) -> pl.Series:
    """Return rows of columns as JSON objects; several columns may have the same name."""
    parts: list[pl.Expr] = []
    for i, (name, values) in enumerate(zip(names, columns, strict=True)):
        label = f"{',' if i else ''}{json.dumps(name, ensure_ascii=False)}:"
        parts += [pl.lit(label), pl.lit(json_texts(values))]
    if not parts:
        return pl.Series(["{}"]).new_from_index(0, size)
    return pl.select(pl.concat_str(pl.lit("{"), *parts, pl.lit("}"))).to_series()


def _entries(pairs: pa.Array) -> pl.Series:
    """Return the entries of maps as members of JSON objects, with the keys as texts."""
    keys, values = pairs.flatten()
    return pl.select(pl.concat_str(_quote_texts(texts(keys)), pl.lit(":"), json_texts(values))).to_series()


def _join_elements(values: pa.Array, elements: pl.Series, begin: str, end: str) -> pl.Series:
    """Return the texts of the elements of each list, joined."""
    lengths = pc.if_else(values.is_valid(), pc.list_value_length(values), 0).fill_null(0)
    ends = arrow_to_series(pc.cumulative_sum(lengths.cast(pa.int64())))
    offsets = pl.concat([pl.Series([0], dtype=pl.Int64), ends])
    lists = arrow_to_series(pa.LargeListArray.from_arrays(offsets.to_arrow(), elements.to_arrow()))
    return pl.select(pl.concat_str(pl.lit(begin), lists.list.join(","), pl.lit(end))).to_series()


def _quote_texts(found: pl.Series) -> pl.Series:
    """Return texts as JSON strings; NULL for NULL."""
    coded = pl.select(pl.struct(found.alias("_")).struct.json_encode()).to_series()
    inside = coded.str.slice(len('{"_":')).str.head(-1)
    return pl.select(pl.when(found.is_not_null()).then(inside)).to_series()


def _time_texts(values: pa.Array) -> pl.Series:
    """Return dates or instants as ISO 8601, by NumPy: Polars fails on years beyond 262143, Spark does not."""
    unit = "D" if pa.types.is_date32(values.type) else values.type.unit
    instants = arrow_to_integers(values).fill_null(0).to_numpy().astype(f"datetime64[{unit}]")
    found = arrow_to_series(pa.array(np.datetime_as_string(instants), pa.large_string()))
    return pl.select(pl.when(valid_mask(values)).then(found)).to_series()


def _duration_texts(values: pa.Array) -> pl.Series:
    """Return durations as ISO 8601, in seconds."""
    per = units_of_second(values.type)
    count = pl.lit(arrow_to_integers(values)).cast(pl.Int128)  # abs() of the least Int64 overflows
    rest = (count.abs() % per).cast(pl.String).str.zfill(len(str(per)) - 1).str.strip_chars_end("0")
    part = pl.when(count % per != 0).then(pl.concat_str(pl.lit("."), rest)).otherwise(pl.lit(""))
    sign = pl.when(count < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    whole = (count.abs() // per).cast(pl.String)
    return pl.select(pl.concat_str(sign, pl.lit("PT"), whole, part, pl.lit("S"))).to_series()
