"""Which technique a plan uses, by what is known of its rows; and the names of it in EXPLAIN."""

from __future__ import annotations

import pytest

from everview.compile import CompiledView, compile_plan, compile_view
from everview.operators.base import stateful_operators
from everview.plan.explain import ExplainedPlan, explain_plans
from everview.plan.lower import lower
from everview.plan.stages import plan_stages
from everview.rewrite import FIRST_RULES
from everview.sql import plan_of
from tests.pipeline import shape
from tests.sql.oracle import catalog

CATALOG = catalog()
EXCEPT_ALL = "SELECT {0} FROM s{1} EXCEPT ALL SELECT {0} FROM r{1}"
SYNC = "SELECT k, v FROM {} SYNC EVERY INTERVAL '4' MICROSECOND"


def kinds(view: CompiledView) -> list[str]:
    return [operator.kind for operator in stateful_operators([view.physical])]


@pytest.mark.parametrize(
    ("columns", "window", "kind", "method"),
    [
        ("k", "", "CopyCounts", "counting copies"),  # no row ends by itself
        ("k, ts", "", "CopyCounts", "counting copies"),
        ("k", " [RANGE 1 HOUR]", "CopyCounts", "counting copies"),  # many rows of few records
        ("k", " [RANGE 10 SECONDS]", "Multiset", "profile"),
        ("k, ts", " [RANGE 1 HOUR]", "Multiset", "profile"),  # hardly two rows of a record
    ],
)
def test_except_all(columns: str, window: str, kind: str, method: str) -> None:
    view = compile_view(EXCEPT_ALL.format(columns, window), CATALOG)
    assert kinds(view) == [kind]
    explained = ExplainedPlan("view", "v", view.plan, view.rules, view.planned)
    assert f"{method}, state: " in str(explain_plans([explained], CATALOG))


def test_intersect_all_counts_copies_only_where_rows_may_be_retracted() -> None:
    """Over other rows its results have ends, and what reads it relies on that."""
    sql = "SELECT k FROM {} INTERSECT ALL SELECT k FROM r"
    assert kinds(compile_view(sql.format("s"), CATALOG)) == ["Multiset"]
    assert kinds(compile_view(sql.format("latest"), CATALOG)) == ["LatestPerKey", "CopyCounts"]


def test_sync_every_sums_where_rows_may_be_retracted() -> None:
    assert kinds(compile_view(SYNC.format("latest"), CATALOG)) == ["LatestPerKey", "SummedSync"]
    assert kinds(compile_view(SYNC.format("s"), CATALOG)) == []


@pytest.mark.parametrize(
    "sql",
    [
        SYNC.format("latest"),
        SYNC.format("s [ROWS 2]"),
        "SELECT n FROM (SELECT COUNT(*) AS n FROM s) SYNC EVERY INTERVAL '4' MICROSECOND AS q",
    ],
)
def test_a_summed_sync_runs_where_its_rows_are(sql: str) -> None:
    stages = plan_stages({"v": compile_view(sql, CATALOG).physical})
    assert [kind for kind in shape(stages) if kind] == [[*kinds(compile_view(sql, CATALOG))]]


@pytest.mark.parametrize("sql", [EXCEPT_ALL.format("k", ""), SYNC.format("latest")])
def test_stores_without_plans_find_the_techniques_of_their_time(sql: str) -> None:
    plan = plan_of(sql, CATALOG)
    first = compile_plan(plan, CATALOG, rules=FIRST_RULES).physical
    assert first == lower(compile_plan(plan, CATALOG, rules=FIRST_RULES).plan, "DIRECT")
    assert first != compile_view(sql, CATALOG).physical
