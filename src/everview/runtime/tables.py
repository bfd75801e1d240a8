"""Tables change: UPDATE, DELETE, and what a PRIMARY KEY refuses.

A change holds from an instant on: the rows of the table at that instant that fulfil the condition are taken
back from then on, and their new values, if any, put in.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from everview.algebra.expressions import Column, Expression, substitute
from everview.algebra.text import type_sql
from everview.algebra.time import INFINITY
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.kernels.frame import FROM, UNTIL, N
from everview.runtime.kept import Kept
from everview.runtime.runs import Run
from everview.spark import physical as P
from everview.spark.catalyst import long_sql
from everview.spark.guards import catalyst_sql

Assignments = Sequence[tuple[str, Expression]]


def scan_of(entry: TableEntry) -> P.Scan:
    """The rows of a table."""
    return P.Scan(entry.name, entry.columns.types)


def rows_to_change(kept: Kept, entry: TableEntry, where: Expression, begin: int) -> DataFrame:
    """The different rows of a table at an instant that fulfil a condition, with how often each is there."""
    columns = [P.column(i) for i in range(len(entry.columns))]
    held = kept.rows_at(scan_of(entry), begin).groupBy(*columns).agg(F.sum(N).alias(N)).where(f"{N} > 0")
    return held.where(catalyst_sql(_by_position(where, entry)))


def taken_back(rows: DataFrame, entry: TableEntry, begin: int) -> DataFrame:
    """The change rows that take rows back."""
    columns = [P.column(i) for i in range(len(entry.columns))]
    return rows.selectExpr(*columns, *_times(begin), f"-{N} AS {N}")


def put_in(rows: DataFrame, entry: TableEntry, assignments: Assignments, begin: int) -> DataFrame:
    """The change rows that put in the new values of rows."""
    new = {name.casefold(): catalyst_sql(_by_position(e, entry)) for name, e in assignments}
    columns = [
        f"CAST({new.get(f.name.casefold(), P.column(i))} AS {type_sql(f.type)}) AS {P.column(i)}"
        for i, f in enumerate(entry.columns)
    ]
    return rows.selectExpr(*columns, *_times(begin), N)


def _times(begin: int) -> list[str]:
    return [f"{long_sql(begin)} AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}"]


def _by_position(expression: Expression, entry: TableEntry) -> Expression:
    places: dict[Expression, Expression] = {
        Column.to(f): Column(P.column(i), f.type) for i, f in enumerate(entry.columns.under(entry.name))
    }
    return substitute(expression, places)


def require_values(kept: Kept, entry: TableEntry, new: Sequence[Run]) -> None:
    """Refuses new runs with a NULL in a column that is declared NOT NULL."""
    if not entry.not_null:
        return
    places = {P.column(entry.columns.names.index(name)): name for name in entry.not_null}
    added = kept.read(new, entry.columns.types).where(f"{N} > 0")
    for row in added.where(" OR ".join(f"{c} IS NULL" for c in places)).limit(1).collect():
        name = next(name for c, name in places.items() if row[c] is None)
        raise StoreError(
            f"a row of '{entry.name}' would have no value for '{name}', which is NOT NULL",
            next_step="give it one, with coalesce for example",
        )


def require_key(kept: Kept, entry: TableEntry, new: Sequence[Run], begin: int) -> None:
    """Refuses new runs with which two rows of the table would have the same key, or one would have none."""
    if not entry.key:
        return
    places = [entry.columns.names.index(entry.columns.find(name).name) for name in entry.key]
    columns = [P.column(i) for i in places]
    added = kept.read(new, entry.columns.types).where(f"{N} > 0")
    if added.where(" OR ".join(f"{c} IS NULL" for c in columns)).limit(1).count():
        raise StoreError(
            f"a row of '{entry.name}' has no value for its key ({', '.join(entry.key)})",
            next_step="give every row a key",
        )
    rows = kept.read([*kept.runs(scan_of(entry)), *new], entry.columns.types)
    line = Window.partitionBy(*columns).orderBy(FROM)
    counts = rows.groupBy(*columns, FROM).agg(F.sum(N).alias(N)).withColumn("held", F.sum(N).over(line))
    twice = counts.where(f"held > 1 AND {FROM} >= {long_sql(begin)}").select(*columns).limit(1).collect()
    if twice:
        key = ", ".join(f"{name} {value}" for name, value in zip(entry.key, twice[0], strict=True))
        raise StoreError(
            f"'{entry.name}' would have two rows with the key {key}",
            next_step="UPDATE the row that is there, or DELETE it first",
        )
