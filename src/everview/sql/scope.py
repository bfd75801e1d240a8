"""Which columns a name may mean: the relations of a FROM clause, and those of the query around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.algebra.expressions import Call, Column, Expression, substitute
from everview.algebra.schema import Field, Schema
from everview.errors import AlgebraError, CatalogError, nearest


@dataclass(frozen=True)
class OuterColumn(Expression):
    """A column of the query around a subquery; it becomes part of a semi or anti join's condition."""

    column: Expression

    def __post_init__(self) -> None:
        self._typed(self.column.type)


@dataclass
class Scope:
    """The relations in FROM, in their order; `shared` holds the columns of USING, by their name."""

    relations: list[tuple[str | None, Schema]] = field(default_factory=list)
    outer: Scope | None = None
    shared: dict[str, Expression] = field(default_factory=dict)
    hidden: set[tuple[str | None, str]] = field(default_factory=set)
    unseen: dict[str, str] = field(default_factory=dict)  # names that do not count here, and why

    def add(self, name: str | None, schema: Schema) -> None:
        """One more relation; its name must be new."""
        if name is not None and any((n or "").casefold() == name.casefold() for n, _ in self.relations):
            raise AlgebraError(
                f"two relations are called '{name}'",
                next_step="give one of them another name with AS",
            )
        self.relations.append((name, schema))

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for _, s in self.relations for f in s.fields))

    def column(self, name: str, relation: str | None) -> Expression:
        """What a name means here, or in the query around this one."""
        if relation is None and name.casefold() in self.shared:
            return self.shared[name.casefold()]
        self._require_relation(relation)
        try:
            return Column.to(self.schema.find(name, relation))
        except AlgebraError:
            if self.outer is None or self._has(name, relation):
                raise
        try:
            found = self.outer.column(name, relation)
        except (AlgebraError, CatalogError):
            return Column.to(
                self.schema.find(name, relation)
            )  # the error of the inner scope is the nearer one
        if isinstance(found, (Column, OuterColumn)):
            return OuterColumn(found)  # of a query further out it is wrapped once more
        return substitute(found, {c: OuterColumn(c) for c in found.columns()})

    def _has(self, name: str, relation: str | None) -> bool:
        return any(
            f.name.casefold() == name.casefold() and relation in (None, f.relation) for f in self.schema
        )

    def _require_relation(self, relation: str | None) -> None:
        scope: Scope | None = self
        known: list[str] = []
        why: str | None = None
        while scope is not None:
            names = [n for n, _ in scope.relations if n is not None]
            if relation is None or relation.casefold() in (n.casefold() for n in names):
                return
            known += names
            why = why or scope.unseen.get(relation.casefold())
            scope = scope.outer
        raise CatalogError(
            f"there is no relation '{relation}' in this query",
            meant=None if why else nearest(relation or "", known),
            choices=known,
            next_step=why,
        )

    def share(self, name: str, left: Field, right: Field, side: str) -> None:
        """A column of USING: one column for both sides; of a full join, whichever is there."""
        a, b = Column.to(left), Column.to(right)
        self.shared[name.casefold()] = {"RIGHT": b, "FULL": Call("coalesce", (a, b))}.get(side, a)
        self.hidden.add((right.relation, right.name.casefold()))
        if side in ("RIGHT", "FULL"):
            self.hidden.add((left.relation, left.name.casefold()))

    def star(self, relation: str | None) -> list[tuple[str, Expression]]:
        """The columns of * or of relation.*; those of USING stand first and once."""
        self._require_relation(relation)
        columns: list[tuple[str, Expression]] = []
        if relation is None:
            for name, expression in self.shared.items():
                columns.append((self._written(name), expression))
        for owner, schema in self.relations:
            if relation is not None and (owner or "").casefold() != relation.casefold():
                continue
            for f in schema:
                if relation is None and (
                    f.name.casefold() in self.shared
                    and (
                        (f.relation, f.name.casefold()) in self.hidden
                        or self.shared[f.name.casefold()] == Column.to(f)
                    )
                ):
                    continue
                columns.append((f.name, Column.to(f)))
        return columns

    def _written(self, folded: str) -> str:
        return next(f.name for f in self.schema if f.name.casefold() == folded)
