"""What is said of how rows come and go holds for the rows that kernels emit, over random feeds and slices.

MON: no row ends. WKS: rows end in the order in which they begin. Unsigned: no row is taken back. And a row is
no older than `ages.py` says, and comes in the order of its time line where `arrival` says so.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, consolidate, to_logical
from everview.algebra.time import INFINITY
from everview.errors import TemporalError
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.lower import lower
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.temporal.ages import age
from everview.temporal.runnable import require_runnable
from everview.temporal.update_patterns import Pattern, arrival, edge
from tests.lanes import one_in
from tests.pipeline import Pipeline
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

CATALOG = catalog()
US = "MICROSECONDS"
TIMES = (
    "", "[RANGE 5 {US}]", "[RANGE 3 {US}]", "[RANGE 6 {US} SLIDE 4 {US}]", "[TUMBLE 4 {US}]",
    "[FIXED 5 {US}]", "[RANGE 2 {US} LAG 3 {US}]", "[RANGE 9 {US}] [RANGE 4 {US} SLIDE 3 {US}]",
    "SYNC EVERY 3 {US}", "SYNC EVERY 7 {US}", "[RANGE 4 {US}] SYNC EVERY 3 {US}",
    "[SINCE TIMESTAMP '1970-01-01 00:00:00.000004']",
)  # fmt: skip
SIDES = [f"SELECT k, ts FROM {name} {time.format(US=US)}" for time in TIMES for name in ("s", "r")]
SIDES += [
    f"SELECT k, ts FROM ISTREAM(SELECT k, ts FROM s [RANGE 6 {US} SLIDE 4 {US}])",
    f"SELECT k, ts FROM DSTREAM(SELECT k, ts FROM s [RANGE 6 {US}])",
    f"ISTREAM(SELECT k FROM s [RANGE 6 {US} SLIDE 4 {US}])",
    "SELECT k, at FROM ISTREAM(SELECT k, COUNT(*) AS n FROM s [ROWS 3] GROUP BY k)",
    f"DSTREAM(SELECT k FROM s [RANGE 6 {US}] EXCEPT ALL SELECT k FROM r)",
    f"SELECT v, at FROM RSTREAM(SELECT v FROM latest) SYNC EVERY 3 {US}",
    "SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k",
    "SELECT r.k, s.ts FROM r CROSS JOIN s",
    f"SELECT s.k, s.ts FROM s [RANGE 4 {US}] JOIN nrr ON s.k = nrr.id",
    "SELECT s.k, s.ts FROM s LEFT JOIN nrr ON s.k = nrr.id",
]
PLANS = ["{}", "SELECT * FROM ({}) [RANGE 4 {US}]", "SELECT DISTINCT * FROM ({})"]


def claims_hold(plan: N.Node, seed: int) -> None:
    """Of a plan and of all plans in it."""
    for part in {node: None for node in plan.walk() if not isinstance(node, (N.Table, N.Values))}:
        claim_holds(part, seed)


def claim_holds(plan: N.Node, seed: int) -> None:
    rng = random.Random(seed)
    inputs = random_inputs(rng)
    steps = sorted(rng.randrange(-2, DOMAIN.stop) for _ in range(rng.randrange(8)))
    pipeline = Pipeline(lower(plan), rng)
    emitted: list[ChangeRow] = []
    b0 = BEFORE_ALL
    line = plan.schema.timeline
    place = None if line is None else plan.schema.index(line)
    for number, b1 in enumerate([*steps, DOMAIN.stop + 50]):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        rows = pipeline.step(new, Slice(b0, b1, first=number == 0))
        if place is not None and age(plan).emitted < INFINITY:
            oldest = min((r.record[place] for r in consolidate(rows)), default=INFINITY)
            assert oldest > b0 - age(plan).emitted, f"a row is older than {age(plan)}: {plan}"
        emitted += rows
        b0 = b1
    flows = edge(plan)
    said = f"{flows} {seed} {plan}\n{inputs}\n{emitted}"
    if not flows.signed:
        assert all(r.n > 0 for r in emitted), said
    if flows.pattern == Pattern.MON:
        assert all(r.until == INFINITY for r in emitted), said
    if flows.pattern == Pattern.WKS and not flows.signed:
        require_order([(r.from_, r.until) for r in emitted], said)
    if arrival(plan) is not None and not flows.signed:
        require_order([(r.record[place], r.from_) for r in emitted if place is not None], said)
    if not isinstance(plan, N.Stream):
        assert to_logical(emitted, DOMAIN) == meaning(plan, inputs, DOMAIN), said


def require_order(pairs: list[tuple[int, int]], said: str) -> None:
    """Whoever is first in one column is not later in the other."""
    latest = -INFINITY
    for first in sorted({a for a, _ in pairs}):
        seconds = [b for a, b in pairs if a == first]
        assert min(seconds) >= latest, said
        latest = max(seconds)


AGES = {
    "SELECT k, ts FROM s": 0,
    f"SELECT k, ts FROM s [RANGE 5 {US}]": 0,
    f"SELECT s.k, s.ts FROM s [RANGE 5 {US}] JOIN r [RANGE 8 {US}] ON s.k = r.k": 4,
    f"SELECT s.k, r.ts FROM r [RANGE 3 {US}] JOIN s ON s.k = r.k": 2,
    f"SELECT k, ts FROM (SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k) [RANGE 6 {US}]": 5,
    f"SELECT * FROM (SELECT k, ts FROM s [RANGE 4 {US}]) [ROWS 3]": 3,
    f"SELECT k, ts, COUNT(*) AS n FROM s [RANGE 5 {US}] GROUP BY k, ts": 5,
    f"SELECT k, ts FROM DSTREAM(SELECT k, ts FROM s [RANGE 6 {US}])": 6,
    "ISTREAM(SELECT k, COUNT(*) AS n FROM s GROUP BY k)": 0,
    f"DSTREAM(SELECT k FROM s [RANGE 6 {US}])": 0,
    f"RSTREAM(SELECT k FROM s) SYNC EVERY 1 {US}": 0,
    "SELECT * FROM s [ROWS 2]": INFINITY,
    "SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k": INFINITY,
    f"SELECT s.k, s.ts FROM s JOIN r [RANGE 3 {US}] ON s.k = r.k": INFINITY,
}


@pytest.mark.parametrize("sql", one_in(4, AGES))
def test_rows_are_as_old_as_is_said(sql: str) -> None:
    """With a row of each stream at every instant, some row is as old as can be, and none is older."""
    plan = plan_of(sql, CATALOG)
    assert age(plan).emitted == AGES[sql]
    pipeline = Pipeline(lower(plan))
    line = plan.schema.timeline
    assert line is not None
    place = plan.schema.index(line)
    oldest = 0
    for t in range(30):
        new = {name: [ChangeRow((1, t, t), t, INFINITY)] for name in ("s", "r")}
        rows = consolidate(pipeline.step(new, Slice(t - 1, t, first=t == 0)))
        oldest = max([oldest, *(t - r.record[place] for r in rows)])
    assert oldest == (AGES[sql] if AGES[sql] < INFINITY else oldest)
    assert AGES[sql] < INFINITY or oldest > 1


def checked(sql: str, seed: int) -> None:
    plan = plan_of(sql, CATALOG)
    try:
        require_runnable(plan)
    except TemporalError:
        return
    claims_hold(plan, seed)


@pytest.mark.parametrize("sql", one_in(16, SIDES))
def test_streams_and_windows(sql: str) -> None:
    for seed, above in enumerate(PLANS):
        checked(f"SELECT * FROM ({above.format(sql, US=US)}) [ROWS 2]", seed)
        checked(above.format(sql, US=US), seed + 10)


@given(st.sampled_from(SIDES), st.sampled_from(SIDES), st.sampled_from(PLANS), st.integers(0, 10**6))
@settings(max_examples=settings().max_examples // 8)
def test_unions(left: str, right: str, above: str, seed: int) -> None:
    union = above.format(f"{left} UNION ALL {right}", US=US)
    checked(union, seed)
    checked(f"SELECT * FROM ({union}) [ROWS 2]", seed)


@pytest.mark.slow
def test_a_union_of_streams_with_different_points() -> None:
    """Rows of the slower side come after those of the other that are younger; no window of rows loses one."""
    side = "SELECT k, ts FROM {} {} SYNC EVERY {} {}"
    union = f"SELECT * FROM ({side.format('s', '{0}', 3, US)} UNION ALL {side.format('r', '{0}', '{1}', US)})"
    for window in ("[ROWS 2]", "[PARTITION BY k ROWS 1]"):
        equal, different = (plan_of(f"{union.format('', every)} {window}", CATALOG) for every in (3, 7))
        assert str(edge(different)) == "WK±"
        for seed in seeds(3, 8):
            for plan in (equal, different):
                require_runnable(plan)
                claims_hold(plan, seed)
    ending = plan_of(f"{union.format(f'[RANGE 9 {US}]', 7)} [ROWS 2]", CATALOG)
    with pytest.raises(TemporalError) as refused:
        require_runnable(ending)
    assert str(refused.value) == (
        "[ROWS 2] needs rows that end in the order in which they came, "
        "and those of its input may do otherwise\n"
        "  next: put the window on the stream below, or use a time window"
    )


@pytest.mark.slow
@pytest.mark.parametrize("window", ["[ROWS 1]", "[ROWS 3]", "[PARTITION BY k ROWS 2]"])
@pytest.mark.parametrize(
    "below",
    [
        "SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k",
        "SELECT r.k, s.ts FROM r CROSS JOIN s",
        "SELECT k, ts FROM ISTREAM(SELECT k, ts, COUNT(*) AS n FROM s [ROWS 3] GROUP BY k, ts)",
        f"SELECT k, ts FROM DSTREAM(SELECT k, ts FROM s [RANGE 6 {US}] UNION ALL SELECT k, ts FROM r [NOW])",
        f"SELECT k, ts FROM s SYNC EVERY 5 {US} UNION ALL SELECT k, ts FROM r",
    ],
)
def test_windows_of_rows_that_come_in_any_order(below: str, window: str) -> None:
    plan = plan_of(f"SELECT * FROM ({below}) {window}", CATALOG)
    assert arrival(plan.inputs[0]) is None
    require_runnable(plan)
    for seed in seeds(3, 5):
        claims_hold(plan, seed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_queries(case) -> None:  # type: ignore[no-untyped-def]
    for seed in seeds(2, 5):
        checked(case.sql, seed)


@pytest.mark.slow
@given(queries(), st.integers(0, 10**6))
def test_random_queries(sql: str, seed: int) -> None:
    checked(sql, seed)
