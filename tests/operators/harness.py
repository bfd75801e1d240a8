"""Random change rows in random slices, through a kernel, against the reference.

A case is a set of change rows per input and a sequence of bounds. Each row is passed to the kernel in the
slice in which it begins, or earlier.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record, to_logical
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, DataType
from everview.algebra.values import normal
from everview.operators import ScanOperator, StatefulOperator
from everview.operators.columnar.frame import (
    BEFORE_ALL,
    CHANGE,
    HASH,
    Frame,
    Increment,
    Slice,
    consolidate_frame,
    drop_ended,
    name_by_position,
    stack_frames,
)
from everview.reference.meaning import meaning
from tests.lanes import seed_lanes

DOMAIN = range(26)
LAST = 18

Step = Callable[[Sequence[Frame], dict[str, Frame], Slice], Increment]


@dataclass(frozen=True)
class Input:
    """The properties of a random input."""

    columns: dict[str, pl.DataType | type[pl.DataType]]
    record: Callable[[random.Random], Record]
    signed: bool = False
    arrivals: bool = False  # rows of a base stream: their last column is when they begin, and they never end
    endless: bool = False  # rows never end
    on_time: bool = False  # rows arrive in the slice in which they begin
    grid: int = 1  # begins and ends are multiples of it: many rows end as others begin


def each_seed(variants: int) -> pytest.MarkDecorator:
    """Parametrize a test by seeds, divided by its variants: 4, in `make test` 400, in `make fuzz` 2,000."""
    return seed_lanes("seeds", 4 // variants + 1, 400 // variants + 1, 2000 // variants + 1)


def random_rows(rng: random.Random, given: Input, most: int = 7) -> list[ChangeRow]:
    """Return change rows whose snapshots are never negative: some are retracted before their end."""
    rows = []
    for _ in range(rng.randrange(most + 1)):
        record = given.record(rng)
        begin = rng.randrange(0, LAST, given.grid)
        lasts = given.grid * rng.randrange(1, 8 // given.grid + 1)
        end = INFINITY if given.arrivals or given.endless or rng.random() < 0.3 else begin + lasts
        copies = rng.choice([1, 1, 1, 2])
        record = (*record, begin) if given.arrivals else record
        rows.append(ChangeRow(record, begin, end, copies))
        last = min(end, LAST + 4) - 1
        if given.signed and last > begin and rng.random() < 0.5:
            rows.append(
                ChangeRow(record, rng.randrange(begin + 1, last + 1), end, -rng.randrange(1, copies + 1))
            )
    return rows


def random_bounds(rng: random.Random) -> list[int]:
    """Return non-decreasing bounds; the last one is after all begins and ends."""
    bounds = sorted(rng.randrange(-2, LAST + 8) for _ in range(rng.randrange(1, 6)))
    return [*bounds, DOMAIN.stop + 10]


def schedule(
    rng: random.Random, rows: Sequence[ChangeRow], bounds: Sequence[int], on_time: bool
) -> list[list[ChangeRow]]:
    """Return the rows of each step: a row comes in the slice of its begin, or earlier.

    A retraction does not come before the row that it retracts.
    """
    steps: list[list[ChangeRow]] = [[] for _ in bounds]
    previous: dict[Record, int] = {}
    for row in rows:
        latest = next(i for i, b in enumerate(bounds) if row.from_ <= b)
        earliest = previous.get(row.record, 0) if row.n < 0 else 0
        step = (
            latest
            if on_time
            else rng.choice([latest, rng.randrange(earliest, latest + 1) if earliest <= latest else latest])
        )
        previous[row.record] = step
        steps[step].append(row)
    for step_rows in steps:
        rng.shuffle(step_rows)
    return steps


def frame(rows: Sequence[ChangeRow], given: Input) -> Frame:
    """Return change rows as a frame."""
    columns: dict[str, list[object]] = {c: [r.record[i] for r in rows] for i, c in enumerate(given.columns)}
    for i, name in enumerate(CHANGE, 1):
        columns[name] = [r[i] for r in rows]
    return pl.DataFrame(columns, schema={**given.columns, **dict.fromkeys(CHANGE, pl.Int64)})


def to_rows(output: Frame) -> list[ChangeRow]:
    """Return a frame as change rows."""
    return [ChangeRow(tuple(normal(v) for v in r[:-3]), *r[-3:]) for r in output.rows()]


def check(
    seed: int,
    inputs: dict[str, Input],
    step: Step,
    empty: Callable[[Sequence[Frame]], dict[str, Frame]],
    plan: N.Node,
    compact: Callable[[str, Frame, int], Frame] | None = None,
) -> None:
    """Run one random case and compare every instant of its output with the reference."""
    rng = random.Random(seed)
    given = {name: random_rows(rng, spec) for name, spec in inputs.items()}
    bounds = random_bounds(rng)
    plans = {
        name: schedule(rng, rows, bounds, inputs[name].arrivals or inputs[name].on_time)
        for name, rows in given.items()
    }
    state = empty([frame([], spec) for spec in inputs.values()])
    emitted: list[ChangeRow] = []
    b0 = BEFORE_ALL
    for number, b1 in enumerate(bounds):
        new = [frame(plans[name][number], spec) for name, spec in inputs.items()]
        result = step(new, state, Slice(b0, b1, first=number == 0))
        rows = to_rows(result.output)
        assert all(r.from_ > b0 for r in rows), "a row begins before the slice"
        assert all(r.from_ < r.until and r.n != 0 for r in rows), "a row that holds never"
        emitted += rows
        for name, added in result.added.items():
            grown = pl.concat([state[name], added], how="diagonal") if name in state else added
            state[name] = _compact_at_random(name, drop_ended(grown, b1), b1, rng, compact)
        b0 = b1
    found = to_logical(emitted, DOMAIN)
    wanted = meaning(plan, given, DOMAIN)
    assert found == wanted, f"seed {seed}\ngiven {given}\nbounds {bounds}\nfound {found}\nwanted {wanted}"


def check_operator(seed: int, inputs: dict[str, Input], operator: StatefulOperator, plan: N.Node) -> None:
    """Check an operator with its own empty state and compaction; the columns of inputs go by position."""

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        return operator.increment([name_by_position(rows) for rows in new], state, slice_)

    def empty(new: Sequence[Frame]) -> dict[str, Frame]:
        return operator.empty_state([name_by_position(rows) for rows in new])

    check(seed, inputs, step, empty, plan, operator.compact)


def scan(given: Input, *types: DataType) -> ScanOperator:
    """Return a scan of an input; its columns are BIGINT unless `types` says otherwise."""
    return ScanOperator("s", types or (BIGINT,) * len(given.columns))


def _compact_at_random(
    name: str, rows: Frame, bound: int, rng: random.Random, compact: Callable[[str, Frame, int], Frame] | None
) -> Frame:
    """Return a state as it is, compacted, or in another order, at random; that must change no result."""
    chance = rng.random()
    if chance < 0.4:
        return rows
    if chance < 0.5:
        return rows.drop(HASH, strict=False)
    if chance < 0.6:
        return rows.sample(fraction=1, shuffle=True, seed=rng.randrange(1000))
    return consolidate_frame(rows, bound) if compact is None else compact(name, rows, bound)


def state_rows(state: dict[str, Frame]) -> int:
    """Return the number of rows of a state."""
    return stack_frames([f.select(pl.len()) for f in state.values()]).sum().item() if state else 0
