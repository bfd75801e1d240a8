"""The physical plan: what Catalyst evaluates row by row, and which kernels run between exchanges.

Columns go by position here: a node's columns are c0, c1, …, so that no name can clash. Every node is
a frozen record, known by a digest of what it computes; equal nodes are one piece of work.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields

from everview.algebra.changes import Record
from everview.algebra.expressions import Column, Expression
from everview.algebra.time import INFINITY, Grid
from everview.algebra.types import BOOLEAN, DataType
from everview.algebra.windows import TimeWindow
from everview.kernels.accumulate import Aggregate
from everview.kernels.frame import BEFORE_ALL


def column(position: int) -> str:
    """The name of the column at a position."""
    return f"c{position}"


@dataclass(frozen=True)
class Ending:
    """How the rows of an input end, as far as that helps to lay out a state of them (paper 2, 5.3.2).

    `within` is the longest time after which one ends, where they end in any order and it is known;
    `may_cancel` says that rows may be taken back.

    >>> Ending(), Ending(within=10, may_cancel=False)
    (Ending(within=None, may_cancel=True), Ending(within=10, may_cancel=False))
    """

    within: int | None = None
    may_cancel: bool = True


@dataclass(frozen=True, eq=False)
class Physical:
    """The root of all physical nodes.

    `digest` stands for all that a node computes, and what is below it: nodes are equal if it is. `endings`
    says how the rows of each input end; it changes no result, and is no part of the digest.
    """

    types: tuple[DataType, ...] = field(init=False, repr=False)
    digest: str = field(init=False, repr=False)
    endings: tuple[Ending, ...] = field(default=(), kw_only=True, repr=False)

    def _typed(self, types: tuple[DataType, ...]) -> None:
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "digest", _digest(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Physical) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name, None), Physical))

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(column(i), t) for i, t in enumerate(self.types))


def _digest(node: Physical) -> str:
    """What a node is, in a few letters; its inputs count by their own digests."""
    values = [getattr(node, f.name) for f in fields(node) if f.init and f.name != "endings"]
    parts = [v.digest if isinstance(v, Physical) else repr(v) for v in values]
    return hashlib.blake2b("\0".join([type(node).__name__, *parts]).encode(), digest_size=16).hexdigest()


def operator_name(node: Physical) -> str:
    """A name for a kernel that is the same in every step and after every restart: by what it computes."""
    return f"{type(node).__name__}-{node.digest[:16]}"


@dataclass(frozen=True, eq=False)
class Scan(Physical):
    """The new rows of a stream or a table, or with the kind "view" the changes that are kept of a view.

    With `since`, only those that begin after it: who reads a stream since then is someone else than who
    has read it from its start, and shares no state with him.
    """

    name: str
    of: tuple[DataType, ...]
    kind: str = "rows"
    since: int = BEFORE_ALL

    def __post_init__(self) -> None:
        self._typed(self.of)


@dataclass(frozen=True, eq=False)
class Constant(Physical):
    """Rows that hold at all times."""

    rows: tuple[Record, ...]
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._typed(self.of)


@dataclass(frozen=True, eq=False)
class Register(Physical):
    """Rows that were worked out before, in the same task: stands for an input where a node is sent alone."""

    number: int
    of: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._typed(self.of)


# Row by row: Catalyst


@dataclass(frozen=True, eq=False)
class Select(Physical):
    """The rows for which a condition is true."""

    input: Physical
    condition: Expression

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class Compute(Physical):
    """New columns from the old ones."""

    input: Physical
    outputs: tuple[Expression, ...]

    def __post_init__(self) -> None:
        self._typed(tuple(e.type for e in self.outputs))


@dataclass(frozen=True, eq=False)
class Restrict(Physical):
    """A time window: each interval cut to the one that the window gives for the row's timestamp."""

    input: Physical
    timestamp: int
    window: TimeWindow

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class Warp(Physical):
    """SYNC EVERY: begins and ends moved to the next point of a grid."""

    input: Physical
    grid: Grid

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class Negative(Physical):
    """The same rows with n taken negative."""

    input: Physical

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class Merge(Physical):
    """The rows of both inputs."""

    left: Physical
    right: Physical

    def __post_init__(self) -> None:
        self._typed(self.left.types)


# Kernels: they keep state, and need rows of one key in one place


@dataclass(frozen=True, eq=False)
class JoinKernel(Physical):
    """Pairs with equal keys that overlap in time; the left columns, then the right ones."""

    left: Physical
    right: Physical
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool = False

    def __post_init__(self) -> None:
        self._typed(self.left.types + self.right.types)


@dataclass(frozen=True, eq=False)
class BandKernel(Physical):
    """Pairs in which a column of the right side lies between two columns of the left side, or beyond one."""

    left: Physical
    right: Physical
    column: int
    lower: int | None
    upper: int | None
    lower_strict: bool = False
    upper_strict: bool = False

    def __post_init__(self) -> None:
        self._typed(self.left.types + self.right.types)


@dataclass(frozen=True, eq=False)
class VersionKernel(Physical):
    """A stream's rows with the version of a table at their own time.

    `age` is how far before the bound the timestamps of rows to come can lie: so long versions are kept.
    """

    left: Physical
    right: Physical
    timestamp: int
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool = False
    age: int = INFINITY

    def __post_init__(self) -> None:
        self._typed(self.left.types + self.right.types)


@dataclass(frozen=True, eq=False)
class WithoutVersionKernel(Physical):
    """The rows of a stream that are not among those that have met a version of a table in the same step."""

    left: Physical
    met: Physical

    def __post_init__(self) -> None:
        self._typed(self.left.types)


@dataclass(frozen=True, eq=False)
class DistinctKernel(Physical):
    """Every record once: δ, or δ* if rows are never taken back."""

    input: Physical
    signed: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class CountsKernel(Physical):
    """EXCEPT ALL, INTERSECT ALL, max-union: a function of the counts on both sides."""

    left: Physical
    right: Physical
    function: str

    def __post_init__(self) -> None:
        self._typed(self.left.types)


@dataclass(frozen=True, eq=False)
class SweepKernel(Physical):
    """GROUP BY the first columns; the aggregates' arguments are columns too."""

    input: Physical
    keys: int
    aggregates: tuple[Aggregate, ...]
    results: tuple[DataType, ...]
    signed: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types[: self.keys] + self.results)


@dataclass(frozen=True, eq=False)
class RowsKernel(Physical):
    """The latest rows of each partition, in this order of columns."""

    input: Physical
    count: int
    partition: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class LatestKernel(Physical):
    """A tagged stream: the latest row of each key; the last column says whether it deletes, and goes."""

    input: Physical
    key: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.input.types[-1] != BOOLEAN:
            raise TypeError("the last column says whether a row deletes")
        self._typed(self.input.types[:-1])


@dataclass(frozen=True, eq=False)
class InsertionsKernel(Physical):
    """ISTREAM or DSTREAM."""

    input: Physical
    deletions: bool

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class RelationKernel(Physical):
    """RSTREAM."""

    input: Physical
    grid: Grid

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class PointsKernel(Physical):
    """SYNC ON: `points` has the instants at which rows are inserted into the synchronization stream."""

    input: Physical
    points: Physical

    def __post_init__(self) -> None:
        self._typed(self.input.types)


@dataclass(frozen=True, eq=False)
class NegativeKernel(Physical):
    """NT: rows without an end, and a negative row when time comes to where one ends (paper 2, 2.1)."""

    input: Physical

    def __post_init__(self) -> None:
        self._typed(self.input.types)


KERNELS = (
    JoinKernel, BandKernel, VersionKernel, WithoutVersionKernel, DistinctKernel, CountsKernel, SweepKernel,
    RowsKernel, LatestKernel, InsertionsKernel, RelationKernel, PointsKernel, NegativeKernel,
)  # fmt: skip
