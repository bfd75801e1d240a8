"""Conditions with subqueries: IN, EXISTS and their negations become semi and anti joins.

A condition of the subquery that refers to the outer query becomes part of the join's condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Or,
    conjunction,
    substitute,
)
from everview.algebra.types import INT
from everview.errors import EverviewError, format_count
from everview.sql.aggregation import aggregates_in
from everview.sql.context import Context
from everview.sql.ctes import bind_with
from everview.sql.joins import bind_from, has_relation_parts, refuse_non_retroactive
from everview.sql.limits import has_first_rows
from everview.sql.scope import OuterColumn, Scope
from everview.sql.selecting import bind_items


@dataclass(frozen=True)
class SubqueryCondition:
    """[NOT] EXISTS (query), or [NOT] operands IN (query)."""

    query: exp.Expr
    operands: tuple[exp.Expr, ...]
    negated: bool


def split_conditions(where: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND joins."""
    if where is None:
        return []
    if isinstance(where, exp.And):
        return split_conditions(where.this) + split_conditions(where.expression)
    if isinstance(where, exp.Paren) and isinstance(where.this, (exp.And, exp.Paren)):
        return split_conditions(where.this)
    return [where]


def as_subquery(condition: exp.Expr) -> SubqueryCondition | None:
    """Return the condition as one on a subquery, if that is what it is."""
    if isinstance(condition, exp.Paren):
        return as_subquery(condition.this)
    if isinstance(condition, exp.Not):
        inner = as_subquery(condition.this)
        return None if inner is None else SubqueryCondition(inner.query, inner.operands, not inner.negated)
    if isinstance(condition, exp.Exists):
        return SubqueryCondition(query_without_brackets(condition.this), (), False)
    query, negated = _query_of(condition) if isinstance(condition, exp.In) else None, False
    if query is None:
        query, negated = _equal_to(condition), isinstance(condition, exp.NEQ)
    if query is None:
        return None
    operand = condition.this
    operands = tuple(operand.expressions) if isinstance(operand, exp.Tuple) else (operand,)
    return SubqueryCondition(query_without_brackets(query), operands, negated)


def _equal_to(condition: exp.Expr) -> exp.Expr | None:
    """Return the query of = ANY (SELECT …), which is IN, and of <> ALL (SELECT …), which is NOT IN."""
    for kind, quantifier in ((exp.EQ, exp.Any), (exp.NEQ, exp.All)):
        if isinstance(condition, kind) and isinstance(condition.expression, quantifier):
            found: exp.Expr = condition.expression.this
            return found if isinstance(found, exp.Query) else None
    return None


def _query_of(condition: exp.In) -> exp.Expr | None:
    """Return the query of IN (SELECT …) and of IN (VALUES …); None of IN (1, 2)."""
    first = next(iter(condition.expressions), None)
    return first if isinstance(first, exp.Values) else condition.args.get("query")


def query_without_brackets(query: exp.Expr) -> exp.Expr:
    """Return a query without the brackets around it, if nothing stands behind them."""
    while isinstance(query, (exp.Subquery, exp.Paren)) and not has_relation_parts(query):
        if query.args.get("with_") or has_first_rows(query):
            return query
        query = query.this
    return query


def join_subquery(
    plan: N.Node, condition: SubqueryCondition, scope: Scope, context: Context, number: int
) -> N.Node:
    """Return the plan restricted by a condition on a subquery."""
    name = _fresh(number, scope)
    right, columns, correlated = _right_side(condition, scope, context, name)
    binder = context.binder(scope, "WHERE")
    matches: list[Expression] = []
    for operand, column in zip(condition.operands, columns, strict=True):
        left, there = binder.beside(binder.bind(operand), column.type, operand), column
        with context.script.blame(operand):
            equal: Expression = Comparison("=", left, there)
        # x NOT IN (…) is true only if x certainly differs from every row: NULL might be equal.
        matches.append(Or(Or(equal, IsNull(left)), IsNull(there)) if condition.negated else equal)
    theta = conjunction([*matches, *correlated])
    if any(isinstance(part, OuterColumn) for part in theta.walk()):
        raise context.script.error(
            "a subquery can speak of the query just around it, not of one further out", condition.query
        )
    refuse_non_retroactive(plan, right, condition.query, context)
    made = N.AntiJoin if condition.negated else N.SemiJoin
    with context.script.blame(condition.query):
        return made(with_a_column(plan), right, theta)


def with_a_column(plan: N.Node) -> N.Node:
    """Return a plan to join: that of a SELECT without FROM has no columns."""
    return plan if len(plan.schema) else N.Project(plan, (("_one", Literal(1, INT)),))


def _fresh(number: int, scope: Scope) -> str:
    name = f"_q{number}"
    taken = {(n or "").casefold() for n, _ in scope.relations}
    return name if name not in taken else _fresh(number + 1, scope)


def _right_side(
    condition: SubqueryCondition, scope: Scope, context: Context, name: str
) -> tuple[N.Node, list[Column], list[Expression]]:
    """Return the subquery as a relation, its columns to compare with, and the correlated conditions."""
    plain = _plain_select(condition.query, context.inside(scope))
    if plain is None:
        query = _bind_uncorrelated(condition.query, scope, context)
        _require_count(condition, len(query.schema), context)
        right = N.Alias(query, name)
        return right, [Column.to(f) for f in right.schema][: len(condition.operands)], []
    below, outputs, correlated = plain.plan, plain.outputs, plain.correlated
    if condition.operands:
        _require_count(condition, len(outputs), context)
    else:
        outputs = []
    needed = list(dict.fromkeys([*outputs, *_inner_columns(correlated)]))
    if not needed:  # EXISTS (SELECT … without any correlation): one column is enough
        needed = [Column.to(below.schema.fields[0])] if len(below.schema) else [Literal(1, INT)]
    names = _distinct_names(needed)
    projected = N.Project(below, tuple(zip(names, needed, strict=True)))
    right = N.Alias(projected, name)
    there = {e: Column(n, e.type, name) for n, e in zip(names, needed, strict=True)}
    moved = [_move_condition(c, there) for c in correlated]
    return right, [there[o] for o in outputs], moved


def _bind_uncorrelated(query: exp.Expr, scope: Scope, context: Context) -> N.Node:
    """Return the plan of a subquery that cannot speak of the query around it, and why if it does."""
    try:
        return context.bind_query(query, context.inside(None)).plan
    except EverviewError:
        if (outward := _outward(query, scope)) is not None:
            raise context.script.error(
                "only a plain SELECT … FROM … WHERE … can speak of the query around it", outward
            ) from None
        raise


@dataclass(frozen=True)
class InnerQuery:
    """A subquery: its FROM and WHERE as a plan, its columns, its conditions on the query around it.

    `relation` is its only relation, if nothing else restricts that.
    """

    plan: N.Node
    outputs: list[Expression]
    correlated: list[Expression] = field(default_factory=list)
    relation: N.Node | None = None


def bind_inner_query(query: exp.Expr, scope: Scope, context: Context, aggregates: bool = False) -> InnerQuery:
    """Return a subquery; `aggregates`: its columns may be aggregates of all its rows."""
    context = replace(context, subqueries={})
    plain = _plain_select(query, context.inside(scope), aggregates)
    if plain is not None:
        return plain
    plan = N.Alias(_bind_uncorrelated(query, scope, context), "_q")
    return InnerQuery(plan, [Column.to(f) for f in plan.schema])


def _require_count(condition: SubqueryCondition, found: int, context: Context) -> None:
    wanted = len(condition.operands)
    if wanted and found != wanted:
        raise context.script.error(
            f"IN compares {format_count(wanted, 'value')} with a subquery of {format_count(found, 'column')}",
            condition.query,
        )


def _outward(query: exp.Expr, scope: Scope) -> exp.Column | None:
    """Return a column of a subquery that names a relation of the query around it."""
    own = {table.alias_or_name.casefold() for table in query.find_all(exp.Table, exp.Subquery)}
    around = {(name or "").casefold() for name, _ in scope.relations} - own - {""}
    return next((c for c in query.find_all(exp.Column) if c.table.casefold() in around), None)


def _plain_select(query: exp.Expr, context: Context, aggregates: bool = False) -> InnerQuery | None:
    """Return a SELECT without grouping or set operations; None for any other query.

    Another query cannot be correlated. With `aggregates`, the columns may be aggregates.
    """
    while isinstance(query, exp.Subquery) and not has_relation_parts(query) and not has_first_rows(query):
        context = bind_with(query, context)
        query = query.this
    if not isinstance(query, exp.Select) or any(
        query.args.get(part) for part in ("group", "having", "distinct", "qualify", "limit", "offset")
    ):
        return None
    context = bind_with(query, context)
    conditions = split_conditions(query.args["where"].this if query.args.get("where") else None)
    plan, scope, rest = bind_from(query, context, conditions)
    relation = plan
    line = plan.schema.timeline
    context = replace(context, timeline=None if line is None else Column.to(line))
    binder = context.binder(scope, "WHERE")
    correlated: list[Expression] = []
    own: list[Expression] = []
    nested = []
    for condition in rest:
        below = as_subquery(condition)
        if below is not None:
            nested.append(below)
            continue
        bound = binder.condition(condition, "WHERE")
        outward = any(isinstance(p, OuterColumn) for p in bound.walk())
        (correlated if outward else own).append(bound)
    for number, below in enumerate(nested, 1):
        plan = join_subquery(plan, below, scope, context, number)
    if own:
        plan = N.Filter(plan, conjunction(own))
    outputs = _outputs(query, scope, context, aggregates)
    return None if outputs is None else InnerQuery(plan, outputs, correlated, relation)


def _outputs(query: exp.Select, scope: Scope, context: Context, aggregates: bool) -> list[Expression] | None:
    """Return the SELECT list; None where it aggregates, and is not to."""
    outputs = [item.expression for item in bind_items(query, scope, context)]
    if aggregates_in(outputs):
        return outputs if aggregates else None
    if any(isinstance(p, OuterColumn) for o in outputs for p in o.walk()):
        raise context.script.error(
            "the SELECT list of a subquery cannot use columns of the query around it", query,
            next_step="move the condition into its WHERE",
        )  # fmt: skip
    return outputs


def _inner_columns(correlated: list[Expression]) -> list[Expression]:
    found: dict[Expression, None] = {}
    for condition in correlated:
        _collect(condition, found)
    return list(found)


def _collect(e: Expression, found: dict[Expression, None]) -> None:
    if isinstance(e, OuterColumn):
        return
    if isinstance(e, Column):
        found[e] = None
    for child in e.children:
        _collect(child, found)


def _move_condition(condition: Expression, there: dict[Expression, Column]) -> Expression:
    """Return a correlated condition over both sides: outer columns unchanged, inner ones renamed."""
    moved: dict[Expression, Expression] = dict(there)
    moved |= {p: p.column for p in condition.walk() if isinstance(p, OuterColumn)}
    return substitute(condition, moved)


def _distinct_names(expressions: list[Expression]) -> list[str]:
    names: list[str] = []
    for position, e in enumerate(expressions, 1):
        name = e.name if isinstance(e, Column) else f"c{position}"
        names.append(name if name.casefold() not in {n.casefold() for n in names} else f"{name}_{position}")
    return names
