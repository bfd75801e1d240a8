"""Answers as text: aligned tables for people, JSON lines and CSV for programs.

Timestamps are read as microseconds, never as Python's, which have neither ∞ nor the year 10000. Rows are
streamed; a table for people ends after MOST_ROWS rows.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from everview.algebra.time import format_timestamp
from everview.database import explain_query_failures
from everview.errors import EverviewError, format_count, nearest
from everview.query import Report

if TYPE_CHECKING:
    from everview.database import DataFrame

OUTPUT_FORMATS = ("table", "json", "csv")
MOST_ROWS = 1_000  # of a table for people

# The text for NULL in the time columns of a change stream, by the position of the column.
ENDS = {"tags": {1: "-∞"}, "intervals": {0: "-∞", 1: "∞"}}

_FINITE = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?")
_CONTROLS = {c: repr(chr(c))[1:-1] for c in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_AS_TEXT = ("date", "float", "decimal", "void")


def require_format(format: str) -> str:
    """Return the format; raise EverviewError if it is not one of OUTPUT_FORMATS."""
    if format not in OUTPUT_FORMATS:
        raise EverviewError(
            f"an answer is not shown as '{format}'",
            meant=nearest(format, OUTPUT_FORMATS),
            choices=OUTPUT_FORMATS,
        )
    return format


@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer: how it is fetched from Spark, and how a fetched value is printed."""

    name: str
    type: str
    fields: tuple[AnswerColumn, ...] = ()

    @classmethod
    def of(cls, field: Any) -> AnswerColumn:
        below = tuple(map(cls.of, field.dataType.fields)) if field.dataType.typeName() == "struct" else ()
        return cls(field.name, field.dataType.simpleString(), below)

    def fetched(self, sql: str) -> str:
        """Return the SQL expression that yields the column's value in a form that Python can represent."""
        if self.fields:
            # By position: two fields, or a field and a reserved word, may have the same name.
            types = ",".join(f"f{i}:{f.type}" for i, f in enumerate(self.fields))
            parts = ", ".join(f.fetched(f"s.f{i}") for i, f in enumerate(self.fields))
            known = f"array(CAST({sql} AS STRUCT<{types}>))"
            return f"transform({known}, s -> IF(s IS NULL, NULL, struct({parts})))[0]"
        if self.type.startswith("timestamp"):
            return f"unix_micros(CAST({sql} AS TIMESTAMP))"
        if self.type == "binary":
            return f"hex({sql})"
        return f"CAST({sql} AS STRING)" if self.type.startswith((*_AS_TEXT, "interval")) else sql

    def json(self, value: Any) -> str:
        """Return a value as JSON; a number that JSON does not have is a string."""
        if value is None:
            return "null"
        if self.fields:
            return json_object(self.fields, value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.type.startswith("timestamp"):
            return json.dumps(format_timestamp(value), ensure_ascii=False)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'"{_number(value)}"'
        if self.type.startswith(("float", "decimal")) and _FINITE.fullmatch(value):
            return str(value)
        return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)

    def text(self, value: Any) -> str:
        """Return a value that is not NULL as text for a table or CSV."""
        if self.fields or isinstance(value, bool):
            return self.json(value)
        if self.type.startswith("timestamp"):
            return format_timestamp(value)
        return _number(value) if isinstance(value, float) else str(value)


def json_object(columns: Sequence[AnswerColumn], values: Sequence[Any]) -> str:
    """Return a row as a JSON object on one line."""
    pairs = zip(columns, values, strict=True)
    return "{" + ", ".join(f"{json.dumps(c.name, ensure_ascii=False)}: {c.json(v)}" for c, v in pairs) + "}"


def _number(value: float) -> str:
    """
    >>> _number(19.805), _number(float("-inf")), _number(float("nan"))
    ('19.805', '-Infinity', 'NaN')
    """
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class Sheet:
    """A printer of several answers in one format, with one header.

    A table with a title is not printed before it has a row.
    """

    def __init__(
        self, format: str, out: IO[str], ends: Mapping[int, str] | None = None, title: str | None = None
    ) -> None:
        self._format = require_format(format)
        self._title = title
        self._out = out
        self._ends = ends or {}
        self._begun = False
        self._widths: list[int] = []

    def write(self, frame: DataFrame, most: int | None = None) -> bool:
        """Print the rows of a frame, or the first ones up to a limit; return whether there are more."""
        with explain_query_failures():
            columns = [AnswerColumn.of(f) for f in frame.schema.fields]
        rows = _rows(frame if most is None else frame.limit(most + 1), columns)
        self._write(columns, rows if most is None else islice(rows, most))
        self._out.flush()
        return most is not None and next(rows, None) is not None

    def _write(self, columns: Sequence[AnswerColumn], rows: Iterator[Sequence[Any]]) -> None:
        match self._format:
            case "json":
                for row in rows:
                    self._out.write(json_object(columns, row) + "\n")
            case "csv":
                writer = csv.writer(self._out, lineterminator="\n")
                if not self._begun:
                    writer.writerow([c.name for c in columns])
                for row in rows:
                    pairs = zip(columns, row, strict=True)
                    writer.writerow(["" if v is None else c.text(v) for c, v in pairs])
            case _:
                while part := list(islice(rows, MOST_ROWS)):
                    self._lines(columns, part)
                if not self._begun and self._title is None:
                    self._lines(columns, [])
                return
        self._begun = True

    def _lines(self, columns: Sequence[AnswerColumn], rows: Sequence[Sequence[Any]]) -> None:
        """Return some rows of a table as lines; a column never gets narrower than before."""
        cells = [[self._cell(i, c, row[i]) for i, c in enumerate(columns)] for row in rows]
        header = [printable(c.name) for c in columns]
        before = self._widths or [0] * len(columns)
        texts = zip(header, *cells, strict=True)
        self._widths = [max(w, *map(cell_len, column)) for w, column in zip(before, texts, strict=True)]
        console = Console(file=self._out, highlight=False)
        if not self._begun:
            if self._title is not None:
                console.print(Text(f"{self._title}:"))
            console.print(Text(align_cells(header, self._widths), style="bold"), soft_wrap=True)
            self._begun = True
        for line in cells:
            console.print(Text(align_cells(line, self._widths)), soft_wrap=True)

    def _cell(self, place: int, column: AnswerColumn, value: Any) -> str:
        return self._ends.get(place, "NULL") if value is None else printable(column.text(value))


def _rows(frame: DataFrame, columns: Sequence[AnswerColumn]) -> Iterator[Sequence[Any]]:
    """Yield the values of a frame row by row; columns are addressed by position, as names may repeat."""
    names = [f"c{i}" for i in range(len(columns))]
    fetched = [f"{c.fetched(n)} AS {n}" for c, n in zip(columns, names, strict=True)]
    with (
        explain_query_failures()
    ):  # around the reading alone: a consumer that stops early is no failure of Spark
        yield from frame.toDF(*names).selectExpr(*fetched).toLocalIterator()


def printable(text: str) -> str:
    r"""Return text without characters that would move the cursor or break the line.

    >>> print(printable("two\nlines\x1b[31m"))
    two\nlines\x1b[31m
    """
    return text.translate(_CONTROLS)


def align_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return one line of a table.

    >>> align_cells(["a", "b"], [3, 5])
    'a    b'
    """
    padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def write_answer(
    frame: DataFrame, format: str, out: IO[str], err: IO[str], ends: Mapping[int, str] | None = None
) -> None:
    """Print an answer; a table ends after MOST_ROWS rows, and `err` gets a note that there are more."""
    if format != "table":
        Sheet(format, out, ends).write(frame)
    elif Sheet(format, out, ends).write(frame, MOST_ROWS):
        more = frame.count() - MOST_ROWS
        print(f"… and {format_count(more, 'more row')}; --format json or csv has all", file=err)


def write_report(report: Report, format: str, out: IO[str]) -> None:
    """Print a report: its text for people, its records for programs."""
    match require_format(format):
        case "json":
            for record in report.records:
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
        case "csv":
            writer = csv.writer(out, lineterminator="\n")
            for place, row in enumerate(report.rows):
                if not place:
                    writer.writerow(row)
                writer.writerow(["" if value is None else value for value in row.values()])
        case _:
            out.write(f"{report}\n")
