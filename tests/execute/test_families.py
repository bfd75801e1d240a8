"""Operators of a family, evaluated at once, keep and emit what each keeps and emits alone."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from everview import operators as P
from everview.algebra import types as T
from everview.execute import program as programs
from everview.execute.families import order_of_work
from everview.execute.prepare import StepStages
from everview.operators.aggregates.accumulators import Accumulator
from everview.operators.aggregates.exact import to_integer
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, FROM, HASH, UNTIL, Frame, N, Slice
from everview.operators.columnar.types import column_type
from everview.operators.step_slices import StepSlices
from everview.plan.lower import lower
from everview.plan.stages import Port
from everview.plan.strategies import STRATEGIES
from everview.sql import plan_of
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId
from tests.lanes import one_in, seed_lanes
from tests.sql.oracle import catalog

MEMBERS = 4

# A window of its own for each view: operators of one family, and no state is shared.
KINDS = {
    "distinct": "SELECT DISTINCT k, v FROM s [RANGE {w} MICROSECONDS]",
    "except": "SELECT k FROM s [RANGE {w} MICROSECONDS] EXCEPT ALL SELECT k FROM r [RANGE {w} MICROSECONDS]",
    "join": "SELECT s.v, r.v AS w FROM s [RANGE {w} MICROSECONDS] JOIN r [RANGE {w} MICROSECONDS]"
    " ON s.k = r.k",
    "join by two columns": "SELECT s.k FROM s [RANGE {w} MICROSECONDS] JOIN r [RANGE 9 MICROSECONDS]"
    " ON s.k = r.k AND s.v = r.v",
    "intersect": "SELECT k, v FROM s [RANGE {w} MICROSECONDS] INTERSECT"
    " SELECT k, v FROM r [RANGE 9 MICROSECONDS]",
    "anti join": "SELECT k, v FROM s [RANGE {w} MICROSECONDS] WHERE NOT EXISTS"
    " (SELECT * FROM r [RANGE {w} MICROSECONDS] WHERE r.k = s.k)",
    "sums": "SELECT k, COUNT(*) AS n, SUM(v) AS t, AVG(v / 3) AS a"
    " FROM s [RANGE {w} MICROSECONDS] GROUP BY k",
    "extremes": "SELECT k, MIN(v) AS a, MAX(v) AS b FROM s [RANGE {w} MICROSECONDS] GROUP BY k",
    "distinct values": "SELECT k, COUNT(DISTINCT v) AS n FROM s [RANGE {w} MICROSECONDS] GROUP BY k",
    "one group": "SELECT COUNT(*) AS n FROM s [RANGE {w} MICROSECONDS]",
    "retracted": "SELECT DISTINCT n FROM"
    " (SELECT k, COUNT(*) AS n FROM s [RANGE {w} MICROSECONDS] GROUP BY k) AS g",
    "extremes of sums": "SELECT n, MAX(k) AS k FROM"
    " (SELECT k, COUNT(*) AS n FROM s [RANGE {w} MICROSECONDS] GROUP BY k) AS g GROUP BY n",
}


class Views:
    """Some views of one kind in one partition, step by step, over rows that lie in windows already."""

    def __init__(self, folder: Path, kind: str, strategy: str) -> None:
        self.plans = {
            f"v{i}": lower(plan_of(KINDS[kind].format(w=7 + 5 * i), catalog()), strategy)
            for i in range(MEMBERS)
        }
        self.files = Files(str(folder), durable=False)
        self.traces: dict[TraceId, tuple[Run, ...]] = {}

    def step(self, number: int, slice_: Slice, rng: random.Random) -> None:
        """Run a step over random rows, which do not depend on what ran before."""
        work = StepStages.of(self.plans, self.traces)
        given: list[Frame | None] = []
        for stage, program in enumerate(
            work.programs(self.files, 1, self.traces, number, StepSlices(slice_))
        ):
            if stage == 0:
                given = [random_rows(rng, port, slice_) for port in work.stages[0].ports]
            done = program.run(given, 0)
            given = list(done.handed_on)
            self.traces |= work.read_reports([done.report(stage)], self.traces).traces

    def rows(self) -> dict[TraceId, list[list[str]]]:
        """Return the rows of each run of each state and view."""
        return {
            trace: [plain_rows(trace, self.files.read_frame(run.path)) for run in runs]
            for trace, runs in self.traces.items()
            if runs
        }


def random_rows(rng: random.Random, port: Port, slice_: Slice) -> Frame | None:
    """Return rows of a stream as they lie in the window of their path; none in some steps."""
    [path] = port.paths
    window = next(n.window for n in path.through if isinstance(n, P.TimeWindowOperator))
    count = rng.choice([0, 0, 1, 3, 12]) if slice_.b0 < slice_.b1 else 0
    begins = [rng.randrange(max(slice_.b0, 0) + 1, slice_.b1 + 1) for _ in range(count)]
    columns = {
        P.column(i): pl.Series([random_value(rng, t) for _ in begins], dtype=column_type(t))
        for i, t in enumerate(port.types)
    }
    times = {
        FROM: begins,
        UNTIL: [b + window.extent for b in begins],
        N: [rng.choice([1, 1, 2]) for _ in begins],
    }
    return pl.DataFrame({**columns, **times}) if count else None


def random_value(rng: random.Random, type_: T.DataType) -> object:
    if rng.random() < 0.1:
        return None
    if type_ == T.DOUBLE:
        return rng.choice([0.1, 0.2, 1e16, -0.0, float("nan"), float("inf"), 3.5])
    return str(rng.randrange(3)) if type_ == T.STRING else rng.randrange(4)


def plain_rows(trace: TraceId, rows: Frame) -> list[str]:
    """Return rows as texts in one order; a sum, which can be cut into limbs in many ways, as one number."""
    if HASH in rows.columns and trace.part != "queue":
        assert rows[HASH].is_sorted()
    return sorted(map(plain_row, rows.select(sorted(rows.columns)).to_dicts()))


def plain_row(row: dict[str, object]) -> str:
    values: dict[object, object] = {}
    limbs: dict[object, dict[int, int]] = {}
    for name, value in row.items():
        found = Accumulator.of_column(name)
        if found is None:
            values[name] = value
        elif found.limb is not None:
            limbs.setdefault((found.kind, found.aggregate), {})[found.limb] = int(value or 0)
        elif value:
            values[name] = value
    totals = {which: to_integer(parts) for which, parts in limbs.items()}
    sums = [(which, total * Fraction(2) ** power) for which, (total, power) in totals.items() if total]
    return repr((values, sorted(sums, key=repr)))


@pytest.mark.slow
@seed_lanes("seeds", 1, 2, 5)
@pytest.mark.parametrize("kind", one_in(5, KINDS))
def test_a_family_equals_its_members(
    seeds: range, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same runs, with the same rows: also where members have no rows, expire, merge or lie in buckets."""
    for seed in seeds:
        rng = random.Random(seed)
        strategy = rng.choice(list(STRATEGIES))
        monkeypatch.setattr(programs, "_SMALL_RUN", rng.choice([3, 10, 10_000]))
        monkeypatch.setattr(programs, "MOST_MEMBER_ROWS", rng.choice([20, 4_000]))
        alone, together = (Views(tmp_path / f"{seed}{name}", kind, strategy) for name in ("a", "t"))
        b0 = BEFORE_ALL
        for number in range(12):
            b1 = max(b0, 0) + rng.choice([0, 2, 5, 20] if number else [5])
            slice_ = Slice(b0, b1, first=number == 0)
            for views, fewest in ((alone, 10**9), (together, 2)):
                monkeypatch.setattr(programs, "FEWEST_MEMBERS", fewest)
                views.step(number, slice_, random.Random(f"{seed} {number}"))
            assert together.rows() == alone.rows(), (seed, number, strategy)
            b0 = b1


def test_operators_that_read_others_run_after_them() -> None:
    views = Views(Path("unused"), "extremes of sums", "UPA")
    [stage, *_] = StepStages.of(views.plans, {}).stages
    order = order_of_work(stage)
    assert sorted(place for places in order for place in places) == list(range(len(stage.nodes)))
    done: set[int] = set()
    for places in order:
        for place in places:
            below = (i.number for i in stage.nodes[place].node.inputs if isinstance(i, P.RegisterOperator))
            assert all(i < len(stage.ports) or i - len(stage.ports) in done for i in below)
        done |= set(places)
    kernels = stateful_operators(views.plans.values())
    assert len({k.family for k in kernels}) == 2
    assert max(map(len, order)) == MEMBERS
