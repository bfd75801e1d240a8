"""σ_p commutes with an alias: only the names in p change."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, substitute


def push_filter_below_alias(node: N.Node) -> N.Node | None:
    """Move a filter below an alias, where the columns have the names of the relation itself."""
    if not (isinstance(node, N.Filter) and isinstance(node.input, N.Alias)):
        return None
    alias = node.input
    names: dict[Expression, Expression] = {
        Column.to(above): Column.to(below)
        for above, below in zip(alias.schema, alias.input.schema, strict=True)
    }
    return N.Alias(N.Filter(alias.input, substitute(node.condition, names)), alias.name)
