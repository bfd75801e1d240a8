"""Rank: ROW_NUMBER, RANK and DENSE_RANK of each row in its partition; with a limit, the first rows (top-N).

A partition is looked at again when rows come, and when something is due in the queue. Its rows are put in
order (`standings.py`) at the instants of the slice at which they change; a row is emitted when it comes
within the limit or has another rank, and retracted when it no longer has it. Rows are emitted open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everview.algebra.over import RankLimit
from everview.algebra.types import INT
from everview.operators.base import (
    Growth,
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
)
from everview.operators.columnar.enterable import find_enterable
from everview.operators.columnar.frame import (
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    consolidate_frame,
    drop_ended,
    name_by_position,
)
from everview.operators.columnar.hashing import MEMBER, Ints
from everview.operators.columnar.keys import group_rows, key_hashes, sort_by_key
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.partitions import (
    due_events,
    empty_events,
    events_part,
    future_events,
    partition_columns,
    touched_rows,
    unique_events,
)
from everview.operators.columnar.place_changes import PlaceChanges, place_differences
from everview.operators.columnar.standings import (
    OrderedRecords,
    SortColumn,
    Standings,
    find_pieces,
    find_places,
    order_records,
)


@dataclass(frozen=True, eq=False)
class RankOperator(StatefulOperator):
    """The first `width` columns of the input and the ranks; other columns are there to partition and sort by.

    State: with a limit and over rows that are never retracted, the rows that can still come within the limit;
    else the rows of all partitions. And the instants at which rows begin or end.

    >>> from everview.algebra.types import STRING
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> by_value = (SortColumn(1, descending=True, nulls_first=False),)
    >>> scan = ScanOperator("s", (STRING, INT))
    >>> best = RankOperator(scan, 2, (0,), by_value, (), RankLimit("row_number", 1), signed=False)
    >>> rows = make_frame({"c0": ["a", "a"], "c1": [3, 4]}, [(1, 11, 1), (5, 9, 1)])
    >>> best.increment([rows], best.empty_state([rows]), Slice(0, 10)).output.rows()
    [('a', 4, 5, 9, 1), ('a', 3, 1, 5, 1), ('a', 3, 9, 9223372036854775807, 1)]
    """

    input: Operator
    width: int
    partition: tuple[int, ...]
    order: tuple[SortColumn, ...]
    ranks: tuple[str, ...]
    limit: RankLimit | None
    signed: bool

    def __post_init__(self) -> None:
        self._set_types(self.input.types[: self.width] + (INT,) * len(self.ranks))

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(self.width), *[None] * len(self.ranks)),)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in self.partition)

    @property
    def runs_in_family(self) -> bool:
        return bool(self.partition)

    @property
    def _drops_rows(self) -> bool:
        return self.limit is not None and not self.signed

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        text, growth = "the rows of all partitions", Growth.BY_ROW if rows.growth else Growth.NO
        if self.limit is not None and not self.signed:
            text = f"rows that can still be within {self.limit.function.upper()} {self.limit.count}"
            growth = Growth.BY_ROW if rows.grows_groups else Growth.NO
        parts = [StatePart("rows", text, rows.lasts, rows.until, growth=growth)]
        if rows.waits != 0:
            parts.append(events_part(rows))
        return tuple(parts)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {
            "rows": new[0].clear(),
            "queue": empty_events(new[0], partition_columns(self.partition, new[0])),
        }

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        (rows,) = new
        keys = partition_columns(self.partition, rows)
        due = due_events(state["queue"], slice_)
        found = touched_rows(rows, state["rows"], due, keys, slice_)
        records = self._order(found.rows, found.parts)
        pieces = find_pieces(found.rows, records, found.count, slice_)
        limit = self.limit
        changes = [
            self._changes(places, records, slice_.b0) for places in find_places(pieces, records, limit)
        ]
        output = self._emit(found.rows, records, changes)
        if self._drops_rows:
            assert limit is not None
            enterable = find_enterable(found.rows, records, limit, slice_.b1)
            waiting = rows.filter(pl.col(FROM) > slice_.b1)
            added = pl.concat([found.rows.filter(enterable & found.is_new)[rows.columns], waiting])
            shown = _newly_shown(found.rows, records, found.is_new, changes)
            queue = pl.concat(
                [future_events(found.rows.filter(shown), keys, slice_), future_events(waiting, keys, slice_)]
            )
        else:
            added, queue = rows, future_events(rows, keys, slice_)
        return Increment(output, {"rows": sort_by_key(added, keys), "queue": queue})

    def _order(self, rows: Frame, parts: Ints) -> OrderedRecords:
        order = [(column(key.position), key.descending, key.nulls_first) for key in self.order]
        return order_records(rows, parts, order, [column(i) for i in range(self.width)])

    def _changes(self, places: Standings, records: OrderedRecords, before: int) -> PlaceChanges:
        """Return the rows that are emitted and retracted over some leaves."""
        counts, which = places.counts, np.arange(len(places.numbers))
        if self.limit is not None and self.limit.function == "row_number":
            counts = np.minimum(counts, self.limit.count - places.before)
        if "row_number" in self.ranks:  # each copy has a number of its own
            which = np.repeat(which, counts)
            copies = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
            counts = np.ones(len(which), dtype=np.int64)
        ranks = [places.standing(function)[which] + 1 for function in self.ranks]
        for function, values in zip(self.ranks, ranks, strict=True):
            if function == "row_number":
                values += copies
        return place_differences(places, records, which, ranks, counts, before)

    def _emit(self, rows: Frame, records: OrderedRecords, changes: Iterable[PlaceChanges]) -> Frame:
        record = [*(column(i) for i in range(self.width)), *([MEMBER] if MEMBER in rows.columns else [])]
        codes, ranks, *change = _concatenate(changes, len(self.ranks))
        beside = [pl.Series(f"={i}", values, pl.Int32) for i, values in enumerate(ranks)]
        beside += [
            pl.Series(name, values, pl.Int64) for name, values in zip((FROM, UNTIL, N), change, strict=True)
        ]
        picked = rows[record][records.rows[codes]] if len(codes) else rows[record].clear()
        return name_by_position(picked.hstack(beside))

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        keys = partition_columns(self.partition, rows)
        if part == "queue":
            return unique_events(rows, keys)
        rows = drop_ended(rows, bound)
        if self.limit is not None and not self.signed and not rows.is_empty():
            parts = group_rows(rows, keys, key_hashes(rows, keys)).ids
            rows = rows.filter(find_enterable(rows, self._order(rows, parts), self.limit, bound))
        return consolidate_frame(rows, bound)


def _concatenate(changes: Iterable[PlaceChanges], ranks: int) -> tuple[Ints, list[Ints], Ints, Ints, Ints]:
    nothing = np.zeros(0, dtype=np.int64)
    none = PlaceChanges(nothing, [nothing] * ranks, nothing, nothing, nothing, nothing)
    every = [none, *changes]
    return (
        np.concatenate([c.codes for c in every]),
        [np.concatenate([c.values[i] for c in every]) for i in range(ranks)],
        np.concatenate([c.since for c in every]),
        np.concatenate([c.until for c in every]),
        np.concatenate([c.n for c in every]),
    )


def _newly_shown(
    rows: Frame, records: OrderedRecords, is_new: np.ndarray, changes: Sequence[PlaceChanges]
) -> np.ndarray:
    """Return which rows are emitted and were not yet shown before: their ends are not yet in the queue."""
    emitted, before = np.zeros(len(records.rows), dtype=bool), np.zeros(len(records.rows), dtype=bool)
    for change in changes:
        emitted[change.codes[change.n > 0]] = True
        before[change.before] = True
    return emitted[records.codes] & (is_new | ~before[records.codes])
