"""Random columns of Arrow: every type that a Parquet file can have, nested, with the ends of their ranges."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from hypothesis import strategies as st

from everview.algebra import types as T

UNITS = ("s", "ms", "us", "ns")
TEXTS = ("", "a", 'q"\\', "\n", "é", "1", "2026-01-01", "true")
EDGES = (0, 1, -1, 86_400_000, 1_767_225_600_000, 1_767_225_600_000_000, 1_767_225_600_000_000_000)
COUNTS = st.one_of(st.sampled_from((*EDGES, 2**62, 2**63 - 1, -(2**63))), st.integers(-(2**63), 2**63 - 1))
EXACT = Context(prec=80)


@st.composite
def columns(draw: st.DrawFn, size: int) -> pa.Array:
    """A column of some type, of so many values."""
    return draw(st.one_of(numbers(size), instants(size), others(size), nested(size)))


@st.composite
def cases(draw: st.DrawFn, types: Sequence[T.DataType]) -> tuple[pa.Array, T.DataType]:
    """A column, and one of the declared types: more often than not one that it can fit."""
    kinds = (
        (numbers, [t for t in types if t.is_numeric]),
        (instants, [T.DATE, T.TIMESTAMP, T.INTERVAL]),
        (columns, types),
    )
    values, fitting = draw(st.sampled_from(kinds))
    return draw(values(draw(st.integers(1, 4)))), draw(st.sampled_from(fitting))


@st.composite
def numbers(draw: st.DrawFn, size: int) -> pa.Array:
    if draw(st.booleans()):
        return draw(decimals(size))
    bits = draw(st.sampled_from((8, 16, 32, 64)))
    if draw(st.booleans()):
        signed = draw(st.booleans())
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        values = draw(_some(st.one_of(st.integers(least, most), st.sampled_from((least, most))), size))
        return pa.array(values, getattr(pa, f"{'' if signed else 'u'}int{bits}")())
    odd = st.sampled_from((0.1, -0.0, 1.005, 99.995, 1e-7, 1e16, 1e20, 1e300, 16777217.0, 2.0**63, -2.5))
    wide = draw(_some(st.one_of(st.floats(), odd), size))
    return pa.array(wide, pa.float64()).cast(
        draw(st.sampled_from((pa.float64(), pa.float32(), pa.float16())))
    )


@st.composite
def decimals(draw: st.DrawFn, size: int) -> pa.Array:
    most, type_ = draw(
        st.sampled_from(((9, pa.decimal32), (18, pa.decimal64), (38, pa.decimal128), (76, pa.decimal256)))
    )
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(0, precision))
    digits = st.one_of(
        st.integers(-(10**precision) + 1, 10**precision - 1),
        st.sampled_from((10**precision - 1, 1, 0, 1 - 10**precision)),
    )
    values = draw(_some(digits.map(lambda n: Decimal(n).scaleb(-scale, context=EXACT)), size))
    return pa.array(values, type_(precision, scale))


@st.composite
def instants(draw: st.DrawFn, size: int) -> pa.Array:
    """Dates, times, instants and durations, from all integers that can stand for one."""
    counts = pa.array(draw(_some(COUNTS, size)), pa.int64())
    days = pa.array(draw(_some(st.integers(-(2**31), 2**31 - 1), size)), pa.int32())
    seconds = pa.array(draw(_some(st.integers(0, 86_399), size)), pa.int32())
    unit = draw(st.sampled_from(UNITS))
    zone = draw(st.sampled_from((None, "UTC", "Asia/Tokyo", "+02:00")))
    return draw(
        st.sampled_from(
            (
                counts.cast(pa.timestamp(unit, zone)),
                counts.cast(pa.duration(unit)),
                days.cast(pa.date32()),
                seconds.cast(pa.time32("s")),
                seconds.cast(pa.int64()).cast(pa.time64("us")),
            )
        )
    )


@st.composite
def others(draw: st.DrawFn, size: int) -> pa.Array:
    """Texts, bytes, truth values and NULL, in every form that Arrow has for them."""
    texts = pa.array(draw(_some(st.sampled_from(TEXTS), size)), pa.string())
    binary = pa.array(draw(_some(st.binary(min_size=16, max_size=16), size)), pa.binary(16))
    spoiled = pa.array(draw(_some(st.sampled_from((b"\xff", b"a")), size)), pa.binary())
    forms = (
        *(texts, texts.cast(pa.large_string()), texts.cast(pa.string_view()), texts.dictionary_encode()),
        *(spoiled, spoiled.cast(pa.binary_view()), spoiled.dictionary_encode(), binary),
        pa.Array.from_buffers(pa.string(), size, spoiled.buffers()),
        pa.ExtensionArray.from_storage(pa.uuid(), binary),
        pa.ExtensionArray.from_storage(pa.json_(), texts),
        pa.array(draw(_some(st.booleans(), size)), pa.bool_()),
        pa.nulls(size),
    )
    return draw(st.sampled_from(forms))


@st.composite
def nested(draw: st.DrawFn, size: int) -> pa.Array:
    """Lists, structs and maps of columns; fields of a struct may share a name."""
    lengths = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    ends = [sum(lengths[:i]) for i in range(size + 1)]
    absent = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    match draw(st.sampled_from(("list", "large", "fixed", "view", "struct", "map"))):
        case "list":
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), draw(columns(ends[-1])), mask=absent)
        case "large":
            offsets = pa.array(ends, pa.int64())
            return pa.LargeListArray.from_arrays(offsets, draw(columns(ends[-1])), mask=absent)
        case "fixed":
            return pa.FixedSizeListArray.from_arrays(draw(columns(2 * size)), 2, mask=absent)
        case "view":
            return pa.ListViewArray.from_arrays(
                pa.array(ends[:-1], pa.int32()), pa.array(lengths, pa.int32()), draw(columns(ends[-1]))
            )
        case "map":
            keys = pa.array(range(ends[-1]), draw(st.sampled_from((pa.int32(), pa.float64()))))
            keys = draw(
                st.sampled_from((keys, keys.cast(pa.string()), keys.cast(pa.string()).cast(pa.binary())))
            )
            return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, draw(columns(ends[-1])))
    names = draw(st.lists(st.sampled_from(("a", "b", 'q"')), min_size=1, max_size=3))
    return pa.StructArray.from_arrays([draw(columns(size)) for _ in names], names, mask=absent)


def _some(values: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(st.none(), values), min_size=size, max_size=size)
