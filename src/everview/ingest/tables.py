"""Changes of tables: the effect of UPDATE and DELETE, and the check of PRIMARY KEY.

A change holds from an instant on: the rows of the table at that instant that fulfil the condition are
retracted from then on, and their new values, if any, inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra import nodes
from everview.algebra.expressions import Column, Expression, substitute
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST, Chronon, format_timestamp
from everview.catalog import TableEntry
from everview.errors import StoreError
from everview.execute.catalyst import long_sql
from everview.execute.guards import catalyst_sql
from everview.execute.kept import Kept
from everview.execute.tasks import write_rows
from everview.ingest.scheduled import (
    BESIDE,
    apply_change,
    apply_later_changes,
    changes_after,
    new_record,
    relation_columns,
    row_checks,
    with_change,
)  # fmt: skip
from everview.operators.columnar.frame import FROM, UNTIL, N
from everview.sql.statements import Selection
from everview.storage.manifest import Scheduled
from everview.storage.runs import Run, TraceId
from everview.storage.scheduled_change import Change, MatchCondition

Assignments = Sequence[tuple[str, Expression]]
QueryRunner = Callable[[nodes.Node, Chronon], DataFrame]


def scan_of(entry: TableEntry) -> P.ScanOperator:
    """Return the rows of a table."""
    return P.ScanOperator(entry.name, entry.columns.types)


def change_of(
    entry: TableEntry, rows: Selection, assignments: Assignments | None, at: Chronon, number: int
) -> Change:
    """Return an UPDATE, or a DELETE if nothing is assigned, as SQL over the table and its relations."""
    names: dict[Expression, Expression] = {}
    names |= _names(entry.columns.under(rows.relation), [P.column(i) for i in range(len(entry.columns))])
    plans = plans_of(rows)
    for name, plan in plans.items():
        names |= _names(plan.schema, relation_columns(name, len(plan.schema)))

    def text(expression: Expression) -> str:
        return catalyst_sql(substitute(expression, names))

    new = {name: (text(e), e.type) for name, e in assignments or ()}
    return Change(
        at,
        number,
        text(rows.where),
        None if assignments is None else new_record(entry.columns, new),
        tuple(MatchCondition(f"m{i}", text(m.condition), m.negated) for i, m in enumerate(rows.matches)),
        tuple((name, plan.schema.types) for name, plan in plans.items()),
        tuple(row_checks(entry, new)),
    )


def plans_of(rows: Selection) -> dict[str, nodes.Node]:
    """Return the relations that a change reads beside its table, by their names."""
    beside = {} if rows.beside is None else {BESIDE: rows.beside}
    return beside | {f"m{i}": match.plan for i, match in enumerate(rows.matches)}


def _names(schema: Schema, columns: Sequence[str]) -> dict[Expression, Expression]:
    return {Column.to(f): Column(c, f.type) for f, c in zip(schema, columns, strict=True)}


def rows_changed(
    kept: Kept, entry: TableEntry, change: Change, relations: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the change rows of a change at its own instant."""
    columns = [P.column(i) for i in range(len(entry.columns))]
    rows = kept.rows_at(scan_of(entry), change.at).groupBy(*columns).agg(F.sum(N).alias(N)).where(f"{N} > 0")
    return apply_change(change, rows, relations, entry).localCheckpoint()


def rows_after(kept: Kept, entry: TableEntry, first: DataFrame, later: Sequence[Change]) -> DataFrame:
    """Return change rows after all changes that are scheduled later."""
    relations = {
        change.number: {
            name: as_relation(
                name, kept.read(kept.manifest.runs(change.trace(entry, name)), types), len(types)
            )
            for name, types in change.relations
        }
        for change in later
    }
    return apply_later_changes(first, later, relations, entry)


@dataclass(frozen=True)
class TableChange:
    """The result of a change: new lists of runs, the scheduled changes, and how many rows it changed."""

    traces: dict[TraceId, tuple[Run, ...]]
    scheduled: Scheduled
    rows: int


def carry_out(
    kept: Kept, answer: QueryRunner, entry: TableEntry, change: Change, rows: Selection
) -> TableChange:
    """Write the change rows of a change; schedule it if another change can still come before its instant.

    `answer` answers the subqueries of the change, with tables as they are at its instant.
    """
    before, step, trace = kept.manifest, kept.manifest.step + 1, TraceId("inbox", entry.name)
    relations = {
        name: answer(plan, change.at).toDF(*relation_columns(name, len(plan.schema)))
        for name, plan in plans_of(rows).items()
    }
    traces: dict[TraceId, tuple[Run, ...]] = {}
    scheduled = before.scheduled
    if change.at > before.bound + 1:
        scheduled = with_change(before, entry, change)
        for name, relation in relations.items():
            place = change.trace(entry, name)
            traces[place] = write_rows(as_rows(relation), place, kept.files, step)
    first = rows_changed(kept, entry, change, relations)
    later = changes_after(before, entry, change.at)
    new = write_rows(rows_after(kept, entry, first, later), trace, kept.files, step)
    require_key(kept, entry, new, change.at)
    traces[trace] = (*before.runs(trace), *new)
    count = first.where(f"{N} < 0").selectExpr(f"coalesce(-sum({N}), 0) AS n").collect()[0].n
    return TableChange(traces, scheduled, int(count))


def as_relation(name: str, rows: DataFrame, size: int) -> DataFrame:
    """Return rows with the columns c0, c1, … as a relation beside a table."""
    pairs = enumerate(relation_columns(name, size))
    return rows.selectExpr(*(f"{P.column(i)} AS {column}" for i, column in pairs))


def as_rows(relation: DataFrame) -> DataFrame:
    """Return a relation as rows that can be stored; they have no time of their own."""
    columns = [P.column(i) for i in range(len(relation.columns))]
    times = [f"{long_sql(t)} AS {name}" for name, t in ((FROM, LEAST), (UNTIL, INFINITY), (N, 1))]
    return relation.toDF(*columns).selectExpr(*columns, *times)


def require_key(kept: Kept, entry: TableEntry, new: Sequence[Run], begin: Chronon) -> None:
    """Refuse new runs with which two rows of the table would have the same key, or one a NULL key."""
    if not entry.key or not new:
        return
    places = [entry.columns.names.index(entry.columns.find(name).name) for name in entry.key]
    columns = [P.column(i) for i in places]
    added = (
        kept.read(new, entry.columns.types).where(f"{N} > 0").select(*columns).distinct().localCheckpoint()
    )
    if added.where(" OR ".join(f"{c} IS NULL" for c in columns)).limit(1).count():
        raise StoreError(
            f"a row of '{entry.name}' has no value for its key ({', '.join(entry.key)})",
            next_step="give every row a key",
        )
    rows = kept.read([*kept.runs(scan_of(entry)), *new], entry.columns.types).join(
        added, columns, "left_semi"
    )
    line = Window.partitionBy(*columns).orderBy(FROM)
    counts = rows.groupBy(*columns, FROM).agg(F.sum(N).alias(N)).withColumn("held", F.sum(N).over(line))
    twice = counts.where(f"held > 1 AND {FROM} >= {long_sql(begin)}").orderBy(FROM).limit(1).collect()
    if twice:
        key = ", ".join(f"{name} {twice[0][c]}" for name, c in zip(entry.key, columns, strict=True))
        later = twice[0][FROM] > begin
        raise StoreError(
            f"'{entry.name}' would have two rows with the key {key}"
            + (f" from {format_timestamp(twice[0][FROM])} on, by what was given before" if later else ""),
            next_step="UPDATE the row that is there, or DELETE it first",
        )
