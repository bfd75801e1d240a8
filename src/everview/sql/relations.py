"""The relations of FROM: names, subqueries and VALUES with their windows, synchronizations and aliases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.session import Session
from everview.algebra.time import Grid
from everview.algebra.windows import Band, Rows
from everview.sql import ast
from everview.sql.context import BoundQuery, Context
from everview.sql.ctes import bind_with
from everview.sql.literals import bind_instant, duration
from everview.sql.renaming import rename_columns
from everview.sql.scope import Scope
from everview.sql.values import bind_values
from everview.sql.window_functions import bind_window_function
from everview.sql.windows import NowBound, bind_window, predicate_window


@dataclass
class Relation:
    """One relation of FROM while it is being built; the bounds on NOW become its predicate window.

    `inside` is the scope of a join in brackets without an alias: its relations keep their names.
    """

    syntax: exp.Expr
    node: N.Node
    name: str | None
    names: tuple[str, ...]
    inside: Scope | None = None
    plan_name: str | None = None  # of a subquery without a name, if the plan needs one
    bounds: list[NowBound] = field(default_factory=list)
    padded: bool = False
    hidden: bool = False  # the right side of a semi or anti join

    def finished(self, context: Context) -> N.Node:
        """Return the relation with its windows, then its synchronization, then its alias."""
        node = self.node
        if self.bounds:
            if self.padded:
                raise context.script.error(
                    "a predicate window cannot bound the side of an outer join that may be NULL",
                    self.bounds[0].column,
                    next_step="use a window bracket after the stream",
                )
            found = predicate_window(self.bounds, context.script)
            if found is not None:
                with context.script.blame(self.bounds[0].column):
                    node = N.Window(node, found)
        sync = self.syntax.meta.get("sync")
        if sync is not None:
            node = bind_sync(node, sync, context)
        name = self.name or self.plan_name
        if name is not None and any(f.relation != name for f in node.schema):
            node = N.Alias(N.base_of(node), name)
        return node

    def scope(self, node: N.Node) -> Scope:
        """Return the names that the finished relation gives to its columns."""
        if self.inside is not None:
            return self.inside
        scope = Scope()
        if self.name is not None and isinstance(self.syntax, exp.Table):
            scope.unseen[self.syntax.name.casefold()] = f"write {self.name}: it goes by that name here"
        name = self.name or self.plan_name
        scope.add(self.name, node.schema if name is None else node.schema.under(name), self.names)
        return scope


def bind_sync(node: N.Node, sync: ast.SyncSyntax, context: Context) -> N.Node:
    """Bind SYNC EVERY and SYNC ON (paper 5, 5)."""
    with context.script.blame(sync):
        if sync.args.get("on") is not None:
            points = context.read_named(sync.args["on"]).plan
            found = N.SynchronizeOn(node, points)
            if points.schema.timeline is None:
                raise context.script.error(
                    f"SYNC ON takes the instants at which rows are inserted into '{sync.args['on'].name}', "
                    f"and its column '{points.schema.names[0]}' is not their time line",
                    sync.args["on"],
                    next_step="select the time line column of the stream below as it is",
                )
            return found
        return N.Synchronize(node, sync_grid(sync, context))


def sync_grid(sync: ast.SyncSyntax, context: Context) -> Grid:
    """Return the grid of SYNC EVERY interval [ORIGIN timestamp]."""
    step = duration(sync.args["every"], context.script)
    if step <= 0:
        raise context.script.error("SYNC EVERY needs a length of time above zero", sync.args["every"])
    origin = sync.args.get("origin")
    start = 0 if origin is None else bind_instant(origin, context.script)
    return Grid(step, start % step)


def bind_relation(item: exp.Expr, context: Context) -> Relation:
    """Return a relation that is no join: a name, a query in brackets, or VALUES."""
    alias = item.alias or None
    if isinstance(item, exp.Subquery):
        inside = bind_with(item, context.inside(None))
        return named_relation(item, context.bind_query(item.this, inside), alias, context)
    values = item.this if isinstance(item, exp.Table) else item
    if isinstance(values, exp.Values):
        return named_relation(item, bind_values(values, context), alias, context)
    if isinstance(item, ast.WindowFunctionSyntax):
        below = bind_relation(item.this, context)
        query = BoundQuery(below.node, below.names)
        scope = Scope()
        scope.add(None, query.plan.schema, query.names)
        keys = tuple(_plan_name(key, scope, context) for key in item.args.get("keys") or ())
        windowed = bind_window_function(item, query, keys, context)
        return named_relation(item, windowed, alias or below.name, context)
    if isinstance(item, exp.Lateral):
        raise context.script.error("LATERAL is not available", item, next_step="use JOIN … ON, or EXISTS (…)")
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        raise context.script.error("expected the name of a stream, a table or a view", item)
    if item.args.get("db") is not None:
        raise context.script.error("a name in FROM has one part", item, next_step=f"write {item.name}")
    read = context.read_named(item.this)
    return named_relation(item, read, alias or _relation_name(read.plan) or item.name, context)


def named_relation(item: exp.Expr, query: BoundQuery, name: str | None, context: Context) -> Relation:
    """Return a relation with its windows and the names that its alias lists."""
    renamed = rename_columns(bind_windows(query, item, context), column_names(item), item, context)
    return Relation(item, renamed.plan, name, renamed.names)


def _relation_name(node: N.Node) -> str | None:
    return node.schema.fields[0].relation if len(node.schema) else None


def bind_windows(
    query: BoundQuery, item: exp.Expr, context: Context, scope: Scope | None = None
) -> BoundQuery:  # fmt: skip
    """Return the query with the windows that stand in brackets behind it; `scope` has its names in SQL."""
    node = query.plan
    if scope is None:
        scope = Scope()
        scope.add(None, node.schema, query.names)
    for bracket in item.meta.get("windows", ()):
        if isinstance(node, N.Table):
            raise context.script.error(
                f"'{item.name}' is a table, and a table has no windows",
                bracket,
                next_step="take the bracket away, or declare a STREAM with a TIMELINE",
            )
        is_session = bracket.args["kind"] == "SESSION"
        found = Band(0) if is_session else bind_window(bracket, context.script)
        if node.schema.timeline is None and found != Band():
            what = (
                f"'{item.name}' carries"
                if isinstance(item, exp.Table) and item.name
                else "this subquery carries"
            )
            raise context.script.error(
                f"{what} no time line, so it can have no window",
                bracket,
                next_step="put the window on the stream below, or select its time line column too",
            )
        if is_session:
            keys = tuple(_plan_name(key, scope, context) for key in bracket.args.get("keys") or ())
            with context.script.blame(bracket):
                node = Session(node, duration(bracket.args["extent"], context.script), keys)
            continue
        if isinstance(found, Rows):
            keys = tuple(_plan_name(key, scope, context) for key in bracket.args.get("keys") or ())
            found = replace(found, partition_by=keys)
        with context.script.blame(bracket):
            node = node if found == Band() else N.Window(node, found)
    added = node.schema.names[len(query.plan.schema) :]  # of sessions
    return BoundQuery(node, (*query.names, *added))


def _plan_name(key: exp.Expr, scope: Scope, context: Context) -> str:
    """Return the name that a column has in the plan; a key that no column has, or several, is refused."""
    with context.script.blame(key):
        column = scope.require(key.name).expression
    if not isinstance(column, Column):
        raise context.script.error(
            f"'{key.name}' is a column of both sides of a FULL join, and no row is partitioned by that",
            key,
            next_step="select it in a subquery and put the window behind that",
        )
    return column.name


def column_names(item: exp.Expr) -> list[str]:
    """Return the names that an alias lists: AS d (a, b)."""
    alias = item.args.get("alias")
    return [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
