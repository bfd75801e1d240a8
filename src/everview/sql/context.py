"""What a query is bound in: the script, the catalog, the names that WITH gives, the query around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.catalog import Catalog
from everview.sql.expressions import ExpressionBinder
from everview.sql.scope import Scope
from everview.sql.script import Script


@dataclass(frozen=True)
class Context:
    """Passed down through a query; `used` collects the catalog names that it reads."""

    script: Script
    catalog: Catalog
    bind_query: Callable[[exp.Expr, Context], N.Node]
    read: Callable[[str, Context], N.Node]
    ctes: dict[str, N.Node] = field(default_factory=dict)
    outer: Scope | None = None
    used: dict[str, None] = field(default_factory=dict)

    def with_cte(self, name: str, plan: N.Node) -> Context:
        return replace(self, ctes={**self.ctes, name.casefold(): plan})

    def inside(self, outer: Scope | None) -> Context:
        """For a subquery of a query with this scope."""
        return replace(self, outer=outer)

    def binder(self, scope: Scope, no_aggregates: str | None = None) -> ExpressionBinder:
        return ExpressionBinder(self.script, scope, no_aggregates)
