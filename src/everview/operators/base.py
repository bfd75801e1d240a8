"""The base classes of physical operators: frozen records for planner, executor, storage and EXPLAIN.

The columns of an operator's output go by position, c0, c1, …, so that no two names can clash. An operator is
identified by a digest of all that it computes: equal operators run once and have one state, in whatever views
they occur. Operators without state are evaluated row by row (by Catalyst, or on whole columns inside a task);
operators with state are increments: new rows and state in, output and rows to add to the state out.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import ClassVar, Self

from everview.algebra.expressions import Cast, Column, Expression
from everview.algebra.time import INFINITY, length_text
from everview.algebra.types import DOUBLE, FLOAT, DataType
from everview.operators.columnar.frame import Frame, Increment, Slice, consolidate_frame
from everview.temporal.life import Length

# For each output column, the equal column of an input; None: it is computed, or of another input.
InputColumns = tuple[int | None, ...]


def column(position: int) -> str:
    """Return the name of the column at a position."""
    return f"c{position}"


def position_of(column: Column) -> int:
    """Return the position of a column, the inverse of `column`."""
    return int(column.name[1:])


class Growth(IntEnum):
    """What makes a state grow for ever: nothing, updates of a table, distinct records, rows."""

    NO = 0
    BY_UPDATE = 1
    BY_RECORD = 2
    BY_ROW = 3


@dataclass(frozen=True)
class InputRows:
    """What the plan says of the lifetime of an input's rows, and their name in EXPLAIN.

    `lasts` is the longest time that a row holds (None: it ends when it is retracted; `until` says that in
    words), `waits` the longest time for which a known begin or end lies ahead (0: none does). `in_order`
    says that rows end in the order of their arrival, `signed` that they may be retracted, `coalesces` that a
    row may extend an earlier one of its record, `grows_groups` that an aggregate over them has ever more
    groups.

    >>> InputRows("left input", 10, 10, signed=False).expires_within, InputRows("left input").expires_within
    (10, None)
    """

    label: str = "its input"
    lasts: Length = None
    waits: int | None = None
    in_order: bool = False
    signed: bool = True
    growth: Growth = Growth.NO
    grows_groups: bool = False
    until: str = "until retracted"
    coalesces: bool = False

    @property
    def expires_within(self) -> int | None:
        """The longest lifetime of a row, where ends are known but not in order (paper 2, 5.3.2).

        Rows that coalesce are not laid out by their ends: those of a record would never meet.
        """
        known = self.lasts is not None and self.lasts < INFINITY
        scattered = not self.in_order and not self.coalesces
        return self.lasts if known and scattered and not self.signed else None


@dataclass(frozen=True)
class StatePart:
    """A part of an operator's state: the name of its trace, its content, how long a row is kept.

    `until` says what ends a row whose end is not known. With `expires_within`, rows are laid out by their
    ends, so that whole files expire (paper 2, 5.3.2). Of a `queue` only the rows that are due are read.
    `may_cancel` says that compaction can sum rows, `coalesces` that it can join adjacent ones, `fan` after
    how many small runs it does (None: as for any state).

    >>> print(StatePart("left", "left input", 10_000_000)), print(StatePart("left", "left input", INFINITY))
    left input, 10 s
    left input, for ever
    (None, None)
    """

    name: str
    text: str
    lasts: Length = None
    until: str = "until retracted"
    expires_within: int | None = None
    queue: bool = False
    may_cancel: bool = True
    growth: Growth = Growth.NO
    fan: int | None = None
    coalesces: bool = False

    @classmethod
    def of(cls, name: str, rows: InputRows, text: str = "") -> StatePart:
        """Return the part that keeps the rows of an input until they end."""
        return cls(
            name,
            text or rows.label,
            rows.lasts,
            rows.until,
            rows.expires_within,
            may_cancel=rows.signed,
            growth=rows.growth,
            coalesces=rows.coalesces,
        )

    @property
    def duration(self) -> str:
        """How long a row is kept, in words."""
        match self.lasts:
            case None:
                return self.until
            case length if length == INFINITY:
                return "for ever"
            case length:
                return length_text(length)

    @property
    def retention(self) -> str:
        """How long a row is kept, and whether by expiry buckets."""
        return self.duration if self.expires_within is None else f"{self.duration}, in expiry buckets"

    def __str__(self) -> str:
        return f"{self.text}, {self.retention}" if self.retention else self.text


@dataclass(frozen=True)
class Arrangement:
    """A part of a state that is an input as it is, sorted by the hash of a key.

    Operators that arrange one input by one key keep it once (`execute/arrangements.py`). `nulls` says that
    rows with a NULL in the key are kept, `prefix` is that of the names of the columns.
    """

    input: int
    key: tuple[int, ...]
    nulls: bool = True
    prefix: str = "c"


@dataclass(frozen=True, eq=False)
class Operator:
    """The root of all physical operators.

    `digest` identifies the operator and all that is below it. `rows` describes its inputs; it
    changes no result and is no part of the digest.
    """

    types: tuple[DataType, ...] = field(init=False, repr=False)
    digest: str = field(init=False, repr=False)
    rows: tuple[InputRows, ...] = field(default=(), kw_only=True, repr=False)

    def _set_types(self, types: tuple[DataType, ...]) -> None:
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "digest", _digest(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def kind(self) -> str:
        """The name of the class without the word Operator."""
        return type(self).__name__.removesuffix("Operator")

    @property
    def name(self) -> str:
        """A name that is the same in every step and after every restart: by what the operator computes."""
        return f"{self.kind}-{self.digest[:16]}"

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return tuple(getattr(self, name) for name in self._input_names())

    def _input_names(self) -> list[str]:
        return [f.name for f in fields(self) if isinstance(getattr(self, f.name, None), Operator)]

    def with_inputs(self, inputs: Sequence[Operator]) -> Self:
        """Return the operator over other inputs."""
        if not inputs:
            return self
        return replace(self, **dict(zip(self._input_names(), inputs, strict=True)))  # type: ignore[arg-type]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(column(i), t) for i, t in enumerate(self.types))

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        """For each input, which of its columns the output columns are; most operators keep all."""
        every = tuple(range(len(self.types)))
        return tuple(every for _ in self.inputs)

    def is_broadcast(self, number: int) -> bool:
        """Return whether every partition needs all rows of an input."""
        return False

    @property
    def is_light(self) -> bool:
        """Whether a task can evaluate it on whole columns, without Catalyst: it only moves columns."""
        return False

    def apply(self, frames: Sequence[Frame]) -> Frame:
        """Evaluate a light operator over the rows of its inputs, of which at least one has rows."""
        raise TypeError(f"{self.kind} is not evaluated on whole columns")


def _digest(operator: Operator) -> str:
    """Return the digest of an operator's kind and fields; inputs are represented by their own digests."""
    values = [getattr(operator, f.name) for f in fields(operator) if f.init and f.name != "rows"]
    parts = [v.digest if isinstance(v, Operator) else repr(v) for v in values]
    return hashlib.blake2b("\0".join([operator.kind, *parts]).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class StatefulOperator(Operator, ABC):
    """An operator that keeps state and needs the rows of one key in one partition.

    Its increment is a pure function of the new rows, its state and the slice. A step only adds rows to the
    state: `compact` makes them fewer, and changes no result.
    """

    # Whether the begins of rows in the state matter, so that compaction must not move them.
    keeps_begins: ClassVar[bool] = False

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """The key: for each of its columns the position on every input.

        Rows with equal keys must be in one partition. An operator without a smaller key has the whole
        record as its key, so that the state of a row is always in the same partition.
        """
        return tuple((i,) * len(self.inputs) for i in range(len(self.inputs[0].types)))

    @property
    def runs_in_family(self) -> bool:
        """Whether increment and compaction take `_member`, where rows have it, as part of every key.

        Then operators of one family are evaluated at once, over all their rows (`columnar/family.py`).
        """
        return False

    @property
    def family(self) -> tuple[object, ...] | None:
        """What the operators of a family share: all but their inputs, of which only the types matter."""
        if not self.runs_in_family:
            return None
        values = (getattr(self, f.name) for f in fields(self) if f.init and f.name != "rows")
        return self.kind, *(v.types if isinstance(v, Operator) else v for v in values)

    @property
    @abstractmethod
    def state(self) -> tuple[StatePart, ...]:
        """The parts of the state that can have rows."""

    @property
    def arrangements(self) -> Mapping[str, Arrangement]:
        """The parts of the state that are an input by a key; other operators may keep the same."""
        return {}

    def rows_of(self, number: int) -> InputRows:
        """Return what is known of the rows of an input; the default if the plan does not say."""
        return self.rows[number] if number < len(self.rows) else InputRows()

    @abstractmethod
    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        """Return the state before the first step; only the types of `new` are used."""

    @abstractmethod
    def increment(self, new: Sequence[Frame], state: Mapping[str, Frame], slice_: Slice) -> Increment:
        """Evaluate one slice in one partition: the new rows of each input, on top of the state."""

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        """Make rows of a part of the state fewer; no result after the bound changes."""
        return consolidate_frame(rows) if self.keeps_begins else consolidate_frame(rows, bound)

    def expiry(self, bound: int) -> int:
        """Return the instant at or before which rows have ended that no result after the bound needs."""
        return bound

    def parts_to_read(self, new: Sequence[Frame]) -> set[str] | None:
        """Return the parts of the state that a step over these rows reads; None: all."""
        return None

    def reads_part(self, part: str, slice_: Slice) -> bool:
        """Return whether a part of the state is read in a slice at all."""
        return True

    def ends_to_read(self, part: str, new: Sequence[Frame]) -> tuple[int, int] | None:
        """Return (b0, b1]: the ends of the rows of a part of the state that a step over these rows needs.

        Other rows change no result: files are read whole or not at all, as they are. None: they may, and
        rows that have expired are left out.
        """
        return None

    def runs_without_rows(self, slice_: Slice, has_state: bool) -> bool:
        """Return whether it must run in a slice without new rows, even if nothing in a queue is due."""
        return False


def join_key(left: Sequence[int], right: Sequence[int], size: int) -> tuple[tuple[int, ...], ...]:
    """Return the key of a join; without an equality, its left rows may be in any partition."""
    return tuple(zip(left, right, strict=True)) or tuple((i,) for i in range(size))


def join_input_columns(left: int, right: int) -> tuple[InputColumns, InputColumns]:
    """Return the input columns of a join: the left columns, then the right ones."""
    return (*range(left), *[None] * right), (*[None] * left, *range(right))


def sides_to_read(new: Sequence[Frame]) -> set[str]:
    """Return the sides of a join's state that a step reads: those whose other side has new rows."""
    return {part for part, other in (("left", new[1]), ("right", new[0])) if not other.is_empty()}


def source_column(expression: Expression) -> int | None:
    """Return the column that an expression equals, perhaps widened; both have the same hash."""
    match expression:
        case Column():
            return position_of(expression)
        case Cast(operand, to) if _keeps_hash(operand.type, to):
            return source_column(operand)
    return None


def _keeps_hash(from_: DataType, to: DataType) -> bool:
    """Return whether a cast keeps the hash: integers are hashed as BIGINT, floats as DOUBLE."""
    if from_.is_integer and to.is_integer:
        return from_.bits <= to.bits
    return from_ == to or (from_ == FLOAT and to == DOUBLE)


def stateful_operators(plans: Iterable[Operator]) -> list[StatefulOperator]:
    """Return all operators with state in some plans, each once, after those below it."""
    found: dict[StatefulOperator, None] = {}
    seen: set[Operator] = set()

    def walk(node: Operator) -> None:
        if node not in seen:
            seen.add(node)
            for below in node.inputs:
                walk(below)
            if isinstance(node, StatefulOperator):
                found[node] = None

    for plan in plans:
        walk(plan)
    return list(found)
