"""A number for each key, the same on every machine and for ever: what a state is sorted by.

Equal keys have equal numbers. Different keys nearly always have different ones, and a key of one plain
number always: it is its own. Polars' own hash will not do, as it may differ between versions and
processors, and these numbers are kept in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from everview.operators.columnar.lazy import np, npt, pl

Ints: TypeAlias = "npt.NDArray[np.int64]"
Words: TypeAlias = "npt.NDArray[np.uint64]"
Doubles: TypeAlias = "npt.NDArray[np.float64]"

_NULL = 0x5851F42D4C957F2D
_MIX = -0x61C8864680B583EB  # 2^64 over the golden ratio
_SCRAMBLE = (  # one to one: the finalizer of splitmix64 (Steele, Lea, Flood 2014)
    (30, 0xBF58476D1CE4E5B9),
    (27, 0x94D049BB133111EB),
)
_PORTION = 1 << 14  # so many words at a time


def hashes(frame: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """The number of each row's key; NULLs are equal, as are NaNs, and 0.0 and -0.0.

    >>> hashes(pl.DataFrame({"k": [7, 8]}), ["k"]).tolist()
    [7, 8]
    """
    total = np.zeros(frame.height, dtype=np.int64)
    for place, key in enumerate(keys):
        values = _of_column(frame[key])
        total = values if place == 0 else _mixed(total) + values
    return total


def is_own_number(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Whether different keys of this frame have different numbers for sure."""
    if not keys:
        return True
    return len(keys) == 1 and _is_plain(frame.schema[keys[0]]) and not frame[keys[0]].null_count()


def combined(parts: Sequence[Ints]) -> Ints:
    """Several numbers as one; different ones nearly always differ."""
    total = parts[0]
    for part in parts[1:]:
        total = _mixed(total) + part
    return total


def _is_plain(type_: pl.DataType) -> bool:
    return type_.is_integer() or type_.is_float() or type_.is_temporal() or type_ == pl.Boolean


def _mixed(numbers: Ints) -> Ints:
    """One to one; integers wrap."""
    numbers = numbers * _MIX
    return numbers ^ (numbers >> 29)


def _of_column(values: pl.Series) -> Ints:
    present = values.is_not_null().to_numpy() if values.null_count() else None
    numbers = _of_values(values)
    return numbers if present is None else np.where(present, numbers, _NULL)


def _of_values(values: pl.Series) -> Ints:
    """As `_of_column`; of NULL any number."""
    type_ = values.dtype
    if type_.is_float():
        return _bits(values.fill_null(0.0).cast(pl.Float64).to_numpy())
    if isinstance(type_, pl.Decimal):
        halves = decimal_halves(values.fill_null(0))
        return _mixed(halves[1]) + halves[0]
    if type_ in (pl.String, pl.Binary):
        return _of_bytes(values)
    if _is_plain(type_):
        whole = values if type_ == pl.Int64 else values.to_physical().cast(pl.Int64, wrap_numerical=True)
        return (whole.fill_null(0) if whole.null_count() else whole).to_numpy()
    return np.zeros(len(values), dtype=np.int64)  # lists and the like: only their being there counts


def _bits(values: Doubles) -> Ints:
    """Doubles by their bits, with one NaN and one zero."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)


def ordered_bits(values: Doubles) -> Ints:
    """Doubles as integers in the same order: NaN is one, and the greatest; there is no -0.0.

    >>> np.argsort(ordered_bits(np.array([np.nan, 1.5, -2.0, np.inf, -np.inf, 0.0]))).tolist()
    [4, 2, 5, 1, 3, 0]
    """
    return _flipped(_bits(values))


def has_own_order(type_: pl.DataType) -> bool:
    """Whether a value's integer in `ordered_numbers` is the same whatever the other values are."""
    return _is_plain(type_) or (isinstance(type_, pl.Decimal) and type_.precision <= 18)


def ordered_numbers(columns: Sequence[pl.Series]) -> list[Ints]:
    """Values of several columns of one type, without NULLs, as integers in their order."""
    type_ = columns[0].dtype
    if any(c.dtype != type_ for c in columns):
        raise TypeError(f"columns of different types have no order: {[c.dtype for c in columns]}")
    if type_.is_float():
        return [ordered_bits(c.cast(pl.Float64).to_numpy()) for c in columns]
    if has_own_order(type_):
        return [c.to_physical().cast(pl.Int64).to_numpy() for c in columns]
    ranks = pl.concat([c.alias("") for c in columns]).rank("dense").cast(pl.Int64).to_numpy()
    return np.split(ranks, np.cumsum([len(c) for c in columns])[:-1])


def from_ordered_bits(codes: Ints) -> Doubles:
    """The doubles that `ordered_bits` has made integers."""
    return _flipped(codes).view(np.float64)


def _flipped(bits: Ints) -> Ints:
    """The bits of negative doubles fall where their values rise; all but the sign are turned round."""
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def decimal_halves(values: pl.Series) -> tuple[Ints, Ints]:
    """128-bit decimals as their lower and upper 64 bits."""
    array = values.to_arrow()
    both = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset :]
    both = both[: 2 * len(array)].reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _of_bytes(values: pl.Series) -> Ints:
    """Strings by their length and all their bytes.

    The words of 8 bytes of a string are scrambled, each with its place in the string, and added up. Strings
    of equally many words are taken together, so that one very long string costs only what it is long.
    """
    array = values.cast(pl.Binary).fill_null(b"").to_arrow(compat_level=pl.CompatLevel.oldest())
    _, places, data = array.buffers()
    offsets = np.frombuffer(places, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = _aligned(data, int(offsets[-1]))
    begins, lengths = offsets[:-1], np.diff(offsets)
    total = lengths * _MIX
    for rows, words in _by_number_of_words(lengths):
        total[rows] += _of_words(text, begins[rows], lengths[rows], words)
    return total


def _by_number_of_words(lengths: Ints) -> Iterator[tuple[Ints, int]]:
    """The rows of strings that are not empty, in portions that fit into a processor's cache."""
    words = (lengths + 7) >> 3
    if not len(words):
        return
    # numpy sorts small integers by their digits, which takes a tenth of the time.
    order = np.argsort(words.astype(np.min_scalar_type(words.max())), kind="stable")
    ordered = words[order]
    edges = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(order)]
    for begin, end in pairwise(edges):
        count = int(ordered[begin])
        portion = max(1, _PORTION // max(count, 1))
        for at in range(begin, end, portion) if count else ():
            yield order[at : min(at + portion, end)], count


def _of_words(text: Words, begins: Ints, lengths: Ints, words: int) -> Ints:
    """The sum of each string's scrambled words, of which all these strings have equally many."""
    within = np.arange(words)
    found = _word(text, (begins[:, None] + 8 * within).ravel()).view(np.uint64).reshape(-1, words)
    # What lies after the end of a string is no part of it.
    after = ((8 * words - lengths) << 3).view(np.uint64)
    found[:, -1] = (found[:, -1] << after) >> after
    found += (within + 1).astype(np.uint64) * np.uint64(_MIX % 2**64)
    for shift, factor in _SCRAMBLE:
        found ^= found >> shift
        found *= factor
    found ^= found >> np.uint64(31)
    return (found.sum(axis=1) if words > 1 else found[:, 0]).view(np.int64)


def _aligned(data: Any, size: int) -> Words:
    """Bytes as words, with two more at the end."""
    words = np.zeros(size // 8 + 3, dtype=np.uint64)
    if size:
        words.view(np.uint8)[:size] = np.frombuffer(data, dtype=np.uint8)[:size]
    return words


def _word(text: Words, at: Ints) -> Ints:
    """The 8 bytes at each place."""
    shift = ((at & 7) << 3).view(np.uint64)
    place = at >> 3
    low, high = text[place], text[place + 1]
    both: Words = (low >> shift) | ((high << np.uint64(8)) << (np.uint64(56) - shift))
    return both.view(np.int64)
