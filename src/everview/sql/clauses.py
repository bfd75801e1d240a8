"""Clauses that parse and that Everview does not have: refused wherever a query may stand."""

from __future__ import annotations

from sqlglot import exp

from everview.sql.context import Context

_UNAVAILABLE = {
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "windows": "WINDOW",
    "pivots": "PIVOT",
    "into": "INTO",
    "connect": "CONNECT BY",
    "sample": "TABLESAMPLE",
    "match": "MATCH_RECOGNIZE",
    "locks": "FOR UPDATE",
}


def refuse_clauses(node: exp.Expr, context: Context) -> None:
    """Refuses the clauses of a query that have no place in a view or a subquery."""
    for part, words in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        clause = node.args.get(part)
        if clause is not None:
            raise context.script.error(
                f"{words} may only end an ad hoc SELECT: views and subqueries have no order",
                clause,
                next_step="leave it out here and order the answer when you ask for it",
            )
    for part, words in _UNAVAILABLE.items():
        clause = node.args.get(part)
        if clause:
            raise context.script.error(
                f"{words} is not available", clause[0] if isinstance(clause, list) else clause
            )


def refuse_star_changes(star: exp.Expr, syntax: exp.Expr, context: Context) -> None:
    """Refuses * EXCEPT (…) and * REPLACE (…)."""
    if star.args.get("except_") or star.args.get("replace") or star.args.get("rename"):
        raise context.script.error("* EXCEPT and * REPLACE are not available", syntax)
