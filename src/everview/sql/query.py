"""Queries: SELECT, WITH, set operations and the stream functions, from syntax to algebra."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, conjunction
from everview.algebra.time import Chronon, Grid
from everview.errors import AlgebraError, SqlError, counted
from everview.sql import ast
from everview.sql.aggregation import Item, aggregated, aggregates_in, group_keys
from everview.sql.clauses import refuse_clauses, refuse_star_changes
from everview.sql.context import Context
from everview.sql.expressions import ExpressionBinder
from everview.sql.literals import constant_int, instant
from everview.sql.relations import bind_from, sync_grid
from everview.sql.scope import Scope
from everview.sql.subqueries import as_subquery, joined, split_conditions


@dataclass(frozen=True)
class Query:
    """An ad hoc question: a plan, the order and the part of its answer to show, and the instant."""

    plan: N.Node
    order: tuple[tuple[Expression, bool, bool], ...] = ()  # expression, descending, NULLs first
    limit: int | None = None
    offset: int = 0
    as_of: Chronon | None = None


def bind_ad_hoc(node: exp.Expr, context: Context) -> Query:
    """A query with the clauses that only an ad hoc query may have."""
    as_of = None
    if isinstance(node, ast.AsOf):
        as_of = instant(node.args["at"], context.script)
        node = node.this
    order = node.args.pop("order", None)
    limit, offset = node.args.pop("limit", None), node.args.pop("offset", None)
    plan = bind_query(node, context)
    return Query(
        plan,
        _order(order, plan, context),
        None if limit is None else _count(limit, "LIMIT", context),
        0 if offset is None else _count(offset, "OFFSET", context),
        as_of,
    )


def _count(clause: exp.Expr, what: str, context: Context) -> int:
    """The number of LIMIT and of OFFSET."""
    if not isinstance(clause, (exp.Limit, exp.Offset)) or clause.args.get("offset"):
        raise context.script.error(
            "this way to limit the answer is not available", clause, next_step="write LIMIT 10 OFFSET 20"
        )
    number = constant_int(clause.expression, context.script, what)
    if number < 0:
        raise context.script.error(f"{what} cannot be negative", clause)
    return number


def _order(
    order: exp.Order | None, plan: N.Node, context: Context
) -> tuple[tuple[Expression, bool, bool], ...]:
    scope = Scope()
    scope.add(None, plan.schema)
    keys = []
    for item in order.expressions if order is not None else ():
        target, descending = item.this, bool(item.args.get("desc"))
        if isinstance(target, exp.Literal) and not target.is_string:
            position = constant_int(target, context.script, "ORDER BY")
            if not 1 <= position <= len(plan.schema):
                raise context.script.error(f"there is no column {position} in the SELECT list", target)
            key: Expression = Column.to(plan.schema.fields[position - 1])
        else:
            if isinstance(target, exp.Column) and target.table:
                target = _answered(target, plan, context)
            try:
                key = context.binder(scope, "ORDER BY").bind(target)
            except AlgebraError as error:
                if error.next_step is None:
                    error.next_step = "ORDER BY takes columns of the answer: add it to the SELECT list"
                raise
        keys.append((key, descending, bool(item.args.get("nulls_first"))))
    return tuple(keys)


def _answered(column: exp.Column, plan: N.Node, context: Context) -> exp.Column:
    """The column of the answer that shows a column of a relation as it is."""
    below = plan.input if isinstance(plan, N.Distinct) else plan
    for name, shown in below.columns if isinstance(below, N.Project) else ():
        if isinstance(shown, Column) and (
            ((shown.relation or "").casefold(), shown.name.casefold())
            == (column.table.casefold(), column.name.casefold())
        ):
            return exp.Column(this=exp.to_identifier(name, quoted=True))
    raise context.script.error(
        f"the answer has no column {column.table}.{column.name}",
        column,
        next_step="ORDER BY takes columns of the answer: add it to the SELECT list",
    )


def bind_query(node: exp.Expr, context: Context) -> N.Node:
    """The plan of a query."""
    match node:
        case ast.AsOf():
            raise context.script.error(
                "AS OF may only end an ad hoc SELECT: a view is about all instants",
                node.args["at"],
                next_step="leave it out here and ask the view AS OF an instant",
            )
        case ast.StreamFunction():
            return _stream_function(node, context)
        case exp.Subquery() | exp.Paren():
            return bind_query(node.this, context)
        case exp.SetOperation():
            return _set_operation(node, context)
        case exp.Select():
            return _select(node, context)
    raise context.script.error("expected a SELECT", node)


def _with(node: exp.Expr, context: Context) -> Context:
    """WITH name AS (query), …: each name is known to those after it."""
    clause = node.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        raise context.script.error("WITH RECURSIVE is not available", clause)
    seen: set[str] = set()
    for cte in clause.expressions:
        if cte.alias.casefold() in seen:
            raise context.script.error(f"WITH names '{cte.alias}' twice", cte.args["alias"])
        seen.add(cte.alias.casefold())
        plan = bind_query(cte.this, context.inside(None))
        names = [c.name for c in cte.args["alias"].columns]
        if names and names != list(plan.schema.names):
            if len(names) != len(plan.schema):
                raise context.script.error(
                    f"{counted(len(names), 'name')} for {counted(len(plan.schema), 'column')}",
                    cte.args["alias"],
                )
            pairs = zip(names, plan.schema, strict=True)
            plan = N.Project(plan, tuple((n, Column.to(f)) for n, f in pairs))
        context = context.with_cte(cte.alias, plan)
    return context


def _select(node: exp.Select, context: Context) -> N.Node:
    """FROM, WHERE, GROUP BY, HAVING, the SELECT list, DISTINCT: in the order in which they apply."""
    refuse_clauses(node, context)
    context = _with(node, context)
    where = node.args.get("where")
    plan, scope, conditions = bind_from(
        node, context, split_conditions(where.this if where is not None else None)
    )
    plan = restricted(plan, scope, conditions, context)
    items = _items(node, scope, context)
    having = _having(node, items, scope, context)
    keys = group_keys(node.args.get("group"), items, scope, context)
    wanted = [i.expression for i in items] + ([having[0]] if having is not None else [])
    if node.args.get("group") is not None or aggregates_in(wanted):
        plan, items, condition = aggregated(plan, keys, items, having, context)
        if condition is not None:
            plan = N.Filter(plan, condition)
    elif having is not None:
        raise context.script.error("HAVING needs GROUP BY or an aggregate", having[1], next_step="use WHERE")
    plan = _projected(plan, items, node, context)
    distinct = node.args.get("distinct")
    if distinct is not None:
        if distinct.args.get("on") is not None:
            raise context.script.error("DISTINCT ON is not available", distinct)
        plan = N.Distinct(plan)
    return plan


def restricted(plan: N.Node, scope: Scope, conditions: list[exp.Expr], context: Context) -> N.Node:
    """The plan with the conditions of WHERE."""
    nested = [s for c in conditions if (s := as_subquery(c)) is not None]
    for number, condition in enumerate(nested, 1):
        plan = joined(plan, condition, scope, context, number)
    binder = context.binder(scope, "WHERE")
    bound = [binder.condition(c, "WHERE") for c in conditions if as_subquery(c) is None]
    return N.Filter(plan, conjunction(bound)) if bound else plan


def _items(node: exp.Select, scope: Scope, context: Context) -> list[Item]:
    """The SELECT list with its stars unfolded."""
    items: list[Item] = []
    for syntax in node.expressions:
        star = syntax.this if isinstance(syntax, exp.Column) else syntax
        if isinstance(star, exp.Star):
            refuse_star_changes(star, syntax, context)
            relation = syntax.table or None if isinstance(syntax, exp.Column) else None
            if not scope.relations:
                raise context.script.error("* needs a FROM", syntax)
            with context.script.blame(syntax):
                items += [Item(name, e, syntax) for name, e in scope.star(relation)]
            continue
        expression = context.binder(scope).bind(syntax.unalias())
        alias = syntax.alias or None if isinstance(syntax, exp.Alias) else None
        if isinstance(syntax, exp.Column) and not isinstance(expression, Column):
            alias = syntax.name  # what USING makes of both sides of a full join
        items.append(Item(alias, expression, syntax))
    if not items:
        raise SqlError("SELECT needs at least one column", place=context.script.place(node))
    return items


def _having(
    node: exp.Select, items: list[Item], scope: Scope, context: Context
) -> tuple[Expression, exp.Expr] | None:
    """HAVING sees the names that the SELECT list gives first; inside aggregates, what they aggregate."""
    clause = node.args.get("having")
    if clause is None:
        return None
    aliases = {i.alias.casefold(): i.expression for i in items if i.alias}
    seen = Scope(scope.relations, scope.outer, {**scope.shared, **aliases}, scope.hidden, scope.unseen)
    binder = ExpressionBinder(context.script, seen, arguments=scope)
    return binder.condition(clause.this, "HAVING"), clause.this


def _projected(plan: N.Node, items: list[Item], node: exp.Select, context: Context) -> N.Node:
    columns = tuple((i.name, i.expression) for i in items)
    seen: dict[str, Item] = {}
    for item in items:
        if item.name.casefold() in seen:
            starred = item.syntax.find(exp.Star) is not None and item.alias is not None
            raise context.script.error(
                f"two columns are called '{item.name}'",
                item.syntax,
                next_step="list the columns, and give one of them another name with AS"
                if starred
                else "give one of them another name with AS",
            )
        seen[item.name.casefold()] = item
    as_it_is = tuple((f.name, Column.to(f)) for f in plan.schema)
    if columns == as_it_is and all(f.relation is None for f in plan.schema):
        return plan
    with context.script.blame(node):
        return N.Project(plan, columns)


def _set_operation(node: exp.SetOperation, context: Context) -> N.Node:
    refuse_clauses(node, context)
    context = _with(node, context)
    if node.args.get("by_name"):
        raise context.script.error("BY NAME is not available", node)
    left, right = bind_query(node.this, context), bind_query(node.expression, context)
    every = not node.args.get("distinct")
    with context.script.blame(node.expression):
        match node:
            case exp.Union():
                return N.Union(left, right) if every else N.Distinct(N.Union(left, right))
            case exp.Except():
                return N.Difference(left, right) if every else N.StrictDifference(N.Distinct(left), right)
            case exp.Intersect():
                return (
                    N.Intersection(left, right)
                    if every
                    else N.Intersection(N.Distinct(left), N.Distinct(right))
                )
    raise context.script.error("this set operation is not available", node)


def _stream_function(node: ast.StreamFunction, context: Context) -> N.Node:
    """ISTREAM, DSTREAM, RSTREAM (paper 5, 1.2)."""
    plan = bind_query(node.this, context)
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
            return N.RStream(plan, grid)
        case kind:
            if sync is not None:
                raise context.script.error(f"SYNC stands inside {kind}(…), after a relation", sync)
            return N.IStream(plan) if kind == "ISTREAM" else N.DStream(plan)


def _common_grid(plan: N.Node) -> Grid | None:
    """The one grid to which a plan is synchronized, if there is one."""
    grids = {n.grid for n in plan.walk() if isinstance(n, N.Synchronize)}
    return grids.pop() if len(grids) == 1 else None
