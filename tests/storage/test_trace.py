"""A trace answers as a plain list of rows does, whatever is appended, dropped and merged; and stays small."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pyarrow.fs as arrow_fs
import pytest

from everview.algebra.time import INFINITY
from everview.errors import StoreError
from everview.operators.aggregate import Sweep, compact_sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.columnar.frame import (
    BEFORE_ALL,
    FROM,
    UNTIL,
    Frame,
    N,
    Slice,
    consolidate_frame,
    drop_ended,
    make_frame,
)
from everview.storage.compaction import Policy, merges
from everview.storage.files import FileMissing, Files
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace
from everview.temporal.expiry import ExpiryBuckets
from tests.lanes import seed_lanes

ID = TraceId("state", "Join 3", "left", 5)
EMPTY = make_frame({"v": pl.Series([], dtype=pl.Int64)}, [])
Step = Callable[[random.Random, int, int], Frame]


def new_trace(folder: Path | str, policy: Policy | None = None) -> Trace:
    return Trace(ID, (), Files(str(folder), durable=False), policy or Policy())


def same(found: Frame, wanted: Frame, bound: int) -> bool:
    """Whether two states answer the same after a bound."""
    left, right = (consolidate_frame(f, bound).sort(pl.all()) for f in (found, wanted))
    return left.equals(right)


def random_rows(rng: random.Random, low: int, signed: bool) -> Frame:
    rows, times = [], []
    for _ in range(rng.randrange(12)):
        begin = low + rng.randrange(10)
        end = INFINITY if rng.random() < 0.2 else begin + 1 + rng.randrange(25)
        rows.append(rng.randrange(4))
        times.append((begin, end, rng.choice([-1, 1, 2]) if signed else 1))
    return make_frame({"v": pl.Series(rows, dtype=pl.Int64)}, times)


@seed_lanes("seeds", 8, 120, 475)
def test_a_trace_equals_a_plain_list(seeds: range) -> None:
    for seed in seeds:
        check_against_a_plain_list(random.Random(seed))


def check_against_a_plain_list(rng: random.Random) -> None:
    bucketed = rng.random() < 0.5
    buckets = ExpiryBuckets(window=20, count=3) if bucketed else None
    policy = Policy(buckets, rng.choice([0, 4, 30]), 3, cancelling=rng.random() < 0.5)
    trace = Trace(ID, (), Files("store", filesystem=arrow_fs._MockFileSystem()), policy)
    plain, bound = EMPTY, -5
    for step in range(rng.randrange(1, 12)):
        low, bound = bound + 1, bound + rng.choice([0, 1, 5, 9])
        for _ in range(rng.choice([1, 1, 2])):
            frame = random_rows(rng, low, not bucketed)
            plain = drop_ended(pl.concat([plain, frame]), bound)
            trace = trace.append(frame, step, rng.choice([BEFORE_ALL, bound]))
        if rng.random() < 0.7:
            trace = trace.drop_expired(bound)
        if rng.random() < 0.7:
            trace = trace.compact(consolidate_frame, step, bound)
        assert len({run.path for run in trace.runs}) == len(trace.runs)
        assert same(trace.read(EMPTY, until_after=bound), plain, bound)
        due = (bound, bound + rng.randrange(15))
        assert same(
            trace.read(EMPTY, due=due),
            plain.filter((pl.col(UNTIL) > due[0]) & (pl.col(UNTIL) <= due[1])),
            bound,
        )
        at = bound + rng.randrange(1, 15)
        wanted = plain.filter((pl.col(FROM) <= at) & (pl.col(UNTIL) > at))
        assert same(trace.read(EMPTY, at=at), wanted, at)
        for run in trace.runs:
            ends = trace.files.read_frame(run.path)[UNTIL]
            assert (run.least_until, run.greatest_until) == (ends.min(), ends.max())
            left = (ends > bound).sum()
            assert run.alive(bound) <= left <= run.alive(bound) + run.rows // 8 + 8


def sliding(rows: int, window: int) -> Step:
    """Every row ends a window after it began: a base stream under RANGE (WKS)."""

    def make(rng: random.Random, step: int, width: int) -> Frame:
        times = [step * width + 1 + rng.randrange(width) for _ in range(rows)]
        return make_frame({"v": [rng.randrange(10**9) for _ in times]}, [(t, t + window, 1) for t in times])

    return make


def uneven(rows: int, window: int) -> Step:
    """Most rows end soon, some late, a few never: a join of windows and a table (WK)."""

    def make(rng: random.Random, step: int, width: int) -> Frame:
        times = [step * width + 1 + rng.randrange(width) for _ in range(rows)]
        ends = [
            INFINITY if rng.random() < 0.005 else t + 1 + int(window * rng.random() ** rng.choice([1, 6]))
            for t in times
        ]
        return make_frame(
            {"v": [rng.randrange(10**9) for _ in times]}, [(*t, 1) for t in zip(times, ends, strict=True)]
        )

    return make


def updates(rows: int, keys: int) -> Step:
    """Every row replaces the one of its key: the end of none is known before (STR)."""
    current: dict[int, int] = {}

    def make(rng: random.Random, step: int, width: int) -> Frame:
        records, times = [], []
        for _ in range(rows):
            key, t = rng.randrange(keys), step * width + 1 + rng.randrange(width)
            if key in current:
                records.append(current[key])
                times.append((t, INFINITY, -1))
            current[key] = rng.randrange(10**9)
            records.append(current[key])
            times.append((t, INFINITY, 1))
        return make_frame({"v": records}, times)

    return make


BUCKETS = ExpiryBuckets(window=400, count=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "policy", "most_runs"),
    [
        pytest.param(sliding(20, 400), Policy(small=40, cancelling=False), 10, id="sliding"),
        pytest.param(sliding(20, 400), Policy(BUCKETS, 40, cancelling=False), 22, id="sliding, buckets"),
        pytest.param(uneven(20, 400), Policy(small=40, cancelling=False), 10, id="uneven"),
        pytest.param(uneven(20, 400), Policy(BUCKETS, 40, cancelling=False), 28, id="uneven, buckets"),
        pytest.param(updates(20, 50), Policy(small=40), 6, id="updates of few keys"),
        pytest.param(updates(20, 1000), Policy(small=40), 10, id="updates of many keys"),
    ],
)
def test_300_steps_stay_small(tmp_path: Path, make: Step, policy: Policy, most_runs: int) -> None:
    """The number of runs is logarithmic; at most 1.5 times what matters is kept, beside `small` rows."""
    rng, width = random.Random(1), 10
    trace, plain = new_trace(tmp_path, policy), EMPTY
    written = 0
    for step in range(300):
        bound = (step + 1) * width
        frame = make(rng, step, width)
        plain = pl.concat([plain, frame])
        before = {run.path for run in trace.runs}
        trace = trace.append(frame, step, bound).compact(consolidate_frame, step, bound)
        written += sum(run.rows for run in trace.runs if run.path not in before)
        assert len(trace.runs) <= most_runs
        if step % 7 == 5:
            plain = consolidate_frame(drop_ended(plain, bound), bound)
            assert trace.rows <= 1.5 * plain.height + policy.small
    assert same(trace.read(EMPTY, until_after=bound), drop_ended(plain, bound), bound)
    assert written < 12 * 20 * 300, "each row is written a few times only"


def test_a_state_that_only_grows_has_few_runs(tmp_path: Path) -> None:
    trace = new_trace(tmp_path, Policy(small=40, cancelling=False))
    for step in range(300):
        trace = trace.append(make_frame({"v": list(range(10))}, [(step, INFINITY, 1)] * 10), step, step)
        trace = trace.compact(lambda rows, bound: rows, step, step)
        assert len(trace.runs) <= 3 * (trace.policy.tier(trace.rows) + 1)
    assert trace.rows == 3000


def test_a_sweep_over_a_trace(tmp_path: Path) -> None:
    """Sums have no `_from`, and their columns differ from step to step: NaN has one of its own."""
    plan = Sweep(("k",), (AggregateColumn("sum", "v", "total"),))
    rng, files = random.Random(2), Files(str(tmp_path), durable=False)
    empty = empty_sweep(plan, make_frame({"k": ["a"], "v": [1.0]}, [(0, 1, 1)]))
    traces = {part: Trace(TraceId("state", "sum", part), (), files, Policy(small=3)) for part in empty}
    state = dict(empty)
    b0 = BEFORE_ALL
    for step in range(25):
        b1 = step * 10
        times = [b1 - 9 + rng.randrange(10) for _ in range(5)]
        values = [rng.choice([0.1, 1e16, float("nan"), float("inf")]) for _ in times]
        new = make_frame(
            {"k": [rng.choice("ab") for _ in times], "v": values}, [(t, t + 25, 1) for t in times]
        )
        slice_ = Slice(b0, b1, first=step == 0)
        read = {
            "queue": traces["queue"].read(empty["queue"], due=(b0, b1)),
            "sums": traces["sums"].read(empty["sums"], until_after=b0),
        }
        found, wanted = sweep(plan, new, read, slice_), sweep(plan, new, state, slice_)
        assert found.output.sort(pl.all()).equals(wanted.output.sort(pl.all()))
        for part, added in found.added.items():

            def shrink(rows: Frame, bound: int, part: str = part) -> Frame:
                return compact_sweep(plan, part, rows, bound)

            traces[part] = traces[part].append(added, step, b1).compact(shrink, step, b1)
            state[part] = drop_ended(pl.concat([state[part], added], how="diagonal"), b1)
        b0 = b1
    assert all(len(trace.runs) <= 4 for trace in traces.values())


def test_names_are_deterministic_and_never_taken_twice_in_a_step(tmp_path: Path) -> None:
    frame = make_frame({"v": [1]}, [(0, 9, 1)])
    first = new_trace(tmp_path).append(frame, 7).append(frame, 7)
    again = new_trace(tmp_path).append(frame, 7).append(frame, 7)
    assert first.runs == again.runs
    folder = first.runs[0].path.rsplit("/", 1)[0]
    names = [f"{folder}/p0005-00000007-000{i}.arrow" for i in range(3)]
    assert [run.path for run in first.runs] == names[:2]
    merged = first.merged(first.runs, consolidate_frame, 7, 3)
    assert [(run.path, run.rows) for run in merged.runs] == [(names[2], 1)]
    assert merged.append(frame, 8).runs[-1].path.endswith("p0005-00000008-0000.arrow")


def test_a_task_in_another_process_gets_descriptors(tmp_path: Path) -> None:
    trace = new_trace(tmp_path).append(make_frame({"v": [1, 2]}, [(0, 9, 1), (3, 20, 1)]), 1)
    runs = tuple(msgspec.json.decode(msgspec.json.encode(run), type=Run) for run in trace.runs)
    assert runs == trace.runs
    there: Trace = pickle.loads(pickle.dumps(Trace(ID, runs, trace.files)))
    assert there.read(until_after=10)["v"].to_list() == [2]


def test_whole_files_expire(tmp_path: Path) -> None:
    policy = Policy(ExpiryBuckets(window=50, count=5), small=0)
    rows = make_frame({"v": [1, 2, 3, 4, 5]}, [(t, u, 1) for t, u in enumerate([51, 60, 61, 100, INFINITY])])
    trace = new_trace(tmp_path, policy).append(rows, 1, 50)
    assert [(run.least_until, run.greatest_until) for run in trace.runs] == [
        (51, 60), (61, 61), (100, 100), (INFINITY, INFINITY),
    ]  # fmt: skip
    assert [len(trace.drop_expired(b).runs) for b in (59, 60, 61, 99, 100, INFINITY - 1)] == [
        4,
        3,
        2,
        2,
        1,
        1,
    ]


def test_only_runs_that_can_hold_a_row_are_read(tmp_path: Path) -> None:
    trace = new_trace(tmp_path, Policy(ExpiryBuckets(window=50, count=5), small=0))
    trace = trace.append(make_frame({"v": [1, 2, 3]}, [(1, 55, 1), (2, 65, 1), (30, 75, 1)]), 1, 50)
    first, second, third = trace.runs
    trace.files.delete(second.path)
    assert trace.read(due=(50, 60))["v"].to_list() == [1]
    assert trace.read(until_after=70)["v"].to_list() == [3]
    assert trace.read(at=1)["v"].to_list() == [1]
    with pytest.raises(
        FileMissing, match=rf"{second.path} is missing, and a manifest names it\n  next: .*backup"
    ):
        trace.read()
    assert [run.holds(None, (60, 65), None) for run in (first, second, third)] == [False, True, False]


def test_what_ends_at_once_is_not_written(tmp_path: Path) -> None:
    rows = make_frame({"v": [1, 2]}, [(1, 5, 1), (1, 6, 1)])
    assert new_trace(tmp_path).append(rows, 1, 6).runs == ()
    assert [run.rows for run in new_trace(tmp_path).append(rows, 1, 5).runs] == [1]


def test_rows_without_an_end(tmp_path: Path) -> None:
    """Late rows are no change rows; they stay."""
    trace = Trace(TraceId("late", "s"), (), Files(str(tmp_path)))
    for step in range(5):
        trace = trace.append(pl.DataFrame({"v": [step], "reason": ["late"]}), step, 100)
    trace = trace.compact(lambda rows, bound: rows, 9, 200).drop_expired(INFINITY - 1)
    assert len(trace.runs) == 1
    assert trace.read(until_after=500)["v"].to_list() == [0, 1, 2, 3, 4]
    assert trace.read(columns=["reason"]).columns == ["reason"]


def test_columns_and_empty(tmp_path: Path) -> None:
    trace = new_trace(tmp_path)
    assert trace.read().is_empty()
    assert trace.read(EMPTY).schema == EMPTY.schema
    assert trace.read(EMPTY, columns=["v"]).columns == ["v"]
    trace = trace.append(make_frame({"v": [4]}, [(0, 9, 1)]), 1)
    assert trace.read(EMPTY, columns=["v", N], until_after=3).rows() == [(4, 1)]
    assert trace.read(EMPTY, columns=["v", N], until_after=9).schema == EMPTY.select("v", N).schema


def test_other_types_under_the_same_name(tmp_path: Path) -> None:
    trace = new_trace(tmp_path).append(make_frame({"v": ["a"]}, [(0, 9, 1)]), 1)
    with pytest.raises(StoreError, match="do not have the same types"):
        trace.read(EMPTY)


def test_names_that_differ_in_case_are_one_trace() -> None:
    assert TraceId("view", "Hot") == TraceId("view", "hOT")
    assert TraceId("view", "Hot").path(1, 0) == "views/hot/p0000-00000001-0000.arrow"
    with pytest.raises(StoreError, match=r"no kind of trace 'heap'\n  choices: state, view, complete"):
        TraceId("heap", "x")


def run(rows: int, until: int = INFINITY, name: str = "r") -> Run:
    return Run(name, rows, until, until, 0, 0, 0)


def test_which_runs_are_merged() -> None:
    policy = Policy(small=10, cancelling=False)

    def sizes(*rows: int) -> list[list[int]]:
        return [
            [r.rows for r in group]
            for group in merges([run(n, name=str(i)) for i, n in enumerate(rows)], policy, 0)
        ]

    assert sizes(100, 5, 5, 5) == []
    assert sizes(100, 5, 1, 9, 2) == [[5, 1, 9, 2]]
    assert sizes(10, 20, 30, 5, 5, 5, 5) == [[5, 5, 5, 5, 10, 20, 30]], "what is merged fills the next tier"
    assert merges([], policy, 0) == []


def test_what_may_cancel_is_merged_when_it_is_a_fifth() -> None:
    policy = Policy(small=10)
    for rest, wanted in ((20, []), (21, [2])):
        assert [len(g) for g in merges([run(100, name="a"), run(rest, name="b")], policy, 0)] == wanted
    assert merges([run(3, name="a"), run(9, name="b")], policy, 0) == [], "a few rows are not worth it"


def test_runs_of_different_buckets_are_not_merged() -> None:
    policy = Policy(ExpiryBuckets(50, 5), small=10, cancelling=False)
    runs = [run(5, until, name=f"{until} {i}") for until in (55, 65, INFINITY) for i in range(4)]
    assert [{r.least_until for r in group} for group in merges(runs, policy, 50)] == [{55}, {65}, {INFINITY}]


def test_a_policy_that_cannot_be() -> None:
    with pytest.raises(StoreError, match="take a fan of at least 2"):
        Policy(fan=1)
