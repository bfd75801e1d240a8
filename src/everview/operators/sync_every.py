"""SYNC EVERY: begins and ends moved to the next point of a grid (paper 5, section 5; DESIGN section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.time import Grid
from everview.operators.base import Operator


@dataclass(frozen=True, eq=False)
class SyncEveryOperator(Operator):
    """A row (e, from, until, n) becomes (e, φ(from), φ(until), n), φ(t) the first point at or after t.

    Rows that begin and end between two points are dropped. Catalyst evaluates the closed form.

    >>> every_ten = Grid(10)
    >>> [("e", every_ten.ceil(from_), every_ten.ceil(until), 1) for from_, until in ((3, 25), (11, 19))]
    [('e', 10, 30, 1), ('e', 20, 20, 1)]
    """

    input: Operator
    grid: Grid

    def __post_init__(self) -> None:
        self._set_types(self.input.types)
