"""Which kernel a physical node runs, on which columns, with which state: for one partition and one step.

A Spark task calls `run_kernel` with the new rows of its partition and the state that it has read; so does
anything that wants to run a plan without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

import polars as pl

from everview.kernels.band import Band, band_join
from everview.kernels.frame import (
    BEFORE_ALL,
    CHANGE,
    FROM,
    INFINITY,
    Frame,
    Result,
    Slice,
    State,
    consolidate,
)
from everview.kernels.join import join
from everview.kernels.negative import negative_tuples
from everview.kernels.ordered import latest_per_key, latest_rows
from everview.kernels.points import changing, insertions, relation_at_points, synchronize_on, waiting
from everview.kernels.profile import distinct, distinct_unsigned, profile
from everview.kernels.sweep import Sweep, compact_state, sweep
from everview.kernels.sweep import empty_state as empty_sweep
from everview.kernels.tables import compact_versions, join_version, without_version
from everview.runtime.compaction import Policy
from everview.runtime.runs import Run
from everview.spark import physical as P
from everview.temporal.expiry import ExpiryBuckets

# State whose rows wait for their instant: only those that are due are read.
QUEUES = ("queue", "coming")
SMALL = 10_000  # rows, below which a run is not worth its while
_FAN = 4
_BUCKETS = 10  # as many as in paper 2's experiments (section 6.1)


@singledispatch
def run_kernel(node: P.Physical, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    """One step of a kernel node; its inputs and its output have the columns c0, c1, … and the change."""
    raise TypeError(f"{type(node).__name__} is no kernel")


@singledispatch
def empty_state(node: P.Physical, new: Sequence[Frame]) -> dict[str, Frame]:
    """The state of a kernel node before its first step; of `new` only the types count."""
    raise TypeError(f"{type(node).__name__} is no kernel")


def compact(node: P.Physical, part: str, rows: Frame, bound: int) -> Frame:
    """A part of a kernel's state made small; no answer changes."""
    if isinstance(node, P.SweepKernel):
        return compact_state(_sweep(node), part, rows, bound)
    if isinstance(node, P.VersionKernel):
        return compact_versions(rows, _names(node.right_keys, "r"), bound)
    if isinstance(node, (P.InsertionsKernel, P.PointsKernel, P.RowsKernel, P.LatestKernel)):
        return consolidate(rows)  # here a row's begin is part of what is known
    return consolidate(rows, bound)


def horizon(node: P.Physical, bound: int) -> int:
    """What ends by this instant can never matter after the bound.

    A version of a table matters as long as rows can come whose timestamp lies in it.
    """
    if not isinstance(node, P.VersionKernel):
        return bound
    return BEFORE_ALL if node.age == INFINITY else min(max(bound + 1 - node.age, BEFORE_ALL), INFINITY)


def is_due(node: P.Physical, runs: Mapping[str, Sequence[Run]], slice_: Slice) -> bool:
    """Whether a kernel has something to do in a slice without new rows; asked of what runs know, unread."""
    match node:
        case P.SweepKernel(keys=0) if slice_.first:
            return True
        case P.RelationKernel():
            begin, end = slice_.ticking
            return any(runs.values()) and begin <= end and node.grid.ceil(begin) <= end
    due = (slice_.b0, slice_.b1)
    return any(run.holds(None, due, None) for part in QUEUES for run in runs.get(part, ()))


def needed(node: P.Physical, new: Sequence[Frame]) -> set[str] | None:
    """The parts of the state that a kernel reads; None: all. A join only meets new rows with old ones."""
    if isinstance(node, (P.JoinKernel, P.BandKernel)):
        return {part for part, other in (("left", new[1]), ("right", new[0])) if not other.is_empty()}
    return None


def policy(node: P.Physical, part: str, partition: int = 0) -> Policy:
    """How a part of a kernel's state is laid out: by how the rows end that it keeps.

    Not all partitions merge at the same number of runs: else they would do so in the same steps.
    """
    fan = _FAN + partition % _FAN
    numbers = {"left": 0, "right": 1, "covered": 0, **dict.fromkeys(QUEUES, 0)}
    if not isinstance(node, P.SweepKernel):
        numbers["rows"] = 0  # those that a sweep keeps for MIN and MAX make one another needless
    if part not in numbers or not node.endings:
        return Policy(small=SMALL, fan=fan)
    ending = node.endings[numbers[part]]
    buckets = None
    if ending.within is not None:
        buckets = ExpiryBuckets(ending.within, min(_BUCKETS, ending.within))
    # Begins and ends of one instant add up, but few of them do.
    return Policy(buckets, SMALL, fan, cancelling=ending.may_cancel and part not in QUEUES)


def _names(positions: Sequence[int], prefix: str = "c") -> list[str]:
    return [f"{prefix}{i}" for i in positions]


def _on_the_right(frame: Frame) -> Frame:
    """The columns of a right side under other names: r0, r1, …"""
    return frame.rename({c: f"r{c[1:]}" for c in frame.columns if c not in CHANGE})


def _in_order(frame: Frame) -> Frame:
    """The columns named by their position again."""
    record = [c for c in frame.columns if c not in CHANGE]
    return frame.rename({c: f"_{i}" for i, c in enumerate(record)}).rename(
        {f"_{i}": P.column(i) for i in range(len(record))}
    )


@run_kernel.register
def _(node: P.JoinKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    sides = new[0], _on_the_right(new[1])
    result = join(sides, state, _names(node.left_keys), _names(node.right_keys, "r"), node.nulls_equal)
    return Result(_in_order(result.output), result.added)


@empty_state.register
def _(node: P.JoinKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"left": new[0].clear(), "right": _on_the_right(new[1]).clear()}


@run_kernel.register
def _(node: P.BandKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    lower, upper = (None if i is None else P.column(i) for i in (node.lower, node.upper))
    band = Band(f"r{node.column}", lower, upper, node.lower_strict, node.upper_strict)
    result = band_join((new[0], _on_the_right(new[1])), state, band)
    return Result(_in_order(result.output), result.added)


@empty_state.register
def _(node: P.BandKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"left": new[0].clear(), "right": _on_the_right(new[1]).clear()}


@run_kernel.register
def _(node: P.VersionKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    keys = _names(node.left_keys), _names(node.right_keys, "r")
    at, table = P.column(node.timestamp), _on_the_right(new[1])
    result = join_version(new[0], table, state, at, *keys, node.nulls_equal)
    return Result(_in_order(result.output), result.added)


@empty_state.register
def _(node: P.VersionKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"versions": _on_the_right(new[1]).clear()}


@run_kernel.register
def _(node: P.WithoutVersionKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return without_version(new[0], new[1])


@empty_state.register
def _(node: P.WithoutVersionKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {}


@run_kernel.register
def _(node: P.DistinctKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return distinct(new[0], state) if node.signed else distinct_unsigned(new[0], state)


@empty_state.register
def _(node: P.DistinctKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"rows" if node.signed else "covered": new[0].clear()}


@run_kernel.register
def _(node: P.CountsKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return profile((new[0], new[1]), state, node.function)


@empty_state.register
def _(node: P.CountsKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"left": new[0].clear(), "right": new[1].clear()}


def _sweep(node: P.SweepKernel) -> Sweep:
    return Sweep(tuple(_names(range(node.keys))), node.aggregates, node.signed)


@run_kernel.register
def _(node: P.SweepKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    result = sweep(_sweep(node), new[0], state, slice_)
    return Result(_in_order(result.output), result.added)


@empty_state.register
def _(node: P.SweepKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return empty_sweep(_sweep(node), new[0])


@run_kernel.register
def _(node: P.RowsKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return latest_rows(new[0], state, slice_, node.count, _names(node.partition), _names(node.order))


@empty_state.register
def _(node: P.RowsKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"open": new[0].clear()}


@run_kernel.register
def _(node: P.LatestKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    deletes = P.column(len(node.types))
    result = latest_per_key(new[0], state, slice_, _names(node.key), _names(node.order), deletes)
    return Result(result.output.drop(deletes), result.added)


@empty_state.register
def _(node: P.LatestKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"open": new[0].clear()}


@run_kernel.register
def _(node: P.InsertionsKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return insertions(new[0], state, slice_, node.deletions)


@empty_state.register
def _(node: P.InsertionsKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"coming": changing(new[0].clear())}


@run_kernel.register
def _(node: P.RelationKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return relation_at_points(new[0], state, slice_, node.grid.step, node.grid.origin)


@empty_state.register
def _(node: P.RelationKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"rows": new[0].clear()}


@run_kernel.register
def _(node: P.PointsKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    """A point is an instant at which a row with just that instant is inserted."""
    points = new[1].filter(pl.col("c0").cast(pl.Int64) == pl.col(FROM))
    return synchronize_on(new[0], points.select(pl.col(FROM).alias("point")).unique(), state, slice_)


@empty_state.register
def _(node: P.PointsKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"waiting": waiting(new[0].clear())}


@run_kernel.register
def _(node: P.NegativeKernel, new: Sequence[Frame], state: State, slice_: Slice) -> Result:
    return negative_tuples(new[0], state, slice_)


@empty_state.register
def _(node: P.NegativeKernel, new: Sequence[Frame]) -> dict[str, Frame]:
    return {"coming": new[0].clear()}
