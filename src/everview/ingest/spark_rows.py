"""Rows of an inserted Spark frame: cast to the columns of a stream or a table, or refused."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as S

from everview.algebra import types as T
from everview.algebra.text import literal_sql, name_sql, string_sql, type_sql
from everview.catalog import StreamEntry, TableEntry, given_entry
from everview.execute.catalyst import null_sql
from everview.execute.guards import try_cast_sql
from everview.ingest.reading import required_columns
from everview.ingest.rows import match_columns, why_made
from everview.operators.base import column

_INFINITE = "CAST('Infinity' AS DOUBLE)"
_NUMBERS = (S.IntegralType, S.FloatType, S.DoubleType, S.DecimalType)
_TEXT = (S.StringType, S.CharType, S.VarcharType)


def cast_rows(rows: DataFrame, entry: StreamEntry | TableEntry, reason: str, lossless: bool) -> DataFrame:
    """Return the columns of the entry, found by name, as c0, c1, …; `reason` says why a row is refused.

    Lossless: by the rule of `rows.py`; else as CAST, where text that is no value of the type is refused.
    """
    there = {name: rows.columns[i] for name, i in match_columns(rows.columns, entry.columns).items()}
    defaults = dict(entry.defaults)
    made = entry.made if isinstance(entry, StreamEntry) else ()
    columns, cases = [], []
    for i, f in enumerate(entry.columns):
        if f.name not in there:
            columns.append(f"{literal_sql(defaults.get(f.name), f.type)} AS {column(i)}")
            continue
        given = name_sql(there[f.name])
        source = rows.schema[there[f.name]].dataType
        if f.name in made:
            columns.append(f"{null_sql(f.type)} AS {column(i)}")
            cases.append(
                f"WHEN {given} IS NOT NULL THEN {string_sql(f'{f.name}: {why_made(f.name, entry)}')}"
            )
            continue
        fitted, wrong = try_cast_sql(given, f.type, isinstance(source, _TEXT)), "false"
        if lossless:
            fitted, wrong = _lossless(given, source, f.type)
        columns.append(f"{fitted} AS {column(i)}")
        said = [string_sql(f"{f.name}: "), f"CAST({given} AS STRING)", string_sql(f" is no {f.type}")]
        misfit = f"{given} IS NOT NULL AND ({fitted} IS NULL OR {wrong})"
        cases.append(f"WHEN {misfit} THEN concat({', '.join(said)})")
    for name, why in required_columns(given_entry(entry)).items():
        if name in there or name not in defaults:
            null = f"{name_sql(there[name])} IS NULL" if name in there else "true"
            cases.append(f"WHEN {null} THEN {string_sql(f'{name}: {why}')}")
    because = f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"
    return rows.selectExpr(*columns, f"{because} AS {reason}")


def _lossless(given: str, source: S.DataType, target: T.DataType) -> tuple[str, str]:
    """Return SQL for the converted value, and for the test that it differs from the given one."""
    text = isinstance(source, _TEXT)
    cast = try_cast_sql(given, target, text)
    number = isinstance(source, _NUMBERS)
    if target.is_integer and text:
        whole = f"regexp_replace(trim({given}), '[.]0*$', '')"
        return f"try_cast({whole} AS {type_sql(target)})", f"NOT {whole} RLIKE '^[+-]?[0-9]+$'"
    if target.is_integer and number:
        return cast, f"CAST({cast} AS {source.simpleString()}) <> {given}"
    if target.is_float and text:
        finite = f"NOT trim({given}) RLIKE '(?i)^[+-]?inf(inity)?$'"
        return cast, f"abs({cast}) = {_INFINITE} AND {finite}"
    if target.is_float and number:
        return cast, f"abs({cast}) = {_INFINITE} AND abs(CAST({given} AS DOUBLE)) <> {_INFINITE}"
    same = {
        "BOOLEAN": (S.BooleanType, *_TEXT),
        "STRING": _TEXT,
        "BINARY": (S.BinaryType,),
        "DATE": (S.DateType, *_TEXT),
        "TIMESTAMP": (S.TimestampType, S.TimestampNTZType, S.DateType, *_TEXT),
        "INTERVAL": (S.DayTimeIntervalType,),
        "DECIMAL": (*_NUMBERS, *_TEXT),
    }
    if isinstance(source, (*same.get(target.name, ()), S.NullType)):
        return cast, "false"
    return f"CAST(NULL AS {type_sql(target)})", "true"
