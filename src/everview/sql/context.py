"""The context in which a query is bound: the script, the catalog, the names of WITH, the outer query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression
from everview.algebra.time import Chronon
from everview.catalog import Catalog
from everview.sql.expressions import ExpressionBinder
from everview.sql.scope import Scope
from everview.sql.script import Script


@dataclass(frozen=True)
class BoundQuery:
    """A query as a plan, and the names of its columns in SQL, of which several may be equal."""

    plan: N.Node
    names: tuple[str, ...]

    @classmethod
    def of(cls, plan: N.Node) -> BoundQuery:
        return cls(plan, plan.schema.names)


@dataclass(frozen=True)
class Context:
    """Passed down through a query; `used` collects the catalog names that it reads, `references` where.

    `now` is the instant of an ad hoc query; views have none, since they hold at all instants. With `stamped`,
    ISTREAM, DSTREAM and RSTREAM have a column for their instant; definitions of earlier releases have none.
    `timeline` is the time line of FROM, if it has one; `subqueries` has the values of the subqueries of its
    expressions, by the identity of their syntax.
    """

    script: Script
    catalog: Catalog
    bind_query: Callable[[exp.Expr, Context], BoundQuery]
    read: Callable[[str, Context], BoundQuery]
    now: Chronon | None = None
    ctes: dict[str, BoundQuery] = field(default_factory=dict)
    outer: Scope | None = None
    used: dict[str, None] = field(default_factory=dict)
    references: list[exp.Expr] = field(default_factory=list)
    stamped: bool = True
    timeline: Column | None = None
    subqueries: Mapping[int, Expression] = field(default_factory=dict)

    def read_named(self, name: exp.Expr) -> BoundQuery:
        """Return what a name in the text stands for; note the place of a name of the catalog."""
        with self.script.blame(name):
            found = self.read(name.name, self)
        if name.name.casefold() not in self.ctes:
            self.references.append(name)
        return found

    def with_cte(self, name: str, query: BoundQuery) -> Context:
        return replace(self, ctes={**self.ctes, name.casefold(): query})

    def inside(self, outer: Scope | None) -> Context:
        """Return the context of a subquery of a query with this scope."""
        return replace(self, outer=outer)

    def binder(self, scope: Scope, no_aggregates: str | None = None) -> ExpressionBinder:
        return ExpressionBinder(
            self.script,
            scope,
            no_aggregates,
            now=self.now,
            timeline=self.timeline,
            subqueries=self.subqueries,
        )
