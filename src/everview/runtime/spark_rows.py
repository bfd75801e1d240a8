"""Rows of a Spark frame that a person inserts: cast to the columns of a stream or a table, or refused."""

from __future__ import annotations

from pyspark.sql import DataFrame

from everview.algebra.text import literal_sql, name_sql, string_sql, type_sql
from everview.catalog import StreamEntry, TableEntry
from everview.spark.physical import column


def cast_rows(rows: DataFrame, entry: StreamEntry | TableEntry, reason: str) -> DataFrame:
    """The columns of the entry, found by name, as c0, c1, …; `reason` says why a row is refused."""
    there = {entry.columns.find(name).name: name for name in rows.columns}
    defaults = dict(entry.defaults)
    columns, cases = [], []
    for i, f in enumerate(entry.columns):
        if f.name not in there:
            columns.append(f"{literal_sql(defaults.get(f.name), f.type)} AS {column(i)}")
            continue
        given = name_sql(there[f.name])
        fitted = f"try_cast({given} AS {type_sql(f.type)})"
        columns.append(f"{fitted} AS {column(i)}")
        said = [string_sql(f"{f.name}: "), f"CAST({given} AS STRING)", string_sql(f" is no {f.type}")]
        cases.append(f"WHEN {given} IS NOT NULL AND {fitted} IS NULL THEN concat({', '.join(said)})")
    lines = [t.column for t in entry.timelines] if isinstance(entry, StreamEntry) else []
    required = dict.fromkeys(entry.not_null, "NULL, and the column is NOT NULL")
    required |= dict.fromkeys(lines, "there is no timestamp")
    for name, why in required.items():
        if name in there or name not in defaults:
            null = f"{name_sql(there[name])} IS NULL" if name in there else "true"
            cases.append(f"WHEN {null} THEN {string_sql(f'{name}: {why}')}")
    because = f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"
    return rows.selectExpr(*columns, f"{because} AS {reason}")
