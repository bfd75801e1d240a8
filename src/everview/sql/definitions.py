"""What the names of a catalog stand for: streams, tables, tagged streams, views, late and rejected rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Cast, Column, Expression
from everview.algebra.schema import Schema
from everview.algebra.time import Chronon
from everview.catalog import (
    Catalog,
    Entry,
    EventStreamEntry,
    FedEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    narrowed_entry,
    stream_columns,
    untaken_columns,
)
from everview.errors import CatalogError, EverviewError
from everview.sql.context import BoundQuery, Context
from everview.sql.declare import bind_computed_column, bind_stream_condition
from everview.sql.guard import refuse_unused
from everview.sql.query import bind_query
from everview.sql.scope import Scope
from everview.sql.script import Script, parse_one


def view_plan(entry: ViewEntry | EventStreamEntry, catalog: Catalog, making: str | None = None) -> N.Node:
    """Return the plan of a view or an event stream of the catalog, under the names of its columns."""
    return definition_plan(entry, catalog, making)


def plan_of(sql: str, catalog: Catalog) -> N.Node:
    """Return the plan of one query as a view would have it."""
    node = parse_one(sql)
    script = Script(sql)
    with script.refuse_deep_nesting(node):
        refuse_unused(node, script, ad_hoc=False)
        return bind_query(node, new_context(script, catalog)).plan


def check_conditions(entry: StreamEntry) -> tuple[Expression, ...]:
    """Return the conditions of CHECK of a stream, in their order."""
    return tuple(_stream_condition(text, "CHECK", entry.name, entry.columns) for text in entry.checks)


def punctuation_condition(entry: StreamEntry) -> Expression | None:
    """Return the condition of PUNCTUATE WHEN of a stream."""
    if entry.punctuate is None:
        return None
    return _stream_condition(entry.punctuate, "PUNCTUATE WHEN", entry.name, entry.columns)


def computed_columns(entry: StreamEntry) -> tuple[tuple[str, Expression], ...]:
    """Return the columns of a stream that are computed, with their expressions, each of the column's type."""
    return _computed_columns(entry.name, entry.columns, entry.made, entry.computed)


@lru_cache(maxsize=256)
def _computed_columns(
    name: str, columns: Schema, made: tuple[str, ...], computed: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, Expression], ...]:
    readable = Schema(tuple(f for f in columns if f.name not in made))
    found = []
    for column, text in computed:
        script = Script(f"SELECT {text}")
        syntax = parse_one(script.text).expressions[0]
        bound = bind_computed_column(syntax, name, readable, new_context(script, Catalog()))
        type_ = columns.find(column).type
        found.append((column, bound if bound.type == type_ else Cast(bound, type_)))
    return tuple(found)


def with_computed_values(entry: StreamEntry, record: Record) -> Record:
    """Return a row with the values of the computed columns, which are not given."""
    if not entry.computed:
        return record
    columns, values = entry.columns.under(entry.name), list(record)
    for name, expression in computed_columns(entry):
        values[entry.columns.names.index(name)] = evaluate(expression, columns, record)
    return tuple(values)


@lru_cache(maxsize=256)  # each INSERT asks for them
def _stream_condition(text: str, clause: str, name: str, columns: Schema) -> Expression:
    """Bind the text of a condition over the columns of a stream; it names nothing else."""
    script = Script(f"SELECT {text}")
    syntax = parse_one(script.text).expressions[0]
    return bind_stream_condition(syntax, clause, name, columns, new_context(script, Catalog()))


def relation_of(name: str, catalog: Catalog) -> N.Node:
    """Return the node that a name of the catalog stands for."""
    return entry_node(catalog.get(name), catalog)


def new_context(
    script: Script,
    catalog: Catalog,
    making: str | None = None,
    now: Chronon | None = None,
    widths: Mapping[str, int] = MappingProxyType({}),
    stamped: bool = True,
) -> Context:
    """Return the context of a statement that may create an entry, or asks at an instant.

    `widths` says of which streams and tables only so many columns are read, `stamped` that the streams of a
    relation have their instants.
    """

    def read(name: str, context: Context) -> BoundQuery:
        if name.casefold() in context.ctes:
            return context.ctes[name.casefold()]
        return BoundQuery.of(_read(name, context, making, widths))

    return Context(script, catalog, bind_query, read, now, stamped=stamped)


def _read(name: str, context: Context, making: str | None, widths: Mapping[str, int]) -> N.Node:
    """Return the node that a name in FROM stands for."""
    if making is not None and name.casefold() == making.casefold():
        raise CatalogError(
            f"'{making}' would depend on itself", next_step="read what it is made from instead"
        )
    stream, _, kind = name.rpartition("$")
    if kind.casefold() in ("late", "rejected") and stream in context.catalog:
        below = context.catalog.get(stream)
        kept = ("late", "rejected") if isinstance(below, StreamEntry) else ("rejected",)
        if isinstance(below, (StreamEntry, TableEntry)) and kind.casefold() in kept:
            context.used[below.name] = None
            below = _narrowed(below, widths)
            return N.Stream(f"{below.name}${kind.casefold()}", untaken_columns(below, kind.casefold()))
    entry = context.catalog.get(name)
    context.used[entry.name] = None
    return entry_node(entry, context.catalog, making, widths)


def _narrowed(entry: FedEntry, widths: Mapping[str, int]) -> FedEntry:
    """Return a stream or table with the columns that are read."""
    return narrowed_entry(entry, widths[entry.name]) if entry.name in widths else entry


def entry_node(
    entry: Entry,
    catalog: Catalog,
    making: str | None = None,
    widths: Mapping[str, int] = MappingProxyType({}),
) -> N.Node:
    """Return the node that an entry stands for."""
    if isinstance(entry, (StreamEntry, TableEntry)):
        entry = _narrowed(entry, widths)
    match entry:
        case StreamEntry():
            return N.Stream(entry.name, entry.columns, entry.sequence)
        case TableEntry():
            return N.Table(entry.name, entry.columns, entry.key, entry.retroactive)
        case TaggedEntry():
            below = entry_node(catalog.get(entry.over), catalog, making, widths)
            condition = None
            if entry.delete_when is not None:
                script = Script(f"SELECT {entry.delete_when}")
                scope = Scope()
                scope.add(entry.over, below.schema)
                syntax = parse_one(script.text).expressions[0]
                condition = (
                    new_context(script, catalog).binder(scope, "DELETE WHEN").condition(syntax, "DELETE WHEN")
                )
            return N.View(entry.name, N.Tagged(below, entry.key, condition))
        case ViewEntry():
            return N.View(entry.name, view_plan(entry, catalog, making))
        case EventStreamEntry():
            plan = definition_plan(entry, catalog, making)
            return N.Stream(entry.name, stream_columns(plan.schema.fields, list(entry.timelines)))


def definition_context(
    entry: ViewEntry | EventStreamEntry, catalog: Catalog, making: str | None = None
) -> Context:
    """Return the context in which a definition of the catalog is bound."""
    widths = dict(entry.read_columns)
    return new_context(Script(entry.sql), catalog, making, widths=widths, stamped=entry.stamped)


def definition_plan(
    entry: ViewEntry | EventStreamEntry, catalog: Catalog, making: str | None = None
) -> N.Node:
    """Return the plan of a definition; it is bound once, until it or what it reads is replaced."""
    known = catalog.bound_definition(entry)
    if known is not None and (making is None or entry.name not in catalog.dependants(making)):
        return known
    try:
        plan = bind_query(parse_one(entry.sql), definition_context(entry, catalog, making)).plan
    except EverviewError as error:
        error.place = None  # it is in the text of the view, not in the present statement
        raise
    if isinstance(entry, ViewEntry) and entry.column_names not in ((), plan.schema.names):
        columns = zip(entry.column_names, plan.schema, strict=True)
        plan = N.Project(plan, tuple((name, Column.to(f)) for name, f in columns))
    catalog.remember_definition(entry, plan)
    return plan
