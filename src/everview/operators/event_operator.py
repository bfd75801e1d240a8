"""The base of the operators of event queries: they emit final rows only, and never take one back (paper 3).

A row of an event query has no interval: `_from` is the least instant and `_until` is ∞. In a state, `_until`
is the time in the row that it waits by: a row is kept while that is above the clock of its wait, and it is
final, or of no use any more, when the clock has reached it. So a state is a queue by time, and runs expire
whole.

The slice of a step is (old, new] of the operator's clock. Rows and clocks of a step belong together: a clock
says that all rows up to it have come, those of this step included.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from everview.algebra.time import INFINITY, LEAST
from everview.operators.base import StatefulOperator, StatePart
from everview.operators.columnar.frame import (
    FROM,
    HASH,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    record_columns,
    stack_frames,
    sum_by_key,
)
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.keys import match_keys, sort_by_key
from everview.operators.columnar.lazy import np, pl
from everview.temporal.clocks import ENDED, Clock

FOREVER = ENDED  # the `_until` of rows that wait until all streams have ended


@dataclass(frozen=True)
class EventWait:
    """The wait of rows: until the time in a column is at or before a clock; without a clock, for ever.

    Without a column, all rows wait for the same: the clock has no parts.
    """

    column: int | None
    clock: Clock | None

    @property
    def is_over_at_once(self) -> bool:
        """Whether no row ever waits: the clock depends on nothing."""
        return self.clock is not None and not self.clock.parts

    def until(self, prefix: str = "c") -> pl.Expr:
        """Return the `_until` of rows in a state, whose columns are called c0, c1, …, or r0, r1, …."""
        if self.column is None or self.clock is None:
            return pl.lit(FOREVER if self.clock is None else LEAST, pl.Int64)
        return pl.col(f"{prefix}{self.column}").cast(pl.Int64)


@dataclass(frozen=True, eq=False)
class EventOperator(StatefulOperator):
    """An operator of an event query: a pure function of new rows, state and clock."""

    keeps_begins = True  # compaction sums copies and moves no begin

    @property
    @abstractmethod
    def waits(self) -> Mapping[str, EventWait]:
        """The wait of each part of the state; a row is dropped when its wait is over."""

    @property
    @abstractmethod
    def clock(self) -> Clock | None:
        """The clock whose slice a step gets: that of the rows that the operator holds back."""

    def event_part(self, name: str, text: str, input_: int, queue: bool = False) -> StatePart:
        """Return a part of the state; the plan says in words what ends its rows."""
        rows, forever = self.rows_of(input_), self.waits[name].clock is None
        lasts = INFINITY if forever else None
        return StatePart(name, text, lasts, rows.until, queue=queue, growth=rows.growth)


@dataclass(frozen=True, eq=False)
class WaitingOperator(EventOperator):
    """An event operator with one wait: all rows of its state are kept, and those it holds back go out, by it.

    `parts` has the parts of the state and what they contain. Their rows have the columns of the first input.
    With `queues`, of each part only the rows are read whose wait is over.
    """

    parts: ClassVar[Mapping[str, str]]
    queues: ClassVar[bool] = True

    wait: EventWait = field(kw_only=True)

    def __post_init__(self) -> None:
        self._set_types(self.inputs[0].types)

    @property
    def waits(self) -> Mapping[str, EventWait]:
        return dict.fromkeys(self.parts, self.wait)

    @property
    def clock(self) -> Clock | None:
        return self.wait.clock

    @property
    def state(self) -> tuple[StatePart, ...]:
        if self.wait.is_over_at_once:
            return ()
        return tuple(self.event_part(name, text, 0, self.queues) for name, text in self.parts.items())

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {name: new[0].clear() for name in self.parts}

    def emit(self, output: Frame, kept: Mapping[str, Frame], slice_: Slice) -> Increment:
        """Return what a step emits, and adds to each part of the state: the rows that still wait."""
        added = {part: sort_records(alive_rows(rows, slice_.b1)) for part, rows in kept.items()}
        return Increment(final_rows(output), added)


def with_until(rows: Frame, wait: EventWait) -> Frame:
    """Return rows as they stand in a state.

    >>> from everview.operators.columnar.frame import make_frame
    >>> with_until(make_frame({"c0": [7]}, [(0, 1, 1)]), EventWait(0, Clock()))["_until"].to_list()
    [7]
    """
    return rows.drop(HASH, strict=False).with_columns(
        pl.lit(LEAST, pl.Int64).alias(FROM), wait.until().alias(UNTIL)
    )


def final_rows(rows: Frame) -> Frame:
    """Return rows as an operator emits them: without an interval."""
    return rows.drop(HASH, strict=False).with_columns(
        pl.lit(LEAST, pl.Int64).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL)
    )


def alive_rows(rows: Frame, clock: int) -> Frame:
    """Return the rows that still wait."""
    return rows.filter(pl.col(UNTIL) > clock)


def due_rows(rows: Frame, clock: int) -> Frame:
    """Return the rows whose wait is over."""
    return rows.filter(pl.col(UNTIL) <= clock)


def stack_rows(state: Frame, new: Frame) -> Frame:
    """Return the rows of a state and new ones, without their hashes."""
    return stack_frames([state.select(new.columns), new]) if not state.is_empty() else new


def sum_copies(rows: Frame) -> Frame:
    """Return every record once, with the sum of its copies."""
    columns = record_columns(rows)
    return sum_by_key(rows, [*columns, FROM, UNTIL], [N]).select(*columns, FROM, UNTIL, N)


def sort_records(rows: Frame) -> Frame:
    """Return rows for a state, sorted by the hash of their record."""
    return sort_by_key(rows, record_columns(rows))


def occur_in(rows: Frame, records: Frame) -> pl.Series:
    """Return for each row whether its record occurs among some records; NULLs are equal.

    >>> from everview.operators.columnar.frame import make_frame
    >>> rows = make_frame({"c0": [1, None, 2]}, [(0, 1, 1)] * 3)
    >>> occur_in(rows, make_frame({"c0": [2, None]}, [(0, 1, 1)] * 2)).to_list()
    [False, True, True]
    """
    columns = record_columns(rows)
    found = np.zeros(rows.height, dtype=bool)
    if not rows.is_empty() and not records.is_empty():
        found[match_keys(records, columns, rows, columns, hash_keys(rows, columns))[1]] = True
    return pl.Series(found)
