"""The stages of a step: how many exchanges, who runs together, and by what rows are routed. No JVM."""

from __future__ import annotations

import random

import pytest

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra import types as T
from everview.algebra.expressions import Cast, Column, Comparison, Literal
from everview.errors import StoreError
from everview.execute.prepare import StepStages
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.lower import lower
from everview.plan.regions import find_region
from everview.plan.stages import Stage, plan_stages
from everview.sql import plan_of
from everview.storage.runs import Run, TraceId
from tests.lanes import one_in
from tests.pipeline import StagedPipeline, shape
from tests.plan.test_lower import check
from tests.sql.oracle import catalog, random_inputs
from tests.sql.queries import CASES

CATALOG = catalog()
S, R = "s [RANGE 5 MICROSECONDS]", "r [RANGE 9 MICROSECONDS]"


def plan(sql: str) -> P.Operator:
    return lower(plan_of(sql, CATALOG))


def staged(*sqls: str, fused: bool = True) -> tuple[Stage, ...]:
    return plan_stages({f"v{i}": plan(sql) for i, sql in enumerate(sqls)}, fused=fused)


def exchanges(found: tuple[Stage, ...]) -> int:
    return sum(stage.exchanges for stage in found)


ONE_STAGE = {
    "join": f"SELECT s.k, r.v FROM {S} JOIN {R} ON s.k = r.k",
    "group": f"SELECT k, COUNT(*) AS n FROM {S} GROUP BY k",
    "not exists": f"SELECT k, v FROM {S} WHERE NOT EXISTS (SELECT 1 FROM {R} WHERE r.k = s.k)",
    "not exists, computed": f"SELECT k FROM {S} WHERE NOT EXISTS (SELECT 1 FROM {R} WHERE r.k = s.k + 1)",
    "in": f"SELECT k, v FROM {S} WHERE k IN (SELECT k FROM {R})",
    "left join": f"SELECT s.k, r.v FROM {S} LEFT JOIN {R} ON s.k = r.k",
    "left join, filtered": f"SELECT s.k, r.v FROM {S} LEFT JOIN {R} ON s.k = r.k AND r.v > 1",
    "full join": f"SELECT s.k, r.v FROM {S} FULL JOIN {R} ON s.k = r.k",
    "except": f"SELECT k, v FROM {S} EXCEPT SELECT k, v FROM {R}",
    "except all": f"SELECT k, v FROM {S} EXCEPT ALL SELECT k, v FROM {R}",
    "intersect": f"SELECT k, v FROM {S} INTERSECT SELECT k, v FROM {R}",
    "group over join": f"SELECT s.k, COUNT(*) AS n FROM {S} JOIN {R} ON s.k = r.k GROUP BY s.k",
    "group over outer join": f"SELECT s.k, COUNT(r.v) AS n FROM {S} LEFT JOIN {R} ON s.k = r.k GROUP BY s.k",
    "group over union": f"SELECT k, SUM(v) AS n FROM (SELECT k, v FROM {S} UNION ALL SELECT k, v FROM {R})"
    " GROUP BY k",
    "distinct over union of groups": f"SELECT k, COUNT(*) AS n FROM {S} GROUP BY k"
    f" UNION SELECT k, COUNT(*) AS n FROM {R} GROUP BY k",
    "views over views": "SELECT k FROM lonely EXCEPT SELECT k FROM per_k",
    "two joins on one key": f"SELECT a.k, b.v, c.v AS w FROM {S} AS a JOIN {R} AS b ON a.k = b.k"
    f" JOIN {R} AS c ON c.k = b.k",
    "group of groups": f"SELECT k, MAX(n) AS m FROM (SELECT k, v, COUNT(*) AS n FROM {S} GROUP BY k, v)"
    " GROUP BY k",
    "tagged and grouped": "SELECT k, COUNT(*) AS n FROM latest GROUP BY k",
    "two without a key": f"SELECT MAX(n) AS m FROM (SELECT COUNT(*) AS n FROM {S}) AS c",
}


@pytest.mark.parametrize("name", ONE_STAGE)
def test_one_exchange_and_no_way_back(name: str) -> None:
    """What has one key is one stage, which writes the view itself."""
    found = staged(ONE_STAGE[name])
    assert len(found) == 1
    assert found[0].exchanges
    assert not found[0].handed_registers
    assert {view for view, _ in found[0].writes} == {"v0"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_STAGE)
def test_they_are_right(name: str) -> None:
    check({"v": plan_of(ONE_STAGE[name], CATALOG)}, seed=len(name))


def test_ten_views_over_one_join() -> None:
    """The join runs once; what is grouped by its key with it, all others together in a second stage."""
    join = f"SELECT s.k AS k, s.v AS v, r.v AS w FROM {S} JOIN {R} ON s.k = r.k"
    views = [join, f"SELECT k, COUNT(*) AS n FROM ({join}) GROUP BY k", f"SELECT DISTINCT k, v FROM ({join})"]
    views += [f"SELECT v, MAX(w) AS m{i} FROM ({join}) WHERE w > {i} GROUP BY v" for i in range(7)]
    found = staged(*views)
    assert exchanges(found) == 2
    assert shape(found)[0] == ["Join", "Aggregate", "Distinct"]
    assert shape(found)[1] == ["Aggregate"] * 7
    assert [view for view, _ in found[0].writes] == ["v0", "v1", "v2"]


def test_a_column_that_is_grouped_by_and_computed_needs_a_second_exchange() -> None:
    found = staged("SELECT * FROM summary")
    assert shape(found) == [["Aggregate"], ["Aggregate"]]
    assert found[1].ports[0].route == (), "without a key all rows are in one place"


def test_a_condition_on_pairs_goes_back_to_catalyst() -> None:
    found = staged(f"SELECT s.k, s.v, r.v AS w FROM {S} LEFT JOIN {R} ON s.k = r.k AND s.v < r.v")
    assert shape(found) == [
        ["Join", "Distinct", "Join"],
        ["Distinct", "Join"],
    ]


def test_what_catalyst_computes_last_is_written_without_an_exchange() -> None:
    found = staged(f"SELECT k, COUNT(*) + 1 AS n FROM {S} GROUP BY k", "SELECT k + 1 AS k FROM s")
    assert [stage.exchanges for stage in found] == [True, False]
    assert {view for view, _ in found[1].writes} == {"v0", "v1"}


@pytest.mark.slow
def test_no_kernel_runs_twice() -> None:
    sqls = [case.sql for case in CASES]
    found = staged(*sqls)
    kernels = [work.kernel for stage in found for work in stage.nodes if work.kernel is not None]
    wanted = stateful_operators(plan(sql) for sql in sqls)
    assert len(kernels) == len(wanted)
    assert set(kernels) == set(wanted)
    assert exchanges(found) <= 5, "however many views there are; the deepest of them alone needs 3"


def test_columns_that_nobody_reads_do_not_cross_the_exchange() -> None:
    [stage] = staged(f"SELECT k, COUNT(*) AS n, SUM(v) AS a, AVG(v) AS b FROM {S} GROUP BY k")
    [port] = stage.ports
    assert port.types == (T.INT, T.INT)


def test_both_uses_of_a_side_share_its_rows() -> None:
    [stage] = staged(f"SELECT s.k, r.v FROM {S} LEFT JOIN {R} ON s.k = r.k")
    assert len(stage.ports) == 2


def test_a_self_join_by_different_columns_has_two_ports() -> None:
    [stage] = staged(f"SELECT a.k FROM {S} AS a JOIN {S} AS b ON a.k = b.v")
    assert sorted(port.route or () for port in stage.ports) == [(0,), (1,)]
    check({"v": plan_of(f"SELECT a.k FROM {S} AS a JOIN {S} AS b ON a.k = b.v", CATALOG)}, 3)


# Routes


def scan(name: str, *types: T.DataType) -> P.ScanOperator:
    return P.ScanOperator(name, types)


def test_rows_are_routed_by_what_all_kernels_have_in_their_keys() -> None:
    join = P.JoinOperator(scan("a", T.INT, T.INT), scan("b", T.INT, T.INT), (0, 1), (0, 1))
    group = P.AggregateOperator(P.ProjectOperator(join, (join.columns[3],)), 1, (), (), True)
    found = find_region([join, group], {})
    assert found is not None
    assert found.routes == {join: (1,), group: (0,)}
    assert dict(found.ports) == {(join, 0): (1,), (join, 1): (1,)}


def test_a_widened_column_is_the_same_value() -> None:
    small, large = scan("a", T.SMALLINT), scan("b", T.BIGINT)
    left = P.DistinctOperator(small, True)
    wide = P.ProjectOperator(left, (Cast(left.columns[0], T.BIGINT),))
    join = P.JoinOperator(wide, P.DistinctOperator(large, True), (0,), (0,))
    assert shape(plan_stages({"v": join})) == [["Distinct", "Distinct", "Join"]]
    narrow = P.ProjectOperator(left, (Cast(left.columns[0], T.DOUBLE),))
    join = P.JoinOperator(narrow, P.DistinctOperator(scan("b", T.DOUBLE), True), (0,), (0,))
    assert len(plan_stages({"v": join})) == 2, "an integer and a double have different hashes"


def test_one_kernel_by_two_columns_cannot_lie_by_both() -> None:
    """Equal columns would be found by following them; but the rows lie by one of them only."""
    once = P.DistinctOperator(scan("a", T.INT, T.INT), True)
    join = P.JoinOperator(once, once, (0,), (1,))
    found = plan_stages({"v": join})
    assert exchanges(found) == 2


def test_a_constant_key_is_no_place() -> None:
    once = P.DistinctOperator(scan("a", T.INT), True)
    group = P.AggregateOperator(P.ProjectOperator(once, (Literal(1, T.INT),)), 1, (), (), True)
    assert exchanges(plan_stages({"v": group})) == 2


def test_routes_of_kernels_that_have_state_stay() -> None:
    join = P.JoinOperator(scan("a", T.INT, T.INT), scan("b", T.INT, T.INT), (0, 1), (0, 1))
    group = P.AggregateOperator(P.ProjectOperator(join, (join.columns[0],)), 1, (), (), True)
    together = plan_stages({"v": group})
    apart = plan_stages({"v": group}, {join: (0, 1)})
    assert [exchanges(s) for s in (together, apart)] == [1, 2]
    again = plan_stages({"v": group}, {join: (0,), group: (0,)})
    assert again == together


def test_state_is_found_by_its_name() -> None:
    """A view that comes later does not move what others have kept."""
    join = f"SELECT s.k AS k, s.v AS v, r.v AS w FROM {S} JOIN {R} ON s.k = r.k AND s.v = r.v"
    first, second = plan(join), plan(f"SELECT k, COUNT(*) AS n FROM ({join}) GROUP BY k")
    rng = random.Random(4)
    inputs = random_inputs(rng)
    pipeline = StagedPipeline({"v": first}, rng, 3)
    new = {name: [r for r in rows if r.from_ <= 6] for name, rows in inputs.items()}
    pipeline.step(new, Slice(BEFORE_ALL, 6, first=True))
    parts = {(trace.part, trace.route) for trace in pipeline.traces if trace.kind == "state"}
    assert parts
    assert parts <= {("left", (0, 1)), ("right", (0, 1))}
    work = StepStages.of({"v": first, "w": second}, pipeline.traces)
    assert exchanges(work.stages) == 2
    assert exchanges(StepStages.of({"v": first, "w": second}, {}).stages) == 1


def test_state_that_lies_by_different_keys_is_refused() -> None:
    join = plan(f"SELECT s.k, r.v FROM {S} JOIN {R} ON s.k = r.k")
    kernel = stateful_operators([join])[0]
    run = (Run("x", 1, 5, 5, 0, 0, 0),)
    name = kernel.name
    traces = {
        TraceId("state", name, "left", route=(0,)): run,
        TraceId("state", name, "right", route=(1,)): run,
    }
    with pytest.raises(StoreError, match="lies by different keys"):
        StepStages.of({"v": join}, traces)


@pytest.mark.slow
def test_every_key_is_a_column_of_its_input() -> None:
    for case in CASES:
        for kernel in stateful_operators([plan(case.sql)]):
            for columns in kernel.keys:
                assert all(c < len(kernel.inputs[i].types) for i, c in enumerate(columns))


def test_nodes_are_equal_by_what_they_compute() -> None:
    a = scan("a", T.INT)
    one = P.DistinctOperator(a, False, rows=(P.InputRows(lasts=5, signed=False),))
    assert one == P.DistinctOperator(scan("a", T.INT), False)
    assert one != P.DistinctOperator(a, True)
    assert one.name == P.DistinctOperator(a, False).name
    above = Comparison("=", Column("c0", T.INT), Literal(1, T.INT))
    assert P.FilterOperator(one, above) != P.FilterOperator(P.DistinctOperator(a, True), above)


# Bands

BANDS = {
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL '3' MICROSECONDS": 1,
    "r.ts BETWEEN s.ts - INTERVAL '2' MICROSECONDS AND s.ts": 1,
    "s.v < r.v": 1,
    "s.v + 1 >= r.v AND s.k <> r.k": 2,
    "s.v < r.v AND s.v + 2 > r.v": 1,
    "s.v < r.v AND r.v < s.k": 1,
    "s.v < r.v AND s.k > r.k": 2,
    "s.v < r.v AND r.k = 1": 1,
    "s.v <= CAST(r.v AS DOUBLE) AND s.v + 1 > r.v": 2,
    "s.v < r.v OR s.k = r.k": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("condition", one_in(3, BANDS))
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "LEFT ANTI JOIN"])
def test_bands(condition: str, kind: str) -> None:
    columns = "s.k, s.v" if "ANTI" in kind else "s.k, s.v, r.v AS w"
    sql = f"SELECT {columns} FROM {S} {kind} {R} ON {condition}"
    if kind == "JOIN":
        found = staged(sql)
        assert len(found) == BANDS[condition], "what a band does not cover is asked of the pairs"
        assert shape(found)[0] == ["Join" if " OR " in condition else "BandJoin"]
        assert [port.route is None for port in found[0].ports] == [False, True]
    for seed in range(3):
        check({"v": plan_of(sql, CATALOG)}, seed)


def test_a_condition_of_one_side_is_asked_before_the_exchange() -> None:
    [stage] = staged(f"SELECT s.k, r.v FROM {S} JOIN {R} ON s.k = r.k AND s.v > 1 AND r.v < 2")
    assert [type(node).__name__ for port in stage.ports for path in port.paths for node in path.through] == [
        "TimeWindowOperator", "FilterOperator", "TimeWindowOperator", "FilterOperator",
    ]  # fmt: skip


def test_views_of_nothing() -> None:
    assert plan_stages({}) == ()
    [stage] = staged("SELECT 1 AS one")
    assert not stage.exchanges
    assert isinstance(plan_of("SELECT 1 AS one", CATALOG), N.Node)
