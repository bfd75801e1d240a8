"""Our own nodes in sqlglot's syntax tree: what the dialect adds to Spark SQL."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp


class WindowBracketSyntax(exp.Expression):
    """[RANGE …], [ROWS …] and the other brackets after a stream."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True, "extent": False, "slide": False, "lag": False, "origin": False,
        "lower": False, "upper": False, "count": False, "keys": False, "row_slide": False,
    }  # fmt: skip


class WindowFunctionSyntax(exp.Expression):
    """TUMBLE(TABLE s, DESCRIPTOR(ts), size [, offset]), HOP(TABLE s, DESCRIPTOR(ts), slide, size [, …]),
    SESSION(TABLE s [PARTITION BY …], DESCRIPTOR(ts), gap)."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True, "this": True, "line": True, "size": False, "slide": False, "offset": False,
        "gap": False, "keys": False, "alias": False, "joins": False,
    }  # fmt: skip


class SyncSyntax(exp.Expression):
    """SYNC EVERY interval [ORIGIN timestamp], or SYNC ON name."""

    arg_types: ClassVar[dict[str, bool]] = {"every": False, "origin": False, "on": False}


class StreamFunctionSyntax(exp.Expression):
    """ISTREAM(query), DSTREAM(query), RSTREAM(query)."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": True, "sync": False}


class AsOfSyntax(exp.Expression):
    """query AS OF TIMESTAMP '…'."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "at": True}


class ColumnDeclarationSyntax(exp.Expression):
    """name TYPE [METADATA [FROM 'name']] [NOT NULL] [DEFAULT constant], or name [TYPE] AS (expression)."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "kind": False, "not_null": False, "default": False, "computed": False,
        "metadata": False,
    }  # fmt: skip


class TimelineSyntax(exp.Expression):
    """TIMELINE column [LATENESS interval | ARRIVAL] [SEQUENCE BY (columns)]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "lateness": False, "sequence": False, "arrival": False,
    }  # fmt: skip


class ConditionSyntax(exp.Expression):
    """The condition of CHECK or PUNCTUATE WHEN, with its text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "text": True}


class SourceSyntax(exp.Expression):
    """FROM format(path, option => value, …) [FORMAT name(option => value, …)]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "arguments": False, "format": False, "format_arguments": False,
    }  # fmt: skip


class MetadataSyntax(exp.Expression):
    """METADATA [FROM 'name'] of a column."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False}


class CreateStreamSyntax(exp.Expression):
    """CREATE STREAM name (columns, TIMELINE …) [FROM source] [MAX AHEAD …] [IDLE AFTER …] [WITH (…)]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "columns": True, "timelines": False, "source": False, "idle": False,
        "ahead": False, "checks": False, "punctuate": False, "options": False,
    }  # fmt: skip


class CreateEventStreamSyntax(exp.Expression):
    """CREATE STREAM name TIMELINE a, b [WITH (options)] AS SELECT …."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "timelines": True, "options": False, "query": True, "text": True,
    }  # fmt: skip


class CreateTaggedSyntax(exp.Expression):
    """CREATE TAGGED STREAM name OVER stream KEY (columns) [DELETE WHEN condition]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "over": True, "key": True, "delete": False, "text": False,
    }  # fmt: skip


class CreateTableSyntax(exp.Expression):
    """CREATE [NON RETROACTIVE] TABLE name (columns, PRIMARY KEY (columns)) [FROM source]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "columns": True, "key": False, "source": False, "non_retroactive": False,
    }  # fmt: skip


class CreateTableAsSyntax(exp.Expression):
    """CREATE [NON RETROACTIVE] TABLE name AS SELECT …."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "query": True, "text": True, "non_retroactive": False,
    }  # fmt: skip


class CreateViewSyntax(exp.Expression):
    """CREATE [OR REPLACE] [STREAMED | COMPLETE] VIEW name [(columns)] [WITH (…)] AS SELECT …."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "columns": False, "query": True, "text": True, "complete": False, "options": False,
        "replace": False,
    }  # fmt: skip


class OptionSyntax(exp.Expression):
    """name => value, or name(column) => value."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True, "column": False}


class CreateSinkSyntax(exp.Expression):
    """CREATE SINK name FROM view INTO format(…) [MODE …] [KEY (…)]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "view": True, "target": True, "mode": False, "key": False,
    }  # fmt: skip


class DropSinkSyntax(exp.Expression):
    """DROP SINK [IF EXISTS] name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False}


class ShowSinkSyntax(exp.Expression):
    """DESCRIBE SINK name; with `sql`, SHOW CREATE SINK name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "sql": False}


class ResumeSinkSyntax(exp.Expression):
    """ALTER SINK name RESUME."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class InsertSyntax(exp.Expression):
    """INSERT INTO name [(columns)] VALUES … or SELECT … [AT timestamp]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "columns": False, "rows": False, "query": False, "at": False,
    }  # fmt: skip


class UpdateSyntax(exp.Expression):
    """UPDATE name [alias] SET column = value, … [FROM …] [WHERE …] [AT timestamp]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "alias": False, "assignments": True, "source": False, "where": False, "at": False,
    }  # fmt: skip


class DeleteSyntax(exp.Expression):
    """DELETE FROM name [alias] [WHERE …] [AT timestamp]."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "where": False, "at": False}


class DefaultSyntax(exp.Expression):
    """DEFAULT as a value of INSERT or UPDATE."""

    arg_types: ClassVar[dict[str, bool]] = {}


class ExplainSyntax(exp.Expression):
    """EXPLAIN [COST] query, or EXPLAIN [COST] CREATE … AS query."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "cost": False}


class ShowSyntax(exp.Expression):
    """SHOW STREAMS, TABLES or VIEWS."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True}


class ShowCreateSyntax(exp.Expression):
    """SHOW CREATE STREAM, TABLE or VIEW name."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": True}


class DescribeSyntax(exp.Expression):
    """DESCRIBE name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class ResumeSyntax(exp.Expression):
    """ALTER VIEW | STREAM name RESUME."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class ReplaySyntax(exp.Expression):
    """REPLAY stream$late | stream$rejected [WHERE …]."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "where": False}


class RenameSyntax(exp.Expression):
    """ALTER STREAM | TABLE | VIEW name RENAME TO name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "to": True}


class AddColumnsSyntax(exp.Expression):
    """ALTER STREAM | TABLE name ADD COLUMNS [IF NOT EXISTS] (columns)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "columns": True, "exists": False}


class DropSyntax(exp.Expression):
    """DROP STREAM | TABLE | VIEW [IF EXISTS] name [CASCADE]."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": True, "exists": False, "cascade": False}


class ClockEverySyntax(exp.Expression):
    """CLOCK EVERY interval."""

    arg_types: ClassVar[dict[str, bool]] = {"every": True}


class SetSyntax(exp.Expression):
    """SET setting = value."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


def span(node: exp.Expr) -> tuple[int, int] | None:
    """Return the place of a node in the text: [start, end) over all of its parts that have a place."""
    places: list[tuple[int, int]] = []
    for part in node.walk():
        meta: dict[str, Any] = part.meta
        if "start" in meta and "end" in meta:
            places.append((meta["start"], meta["end"] + 1))
    return (min(p[0] for p in places), max(p[1] for p in places)) if places else None
