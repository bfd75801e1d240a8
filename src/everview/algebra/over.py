"""Functions over the rows of a partition in an order: ROW_NUMBER, RANK, DENSE_RANK, perhaps with a limit."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.expressions import Expression, SortKey, require_columns
from everview.algebra.nodes import Node
from everview.algebra.schema import Field, Schema
from everview.algebra.types import INT
from everview.errors import AlgebraError

RANK_FUNCTIONS = ("row_number", "rank", "dense_rank")


@dataclass(frozen=True)
class RankLimit:
    """A condition on a rank: the function yields at most `count`."""

    function: str
    count: int

    def __post_init__(self) -> None:
        _require_rank(self.function)
        if self.count < 1:
            raise AlgebraError(f"a ranking of {self.count} rows has none")


@dataclass(frozen=True)
class Rank(Node):
    """Every row with its ranks in its partition, or only those within a limit (top-N).

    ROW_NUMBER orders rows with equal keys by all columns, from left to right, ascending, NULL first.
    """

    input: Node
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    ranks: tuple[tuple[str, str], ...]
    limit: RankLimit | None = None

    def __post_init__(self) -> None:
        for expression in (*self.partition, *(key.expression for key in self.order)):
            require_columns(expression, self.input.schema)
        for _, function in self.ranks:
            _require_rank(function)
        if not self.ranks and self.limit is None:
            raise AlgebraError("a ranking has a rank or a limit")
        added = tuple(Field(name, INT) for name, _ in self.ranks)
        self._shaped(Schema(self.input.schema.fields + added))


def _require_rank(function: str) -> None:
    if function not in RANK_FUNCTIONS:
        raise AlgebraError(f"there is no rank '{function}'", choices=RANK_FUNCTIONS)
