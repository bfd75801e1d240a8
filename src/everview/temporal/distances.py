"""Difference-bound matrices: the greatest distances between the times of one row (paper 3, 5.1).

A conjunction of atoms v ≤ w + c is a simple temporal problem. Closed by all-pairs shortest paths it says, for
each pair of times, how far the one can lie after the other (paper 3, definitions 20 and 21).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Attribute:
    """A time in a row: a TIMESTAMP column, whether or not it is still selected. No two are equal."""

    name: str

    def __repr__(self) -> str:
        return self.name


ZERO = Attribute("0")  # the constant instant 0, so that a comparison with a constant is an atom as any other

_Rows = Mapping[Attribute, Mapping[Attribute, int]]


@dataclass(frozen=True)
class Distances:
    """dist(w, v): the least c such that v ≤ w + c, for all pairs of times; closed under composition.

    The paper's words for definition 21 say the opposite of its formula; the formula is meant (finding 3).

    >>> a, b, c = Attribute("a"), Attribute("b"), Attribute("c")
    >>> known = Distances.of(a, b, c).restrict(b, a, 10).restrict(c, b, -1)
    >>> known.dist(a, c), known.dist(c, a), known.restrict(a, c, -10)
    (9, None, None)
    """

    rows: _Rows = field(default_factory=dict)

    @classmethod
    def of(cls, *attributes: Attribute) -> Distances:
        """Return the matrix of some attributes of which nothing is known."""
        return cls({ZERO: {}, **{attribute: {} for attribute in attributes}})

    def dist(self, w: Attribute, v: Attribute) -> int | None:
        """Return the greatest distance from w to v; None if it is infinite (definition 21)."""
        return 0 if v is w else self.rows.get(w, {}).get(v)

    def restrict(self, v: Attribute, w: Attribute, c: int) -> Distances | None:
        """Add the atom v ≤ w + c; None if no times can satisfy all atoms (a negative cycle)."""
        known, back = self.dist(w, v), self.dist(v, w)
        if back is not None and back + c < 0:
            return None
        if known is not None and known <= c:
            return self
        rows = {a: dict(self.rows.get(a, {})) for a in (*self.rows, v, w)}
        before = [(a, row[w]) for a, row in rows.items() if w in row] + [(w, 0)]
        after = [*rows[v].items(), (v, 0)]
        for a, first in before:
            for b, last in after:
                length = first + c + last
                if a is not b and length < rows[a].get(b, length + 1):
                    rows[a][b] = length
        return Distances(rows)

    def beside(self, other: Distances) -> Distances:
        """Return the matrix of two rows side by side; they have the constant 0 in common and nothing else."""
        rows = {a: dict(row) for a, row in self.rows.items()}
        for a, row in other.rows.items():
            rows.setdefault(a, {}).update(row)
        for first, second in ((self, other), (other, self)):
            into = [(a, row[ZERO]) for a, row in first.rows.items() if ZERO in row]
            for a, before in into:
                for b, after in second.rows.get(ZERO, {}).items():
                    rows[a][b] = before + after
        return Distances(rows)

    def only(self, attributes: Iterable[Attribute]) -> Distances:
        """Return the distances between some attributes; of a closed matrix that loses nothing."""
        kept = {ZERO, *attributes}
        return Distances(
            {a: {b: c for b, c in row.items() if b in kept} for a, row in self.rows.items() if a in kept}
        )

    def rename(self, names: Mapping[Attribute, Attribute]) -> Distances:
        """Return the same distances between other attributes."""
        return Distances(
            {names.get(a, a): {names.get(b, b): c for b, c in row.items()} for a, row in self.rows.items()}
        )

    def hull(self, other: Distances) -> Distances:
        """Return the least matrix that both satisfy: for each pair the greater distance."""
        return Distances(
            {
                a: {b: max(c, other.rows[a][b]) for b, c in row.items() if b in other.rows.get(a, {})}
                for a, row in self.rows.items()
            }
        )

    def implies(self, other: Distances) -> bool:
        """Return whether all times that satisfy this matrix satisfy the other one too."""
        return all(
            (known := self.dist(a, b)) is not None and known <= c
            for a, row in other.rows.items()
            for b, c in row.items()
        )
