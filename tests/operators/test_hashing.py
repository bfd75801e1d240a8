"""The numbers of strings: all bytes count, and nothing but the bytes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.operators.columnar.hashing import hash_keys

_MASK = 2**64 - 1
_NULL = 0x5851F42D4C957F2D


def numbers(values: pl.Series) -> list[int]:
    return hash_keys(values.alias("v").to_frame(), ["v"]).tolist()


def by_definition(text: bytes) -> int:
    """The number of one string, word by word."""
    golden = 0x9E3779B97F4A7C15
    total = len(text) * golden
    for place in range(0, len(text), 8):
        word = int.from_bytes(text[place : place + 8], "little") + (place // 8 + 1) * golden & _MASK
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = (word ^ word >> shift) * factor & _MASK
        total += word ^ word >> 31
    return ((total & _MASK) ^ 1 << 63) - (1 << 63)


@given(
    st.lists(
        st.none() | st.binary(max_size=40) | st.sampled_from([b"\0", b"x" * 300, b"x" * 299]), max_size=9
    )
)
def test_the_number_is_that_of_the_definition_whatever_lies_beside(values: list[bytes | None]) -> None:
    column = pl.Series(values, dtype=pl.Binary)
    expected = [_NULL if v is None else by_definition(v) for v in values]
    assert numbers(column) == expected
    assert numbers(column.reverse()) == expected[::-1]
    for cut in range(len(values) + 1):
        assert numbers(column[cut:]) == expected[cut:]
        assert numbers(pl.concat([column[:cut], column[cut:]], rechunk=False)) == expected


@given(st.lists(st.none() | st.text(max_size=30), max_size=9))
def test_text_has_the_number_of_its_bytes(values: list[str | None]) -> None:
    column = pl.Series(values, dtype=pl.String)
    assert numbers(column) == numbers(column.cast(pl.Binary))
    for i, j in np.ndindex(len(values), len(values)):
        assert (values[i] == values[j]) == (numbers(column)[i] == numbers(column)[j])


def test_a_string_longer_than_a_portion() -> None:
    text = bytes(range(251)) * 3000
    beside = pl.Series([b"a", text, text[:-1], b"", text])
    assert numbers(beside) == [by_definition(v) for v in beside]


def _changed_at_each_place(size: int) -> Iterable[str]:
    """Long common prefixes and suffixes."""
    for place in range(size):
        for letter in "bcdefgh":
            yield "a" * place + letter + "a" * (size - place - 1)


FAMILIES = {
    "numbers after a long common prefix": [f"{'https://example.org/' * 4}{i:017d}" for i in range(4000)],
    "numbers before a long common suffix": [f"{i:017d}{'/index.html' * 8}" for i in range(4000)],
    "numbers in the middle": [f"{'x' * 50}{i:06d}{'y' * 50}" for i in range(4000)],
    "one letter changed": list(_changed_at_each_place(200)),
    "the same letter, more often": ["a" * i for i in range(2000)],
    "zero bytes at the end": ["a" + "\0" * i for i in range(2000)],
    "the same words in another order": [
        f"{a:08d}{b:08d}{c:08d}" for a in range(20) for b in range(20) for c in range(20)
    ],
    "what one word gains the next one loses": [
        f"{5000 + d:08d}{5000 - d:08d}{'z' * 81}" for d in range(4000)
    ],
    "two bits far apart": [
        f"{'p' * i}A{'p' * (40 - i)}{'p' * j}A{'p' * (40 - j)}" for i in range(41) for j in range(41)
    ],
    "few different bytes": [f"{i:020b}" * 5 for i in range(8000)],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_strings_that_are_much_alike_have_different_numbers(family: str) -> None:
    """A join whose keys had one number would look at all pairs."""
    texts = FAMILIES[family]
    assert len(set(texts)) == len(texts)
    found = np.array(numbers(pl.Series(texts)))
    assert len(np.unique(found)) == len(texts)
    # So have the lower and the upper halves, as nearly as chance has it.
    for half in (found & 0xFFFFFFFF, found >> 32):
        assert len(np.unique(half)) >= len(texts) - 20


def test_keys_of_several_strings() -> None:
    texts = [f"{'https://example.org/' * 4}{i:05d}" for i in range(300)]
    frame = pl.DataFrame({"a": texts}).join(pl.DataFrame({"b": texts}), how="cross")
    assert len(np.unique(hash_keys(frame, ["a", "b"]))) == frame.height
