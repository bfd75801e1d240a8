"""Session window: the rows of a key between two pauses, while the session is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everview.algebra.time import INFINITY
from everview.algebra.types import TIMESTAMP
from everview.operators.base import InputColumns, Operator, StatefulOperator, StatePart, column
from everview.operators.columnar.frame import (
    CHANGE,
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    consolidate_frame,
    record_columns,
    stack_frames,
)
from everview.operators.columnar.keys import sort_by_key
from everview.operators.columnar.latest import NEW, find_touched_rows, repeat_rows, state_change
from everview.operators.columnar.lazy import pl
from everview.operators.columnar.types import frame_type

_SESSION, _START, _LAST, _AT, _NEXT = "_session", "_start", "_last", "_at", "_next"


@dataclass(frozen=True, eq=False)
class SessionOperator(StatefulOperator):
    """[SESSION gap PARTITION BY …] over rows that never end and begin at their timestamps.

    A row ends with its session, as far as that is known. When a later row puts that off, it is emitted again
    from its old end to the new one; with the session's end as a column, it is replaced from that row on.
    State: the rows of open sessions, which end with them.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> session = SessionOperator(ScanOperator("s", (INT,)), 5, (), with_end=False)
    >>> rows = make_frame({"c0": [1, 2, 3]}, [(t, INFINITY, 1) for t in (1, 4, 20)])
    >>> found = session.increment([rows], session.empty_state([rows]), Slice(0, 30)).output
    >>> sorted(found.with_columns(pl.col("c1").to_physical()).rows())
    [(1, 1, 1, 9, 1), (2, 1, 4, 9, 1), (3, 20, 20, 25, 1)]
    """

    input: Operator
    gap: int
    partition: tuple[int, ...]
    with_end: bool
    keeps_begins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set_types((*self.input.types, *[TIMESTAMP] * (2 if self.with_end else 1)))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in self.partition)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(len(self.input.types)), *[None] * (2 if self.with_end else 1)),)

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        return (StatePart("open", rows.label, rows.lasts, rows.until),)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"open": new[0].clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        partition = [column(i) for i in self.partition]
        columns = [*record_columns(new[0]), *CHANGE]
        known = consolidate_frame(find_touched_rows(new[0], state["open"], partition)[columns])
        known = known.filter(pl.col(UNTIL) > slice_.b0)
        rows = stack_frames([repeat_rows(known, False), repeat_rows(new[0][columns], True)])
        rows = self._with_sessions(rows, partition)
        ends = pl.min_horizontal(_LAST, pl.lit(INFINITY - self.gap, pl.Int64)) + self.gap
        rows = rows.with_columns(ends.alias(_LAST))
        output = self._replaced(rows, partition) if self.with_end else self._prolonged(rows)
        still = rows.filter(pl.col(_LAST) > slice_.b1).with_columns(pl.col(_LAST).alias(UNTIL))[columns]
        return Increment(
            self._shown(output, columns), {"open": sort_by_key(state_change(known, still), partition)}
        )

    def _with_sessions(self, rows: Frame, partition: Sequence[str]) -> Frame:
        """Return rows sorted by key and time, each with the first and the last instant of its session."""
        rows = rows.sort([*partition, FROM], maintain_order=True)
        pause = pl.col(FROM) - pl.col(FROM).shift(1) >= self.gap
        other = [pl.col(c).ne_missing(pl.col(c).shift(1)) for c in partition]
        rows = rows.with_columns(pl.any_horizontal(pause, *other).fill_null(True).cum_sum().alias(_SESSION))
        first, last = pl.col(FROM).min().over(_SESSION), pl.col(FROM).max().over(_SESSION)
        return rows.with_columns(first.alias(_START), last.alias(_LAST))

    def _prolonged(self, rows: Frame) -> Frame:
        """Return new rows until the end of their session, and known ones from their old end to that."""
        later = pl.col(NEW) | (pl.col(_LAST) > pl.col(UNTIL))
        begin = pl.when(NEW).then(FROM).otherwise(UNTIL)
        return rows.filter(later).with_columns(begin.alias(FROM), pl.col(_LAST).alias(UNTIL))

    def _replaced(self, rows: Frame, partition: Sequence[str]) -> Frame:
        """Return each row once for each instant at which a row of its session comes, at or after its own."""
        at = rows.filter(NEW).select(_SESSION, pl.col(FROM).alias(_AT)).unique().sort(_SESSION, _AT)
        following = pl.col(_AT).shift(-1).over(_SESSION)
        ends = pl.min_horizontal(_AT, pl.lit(INFINITY - self.gap, pl.Int64)) + self.gap
        at = at.with_columns(following.alias(_NEXT), ends.alias("_ends"))
        pieces = rows.join(at, on=_SESSION).filter(pl.col(_AT) >= pl.col(FROM))
        pieces = pieces.with_columns(
            pl.col(_AT).alias(FROM), pl.coalesce(_NEXT, "_ends").alias(UNTIL), pl.col("_ends").alias(_LAST)
        ).drop(_AT, _NEXT, "_ends")
        first = at.group_by(_SESSION).agg(pl.col(_AT).min())
        known = rows.filter(~pl.col(NEW)).join(first, on=_SESSION)
        ended = known.with_columns(
            pl.col(_AT).alias(FROM), pl.col(UNTIL).alias(_LAST), pl.lit(-1, pl.Int64).alias(N)
        ).drop(_AT)
        return stack_frames([ended.select(pieces.columns), pieces])

    def _shown(self, rows: Frame, columns: Sequence[str]) -> Frame:
        """Return rows with the columns of the output."""
        size, time = len(self.input.types), frame_type(TIMESTAMP)
        added = [_START, _LAST][: len(self.types) - size]
        named = [pl.col(c).cast(time).alias(column(size + i)) for i, c in enumerate(added)]
        return rows.select(*map(column, range(size)), *named, *CHANGE)
