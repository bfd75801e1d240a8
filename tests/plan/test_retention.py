"""What operators keep and for how long, judged by the kernels' own rows and state."""

from __future__ import annotations

import inspect
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, to_pairs
from everview.algebra.expressions import TRUE, Comparison
from everview.algebra.time import DAY, HOUR, INFINITY, MILLISECOND, MINUTE, SECOND, WEEK, Grid, length_text
from everview.algebra.windows import Band, Fixed, Range, Rows, tumble
from everview.errors import TemporalError
from everview.execute.program import policy_of
from everview.operators import StatePart
from everview.operators.columnar.frame import BEFORE_ALL, UNTIL, Frame, Slice, drop_ended
from everview.plan.explain.retention import growing_state, state_of
from everview.plan.lower import Lowering, lower
from everview.plan.planned import PlannedNodes
from everview.sql import plan_of
from everview.temporal.life import is_known, life
from everview.temporal.runnable import require_runnable
from tests.lanes import one_in
from tests.pipeline import Pipeline
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES as QUERIES
from tests.sql.random_sql import queries
from tests.streams import NRR, Q, R, S, T, keep

CATALOG = catalog()


def keeping(node: N.Node) -> tuple[StatePart, ...]:
    """What the physical operators of a node keep."""
    return state_of(PlannedNodes(Lowering("UPA")).own_operators(node))


def grows(plan: N.Node) -> tuple[str, ...]:
    return growing_state(plan, PlannedNodes(Lowering("UPA")))


W = N.Window(S, Range(10 * SECOND))
V = N.Window(R, Range(10 * SECOND))
MINUTES = N.Window(R, Range(MINUTE))
SINCE = N.Window(S, Band(5))
BETWEEN = N.Window(S, Band(5, 9))
TAGGED = N.Tagged(S, ("k",))
SAME = Comparison("=", S.column("k"), R.column("k"))
LESS = Comparison("<", S.column("k"), R.column("k"))
POINTS = keep(Q, "ts")


def aggregate(node: N.Node, *calls: AggregateCall, by: str | None = "k") -> N.Aggregate:
    keys = () if by is None else ((by, node.column(by)),)
    return N.Aggregate(node, keys, tuple((f"c{i}", call) for i, call in enumerate(calls)))


COUNT = AggregateCall("count")
DIFFERENT = AggregateCall("count", S.column("v"), distinct=True)
GREATEST = AggregateCall("max", S.column("v"))
GROUPED = aggregate(W, COUNT)
LONELY = N.AntiJoin(S, R, SAME)
PAIRS = N.Join(W, V)

CASES: list[tuple[N.Node, list[str]]] = [
    (S, []),
    (T, []),
    (N.Values(S.columns, ()), []),
    (N.View("v", W), []),
    (N.Alias(W, "a"), []),
    (N.Filter(W, TRUE), []),
    (keep(W, "k"), []),
    (N.GroupMember(W, S.column("k"), 1), []),
    (N.Coalesce(W), []),
    (N.Split(W, 2), []),
    (N.Synchronize(W, Grid(MINUTE)), []),
    (N.Union(W, V), []),
    (W, []),
    (N.Window(S, Rows(1)), ["the last row, until pushed out"]),
    (N.Window(S, Rows(3, ("k", "v"))), ["the last 3 rows per k, v, until pushed out"]),
    (N.Window(W, Rows(3)), ["the last 3 rows, 10 s"]),
    (TAGGED, ["the latest row per k, until replaced"]),
    (N.SynchronizeOn(W, POINTS), ["changes that wait, until the next point"]),
    (N.IStream(S), []),
    (N.IStream(W), ["begins and ends to come, 10 s"]),
    (N.DStream(N.Union(S, W)), ["begins and ends to come, 10 s"]),
    (N.RStream(W, Grid(MINUTE)), ["the relation, 10 s"]),
    (N.Join(W, V), ["both inputs, 10 s"]),
    (N.Join(W, MINUTES), ["left input, 10 s", "right input, 1 min"]),
    (N.Join(S, MINUTES), ["left input, for ever", "right input, 1 min"]),
    (N.Join(TAGGED, V), ["left input, until retracted", "right input, 10 s"]),
    (N.Join(PAIRS, N.Alias(V, "w")), ["left input, 10 s, in expiry buckets", "right input, 10 s"]),
    (N.SemiJoin(W, V, SAME), ["left input, 10 s", "keys of the right input, 10 s"]),
    (
        N.SemiJoin(W, V, LESS),
        ["both inputs, 10 s", "matched rows, 10 s"],
    ),
    (N.AntiJoin(W, MINUTES, SAME), ["left input, 10 s", "keys of the right input, 1 min"]),
    (
        N.OuterJoin(W, MINUTES, SAME, "LEFT"),
        ["left input, 10 s", "right input, 1 min", "keys of the right input, 1 min"],
    ),
    (
        N.OuterJoin(W, MINUTES, SAME, "RIGHT"),
        ["left input, 10 s", "right input, 1 min", "keys of the left input, 10 s"],
    ),
    (
        N.OuterJoin(W, MINUTES, LESS, "FULL"),
        [
            "left input, 10 s",
            "right input, 1 min",
            "matched rows, 10 s",
        ],
    ),
    (N.TableJoin(W, T, TRUE), ["left input, 10 s", "the table, until replaced"]),
    (N.TableJoin(W, NRR, TRUE, retroactive=False), ["versions of the table, until replaced"]),
    (
        N.TableJoin(W, NRR, TRUE, retroactive=False, outer=True),
        ["versions of the table, until replaced"],
    ),
    (
        N.TableJoin(N.Join(W, V), NRR, TRUE, retroactive=False),
        ["versions of the table, until replaced and 10 s later"],
    ),
    (N.TableJoin(N.Join(S, V), NRR, TRUE, retroactive=False), ["versions of the table, for ever"]),
    (N.Difference(S, R), ["copies of each record, for ever"]),
    (N.StrictDifference(W, V), ["both inputs, 10 s"]),
    (N.Intersection(W, V), ["both inputs, 10 s"]),
    (N.MaxUnion(W, MINUTES), ["left input, 10 s", "right input, 1 min"]),
    (N.Distinct(W), ["what is covered, 10 s"]),
    (N.Distinct(S), ["what is covered, for ever"]),
    (N.Distinct(N.Difference(W, V)), ["its input, 10 s"]),
    (aggregate(S, COUNT), ["a value per group, for ever"]),
    (GROUPED, ["a value per group, 10 s", "ends to come, 10 s"]),
    (aggregate(W, COUNT, by=None), ["one value", "ends to come, 10 s"]),
    (aggregate(PAIRS, COUNT, by=None), ["one value", "ends to come, 10 s, in expiry buckets"]),
    (aggregate(TAGGED, COUNT), ["a value per group, until retracted"]),
    (
        aggregate(W, DIFFERENT, GREATEST),
        [
            "a value per group, 10 s",
            "ends to come, 10 s",
            "distinct values, 10 s",
            "rows that can still be MIN or MAX, 10 s",
        ],
    ),
    (
        aggregate(TAGGED, GREATEST),
        ["a value per group, until retracted", "all rows for MIN and MAX, until retracted"],
    ),
]


@pytest.mark.parametrize(("plan", "wanted"), CASES, ids=lambda v: type(v).__name__)
def test_keeping(plan: N.Node, wanted: list[str]) -> None:
    assert [str(part) for part in keeping(plan)] == wanted


def test_every_operator_has_a_case() -> None:
    kinds = {c for _, c in inspect.getmembers(N, inspect.isclass) if issubclass(c, N.Node)}
    assert kinds - {N.Node} == {type(plan) for plan, _ in CASES}


@pytest.mark.parametrize(
    ("plan", "lasts"),
    [
        (N.Window(S, Range(15 * MINUTE, slide=MINUTE, lag=SECOND)), 16 * MINUTE + SECOND),
        (N.Window(S, tumble(MINUTE)), 2 * MINUTE),
        (N.Window(S, Fixed(MINUTE)), MINUTE),
        (N.Window(MINUTES, Range(SECOND)), SECOND),
        (SINCE, INFINITY),
        (N.Synchronize(W, Grid(MINUTE)), MINUTE + 10 * SECOND),
        (N.Synchronize(TAGGED, Grid(MINUTE)), None),
        (N.SynchronizeOn(W, POINTS), None),
        (N.Join(S, V), 10 * SECOND),
        (N.Join(R, TAGGED), None),
        (N.OuterJoin(W, MINUTES, SAME, "LEFT"), 10 * SECOND),
        (N.OuterJoin(W, MINUTES, SAME, "FULL"), MINUTE),
        (N.Union(W, TAGGED), None),
        (N.Union(S, TAGGED), INFINITY),
        (N.TableJoin(S, T, TRUE), None),
        (N.TableJoin(S, T, TRUE, outer=True), INFINITY),
        (N.Difference(S, R), None),
        (N.Difference(W, R), 10 * SECOND),
        (GROUPED, None),
    ],
    ids=str,
)
def test_how_long_rows_last(plan: N.Node, lasts: int | None) -> None:
    assert life(plan).lasts == lasts


def test_lengths_are_said_in_the_largest_unit_that_fits() -> None:
    lengths = [WEEK, 3 * DAY, HOUR, 90 * MINUTE, 15 * SECOND, 20 * MILLISECOND, 7]
    assert list(map(length_text, lengths)) == ["1 wk", "3 d", "1 h", "90 min", "15 s", "20 ms", "7 µs"]


# As the kernels have it


def run_step_by_step(plan: N.Node, seed: int) -> None:
    """No row that is emitted, and none that is kept, ends later than was said of it."""
    rng = random.Random(seed)
    inputs = random_inputs(rng)
    for table in ("t", "nrr"):  # a table does not know when its rows will go
        inputs[table] = to_pairs(inputs[table])
    said = [part.lasts for node in plan.walk() for part in keeping(node)]
    longest = max((INFINITY if length is None else length for length in said), default=0)
    pipeline = Pipeline(lower(plan), rng)
    b0 = BEFORE_ALL
    for b1 in range(1, DOMAIN.stop, 3):
        emitted = pipeline.step(between(inputs, b0, b1), Slice(b0, b1, first=b0 == BEFORE_ALL))
        ends = [row.until for row in emitted]
        lives = life(plan)
        if lives.lasts is not None and is_known(lives.lasts):
            assert max(ends, default=0) <= b1 + lives.lasts
        assert max((end for end in ends if end < INFINITY), default=0) <= b1 + lives.ends
        if longest < INFINITY:
            kept = [
                rows[UNTIL].max() for name, rows in small(pipeline, b1) if name not in VALUES and rows.height
            ]
            assert all(isinstance(end, int) and end <= b1 + longest for end in kept)
        b0 = b1
    if longest < INFINITY:  # and when all has ended, nothing is left
        pipeline.step(between({}, 0, 0), Slice(b0, DOMAIN.stop + longest))
        assert all(rows.is_empty() for _, rows in small(pipeline, DOMAIN.stop + longest))


# Values and counts have no end of their own: they cancel when the last of their rows has ended.
VALUES = {"sums", *(f"distinct{i}" for i in range(9))}


def between(inputs: dict[str, list[ChangeRow]], b0: int, b1: int) -> dict[str, list[ChangeRow]]:
    return {name: [row for row in rows if b0 < row.from_ <= b1] for name, rows in inputs.items()}


def small(pipeline: Pipeline, bound: int) -> list[tuple[str, Frame]]:
    """The state of all kernels, made as small as it can be."""
    return [
        (name, node.compact(name, drop_ended(rows, bound), bound))
        for node, parts in pipeline.states.items()
        for name, rows in parts.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", QUERIES, ids=lambda c: c.sql)
def test_queries_keep_no_row_longer_than_said(case) -> None:  # type: ignore[no-untyped-def]
    run_step_by_step(plan_of(case.sql, CATALOG), seed=len(case.sql))


@pytest.mark.slow
@given(queries(), st.integers(0, 10**6))
def test_random_queries_keep_no_row_longer_than_said(sql: str, seed: int) -> None:
    plan = plan_of(sql, CATALOG)
    try:
        require_runnable(plan)
    except TemporalError:
        return
    run_step_by_step(plan, seed)


@pytest.mark.parametrize("case", one_in(20, QUERIES, lambda c: c.sql))
def test_expiry_buckets_are_said_where_there_are_any(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, CATALOG)
    pipeline = Pipeline(lower(plan))
    pipeline.step({}, Slice(BEFORE_ALL, 0, first=True))
    laid_out = [policy_of(part) for node in pipeline.states for part in node.state]
    said = [part for node in plan.walk() for part in keeping(node)]
    assert any(part.expires_within is not None for part in said) == any(
        found.buckets is not None for found in laid_out
    )


# Growth

KEYS = keep(S, "k")
RECORDS = N.Difference(keep(S, "v"), keep(R, "v"))
GROWING: list[tuple[N.Node, str]] = [
    (N.Join(S, R, SAME), "grows without bound: Join ON s.k = r.k keeps both inputs for ever, "
     "put a window on s or r"),
    (N.Join(S, V), "grows without bound: Product keeps its left input for ever, put a window on s"),
    (N.Join(W, N.Window(R, Band(5))), "grows without bound: Product keeps its right input for ever, "
     "put a window on r"),
    (LONELY, "grows without bound: AntiJoin ON s.k = r.k keeps its left input and keys of the right input "
     "for ever, put a window on s or r"),
    (RECORDS, "grows with every distinct record: Difference keeps copies of each record for ever, "
     "put a window on s or r"),
    (N.Distinct(S), "grows without bound: Distinct keeps what is covered for ever, put a window on s"),
    (N.TableJoin(S, T, TRUE), "grows without bound: RetroactiveJoin ON TRUE keeps its left input for ever, "
     "put a window on s"),
    (aggregate(S, DIFFERENT), "grows with every distinct record: Aggregate count(DISTINCT s.v) AS c0 BY s.k "
     "keeps distinct values for ever, put a window on s"),
    (aggregate(N.TableJoin(S, T, TRUE), GREATEST), "grows without bound: Aggregate max(s.v) AS c0 BY s.k "
     "keeps all rows for MIN and MAX for ever, put a window on s"),
    (aggregate(S, COUNT, by="ts"), "grows without bound: Aggregate count(*) AS c0 BY s.ts "
     "keeps a value per group for ever, put a window on s"),
    (N.RStream(S, Grid(5 * SECOND)), "grows without bound: RStream EVERY 5 SECONDS "
     "keeps the relation for ever, put a window on s"),
    (N.Distinct(N.IStream(W)), "grows without bound: Distinct keeps what is covered for ever"),
]  # fmt: skip
STEADY: list[N.Node] = [
    S,
    N.Filter(S, TRUE),
    N.Join(W, V),
    N.Join(TAGGED, V),
    N.Join(N.Window(S, Rows(3)), V),
    N.Join(BETWEEN, V),
    N.Join(W, T),
    N.TableJoin(S, NRR, TRUE, retroactive=False),
    N.Distinct(KEYS),
    aggregate(S, COUNT),
    aggregate(S, GREATEST),
    aggregate(W, DIFFERENT, GREATEST),
    N.Difference(W, V),
    N.Join(aggregate(S, COUNT), V),
]


@pytest.mark.parametrize(("plan", "said"), GROWING, ids=lambda v: type(v).__name__)
def test_what_grows_is_said(plan: N.Node, said: str) -> None:
    assert said in grows(plan)


def test_versions_for_rows_of_any_age_grow_with_every_update() -> None:
    assert grows(N.TableJoin(N.Window(S, Rows(3)), NRR, TRUE, retroactive=False)) == (
        "grows with every update of the table: "
        "NonRetroactiveJoin ON TRUE keeps versions of the table for ever",
    )
    of_any_age = N.TableJoin(N.Join(S, V), NRR, TRUE, retroactive=False)
    assert grows(of_any_age)[0] == (
        "grows with every update of the table: NonRetroactiveJoin ON TRUE keeps versions of the table "
        "for ever, put a window on s"
    )
    assert grows(N.TableJoin(N.Join(W, V), NRR, TRUE, retroactive=False)) == ()


@pytest.mark.parametrize("plan", STEADY, ids=lambda v: type(v).__name__)
def test_what_does_not_grow_is_not_said(plan: N.Node) -> None:
    assert grows(plan) == ()


def state_after(plan: N.Node, instants: int, different: int) -> int:
    """How many rows of state a plan has, made small, after a row a second of both streams."""
    inputs = {
        name: [ChangeRow((t % 3, t % different, t * SECOND), t * SECOND, INFINITY) for t in range(instants)]
        for name in ("s", "r")
    }
    pipeline = Pipeline(lower(plan))
    b0 = BEFORE_ALL
    for end in range(10, instants + 1, 10):
        b1 = end * SECOND - 1
        pipeline.step(between(inputs, b0, b1), Slice(b0, b1, first=b0 == BEFORE_ALL))
        b0 = b1
    return sum(rows.height for _, rows in small(pipeline, b0))


@pytest.mark.slow
@pytest.mark.parametrize("plan", [plan for plan, _ in GROWING], ids=lambda v: type(v).__name__)
def test_what_is_said_to_grow_does(plan: N.Node) -> None:
    """With ever new values also where only different records are kept."""
    short, long = (state_after(plan, instants, different=1000) for instants in (60, 240))
    assert long >= short + 100


@pytest.mark.slow
@pytest.mark.parametrize("plan", STEADY, ids=lambda v: type(v).__name__)
def test_what_is_not_said_to_grow_does_not(plan: N.Node) -> None:
    short, long = (state_after(plan, instants, different=7) for instants in (120, 480))
    assert long <= short + 20


def test_with_few_different_records_their_state_stays_small() -> None:
    assert state_after(RECORDS, 480, different=7) <= 14
    assert state_after(aggregate(S, DIFFERENT), 480, different=7) <= 50


def test_a_shared_operator_is_said_once() -> None:
    both = N.Join(S, R, SAME)
    assert len(grows(N.Union(both, both))) == 1
