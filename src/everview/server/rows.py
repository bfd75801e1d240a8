"""Rows of an answer as MessagePack, in the forms in which they are fetched.

A client decodes them without a library of tables, which would take longer to import than the answer takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

_DECODER = msgspec.msgpack.Decoder(list[list[Any]])


def encode_rows(rows: Sequence[Sequence[Any]]) -> bytes:
    """Return some rows of an answer as bytes.

    >>> list(decode_rows(encode_rows([(1, 2**62, "a", 0.5), (None, None, None, float("inf"))])))
    [(1, 4611686018427387904, 'a', 0.5), (None, None, None, inf)]
    """
    return msgspec.msgpack.encode(rows)


def decode_rows(data: bytes) -> Iterator[Sequence[Any]]:
    """Yield the rows; a struct is a tuple, as Spark's driver yields it.

    >>> list(decode_rows(encode_rows([((1, "x"),), (None,)])))
    [((1, 'x'),), (None,)]
    """
    for row in _DECODER.decode(data):
        yield tuple(map(_fetched_form, row))


def _fetched_form(value: Any) -> Any:
    return tuple(map(_fetched_form, value)) if isinstance(value, list) else value
