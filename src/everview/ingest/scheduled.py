"""Changes of tables that are scheduled for a later instant, and their effect on changes before them.

The outcome of all statements is as if they had been given in the order of their instants. UPDATE and DELETE
look at one row at a time: so what a statement does to a table changes what a later one does for just the
rows that it deletes or inserts. All changes that are scheduled after it are applied to those rows as well,
and the difference is added to the table. The manifest has a change as SQL over the columns c0, c1, …,
until the bound has passed its instant; the relations that its subqueries read are stored as rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra.schema import Schema
from everview.algebra.text import string_sql
from everview.algebra.time import INFINITY, Chronon
from everview.algebra.types import STRING, DataType
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.execute.catalyst import long_sql
from everview.execute.guards import try_cast_sql
from everview.operators.columnar.frame import FROM, UNTIL, N
from everview.storage.manifest import Manifest, Scheduled
from everview.storage.scheduled_change import Change

BESIDE = "f"  # the relation of UPDATE … FROM
_REASON, _MATCHES = "_reason", "_matches"


def relation_columns(name: str, size: int) -> list[str]:
    """Return the columns of a relation beside those of the table.

    >>> relation_columns("m0", 2)
    ['m0_0', 'm0_1']
    """
    return [f"{name}_{i}" for i in range(size)]


def changes_after(manifest: Manifest, entry: TableEntry, at: Chronon) -> list[Change]:
    """Return the changes of a table that hold from a later instant, in the order in which they apply."""
    known = manifest.scheduled.get(entry.name.casefold(), ())
    return sorted((c for c in known if c.at > at), key=lambda c: (c.at, c.number))


def with_change(manifest: Manifest, entry: TableEntry, change: Change) -> Scheduled:
    """Return the scheduled changes with one more."""
    name = entry.name.casefold()
    return {**manifest.scheduled, name: (*manifest.scheduled.get(name, ()), change)}


def row_checks(entry: TableEntry, new: Mapping[str, tuple[str, DataType]]) -> list[tuple[str, str]]:
    """Return the conditions under which a new row is refused, with reasons: a value does not fit, or is NULL.

    `new` has SQL and its type for each column that is set.
    """
    found = []
    for field in entry.columns:
        if field.name not in new:
            continue
        text, type_ = new[field.name]
        cast = try_cast_sql(text, field.type, type_ == STRING)
        if type_ != field.type:
            parts = [
                string_sql(f"the column '{field.name}' takes {field.type}, not "),
                f"CAST({text} AS STRING)",
            ]
            found.append((f"({text}) IS NOT NULL AND {cast} IS NULL", f"concat({', '.join(parts)})"))
        if field.name in entry.not_null:
            why = f"a row of '{entry.name}' would have no value for '{field.name}', which is NOT NULL"
            found.append((f"{cast} IS NULL", string_sql(why)))
    return found


def apply_change(
    change: Change, rows: DataFrame, relations: Mapping[str, DataFrame], entry: TableEntry
) -> DataFrame:
    """Return the change rows that a change deletes and inserts; the input rows may have multiplicity -1.

    The rows differ from each other. One that has several matches in FROM is refused, and one whose new
    values do not fit.
    """
    columns = [P.column(i) for i in range(len(entry.columns))]
    if BESIDE in relations:
        found = rows.join(relations[BESIDE], F.expr(change.where))
    else:
        found = rows.where(change.where)
    for condition in change.conditions:
        how = "left_anti" if condition.negated else "left_semi"
        found = found.join(relations[condition.relation], F.expr(condition.on), how)
    gone = [f"named_struct({_fields(columns, columns)}) AS _old"]
    if change.new is None:
        return _as_changes(found.selectExpr(*gone, f"-{N} AS {N}"), columns, change.at)
    new = [f"named_struct({_fields(columns, change.new)}) AS _new"]
    cases = " ".join(f"WHEN {when} THEN {why}" for when, why in change.refused)
    reason = f"CASE {cases} END" if cases else "CAST(NULL AS STRING)"
    made = found.selectExpr(*gone, *new, f"{reason} AS {_REASON}", N)
    if BESIDE in relations:
        made = made.groupBy("_old").agg(
            F.first("_new").alias("_new"),
            F.max(_REASON).alias(_REASON),
            F.first(N).alias(N),
            F.count("*").alias(_MATCHES),
        )
    made = made.localCheckpoint()
    if BESIDE in relations:
        _refuse_several(made, columns, entry)
    if cases:
        _refuse(made)
    both = f"array(struct(_old AS r, -{N} AS {N}), struct(_new AS r, {N} AS {N}))"
    taken = made.selectExpr(f"inline({both})").withColumnRenamed("r", "_old")
    return _as_changes(taken, columns, change.at)


def _fields(names: Sequence[str], texts: Sequence[str]) -> str:
    return ", ".join(f"{string_sql(name)}, {text}" for name, text in zip(names, texts, strict=True))


def _as_changes(rows: DataFrame, columns: Sequence[str], at: Chronon) -> DataFrame:
    times = [f"{long_sql(at)} AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}"]
    return rows.selectExpr(*(f"_old.{c} AS {c}" for c in columns), *times, N)


def _refuse(made: DataFrame) -> None:
    for row in made.where(f"{_REASON} IS NOT NULL AND {N} > 0").limit(1).collect():
        raise StoreError(row[_REASON], next_step="give another value, with coalesce or CAST for example")


def _refuse_several(made: DataFrame, columns: Sequence[str], entry: TableEntry) -> None:
    for row in made.where(f"{_MATCHES} > 1 AND {N} > 0").limit(1).collect():
        names = entry.key or entry.columns.names
        shown = ", ".join(
            f"{n} {row['_old'][c]}" for n, c in zip(entry.columns.names, columns, strict=True) if n in names
        )
        raise StoreError(
            f"the row of '{entry.name}' with {shown} has {row[_MATCHES]} matches in FROM",
            next_step="add conditions to WHERE so that a row has one match at most",
        )


def apply_later_changes(
    first: DataFrame,
    later: Sequence[Change],
    relations: Mapping[int, Mapping[str, DataFrame]],
    entry: TableEntry,
) -> DataFrame:
    """Return change rows together with the effect of later changes on them."""
    columns = [P.column(i) for i in range(len(entry.columns))]
    made = [first]
    for change in later:
        now = reduce(DataFrame.unionAll, made).groupBy(*columns).agg(F.sum(N).alias(N)).where(f"{N} <> 0")
        try:
            made.append(apply_change(change, now, relations[change.number], entry).localCheckpoint())
        except StoreError as error:
            raise StoreError(
                f"{error.what}, by {change.statement}, which was given before", next_step=error.next_step
            ) from None
    return reduce(DataFrame.unionAll, made)


def new_record(schema: Schema, new: Mapping[str, tuple[str, DataType]]) -> tuple[str, ...]:
    """Return the columns of a new row as SQL; those that are not set keep their value."""
    texts = []
    for i, field in enumerate(schema):
        text, type_ = new.get(field.name, (P.column(i), field.type))
        cast = try_cast_sql(text, field.type, type_ == STRING)
        texts.append(text if type_ == field.type else cast)
    return tuple(texts)
