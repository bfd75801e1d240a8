"""WITH: named queries, visible to the queries after them."""

from __future__ import annotations

from sqlglot import exp

from everview.sql.context import Context
from everview.sql.renaming import rename_columns


def bind_with(node: exp.Expr, context: Context) -> Context:
    """Return the context in which a query with this WITH is bound; each name hides an equal outer one."""
    clause = node.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        raise context.script.error(
            "WITH RECURSIVE is not available: nothing bounds how often it repeats, nor its state",
            clause,
            next_step="write as many joins as there are levels, or join in several views over each other",
        )
    for cte in clause.expressions:
        query = context.bind_query(cte.this, context.inside(None))
        alias = cte.args["alias"]
        context = context.with_cte(
            cte.alias, rename_columns(query, [c.name for c in alias.columns], alias, context)
        )
    return context
