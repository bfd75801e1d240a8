"""CREATE SINK and the other statements on sinks: from syntax to statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

from everview.algebra.text import name_sql
from everview.catalog import (
    MODES,
    SPARK_FILES,
    Catalog,
    Entry,
    EventStreamEntry,
    QueryEntry,
    SecretReference,
    SinkEntry,
    SinkValue,
    kind_with_article,
)
from everview.errors import CatalogError, SqlError, nearest
from everview.sql import ast
from everview.sql import statements as S
from everview.sql.declare import declared_names
from everview.sql.definitions import definition_plan
from everview.sql.script import Script
from everview.sql.sources import option_value


@dataclass(frozen=True)
class _SinkFormat:
    """What a target is given: a path, options that it needs and others; and the modes that it has."""

    modes: tuple[str, ...]
    path: bool = False
    may_have_path: bool = False
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    prefix: str | None = None  # of options that are handed on to a library; "": all of them are

    @property
    def options(self) -> tuple[str, ...]:
        return (*self.needs, *self.may_have)


_FILES = _SinkFormat(("changes", "append"), path=True)
_FORMATS = {
    "parquet": _FILES,
    "json": _FILES,
    "csv": _SinkFormat(_FILES.modes, path=True, may_have=("header", "sep")),
    "webhook": _SinkFormat(MODES, needs=("url",), may_have=("token", "retries", "timeout")),
    "delta": _SinkFormat(MODES, path=True),
    "iceberg": _SinkFormat(MODES, needs=("table",), prefix="catalog."),
    "postgres": _SinkFormat(MODES, needs=("url", "table"), may_have=("schema",)),
    "kafka": _SinkFormat(
        MODES, needs=("kafka.bootstrap.servers", "topic"), may_have=("format",), prefix="kafka."
    ),
    **{format_: _SinkFormat(_FILES.modes, path=True, prefix="") for format_ in SPARK_FILES},
    "jdbc": _SinkFormat(_FILES.modes, needs=("url", "dbtable"), prefix=""),
}
# Any other batch writer of Spark, by its name: whether there is such, Spark knows.
_WRITER = _SinkFormat(_FILES.modes, may_have_path=True, prefix="")
_KAFKA_FORMATS = ("json", "debezium")


def bind_create_sink(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind CREATE SINK; with IF NOT EXISTS, one that exists stays as it is."""
    there = catalog.sinks.get(node.name.casefold())
    if there is not None and node.this.meta.get("if_not_exists"):
        written = catalog.get(there.view)
        assert isinstance(written, QueryEntry)
        return S.CreateSink(there, definition_plan(written, catalog))
    with script.blame(node.args["view"]):
        view = catalog.get(node.args["view"].name)
        if not isinstance(view, QueryEntry):
            raise SqlError(
                f"a sink writes a view, and '{view.name}' is {kind_with_article(view)}",
                next_step=f"make a view of it: CREATE VIEW … AS SELECT * FROM {view.name}",
            )
    plan = definition_plan(view, catalog)
    target = node.args["target"]
    format_ = target.name.casefold()
    known = _require_format(target, format_, script)
    path, options = _arguments(target, format_, known, script)
    mode = _mode(node.args.get("mode"), format_, known, script)
    _require_kafka_format(format_, mode, options, target, script)
    key = declared_names(plan.schema, node.args.get("key") or (), script)
    if key and mode != "upsert":
        raise script.error(
            f"MODE {mode} writes every change and needs no KEY",
            node.args["key"][0],
            next_step="leave KEY out, or write MODE upsert",
        )
    sink = SinkEntry(node.name, view.name, format_, path, options, mode, key)
    with script.blame(node.this):
        catalog.copy().add_sink(sink)
    place = script.place(node.args.get("mode") or node.args["view"])
    return S.CreateSink(sink, plan, isinstance(view, EventStreamEntry), place)


def _require_format(target: exp.Expr, format_: str, script: Script) -> _SinkFormat:
    found = _FORMATS.get(format_)
    if found is None:
        meant = nearest(format_, _FORMATS, 0.75)
        if meant is None:
            return _WRITER
        raise SqlError(
            f"there is no sink that writes {target.name}",
            place=script.place(target.this),
            meant=meant,
            choices=_FORMATS,
            next_step="a batch writer of Spark that has this name is written in its full name",
        )
    return found


def _arguments(
    target: exp.Expr, format_: str, known: _SinkFormat, script: Script
) -> tuple[SinkValue | None, tuple[tuple[str, SinkValue], ...]]:
    path: SinkValue | None = None
    options: dict[str, SinkValue] = {}
    for argument in target.args.get("arguments") or ():
        if isinstance(argument, ast.OptionSyntax):
            name = _option_name(argument, format_, known, options, script)
            options[name] = _sink_value(argument.args["value"], script)
        elif path is None and (known.path or known.may_have_path):
            path = _sink_value(argument, script)
        else:
            raise script.error("options are written as name => value", argument)
    missing = [name for name in known.needs if name not in options]
    if missing or (known.path and path is None):
        what = f"the option {missing[0]}" if missing else "a path"
        example = f"{missing[0]} => …" if missing else "'out/'"
        raise script.error(f"{format_} needs {what}", target.this, next_step=f"write {format_}({example})")
    return path, tuple(options.items())


def _require_kafka_format(
    format_: str, mode: str, options: tuple[tuple[str, SinkValue], ...], target: exp.Expr, script: Script
) -> None:
    """Refuse a form of Kafka's records that there is not, or not in this mode."""
    given = dict(options).get("format") if format_ == "kafka" else None
    if given is None:
        return
    place = next(a for a in target.args["arguments"] if a.name.casefold() == "format")
    if given not in _KAFKA_FORMATS:
        raise SqlError(
            f"records of Kafka are written as {' or '.join(_KAFKA_FORMATS)}",
            place=script.place(place.args["value"]),
            meant=nearest(str(given), _KAFKA_FORMATS),
            choices=_KAFKA_FORMATS,
        )
    if given == "debezium" and mode != "changes":
        raise script.error(
            "a change event of Debezium has the row before and after, which MODE changes writes",
            place.args["value"],
            next_step=f"leave MODE {mode} out, or the format",
        )


def _option_name(
    option: exp.Expr, format_: str, known: _SinkFormat, before: Iterable[str], script: Script
) -> str:
    """Return an option as the target calls it; refuse one that it does not have, or that stands twice."""
    folded: str = option.name.casefold()
    if folded in (name.casefold() for name in before):
        raise script.error(f"the option '{option.name}' stands twice", option.this)
    if known.prefix is not None and folded.startswith(known.prefix):
        return str(option.name)
    found = next((name for name in known.options if name.casefold() == folded), None)
    if found is None:
        raise SqlError(
            f"the sink {format_} has no option '{option.name}'",
            place=script.place(option.this),
            meant=nearest(option.name, known.options),
            choices=known.options,
            next_step=None if known.options else "leave it out",
        )
    return found


def _sink_value(node: exp.Expr, script: Script) -> SinkValue:
    """Bind a constant, or secret('NAME')."""
    if isinstance(node, exp.Anonymous) and node.name.casefold() == "secret":
        arguments = node.expressions
        if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
            return SecretReference(str(arguments[0].this))
        raise script.error("a secret has a name", node, next_step="write secret('NAME')")
    return option_value(node, script)


def _mode(node: exp.Expr | None, format_: str, known: _SinkFormat, script: Script) -> str:
    if node is None:
        return "changes" if "changes" in known.modes else known.modes[0]
    mode: str = node.name.casefold()
    if mode not in MODES:
        raise SqlError(
            f"there is no mode '{node.name}'",
            place=script.place(node),
            meant=nearest(mode, MODES),
            choices=MODES,
        )
    if mode not in known.modes:
        raise SqlError(
            f"{format_} cannot be written in MODE {mode}",
            place=script.place(node),
            choices=known.modes,
            next_step=f"write MODE {known.modes[0]}",
        )
    return mode


def require_same_columns(entry: Entry, before: Catalog, after: Catalog) -> None:
    """Refuse a new definition of a view that has sinks, if its columns are others than their targets have."""
    sinks = before.sinks_of(entry.name)
    old = before.entries.get(entry.name.casefold())
    if not sinks or not isinstance(old, QueryEntry) or not isinstance(entry, QueryEntry):
        return
    was, now = (definition_plan(e, c, e.name).schema for e, c in ((old, before), (entry, after)))
    if was.names != now.names or was.types != now.types:
        raise CatalogError(
            f"with this definition of '{entry.name}' the sink '{sinks[0].name}' no longer fits: "
            f"its target has the columns {', '.join(was.names)} as they were",
            next_step=f"keep the columns and their types, or DROP SINK {name_sql(sinks[0].name)} first",
        )


def bind_drop_sink(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind DROP SINK [IF EXISTS] name."""
    if node.args.get("exists") and node.name.casefold() not in catalog.sinks:
        return S.DropSink(None)
    with script.blame(node.this):
        return S.DropSink(catalog.get_sink(node.name).name)


def bind_show_sink(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind DESCRIBE SINK name and SHOW CREATE SINK name."""
    with script.blame(node.this):
        return S.ShowSink(catalog.get_sink(node.name).name, bool(node.args.get("sql")))


def bind_resume_sink(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind ALTER SINK name RESUME."""
    with script.blame(node.this):
        return S.ResumeSink(catalog.get_sink(node.name).name)


SINK_BINDERS: dict[type, Callable[[exp.Expr, Script, Catalog], S.Statement]] = {
    ast.CreateSinkSyntax: bind_create_sink,
    ast.DropSinkSyntax: bind_drop_sink,
    ast.ShowSinkSyntax: bind_show_sink,
    ast.ResumeSinkSyntax: bind_resume_sink,
}
