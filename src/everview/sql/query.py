"""Queries: SELECT, WITH, set operations and the stream functions, from syntax to algebra."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression, conjunction
from everview.algebra.time import Grid
from everview.sql import ast
from everview.sql.aggregation import SelectItem, aggregates_in, bind_aggregation, group_keys
from everview.sql.context import BoundQuery, Context
from everview.sql.ctes import bind_with
from everview.sql.joins import bind_from, bind_item, has_relation_parts
from everview.sql.ordering import SortKey, bind_order
from everview.sql.relations import column_names, sync_grid
from everview.sql.renaming import rename_columns, select_columns
from everview.sql.scope import Named, Scope
from everview.sql.selecting import bind_items
from everview.sql.subqueries import as_subquery, join_subquery, split_conditions
from everview.sql.values import bind_values


def bind_query(node: exp.Expr, context: Context) -> BoundQuery:
    """Return the plan of a query, without the order and the part of it that an ad hoc query asks for."""
    match node:
        case ast.AsOfSyntax():
            raise context.script.error(
                "AS OF may only end an ad hoc SELECT: a view is about all instants",
                node.args["at"],
                next_step="leave it out here and ask the view AS OF an instant",
            )
        case ast.StreamFunctionSyntax():
            return _stream_function(node, context)
        case exp.Subquery() | exp.Paren() if has_relation_parts(node):
            plan, scope = bind_item(node, context)
            return select_columns(plan, scope.columns)
        case exp.Subquery() | exp.Paren():
            return bind_query(node.this, bind_with(node, context))
        case exp.Values():
            return rename_columns(bind_values(node, context), column_names(node), node, context)
        case exp.SetOperation():
            return _set_operation(node, context)
        case exp.Select():
            return bind_select(node, context)[0]
    raise context.script.error("expected a SELECT", node)


def bind_select(
    node: exp.Select, context: Context, order: exp.Order | None = None
) -> tuple[BoundQuery, tuple[SortKey, ...]]:
    """Bind FROM, WHERE, GROUP BY, HAVING, the SELECT list, DISTINCT and ORDER BY, in this order.

    What ORDER BY needs and the SELECT list does not have stands in the plan behind the columns of the answer.
    """
    context = bind_with(node, context)
    where = node.args.get("where")
    plan, scope, conditions = bind_from(
        node, context, split_conditions(where.this if where is not None else None)
    )
    plan = bind_where(plan, scope, conditions, context)
    items = bind_items(node, scope, context)
    having = _having(node, items, scope, context)
    sorting = bind_order(order, items, scope, context)
    keys = group_keys(node.args.get("group"), items, scope, context)
    selected = len(items)
    items += sorting.items
    wanted = [i.expression for i in items] + ([having[0]] if having is not None else [])
    if node.args.get("group") is not None or aggregates_in(wanted):
        plan, items, condition = bind_aggregation(plan, keys, items, having, context)
        if condition is not None:
            plan = N.Filter(plan, condition)
    elif having is not None:
        raise context.script.error("HAVING needs GROUP BY or an aggregate", having[1], next_step="use WHERE")
    with context.script.blame(node):
        query = select_columns(plan, [Named(i.name, i.expression) for i in items])
    names = query.names[:selected]
    distinct = node.args.get("distinct")
    if distinct is None:
        return BoundQuery(query.plan, names), sorting.keys
    if sorting.items:
        raise context.script.error(
            "SELECT DISTINCT is ordered by what it selects, and this is not selected",
            sorting.items[0].syntax,
            next_step="add it to the SELECT list, or leave DISTINCT out",
        )
    return BoundQuery(N.Distinct(query.plan), names), sorting.keys


def bind_where(plan: N.Node, scope: Scope, conditions: list[exp.Expr], context: Context) -> N.Node:
    """Return the plan with the conditions of WHERE."""
    nested = [s for c in conditions if (s := as_subquery(c)) is not None]
    for number, condition in enumerate(nested, 1):
        plan = join_subquery(plan, condition, scope, context, number)
    binder = context.binder(scope, "WHERE")
    bound = [binder.condition(c, "WHERE") for c in conditions if as_subquery(c) is None]
    return N.Filter(plan, conjunction(bound)) if bound else plan


def _having(
    node: exp.Select, items: list[SelectItem], scope: Scope, context: Context
) -> tuple[Expression, exp.Expr] | None:
    """Bind HAVING: names of the SELECT list come first, but inside aggregates those of FROM."""
    clause = node.args.get("having")
    if clause is None:
        return None
    aliases = {i.alias.casefold(): i.expression for i in items if i.alias}
    binder = replace(context.binder(scope.with_aliases_first(aliases)), arguments=scope)
    return binder.condition(clause.this, "HAVING"), clause.this


def _set_operation(node: exp.SetOperation, context: Context) -> BoundQuery:
    context = bind_with(node, context)
    left, right = bind_query(node.this, context), bind_query(node.expression, context).plan
    with context.script.blame(node.expression):
        return BoundQuery(_united(node, left.plan, right, context), left.names)


def _united(node: exp.SetOperation, left: N.Node, right: N.Node, context: Context) -> N.Node:
    every = not node.args.get("distinct")
    match node:
        case exp.Union():
            return N.Union(left, right) if every else N.Distinct(N.Union(left, right))
        case exp.Except():
            return N.Difference(left, right) if every else N.StrictDifference(N.Distinct(left), right)
        case exp.Intersect() if every:
            return N.Intersection(left, right)
        case exp.Intersect():
            return N.Intersection(N.Distinct(left), N.Distinct(right))
    raise context.script.error("this set operation is not available", node)


def _stream_function(node: ast.StreamFunctionSyntax, context: Context) -> BoundQuery:
    """Bind ISTREAM, DSTREAM and RSTREAM (paper 5, 1.2)."""
    query = bind_query(node.this, context)
    if not context.stamped:
        return BoundQuery(_streamed(node, query.plan, context), query.names)
    if N.INSTANT in (name.casefold() for name in query.names):
        raise context.script.error(
            f"{node.args['kind']} adds the column '{N.INSTANT}', the instant of each row, "
            f"and its query has a column '{N.INSTANT}' already",
            node,
            next_step=f"give that one another name with AS: SELECT {N.INSTANT} AS …",
        )
    return BoundQuery(_streamed(node, query.plan, context), (*query.names, N.INSTANT))


def _streamed(node: ast.StreamFunctionSyntax, plan: N.Node, context: Context) -> N.Node:
    sync = node.args.get("sync")
    match node.args["kind"]:
        case "RSTREAM":
            grid = (
                sync_grid(sync, context)
                if sync is not None and sync.args.get("every")
                else _common_grid(plan)
            )
            if grid is None:
                raise context.script.error(
                    "RSTREAM needs the points at which to stream its relation",
                    node,
                    next_step="add SYNC EVERY INTERVAL '1' MINUTE",
                )
            return N.RStream(plan, grid, context.stamped)
        case kind:
            if sync is not None:
                raise context.script.error(f"SYNC stands inside {kind}(…), after a relation", sync)
            made = N.IStream if kind == "ISTREAM" else N.DStream
            return made(plan, context.stamped)


def _common_grid(plan: N.Node) -> Grid | None:
    """Return the one grid to which a plan is synchronized, if there is one."""
    grids = {n.grid for n in plan.walk() if isinstance(n, N.Synchronize)}
    return grids.pop() if len(grids) == 1 else None
