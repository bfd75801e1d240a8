"""The values of INSERT and UPDATE, fitted to the columns that they go into."""

from __future__ import annotations

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.changes import Record
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Expression, Literal
from everview.algebra.schema import Field, Schema
from everview.algebra.storing import convert_for_storage
from everview.algebra.text import string_sql
from everview.catalog import StreamEntry, TableEntry, given_entry
from everview.errors import SqlError, format_count
from everview.sql import ast
from everview.sql.context import Context
from everview.sql.literals import EXAMPLES
from everview.sql.scope import Scope
from everview.sql.script import Script
from everview.sql.times import is_clock_call


def bind_inserted_rows(
    node: exp.Expr, entry: StreamEntry | TableEntry, context: Context
) -> tuple[Record, ...]:
    """Return the rows of VALUES, complete: columns that are not named get their default or NULL."""
    rows = []
    for row in node.args["rows"]:
        targets = _targets(node, entry, context.script, len(row.expressions))
        if len(row.expressions) != len(targets):
            raise context.script.error(
                f"{format_count(len(row.expressions), 'value')} for {format_count(len(targets), 'column')}: "
                f"{', '.join(t.name for t in targets)}",
                row,
            )
        given = dict(entry.defaults) | {
            target.name: _inserted_value(value, target, entry, context)
            for target, value in zip(targets, row.expressions, strict=True)
        }
        rows.append(tuple(given.get(f.name) for f in entry.columns))
    return tuple(rows)


def _targets(node: exp.Expr, entry: StreamEntry | TableEntry, script: Script, given: int) -> list[Field]:
    """Return the columns that are filled, where so many values are given.

    Columns that are stamped on ARRIVAL or computed may be left out: a value for one can only be NULL.
    """
    names = node.args.get("columns")
    if names is None:
        return list((entry if given == len(entry.columns) else given_entry(entry)).columns)
    targets: list[Field] = []
    for name in names:
        with script.blame(name):
            target = entry.columns.find(name.name)
        if target in targets:
            raise script.error(f"the column '{target.name}' stands twice", name)
        targets.append(target)
    filled = {name for name, _ in entry.defaults}
    for field in entry.columns:
        if field not in targets and field.name not in filled and (why := _why_required(field, entry)):
            raise script.error(
                f"the {why} '{field.name}' needs a value",
                node.this,
                next_step=f"add {field.name} to the columns",
            )
    return targets


def _why_required(field: Field, entry: StreamEntry | TableEntry) -> str | None:
    """Return why a column cannot be NULL, if that is so."""
    if _why_made(field, entry) is not None:
        return None
    if isinstance(entry, StreamEntry) and field.timeline is not None:
        return "time line"
    if isinstance(entry, TableEntry) and field.name in entry.key:
        return "key column"
    return "NOT NULL column" if field.name in entry.not_null else None


def _why_made(field: Field, entry: StreamEntry | TableEntry) -> str | None:
    """Return how a column gets its value, if no value can be given."""
    if not isinstance(entry, StreamEntry) or field.name not in entry.made:
        return None
    if field.name in entry.stamped:
        return f"the clock stamps '{field.name}' on ARRIVAL, so no value can be given"
    return f"the column '{field.name}' is computed, so no value can be given"


def _require_value(
    value: object, target: Field, entry: StreamEntry | TableEntry, node: exp.Expr, script: Script
) -> None:
    if value is None and (why := _why_required(target, entry)):
        raise script.error(f"the {why} '{target.name}' cannot be NULL", node)


def _inserted_value(
    node: exp.Expr, target: Field, entry: StreamEntry | TableEntry, context: Context
) -> object:
    value = (
        default_of(target, entry)
        if isinstance(node, ast.DefaultSyntax)
        else bind_constant(node, target, context)
    )
    _require_value(value, target, entry, node, context.script)
    if value is not None and (why := _why_made(target, entry)) is not None:
        raise context.script.error(why, node, next_step="leave it out, or write DEFAULT")
    return value


def default_of(field: Field, entry: StreamEntry | TableEntry) -> object:
    """Return the value of a column where none is given."""
    return dict(entry.defaults).get(field.name)


def bind_constant(node: exp.Expr, target: Field, context: Context, where: str = "VALUES") -> object:
    """Return the value of an expression without names, fitted to a column."""
    name = node.find(exp.Column)
    if name is not None:
        raise context.script.error(
            f"{where} {'holds constants' if where == 'VALUES' else 'is a constant'}, "
            f"and {name.name} is a name",
            name,
            next_step=f"put text into quotes: {string_sql(name.name)}",
        )
    clock = next((part for part in node.walk() if is_clock_call(part)), None)
    if where == "DEFAULT" and clock is not None:
        raise context.script.error(
            "a DEFAULT is one value for all rows, and this is another one each time",
            clock,
            next_step="write it in the VALUES of INSERT",
        )
    bound = context.binder(Scope(), where).bind(node)
    return _fit_constant(evaluate(bound, Schema(()), ()), bound, target, node, context.script)


def _fit_constant(value: object, bound: Expression, target: Field, node: exp.Expr, script: Script) -> object:
    if value is None:
        return None
    if not is_storable(bound.type, target.type):
        raise script.error(f"the column '{target.name}' takes {target.type}, not {bound.type}", node)
    fitted = convert_for_storage(value, bound.type, target.type)
    if fitted is None:
        example = EXAMPLES.get(target.type)
        raise script.error(
            f"the value does not fit the column '{target.name}', {target.type.a}",
            node,
            next_step=None if example is None else f"write it as {example}",
        )
    return fitted


def is_storable(source: T.DataType, target: T.DataType) -> bool:
    """Return whether a value of one type may be stored as another: numbers as numbers, text as its value."""
    if source == target or source == T.VOID:
        return True
    if source.is_numeric and target.is_numeric:
        return True
    if source == T.STRING:
        return target != T.INTERVAL
    return source in (T.DATE, T.TIMESTAMP) and target.is_temporal


def match_query_columns(
    schema: Schema, entry: StreamEntry | TableEntry, node: exp.Expr, script: Script
) -> tuple[str, ...]:
    """Return the columns of a stream or table that a query fills; raise an error if it does not fit."""
    targets = _targets(node, entry, script, len(schema))
    if len(schema) != len(targets):
        raise script.error(
            f"the query has {format_count(len(schema), 'column')}, "
            f"and {format_count(len(targets), 'column')} "
            f"{'is' if len(targets) == 1 else 'are'} to be filled: {', '.join(t.name for t in targets)}",
            node.args["query"],
        )
    for source, target in zip(schema, targets, strict=True):
        if not is_storable(source.type, target.type):
            raise script.error(
                f"the column '{target.name}' takes {target.type}, not {source.type}", node.args["query"]
            )
    return tuple(t.name for t in targets)


def _target(column: exp.Column, entry: TableEntry, scope: Scope) -> Field:
    """Return the column of the table that SET names, alone or under the name of the table here."""
    name = scope.relations[0][0]
    if column.table and column.table.casefold() != (name or "").casefold():
        raise SqlError(f"SET changes columns of {name}, and this is one of {column.table}")
    return entry.columns.find(column.name)


def bind_assignments(
    node: exp.Expr, entry: TableEntry, scope: Scope, context: Context
) -> tuple[tuple[str, Expression], ...]:
    """Bind SET column = value, …: values may use the row's old values, and those of FROM."""
    made: list[tuple[str, Expression]] = []
    for item in node.args["assignments"]:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            raise context.script.error("SET takes column = value", item)
        with context.script.blame(item.this):
            target = _target(item.this, entry, scope)
        if target.name in [name for name, _ in made]:
            raise context.script.error(f"the column '{target.name}' is set twice", item.this)
        if isinstance(item.expression, ast.DefaultSyntax):
            filled = default_of(target, entry)
            _require_value(filled, target, entry, item.expression, context.script)
            made.append((target.name, Literal(filled, target.type)))
            continue
        value = context.binder(scope, "SET").bind(item.expression)
        if isinstance(value, Literal):
            _require_value(value.value, target, entry, item.expression, context.script)
            fitted = _fit_constant(value.value, value, target, item.expression, context.script)
            made.append((target.name, Literal(fitted, target.type)))
            continue
        if not is_storable(value.type, target.type):
            raise context.script.error(
                f"the column '{target.name}' takes {target.type}, not {value.type}", item.expression
            )
        made.append((target.name, value))
    return tuple(made)
