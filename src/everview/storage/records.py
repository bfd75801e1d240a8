"""Records as JSON, by msgspec: typed, and with an error that says where a record is wrong."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

_Record = TypeVar("_Record")


def encode_record(record: object) -> bytes:
    """Return a record as JSON.

    >>> decode_record(encode_record({"a": (1, 2)}), dict[str, tuple[int, int]])
    {'a': (1, 2)}
    >>> decode_record(encode_record({"a\\ud800": 1}), dict[str, int]) == {"a\\ud800": 1}
    True
    """
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:  # a lone surrogate in a name, which msgspec does not write
        return json.dumps(msgspec.to_builtins(record)).encode()


def decode_record(data: bytes | str | msgspec.Raw, type_: type[_Record]) -> _Record:
    """Return the record that `encode_record` wrote; ValueError if it is none of this type.

    >>> decode_record(b'{"a": "x"}', dict[str, int])
    Traceback (most recent call last):
    msgspec.ValidationError: Expected `int`, got `str` - at `$[...]`
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a lone surrogate, or no JSON: the standard library tells which
        text = data if isinstance(data, str) else bytes(memoryview(data)).decode()
        return msgspec.convert(json.loads(text), type_)
