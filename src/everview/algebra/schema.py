"""Schemas: the named, typed columns of a relation, and which of them are its time lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from everview.algebra.types import TIMESTAMP, DataType, wider_type
from everview.errors import AlgebraError, nearest


@dataclass(frozen=True)
class Field:
    """One column: its name, its type, the relation it is read from, and its rank as a time line.

    The time line of rank 0 is the one that windows use; None: an ordinary column.
    """

    name: str
    type: DataType
    relation: str | None = None
    timeline: int | None = None

    def __post_init__(self) -> None:
        if self.timeline is not None and self.type != TIMESTAMP:
            raise AlgebraError(
                f"the time line '{self.name}' is {self.type.a}", next_step="declare it as a TIMESTAMP"
            )

    @property
    def qualified(self) -> str:
        return self.name if self.relation is None else f"{self.relation}.{self.name}"


@dataclass(frozen=True)
class Schema:
    """The columns of a relation, in order. Names are compared without regard to case."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for field in self.fields:
            if field.qualified.casefold() in seen:
                raise AlgebraError(
                    f"two columns are called '{field.qualified}'",
                    next_step="give one of them another name with AS",
                )
            seen.add(field.qualified.casefold())

    @classmethod
    def of(cls, *columns: tuple[str, DataType], timeline: str | None = None) -> Schema:
        """Return a schema from (name, type) pairs.

        >>> from everview.algebra.types import INT, TIMESTAMP
        >>> Schema.of(("id", INT), ("ts", TIMESTAMP), timeline="ts").timeline.name
        'ts'
        """
        return cls(tuple(Field(n, t, timeline=0 if n == timeline else None) for n, t in columns))

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)

    @property
    def timeline(self) -> Field | None:
        """The time line that windows over this relation use: of the least rank, the leftmost."""
        lines = [f for f in self.fields if f.timeline is not None]
        return min(lines, key=lambda f: f.timeline or 0, default=None)

    def find(self, name: str, relation: str | None = None) -> Field:
        """Return the field of this name; refused when there is none, or more than one."""
        found = [
            f for f in self.fields
            if f.name.casefold() == name.casefold()
            and (relation is None or (f.relation or "").casefold() == relation.casefold())
        ]  # fmt: skip
        wanted = name if relation is None else f"{relation}.{name}"
        if not found:
            plain = relation is None and len(set(self.names)) == len(self.names)
            known = [f.name if plain else f.qualified for f in self.fields]
            raise AlgebraError(
                f"there is no column '{wanted}'",
                meant=nearest(wanted, known) or self._nearest_plain(name),
                choices=known,
            )
        if len(found) > 1:
            raise AlgebraError(
                f"the column '{wanted}' is ambiguous",
                choices=[f.qualified for f in found],
                next_step="write the relation before the column",
            )
        return found[0]

    def _nearest_plain(self, name: str) -> str | None:
        plain = nearest(name, self.names)
        return next((f.qualified for f in self.fields if f.name == plain), None)

    def index(self, field: Field) -> int:
        return self.fields.index(field)

    def concat(self, other: Schema) -> Schema:
        """Return both schemas side by side, as a product's."""
        return Schema(self.fields + other.fields)

    def under(self, relation: str | None) -> Schema:
        """Return the same columns, read from a relation of this name."""
        return Schema(tuple(replace(f, relation=relation) for f in self.fields))

    def renamed(self, names: Sequence[str]) -> Schema:
        """Return the same columns under other names."""
        return Schema(tuple(replace(f, name=n) for f, n in zip(self.fields, names, strict=True)))

    def stamped(self, name: str) -> Schema:
        """Return the columns and one more, a time line after those that there are.

        >>> from everview.algebra.types import INT, TIMESTAMP
        >>> [f.timeline for f in Schema.of(("k", INT), ("ts", TIMESTAMP), timeline="ts").stamped("at")]
        [None, 0, 1]
        >>> Schema.of(("k", INT)).stamped("at").timeline.name
        'at'
        """
        lines = [f.timeline for f in self.fields if f.timeline is not None]
        return Schema((*self.fields, Field(name, TIMESTAMP, timeline=max(lines, default=-1) + 1)))

    def merged(self, other: Schema, operation: str) -> Schema:
        """Return the schema of a set operation: the left names, types wide enough for both sides."""
        if len(self) != len(other):
            raise AlgebraError(
                f"{operation} needs as many columns on both sides: "
                f"{len(self)} on the left, {len(other)} on the right"
            )
        fields = []
        for position, (left, right) in enumerate(zip(self.fields, other.fields, strict=True), 1):
            type_ = wider_type(left.type, right.type)
            if type_ is None:
                raise AlgebraError(
                    f"{operation} cannot unite column {position}: '{left.name}' is {left.type}, "
                    f"'{right.name}' is {right.type}",
                    next_step="CAST one of them",
                )
            line = left.timeline if right.timeline is not None else None
            fields.append(Field(left.name, type_, left.relation, line))
        return Schema(tuple(fields))

    def __str__(self) -> str:
        return ", ".join(f"{f.qualified} {f.type}" for f in self.fields)


def names_beside(names: Iterable[str], *ours: str) -> list[str]:
    """Return names for columns of ours that no column of a user has: prefixed by as many _ as that takes.

    >>> names_beside(["k", "N", "_n", "old"], "from", "n", "old")
    ['from', '__n', '_old']
    """
    taken = {name.casefold() for name in names}
    found = []
    for name in ours:
        while name in taken:
            name = f"_{name}"
        found.append(name)
        taken.add(name)
    return found
