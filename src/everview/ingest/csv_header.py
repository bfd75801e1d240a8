"""The headers of CSV files: each file's texts in the order of the declared columns, found by name.

A task sees the records of a file in their order, and its header first. Only where a big file is read in
parts (`multiLine => false`) does a task look into the file itself for the header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator

from everview.execute.spark_errors import file_name
from everview.ingest.differences import ColumnDifference, find_differences
from everview.ingest.reading import BLOCK, FILE, FILE_POSITION, encoding_of

RECORD = "_everview_record"  # a record as it stands in the file
FIELD_COUNT = "_everview_width"  # how many columns it must have
REFUSED = "_everview_refused"  # why all rows of a file are refused
# A marker for "" in quotes: an empty text, whereas an empty field is NULL.
EMPTY = "\u0001\u0002"

_HEADER_BYTES = 1 << 20


def text_column(position: int) -> str:
    """Return the name of the column with the text at a position."""
    return f"_everview_text{position}"


@dataclass(frozen=True)
class Dialect:
    """The syntax of records: separator, quote, and the escape character of a quote in quotes."""

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    encoding: str = "UTF-8"
    trims: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Dialect:
        """Return the dialect that the options of a source describe.

        >>> Dialect.of({"sep": "\\\\t"}).separator == chr(9)
        True
        """
        separator = options.get("sep", options.get("delimiter", ","))
        for written, sign in (("\\t", "\t"), ("\\\\", "\\"), ("\\u0001", "\u0001"), ("\\0", "\0")):
            separator = sign if separator == written else separator
        quote = options.get("quote", '"')
        trims = options.get("ignoreleadingwhitespace", "false").casefold() == "true"
        escape = options.get("escape", quote or '"')
        return cls(separator, quote, escape, options.get("comment", ""), encoding_of(options), trims)

    @cached_property
    def quoted(self) -> str:
        """A pattern of Java for a quoted field and the separator before it.

        It is possessive (`*+`): otherwise Java needs a deep stack for long fields.
        """
        return f"(^|{re.escape(self.separator)}){self._body('*+')}"

    @property
    def odd(self) -> str:
        """A pattern of Java for what a field may hold only in quotes."""
        signs = "|".join(re.escape(sign) for sign in (self.separator, self.quote, self.escape) if sign)
        return f"{signs}|[\\r\\n]|^\\s|\\s$"

    def _body(self, repeat: str = "*") -> str:
        """Return a pattern for a quoted field."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        blanks = r"[ \t]*" if self.trims else ""
        if self.quote == self.escape:
            return f"{blanks}{quote}[^{quote}]*(?:{quote}{quote}[^{quote}]*){repeat}{quote}"
        plain = f"[^{quote}{escape}]*"
        return f"{blanks}{quote}{plain}(?:{escape}[\\s\\S]{plain}){repeat}{quote}"

    @cached_property
    def field(self) -> str:
        """A pattern for a field with the separator before it, for separators of one character.

        It is for a record with a separator before its first field too: no match is empty, for engines of
        regular expressions go on differently after an empty one.
        """
        separator = re.escape(self.separator)
        rest = f"[^{separator}]*"
        return f"{separator}(?:{self._body()}{rest}|{rest})" if self.quote else f"{separator}{rest}"

    def split(self, record: str) -> list[str]:
        """Return the fields of one record, as texts.

        >>> Dialect().split('a,"b, ""c"" d",,e')
        ['a', 'b, "c" d', '', 'e']
        """
        if len(self.separator) > 1:
            return record.split(self.separator)
        found = re.findall(self.field, self.separator + record)
        return [self._unquoted(field.removeprefix(self.separator)) for field in found]

    def _unquoted(self, field: str) -> str:
        text = field.strip(" \t") if self.trims else field
        if self.quote and len(text) > 1 and text[0] == text[-1] == self.quote:
            return text[1:-1].replace(self.escape + self.quote, self.quote)
        return text


@dataclass(frozen=True)
class Placement:
    """The positions of the declared columns in a file, and the reason if all its rows are refused."""

    positions: tuple[int | None, ...]
    width: int
    refused: str | None = None

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        names: Sequence[str],
        required: frozenset[str],
        file: str,
        strict: int | None = None,
    ) -> Placement:
        """Find columns by exact name, else ignoring case; only the first `strict` must not be there twice.

        >>> Placement.of(["V", "k", "more"], ["k", "v", "w"], frozenset(), "a.csv")
        Placement(positions=(1, 0, None), width=3, refused=None)
        >>> Placement.of(["k", "t"], ["k", "ts"], frozenset({"ts"}), "a.csv").refused
        'ts: a.csv has no such column'
        >>> Placement.of(["K", "K", "t"], ["k"], frozenset(), "a.csv").refused
        'k: a.csv has 2 columns of this name'
        >>> Placement.of(["t", "T", "k"], ["k", "t"], frozenset(), "a.csv").positions
        (2, 0)
        """
        there = [name.strip() for name in header]
        positions: list[int | None] = []
        refused: str | None = None
        for i, name in enumerate(names):
            exact = [place for place, n in enumerate(there) if n == name]
            found = exact or [place for place, n in enumerate(there) if n.casefold() == name.casefold()]
            if len(found) > 1 and strict is not None and i >= strict:
                found = []
            if len(found) > 1:
                refused = refused or f"{name}: {file} has {len(found)} columns of this name"
            if not found and name in required:
                refused = refused or f"{name}: {file} has no such column"
            positions.append(found[0] if found else None)
        return cls(tuple(positions), len(there), refused)


@dataclass(frozen=True)
class HeaderTask:
    """A task that puts the texts of each file in the order of the declared columns and drops the headers."""

    names: tuple[str, ...]
    required: frozenset[str]
    dialect: Dialect
    wide: int
    keeps: tuple[str, ...] = ()  # further columns that pass through unchanged
    stream: str = ""
    found_columns: Accumulator[frozenset[ColumnDifference]] | None = None
    strict: int | None = None  # how many columns must be there once

    @property
    def schema(self) -> str:
        """The output: the texts, the record, how many columns it must have, why its file is refused."""
        texts = [f"{text_column(i)} STRING" for i in range(len(self.names))]
        kept = [f"{name} {FILE_POSITION[name]}" for name in self.keeps]
        return ", ".join([*texts, f"{RECORD} STRING", f"{FIELD_COUNT} INT", f"{REFUSED} STRING", *kept])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file, placement = None, None
        for batch in batches:
            if not batch.num_rows:
                continue
            begin = 0
            runs = pc.run_end_encode(batch.column(FILE))
            for path, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                part, begin = batch.slice(begin, end - begin), end
                if path != file:
                    file = path
                    header, part = self._header(part, path)
                    placement = Placement.of(header, self.names, self.required, file_name(path), self.strict)
                    if self.found_columns is not None:
                        self.found_columns.add(find_differences(self.stream, header, self.names))
                if part.num_rows:
                    assert placement is not None
                    yield self._placed(part, placement)

    def _header(self, part: pa.RecordBatch, path: str) -> tuple[list[str], pa.RecordBatch]:
        """Return the header of a file, and the records after it."""
        if part.column(BLOCK)[0].as_py() > 0:
            return header_in_file(path, self.dialect), part
        return self.dialect.split(part.column(RECORD)[0].as_py()), part.slice(1)

    def _placed(self, part: pa.RecordBatch, placement: Placement) -> pa.RecordBatch:
        records = part.column(RECORD)
        columns = [self._texts(part, records, position) for position in placement.positions]
        width = pa.repeat(pa.scalar(placement.width, pa.int32()), part.num_rows)
        refused = pa.repeat(pa.scalar(placement.refused, pa.string()), part.num_rows)
        names = [*(text_column(i) for i in range(len(columns))), RECORD, FIELD_COUNT, REFUSED, *self.keeps]
        kept = map(part.column, self.keeps)
        return pa.RecordBatch.from_arrays([*columns, records, width, refused, *kept], names=names)

    def _texts(self, part: pa.RecordBatch, records: pa.Array, position: int | None) -> pa.Array:
        if position is None:
            return pa.nulls(part.num_rows, pa.string())
        if position < self.wide:
            return part.column(text_column(position))
        return self._far(records, position)

    def _far(self, records: pa.Array, position: int) -> pa.Array:
        """Return the texts at a position beyond those that Spark reads: the file has many more columns."""
        record = pl.lit(self.dialect.separator) + pl.col("r")
        field = record.str.extract_all(self.dialect.field).list.get(position, null_on_oob=True)
        text = field.str.strip_prefix(self.dialect.separator)
        quote = self.dialect.quote
        if quote:
            inside = text.str.strip_prefix(quote).str.strip_suffix(quote)
            inside = inside.str.replace_all(self.dialect.escape + quote, quote, literal=True)
            inside = pl.when(inside == "").then(pl.lit(EMPTY)).otherwise(inside)
            text = pl.when(text.str.starts_with(quote)).then(inside).otherwise(text)
        frame = pl.DataFrame({"r": pl.Series(pl.from_arrow(records))})
        shown = frame.select(pl.when(text != "").then(text)).to_series()
        return shown.to_arrow().cast(pa.string())


def header_in_file(path: str, dialect: Dialect) -> list[str]:
    """Return the header at the beginning of a file, for a task that reads a later part of it."""
    if path.startswith("file:"):
        filesystem, name = arrow_fs.LocalFileSystem(), file_name(path)
    else:
        filesystem, name = arrow_fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    with filesystem.open_input_stream(name) as stream:
        text = stream.read(_HEADER_BYTES).decode(dialect.encoding, errors="replace").removeprefix("\ufeff")
    lines = (line for line in re.split(r"\r\n|\r|\n", text) if line.strip())
    shown = (line for line in lines if not (dialect.comment and line.startswith(dialect.comment)))
    return dialect.split(next(shown, ""))
