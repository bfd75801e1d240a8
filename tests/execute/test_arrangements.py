"""Inputs that several operators keep by one key are kept once, whatever views come and go. No JVM."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from everview.algebra.changes import ChangeRow, to_logical
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.lower import lower
from everview.reference.meaning import meaning
from everview.sql import plan_of
from tests.pipeline import StagedPipeline
from tests.sql.oracle import DOMAIN, catalog, random_inputs

CATALOG = catalog()
S, R = "s [RANGE 6 MICROSECONDS]", "r [RANGE 9 MICROSECONDS]"

# Views that keep the same windows by the same keys, on one side or the other.
VIEWS = (
    f"SELECT s.k, s.v, r.v AS w FROM {S} JOIN {R} ON s.k = r.k",
    f"SELECT s.k, s.v, r.v AS w FROM {S} LEFT JOIN {R} ON s.k = r.k",
    f"SELECT s.k, s.v, r.v AS w FROM {S} FULL JOIN {R} ON s.k = r.k",
    f"SELECT k, v FROM {S} WHERE NOT EXISTS (SELECT 1 FROM {R} WHERE r.k = s.k)",
    f"SELECT k, v FROM {R} WHERE EXISTS (SELECT 1 FROM {S} WHERE r.k = s.k)",
    f"SELECT a.v, b.v AS w FROM {S} AS a JOIN {S} AS b ON a.k = b.k",
    f"SELECT s.v, t.name FROM {S} JOIN t ON s.k = t.id",
    f"SELECT r.v, t.name FROM {R} JOIN t ON r.v = t.id",
    f"SELECT k, v FROM {S} EXCEPT ALL SELECT k, v FROM {R}",
    f"SELECT k, v FROM {S} INTERSECT ALL SELECT k, v FROM {R}",
    f"SELECT k, v FROM {R} EXCEPT ALL SELECT k, v FROM latest",
    "SELECT DISTINCT k, v FROM latest",
    "SELECT k, v FROM latest INTERSECT SELECT id, id FROM t",
)
PLANS = tuple(plan_of(sql, CATALOG) for sql in VIEWS)
LOWERED = tuple(lower(plan) for plan in PLANS)

Inputs = dict[str, list[ChangeRow]]


class Life:
    """Views that are created, dropped and replaced while others run; a new one is computed from the start."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.inputs = rng, random_inputs(rng)
        self.pipeline = StagedPipeline({}, rng, rng.randrange(1, 4))
        self.emitted: dict[str, list[ChangeRow]] = {}
        self.bound = BEFORE_ALL

    def step(self, b1: int) -> None:
        for view, rows in self.run(self.pipeline, self.bound, b1).items():
            self.emitted[view] += rows
        self.bound = b1

    def run(self, pipeline: StagedPipeline, b0: int, b1: int) -> dict[str, list[ChangeRow]]:
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in self.inputs.items()}
        return pipeline.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL))

    def create(self, number: int) -> None:
        """Create the view; what it has missed is computed beside the others, as in a backfill."""
        name, pipeline = f"v{number}", self.pipeline
        beside = StagedPipeline({name: LOWERED[number]}, self.rng, pipeline.partitions, files=pipeline.files)
        beside.salt, beside.number = pipeline.salt, 1_000 * (pipeline.number + 1)
        self.emitted[name] = []
        bounds = sorted({self.rng.randrange(-2, DOMAIN.stop) for _ in range(2)} | {self.bound})
        b0 = BEFORE_ALL
        for b1 in (b for b in bounds if BEFORE_ALL < b <= self.bound):
            self.emitted[name] += self.run(beside, b0, b1)[name]
            b0 = b1
        running = {o.name.casefold() for o in stateful_operators(pipeline.plans.values())}
        pipeline.plans = {**pipeline.plans, name: LOWERED[number]}
        pipeline.traces |= {t: runs for t, runs in beside.traces.items() if t.owner not in running}

    def drop(self, name: str) -> None:
        pipeline = self.pipeline
        pipeline.plans = {n: plan for n, plan in pipeline.plans.items() if n != name}
        left = {o.name.casefold() for o in stateful_operators(pipeline.plans.values())} | set(pipeline.plans)
        pipeline.traces = {t: runs for t, runs in pipeline.traces.items() if t.owner in left}

    def check(self) -> None:
        for name in self.pipeline.plans:
            wanted = meaning(PLANS[int(name[1:])], self.inputs, DOMAIN)
            assert to_logical(self.emitted[name], DOMAIN) == wanted, VIEWS[int(name[1:])]


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(st.integers(0, 1_000_000))
def test_views_that_come_and_go_answer_as_the_reference(seed: int) -> None:
    rng = random.Random(seed)
    life = Life(rng)
    for number in rng.sample(range(len(VIEWS)), 3):
        life.create(number)
    for b1 in sorted(rng.randrange(-2, DOMAIN.stop) for _ in range(4)):
        life.step(b1)
        if rng.random() < 0.6 and life.pipeline.plans:
            life.drop(rng.choice(list(life.pipeline.plans)))
        if rng.random() < 0.6:
            number = rng.randrange(len(VIEWS))
            life.drop(f"v{number}")  # it is replaced, if it runs
            life.create(number)
    life.step(DOMAIN.stop + 50)
    life.check()


def state_rows(*numbers: int) -> tuple[int, int]:
    """Return the rows of state that some views keep together, in traces and in files."""
    rows = {
        name: [ChangeRow((i % 3, i, i), i, 2**60) for i in range(40)] if name in ("s", "r") else []
        for name in ("s", "r", "t")
    }
    pipeline = StagedPipeline({f"v{n}": LOWERED[n] for n in numbers}, random.Random(1), 2)
    pipeline.step(rows, Slice(BEFORE_ALL, 3, first=True))
    pipeline.step({"s": [], "r": [], "t": []}, Slice(3, 4))
    runs = [run for trace, own in pipeline.traces.items() if trace.kind == "state" for run in own]
    return sum(run.rows for run in runs), sum({run.path: run.rows for run in runs}.values())


@pytest.mark.parametrize(
    ("views", "named", "kept"),
    [((0,), 80, 80), ((0, 1), 126, 86), ((1, 3), 172, 92), ((5,), 80, 40), ((0, 5), 160, 80),
     ((8, 9), 160, 80), ((0, 6), 120, 80)],
)  # fmt: skip
def test_a_window_is_kept_once(views: tuple[int, ...], named: int, kept: int) -> None:
    """Two windows of 40 rows, or one; beside them three distinct keys of EXISTS, kept by δ* and its join."""
    assert state_rows(*views) == (named, kept)


def test_a_store_whose_operators_kept_equal_rows_apart_keeps_them_once_after_a_step() -> None:
    """As in stores of releases that shared none: the next step names the runs of one of them for all."""
    apart = {}
    for number in (0, 3):
        alone = StagedPipeline({f"v{number}": LOWERED[number]}, random.Random(1), 1)
        rows = {"s": [ChangeRow((1, i, i), i, 2**60) for i in range(5)], "r": []}
        alone.step(rows, Slice(BEFORE_ALL, 5, first=True))
        apart[number] = alone
    together = StagedPipeline({f"v{n}": LOWERED[n] for n in apart}, random.Random(1), 1)
    for alone in apart.values():
        for trace, runs in alone.traces.items():
            frames = [alone.files.read_frame(run.path) for run in runs]
            paths = [trace.unique_path(0) for _ in runs]
            for path, frame in zip(paths, frames, strict=True):
                together.files.save_frame(path, frame)
            together.traces[trace] = tuple(map(lambda r, p: replace(r, path=p), runs, paths))
    lefts = [t for t in together.traces if t.kind == "state" and t.part == "left"]
    assert len(lefts) == 2
    assert len({together.traces[t] for t in lefts}) == 2
    emitted = together.step({"s": [], "r": [ChangeRow((1, 7, 6), 6, 2**60)]}, Slice(5, 6))
    assert len(emitted["v0"]) == 4
    assert sum(-row.n for row in emitted["v3"]) == 4
    assert len({together.traces[t] for t in lefts}) == 1
