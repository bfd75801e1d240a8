"""Over: LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE and aggregates over frames of a partition's rows.

A partition is looked at again when rows come, and when something is due in the queue. At the instants of the
slice at which it changes its rows are put in order (`standings.py`), the functions are computed for all of
these instants at once (`row_frames.py`), and a row is emitted when it comes or has another value, and
retracted when it no longer has it. Rows are emitted open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.over import OVER_AGGREGATES, OverFrame
from everview.algebra.types import DataType
from everview.operators.aggregates.accumulators import (
    ROWS,
    AggregateColumn,
    aggregate_values,
    row_contributions,
)
from everview.operators.base import Growth, InputColumns, Operator, StatefulOperator, StatePart, column
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
    stack_frames,
)
from everview.operators.columnar.hashing import MEMBER, Ints
from everview.operators.columnar.keys import sort_by_key
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
from everview.operators.columnar.place_changes import place_differences
from everview.operators.columnar.row_frames import (
    CodedValues,
    DistanceKey,
    PlacedRows,
    frame_stretches,
    greatest_in_stretches,
    places_from,
    reach_of_frames,
)
from everview.operators.columnar.standings import (
    OrderedRecords,
    Reach,
    SortColumn,
    Standings,
    find_pieces,
    find_places,
    order_records,
)
from everview.operators.columnar.types import column_type


@dataclass(frozen=True)
class OverColumn:
    """One function: its argument and its default are columns of the input (None: COUNT(*), no default)."""

    function: str
    argument: int | None
    frame: OverFrame | None
    offset: int = 1
    default: int | None = None
    skips_nulls: bool = False

    @property
    def is_aggregate(self) -> bool:
        return self.function in OVER_AGGREGATES

    @property
    def is_extreme(self) -> bool:
        return self.function in ("min", "max")

    @property
    def span(self) -> tuple[str, int] | None:
        """How far from a row others can matter that share a frame with it: ROWS or RANGE, and how many.

        None: all rows of the partition may.
        """
        if self.frame is None:
            return None if self.skips_nulls else ("ROWS", abs(self.offset))
        if self.frame.start is None or self.frame.end is None:
            return None
        return self.frame.unit, max(0, -self.frame.start) + max(0, self.frame.end)

    def reach(self, rows: float) -> float:
        """Return of how many rows of a partition of so many rows the value depends on one of them, about."""
        if self.frame is None:
            return 1.0
        if self.frame.by_distance:
            return rows / 2
        if self.frame.is_whole or self.frame.unit == "RANGE":
            return rows if self.frame.is_whole else rows / 2
        before, behind = (rows if o is None else abs(o) for o in (self.frame.start, self.frame.end))
        return min(rows, before + behind)

    @property
    def tells_copies_apart(self) -> bool:
        """Whether copies of a record can have different values."""
        if self.frame is None or self.frame.counts_rows:
            return True
        return self.skips_nulls or self.function == "nth_value"


@dataclass(frozen=True, eq=False)
class OverOperator(StatefulOperator):
    """The first `width` columns of the input and the values of the functions; other columns are read by them.

    State: the rows of all partitions, and the instants at which rows begin or end.

    >>> from everview.algebra.types import BIGINT, STRING
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> by_value = (SortColumn(1, descending=False, nulls_first=True),)
    >>> before = OverColumn("lag", 1, None)
    >>> total = OverColumn("sum", 1, OverFrame("ROWS", -1, 0))
    >>> scan = ScanOperator("s", (STRING, BIGINT))
    >>> over = OverOperator(scan, 2, (0,), by_value, (before, total), (BIGINT, BIGINT))
    >>> rows = make_frame({"c0": ["a", "a"], "c1": [3, 5]}, [(1, 11, 1), (7, 20, 1)])
    >>> for row in over.increment([rows], over.empty_state([rows]), Slice(0, 15)).output.rows():
    ...     print(row)
    ('a', 3, None, 3, 1, 11, 1)
    ('a', 5, None, 5, 11, 9223372036854775807, 1)
    ('a', 5, 3, 8, 7, 11, 1)
    """

    input: Operator
    width: int
    partition: tuple[int, ...]
    order: tuple[SortColumn, ...]
    calls: tuple[OverColumn, ...]
    results: tuple[DataType, ...]

    def __post_init__(self) -> None:
        self._set_types(self.input.types[: self.width] + self.results)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(self.width), *[None] * len(self.calls)),)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in self.partition)

    @property
    def runs_in_family(self) -> bool:
        return bool(self.partition)

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows = self.rows_of(0)
        growth = Growth.BY_ROW if rows.growth else Growth.NO
        parts = [StatePart("rows", "the rows of all partitions", rows.lasts, rows.until, growth=growth)]
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
        found = touched_rows(rows, state["rows"], due_events(state["queue"], slice_), keys, slice_)
        order = [(column(key.position), key.descending, key.nulls_first) for key in self.order]
        records = order_records(found.rows, found.parts, order, [column(i) for i in range(self.width)])
        pieces = find_pieces(found.rows, records, found.count, slice_)
        changed = [
            self._changes(found.rows, places, records, slice_.b0)
            for places in find_places(pieces, records, None, True, self._reach(found.rows, records))
        ]
        output = stack_frames(changed) if changed else self._nothing(rows)
        return Increment(
            name_by_position(output),
            {"rows": sort_by_key(rows, keys), "queue": future_events(rows, keys, slice_)},
        )

    def _distance_key(self, rows: Frame) -> DistanceKey:
        (by,) = self.order
        return DistanceKey.of(rows[column(by.position)], by.descending, by.nulls_first)

    def _reach(self, rows: Frame, records: OrderedRecords) -> Reach | None:
        """Return how far from a change rows can have another value, or be needed for one; None: all rows."""
        spans = [call.span for call in self.calls]
        if any(span is None for span in spans):
            return None
        counted = min(max((span for unit, span in filter(None, spans) if unit == "ROWS"), default=0), 2**62)
        distances = [span for unit, span in filter(None, spans) if unit == "RANGE"]
        distance = min(max(distances), 2**63 - 1) if distances else None
        key = self._distance_key(rows) if distance else None
        return reach_of_frames(counted, distance, records, key)

    def _record(self, rows: Frame) -> list[str]:
        return [*(column(i) for i in range(self.width)), *([MEMBER] if MEMBER in rows.columns else [])]

    def _nothing(self, rows: Frame) -> Frame:
        types = {f"={i}": column_type(type_) for i, type_ in enumerate(self.results)}
        change = dict.fromkeys((FROM, UNTIL, N), pl.Int64)
        return rows[self._record(rows)].clear().hstack(pl.DataFrame(schema={**types, **change}))

    def _changes(self, rows: Frame, places: Standings, records: OrderedRecords, before: int) -> Frame:
        """Return the rows that are emitted and retracted over some leaves."""
        which, counts = np.arange(len(places.numbers)), places.counts
        if any(call.tells_copies_apart for call in self.calls):
            # Copies of a record have places of their own.
            which, counts = np.repeat(which, counts), np.ones(int(counts.sum()), dtype=np.int64)
        placed = PlacedRows.of(places, records, which, counts)
        computed = [self._values(call, rows, placed, i) for i, call in enumerate(self.calls)]
        changes = place_differences(places, records, which, [c.codes for c in computed], counts, before)
        beside = [
            coded.values.gather(pl.Series(codes)).cast(column_type(type_)).alias(f"={i}")
            for i, (coded, codes, type_) in enumerate(
                zip(computed, changes.values, self.results, strict=True)
            )
        ]
        beside += [
            pl.Series(name, values, pl.Int64)
            for name, values in ((FROM, changes.since), (UNTIL, changes.until), (N, changes.n))
        ]
        return rows[self._record(rows)][records.rows[changes.codes]].hstack(beside)

    def _values(self, call: OverColumn, rows: Frame, placed: PlacedRows, number: int) -> CodedValues:
        """Return the values of a function at each place."""
        if call.frame is None:
            return _shifted_values(call, rows, placed)
        key = self._distance_key(rows) if call.frame.by_distance else None
        low, high = frame_stretches(call.frame, placed, key)
        if call.is_extreme:
            return _extreme_values(call, rows, placed, low, high)
        if call.is_aggregate:
            return self._sums(call, rows, placed, low, high, number)
        return _frame_values(call, rows, placed, low, high)

    def _sums(
        self, call: OverColumn, rows: Frame, placed: PlacedRows, low: Ints, high: Ints, number: int
    ) -> CodedValues:
        """Return COUNT, SUM, AVG, STDDEV: running sums at the end of each frame less those at its begin."""
        argument = None if call.argument is None else column(call.argument)
        type_ = self.results[number]
        aggregate = AggregateColumn(
            call.function, argument, "=", precision=type_.precision, scale=type_.scale
        )
        read = [] if argument is None else [rows[argument].gather(pl.Series(placed.rows))]
        at = pl.DataFrame([*read, pl.Series(N, placed.counts)])
        added = {ROWS: placed.counts, **row_contributions(at, [(0, aggregate)])}
        sums = {accumulator: _sum_stretches(values, low, high) for accumulator, values in added.items()}
        found = aggregate_values(sums, len(placed), [(0, aggregate)], rows.schema)["="]
        return CodedValues.of([found])

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        if part == "queue":
            return unique_events(rows, partition_columns(self.partition, rows))
        return consolidate_frame(drop_ended(rows, bound), bound)


def _sum_stretches(values: Ints, low: Ints, high: Ints) -> Ints:
    running = np.append(0, np.cumsum(values))
    total: Ints = running[high] - running[low]
    return total


def _shifted_values(call: OverColumn, rows: Frame, placed: PlacedRows) -> CodedValues:
    """Return the values of LAG and LEAD."""
    columns = [rows[column(i)] for i in (call.argument, call.default) if i is not None]
    coded = CodedValues.of(columns)
    values = coded.codes[: rows.height][placed.rows]
    offset = call.offset if call.function == "lead" else -call.offset
    here = np.arange(len(placed))
    present = values != 0 if call.skips_nulls else np.ones(len(placed), dtype=bool)
    if offset:
        here = places_from(present, here + (offset > 0), offset - (offset > 0))
    inside = (here >= placed.starts) & (here < placed.ends)
    defaults = 0 if call.default is None else coded.codes[rows.height :][placed.rows]
    return CodedValues(np.where(inside, values[np.where(inside, here, 0)], defaults), coded.values)


def _frame_values(call: OverColumn, rows: Frame, placed: PlacedRows, low: Ints, high: Ints) -> CodedValues:
    """Return the values of FIRST_VALUE, LAST_VALUE and NTH_VALUE."""
    coded = CodedValues.of([rows[column(call.argument or 0)]])
    values = coded.codes[placed.rows]
    present = values != 0 if call.skips_nulls else np.ones(len(placed), dtype=bool)
    if call.function == "last_value":
        at = places_from(present, high, -1)
    else:
        at = places_from(present, low, call.offset - 1 if call.function == "nth_value" else 0)
    inside = (at >= low) & (at < high)
    return CodedValues(np.where(inside, values[np.where(inside, at, 0)], 0), coded.values)


def _extreme_values(call: OverColumn, rows: Frame, placed: PlacedRows, low: Ints, high: Ints) -> CodedValues:
    """Return the values of MIN and MAX; for MIN the order is reversed."""
    coded = CodedValues.of([rows[column(call.argument or 0)]])
    values, most = coded.codes[placed.rows], len(coded.values)
    if call.function == "min":
        values = np.where(values, most - values, 0)
    best = greatest_in_stretches(values, low, high)
    return CodedValues(np.where(best, most - best, 0) if call.function == "min" else best, coded.values)
