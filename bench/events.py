"""A step of the operators of event queries, with their state in files, at a look-back and at ten times that.

Rows of two streams p and q arrive, one an instant each, in steps of the same size. A row of p is kept for the
look-back: the state is ten times as large, while as many rows come, match and are due in a step. For that,
`uniform` has as many keys as rows are kept; `hot` has 50 keys, and a row of q matches the rows of p that came
between a look-back before it and 500 instants later. The state is read, written and merged as in a store, in
8 partitions. All times are CPU time of this process; the mean includes the steps that merge files.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

import numpy as np
import polars as pl

from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import BIGINT, TIMESTAMP
from everview.operators import (
    CollectOperator,
    EventOperator,
    EventWait,
    MatchOperator,
    ScanOperator,
    UnmetOperator,
)
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, Slice
from everview.operators.columnar.time_bands import TimeBand
from everview.storage.compaction import Policy
from everview.storage.files import Files
from everview.storage.runs import Run as StoredRun
from everview.storage.runs import TraceId
from everview.storage.trace import Trace
from everview.temporal.clocks import Clock, LineBounds, Moment, StreamLine

PARTITIONS, STEP, LOOK_BACKS, HOT, WIDTH = 8, 10_000, (100_000, 1_000_000), 50, 500
FIRST_LINE, SECOND_LINE = StreamLine("p", "ts"), StreamLine("q", "ts")

New = Sequence[Frame]  # the new rows of each input


@dataclass
class StoredOperator:
    """An operator with its state in files, one trace for each part and partition."""

    operator: EventOperator
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="everview-bench-"))
    runs: dict[tuple[str, int], tuple[StoredRun, ...]] = field(default_factory=dict)
    steps: int = 0

    def step(self, new: Sequence[New], before: LineBounds, bounds: LineBounds) -> list[Frame]:
        """Return the output of each partition."""
        self.steps += 1
        clock = self.operator.clock
        assert clock is not None
        slice_ = Slice(clock.value(before), clock.value(bounds))
        return [self._partition(number, given, slice_, before, bounds) for number, given in enumerate(new)]

    def _partition(
        self, number: int, new: New, slice_: Slice, before: LineBounds, bounds: LineBounds
    ) -> Frame:
        state = self.operator.empty_state(new)
        wanted = self.operator.parts_to_read(new)
        queues = {part.name for part in self.operator.state if part.queue}
        for part, empty in state.items():
            if part in queues:
                state[part] = self._trace(part, number).read(empty, due=(slice_.b0, slice_.b1))
            elif wanted is None or part in wanted:
                ends = self.operator.ends_to_read(part, new)
                after = self._clock(part, before) if ends is None else None
                state[part] = self._trace(part, number).read(empty, until_after=after, runs_due=ends)
        result = self.operator.increment(new, state, slice_)
        for part, added in result.added.items():
            now = self._clock(part, bounds)
            grown = self._trace(part, number).drop_expired(now).append(added, self.steps, now)

            def shrink(rows: Frame, bound: int, part: str = part) -> Frame:
                return self.operator.compact(part, rows, bound)

            self.runs[part, number] = grown.compact(shrink, self.steps, now).runs
        return result.output

    def _clock(self, part: str, bounds: LineBounds) -> int:
        clock = self.operator.waits[part].clock
        assert clock is not None
        return clock.value(bounds)

    def _trace(self, part: str, number: int) -> Trace:
        return Trace(
            TraceId("state", self.operator.kind, part, number),
            self.runs.get((part, number), ()),
            Files(self.folder, durable=False),
            Policy(),
        )


@dataclass(frozen=True)
class Case:
    """A look-back, a number of keys, and how much later than a row of p a row of q is that matches it."""

    look_back: int
    keys: int
    earliest: int = 0

    @classmethod
    def uniform(cls, look_back: int) -> "Case":
        return cls(look_back, look_back)

    @classmethod
    def hot(cls, look_back: int) -> "Case":
        return cls(look_back, HOT, look_back - WIDTH)

    def rows(self, start: int, seed: int) -> Frame:
        """Return the rows of a stream that come in a step: key, time, number."""
        rng = np.random.default_rng([start, seed])
        ts = np.arange(start, start + STEP)
        record = {"c0": rng.integers(0, self.keys, STEP), "c1": ts, "c2": rng.integers(0, 1000, STEP)}
        change = {
            FROM: np.full(STEP, LEAST),
            UNTIL: np.full(STEP, INFINITY),
            N: np.ones(STEP, dtype=np.int64),
        }
        return pl.DataFrame({**record, **change}).with_columns(pl.col("c1").cast(pl.Datetime("us")))

    @property
    def waits(self) -> tuple[EventWait, EventWait]:
        """How long rows of p and of q are kept: until no row of q, or of p, can match them."""
        return (
            EventWait(1, Clock(((Moment(SECOND_LINE, self.look_back),),))),
            EventWait(1, Clock(((Moment(FIRST_LINE, -self.earliest),),))),
        )

    def match(self) -> MatchOperator:
        band = TimeBand(1, 1, self.earliest, self.look_back)
        return MatchOperator(_P, _Q, (0,), (0,), False, *self.waits, (band,))


_P, _Q = ScanOperator("p", (BIGINT, TIMESTAMP, BIGINT)), ScanOperator("q", (BIGINT, TIMESTAMP, BIGINT))

Step = Callable[[Sequence[New], LineBounds, LineBounds], list[Frame]]
Build = Callable[[Case], tuple[list[StoredOperator], Step]]


def _match(case: Case) -> tuple[list[StoredOperator], Step]:
    match = StoredOperator(case.match())
    return [match], match.step


def _not_exists(case: Case) -> tuple[list[StoredOperator], Step]:
    """The rows of p without a match, when none can come any more."""
    (match,), pairs = _match(case)
    unmet = StoredOperator(UnmetOperator(_P, _P, wait=case.waits[0]))

    def step(new: Sequence[New], before: LineBounds, bounds: LineBounds) -> list[Frame]:
        matched = [found.select("c0", "c1", "c2", *CHANGE) for found in pairs(new, before, bounds)]
        return unmet.step([[p, met] for (p, _), met in zip(new, matched, strict=True)], before, bounds)

    return [match, unmet], step


def _group_by(case: Case) -> tuple[list[StoredOperator], Step]:
    """The number of matches of each row of p, and the sum of their numbers, when all have come."""
    (match,), pairs = _match(case)
    calls = AggregateColumn("count", None, "n"), AggregateColumn("sum", "c2", "=c2")
    below = ScanOperator("pairs", (BIGINT, TIMESTAMP, BIGINT))
    collect = StoredOperator(CollectOperator(below, 2, calls, (BIGINT, BIGINT), wait=case.waits[0]))

    def step(new: Sequence[New], before: LineBounds, bounds: LineBounds) -> list[Frame]:
        found = [
            each.select("c0", "c1", pl.col("c5").alias("c2"), *CHANGE) for each in pairs(new, before, bounds)
        ]
        return collect.step([[rows] for rows in found], before, bounds)

    return [match, collect], step


def _partitions(new: New) -> list[New]:
    return [[side.filter(pl.col("c0") % PARTITIONS == i) for side in new] for i in range(PARTITIONS)]


class Run:
    """A case in steps, with the CPU seconds of each."""

    def __init__(self, case: Case, build: Build) -> None:
        self.case = case
        self.operators, self.run = build(case)
        self.before: dict[StreamLine, int] = {}
        self.steps = 0
        self.seconds: list[float] = []

    def step(self) -> None:
        at = self.steps * STEP
        new = _partitions([self.case.rows(at, 1), self.case.rows(at, 2)])
        bounds = dict.fromkeys((FIRST_LINE, SECOND_LINE), at + STEP - 1)
        begin = time.process_time()
        self.run(new, self.before, bounds)
        self.seconds.append(time.process_time() - begin)
        self.before, self.steps = bounds, self.steps + 1


def _measure_growth(name: str, build: Build, make: Callable[[int], Case], runs: int = 40) -> None:
    """Print the time of a step at both look-backs, and the ratio.

    The look-back is filled first. Then steps alternate, so that a busy machine slows both alike.
    """
    both = [Run(make(look_back), build) for look_back in LOOK_BACKS]
    try:
        for run in both:
            while run.steps < run.case.look_back // STEP + 8:
                run.step()
        for _ in range(runs):
            for run in both:
                run.step()
    finally:
        for operator in (operator for run in both for operator in run.operators):
            shutil.rmtree(operator.folder)
    found = [run.seconds[-runs:] for run in both]
    for look_back, seconds in zip(LOOK_BACKS, found, strict=True):
        print(
            f"{name}, look-back {look_back:,}: a step takes {1000 * median(seconds):.1f} ms (median), "
            f"{1000 * mean(seconds):.1f} ms (mean), {1000 * min(seconds):.1f} ms (best)"
        )
    ratios = ", ".join(f"{f(found[1]) / f(found[0]):.2f} ({f.__name__})" for f in (median, mean, min))
    print(f"{name}: at ten times the look-back {ratios} times as much\n", flush=True)


def bench_match() -> None:
    """A join within the look-back: steps of 10,000 rows a side at a look-back of 100,000 and of 1,000,000."""
    _measure_growth("match, uniform keys", _match, Case.uniform)
    _measure_growth("match, 50 keys", _match, Case.hot)


def bench_not_exists() -> None:
    """NOT EXISTS within the look-back: the same."""
    _measure_growth("not exists, uniform keys", _not_exists, Case.uniform)
    _measure_growth("not exists, 50 keys", _not_exists, Case.hot)


def bench_group_by() -> None:
    """GROUP BY a row and its time over its matches: the same."""
    _measure_growth("group by, uniform keys", _group_by, Case.uniform)
    _measure_growth("group by, 50 keys", _group_by, Case.hot)
