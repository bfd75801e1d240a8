"""Hashes of keys, the same on every machine and in every version: a state is sorted by them.

Equal keys have equal hashes. Different keys nearly always have different ones; a key of one plain number
is its own hash. Polars' hash is not used because it may differ between versions and processors, and these
hashes are kept in files.
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
_SCRAMBLE = (  # a bijection: the finalizer of splitmix64 (Steele, Lea, Flood 2014)
    (30, 0xBF58476D1CE4E5B9),
    (27, 0x94D049BB133111EB),
)
MEMBER = "_member"  # in a frame of a family: which of its operators a row belongs to (`family.py`)
_PORTION = 1 << 14  # words hashed at a time


def hash_keys(frame: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """Return the hash of each row's key; NULLs are equal, as are NaNs, and 0.0 and -0.0.

    >>> hash_keys(pl.DataFrame({"k": [7, 8]}), ["k"]).tolist()
    [7, 8]
    """
    total = np.zeros(frame.height, dtype=np.int64)
    for position, key in enumerate(key for key in keys if key != MEMBER):
        values = _hash_column(frame[key])
        total = values if position == 0 else _mix(total) + values
    return total + member_offsets(frame) if MEMBER in keys else total


def member_offsets(frame: pl.DataFrame) -> Ints:
    """Return what is added to the hash of a key for each row of a family: the hash alone is kept in files."""
    offsets: Ints = frame[MEMBER].to_numpy() * _MIX
    return offsets


def has_exact_hash(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Return whether different keys of this frame certainly have different hashes."""
    if not keys:
        return True
    if len(keys) > 1:
        return False
    key = frame.get_column(keys[0])
    return _is_plain(key.dtype) and not key.null_count()


def combine_hashes(parts: Sequence[Ints]) -> Ints:
    """Combine several columns of numbers to one hash."""
    total = parts[0]
    for part in parts[1:]:
        total = _mix(total) + part
    return total


def _is_plain(type_: pl.DataType) -> bool:
    return type_.is_integer() or type_.is_float() or type_.is_temporal() or type_ == pl.Boolean


def _mix(numbers: Ints) -> Ints:
    """Multiply and shift; a bijection, integers wrap."""
    numbers = numbers * _MIX
    return numbers ^ (numbers >> 29)


def _hash_column(values: pl.Series) -> Ints:
    present = values.is_not_null().to_numpy() if values.null_count() else None
    numbers = _hash_values(values)
    return numbers if present is None else np.where(present, numbers, _NULL)


def _hash_values(values: pl.Series) -> Ints:
    """Return the hashes of the values of a column; those of NULLs are arbitrary."""
    type_ = values.dtype
    if type_.is_float():
        return _normal_bits(values.fill_null(0.0).cast(pl.Float64).to_numpy())
    if isinstance(type_, pl.Decimal):
        halves = decimal_halves(values.fill_null(0))
        return _mix(halves[1]) + halves[0]
    if type_ in (pl.String, pl.Binary):
        return _hash_strings(values)
    if _is_plain(type_):
        # To ask for the physical form of integers takes Polars longer than all the rest.
        whole = values if type_.is_integer() else values.to_physical()
        whole = whole if type_ == pl.Int64 else whole.cast(pl.Int64, wrap_numerical=True)
        return (whole.fill_null(0) if whole.null_count() else whole).to_numpy()
    return np.zeros(len(values), dtype=np.int64)  # lists and the like: all but NULL are equal


def _normal_bits(values: Doubles) -> Ints:
    """Return the bits of doubles, with one NaN and one zero."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)


def to_ordered_bits(values: Doubles) -> Ints:
    """Return doubles as integers in the same order; there is one NaN, the greatest, and no -0.0.

    >>> np.argsort(to_ordered_bits(np.array([np.nan, 1.5, -2.0, np.inf, -np.inf, 0.0]))).tolist()
    [4, 2, 5, 1, 3, 0]
    """
    return _flip_negative(_normal_bits(values))


def has_fixed_codes(type_: pl.DataType) -> bool:
    """Return whether the code of a value in `to_ordered_codes` does not depend on the other values."""
    return _is_plain(type_) or (isinstance(type_, pl.Decimal) and type_.precision <= 18)


def to_ordered_codes(columns: Sequence[pl.Series]) -> list[Ints]:
    """Return the values of columns of one type, without NULLs, as integers in the same order."""
    type_ = columns[0].dtype
    if any(c.dtype != type_ for c in columns):
        raise TypeError(f"columns of different types have no order: {[c.dtype for c in columns]}")
    if type_.is_float():
        return [to_ordered_bits(c.cast(pl.Float64).to_numpy()) for c in columns]
    if has_fixed_codes(type_):
        return [c.to_physical().cast(pl.Int64).to_numpy() for c in columns]
    ranks = pl.concat([c.alias("") for c in columns]).rank("dense").cast(pl.Int64).to_numpy()
    return np.split(ranks, np.cumsum([len(c) for c in columns])[:-1])


def from_ordered_bits(codes: Ints) -> Doubles:
    """Return the doubles of integers from `to_ordered_bits`."""
    return _flip_negative(codes).view(np.float64)


def _flip_negative(bits: Ints) -> Ints:
    """Invert all bits but the sign of negative doubles, whose bits are in descending order."""
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def decimal_halves(values: pl.Series) -> tuple[Ints, Ints]:
    """Return the lower and upper 64 bits of 128-bit decimals."""
    array = values.to_arrow()
    both = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset :]
    both = both[: 2 * len(array)].reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _hash_strings(values: pl.Series) -> Ints:
    """Return the hashes of strings, from their length and all their bytes.

    The 8-byte words of a string are scrambled, each with its position in the string, and summed. Strings
    with the same number of words are hashed together, so that one long string does not pad the others.
    """
    array = values.cast(pl.Binary).fill_null(b"").to_arrow(compat_level=pl.CompatLevel.oldest())
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = _to_words(data, int(offsets[-1]))
    begins, lengths = offsets[:-1], np.diff(offsets)
    total = lengths * _MIX
    for rows, words in _by_number_of_words(lengths):
        total[rows] += _hash_words(text, begins[rows], lengths[rows], words)
    return total


def _by_number_of_words(lengths: Ints) -> Iterator[tuple[Ints, int]]:
    """Yield the rows of non-empty strings by number of words, in portions that fit into a CPU cache."""
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


def _hash_words(text: Words, begins: Ints, lengths: Ints, words: int) -> Ints:
    """Return the sum of the scrambled words of each string; all strings have `words` words."""
    within = np.arange(words)
    found = _read_words(text, (begins[:, None] + 8 * within).ravel()).view(np.uint64).reshape(-1, words)
    # Clear the bytes after the end of a string.
    after = ((8 * words - lengths) << 3).view(np.uint64)
    found[:, -1] = (found[:, -1] << after) >> after
    found += (within + 1).astype(np.uint64) * np.uint64(_MIX % 2**64)
    for shift, factor in _SCRAMBLE:
        found ^= found >> shift
        found *= factor
    found ^= found >> np.uint64(31)
    return (found.sum(axis=1) if words > 1 else found[:, 0]).view(np.int64)


def _to_words(data: Any, size: int) -> Words:
    """Return bytes as words, with two more at the end."""
    words = np.zeros(size // 8 + 3, dtype=np.uint64)
    if size:
        words.view(np.uint8)[:size] = np.frombuffer(data, dtype=np.uint8)[:size]
    return words


def _read_words(text: Words, at: Ints) -> Ints:
    """Return the 8 bytes at each offset."""
    shift = ((at & 7) << 3).view(np.uint64)
    index = at >> 3
    low, high = text[index], text[index + 1]
    both: Words = (low >> shift) | ((high << np.uint64(8)) << (np.uint64(56) - shift))
    return both.view(np.int64)
