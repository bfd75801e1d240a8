"""CHECK, PUNCTUATE WHEN, ARRIVAL and computed columns: what happens to a row of a stream when it is taken in.

Columns are computed, the conditions of CHECK and PUNCTUATE WHEN are tested, and the clock stamps the columns
that are ARRIVAL: all rows of a step, or of an INSERT, with one reading of it.
Catalyst evaluates them in the plan that reads a source, and over tables that are inserted. Rows that come as
values of Python, in VALUES or as dicts and tuples, are tested by the plain meaning of the expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra.changes import Record
from everview.algebra.evaluate import evaluate, holds
from everview.algebra.expressions import Column, Expression, Not, substitute
from everview.algebra.schema import Field, Schema
from everview.algebra.text import string_sql
from everview.algebra.types import BOOLEAN, STRING, TIMESTAMP
from everview.catalog import FedEntry, StreamEntry
from everview.execute.catalyst import null_sql, spark_type
from everview.execute.evaluable import require_stream_conditions
from everview.execute.guards import catalyst_sql
from everview.ingest.bounds import arrival_time
from everview.ingest.reading import PUNCTUATES, REASON, case_sql, required_columns
from everview.operators.base import column
from everview.operators.columnar.frame import FROM, Frame
from everview.operators.columnar.types import frame_type, series_of
from everview.sql import check_conditions, computed_columns, punctuation_condition
from everview.storage.manifest import Manifest


@dataclass(frozen=True)
class StreamConditions:
    """The conditions of a stream over c0, c1, …: each CHECK by the words for it, and PUNCTUATE WHEN."""

    checks: tuple[tuple[str, Expression], ...] = ()
    punctuation: Expression | None = None

    @classmethod
    def of(cls, entry: FedEntry) -> StreamConditions:
        """Return the conditions of a stream; a table has none."""
        return _conditions_of(entry) if isinstance(entry, StreamEntry) else cls()

    def __bool__(self) -> bool:
        return bool(self.checks) or self.punctuation is not None

    def by_clause(self) -> dict[str, Expression]:
        """Return the conditions by the clauses as they are written."""
        found = dict(self.checks)
        return found if self.punctuation is None else {**found, "PUNCTUATE WHEN": self.punctuation}

    def reason_sql(self) -> str:
        """Return the reason for a row for which a CHECK is false, as SQL; NULL passes, as in standard SQL."""
        return case_sql(
            f"WHEN {catalyst_sql(Not(condition))} THEN {string_sql(_failed(clause))}"
            for clause, condition in self.checks
        )

    def columns_sql(self, reason: str) -> list[str]:
        """Return the columns REASON and PUNCTUATES, where `reason` is why rows are refused already."""
        found = [f"coalesce({reason}, {self.reason_sql()}) AS {REASON}"]
        if self.punctuation is not None:
            found.append(f"coalesce({catalyst_sql(self.punctuation)}, false) AS {PUNCTUATES}")
        return found

    def why_refused(self, record: Record, columns: Schema) -> str | None:
        """Return the reason for a row for which a CHECK is false; None if there is none."""
        return next((_failed(c) for c, e in self.checks if evaluate(e, columns, record) is False), None)


@lru_cache(maxsize=256)
def _conditions_of(entry: StreamEntry) -> StreamConditions:
    own = _by_place(entry)
    when = punctuation_condition(entry)
    return StreamConditions(
        tuple(
            (f"CHECK ({' '.join(text.split())})", substitute(condition, own))
            for text, condition in zip(entry.checks, check_conditions(entry), strict=True)
        ),
        None if when is None else substitute(when, own),
    )


def _by_place(entry: StreamEntry) -> dict[Expression, Expression]:
    """Return the columns of a stream, each with the column c0, c1, … that holds its values."""
    return {
        Column(f.name, f.type, entry.name): Column(column(i), f.type) for i, f in enumerate(entry.columns)
    }


def _failed(clause: str) -> str:
    return f"{clause} does not hold"


def require_evaluable_conditions(session: SparkSession, entry: FedEntry) -> None:
    """Refuse a stream with a condition or a computed column that Spark does not accept. No job runs."""
    if isinstance(entry, StreamEntry):
        names = (f"{name} AS ({' '.join(text.split())})" for name, text in entry.computed)
        computed = dict(zip(names, _computed_by_place(entry).values(), strict=True))
        require_stream_conditions(session, entry, computed | StreamConditions.of(entry).by_clause())


def with_conditions(frame: DataFrame, entry: FedEntry) -> DataFrame:
    """Return rows of a source with the reason for those for which a CHECK is false, and PUNCTUATES."""
    found = StreamConditions.of(entry)
    if not found:
        return frame
    require_evaluable_conditions(frame.sparkSession, entry)
    others = [name for name in frame.columns if name != REASON]
    return frame.selectExpr(*others, *found.columns_sql(REASON))


def with_made_columns(frame: DataFrame, entry: FedEntry) -> DataFrame:
    """Return the rows of a source with the columns that it does not give: computed, or stamped by the clock.

    Those that are stamped are NULL so far.
    """
    if not isinstance(entry, StreamEntry) or not entry.made:
        return frame
    given = (column(i) for i in range(len(entry.columns)))
    own = [
        f"{null_sql(f.type) if f.name in entry.made else next(given)} AS {column(i)}"
        for i, f in enumerate(entry.columns)
    ]
    there = {column(i) for i in range(len(entry.columns) - len(entry.made))}
    return with_computed_columns(
        frame.selectExpr(*own, *(name for name in frame.columns if name not in there)), entry
    )


def with_computed_columns(frame: DataFrame, entry: FedEntry) -> DataFrame:
    """Return rows with the values of the computed columns, and the reason where one must have a value."""
    if not isinstance(entry, StreamEntry) or not entry.computed:
        return frame
    require_evaluable_conditions(frame.sparkSession, entry)
    computed = {c: catalyst_sql(e) for c, e in _computed_by_place(entry).items()}
    frame = frame.selectExpr(*(f"{computed.get(name, name)} AS {name}" for name in frame.columns))
    names = entry.columns.names
    needed = {n: why for n, why in required_columns(entry).items() if n in dict(entry.computed)}
    cases = [
        f"WHEN {column(names.index(n))} IS NULL THEN {string_sql(f'{n}: {why}')}" for n, why in needed.items()
    ]
    reason = f"coalesce({REASON}, {case_sql(cases)}) AS {REASON}"
    return frame.selectExpr(*(reason if name == REASON else name for name in frame.columns))


def _computed_by_place(entry: StreamEntry) -> dict[str, Expression]:
    """Return the expressions of the computed columns, over c0, c1, …, by the places of the columns."""
    names, own = entry.columns.names, _by_place(entry)
    return {column(names.index(n)): substitute(e, own) for n, e in computed_columns(entry)}


def stamped_rows(rows: Frame, entry: FedEntry, manifest: Manifest, now: int) -> Frame:
    """Return rows with the time of the clock in the columns that are stamped on ARRIVAL."""
    if not isinstance(entry, StreamEntry):
        return rows
    for line in entry.timelines:
        if line.arrival:
            time = pl.lit(arrival_time(entry, line.column, manifest, now), pl.Int64)
            place = column(entry.columns.names.index(line.column))
            rows = rows.with_columns(time.cast(frame_type(TIMESTAMP)).alias(place))
            if line == entry.timelines[0]:
                rows = rows.with_columns(time.alias(FROM))
    return rows


def computed_table(frame: Frame, entry: StreamEntry, session: SparkSession) -> Frame:
    """Return a frame with the values of the computed columns, as Catalyst evaluates them."""
    if frame.is_empty() or not entry.computed:
        return frame
    require_evaluable_conditions(session, entry)
    made = [f"{catalyst_sql(e)} AS {c}" for c, e in _computed_by_place(entry).items()]
    return frame.with_columns(_evaluated(frame, entry, session, made))


def judged_records(frame: Frame, records: Sequence[Record], entry: StreamEntry) -> Frame:
    """Return a frame of records with REASON and PUNCTUATES."""
    found, columns = StreamConditions.of(entry), _numbered(entry)
    reasons = [found.why_refused(record, columns) for record in records]
    made = [series_of(reasons, STRING).alias(REASON)]
    if found.punctuation is not None:
        when = [holds(found.punctuation, columns, record) for record in records]
        made.append(series_of(when, BOOLEAN).alias(PUNCTUATES))
    return frame.with_columns(made)


def judged_table(frame: Frame, entry: StreamEntry, session: SparkSession) -> Frame:
    """Return a frame with REASON and PUNCTUATES, as Catalyst evaluates them."""
    found = StreamConditions.of(entry)
    if frame.is_empty():
        return judged_records(frame, (), entry)
    require_evaluable_conditions(session, entry)
    return frame.hstack(_evaluated(frame, entry, session, found.columns_sql("CAST(NULL AS STRING)")))


def _evaluated(frame: Frame, entry: StreamEntry, session: SparkSession, columns: Sequence[str]) -> Frame:
    """Return columns that Catalyst computes from those of a frame."""
    names = [column(i) for i in range(len(entry.columns))]
    schema = S.StructType(
        [S.StructField(n, spark_type(f.type)) for n, f in zip(names, entry.columns, strict=True)]
    )
    table = frame.select(names).to_arrow(compat_level=pl.CompatLevel.oldest())
    made = session.createDataFrame(table, schema).selectExpr(*columns).toArrow()
    assert isinstance(made, pa.Table)
    return pl.DataFrame(made)


def _numbered(entry: StreamEntry) -> Schema:
    """Return the columns of a stream under the names c0, c1, …."""
    return Schema(tuple(Field(column(i), f.type) for i, f in enumerate(entry.columns)))
