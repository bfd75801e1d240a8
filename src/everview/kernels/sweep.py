"""Group and aggregate by a sweep over the slice (paper 1, equations 6 and 7; algorithm 8).

All begins and ends of rows inside the slice, in time order per group, on top of the value that was
carried over. The old value is closed where the first change lies, each step is emitted, the last one
is left open; the begins and ends that are still to come wait in a queue.

State: `sums` (per group what has been added so far), `queue` (begins and ends to come, alive until they
are due), `rows` (only for MIN and MAX: the rows that can still matter), and per DISTINCT aggregate the
state of a distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from everview.kernels.accumulate import Aggregate, answers, contributions
from everview.kernels.extreme import NOTHING, greatest_at, undominated
from everview.kernels.frame import (
    FROM,
    INFINITY,
    LEAST,
    UNTIL,
    Frame,
    N,
    Result,
    Slice,
    State,
    added_up,
    consolidate,
    group_starts,
    matching,
    numbered,
    running_sum,
    stacked,
)  # fmt: skip
from everview.kernels.profile import distinct

COUNT = "+n"  # how many rows a group has; a + marks the columns of accumulators


@dataclass(frozen=True)
class Sweep:
    """GROUP BY keys with these aggregates; without keys there is always one group.

    `signed` says whether rows may be taken back; only if not may MIN and MAX forget rows.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    signed: bool = False

    @property
    def plain(self) -> list[tuple[int, Aggregate]]:
        return [(i, a) for i, a in enumerate(self.aggregates) if not a.distinct and not a.extreme]

    @property
    def deduplicated(self) -> list[tuple[int, Aggregate]]:
        return [(i, a) for i, a in enumerate(self.aggregates) if a.distinct and not a.extreme]

    @property
    def extremes(self) -> list[tuple[int, Aggregate]]:
        return [(i, a) for i, a in enumerate(self.aggregates) if a.extreme]


def sweep(plan: Sweep, new: Frame, state: State, slice_: Slice) -> Result:
    """One step of an aggregation.

    >>> from everview.kernels.frame import changes
    >>> plan = Sweep(("k",), (Aggregate("sum", "v", "total"),))
    >>> rows = changes({"k": ["a", "a"], "v": [3, 4]}, [(1, 11, 1), (5, 15, 1)])
    >>> sweep(plan, rows, empty_state(plan, rows), Slice(0, 12, first=True)).output.rows()
    [('a', 3, 1, 5, 1), ('a', 7, 5, 11, 1), ('a', 4, 11, 9223372036854775807, 1)]
    """
    added: dict[str, Frame] = {}
    events = [_events(new, plan, plan.plain, count=True)]
    for i, aggregate in plan.deduplicated:
        columns = [*plan.keys, str(aggregate.argument)]
        once = distinct(new.select(*columns, FROM, UNTIL, N), {"rows": state[f"distinct{i}"]})
        added[f"distinct{i}"] = once.added["rows"]
        events.append(_events(once.output, plan, [(i, aggregate)], count=False))
    all_new = _diagonal(events)
    added["queue"] = all_new.filter(pl.col(UNTIL) > slice_.b1)
    due = _diagonal([_due(state["queue"], slice_), all_new.filter(pl.col(UNTIL) <= slice_.b1)])
    if slice_.first and not plan.keys:
        due = _diagonal([due, _beginning(due)])
    if plan.extremes:
        added["rows"] = new
    output, sums = _swept(plan, due, new, state, slice_)
    added["sums"] = sums
    return Result(output, added)


def empty_state(plan: Sweep, new: Frame) -> dict[str, Frame]:
    """The state before the first step."""
    keys = {k: new.schema[k] for k in plan.keys}
    state = {
        "queue": pl.DataFrame(schema={**keys, UNTIL: pl.Int64, COUNT: pl.Int64}),
        "sums": pl.DataFrame(schema={**keys, UNTIL: pl.Int64, COUNT: pl.Int64}),
    }
    for i, aggregate in plan.deduplicated:
        state[f"distinct{i}"] = new.select(*plan.keys, str(aggregate.argument), FROM, UNTIL, N).clear()
    if plan.extremes:
        state["rows"] = new.clear()
    return state


def _events(frame: Frame, plan: Sweep, aggregates: Sequence[tuple[int, Aggregate]], count: bool) -> Frame:
    """What begins and ends of rows add to the accumulators; an event is alive until it is due."""
    adds = contributions(frame, aggregates)
    adds[COUNT] = frame[N] if count else frame[N] * pl.Series([0], dtype=pl.Int64)
    begins = frame.select(*plan.keys, pl.col(FROM).alias(UNTIL)).with_columns(**adds)
    ends = frame.select(*plan.keys, UNTIL).with_columns(**{k: _negative(v) for k, v in adds.items()})
    return stacked([begins, ends.filter(pl.col(UNTIL) < INFINITY)])


def _negative(values: pl.Series) -> pl.Series:
    return values * pl.Series([-1], dtype=values.dtype)


def _due(queue: Frame, slice_: Slice) -> Frame:
    return queue.filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))


def _beginning(due: Frame) -> Frame:
    """Without keys there is one group from the beginning of time, be it empty."""
    return pl.DataFrame({UNTIL: [LEAST], COUNT: [0]}, {UNTIL: pl.Int64, COUNT: pl.Int64})


def _diagonal(frames: Sequence[Frame]) -> Frame:
    """Frames one below the other; an accumulator that one does not have is zero there."""
    frame = pl.concat(frames, how="diagonal")
    numbers = [c for c in frame.columns if _is_accumulator(c)]
    return frame.with_columns(pl.col(numbers).fill_null(0)) if numbers else frame


def _is_accumulator(column: str) -> bool:
    return column.startswith("+")


def _swept(plan: Sweep, due: Frame, new: Frame, state: State, slice_: Slice) -> tuple[Frame, Frame]:
    """The rows to emit, and what the groups' sums grew by."""
    keys = list(plan.keys)
    accumulators = [c for c in due.columns if c not in (*keys, UNTIL)]
    empty_sums = due.clear()
    if due.is_empty():
        return _shaped(plan, due.clear(), new).clear(), empty_sums
    grown = added_up(due, keys, accumulators)
    old = matching(state["sums"], grown, keys)
    # The carried value stands at b0, before all events of the slice.
    carried = old.with_columns(pl.lit(slice_.b0, pl.Int64).alias(UNTIL))
    at_b0 = [pl.lit(slice_.b0, pl.Int64).alias(UNTIL), pl.lit(0, pl.Int64).alias(COUNT)]
    missing = grown.select(*keys, *at_b0) if keys else pl.select(at_b0)
    steps, found = numbered(_diagonal([due, carried, missing]), keys)
    accumulators = [c for c in steps.columns if _is_accumulator(c)]
    steps = steps.group_by("_id", UNTIL).agg(pl.col(accumulators).sum()).sort("_id", UNTIL)
    starts = group_starts(steps["_id"].to_numpy())
    steps = steps.with_columns(running_sum(steps[c], starts).alias(c) for c in accumulators)
    valued = _valued(plan, steps, found, new, state, slice_)
    sums = grown.with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL))
    return _emitted(plan, valued, found, starts), sums.select(due.columns)


def _valued(plan: Sweep, steps: Frame, found: Frame, new: Frame, state: State, slice_: Slice) -> Frame:
    """The aggregates' values at each step, and whether the group is there."""
    types: dict[str, pl.DataType] = dict(new.schema)
    values = answers(steps, [*plan.plain, *plan.deduplicated], types)
    if plan.extremes:
        values |= _extreme_values(plan, steps, found, new, state)
    there = steps[COUNT] > 0 if plan.keys else pl.Series([True] * steps.height, dtype=pl.Boolean)
    if not plan.keys and slice_.first:
        there = steps[UNTIL] > slice_.b0
    return pl.DataFrame(
        {
            "_id": steps["_id"],
            FROM: steps[UNTIL],
            "_there": there,
            **{a.output: values[a.output] for a in plan.aggregates},
        }
    )


def _emitted(plan: Sweep, valued: Frame, found: Frame, starts: np.ndarray) -> Frame:
    """Closes what was there, emits what changes; equal neighbours are one."""
    outputs = [a.output for a in plan.aggregates]
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in ["_there", *outputs])
    valued = valued.with_columns(pl.Series("_first", starts))
    kept = valued.filter(pl.col("_first") | ~same)
    kept = kept.with_columns(
        pl.when(pl.col("_id") == pl.col("_id").shift(-1))
        .then(pl.col(FROM).shift(-1))
        .otherwise(INFINITY)
        .alias(UNTIL)
    )
    opened = kept.filter(pl.col("_there") & ~pl.col("_first")).with_columns(pl.lit(1, pl.Int64).alias(N))
    closed = kept.filter(pl.col("_there") & pl.col("_first") & (pl.col(UNTIL) < INFINITY)).with_columns(
        pl.col(UNTIL).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.lit(-1, pl.Int64).alias(N)
    )
    rows = pl.concat([closed, opened]).sort("_id", FROM, maintain_order=True)
    keyed = rows.join(found, on="_id", how="left", maintain_order="left")
    return keyed.select(*plan.keys, *outputs, FROM, UNTIL, N)


def _shaped(plan: Sweep, due: Frame, new: Frame) -> Frame:
    """An empty output with the right columns."""
    found = (
        new.select(plan.keys).clear().with_row_index("_id")
        if plan.keys
        else pl.DataFrame({"_id": []}, {"_id": pl.UInt32})
    )
    steps = pl.DataFrame(schema={"_id": pl.UInt32, UNTIL: pl.Int64, COUNT: pl.Int64})
    values = answers(steps, [*plan.plain, *plan.deduplicated], dict(new.schema))
    values |= {a.output: new[str(a.argument)].clear() for _, a in plan.extremes}
    valued = pl.DataFrame(
        {"_id": steps["_id"], FROM: steps[UNTIL], "_there": pl.Series([], dtype=pl.Boolean),
         **{a.output: values[a.output] for a in plan.aggregates}}
    )  # fmt: skip
    return _emitted(plan, valued, found, np.zeros(0, dtype=bool))


def _extreme_values(
    plan: Sweep, steps: Frame, found: Frame, new: Frame, state: State
) -> dict[str, pl.Series]:
    """MIN and MAX at each step, over the rows of the touched groups that can still matter."""
    keys = list(plan.keys)
    rows = matching(stacked([state["rows"], new]), found.select(keys), keys)
    if plan.signed:
        rows = consolidate(rows)
    rows = (
        rows.join(found, on=keys, how="left", nulls_equal=True)
        if keys
        else rows.with_columns(_id=pl.lit(0, pl.UInt32))
    )
    points = steps["_id"].to_numpy().astype(np.int64), steps[UNTIL].to_numpy()
    out: dict[str, pl.Series] = {}
    for _, aggregate in plan.extremes:
        column = str(aggregate.argument)
        present = rows.filter(pl.col(column).is_not_null()).select("_id", column, FROM, UNTIL, N)
        if plan.signed:
            present = _positive(present)
        ranks, order = _ranked(present[column], aggregate.function == "min")
        groups = present["_id"].to_numpy().astype(np.int64)
        begin = _position(points, groups, present[FROM].to_numpy())
        end = _position(points, groups, present[UNTIL].to_numpy())
        best = greatest_at(steps.height, begin, end, ranks)
        index = pl.Series(np.where(best == NOTHING, len(order), best))
        out[aggregate.output] = order.extend_constant(None, 1).gather(index)
    return out


def _positive(rows: Frame) -> Frame:
    """Intervals during which a value is there at all, where rows may be taken back."""
    rows = rows.rename({"_id": "_group"})
    return distinct(rows, {"rows": rows.clear()}).output.rename({"_group": "_id"})


def _ranked(values: pl.Series, descending: bool) -> tuple[np.ndarray, pl.Series]:
    """Ranks, the greatest for the wanted extreme, and each rank's value; NaN is above all numbers."""
    if values.dtype.is_float():
        different, inverse = np.unique(values.to_numpy(), return_inverse=True, equal_nan=True)
        order = pl.Series(different, dtype=values.dtype)
    else:
        order = values.unique().sort()
        places = pl.DataFrame({"v": order}).with_row_index("rank")
        found = pl.DataFrame({"v": values}).join(places, on="v", how="left", maintain_order="left")
        inverse = found["rank"].to_numpy().astype(np.int64)
    return (len(order) - 1 - inverse, order.reverse()) if descending else (inverse, order)


def _position(points: tuple[np.ndarray, np.ndarray], groups: np.ndarray, times: np.ndarray) -> np.ndarray:
    """For (group, time) pairs the first point of that group at or after the time."""
    ids, instants = points
    order = np.lexsort((np.concatenate([np.ones(len(ids)), np.zeros(len(times))]),
                        np.concatenate([instants, times]), np.concatenate([ids, groups])))  # fmt: skip
    is_point = order < len(ids)
    before: np.ndarray = np.cumsum(is_point) - is_point
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = before
    return positions[len(ids) :]


def compact_state(plan: Sweep, name: str, rows: Frame, bound: int) -> Frame:
    """A part of the state made small: sums and events of one instant added up, useless rows gone."""
    if name in ("sums", "queue"):
        keys = [*plan.keys, UNTIL]
        accumulators = [c for c in rows.columns if _is_accumulator(c)]
        rows = rows.with_columns(pl.col(accumulators).fill_null(0))
        return added_up(rows, keys, accumulators).filter(pl.any_horizontal(pl.col(accumulators) != 0))
    if name == "rows":
        return prune_extremes(plan, rows, bound)
    return consolidate(rows, bound)


def prune_extremes(plan: Sweep, rows: Frame, bound: int) -> Frame:
    """The rows that can still be the least or the greatest of their group after the bound.

    Over rows that are never taken back, one goes when another that has begun is as extreme and ends as late.
    """
    rows = rows.filter(pl.col(UNTIL) > bound)
    if plan.signed or rows.is_empty():
        return rows
    numbered_rows, _ = numbered(rows, plan.keys)
    begun = rows[FROM].to_numpy() <= bound
    kept = np.zeros(rows.height, dtype=bool)
    for _, aggregate in plan.extremes:
        column = str(aggregate.argument)
        present = rows[column].is_not_null().to_numpy()
        usable = np.flatnonzero(begun & present)
        ranks, _ = _ranked(rows[column].gather(usable), aggregate.function == "min")
        groups = numbered_rows["_id"].to_numpy()[usable].astype(np.int64)
        kept[usable[undominated(groups, ranks, rows[UNTIL].to_numpy()[usable])]] = True
        kept |= ~begun & present
    return rows.filter(pl.Series(kept))
