"""The state of a stage stays as small as what matters, however long it runs; idle partitions read nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from everview import operators as P
from everview.algebra.time import INFINITY
from everview.execute import program as programs
from everview.execute.prepare import StepStages
from everview.execute.program import policy_of
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, N, Slice
from everview.operators.columnar.types import column_type
from everview.operators.step_slices import StepSlices
from everview.plan.lower import lower
from everview.plan.stages import Port
from everview.plan.strategies import STRATEGIES
from everview.sql import plan_of
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace
from tests.sql.oracle import catalog

WINDOW, WIDTH, ROWS = 400, 20, 40  # of time; of a step; rows in a step
STEPS = 20 * WINDOW // WIDTH

SLIDING, OTHER = f"s [RANGE {WINDOW} MICROSECONDS]", f"r [RANGE {WINDOW // 2} MICROSECONDS]"
QUERIES = {
    "join": f"SELECT s.v, r.v AS w FROM {SLIDING} JOIN {OTHER} ON s.k = r.k",
    "distinct": f"SELECT DISTINCT k FROM {SLIDING}",
    "group": f"SELECT k, COUNT(*) AS n, SUM(v) AS t FROM {SLIDING} GROUP BY k",
    "join over a join": "SELECT a.v, t.v AS w FROM"
    f" (SELECT s.k, s.v FROM {SLIDING} JOIN {OTHER} ON s.k = r.k) AS a"
    f" JOIN (SELECT DISTINCT k, v FROM {SLIDING}) AS t ON a.k = t.k",
    "group over a join": f"SELECT s.k, COUNT(*) AS n FROM {SLIDING} JOIN {OTHER} ON s.k = r.k GROUP BY s.k",
    "distinct over a join": f"SELECT DISTINCT s.k, r.v FROM {SLIDING} JOIN {OTHER} ON s.k = r.k",
}


class Loop:
    """A stage with one partition, step by step, over rows that lie in windows already."""

    def __init__(self, folder: Path, plan: P.Operator) -> None:
        self.plan, self.files = plan, Files(str(folder), durable=False)
        self.traces: dict[TraceId, tuple[Run, ...]] = {}
        self.rng = np.random.default_rng(1)
        self.number = 0
        self.written: list[int] = []
        self.b0 = BEFORE_ALL

    def step(self, rows: int) -> None:
        b1 = (self.number + 1) * WIDTH
        work = StepStages.of({"v": self.plan}, self.traces)
        slice_ = Slice(self.b0, b1, first=self.number == 0)
        [program] = work.programs(self.files, 1, self.traces, self.number, StepSlices(slice_))
        ports = [self._rows(rows, port) for port in work.stages[0].ports]
        done = program.run(ports, 0)
        self.written.append(
            sum(run.rows for *_, runs in done.states for run in runs if run.path not in done.known)
        )
        self.traces |= work.read_reports([done.report(0)], self.traces).traces
        self.number, self.b0 = self.number + 1, b1

    def _rows(self, rows: int, port: Port) -> Frame | None:
        """Rows of a stream as Catalyst puts them into the window of its path."""
        [path] = port.paths
        window = next(n.window for n in path.through if isinstance(n, P.TimeWindowOperator))
        ts = np.sort(
            self.rng.integers(self.b0 + 1 if self.number else 1, (self.number + 1) * WIDTH + 1, rows)
        )
        columns = {
            P.column(i): pl.Series(self.rng.integers(0, 30, rows)).cast(column_type(t))
            for i, t in enumerate(port.types)
        }
        times = {FROM: ts, UNTIL: ts + window.extent, N: np.ones(rows, np.int64)}
        return pl.DataFrame({**columns, **times}) if rows else None

    def parts(self) -> dict[tuple[P.Operator, str], Trace]:
        kernels = {k.name.casefold(): k for k in stateful_operators([self.plan])}
        return {
            (kernels[t.owner], t.part): Trace(t, runs, self.files)
            for t, runs in self.traces.items()
            if t.kind == "state"
        }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs count as small at fewer rows, so that a small test is large enough."""
    monkeypatch.setattr(programs, "_SMALL_RUN", 60)
    return 60


def loop(folder: Path, name: str, strategy: str = "UPA") -> Loop:
    return Loop(folder, lower(plan_of(QUERIES[name], catalog()), strategy))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_twenty_windows_leave_one(tmp_path: Path, small: int, name: str) -> None:
    """At most half as much again as matters is kept, and the number of runs stays level."""
    running = loop(tmp_path, name)
    most = 0
    for number in range(STEPS):
        running.step(ROWS)
        if number < WINDOW // WIDTH or number % 7:
            continue
        for (kernel, part), trace in running.parts().items():
            if part == "sums":
                continue
            alive = trace.read(until_after=running.b0).height
            assert trace.rows <= max(1.5 * alive, alive + small), (type(kernel).__name__, part, number)
            most = max(most, len(trace.runs))
    assert most <= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", ["join", "group", "distinct"])
def test_each_row_is_written_a_few_times(tmp_path: Path, small: int, name: str) -> None:
    """Merging is paid for bit by bit: no step writes much more than what the window holds."""
    running = loop(tmp_path, name)
    for _ in range(STEPS):
        running.step(ROWS)
    sides = len(running.parts())
    window = ROWS * WINDOW // WIDTH
    assert sum(running.written) < 8 * STEPS * ROWS * sides
    assert max(running.written) < 1.5 * window * sides


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_in_any_order_of_ends_lie_in_buckets(strategy: str) -> None:
    """Buckets where ends are known, in any order (WK); none in order (WKS), nor where rows are taken back.

    Nor where rows coalesce, as those of the DISTINCT do.
    """
    plan = lower(plan_of(QUERIES["join over a join"], catalog()), strategy)
    found = {}
    for kernel in stateful_operators([plan]):
        if isinstance(kernel, P.JoinOperator):
            sides = [policy_of(part) for part in kernel.state]
            found[len(kernel.types)] = [s.buckets is not None for s in sides], [s.cancelling for s in sides]
    lower_join, upper_join = found.values()
    if strategy == "UPA":
        assert lower_join == ([False, False], [False, False])
        assert upper_join == ([True, False], [False, False])
    else:
        assert lower_join == upper_join == ([False, False], [True, True])


def test_rows_that_coalesce_lie_in_no_buckets() -> None:
    """What is covered by δ* over any rows, and a join over δ*: rows of a record must meet to become one."""
    plan = lower(plan_of(QUERIES["distinct over a join"], catalog()))
    [distinct] = [k for k in stateful_operators([plan]) if isinstance(k, P.DistinctOperator)]
    policy = policy_of(distinct.state[0])
    assert (policy.buckets, policy.coalescing) == (None, True)


def test_the_number_of_buckets_follows_from_the_spread_of_ends() -> None:
    [part] = [
        part
        for kernel in stateful_operators([lower(plan_of(QUERIES["join over a join"], catalog()))])
        for part in kernel.state
        if part.expires_within is not None and part.name == "left"
    ]
    window = part.expires_within
    assert window is not None

    def count(rows: int, *ends: tuple[int, int]) -> int:
        runs = [Run(f"r{i}", rows, *own, 0, 1, 9) for i, own in enumerate(ends)]
        buckets = policy_of(part, runs=runs).buckets
        assert buckets is not None
        return buckets.count

    assert count(1_000, (1, window)) == 1, "one file is enough"
    assert count(80_000, (1, window)) in (8, 16)
    assert count(80_000, (1, window // 4)) == 4 * count(80_000, (1, window))
    assert count(80_000, (1, 2)) == 1, "all end at once"
    assert count(10**7, (1, window)) in (8, 16), "a step opens few files"


@pytest.mark.parametrize("name", ["join", "group", "distinct"])
def test_where_nothing_is_new_and_nothing_due_nothing_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = loop(tmp_path, name)
    running.step(ROWS)
    monkeypatch.setattr(Files, "read_frame", None)
    running.step(0)
    assert running.written[-1] == 0


def test_what_is_due_is_done_without_new_rows(tmp_path: Path) -> None:
    running = loop(tmp_path, "group")
    running.step(ROWS)
    for _ in range(WINDOW // WIDTH + 1):
        running.step(0)
    views = running.traces[TraceId("view", "v")]
    emitted = pl.concat([running.files.read_frame(run.path) for run in views])
    open_rows = emitted.filter(pl.col(UNTIL) == INFINITY)[N].sum()
    assert open_rows == 0, "all groups have ended"
    assert not any(part == "queue" and trace.runs for (_, part), trace in running.parts().items())
