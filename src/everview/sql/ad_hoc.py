"""Ad hoc queries: a plan, ORDER BY, LIMIT and OFFSET of its answer, and the instant."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.time import Chronon
from everview.sql import ast
from everview.sql.context import Context
from everview.sql.ctes import bind_with
from everview.sql.joins import has_relation_parts
from everview.sql.limits import OrderAndLimit, bind_part
from everview.sql.literals import bind_instant
from everview.sql.ordering import bind_order_of_answer
from everview.sql.query import bind_select, bind_whole_query


@dataclass(frozen=True)
class Query:
    """An ad hoc query. Its answer has the first columns of the plan under these names.

    Further columns of the plan are there to order by. The parts apply from the first to the last.
    """

    plan: N.Node
    names: tuple[str, ...]
    parts: tuple[OrderAndLimit, ...] = ()
    as_of: Chronon | None = None


def bind_ad_hoc(node: exp.Expr, context: Context) -> Query:
    """Return a query with the clauses that only an ad hoc query may have."""
    as_of = None
    if isinstance(node, ast.AsOfSyntax):
        as_of = bind_instant(node.args["at"], context.script)
        node = node.this
    around: list[exp.Expr] = []  # brackets with clauses of their own, from the outside in
    while isinstance(node, (exp.Subquery, exp.Paren)) and not has_relation_parts(node):
        around += [node] if _has_clauses(node) else []
        context = bind_with(node, context)
        node = node.this
    # Brackets do not change which names ORDER BY sees, unless they contain LIMIT or OFFSET.
    first = node if _has_clauses(node) or not around else around.pop()
    order = first.args.get("order")
    if isinstance(node, exp.Select):
        query, keys = bind_select(node, context, order)
    else:
        query = bind_whole_query(node, context)
        keys = bind_order_of_answer(order, query, context)
    parts = [bind_part(first, keys, context)]
    for brackets in reversed(around):
        keys = bind_order_of_answer(brackets.args.get("order"), query, context)
        parts.append(bind_part(brackets, keys, context))
    return Query(query.plan, query.names, tuple(p for p in parts if p != OrderAndLimit()), as_of)


def _has_clauses(node: exp.Expr) -> bool:
    return any(node.args.get(name) is not None for name in ("order", "limit", "offset"))
