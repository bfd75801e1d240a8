"""Rows of an answer as Arrow IPC, in the forms in which they are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.ipc as arrow_ipc  # type: ignore[import-untyped]

from everview.query.answers import AnswerColumn

_INTEGERS = ("tinyint", "smallint", "int", "bigint", "timestamp", "timestamp_ntz")


def encode_rows(columns: Sequence[AnswerColumn], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return some rows of an answer as one batch.

    >>> columns = [AnswerColumn("n", "int"), AnswerColumn("at", "timestamp"), AnswerColumn("n", "string")]
    >>> list(decode_rows(encode_rows(columns, [(1, 2**62, "a"), (None, None, None)])))
    [(1, 4611686018427387904, 'a'), (None, None, None)]
    """
    types = [_arrow_type(column) for column in columns]
    arrays = [pa.array([row[i] for row in rows], type) for i, type in enumerate(types)]
    # Without columns a batch would not know how many rows it has.
    length = pa.nulls(len(rows))
    batch = pa.record_batch([*arrays, length], names=[*map(str, range(len(arrays))), "length"])
    sink = pa.BufferOutputStream()
    with arrow_ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def decode_rows(data: bytes) -> Iterator[Sequence[Any]]:
    """Yield the rows of a batch.

    >>> fields = AnswerColumn("a", "int"), AnswerColumn("a", "string")
    >>> old = AnswerColumn("old", "struct<a:int,a:string>", fields)
    >>> list(decode_rows(encode_rows([old], [((1, "x"),), (None,)])))
    [((1, 'x'),), (None,)]
    """
    with arrow_ipc.open_stream(data) as stream:
        for batch in stream:
            columns = [column.to_pylist() for column in batch.columns[:-1]]
            for place in range(batch.num_rows):
                yield tuple(_fetched_form(column[place]) for column in columns)


def _arrow_type(column: AnswerColumn) -> Any:
    if column.fields:
        return pa.struct([(str(i), _arrow_type(field)) for i, field in enumerate(column.fields)])
    if column.type in _INTEGERS:
        return pa.int64()
    return {"double": pa.float64(), "boolean": pa.bool_()}.get(column.type, pa.string())


def _fetched_form(value: Any) -> Any:
    """Return a value as Spark's driver yields it: a struct as a tuple."""
    return tuple(map(_fetched_form, value.values())) if isinstance(value, dict) else value
