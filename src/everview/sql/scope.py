"""Scopes: the columns that a name can refer to, of a FROM clause and of the outer query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from everview.algebra.expressions import Call, Column, Expression, substitute
from everview.algebra.schema import Schema
from everview.errors import AlgebraError, CatalogError, nearest


class AmbiguousName(AlgebraError):
    """A name that several columns have."""


@dataclass(frozen=True)
class OuterColumn(Expression):
    """A column of the query around a subquery; it becomes part of a semi or anti join's condition."""

    column: Expression

    def __post_init__(self) -> None:
        self._typed(self.column.type)


@dataclass(frozen=True)
class Named:
    """A column by the name that SQL knows it by; the plan may know it by another."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class SharedColumn:
    """A column of USING or of a NATURAL join: the same name on both sides."""

    left: Named
    right: Named

    def merged(self, side: str) -> Named:
        """Return the one column for both sides: of a full join, whichever is there."""
        match side:
            case "RIGHT":
                return self.right
            case "FULL":
                both = (self.left.expression, self.right.expression)
                return Named(self.left.name, Call("coalesce", both))
        return self.left


@dataclass
class Scope:
    """The relations of FROM in their order, for names with a relation; for bare names, the columns of *.

    `aliases` come before all columns; `unseen` has relations that cannot be named here, and why.
    """

    relations: list[tuple[str | None, tuple[Named, ...]]] = field(default_factory=list)
    columns: list[Named] = field(default_factory=list)
    outer: Scope | None = None
    aliases: Mapping[str, Expression] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)

    def add(self, name: str | None, schema: Schema, names: Sequence[str] | None = None) -> None:
        """Add a relation; its name must be new. `names` are those of its columns in SQL."""
        columns = tuple(
            Named(shown, Column.to(f)) for shown, f in zip(names or schema.names, schema, strict=True)
        )
        self.include(Scope([(name, columns)], list(columns)))

    def include(self, other: Scope, shared: Sequence[SharedColumn] = (), side: str = "") -> None:
        """Add the relations of another scope, joined with these; shared columns come first, and once."""
        for name, _ in other.relations:
            if name is not None and self.knows(name):
                raise AlgebraError(
                    f"two relations are called '{name}'", next_step="give one of them another name with AS"
                )
        left, right = ({s.left for s in shared}, {s.right for s in shared})
        self.relations += other.relations
        self.columns = [
            *(s.merged(side) for s in shared),
            *(c for c in self.columns if c not in left),
            *(c for c in other.columns if c not in right),
        ]
        self.unseen |= other.unseen

    def knows(self, relation: str) -> bool:
        """Return whether a relation of this name stands in FROM."""
        return any((name or "").casefold() == relation.casefold() for name, _ in self.relations)

    def with_aliases_first(self, aliases: Mapping[str, Expression]) -> Scope:
        """Return the same scope, in which names of the SELECT list come first."""
        return replace(self, aliases=aliases)

    def column(self, name: str, relation: str | None) -> Expression:
        """Return the column that a name refers to, here or in the outer query."""
        if relation is None and name.casefold() in self.aliases:
            return self.aliases[name.casefold()]
        self._require_relation(relation)
        found = self.named(name, relation)
        if found is not None:
            return found.expression
        try:
            if self.outer is None:
                raise self._unknown(name, relation)
            outside = self.outer.column(name, relation)
        except (AlgebraError, CatalogError):
            raise self._unknown(name, relation) from None  # report the error of the inner scope
        if isinstance(outside, (Column, OuterColumn)):
            return OuterColumn(outside)  # one wrapper for each query between the column and its use
        return substitute(outside, {c: OuterColumn(c) for c in outside.columns()})

    def named(self, name: str, relation: str | None = None) -> Named | None:
        """Return the column of this name; None if there is none, refused if there are several."""
        found = [(o, c) for o, c in self._owned(relation) if c.name.casefold() == name.casefold()]
        if len(found) > 1:
            owners = [f"{owner}.{c.name}" for owner, c in found if owner is not None]
            one_relation = relation is not None or len(set(owners)) < len(found)
            raise AmbiguousName(
                f"the column '{name if relation is None else f'{relation}.{name}'}' is ambiguous",
                choices=() if one_relation else owners,
                next_step="give one of them another name with AS"
                if one_relation
                else "write the relation before the column",
            )
        return found[0][1] if found else None

    def require(self, name: str, relation: str | None = None) -> Named:
        """Return the column of this name in FROM itself."""
        found = self.named(name, relation)
        if found is None:
            raise self._unknown(name, relation)
        return found

    @property
    def only_relation(self) -> str | None:
        """The name of the relation, if there is only one."""
        return self.relations[0][0] if len(self.relations) == 1 else None

    def _owned(self, relation: str | None) -> list[tuple[str | None, Named]]:
        """Return the columns of a relation, or all that a bare name may mean, each with its relation."""
        if relation is not None:
            same = [(n, cs) for n, cs in self.relations if (n or "").casefold() == relation.casefold()]
            return [(n, c) for n, columns in same for c in columns]
        owners = {c.expression: n for n, columns in self.relations for c in columns}
        return [(owners.get(c.expression), c) for c in self.columns]

    def _unknown(self, name: str, relation: str | None) -> AlgebraError:
        """Return the error for a name that no column has."""
        owned = self._owned(None)
        plain = relation is None and len({c.name for _, c in owned}) == len(owned)
        known = [c.name if plain or o is None else f"{o}.{c.name}" for o, c in owned]
        wanted = name if relation is None else f"{relation}.{name}"
        close = nearest(name, [c.name for _, c in owned])
        alike = (k for k, (_, c) in zip(known, owned, strict=True) if c.name == close)
        return AlgebraError(
            f"there is no column '{wanted}'",
            meant=nearest(wanted, known) or next(alike, None),
            choices=known,
        )

    def _require_relation(self, relation: str | None) -> None:
        scope: Scope | None = self
        known: list[str] = []
        why: str | None = None
        while scope is not None:
            if relation is None or scope.knows(relation):
                return
            known += [n for n, _ in scope.relations if n is not None]
            why = why or scope.unseen.get(relation.casefold())
            scope = scope.outer
        raise CatalogError(
            f"there is no relation '{relation}' in this query",
            meant=None if why else nearest(relation or "", known),
            choices=known,
            next_step=why,
        )

    def star(self, relation: str | None) -> list[Named]:
        """Return the columns of * or of relation.*."""
        self._require_relation(relation)
        return [column for _, column in self._owned(relation)]
