"""Frames as Arrow files: how they are written to a local folder or elsewhere, and read."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.ipc as arrow_ipc  # type: ignore[import-untyped]

from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl


def encode_frame(frame: Frame, local: bool) -> memoryview:
    """Return a frame as an Arrow file, as it is written to a local folder or elsewhere."""
    if has_fixed_width(frame):
        table = frame.rechunk().to_arrow()  # one batch: its readers search it as a whole
        sink = pa.BufferOutputStream()
        with arrow_ipc.new_file(sink, table.schema, options=_write_options(local)) as writer:
            writer.write_table(table)
        return memoryview(sink.getvalue())
    # Polars takes longer, but writes of a few strings out of many only those.
    buffer = io.BytesIO()
    compression: Literal["uncompressed", "lz4"] = "uncompressed" if local else "lz4"
    frame.rechunk().write_ipc(buffer, compression=compression, record_batch_size=max(frame.height, 1))
    return buffer.getbuffer()


def encode_batch(batch: pa.RecordBatch, local: bool) -> memoryview:
    """Return a batch of columns of fixed width as `encode_frame` does."""
    sink = pa.BufferOutputStream()
    with arrow_ipc.new_file(sink, batch.schema, options=_write_options(local)) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def has_fixed_width(frame: Frame) -> bool:
    """Return whether all values of each column have the same width, and pyarrow knows them."""
    return all(map(_is_fixed, frame.dtypes))


def encode_parts(parts: Sequence[Frame], local: bool) -> memoryview:
    """Return frames of the same columns as one Arrow file, a batch for each."""
    tables = [part.rechunk().to_arrow() for part in parts]
    sink = pa.BufferOutputStream()
    with arrow_ipc.new_file(sink, tables[0].schema, options=_write_options(local)) as writer:
        for table in tables:
            batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
            writer.write_batch(batches[0])
    return memoryview(sink.getvalue())


@functools.cache
def _write_options(local: bool) -> Any:
    return arrow_ipc.IpcWriteOptions(compression=None if local else "lz4")


@functools.cache
def _is_fixed(type_: pl.DataType) -> bool:
    """Return whether all values of a type have the same width, and pyarrow knows it."""
    plain = type_.is_numeric() or type_.is_temporal() or type_ == pl.Boolean
    return plain and type_ not in (pl.Int128, pl.UInt128)


def decode_frame(data: Any, columns: set[str] | None) -> Frame:
    """Return the columns of an Arrow file, without a copy of what is not compressed."""
    try:
        reader = arrow_ipc.open_file(data)
    except pa.ArrowNotImplementedError:  # pyarrow does not know the 128-bit integers of Polars
        frame = pl.read_ipc(data.to_pybytes())
        return frame if columns is None else frame.select(c for c in frame.columns if c in columns)
    if columns is not None:
        places = [i for i, name in enumerate(reader.schema.names) if name in columns]
        reader = arrow_ipc.open_file(data, options=arrow_ipc.IpcReadOptions(included_fields=places))
    table = reader.read_all()
    table.validate()
    return pl.DataFrame(ArrowStream(table))


@dataclass(frozen=True)
class ArrowStream:
    """A table or a batch by its C interface alone: `pl.from_arrow` does the same in four times the time."""

    table: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
