"""ALTER … RENAME TO and ALTER … ADD COLUMNS: from syntax to statements.

The SQL of a view is stored as its text. When a name changes that it reads, that name is replaced in the text
where the binder found it, and where it qualifies columns; the rest of the text stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from everview.algebra.text import name_sql
from everview.catalog import (
    CLOCK_ENTRY,
    Catalog,
    Entry,
    EventStreamEntry,
    FedEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    kind_with_article,
)
from everview.catalog.alter import renamed_entry
from everview.errors import CatalogError, EverviewError, SqlError
from everview.sql import ast
from everview.sql import statements as S
from everview.sql.declare import declare_added_columns
from everview.sql.definitions import definition_context, entry_node, new_context
from everview.sql.query import bind_query
from everview.sql.script import Script, parse_one


def bind_add_columns(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind ALTER STREAM | TABLE name ADD COLUMNS [IF NOT EXISTS] (…)."""
    with script.blame(node.this):
        entry = catalog.get(node.name)
        if not isinstance(entry, (StreamEntry, TableEntry)) or entry is CLOCK_ENTRY:
            raise _without_columns(entry)
        _require_kind(node, entry)
        _require_known_columns(entry)
    fields, defaults = declare_added_columns(node, entry, new_context(script, catalog))
    return S.AddColumns(entry.name, fields, defaults)


def _require_known_columns(entry: FedEntry) -> None:
    """Refuse to add columns that FORMAT would decode: records that were read before may not have them."""
    if entry.source is not None and entry.source.decoding is not None:
        raise SqlError(
            f"the columns of '{entry.name}' are decoded by FORMAT {entry.source.decoding.format}, and none "
            "can be added: records that were read before may not have them",
            next_step=f"create another {entry.kind} over the same source",
        )


def _without_columns(entry: Entry) -> SqlError:
    """Return the error for an entry whose columns are not its own."""
    what = f"the columns of the {entry.kind} '{entry.name}' are those of its query"
    match entry:
        case ViewEntry():
            return SqlError(what, next_step=f"CREATE OR REPLACE VIEW {name_sql(entry.name)} AS SELECT …")
        case TaggedEntry():
            return SqlError(
                f"the columns of the tagged stream '{entry.name}' are those of the stream '{entry.over}'",
                next_step=f"ALTER STREAM {name_sql(entry.over)} ADD COLUMN …",
            )
        case EventStreamEntry():
            return SqlError(what, next_step="drop it, and create it with another query")
    return SqlError(f"'{entry.name}' is built in and has one column")


def bind_rename(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind ALTER STREAM | TABLE | VIEW name RENAME TO name."""
    with script.blame(node.this):
        entry = catalog.get(node.name)
        _require_kind(node, entry)
    new_name = node.args["to"].name
    with script.blame(node.args["to"]):
        catalog.copy().rename(entry.name, new_name)
        return S.Rename(entry.name, new_name, _rewrite_entries(entry, new_name, catalog))


def _require_kind(node: exp.Expr, entry: Entry) -> None:
    if node.args["kind"] not in entry.kind.upper().split():
        raise SqlError(
            f"'{entry.name}' is {kind_with_article(entry)}",
            next_step=f"write ALTER {entry.kind.split()[-1].upper()}",
        )


def _rewrite_entries(entry: Entry, new_name: str, catalog: Catalog) -> tuple[Entry, ...]:
    """Return the entries with SQL that names an entry, with its new name; they mean the same as before."""
    names = {
        f"{entry.name}{part}".casefold(): _name_sql(new_name, part) for part in ("", "$late", "$rejected")
    }
    found: list[Entry] = []
    for name in catalog.dependants(entry.name):
        below = renamed_entry(catalog.get(name), entry.name, new_name)
        if isinstance(below, (ViewEntry, EventStreamEntry)) and entry.name in catalog.get(name).depends_on:
            sql = _renamed_query(catalog.get(name), catalog, names)
            found.append(_with_sql(below, sql))
        elif isinstance(below, TaggedEntry) and below.delete_when is not None:
            found.append(_with_sql(below, _renamed_condition(below.delete_when, names)))
    for other in catalog:
        if isinstance(other, TableEntry) and other.as_query is not None and other.name != entry.name:
            sql = _renamed_names(other.as_query, names)
            found += [_with_sql(other, sql)] if sql != other.as_query else []
    if isinstance(entry, StreamEntry) and (entry.checks or entry.punctuate or entry.computed):
        found.append(_renamed_conditions(entry, new_name, names))
    _require_same_meaning(entry, new_name, found, catalog)
    return tuple(found)


def _renamed_conditions(entry: StreamEntry, new_name: str, names: Mapping[str, str]) -> Entry:
    """Return a stream under its new name, with CHECK, PUNCTUATE WHEN and computed columns by that name."""
    renamed = renamed_entry(entry, entry.name, new_name)
    assert isinstance(renamed, StreamEntry)
    return replace(
        renamed,
        checks=tuple(_renamed_condition(check, names) for check in entry.checks),
        punctuate=None if entry.punctuate is None else _renamed_condition(entry.punctuate, names),
        computed=tuple((column, _renamed_condition(text, names)) for column, text in entry.computed),
    )


def _name_sql(name: str, part: str) -> str:
    """Return a name with a part of the system as SQL.

    >>> _name_sql("t", "$late"), _name_sql("my t", "$late")
    ('t$late', '`my t$late`')
    """
    return f"{name}{part}" if name_sql(name) == name else name_sql(f"{name}{part}")


def _with_sql(entry: Entry, sql: str) -> Entry:
    match entry:
        case ViewEntry() | EventStreamEntry():
            return replace(entry, sql=sql)
        case TaggedEntry():
            return replace(entry, delete_when=sql)
        case TableEntry():
            return replace(entry, as_query=sql)
    raise TypeError(f"{entry.kind} has no SQL")


def _require_same_meaning(entry: Entry, new_name: str, found: Iterable[Entry], catalog: Catalog) -> None:
    """Refuse a name with which a view would read something else: it has that name for a part of its own."""
    after = catalog.copy()
    after.rename(entry.name, new_name, found)
    for name in catalog.dependants(entry.name):
        try:
            before, now = entry_node(catalog.get(name), catalog), entry_node(after.get(name), after)
            same = [f.type for f in before.schema] == [f.type for f in now.schema]
            same = same and before.schema.names == now.schema.names
        except EverviewError:
            same = False
        if not same:
            raise CatalogError(
                f"the {catalog.get(name).kind} '{name}' uses the name '{new_name}' for something else",
                next_step="choose another name",
            )


def _renamed_query(entry: Entry, catalog: Catalog, names: Mapping[str, str]) -> str:
    """Return the query of an entry in which the binder has found names of the catalog, with new ones."""
    assert isinstance(entry, (ViewEntry, EventStreamEntry))
    context = definition_context(entry, catalog)
    bind_query(parse_one(entry.sql), context)
    named = {ast.span(name): names[name.name.casefold()] for name in context.references if _is(name, names)}
    tree = parse_one(entry.sql)
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and _is(qualifier, names) and _qualifies(column, qualifier.name, named):
            named[ast.span(qualifier)] = names[qualifier.name.casefold()]
    return _replace_names(entry.sql, named)


def _is(name: exp.Expr, names: Mapping[str, str]) -> bool:
    return name.name.casefold() in names


def _qualifies(column: exp.Expr, name: str, named: Mapping[tuple[int, int] | None, str]) -> bool:
    """Return whether the relation by which a column is qualified is one of those that get a new name.

    It is that of the innermost query around the column which has a relation of this name.
    """
    query = column.find_ancestor(exp.Select)
    while query is not None:
        for relation in query.find_all(exp.Table, exp.Subquery):
            inside = relation.find_ancestor(exp.Select) is query
            if inside and relation.alias_or_name.casefold() == name.casefold():
                return not relation.alias and ast.span(relation.this) in named
        query = query.find_ancestor(exp.Select)
    return False


def _renamed_condition(sql: str, names: Mapping[str, str]) -> str:
    """Return a condition with the new name of the stream where it qualifies columns."""
    prefix = "SELECT "
    tree = parse_one(prefix + sql)
    tables = (column.args.get("table") for column in tree.find_all(exp.Column))
    named = {ast.span(t): names[t.name.casefold()] for t in tables if t is not None and _is(t, names)}
    return _replace_names(prefix + sql, named).removeprefix(prefix)


def _renamed_names(sql: str, names: Mapping[str, str]) -> str:
    """Return the query that a table was made from with new names; it is not bound again."""
    try:
        tree = parse_one(sql)
    except EverviewError:
        return sql
    ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    tables = [t for t in tree.find_all(exp.Table) if _is(t, names) and t.name.casefold() not in ctes]
    named = {ast.span(t.this): names[t.name.casefold()] for t in tables}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and _is(qualifier, names) and _qualifies(column, qualifier.name, named):
            named[ast.span(qualifier)] = names[qualifier.name.casefold()]
    return _replace_names(sql, named)


def _replace_names(sql: str, named: Mapping[tuple[int, int] | None, str]) -> str:
    """Return a text with names, which are SQL, in place of others."""
    for place, name in sorted(named.items(), reverse=True, key=lambda pair: pair[0] or (0, 0)):
        assert place is not None
        sql = sql[: place[0]] + name + sql[place[1] :]
    return sql
