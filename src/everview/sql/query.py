"""Queries: SELECT, WITH, set operations and the stream functions, from syntax to algebra."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, SortKey, conjunction
from everview.algebra.time import Grid
from everview.sql import ast
from everview.sql.aggregation import (
    SelectItem,
    aggregates_in,
    bind_aggregation,
    bind_groupings,
    group_keys,
    require_keys_of_grouping,
)
from everview.sql.context import BoundQuery, Context
from everview.sql.ctes import bind_with
from everview.sql.grouping_sets import has_grouping_sets
from everview.sql.joins import bind_from, bind_item, has_relation_parts
from everview.sql.limits import bind_part
from everview.sql.ordering import bind_order, bind_order_of_answer
from everview.sql.over import add_overs, distinct_on, limit_rows, name_windows, overs_in
from everview.sql.relations import column_names, sync_grid
from everview.sql.renaming import rename_columns, select_columns
from everview.sql.scope import Named, Scope
from everview.sql.selecting import bind_items
from everview.sql.subqueries import as_subquery, join_subquery, split_conditions
from everview.sql.subquery_values import SubqueryValues, has_aggregates
from everview.sql.values import bind_values
from everview.sql.window_functions import take_window_call


def bind_query(node: exp.Expr, context: Context) -> BoundQuery:
    """Return the plan of a query; its ORDER BY says which rows LIMIT and DISTINCT ON take."""
    brackets = isinstance(node, exp.Subquery) and not has_relation_parts(node)
    if not brackets and not isinstance(node, (exp.Select, exp.SetOperation)):
        return bind_whole_query(node, context)
    order = node.args.get("order")
    if isinstance(node, exp.Select):
        query, keys = bind_select(node, context, order)
    else:
        query = bind_whole_query(node, context)
        keys = bind_order_of_answer(order, query, context)
    part, plan = bind_part(node, keys, context), query.plan
    if part.limit is not None or part.offset:
        plan = limit_rows(plan, keys, part.limit, part.offset)
    shown = plan.schema.fields[: len(query.names)]
    if len(shown) < len(plan.schema):
        plan = N.Project(plan, tuple((f.name, Column.to(f)) for f in shown))
    return BoundQuery(plan, query.names)


def bind_whole_query(node: exp.Expr, context: Context) -> BoundQuery:
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
    """Bind FROM, WHERE, GROUP BY, HAVING, the SELECT list, OVER, QUALIFY, DISTINCT, ORDER BY, in this order.

    What ORDER BY and DISTINCT ON need and the SELECT list does not have stands in the plan behind the columns
    of the answer.
    """
    context = bind_with(node, context)
    name_windows(node)
    take_window_call(node, context.script)
    where = node.args.get("where")
    plan, scope, conditions = bind_from(
        node, context, split_conditions(where.this if where is not None else None)
    )
    plan = bind_where(plan, scope, conditions, context)
    line = plan.schema.timeline
    context = replace(context, timeline=None if line is None else Column.to(line))
    values = _attach_values(node, plan, scope, context)
    plan, context = values.plan, values.context
    items = bind_items(node, scope, context)
    having = _having(node, items, scope, context)
    sorting = bind_order(order, items, scope, context)
    group = node.args.get("group")
    several = group if group is not None and has_grouping_sets(group) else None
    keys = group_keys(group, items, scope, context) if several is None else []
    if several is None:
        require_keys_of_grouping([*items, *sorting.items], having, [], context)
    selected = len(items)
    qualify = _qualify(node, items, scope, context)
    on = _distinct_on(node, items, scope, context)
    items += sorting.items
    places = [_place(item, items) for item in on]
    items += qualify
    wanted = [i.expression for i in items] + ([having[0]] if having is not None else [])
    if several is not None:
        if overs_in(wanted):
            raise context.script.error(
                "OVER (…) cannot stand beside GROUPING SETS, ROLLUP or CUBE", node,
                next_step="group in a subquery of FROM, and rank its rows",
            )  # fmt: skip
        plan, items = bind_groupings(plan, several, items, having, scope, context, values.above)
    elif group is not None or aggregates_in(wanted):
        plan, items, condition = bind_aggregation(plan, keys, items, having, context, values.above)
        if condition is not None:
            plan = N.Filter(plan, condition)
    elif having is not None:
        raise context.script.error("HAVING needs GROUP BY or an aggregate", having[1], next_step="use WHERE")
    plan, expressions = add_overs(plan, [i.expression for i in items])
    items = [SelectItem(i.name, e, i.syntax) for i, e in zip(items, expressions, strict=True)]
    if qualify:
        plan = N.Filter(plan, items.pop().expression)
    with context.script.blame(node):
        query = select_columns(plan, [Named(i.name, i.expression) for i in items])
    names = query.names[:selected]
    distinct = node.args.get("distinct")
    if on:
        columns = [Column.to(query.plan.schema.fields[place]) for place in places]
        return BoundQuery(distinct_on(query.plan, columns, sorting.keys), names), sorting.keys
    if distinct is None:
        return BoundQuery(query.plan, names), sorting.keys
    if sorting.items:
        raise context.script.error(
            "SELECT DISTINCT is ordered by what it selects, and this is not selected",
            sorting.items[0].syntax,
            next_step="add it to the SELECT list, or leave DISTINCT out",
        )
    return BoundQuery(N.Distinct(query.plan), names), sorting.keys


def _attach_values(node: exp.Select, plan: N.Node, scope: Scope, context: Context) -> SubqueryValues:
    """Join the plan with the subqueries that are values in the SELECT list and in HAVING."""
    having = node.args.get("having")
    places = [*node.expressions, *([having.this] if having is not None else [])]
    grouped = node.args.get("group") is not None or any(map(has_aggregates, places))
    return SubqueryValues(plan, scope, context, grouped).attach(places)


def bind_where(plan: N.Node, scope: Scope, conditions: list[exp.Expr], context: Context) -> N.Node:
    """Return the plan with the conditions of WHERE."""
    nested = [s for c in conditions if (s := as_subquery(c)) is not None]
    for number, condition in enumerate(nested, 1):
        plan = join_subquery(plan, condition, scope, context, number)
    others = [c for c in conditions if as_subquery(c) is None]
    values = SubqueryValues(plan, scope, context).attach(others)
    binder = values.context.binder(scope, "WHERE")
    bound = [binder.condition(c, "WHERE") for c in others]
    return N.Filter(values.plan, conjunction(bound)) if bound else plan


def _having(
    node: exp.Select, items: list[SelectItem], scope: Scope, context: Context
) -> tuple[Expression, exp.Expr] | None:
    """Bind HAVING: names of the SELECT list come first, but inside aggregates those of FROM."""
    clause = node.args.get("having")
    if clause is None:
        return None
    aliases = {i.alias.casefold(): i.expression for i in items if i.alias}
    binder = replace(context.binder(scope.with_aliases_first(aliases)), arguments=scope)
    condition = binder.condition(clause.this, "HAVING")
    if overs_in([condition]):
        raise context.script.error(
            "OVER (…) cannot stand in HAVING", clause.this, next_step="put the condition into QUALIFY"
        )
    return condition, clause.this


def _qualify(node: exp.Select, items: list[SelectItem], scope: Scope, context: Context) -> list[SelectItem]:
    """Bind QUALIFY, as HAVING is bound; it is a condition on functions with OVER."""
    clause = node.args.get("qualify")
    if clause is None:
        return []
    aliases = {i.alias.casefold(): i.expression for i in items if i.alias}
    binder = replace(context.binder(scope.with_aliases_first(aliases)), arguments=scope)
    condition = binder.condition(clause.this, "QUALIFY")
    if not overs_in([condition, *(i.expression for i in items)]):
        raise context.script.error(
            "QUALIFY needs a function with OVER, as RANK() OVER (…)", clause, next_step="use WHERE"
        )
    return [SelectItem("qualify", condition, clause.this)]


def _distinct_on(
    node: exp.Select, items: list[SelectItem], scope: Scope, context: Context
) -> list[SelectItem]:
    """Bind the expressions of DISTINCT ON: names of the SELECT list come first."""
    distinct = node.args.get("distinct")
    on = None if distinct is None else distinct.args.get("on")
    if on is None:
        return []
    aliases = {i.alias.casefold(): i.expression for i in items if i.alias}
    binder = replace(context.binder(scope.with_aliases_first(aliases)), arguments=scope)
    return [SelectItem(None, binder.bind(e), e) for e in (on.expressions or [on])]


def _place(wanted: SelectItem, items: list[SelectItem]) -> int:
    """Return where an expression is selected; it is added behind the others if it is not."""
    found = next((i for i, item in enumerate(items) if item.expression == wanted.expression), None)
    if found is None:
        items.append(wanted)
    return len(items) - 1 if found is None else found


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
