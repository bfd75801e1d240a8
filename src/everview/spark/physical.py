"""The physical plan: what Catalyst evaluates row by row, and which kernels run between exchanges.

Columns go by position here: a node's columns are c0, c1, …, so that no name can clash. Every node is
a frozen record; equal nodes are one piece of work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from everview.algebra.changes import Record
from everview.algebra.expressions import Column, Expression
from everview.algebra.time import Grid
from everview.algebra.types import BOOLEAN, DataType
from everview.algebra.windows import TimeWindow
from everview.kernels.accumulate import Aggregate


def column(position: int) -> str:
    """The name of the column at a position."""
    return f"c{position}"


@dataclass(frozen=True)
class Physical:
    """The root of all physical nodes."""

    types: tuple[DataType, ...] = field(init=False, compare=False, repr=False)

    def _typed(self, types: tuple[DataType, ...]) -> None:
        object.__setattr__(self, "types", types)

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name, None), Physical))

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(column(i), t) for i, t in enumerate(self.types))


@dataclass(frozen=True)
class Scan(Physical):
    """The new rows of a stream or a table."""

    name: str
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._typed(self.of)


@dataclass(frozen=True)
class Constant(Physical):
    """Rows that hold at all times."""

    rows: tuple[Record, ...]
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._typed(self.of)


# Row by row: Catalyst


@dataclass(frozen=True)
class Select(Physical):
    """The rows for which a condition is true."""

    input: Physical
    condition: Expression

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class Compute(Physical):
    """New columns from the old ones."""

    input: Physical
    outputs: tuple[Expression, ...]

    def __post_init__(self) -> None:
        self._typed(tuple(e.type for e in self.outputs))


@dataclass(frozen=True)
class Restrict(Physical):
    """A time window: each interval cut to the one that the window gives for the row's timestamp."""

    input: Physical
    timestamp: int
    window: TimeWindow

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class Warp(Physical):
    """SYNC EVERY: begins and ends moved to the next point of a grid."""

    input: Physical
    grid: Grid

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class Negative(Physical):
    """The same rows with n taken negative."""

    input: Physical

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class Merge(Physical):
    """The rows of both inputs."""

    left: Physical
    right: Physical

    def __post_init__(self) -> None:
        self._typed(self.left.types)


# Kernels: they keep state, and need rows of one key in one place


@dataclass(frozen=True)
class JoinKernel(Physical):
    """Pairs with equal keys that overlap in time; the left columns, then the right ones."""

    left: Physical
    right: Physical
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool = False

    def __post_init__(self) -> None:
        self._typed(self.left.types + self.right.types)


@dataclass(frozen=True)
class VersionKernel(Physical):
    """A stream's rows with the version of a table at their own time."""

    left: Physical
    right: Physical
    timestamp: int
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]

    def __post_init__(self) -> None:
        self._typed(self.left.types + self.right.types)


@dataclass(frozen=True)
class DistinctKernel(Physical):
    """Every record once: δ, or δ* if rows are never taken back."""

    input: Physical
    signed: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class CountsKernel(Physical):
    """EXCEPT ALL, INTERSECT ALL, max-union: a function of the counts on both sides."""

    left: Physical
    right: Physical
    function: str

    def __post_init__(self) -> None:
        self._typed(self.left.types)


@dataclass(frozen=True)
class SweepKernel(Physical):
    """GROUP BY the first columns; the aggregates' arguments are columns too."""

    input: Physical
    keys: int
    aggregates: tuple[Aggregate, ...]
    results: tuple[DataType, ...]
    signed: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types[: self.keys] + self.results)


@dataclass(frozen=True)
class RowsKernel(Physical):
    """The latest rows of each partition, in this order of columns."""

    input: Physical
    count: int
    partition: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class LatestKernel(Physical):
    """A tagged stream: the latest row of each key; the last column says whether it deletes, and goes."""

    input: Physical
    key: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.input.types[-1] != BOOLEAN:
            raise TypeError("the last column says whether a row deletes")
        self._typed(self.input.types[:-1])


@dataclass(frozen=True)
class InsertionsKernel(Physical):
    """ISTREAM or DSTREAM."""

    input: Physical
    deletions: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class RelationKernel(Physical):
    """RSTREAM."""

    input: Physical
    grid: Grid

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True)
class PointsKernel(Physical):
    """SYNC ON: `points` has the instants at which rows are inserted into the synchronization stream."""

    input: Physical
    points: Physical

    def __post_init__(self) -> None:
        self._typed(self.input.types)


KERNELS = (
    JoinKernel, VersionKernel, DistinctKernel, CountsKernel, SweepKernel, RowsKernel, LatestKernel,
    InsertionsKernel, RelationKernel, PointsKernel,
)  # fmt: skip
