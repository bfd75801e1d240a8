"""CREATE STREAM, CREATE TABLE and the options of a view: from syntax to catalog entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.expressions import Expression
from everview.algebra.schema import Field, Schema
from everview.algebra.time import INFINITY, WEEK
from everview.catalog import (
    MAX_AHEAD,
    Defaults,
    Expected,
    FedEntry,
    Lateness,
    Source,
    StreamEntry,
    TableEntry,
    stream_columns,
)
from everview.errors import SqlError, nearest
from everview.sql import ast
from everview.sql.context import Context
from everview.sql.literals import data_type, duration
from everview.sql.rows import bind_constant, is_storable
from everview.sql.scope import Scope
from everview.sql.script import Script
from everview.sql.sources import bind_source

_VIEW_OPTIONS = ("history",)
_STREAM_OPTIONS = ("rate", "distinct")
_EXPECTED = "write rate => 1000 for rows a second, distinct(k) => 50 for the different values of a column"
_HISTORY = "write history => INTERVAL '1' DAY, history => 'forever', or history => 'none'"


class Retained(NamedTuple):
    """How much of the changes of a view is retained: a length of time, and a number in any case."""

    history: int
    least_changes: int = 0


# Without WITH (history => …), all changes of a small view, and of a large one what most people look back at.
DEFAULT_HISTORY = Retained(WEEK, 1_000_000)
ALL_CHANGES = Retained(INFINITY)


def declare_stream(node: exp.Expr, context: Context) -> StreamEntry:
    """Declare a stream: columns, TIMELINE, CHECK, FROM, MAX AHEAD, PUNCTUATE WHEN, IDLE AFTER, WITH."""
    script = context.script
    arrivals = {
        line.this.name.casefold() for line in node.args.get("timelines") or () if line.args.get("arrival")
    }
    fields, computed = _stream_fields(node, arrivals, context)
    lines = node.args.get("timelines") or []
    if not lines:
        raise script.error(
            f"the stream '{node.name}' has no time line",
            node.this,
            next_step="name its timestamp column: TIMELINE ts LATENESS INTERVAL '5' SECOND",
        )
    declared: list[Lateness] = []
    sequence: tuple[str, ...] = ()
    for line in lines:
        column = _declared(fields, line.this, script)
        with script.blame(line.this):
            Field(column.name, column.type, timeline=0)
        if column.name in [d.column for d in declared]:
            raise script.error(f"the time line '{column.name}' stands twice", line.this)
        lateness = line.args.get("lateness")
        length = 0 if lateness is None else duration(lateness, script)
        if length < 0:
            raise script.error("LATENESS cannot be negative", lateness)
        arrival = bool(line.args.get("arrival"))
        if arrival and lateness is not None:
            raise script.error(
                f"the time line '{column.name}' is stamped on ARRIVAL, so no row of it is late",
                lateness,
                next_step="leave LATENESS out",
            )
        declared.append(Lateness(column.name, length, arrival))
        if (order := line.args.get("sequence")) is not None:
            if len(declared) > 1:
                raise script.error(
                    "SEQUENCE BY belongs to the first TIMELINE: windows use that one", order[0]
                )
            sequence = declared_names(fields, order, script)
    idle = node.args.get("idle")
    source = bind_source(node.args.get("source"), node.args["columns"], script)
    columns = stream_columns(fields, [d.column for d in declared])
    stamped = [d.column for d in declared if d.arrival]
    _require_given_columns(node, stamped, script)
    return StreamEntry(
        node.name,
        columns,
        tuple(declared),
        sequence,
        None if idle is None else _positive(idle, "IDLE AFTER", script),
        source,
        *_constraints(node, fields, context),
        _max_ahead(node.args.get("ahead"), source, script),
        tuple(
            _stream_condition(c, "CHECK", node.name, columns, stamped, context)
            for c in node.args.get("checks") or ()
        ),
        None
        if (when := node.args.get("punctuate")) is None
        else _stream_condition(when, "PUNCTUATE WHEN", node.name, columns, stamped, context),
        _expected(node.args.get("options") or (), fields, script),
        computed,
    )


def _stream_fields(
    node: exp.Expr, arrivals: Collection[str], context: Context
) -> tuple[tuple[Field, ...], tuple[tuple[str, str], ...]]:
    """Return the columns of a stream, and those that are computed, with the text of their expressions."""
    script, columns = context.script, node.args["columns"]
    given = _fields([c for c in columns if c.args.get("computed") is None], script)
    readable = Schema(tuple(f for f in given if f.name.casefold() not in arrivals))
    fields: list[Field] = []
    computed: list[tuple[str, str]] = []
    for column in columns:
        syntax = column.args.get("computed")
        if column.name.casefold() in [f.name.casefold() for f in fields]:
            raise script.error(f"two columns are called '{column.name}'", column.this)
        if syntax is None:
            fields.append(next(f for f in given if f.name == column.name))
            continue
        _require_computable(node, column, arrivals, script)
        _require_given_names(syntax.this, [f.name for f in readable], columns, script)
        bound = bind_computed_column(syntax.this, node.name, readable, context)
        kind = column.args.get("kind")
        type_ = bound.type if kind is None else data_type(kind, script)
        if type_ == T.VOID or not (bound.type == type_ or is_storable(bound.type, type_)):
            raise script.error(
                f"the column '{column.name}' is computed as {bound.type}, and is declared as {type_}"
                if kind is not None
                else f"the column '{column.name}' has no type: its expression is NULL",
                syntax.this,
                next_step=f"write CAST(… AS {type_})" if kind is not None else "write CAST(NULL AS …)",
            )
        fields.append(Field(column.name, type_))
        computed.append((column.name, syntax.args["text"]))
    return tuple(fields), tuple(computed)


def _require_computable(node: exp.Expr, column: exp.Expr, arrivals: Collection[str], script: Script) -> None:
    """Refuse a computed column that the clock stamps too, or that has a DEFAULT."""
    if column.name.casefold() in arrivals:
        raise script.error(
            f"the column '{column.name}' is computed, so the clock cannot stamp it on ARRIVAL",
            column.this,
            next_step="leave ARRIVAL or the expression out",
        )
    if (default := column.args.get("default")) is not None:
        raise script.error(
            f"the column '{column.name}' is computed, so its DEFAULT is never used",
            default,
            next_step="leave DEFAULT out, and use coalesce in the expression",
        )


def _require_given_names(
    expression: exp.Expr, given: Sequence[str], columns: Sequence[exp.Expr], script: Script
) -> None:
    """Refuse a computed column that reads a column which its rows do not bring."""
    there = {name.casefold() for name in given}
    made = {c.name.casefold() for c in columns} - there
    for name in expression.find_all(exp.Column):
        if name.name.casefold() in made:
            raise script.error(
                f"a computed column reads the columns that rows bring, and '{name.name}' is none of these",
                name,
                next_step="write its expression here, too",
            )


def bind_computed_column(node: exp.Expr, name: str, columns: Schema, context: Context) -> Expression:
    """Bind the expression of a computed column over the columns that the rows of a stream bring."""
    scope = Scope()
    scope.add(name, columns.under(name))
    return context.binder(scope, "a computed column").bind(node)


def _expected(options: Sequence[exp.Expr], fields: tuple[Field, ...], script: Script) -> Expected:
    """Bind WITH (rate => 1000, distinct(k) => 50)."""
    rate: float | None = None
    distinct: dict[str, int] = {}
    for option in options:
        if not isinstance(option, ast.OptionSyntax):
            raise script.error("options are written as name => value", option, next_step=_EXPECTED)
        name, column = option.name.casefold(), option.args.get("column")
        if name not in _STREAM_OPTIONS:
            raise SqlError(
                f"a stream has no option '{option.name}'",
                place=script.place(option.this),
                meant=nearest(option.name, _STREAM_OPTIONS),
                choices=_STREAM_OPTIONS,
            )
        value = _positive_number(option.args["value"], name, script)
        if name == "rate":
            if rate is not None:
                raise script.error("the option 'rate' stands twice", option.this)
            rate = value
            continue
        if column is None:
            raise script.error("distinct needs a column", option.this, next_step=_EXPECTED)
        known = _declared(fields, column, script).name
        if known in distinct:
            raise script.error(f"distinct({known}) stands twice", option.this)
        distinct[known] = max(int(value), 1)
    return Expected(rate, tuple(distinct.items()))


def _positive_number(node: exp.Expr, name: str, script: Script) -> float:
    if not isinstance(node, exp.Literal) or node.is_string or not float(node.name) > 0:
        raise script.error(f"{name} is a number above 0", node, next_step=_EXPECTED)
    return float(node.name)


def _require_given_columns(node: exp.Expr, stamped: Sequence[str], script: Script) -> None:
    """Refuse a stream whose rows have nothing but the time of the clock, and defaults for that time."""
    columns = [c for c in node.args["columns"] if c.args.get("computed") is None]
    if not columns:
        raise script.error(
            f"all columns of the stream '{node.name}' are computed, so its rows hold nothing",
            node.this,
            next_step="declare a column that its rows bring",
        )
    if len(stamped) == len(columns):
        raise script.error(
            f"all columns of the stream '{node.name}' are stamped on ARRIVAL, so its rows hold nothing",
            node.this,
            next_step="declare a column that its rows bring",
        )
    for column in columns:
        default = column.args.get("default")
        if default is not None and column.name in stamped:
            raise script.error(
                f"the clock stamps '{column.name}' on ARRIVAL, so its DEFAULT is never used",
                default,
                next_step="leave DEFAULT out",
            )


def _stream_condition(
    node: exp.Expr, clause: str, name: str, columns: Schema, stamped: Sequence[str], context: Context
) -> str:
    """Return the text of a condition over the columns of a stream, if it binds.

    It is tested before the clock stamps the row.
    """
    bound = bind_stream_condition(node.this, clause, name, columns, context)
    for column in bound.columns():
        if column.name in stamped:
            found = next(c for c in node.find_all(exp.Column) if c.name.casefold() == column.name.casefold())
            raise context.script.error(
                f"{clause} cannot use '{column.name}': it is tested before the clock stamps rows on ARRIVAL",
                found,
                next_step="compare it in a view, or in the event query",
            )
    text: str = node.args["text"]
    return text


def bind_stream_condition(
    node: exp.Expr, clause: str, name: str, columns: Schema, context: Context
) -> Expression:
    """Bind a condition over the columns of a stream."""
    scope = Scope()
    scope.add(name, columns.under(name))
    return context.binder(scope, clause).condition(node, clause)


def _max_ahead(node: exp.Expr | None, source: Source | None, script: Script) -> int | None:
    """Return how far ahead of the clock a timestamp may be; None: without a limit."""
    if node is None:
        return MAX_AHEAD
    if source is None:
        raise script.error(
            "MAX AHEAD belongs to a stream with FROM: rows that are inserted are not compared with the clock",
            node,
            next_step="leave it out",
        )
    return None if isinstance(node, exp.Null) else _positive(node, "MAX AHEAD", script)


def declare_table(node: exp.Expr, context: Context) -> TableEntry:
    """Declare a table: CREATE [NON RETROACTIVE] TABLE name (columns, PRIMARY KEY (…)) FROM …."""
    script = context.script
    fields = _fields(node.args["columns"], script)
    key = declared_names(fields, node.args.get("key") or (), script)
    source = bind_source(node.args.get("source"), node.args["columns"], script)
    constraints = _constraints(node, fields, context)
    return TableEntry(
        node.name, Schema(fields), key, not node.args.get("non_retroactive"), source, *constraints
    )


def declare_view_options(options: list[exp.Expr], script: Script) -> Retained | None:
    """Bind WITH (history => INTERVAL '1' DAY | 'forever' | 'none'); None if how long to keep is not said."""
    history: Retained | None = None
    for option in options:
        if not isinstance(option, ast.OptionSyntax):
            raise script.error("options are written as name => value", option, next_step=_HISTORY)
        if option.name.casefold() not in _VIEW_OPTIONS:
            raise SqlError(
                f"a view has no option '{option.name}'",
                place=script.place(option.this),
                meant=nearest(option.name, _VIEW_OPTIONS),
                choices=_VIEW_OPTIONS,
            )
        if history is not None:
            raise script.error(f"the option '{option.name}' stands twice", option.this)
        value = option.args["value"]
        if isinstance(value, exp.Literal) and value.name.casefold() == "forever":
            history = ALL_CHANGES
        elif isinstance(value, exp.Literal) and value.name.casefold() == "none":
            history = Retained(0)
        elif isinstance(value, (exp.Interval, exp.Add, exp.Neg)):
            history = Retained(_positive(value, "history", script))
        else:
            raise script.error("history is a length of time, 'forever' or 'none'", value, next_step=_HISTORY)
    return history


def declare_added_columns(
    node: exp.Expr, entry: FedEntry, context: Context
) -> tuple[tuple[Field, ...], Defaults]:
    """Return the columns of ALTER … ADD COLUMNS that a stream or table does not have, and their defaults.

    With IF NOT EXISTS, columns that are there already are left out.
    """
    script = context.script
    if node.args.get("exists"):
        there = {name.casefold() for name in entry.columns.names}
        node.set("columns", [c for c in node.args["columns"] if c.name.casefold() not in there])
    fields = _fields(node.args["columns"], script)
    for column in node.args["columns"]:
        same = [n for n in entry.columns.names if n.casefold() == column.name.casefold()]
        if same:
            raise script.error(
                f"the {entry.kind} '{entry.name}' has a column '{same[0]}' already",
                column.this,
                next_step="choose another name, or write ADD COLUMN IF NOT EXISTS",
            )
        if column.args.get("not_null"):
            raise script.error(
                f"earlier rows of '{entry.name}' have no value for '{column.name}': it cannot be NOT NULL",
                column.this,
                next_step="leave NOT NULL out",
            )
    source = entry.source
    if source is not None:
        node.set("source", exp.to_identifier(source.format))
    return fields, _constraints(node, fields, context)[1]


def _positive(node: exp.Expr, what: str, script: Script) -> int:
    length = duration(node, script)
    if length <= 0:
        raise script.error(f"{what} needs a length of time above zero", node)
    return length


def _fields(columns: list[exp.Expr], script: Script) -> tuple[Field, ...]:
    fields: list[Field] = []
    for column in columns:
        if column.name.casefold() in [f.name.casefold() for f in fields]:
            raise script.error(f"two columns are called '{column.name}'", column.this)
        fields.append(Field(column.name, data_type(column.args["kind"], script)))
    return tuple(fields)


def _constraints(
    node: exp.Expr, fields: tuple[Field, ...], context: Context
) -> tuple[tuple[str, ...], Defaults]:
    """Return the columns that are NOT NULL, and the values of DEFAULT. DEFAULT NULL is the same as none."""
    declared = list(zip(node.args["columns"], fields, strict=True))
    not_null = tuple(f.name for column, f in declared if column.args.get("not_null"))
    defaults = []
    for column, field in declared:
        syntax = column.args.get("default")
        if syntax is None:
            continue
        if (source := node.args.get("source")) is not None:
            raise context.script.error(
                f"DEFAULT is for rows that INSERT brings, and '{node.name}' reads {source.name}",
                syntax,
                next_step="leave DEFAULT out, and use coalesce in a view",
            )
        value = bind_constant(syntax, field, context, "DEFAULT")
        if value is not None:
            defaults.append((field.name, value))
        elif field.name in not_null:
            raise context.script.error(f"the NOT NULL column '{field.name}' cannot be NULL", syntax)
    return not_null, tuple(defaults)


def declared_names(fields: Iterable[Field], names: Iterable[exp.Expr], script: Script) -> tuple[str, ...]:
    """Return the columns of a key or an order, as they are declared, each of them once."""
    found: list[str] = []
    for name in names:
        column = _declared(tuple(fields), name, script).name
        if column in found:
            raise script.error(f"the column '{column}' stands twice", name)
        found.append(column)
    return tuple(found)


def _declared(fields: tuple[Field, ...], name: exp.Expr, script: Script) -> Field:
    with script.blame(name):
        return Schema(fields).find(name.name)
