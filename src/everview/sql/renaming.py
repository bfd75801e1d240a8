"""Names of columns: those that SQL gives may be equal, those of a plan differ."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.errors import format_count
from everview.sql.context import BoundQuery, Context
from everview.sql.scope import Named


def rename_columns(query: BoundQuery, names: Sequence[str], syntax: exp.Expr, context: Context) -> BoundQuery:
    """Return the query with other names for its columns, as many as it has; unchanged without names."""
    if not names:
        return query
    schema = query.plan.schema
    if len(names) != len(schema):
        raise context.script.error(
            f"{format_count(len(names), 'name')} for {format_count(len(schema), 'column')}", syntax
        )
    own = unique_names(names)
    if own == schema.names:
        return BoundQuery(query.plan, tuple(names))
    if isinstance(query.plan, N.Values):
        return BoundQuery(N.Values(schema.renamed(own), query.plan.rows), tuple(names))
    columns = tuple((n, Column.to(f)) for n, f in zip(own, schema, strict=True))
    return BoundQuery(N.Project(query.plan, columns), tuple(names))


def select_columns(plan: N.Node, columns: Sequence[Named]) -> BoundQuery:
    """Return a plan of just these columns, in their order; the plan itself where it is that already."""
    names = tuple(c.name for c in columns)
    own = unique_names(names)
    if (
        selects_all_columns(plan, columns)
        and own == plan.schema.names
        and all(f.relation is None for f in plan.schema)
    ):
        return BoundQuery(plan, names)
    expressions = [c.expression for c in columns]
    return BoundQuery(N.Project(plan, tuple(zip(own, expressions, strict=True))), names)


def selects_all_columns(plan: N.Node, columns: Sequence[Named]) -> bool:
    """Return whether these are just the columns of a plan, in its order."""
    return [c.expression for c in columns] == [Column.to(f) for f in plan.schema]


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with a number after each repeated one: the names in a plan are unique.

    >>> unique_names(["k", "v", "K", "k_2"])
    ('k', 'v', 'K_2', 'k_2_2')
    """
    taken: set[str] = set()
    unique = []
    for wished in names:
        name, number = wished, 2
        while name.casefold() in taken:
            name, number = f"{wished}_{number}", number + 1
        taken.add(name.casefold())
        unique.append(name)
    return tuple(unique)
