"""An answer: its columns, and its rows as they are fetched, one after the other.

Timestamps are fetched as microseconds, never as Python's, which have neither ∞ nor the year 10000.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from everview.algebra.time import format_timestamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FINITE = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?")
_AS_TEXT = ("date", "float", "decimal", "void")


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
    """Return a number as JSON, or its name if JSON has no such number.

    >>> _number(19.805), _number(float("-inf")), _number(float("nan"))
    ('19.805', '-Infinity', 'NaN')
    """
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@dataclass(frozen=True)
class FetchedAnswer:
    """The rows of an answer up to a limit, to be read once; and then, how many there are beyond it."""

    columns: Sequence[AnswerColumn]
    rows: Iterator[Sequence[Any]]
    count_left_out: Callable[[], int]


def fetch_answer(frame: DataFrame, most: int | None = None) -> FetchedAnswer:
    """Return the answer that a frame is, with at most so many rows. They are fetched as they are read."""
    from everview.execute.failures import explained_failures

    doing = "the answer could not be computed"
    with explained_failures(doing=doing):
        columns = [AnswerColumn.of(f) for f in frame.schema.fields]

    def fetch() -> Iterator[Sequence[Any]]:
        # Columns are addressed by position, as names may repeat.
        names = [f"c{i}" for i in range(len(columns))]
        fetched = [f"{c.fetched(n)} AS {n}" for c, n in zip(columns, names, strict=True)]
        limited = frame if most is None else frame.limit(most + 1)
        with explained_failures(doing=doing):  # around the reading alone: to stop early is no failure
            yield from limited.toDF(*names).selectExpr(*fetched).toLocalIterator()

    rows = fetch()

    def count_left_out() -> int:
        if most is None or next(rows, None) is None:
            return 0
        with explained_failures(doing=doing):
            return frame.count() - most

    return FetchedAnswer(columns, rows if most is None else islice(rows, most), count_left_out)
