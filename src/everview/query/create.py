"""SHOW CREATE: the statement that creates an entry. It must print every field of an entry."""

from __future__ import annotations

from everview.algebra.schema import Field
from everview.algebra.text import literal_sql, name_sql, string_sql, type_sql
from everview.algebra.time import INFINITY, interval_sql
from everview.catalog import (
    CLOCK_ENTRY,
    MAX_AHEAD,
    Entry,
    EventStreamEntry,
    Expected,
    Lateness,
    QueryEntry,
    Source,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
)

# Keywords that begin a clause at a position where a column name is possible.
_CLAUSES = ("timeline", "primary", "check", "constraint", "unique", "foreign")


def create_sql(entry: Entry, clock_grain: int) -> str:
    """Return the statement that creates this entry, over several lines, with its semicolon.

    >>> print(create_sql(TaggedEntry("rooms", "temperature", ("room_id",), "op = 'D'"), 1))
    CREATE TAGGED STREAM rooms OVER temperature KEY (room_id)
    DELETE WHEN op = 'D';
    """
    if entry is CLOCK_ENTRY:
        return f"CLOCK EVERY {interval_sql(clock_grain)};"
    return "\n".join(_lines(entry)) + ";"


def _expectations(expected: Expected) -> list[str]:
    """Return what is declared of a stream's rate and values."""
    rate = [] if expected.rate is None else [f"rate => {expected.rate:.15g}"]
    options = [*rate, *(f"distinct({name_sql(name)}) => {count}" for name, count in expected.distinct)]
    return [f"WITH ({', '.join(options)})"] if options else []


def _lines(entry: Entry) -> list[str]:
    name = name_sql(entry.name)
    match entry:
        case StreamEntry():
            lines = [*_columns(entry), *(_timeline(entry, line) for line in entry.timelines)]
            idle = [] if entry.idle_after is None else [f"IDLE AFTER {interval_sql(entry.idle_after)}"]
            ahead = [] if entry.max_ahead == MAX_AHEAD else [f"MAX AHEAD {_length_or_none(entry.max_ahead)}"]
            lines += [f"CHECK ({check})" for check in entry.checks]
            when = [] if entry.punctuate is None else [f"PUNCTUATE WHEN {entry.punctuate}"]
            rest = [*_source(entry.source), *ahead, *when, *idle, *_expectations(entry.expected)]
            return [f"CREATE STREAM {name} (", *_listed(lines), ")", *rest]
        case TableEntry():
            how = "" if entry.retroactive else "NON RETROACTIVE "
            if entry.as_query is not None:
                return [f"CREATE {how}TABLE {name} AS", entry.as_query]
            key = [f"PRIMARY KEY ({_names(entry.key)})"] if entry.key else []
            lines = [*_columns(entry), *key]
            return [f"CREATE {how}TABLE {name} (", *_listed(lines), ")", *_source(entry.source)]
        case TaggedEntry():
            delete = [] if entry.delete_when is None else [f"DELETE WHEN {entry.delete_when}"]
            head = f"CREATE TAGGED STREAM {name} OVER {name_sql(entry.over)} KEY ({_names(entry.key)})"
            return [head, *delete]
        case ViewEntry():
            how = "COMPLETE " if entry.complete else ""
            kept = f" WITH (history => {_history_sql(entry)})" if not entry.least_changes else ""
            columns = f" ({_names(entry.column_names)})" if entry.column_names else ""
            read = [f"-- it reads the first {n} columns of {name}" for name, n in entry.read_columns]
            return [*read, f"CREATE {how}VIEW {name}{columns}{kept} AS", entry.sql]
        case EventStreamEntry():
            kept = f" WITH (history => {_history_sql(entry)})" if not entry.least_changes else ""
            read = [f"-- it reads the first {n} columns of {name}" for name, n in entry.read_columns]
            return [*read, f"CREATE STREAM {name} TIMELINE {_names(entry.timelines)}{kept} AS", entry.sql]


def _history_sql(entry: QueryEntry) -> str:
    if entry.history == INFINITY:
        return "'forever'"
    return interval_sql(entry.history) if entry.history else "'none'"


def _columns(entry: StreamEntry | TableEntry) -> list[str]:
    return [
        " ".join([_column_name(f.name), type_sql(f.type), *column_constraints(entry, f)])
        for f in entry.columns
    ]


def column_constraints(entry: StreamEntry | TableEntry, column: Field) -> list[str]:
    """Return the constraints of a column, as written after its type."""
    defaults = dict(entry.defaults)
    computed = dict(entry.computed) if isinstance(entry, StreamEntry) else {}
    found = [f"AS ({computed[column.name]})"] if column.name in computed else []
    decoding = None if entry.source is None else entry.source.decoding
    metadata = {} if decoding is None else dict(decoding.metadata)
    found += [f"METADATA FROM {string_sql(metadata[column.name])}"] if column.name in metadata else []
    found += ["NOT NULL"] if column.name in entry.not_null else []
    if column.name in defaults:
        found.append(f"DEFAULT {literal_sql(defaults[column.name], column.type)}")
    return found


def _length_or_none(length: int | None) -> str:
    return "NONE" if length is None else interval_sql(length)


def _column_name(name: str) -> str:
    return f"`{name}`" if name.casefold() in _CLAUSES else name_sql(name)


def _timeline(entry: StreamEntry, line: Lateness) -> str:
    late = f" LATENESS {interval_sql(line.lateness)}" if line.lateness else ""
    late += " ARRIVAL" if line.arrival else ""
    first = line == entry.timelines[0]
    order = f" SEQUENCE BY ({_names(entry.sequence)})" if first and entry.sequence else ""
    return f"TIMELINE {name_sql(line.column)}{late}{order}"


def _source(source: Source | None) -> list[str]:
    if source is None:
        return []
    return [f"FROM {source_sql(source)}"]


def source_sql(source: Source) -> str:
    """Return a source as written after FROM.

    >>> source_sql(Source("csv", "in/*.csv", (("header", "true"), ("a b", "it's"))))
    "csv('in/*.csv', header => 'true', `a b` => 'it\\\\'s')"
    """
    path = [] if source.path is None else [string_sql(source.path)]
    text = f"{name_sql(source.format)}({', '.join([*path, *_options(source.options)])})"
    if (decoding := source.decoding) is None:
        return text
    options = f"({', '.join(_options(decoding.options))})" if decoding.options else ""
    return f"{text} FORMAT {decoding.format}{options}"


def _options(options: tuple[tuple[str, str], ...]) -> list[str]:
    return [f"{_option(name)} => {string_sql(value)}" for name, value in options]


def _option(name: str) -> str:
    """Return the name of an option, quoted unless each of its parts is a plain name."""
    return name if all(name_sql(part) == part for part in name.split(".")) else name_sql(name)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(name_sql, names))


def _listed(lines: list[str]) -> list[str]:
    return [f"  {line}{',' if i < len(lines) - 1 else ''}" for i, line in enumerate(lines)]
