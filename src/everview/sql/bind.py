"""The binder of statements: from syntax and a catalog to statements that the engine executes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.evaluate import evaluate
from everview.algebra.schema import Field, Schema
from everview.catalog import (
    CLOCK_ENTRY,
    Catalog,
    Entry,
    EventStreamEntry,
    QueryEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    kind_with_article,
)  # fmt: skip
from everview.errors import CatalogError, EverviewError, SqlError, nearest
from everview.sql import ast
from everview.sql import statements as S
from everview.sql.ad_hoc import bind_ad_hoc
from everview.sql.alter import bind_add_columns, bind_rename
from everview.sql.answers import require_distinct_names, require_types
from everview.sql.changes import bind_delete, bind_update
from everview.sql.context import BoundQuery, Context
from everview.sql.declare import (
    ALL_CHANGES,
    DEFAULT_HISTORY,
    declare_stream,
    declare_table,
    declare_view_options,
    declared_names,
)
from everview.sql.definitions import (
    check_conditions,
    definition_plan,
    entry_node,
    new_context,
    view_plan,
    with_computed_values,
)
from everview.sql.events import EventPlaces, event_time_lines, require_event_query
from everview.sql.guard import refuse_unused
from everview.sql.literals import bind_instant, duration
from everview.sql.parameters import bind_parameters
from everview.sql.query import bind_query
from everview.sql.renaming import rename_columns
from everview.sql.replay import bind_replay
from everview.sql.rows import bind_inserted_rows, match_query_columns
from everview.sql.scope import Scope
from everview.sql.script import Script, parse_script
from everview.sql.sinks import SINK_BINDERS, require_same_columns


def bind_script(
    text: str, catalog: Catalog, parameters: Mapping[str, object] | None = None
) -> Iterator[S.Statement]:
    """Yield the statements of a script. Each is bound lazily, after those before it were executed.

    `parameters` has the values of `:name`.

    >>> catalog = Catalog()
    >>> sql = "CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts); SELECT v FROM s [NOW]"
    >>> for statement in bind_script(sql, catalog):
    ...     if isinstance(statement, S.Create):
    ...         _ = catalog.add(statement.entry)
    >>> statement.query.plan.schema.names
    ('v',)
    """
    script = Script(text)
    for node in bind_parameters(parse_script(text), script, parameters or {}):
        yield bind_statement(node, script, catalog)


def bind_statement(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind one statement."""
    if isinstance(node, ast.ExplainSyntax) and isinstance(node.this, _CREATES):
        return replace(_explain_create(node.this, script, catalog), cost=bool(node.args.get("cost")))
    with script.refuse_deep_nesting(node):
        refuse_unused(node, script)
        if (there := _existing(node, catalog)) is not None:
            return there
        return _BINDERS.get(type(node), _select)(node, script, catalog)


def _existing(node: exp.Expr, catalog: Catalog) -> S.Create | None:
    """Bind CREATE … IF NOT EXISTS of a name that exists: the entry stays as it is."""
    if not node.this or not isinstance(node.this, exp.Identifier) or not node.this.meta.get("if_not_exists"):
        return None
    if isinstance(node, ast.CreateSinkSyntax):  # the names of sinks are others
        return None
    entry = catalog.entries.get(node.name.casefold())
    return None if entry is None else S.Create(entry, _plan(entry, catalog))


def _plan(entry: Entry, catalog: Catalog) -> N.Node | None:
    """Return the plan of an entry that has a definition."""
    match entry:
        case ViewEntry():
            return view_plan(entry, catalog)
        case EventStreamEntry():
            return definition_plan(entry, catalog)
        case TaggedEntry():
            return entry_node(entry, catalog)
    return None


# CREATE


def _create_stream(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    return S.Create(declare_stream(node, new_context(script, catalog)))


def _create_table(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    return S.Create(declare_table(node, new_context(script, catalog)))


def _create_table_as(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind CREATE TABLE … AS SELECT: the columns are those of the query."""
    query = bind_ad_hoc(node.args["query"], _ad_hoc_context(script, catalog))
    require_distinct_names(BoundQuery(query.plan, query.names), [], node, script)
    pairs = zip(query.names, query.plan.schema.types, strict=False)  # further columns are to order by
    columns = Schema(tuple(Field(name, type_) for name, type_ in pairs))
    require_types(columns, node, script)
    retroactive = not node.args.get("non_retroactive")
    entry = TableEntry(node.name, columns, retroactive=retroactive, as_query=node.args["text"])
    with script.blame(node.this):
        _require_addable(entry, catalog, anew=False)
    return S.CreateAs(entry, query)


def _create_tagged(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    over = node.args["over"]
    with script.blame(over):
        below = catalog.get(over.name)
    if not isinstance(below, (StreamEntry, EventStreamEntry)):
        raise script.error(
            f"a tagged stream is made over a stream, and '{below.name}' is {kind_with_article(below)}", over
        )
    columns = entry_node(below, catalog).schema
    keys = declared_names(columns, node.args["key"], script)
    if (delete := node.args.get("delete")) is not None:
        scope = Scope()
        scope.add(below.name, columns)
        new_context(script, catalog).binder(scope, "DELETE WHEN").condition(delete, "DELETE WHEN")
    entry = TaggedEntry(node.name, below.name, keys, node.args.get("text"))
    plan = entry_node(entry, catalog)
    before = catalog.entries.get(entry.name.casefold())
    if isinstance(before, TaggedEntry) and entry_node(replace(before, name=entry.name), catalog) == plan:
        entry = before
    return S.Create(entry, plan)


def _create_view(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    name, text = node.name, node.args["text"]
    retained = declare_view_options(node.args.get("options") or [], script)
    columns = node.args.get("columns") or []
    widths, stamped = _reading(node, catalog)
    context = new_context(script, catalog, making=name, widths=dict(widths), stamped=stamped)
    query = bind_query(node.args["query"], context)
    if columns:
        query = rename_columns(query, [c.name for c in columns], exp.Tuple(expressions=columns), context)
    require_distinct_names(query, columns, node, script)
    plan = query.plan
    require_types(plan.schema, node, script)
    given = tuple(c.name for c in columns)
    before, anew = catalog.entries.get(name.casefold()), bool(node.args.get("replace"))
    if retained is None:  # a view that was made when the default was to keep all goes on to keep it
        forever = isinstance(before, ViewEntry) and before.history == ALL_CHANGES.history
        retained = ALL_CHANGES if forever else DEFAULT_HISTORY
    entry = ViewEntry(
        name,
        text,
        bool(node.args.get("complete")),
        retained.history,
        tuple(context.used),
        given,
        widths,
        retained.least_changes,
        stamped,
    )
    if isinstance(before, ViewEntry) and view_plan(before, catalog) == plan:  # the same plan in another text
        entry = replace(
            entry,
            sql=before.sql,
            depends_on=before.depends_on,
            column_names=before.column_names,
            stamped=before.stamped,
        )
    with script.blame(node.this):
        _require_addable(entry, catalog, anew)
    return S.Create(entry, plan, anew)


def _reading(node: exp.Expr, catalog: Catalog) -> tuple[tuple[tuple[str, int], ...], bool]:
    """Return how CREATE reads its query: the numbers of columns, and whether streams have their instants.

    The same text is the same entry: it is read as it was when it was made, if columns were added since, or
    an earlier release made it.
    """
    new = (), node.args["query"].find(ast.StreamFunctionSyntax) is not None
    before = catalog.entries.get(node.name.casefold())
    if not isinstance(before, QueryEntry) or node.args.get("replace"):
        return new
    was = before.read_columns, before.stamped
    if was == new:
        return new
    again: QueryEntry = replace(before, sql=node.args["text"])
    if isinstance(again, ViewEntry):
        again = replace(again, column_names=tuple(c.name for c in node.args.get("columns") or ()))
    with suppress(EverviewError):
        if definition_plan(again, catalog, making=node.name) == view_plan(before, catalog):
            return was
    return new


def _require_addable(entry: Entry, catalog: Catalog, anew: bool) -> None:
    """Refuse a name that is in use, and a new definition with which its dependants no longer bind."""
    after = catalog.copy()
    after.add(entry, anew)
    if anew:
        require_same_columns(entry, catalog, after)
    for name in catalog.dependants(entry.name) if anew else ():
        try:
            entry_node(after.get(name), after)
        except EverviewError as error:
            raise CatalogError(
                f"with this definition of '{entry.name}' the {after.get(name).kind} '{name}' no longer fits: "
                f"{error.what}",
                next_step=f"keep what '{name}' uses, or drop it first",
            ) from None
        require_same_columns(after.get(name), catalog, after)


def _create_event_stream(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind CREATE STREAM … TIMELINE … AS SELECT, an event query (paper 3)."""
    before = catalog.entries.get(node.name.casefold())
    widths, stamped = _reading(node, catalog)
    context = new_context(script, catalog, making=node.name, widths=dict(widths), stamped=stamped)
    query = bind_query(node.args["query"], context)
    require_distinct_names(query, [], node, script)
    plan = query.plan
    require_types(plan.schema, node, script)
    require_event_query(plan, node, script)
    lines = event_time_lines(plan, node, script)
    given = declare_view_options(node.args.get("options") or [], script)
    retained = DEFAULT_HISTORY if given is None else given
    entry = EventStreamEntry(
        node.name,
        node.args["text"],
        lines,
        tuple(context.used),
        retained.history,
        retained.least_changes,
        widths,
        stamped,
    )
    if isinstance(before, EventStreamEntry) and definition_plan(before, catalog) == plan:
        entry = replace(entry, sql=before.sql, depends_on=before.depends_on, stamped=before.stamped)
    with script.blame(node.this):
        _require_addable(entry, catalog, anew=False)
    return S.Create(entry, plan, places=EventPlaces(node, script))


def _checked(bind: Callable[[exp.Expr, Script, Catalog], S.Statement]) -> Callable[..., S.Statement]:
    """Check for CREATE that the name is free, or has exactly the same entry."""

    def bound(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
        made = bind(node, script, catalog)
        if isinstance(made, S.Create):
            with script.blame(node.this):
                _require_addable(made.entry, catalog, made.replace)
        return made

    return bound


# Changes of rows


def _writable(
    name: exp.Expr, script: Script, catalog: Catalog, tables_only: str | None
) -> StreamEntry | TableEntry:
    with script.blame(name):
        entry = catalog.get(name.name)
    if isinstance(entry, TableEntry):
        return entry
    if tables_only is not None:
        raise script.error(
            f"only a table can be {tables_only}, and '{entry.name}' is {kind_with_article(entry)}",
            name,
            next_step="make a TAGGED STREAM over it: there a later row replaces or removes an earlier one"
            if isinstance(entry, StreamEntry) and entry is not CLOCK_ENTRY
            else None,
        )
    if entry is CLOCK_ENTRY:
        raise script.error(
            f"'{entry.name}' ticks by itself",
            name,
            next_step="set its grain with CLOCK EVERY INTERVAL '1' SECOND",
        )
    if not isinstance(entry, StreamEntry):
        below = f"insert into {entry.over}, the stream below" if isinstance(entry, TaggedEntry) else None
        raise script.error(
            f"rows go into a stream or a table, and '{entry.name}' is {kind_with_article(entry)}",
            name,
            next_step=below,
        )
    if entry.source is not None:
        raise script.error(
            f"the stream '{entry.name}' reads {entry.source.format}, so nothing can be inserted",
            name,
            next_step="declare a stream without FROM",
        )
    return entry


def _at(node: exp.Expr, entry: StreamEntry | TableEntry, script: Script) -> int | None:
    at = node.args.get("at")
    if at is None:
        return None
    if isinstance(entry, StreamEntry):
        raise script.error("rows of a stream have their own time: AT is for tables", at)
    return bind_instant(at, script)


def _insert(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    entry = _writable(node.this, script, catalog, None)
    at = _at(node, entry, script)
    if node.args.get("query") is not None:
        query = bind_ad_hoc(node.args["query"], _ad_hoc_context(script, catalog))
        answered = Schema(query.plan.schema.fields[: len(query.names)])  # the others are to order by
        columns = match_query_columns(answered, entry, node, script)
        return S.InsertQuery(entry.name, query, columns, at)
    rows = bind_inserted_rows(node, entry, _ad_hoc_context(script, catalog))
    if isinstance(entry, StreamEntry):
        rows = tuple(with_computed_values(entry, row) for row in rows)
        _require_checks(node, rows, entry, script)
    return S.Insert(entry.name, rows, at)


def _require_checks(node: exp.Expr, rows: Sequence[Record], entry: StreamEntry, script: Script) -> None:
    """Refuse rows of VALUES for which a CHECK of their stream is false."""
    columns = entry.columns.under(entry.name)
    for text, condition in zip(entry.checks, check_conditions(entry), strict=True):
        for syntax, row in zip(node.args["rows"], rows, strict=True):
            if evaluate(condition, columns, row) is False:
                raise script.error(
                    f"CHECK ({' '.join(text.split())}) of the stream '{entry.name}' does not hold",
                    syntax,
                    next_step="leave the row out, or give other values",
                )


def _update(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    entry = _changeable(node, "updated", script, catalog)
    return bind_update(node, entry, _at(node, entry, script), _ad_hoc_context(script, catalog))


def _delete(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    entry = _changeable(node, "deleted from", script, catalog)
    return bind_delete(node, entry, _at(node, entry, script), _ad_hoc_context(script, catalog))


def _changeable(node: exp.Expr, changed: str, script: Script, catalog: Catalog) -> TableEntry:
    entry = _writable(node.this, script, catalog, changed)
    assert isinstance(entry, TableEntry)
    return entry


# Questions and the rest


def _ad_hoc_context(script: Script, catalog: Catalog) -> Context:
    """Return the context of an ad hoc query or a change: the whole statement has one present instant."""
    return new_context(script, catalog, now=time.time_ns() // 1000)


def _select(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    context = _ad_hoc_context(script, catalog)
    query = bind_ad_hoc(node, context)
    return S.Select(query, tuple(context.used))


def _explain_create(node: exp.Expr, script: Script, catalog: Catalog) -> S.ExplainCreate:
    """EXPLAIN CREATE: the statement is bound as if it were to be executed."""
    created = bind_statement(node, script, catalog)
    if isinstance(created, S.CreateSink):
        raise script.error(
            "EXPLAIN shows the plan of a query, and a sink has none of its own",
            node.this,
            next_step=f"EXPLAIN the query of the view '{created.sink.view}': its sinks stand below",
        )
    if not isinstance(created, S.Create) or created.plan is None:
        kind = "table" if isinstance(node, (ast.CreateTableSyntax, ast.CreateTableAsSyntax)) else "stream"
        raise script.error(
            f"EXPLAIN shows the plan of a query, and a {kind} has none that is kept running",
            node.this,
            next_step="EXPLAIN a SELECT, CREATE VIEW … AS or CREATE STREAM … TIMELINE … AS",
        )
    return S.ExplainCreate(created)


def _explain(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    context = _ad_hoc_context(script, catalog)
    query = bind_ad_hoc(node.this, context)
    return S.Explain(query, bool(node.args.get("cost")))


def _show(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    return S.Show(node.args["kind"])


def _show_create(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind SHOW CREATE; as in Spark, TABLE stands for anything that has rows."""
    with script.blame(node.this):
        entry = catalog.get(node.name)
        if node.args["kind"] not in ("TABLE", *entry.kind.upper().split()):
            raise SqlError(
                f"'{entry.name}' is {kind_with_article(entry)}",
                next_step=f"write SHOW CREATE {entry.kind.split()[-1].upper()}",
            )
    return S.ShowCreate(entry.name)


def _describe(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    with script.blame(node.this):
        return S.Describe(catalog.get(node.name).name)


def _drop(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    if node.args.get("exists") and node.name not in catalog:
        return S.Drop(None)
    with script.blame(node.this):
        entry = catalog.get(node.name)
        if node.args["kind"] not in entry.kind.upper().split():
            raise SqlError(
                f"'{entry.name}' is {kind_with_article(entry)}",
                next_step=f"write DROP {entry.kind.split()[-1].upper()}",
            )
        catalog.copy().drop(entry.name, bool(node.args.get("cascade")))
    return S.Drop(entry.name, bool(node.args.get("cascade")))


def _resume(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    with script.blame(node.this):
        entry = catalog.get(node.name)
        kind = EventStreamEntry if node.args["kind"] == "STREAM" else ViewEntry
        if not isinstance(entry, kind):
            wanted = "an event stream" if kind is EventStreamEntry else "a view"
            raise SqlError(
                f"'{entry.name}' is {kind_with_article(entry)}", next_step=f"name {wanted} that was set aside"
            )
    return S.Resume(entry.name)


def _clock(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    grain = duration(node.args["every"], script)
    if grain <= 0:
        raise script.error("the clock needs a grain of at least one microsecond", node.args["every"])
    return S.SetClock(grain)


_SETTINGS = ("answer_from_views",)
_SWITCH = {"on": True, "true": True, "off": False, "false": False}


def _set(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    value = node.args["value"]
    if node.name.casefold() not in _SETTINGS:
        raise SqlError(
            f"there is no setting '{node.name}'",
            place=script.place(node.this),
            meant=nearest(node.name, _SETTINGS),
            choices=_SETTINGS,
        )
    if value.name.casefold() not in _SWITCH:
        raise SqlError(
            f"{node.name} is on or off, and not '{value.name}'",
            place=script.place(value),
            choices=("on", "off"),
        )
    return S.SetAnswerFromViews(_SWITCH[value.name.casefold()])


_CREATES = (
    ast.CreateStreamSyntax,
    ast.CreateTableSyntax,
    ast.CreateTableAsSyntax,
    ast.CreateTaggedSyntax,
    ast.CreateViewSyntax,
    ast.CreateEventStreamSyntax,
    ast.CreateSinkSyntax,
)
_BINDERS: dict[type, Callable[[exp.Expr, Script, Catalog], S.Statement]] = {
    ast.CreateStreamSyntax: _checked(_create_stream),
    ast.CreateTableSyntax: _checked(_create_table),
    ast.CreateTableAsSyntax: _create_table_as,
    ast.CreateTaggedSyntax: _checked(_create_tagged),
    ast.CreateViewSyntax: _create_view,
    ast.CreateEventStreamSyntax: _create_event_stream,
    ast.InsertSyntax: _insert,
    ast.UpdateSyntax: _update,
    ast.DeleteSyntax: _delete,
    ast.ExplainSyntax: _explain,
    ast.ShowSyntax: _show,
    ast.ShowCreateSyntax: _show_create,
    ast.DescribeSyntax: _describe,
    ast.DropSyntax: _drop,
    ast.ResumeSyntax: _resume,
    ast.ReplaySyntax: bind_replay,
    ast.ClockEverySyntax: _clock,
    ast.SetSyntax: _set,
    ast.RenameSyntax: bind_rename,
    ast.AddColumnsSyntax: bind_add_columns,
    **SINK_BINDERS,
}
