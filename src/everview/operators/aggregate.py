"""Aggregate: GROUP BY with aggregates, by a sweep over the slice (paper 1, equations 6 and 7; algorithm 8).

The sweep sums all begins and ends of rows inside the slice, in time order per group, on top of the previous
value (`events.py`). The previous value is retracted from the first change on, each step is emitted, the last
one is left open.

State: `sums` and `queue` (see `events.py`), `rows` (for MIN and MAX the rows that can still be it, for
PERCENTILE all), and per DISTINCT aggregate the counts of its values (`counts.py`), whose events wait in the
same queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import DataType
from everview.operators.aggregates.accumulators import (
    ROWS,
    AggregateColumn,
    aggregate_values,
    find_accumulators,
    row_contributions,
)
from everview.operators.aggregates.counts import empty_counts, step_counts
from everview.operators.aggregates.events import Events, Steps, compact_events, sum_events
from everview.operators.aggregates.extremes import extreme_value, prune_rows, rows_of_groups
from everview.operators.aggregates.percentiles import percentile_value
from everview.operators.base import (
    Growth,
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
)
from everview.operators.columnar.frame import FROM, UNTIL, Frame, Increment, N, Slice, State, name_by_position
from everview.operators.columnar.hashing import MEMBER
from everview.operators.columnar.keys import pick_keys, sort_by_key
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.timeline import next_instants

_OF = "_of"  # in a queue: the aggregate whose values an event concerns; NULL if it concerns a group


@dataclass(frozen=True, eq=False)
class AggregateOperator(StatefulOperator):
    """GROUP BY the first `groups` columns of the input; the arguments of the aggregates are columns too.

    State: the sums of each group, the begins and ends to come, the counts of the values of DISTINCT
    aggregates, for MIN and MAX the rows that can still be it, for PERCENTILE all rows.

    >>> from everview.algebra.types import BIGINT, INT, STRING
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> total = AggregateColumn("sum", "c1", "total")
    >>> group = AggregateOperator(ScanOperator("s", (STRING, INT)), 1, (total,), (BIGINT,), signed=False)
    >>> rows = make_frame({"c0": ["a", "a"], "c1": [3, 4]}, [(1, 11, 1), (5, 15, 1)])
    >>> group.increment([rows], group.empty_state([rows]), Slice(0, 12, first=True)).output.rows()
    [('a', 3, 1, 5, 1), ('a', 7, 5, 11, 1), ('a', 4, 11, 9223372036854775807, 1)]
    """

    input: Operator
    groups: int
    aggregates: tuple[AggregateColumn, ...]
    results: tuple[DataType, ...]
    signed: bool

    def __post_init__(self) -> None:
        self._set_types(self.input.types[: self.groups] + self.results)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return ((*range(self.groups), *[None] * len(self.results)),)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(self.groups))

    @property
    def runs_in_family(self) -> bool:
        return self.groups > 0

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no row may be dropped that can still hold."""
        return self._sweep.keeps_all_rows

    @property
    def _sweep(self) -> Sweep:
        return Sweep(tuple(column(i) for i in range(self.groups)), self.aggregates, self.signed)

    def _sweep_of(self, rows: Frame) -> Sweep:
        """Return the sweep over rows, which may be those of a family."""
        sweep = self._sweep
        return replace(sweep, keys=(*sweep.keys, MEMBER)) if MEMBER in rows.columns else sweep

    @property
    def state(self) -> tuple[StatePart, ...]:
        rows, sweep = self.rows_of(0), self._sweep
        parts = [StatePart("sums", "one value", until="")]
        if self.groups:
            growth = Growth.BY_ROW if rows.grows_groups else Growth.NO
            parts = [StatePart("sums", "a value per group", rows.lasts, rows.until, growth=growth)]
        if rows.waits != 0:
            parts.append(
                StatePart(
                    "queue",
                    "ends to come",
                    rows.waits,
                    until="until due",
                    # What ends and begins at one instant lies in one bucket, and cancels there.
                    expires_within=replace(rows, coalesces=False).expires_within,
                    queue=True,
                    may_cancel=False,
                )
            )
        values = Growth.BY_RECORD if rows.growth else Growth.NO
        for i, _ in sweep.deduplicated:
            name = f"distinct{i}"
            parts.append(StatePart(name, "distinct values", rows.lasts, rows.until, growth=values))
        if sweep.reads_rows:
            text = f"all rows for {sweep.row_readers}"
            if not sweep.keeps_all_rows:
                text = "rows that can still be MIN or MAX"
            growth = Growth.BY_ROW if rows.growth and sweep.keeps_all_rows else Growth.NO
            parts.append(StatePart("rows", text, rows.lasts, rows.until, growth=growth))
        return tuple(parts)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return empty_sweep(self._sweep_of(new[0]), new[0])

    def runs_without_rows(self, slice_: Slice, has_state: bool) -> bool:
        return slice_.first and not self.groups

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        found = sweep(self._sweep_of(new[0]), new[0], state, slice_)
        return Increment(name_by_position(found.output), found.added)

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return compact_sweep(self._sweep_of(rows), part, rows, bound)


@dataclass(frozen=True)
class Sweep:
    """GROUP BY keys with these aggregates; without keys there is always one group.

    `signed` says whether rows may be retracted; only if not, MIN and MAX may drop rows. PERCENTILE needs all.
    """

    keys: tuple[str, ...]
    aggregates: tuple[AggregateColumn, ...]
    signed: bool = False

    @property
    def plain(self) -> list[tuple[int, AggregateColumn]]:
        return [(i, a) for i, a in enumerate(self.aggregates) if not a.distinct and not a.reads_rows]

    @property
    def deduplicated(self) -> list[tuple[int, AggregateColumn]]:
        return [(i, a) for i, a in enumerate(self.aggregates) if a.distinct and not a.reads_rows]

    @property
    def extremes(self) -> list[AggregateColumn]:
        return [a for a in self.aggregates if a.extreme]

    @property
    def percentiles(self) -> list[AggregateColumn]:
        return [a for a in self.aggregates if a.reads_rows and not a.extreme]

    @property
    def reads_rows(self) -> bool:
        return bool(self.extremes or self.percentiles)

    @property
    def keeps_all_rows(self) -> bool:
        return bool(self.percentiles) or (self.signed and bool(self.extremes))

    @property
    def row_readers(self) -> str:
        """The names of the aggregates for which rows are kept."""
        names = (["MIN and MAX"] if self.extremes else []) + (["PERCENTILE"] if self.percentiles else [])
        return " and ".join(names)


def sweep(plan: Sweep, new: Frame, state: State, slice_: Slice) -> Increment:
    """Return the increment of an aggregation.

    >>> from everview.operators.columnar.frame import make_frame
    >>> plan = Sweep(("k",), (AggregateColumn("sum", "v", "total"),))
    >>> rows = make_frame({"k": ["a", "a"], "v": [3, 4]}, [(1, 11, 1), (5, 15, 1)])
    >>> sweep(plan, rows, empty_sweep(plan, rows), Slice(0, 12, first=True)).output.rows()
    [('a', 3, 1, 5, 1), ('a', 7, 5, 11, 1), ('a', 4, 11, 9223372036854775807, 1)]
    """
    keys = plan.keys
    adds = {ROWS: new[N].to_numpy(), **row_contributions(new, plan.plain)}
    now, later = Events.of(new, keys, adds, slice_)
    events, queue = [Events.due(_select_events(state["queue"], None), keys, slice_), now], [later]
    added: dict[str, Frame] = {}
    for i, aggregate in plan.deduplicated:
        once = _distinct_values(plan, i, aggregate, new, state, slice_)
        counted = row_contributions(once.output, [(i, aggregate)])
        events.append(Events.of(once.output, keys, counted, slice_)[0])
        queue.append(once.added["queue"].with_columns(pl.lit(i, pl.Int32).alias(_OF)))
        added[f"distinct{i}"] = once.added["counts"]
    if slice_.first and not keys:
        events.append(_initial_event())
    stepped = sum_events(events, state["sums"], keys, slice_.b0)
    added |= {"queue": pl.concat(queue, how="diagonal"), "sums": stepped.added(keys)}
    if plan.reads_rows:
        added["rows"] = sort_by_key(new, keys)
    return Increment(_emit(plan, stepped, new, state, slice_), added)


def _distinct_values(
    plan: Sweep, i: int, aggregate: AggregateColumn, new: Frame, state: State, slice_: Slice
) -> Increment:
    """Return the increment of the distinct values of an aggregate's argument."""
    rows = new.select(*plan.keys, str(aggregate.argument), FROM, UNTIL, N)
    counts = {"counts": state[f"distinct{i}"], "queue": _select_events(state["queue"], i)}
    return step_counts((rows, rows.clear()), counts, "distinct", slice_)


def _select_events(queue: Frame, of: int | None) -> Frame:
    """Return the events in a queue that concern one aggregate's values, or the groups (None)."""
    if _OF not in queue.columns:
        return queue if of is None else queue.clear()
    found = queue.filter(pl.col(_OF).is_null() if of is None else pl.col(_OF) == of)
    unused = [
        a.column for a, column in find_accumulators(found).items() if column.null_count() == found.height
    ]
    return found.drop(unused)


def _initial_event() -> Events:
    """Return the event that opens the only group of an aggregation without keys at the least instant."""
    zero = np.zeros(1, dtype=np.int64)
    return Events(pl.DataFrame(), zero, zero, zero + LEAST, {ROWS: zero})


def empty_sweep(plan: Sweep, new: Frame) -> dict[str, Frame]:
    """Return the state before the first step."""
    keys = {k: new.schema[k] for k in plan.keys}
    empty = pl.DataFrame(schema={**keys, UNTIL: pl.Int64, ROWS.column: pl.Int64})
    state = {"queue": empty, "sums": empty}
    for i, aggregate in plan.deduplicated:
        counts = empty_counts(new.select(*plan.keys, str(aggregate.argument), FROM, UNTIL, N))
        state[f"distinct{i}"] = counts["counts"]
        state["queue"] = pl.concat([state["queue"], counts["queue"]], how="diagonal")
    if plan.reads_rows:
        state["rows"] = new.clear()
    return state


def _emit(plan: Sweep, stepped: Steps, new: Frame, state: State, slice_: Slice) -> Frame:
    """Return retractions of the previous values, and a row for each new value; equal steps are merged."""
    values = _values(plan, stepped, new, state)
    there = stepped.sums[ROWS] > 0 if plan.keys else np.ones(stepped.size, dtype=bool)
    if not plan.keys and slice_.first:
        there = ~stepped.first
    differs = np.ones(stepped.size, dtype=bool)
    np.not_equal(there[1:], there[:-1], out=differs[1:])
    for series in values.values():
        differs[1:] |= _differs_from_next(series)
    kept = np.flatnonzero(stepped.first | differs)
    first, ids, since = stepped.first[kept], stepped.ids[kept], stepped.times[kept]
    until = next_instants(ids, since)
    # The previous value is retracted from the first change on.
    shown = np.flatnonzero(there[kept] & (~first | (until < INFINITY)))
    first, since, until = first[shown], since[shown], until[shown]
    change = {
        FROM: np.where(first, until, since),
        UNTIL: np.where(first, INFINITY, until),
        N: np.where(first, -1, 1),
    }
    rows = kept[shown]
    outputs = {a.output: values[a.output][rows] for a in plan.aggregates}
    return pick_keys(stepped.groups, plan.keys, ids[shown], {**outputs, **change})


def _differs_from_next(series: pl.Series) -> np.ndarray:
    """Return for each value but the last whether the next one is another; NULLs are equal, as are NaNs."""
    if series.dtype == pl.Int64 and not series.null_count():
        numbers = series.to_numpy()
        differs: np.ndarray = np.not_equal(numbers[1:], numbers[:-1])
        return differs
    return series[1:].ne_missing(series[:-1]).to_numpy()


def _values(plan: Sweep, stepped: Steps, new: Frame, state: State) -> dict[str, pl.Series]:
    """Return the aggregates' values at each step."""
    plain = [*plan.plain, *plan.deduplicated]
    values = aggregate_values(stepped.sums, stepped.size, plain, new.schema)
    if plan.reads_rows:
        columns = [c for a in (*plan.extremes, *plan.percentiles) for c in a.read]
        rows = rows_of_groups(columns, plan.keys, stepped, (state["rows"], new))
        values |= {a.output: extreme_value(a, rows, plan.signed, stepped) for a in plan.extremes}
        values |= {a.output: percentile_value(a, rows, stepped) for a in plan.percentiles}
    return values


def compact_sweep(plan: Sweep, name: str, rows: Frame, bound: int) -> Frame:
    """Compact a part of the state: sum equal sums and events, drop rows that cannot be MIN or MAX."""
    if name == "rows":
        return prune_rows(plan.extremes, plan.keys, plan.keeps_all_rows, rows, bound)
    values = {i: [*plan.keys, str(aggregate.argument)] for i, aggregate in plan.deduplicated}
    if name == "queue":
        groups = _select_events(rows, None)
        parts = [compact_events(groups, plan.keys, by_time=True, keeps_instants=plan.reads_rows)]
        for i, keys in values.items():
            waiting = compact_events(_select_events(rows, i), keys, by_time=True)
            parts.append(waiting.with_columns(pl.lit(i, pl.Int32).alias(_OF)))
        return pl.concat(parts, how="diagonal")
    of = name.removeprefix("distinct")
    return compact_events(rows, values[int(of)] if of.isdigit() else plan.keys, by_time=False)
