"""Answers as text: aligned tables for people, JSON lines and CSV for programs.

Rows are printed as they are read; a table for people ends after MOST_ROWS rows.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import typer

from everview.errors import EverviewError, format_count, nearest
from everview.query.answers import AnswerColumn, FetchedAnswer, json_object

if TYPE_CHECKING:
    from everview.query.report import Report

OUTPUT_FORMATS = ("table", "json", "csv")
MOST_ROWS = 1_000  # of a table for people

# The text for NULL in the time columns of a change stream, by the position of the column.
ENDS = {"tags": {1: "-∞"}, "intervals": {0: "-∞", 1: "∞"}}

_CONTROLS = {c: repr(chr(c))[1:-1] for c in (*range(32), *range(127, 160), 0x2028, 0x2029)}


def load_output(format: str) -> None:
    """Import what is needed to print an answer before there is one: for tables that takes a while."""
    if format == "table":
        importlib.import_module("rich.console")


def require_format(format: str) -> str:
    """Return the format; raise EverviewError if it is not one of OUTPUT_FORMATS."""
    if format not in OUTPUT_FORMATS:
        raise EverviewError(
            f"an answer is not shown as '{format}'",
            meant=nearest(format, OUTPUT_FORMATS),
            choices=OUTPUT_FORMATS,
        )
    return format


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

    def write(self, answer: FetchedAnswer) -> None:
        """Print the rows of an answer."""
        self._write(answer.columns, answer.rows)
        self._out.flush()

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
        from rich.cells import cell_len
        from rich.console import Console
        from rich.text import Text

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


@contextmanager
def print_until_closed() -> Iterator[None]:
    """Ignore a closed standard output: `| head` is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


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
    from rich.cells import cell_len

    padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def most_rows(format: str) -> int | None:
    """Return how many rows of an answer are printed in a format; None if all are."""
    return MOST_ROWS if require_format(format) == "table" else None


def write_answer(
    answer: FetchedAnswer, format: str, out: IO[str], err: IO[str], ends: Mapping[int, str] | None = None
) -> None:
    """Print an answer; if it has more rows than were asked for, `err` gets a note."""
    Sheet(format, out, ends).write(answer)
    more = answer.count_left_out()
    if more:
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
