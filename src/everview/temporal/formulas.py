"""Temporal formulas in negation normal form (paper 3, definitions 17 and 18, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.expressions import Expression
from everview.temporal.distances import Attribute


@dataclass(frozen=True)
class Atom:
    """later ≤ earlier + apart."""

    later: Attribute
    earlier: Attribute
    apart: int


@dataclass(frozen=True)
class Given:
    """The time is not NULL."""

    attribute: Attribute


@dataclass(frozen=True)
class AllOf:
    """A conjunction; of nothing it is true."""

    parts: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """A disjunction; of nothing it is false. `branches` are the sides of the OR that it stands for."""

    parts: tuple[Formula, ...] = ()
    branches: tuple[Expression, ...] = ()


Formula = Atom | Given | AllOf | AnyOf

ALWAYS_TRUE = AllOf()
NEVER_TRUE = AnyOf()


def join_all(*parts: Formula) -> Formula:
    """Return the conjunction of some formulas, as flat as it can be."""
    flat: list[Formula] = []
    for part in parts:
        if part == NEVER_TRUE:
            return NEVER_TRUE
        flat += part.parts if isinstance(part, AllOf) else (part,)
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def join_any(*parts: Formula) -> Formula:
    """Return the disjunction of some formulas."""
    if ALWAYS_TRUE in parts:
        return ALWAYS_TRUE
    possible = tuple(part for part in parts if part != NEVER_TRUE)
    return possible[0] if len(possible) == 1 else AnyOf(possible)
