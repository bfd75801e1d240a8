"""⋈NRR through the physical plan, in random slices, with its state made small after every step. No JVM.

The left side may be anything: a join whose rows come with old timestamps, rows that are taken back. The
tables change as UPDATE and DELETE change them, by rows that take others back.
"""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, to_logical
from everview.algebra.time import INFINITY
from everview.errors import TemporalError
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, Slice
from everview.operators.columnar.frame import N as COPIES
from everview.plan.lower import lower
from everview.plan.strategies import STRATEGIES
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.temporal.runnable import require_runnable
from everview.temporal.update_patterns import edge
from tests.pipeline import Pipeline, StagedPipeline
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, catalog, random_inputs

CATALOG = catalog()

US = "MICROSECONDS"
UNSIGNED = {
    "stream": "s",
    "window": f"s [RANGE 4 {US}]",
    "slide": f"s [RANGE 4 {US} SLIDE 3 {US} LAG 1 MICROSECOND]",
    "join": f"(SELECT s.k, s.ts FROM s [RANGE 5 {US}] JOIN r [RANGE 8 {US}] ON s.k = r.k) s",
    "other join": f"(SELECT r.k, s.ts FROM r [RANGE 2 {US}] JOIN s [RANGE 3 {US}] ON TRUE) s",
    "unbounded join": f"(SELECT s.k, s.ts FROM s JOIN r [RANGE 3 {US}] ON s.k = r.k) s",
    "window over a join": f"(SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k) [RANGE 3 {US}] s",
    "semi join": f"(SELECT k, ts FROM s [RANGE 6 {US}] WHERE k IN (SELECT k FROM r)) s",
    "union": f"(SELECT k, ts FROM s UNION ALL SELECT k, ts FROM r [RANGE 3 {US}]) s",
    "distinct": f"(SELECT DISTINCT k, ts FROM s [RANGE 6 {US}]) s",
    "sync": f"(SELECT k, ts FROM s [RANGE 6 {US}] SYNC EVERY 4 {US}) s",
    "istream": f"(SELECT k, ts FROM ISTREAM(SELECT k, ts FROM s [RANGE 6 {US} SLIDE 2 {US}])) s",
    "instants": f"(SELECT k, at AS ts FROM ISTREAM(SELECT k FROM s [RANGE 6 {US} SLIDE 2 {US}])) s",
}
SIGNED = {
    "rows": "s [ROWS 2]",
    "rows of a window": f"(SELECT * FROM s [RANGE 5 {US}]) [ROWS 2] s",
    "tagged": "latest s",
    "deleted": "rooms s",
    "group": f"(SELECT k, ts, COUNT(*) AS n FROM s [RANGE 5 {US}] GROUP BY k, ts) s",
    "except": f"(SELECT k, ts FROM s [RANGE 7 {US}] EXCEPT SELECT k, ts FROM r [RANGE 5 {US}]) s",
    "anti join": f"(SELECT k, ts FROM s [RANGE 7 {US}] WHERE k NOT IN (SELECT k FROM r [RANGE 2 {US}])) s",
    "outer join": f"(SELECT s.k, s.ts, r.v FROM s [RANGE 5 {US}] LEFT JOIN r [RANGE 3 {US}] ON s.k = r.k) s",
    "retroactive": f"(SELECT s.k, s.ts, t.name FROM s [RANGE 5 {US}] JOIN t ON s.k = t.id) s",
}
JOINS = {
    "inner": "SELECT s.k, s.ts, nrr.name FROM {} JOIN nrr ON s.k = nrr.id",
    "nulls": "SELECT s.k, s.ts, nrr.name FROM {} JOIN nrr ON s.k <=> nrr.id",
    "all": "SELECT s.k, s.ts, nrr.name FROM {} CROSS JOIN nrr",
    "rest": "SELECT s.k, s.ts, nrr.name FROM {} JOIN nrr ON s.k = nrr.id AND (s.k > 1 OR nrr.name = 'x')",
    "outer": "SELECT s.k, s.ts, nrr.name FROM {} LEFT JOIN nrr ON s.k = nrr.id",
    "outer rest": "SELECT s.k, s.ts, nrr.name FROM {} LEFT JOIN nrr"
    " ON s.k = nrr.id AND (s.k > 1 OR nrr.name = 'x')",
}
ABOVE = {
    "itself": "{}",
    "max": "SELECT k, MAX(name) AS m FROM ({}) GROUP BY k",
    "rows": "SELECT * FROM ({}) [PARTITION BY k ROWS 1]",
    "distinct": "SELECT DISTINCT k, name FROM ({})",
}


def updated(rng: random.Random, rows: list[ChangeRow]) -> list[ChangeRow]:
    """The rows of a table, of which some end by being taken back."""
    changed = []
    for row in rows:
        if row.until < INFINITY and rng.random() < 0.7:
            changed += [row._replace(until=INFINITY), ChangeRow(row.record, row.until, INFINITY, -row.n)]
        else:
            changed.append(row)
    return changed


class Always(random.Random):
    """Every state is made small after every step."""

    def random(self) -> float:
        return 0.0


def inputs_and_bounds(seed: int) -> tuple[dict[str, list[ChangeRow]], list[int]]:
    rng = random.Random(seed)
    inputs = random_inputs(rng)
    inputs |= {name: updated(rng, inputs[name]) for name in ("t", "nrr")}
    steps = sorted(rng.randrange(-2, DOMAIN.stop) for _ in range(rng.choice([0, 3, 8, 15])))
    return inputs, [*steps, DOMAIN.stop + 50]


def check(plan: N.Node, seed: int, strategy: str, in_stages: bool) -> None:
    inputs, bounds = inputs_and_bounds(seed)
    physical = lower(plan, strategy)
    alone = Pipeline(physical, Always())
    staged = StagedPipeline({"v": physical}, random.Random(seed), partitions=1 + seed % 3)
    emitted: list[ChangeRow] = []
    b0 = BEFORE_ALL
    for number, b1 in enumerate(bounds):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        slice_ = Slice(b0, b1, first=number == 0)
        rows = staged.step(new, slice_)["v"] if in_stages else alone.step(new, slice_)
        assert edge(plan).signed or strategy == "NT" or all(r.n > 0 for r in rows), "an unsigned edge"
        emitted += rows
        b0 = b1
    found, wanted = to_logical(emitted, DOMAIN), meaning(plan, inputs, DOMAIN)
    assert found == wanted, f"{strategy} {seed} {bounds}\n{inputs}\nfound {found}\nwanted {wanted}"


def plans(left: str) -> list[N.Node]:
    """All joins of a left side with a table, and what can stand above them."""
    found = []
    for join in JOINS.values():
        for name, above in ABOVE.items():
            plan = plan_of(above.format(join.format(left)), CATALOG)
            try:
                require_runnable(plan)
            except TemporalError:
                assert name == "rows", "only a window of rows asks how rows come"
                continue
            found.append(plan)
    return found


LEFT = {**UNSIGNED, **SIGNED}


@pytest.mark.slow
@pytest.mark.parametrize("left", LEFT)
def test_with_random_slices(left: str) -> None:
    found = plans(LEFT[left])
    assert len(found) == (24 if left in ("stream", "window", "slide", "sync", "istream", "instants") else 18)
    for number, plan in enumerate(found):
        check(plan, number, STRATEGIES[number % 3], in_stages=number % 4 == 0)
        for seed in seeds(0, 3):  # in `make fuzz` only
            check(plan, (seed + 1000) * 7 + number, STRATEGIES[seed], in_stages=seed % 2 == 0)


def kept_versions(pipeline: Pipeline) -> tuple[P.VersionJoinOperator, Frame]:
    """The kernel of ⋈NRR and the versions that it keeps."""
    found = [(k, s["versions"]) for k, s in pipeline.states.items() if isinstance(k, P.VersionJoinOperator)]
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("left", LEFT)
def test_versions_are_kept_as_long_as_they_are_needed_and_no_longer(left: str) -> None:
    """What is kept holds at an instant that can still come, and is no longer than that; the rest is gone."""
    plan = plan_of(JOINS["all"].format(LEFT[left]), CATALOG)
    for seed in seeds(3, 5):
        inputs, bounds = inputs_and_bounds(seed)
        pipeline = Pipeline(lower(plan), Always())
        b0 = BEFORE_ALL
        for number, b1 in enumerate(bounds[:-1]):
            new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
            pipeline.step(new, Slice(b0, b1, first=number == 0))
            kernel, versions = kept_versions(pipeline)
            oldest = kernel.expiry(b1)  # the least timestamp that can still come
            kept = versions.drop("_hash", strict=False).rename({"r0": "id", "r1": "name"})
            assert (kept[COPIES] > 0).all()
            assert kept.filter((pl.col(FROM) < oldest) | (pl.col(UNTIL) <= oldest)).is_empty()
            rows = [ChangeRow(r[:2], *r[2:]) for r in kept.rows()]
            instants = [t for t in DOMAIN if t >= oldest]
            known = [r for r in inputs["nrr"] if r.from_ <= b1]
            assert to_logical(rows, instants) == to_logical(known, instants)
            b0 = b1
