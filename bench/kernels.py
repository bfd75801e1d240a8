"""A step of a kernel, with its state in files, against recomputing the answer from the window.

The state is in files as in a store, in 8 partitions; a step reads the part that it needs, runs the kernel,
writes the rows that it adds, and merges runs when that is due. The peer has its rows in memory. Both use
Polars in this process: the computations are compared, not the systems around them. Cases with small steps run
with windows of 100,000 and of 1,000,000 rows; the ratio of their times is the growth of a step. Growth and
the time of a step are CPU time.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from bench.harness import compare
from everview.operators.aggregate import Sweep, compact_sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.aggregates.counts import empty_counts, step_counts
from everview.operators.aggregates.events import compact_events
from everview.operators.band_join import JoinBand, band_join
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
)
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.profile import distinct_unsigned
from everview.operators.join import join_pairs
from everview.storage.compaction import Policy
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace

PARTITIONS, KEYS, STEP = 8, 50_000, 10_000
WINDOWS = (100_000, 1_000_000)

New = Sequence[Frame]  # the new rows of each input
Make = Callable[[int, int], New]  # a number of new rows, from an instant on
Step = Callable[[Sequence[New], Slice], object]  # over the new rows of each partition


@dataclass
class Operator:
    """A kernel with its state in files, one trace for each part and partition."""

    run: Callable[[New, State, Slice], Increment]
    empty: Callable[[New], dict[str, Frame]]
    compact: Callable[[str, Frame, int], Frame]
    adds_up: tuple[str, ...] = ()
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="everview-bench-"))
    runs: dict[tuple[str, int], tuple[Run, ...]] = field(default_factory=dict)
    steps: int = 0

    def step(self, new: Sequence[New], slice_: Slice) -> list[Frame]:
        """Return the output of each partition."""
        self.steps += 1
        return [self._partition(number, given, slice_) for number, given in enumerate(new)]

    def _partition(self, number: int, new: New, slice_: Slice) -> Frame:
        empty = self.empty(new)
        traces = {part: self._trace(part, number) for part in empty}
        due = (slice_.b0, slice_.b1)
        state = {
            part: trace.read(empty[part], due=due)
            if part == "queue"
            else trace.read(empty[part], until_after=due[0])
            for part, trace in traces.items()
        }
        result = self.run(new, state, slice_)
        for part, trace in traces.items():
            grown = trace.drop_expired(slice_.b1).append(result.added[part], self.steps, slice_.b1)

            def shrink(rows: Frame, bound: int, part: str = part) -> Frame:
                return self.compact(part, rows, bound)

            self.runs[part, number] = grown.compact(shrink, self.steps, slice_.b1).runs
        return result.output

    def _trace(self, part: str, number: int) -> Trace:
        files = Files(self.folder, durable=False)
        policy = Policy(cancelling=part in self.adds_up)
        return Trace(
            TraceId("state", "bench", part, number), self.runs.get((part, number), ()), files, policy
        )


def partition_rows(new: New) -> list[New]:
    """Return the new rows of each partition; the first column decides it."""
    return [[side.filter(pl.nth(0) % PARTITIONS == i) for side in new] for i in range(PARTITIONS)]


def _two_sides(new: New) -> dict[str, Frame]:
    return {"left": new[0].clear(), "right": new[1].clear()}


def _consolidate(part: str, rows: Frame, bound: int) -> Frame:
    return consolidate_frame(rows, bound)


def make_rows(count: int, start: int, seed: int, window: int, names: str = "kv", keys: int = KEYS) -> Frame:
    """Return rows of a stream, one an instant, each in the window for `window` instants."""
    rng = np.random.default_rng([start, seed])
    ts = np.arange(start, start + count)
    columns = {names[0]: rng.integers(0, keys, count), names[1]: rng.integers(0, 1000, count)}
    return pl.DataFrame({**columns, FROM: ts, UNTIL: ts + window, N: np.ones(count, dtype=np.int64)})


def _measure(
    name: str,
    step: Step,
    make: Make,
    anew: Callable[[New], object],
    window: int,
    size: int = STEP,
    runs: int = 9,
) -> float:
    """Fill the window, then run steps in alternation with recomputing the answer from the window's rows.

    Return the CPU seconds of a step.
    """
    at, kept = 0, [f.clear() for f in make(1, 0)]
    seconds = []

    def advance(count: int) -> None:
        nonlocal at, kept
        new = make(count, at)
        step(partition_rows(new), Slice(at - 1, at + count - 1, first=at == 0))
        at += count
        kept = [drop_ended(pl.concat([k, f]), at - 1) for k, f in zip(kept, new, strict=True)]

    while at < window:
        advance(max(window // 10, size))
    for _ in range(4):
        advance(size)
    coming = iter([partition_rows(make(size, at + i * size)) for i in range(runs + 2)])

    def ours() -> None:
        nonlocal at
        new, begin = next(coming), time.process_time()
        step(new, Slice(at - 1, at + size - 1))
        seconds.append(time.process_time() - begin)
        at += size

    compare(f"{name}, window of {window:,} rows", ours, lambda: anew(kept), runs=runs, warm_ups=2)
    taken = float(np.median(seconds[2:]))
    print(f"{name}: a step takes {1000 * taken:.1f} ms of a processor\n", flush=True)
    return taken


def _measure_both_windows(
    name: str, operators: Callable[[], tuple[list[Operator], Step]],
    make: Callable[[int], Make], anew: Callable[[New], object],
) -> None:  # fmt: skip
    """Measure a case with the small and the large window, and print the ratio of the times of a step."""
    medians = []
    for window in WINDOWS:
        built, step = operators()
        try:
            medians.append(_measure(name, step, make(window), anew, window))
        finally:
            for operator in built:
                shutil.rmtree(operator.folder)
    print(f"{name}: that is {medians[1] / medians[0]:.2f} × as much over ten times the window\n", flush=True)


def _single_operator(
    operator: Callable[[], Operator],
) -> Callable[[], tuple[list[Operator], Step]]:
    def build() -> tuple[list[Operator], Step]:
        built = operator()
        return [built], built.step

    return build


KEY = ["k", FROM, UNTIL, N]


def _delta() -> Operator:
    return Operator(
        lambda new, state, _: distinct_unsigned(new[0], state),
        lambda new: {"covered": new[0].clear()}, _consolidate, ("covered",),
    )  # fmt: skip


def bench_distinct() -> None:
    """DISTINCT: a step of 10,000 rows, against the window's distinct rows anew."""
    _measure_both_windows(
        "distinct", _single_operator(_delta), lambda window: lambda n, at: [make_rows(n, at, 1, window)[KEY]],
        lambda kept: kept[0].select("k").unique(),
    )  # fmt: skip


def bench_not_exists() -> None:
    """NOT EXISTS: a step of 10,000 rows a side: δ of the right keys, and the left rows with such a key."""

    def build() -> tuple[list[Operator], Step]:
        delta, pairs = _delta(), _join()

        def step(new: Sequence[New], slice_: Slice) -> object:
            met = delta.step([[right] for _, right in new], slice_)
            return pairs.step([[left, keys] for (left, _), keys in zip(new, met, strict=True)], slice_)

        return [delta, pairs], step

    _measure_both_windows(
        "not exists", build,
        lambda window: lambda n, at: [
            make_rows(n, at, 1, window), make_rows(n, at, 2, window, "jw").drop("w"),
        ],
        lambda kept: kept[0].select("k", "v").join(kept[1], left_on="k", right_on="j", how="anti"),
    )  # fmt: skip


def bench_difference() -> None:
    """EXCEPT ALL: a step of 10,000 rows a side, against the counts anew."""

    def anew(kept: New) -> Frame:
        left, right = (rows.group_by("k").agg(pl.col(N).sum()) for rows in kept)
        both = left.join(right, on="k", how="left")
        return both.filter(pl.col(N) > pl.col(f"{N}_right").fill_null(0))

    _measure_both_windows(
        "except all",
        _single_operator(lambda: Operator(
            lambda new, state, slice_: step_counts((new[0], new[1]), state, "difference", slice_),
            lambda new: empty_counts(new[0]),
            lambda part, rows, _: compact_events(rows, ["k"], by_time=part == "queue"), ("counts",),
        )),
        lambda window: lambda n, at: [make_rows(n, at, 1, window)[KEY], make_rows(n, at, 2, window)[KEY]],
        anew,
    )  # fmt: skip


def _sweep(*aggregates: AggregateColumn) -> Operator:
    plan = Sweep(("k",), aggregates)
    return Operator(
        lambda new, state, slice_: sweep(plan, new[0], state, slice_),
        lambda new: empty_sweep(plan, new[0]),
        lambda part, rows, bound: compact_sweep(plan, part, rows, bound), ("sums", "rows"),
    )  # fmt: skip


def bench_average() -> None:
    """AVG per key at every arrival: a step of 10,000 rows, against the averages anew, once."""
    _measure_both_windows(
        "average", _single_operator(lambda: _sweep(AggregateColumn("avg", "v", "mean"))),
        lambda window: lambda n, at: [make_rows(n, at, 1, window)],
        lambda kept: kept[0].group_by("k").agg(pl.col("v").mean()),
    )  # fmt: skip


def _join() -> Operator:
    return Operator(
        lambda new, state, _: join_pairs((new[0], new[1]), state, ["k"], ["j"]), _two_sides, _consolidate
    )


def bench_join() -> None:
    """Window join on a key: a step of 10,000 rows a side, against the join anew."""
    _measure_both_windows(
        "join", _single_operator(_join),
        lambda window: lambda n, at: [make_rows(n, at, 1, window), make_rows(n, at, 2, window, "jw")],
        lambda kept: kept[0].select("k", "v").join(kept[1].select("j", "w"), left_on="k", right_on="j"),
    )  # fmt: skip


def _once(
    name: str, operator: Operator, make: Make, anew: Callable[[New], object], window: int, size: int
) -> None:
    try:
        _measure(name, operator.step, make, anew, window, size, runs=5)
    finally:
        shutil.rmtree(operator.folder)


LARGE = 200_000


def bench_large_sweep() -> None:
    """COUNT, SUM, MAX per key at every arrival: a step of 200,000 rows, against the window's anew, once."""
    value = pl.col("v")
    calls = (
        AggregateColumn("count", None, "rows"),
        AggregateColumn("sum", "v", "total"),
        AggregateColumn("max", "v", "most"),
    )
    _once(
        "count, sum, max; 200,000 rows a step", _sweep(*calls), lambda n, at: [make_rows(n, at, 1, LARGE)],
        lambda kept: kept[0].group_by("k").agg(pl.len(), value.sum().alias("s"), value.max().alias("m")),
        LARGE, LARGE,
    )  # fmt: skip


def bench_large_join() -> None:
    """Window join on a key: a step of 200,000 rows a side, against the join anew."""
    _once(
        "join; 200,000 rows a step", _join(),
        lambda n, at: [make_rows(n, at, 1, LARGE), make_rows(n, at, 2, LARGE, "jw")],
        lambda kept: kept[0].select("k", "v").join(kept[1].select("j", "w"), left_on="k", right_on="j"),
        LARGE, LARGE,
    )  # fmt: skip


def bench_band_join() -> None:
    """Join on x BETWEEN v AND v + 10: 1,000 rows a side in a window of 100,000, against the join anew.

    All in one partition, as rows of a join without an equality have no place of their own.
    """
    values, change = 10_000_000, KEY[1:]
    lo, hi, x, here = pl.col("lo"), pl.col("hi"), pl.col("x"), pl.lit(0, pl.Int64)

    def make(count: int, at: int) -> New:
        left, right = (make_rows(count, at, seed, 100_000, keys=values) for seed in (1, 2))
        return [
            left.select(here.alias("p"), pl.col("k").alias("lo"), (pl.col("k") + 10).alias("hi"), *change),
            right.select(here.alias("q"), pl.col("k").alias("x"), *change),
        ]

    def run(new: New, state: State, slice_: Slice) -> Increment:
        return band_join((new[0], new[1]), state, JoinBand("x", "lo", "hi"))

    def anew(kept: New) -> Frame:
        return kept[0].select("lo", "hi").join_where(kept[1].select("x"), lo <= x, x <= hi)

    _once("band join", Operator(run, _two_sides, _consolidate), make, anew, 100_000, 1_000)


def bench_hash() -> None:
    """The numbers of 300,000 strings of 97 characters that differ at the end, against Polars' own hash."""
    ids = np.random.default_rng(1).integers(0, 10_000_000, 300_000)
    urls = pl.DataFrame({"url": [f"{'https://example.org/' * 4}{i:017d}" for i in ids]})
    numbers = hash_keys(urls, ["url"])
    if len(np.unique(numbers)) < len(np.unique(ids)):
        raise AssertionError("different strings have one number")
    compare("hash of strings", lambda: hash_keys(urls, ["url"]), lambda: urls["url"].hash())
