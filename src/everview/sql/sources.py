"""FROM: the source of a stream or table, its options, and FORMAT: how columns come from its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from everview.catalog import Decoding, Source
from everview.errors import SqlError, nearest
from everview.sql import ast
from everview.sql.script import Script
from everview.sql.source_options import is_option, known_options

# Formats whose arguments have a meaning by position.
_POSITIONAL = {"socket": ("host", "port")}

# The options of FORMAT.
_VALUES = ("dateFormat", "timestampFormat", "timeZone", "locale")
_JSON = (
    "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros",
    "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars", "allowNonNumericNumbers",
    "maxNestingDepth", "maxNumLen", "maxStringLen", *_VALUES,
)  # fmt: skip
_OPTIONS: dict[str, tuple[str, ...]] = {
    "json": _JSON,
    "csv": (
        "sep", "delimiter", "quote", "escape", "nullValue", "emptyValue", "nanValue", "positiveInf",
        "negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", *_VALUES,
    ),
    "debezium": _JSON,
}  # fmt: skip

# Sources that have columns of their own, and none that holds a record as text or bytes.
_WITHOUT_VALUE = ("csv", "json", "parquet", "orc", "avro", "xml", "delta", "rate", "rate-micro-batch")

_OF_KAFKA = ("key", "headers", "topic", "partition", "offset", "timestamp")
_OF_DEBEZIUM = ("op", "ts_ms", "ts_us", "source", "transaction.id")


def bind_source(node: exp.Expr | None, columns: Sequence[exp.Expr], script: Script) -> Source | None:
    """Bind FROM format(path, option => value, …) [FORMAT …] for some columns; None: rows come by INSERT."""
    metadata = [meta for c in columns if (meta := c.args.get("metadata")) is not None]
    if metadata and (node is None or node.args.get("format") is None):
        raise script.error(
            "METADATA is for columns of a source with FORMAT",
            metadata[0],
            next_step="without FORMAT, call the column as the source does",
        )
    if node is None:
        return None
    path: str | None = None
    options: dict[str, str] = {}
    positions = list(_POSITIONAL.get(node.name.casefold(), ()))
    for argument in node.args.get("arguments") or ():
        if isinstance(argument, ast.OptionSyntax):
            _require_option(argument, node.name.casefold(), options, script)
            options[argument.name] = option_value(argument.args["value"], script)
        elif positions:
            options[positions.pop(0)] = option_value(argument, script)
        elif path is None and node.name.casefold() not in _POSITIONAL:
            path = option_value(argument, script)
        else:
            raise script.error("options are written as name => value", argument)
    source = Source(node.name.casefold(), path, tuple(options.items()))
    return source if node.args.get("format") is None else _decoded(node, source, columns, script)


def _require_option(option: exp.Expr, format_: str, before: Iterable[str], script: Script) -> None:
    """Refuse an option that the source does not have, or that stands twice."""
    if option.name.casefold() in (name.casefold() for name in before):
        raise script.error(f"the option '{option.name}' stands twice", option.this)
    if not is_option(format_, option.name):
        known = known_options(format_)
        raise SqlError(
            f"the source {format_} has no option '{option.name}'",
            place=script.place(option.this),
            meant=nearest(option.name, known),
            choices=known,
        )


def _decoded(node: exp.Expr, source: Source, columns: Sequence[exp.Expr], script: Script) -> Source:
    """Bind FORMAT json | csv | debezium of a source, and the columns that are METADATA."""
    name = node.args["format"]
    format_ = name.name.casefold()
    if format_ not in _OPTIONS:
        raise SqlError(
            f"there is no FORMAT {name.name}",
            place=script.place(name),
            meant=nearest(format_, _OPTIONS),
            choices=tuple(_OPTIONS),
        )
    if source.format in _WITHOUT_VALUE:
        raise script.error(
            f"the rows of {source.format} have columns already, and no value that FORMAT could decode",
            name,
            next_step="leave FORMAT out",
        )
    options = _format_options(node, format_, script)
    if all(c.args.get("metadata") or c.args.get("computed") for c in columns):
        raise script.error("there is no column that FORMAT could decode", name)
    given = [(c, c.args["metadata"]) for c in columns if c.args.get("metadata") is not None]
    metadata = tuple((c.name, _metadata(meta, c, source, format_, script)) for c, meta in given)
    if source.format == "kafka" and any(what.split(".")[0] == "headers" for _, what in metadata):
        others = tuple(pair for pair in source.options if pair[0].casefold() != "includeheaders")
        source = replace(source, options=(*others, ("includeHeaders", "true")))
    return replace(source, decoding=Decoding(format_, options, metadata))


def _format_options(node: exp.Expr, format_: str, script: Script) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    known = _OPTIONS[format_]
    for option in node.args.get("format_arguments") or ():
        if not isinstance(option, ast.OptionSyntax):
            raise script.error("options are written as name => value", option)
        if option.name.casefold() in (name.casefold() for name in found):
            raise script.error(f"the option '{option.name}' stands twice", option.this)
        if option.name.casefold() not in (name.casefold() for name in known):
            raise SqlError(
                f"FORMAT {format_} has no option '{option.name}'",
                place=script.place(option.this),
                meant=nearest(option.name, known),
                choices=known,
            )
        found[option.name] = option_value(option.args["value"], script)
    return tuple(found.items())


def _metadata(meta: exp.Expr, column: exp.Expr, source: Source, format_: str, script: Script) -> str:
    """Return what a METADATA column holds: by its own name, or by that behind FROM."""
    text = column.name if meta.this is None else str(meta.this.this)
    of_format = _OF_DEBEZIUM if format_ == "debezium" else ()
    known = (*(_OF_KAFKA if source.format == "kafka" else ()), *of_format)
    if source.format == "kafka" and text not in known and text.split(".")[0] not in ("headers", *of_format):
        raise SqlError(
            f"a record has no metadata '{text}'",
            place=script.place(meta if meta.this is not None else column.this),
            meant=nearest(text, known),
            choices=known,
            next_step="of headers, one is 'headers.NAME'" if "header" in text else None,
        )
    return text


def option_value(node: exp.Expr, script: Script) -> str:
    """Return the value of an option as text."""
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.name}"
    if isinstance(node, exp.Literal):
        return str(node.this)
    raise script.error("an option's value is a string, a number, true or false", node)
