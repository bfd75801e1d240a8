"""The requirements on a query that defines a view or table: distinct column names, and types."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from everview.algebra.schema import Schema
from everview.sql import ast
from everview.sql.context import BoundQuery
from everview.sql.script import Script


def require_distinct_names(
    query: BoundQuery, columns: Sequence[exp.Expr], node: exp.Expr, script: Script
) -> None:
    """Refuse two columns of one name; `columns` are the names that CREATE VIEW itself lists."""
    names = [name.casefold() for name in query.names]
    twice = next((i for i, name in enumerate(names) if name in names[:i]), None)
    if twice is None:
        return
    what = f"two columns are called '{query.names[twice]}'"
    if columns:
        raise script.error(what, columns[twice], next_step="give one of them another name")
    instead = "give one of them another name with AS"
    if isinstance(node, ast.CreateViewSyntax):
        instead = f"name them all: CREATE VIEW {node.name} (p, q) AS …, or leave one out: * EXCEPT (…)"
    raise script.error(what, _second(names[twice], node), next_step=instead)


def _second(name: str, node: exp.Expr) -> exp.Expr:
    """Return the place at which a name occurs for the second time in the SELECT list, or its *."""
    select = node.args["query"].find(exp.Select)
    items = [] if select is None else select.selects
    named = [item for item in items if item.alias_or_name.casefold() == name]
    stars = [item for item in items if item.is_star]
    place: exp.Expr = next(iter([*named[1:], *stars]), node.this)
    return place


def require_types(schema: Schema, node: exp.Expr, script: Script) -> None:
    """Refuse a column that is NULL without a type."""
    select = node.args["query"].find(exp.Select)
    items = {item.alias_or_name.casefold(): item for item in select.selects} if select is not None else {}
    for f in schema:
        if f.type.name == "VOID":
            raise script.error(
                f"the column '{f.name}' is NULL and has no type",
                items.get(f.name.casefold(), node.this),
                next_step="write CAST(NULL AS STRING)",
            )
