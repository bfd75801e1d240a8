"""Which technique a plan uses, by what is known of its rows; and the names of it in EXPLAIN."""

from __future__ import annotations

import pytest

from everview.catalog import Catalog
from everview.compile import CompiledView, compile_view
from everview.compile_store import compile_store
from everview.operators.base import stateful_operators
from everview.plan.explain import ExplainedPlan, explain_plans
from everview.plan.lower import lower
from everview.plan.stages import plan_stages
from everview.plan.views import KeptPlan
from everview.rewrite import FIRST_RULES
from everview.sql import bind_script, declare, plan_of
from tests.pipeline import shape
from tests.plan.measured import declared
from tests.sql.oracle import catalog

CATALOG = catalog()
EXCEPT_ALL = "SELECT {0} FROM s{1} EXCEPT ALL SELECT {0} FROM r{1}"
SYNC = "SELECT k, v FROM {} SYNC EVERY INTERVAL '4' MICROSECOND"


def add_view(known: Catalog, name: str, sql: str) -> None:
    for statement in bind_script(f"CREATE VIEW {name} AS {sql}", known):
        declare(statement, known)


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


LINKS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 10, distinct(k) => {values});
CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => {rate}, distinct(k) => {values});
"""


@pytest.mark.parametrize(
    ("values", "rate", "method", "why"),
    [
        (5, 10, "counting copies", "about 20 rows of a record, 47 % of results end early"),
        (100, 10, "profile", "about 1 rows of a record, 36 % of results end early"),  # few rows of a record
        (5, 0.1, "profile", "about 20 rows of a record, 1 % of results end early"),  # hardly any end early
        (1, 0.01, "counting copies", "about 100 rows of a record, 0 % of results end early"),
    ],
)
def test_except_all_by_rates(values: int, rate: float, method: str, why: str) -> None:
    """By the rows of a record and by how many results end early; EXPLAIN says why."""
    known = declared(LINKS.format(values=values, rate=rate))
    view = compile_view(EXCEPT_ALL.format("k", " [RANGE 10 SECONDS]"), known)
    explained = ExplainedPlan("view", "v", view.plan, view.rules, view.planned, choices=view.choices)
    assert f"EXCEPT ALL ({why}): {method}" in str(explain_plans([explained], known))
    assert f"{method}, state: " in str(explain_plans([explained], known))
    assert view.statistics is not None, "the view is planned by the same again"


def test_the_technique_stays_when_rates_change() -> None:
    known = declared(LINKS.format(values=5, rate=10))
    add_view(known, "v", EXCEPT_ALL.format("k", " [RANGE 10 SECONDS]"))
    store = compile_store(known)
    kept = {n: KeptPlan("", "", statistics=view.statistics) for n, view in store.views.items()}
    other = declared(LINKS.format(values=100, rate=10))
    add_view(other, "v", EXCEPT_ALL.format("k", " [RANGE 10 SECONDS]"))
    assert kinds(compile_store(other).views["v"]) == ["Multiset"]
    assert kinds(compile_store(other, planned_by=kept).views["v"]) == ["CopyCounts"]


def test_intersect_all_counts_copies_only_where_rows_may_be_retracted() -> None:
    """Over other rows its results have ends, and what reads it relies on that."""
    sql = "SELECT k FROM {} INTERSECT ALL SELECT k FROM r"
    assert kinds(compile_view(sql.format("s"), CATALOG)) == ["Multiset"]
    assert kinds(compile_view(sql.format("latest"), CATALOG)) == ["LatestPerKey", "CopyCounts"]


def test_sync_every_sums_where_rows_may_be_retracted() -> None:
    assert kinds(compile_view(SYNC.format("latest"), CATALOG)) == ["SyncedLatest"]
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
    first = compile_view(plan, CATALOG, rules=FIRST_RULES).physical
    assert first == lower(compile_view(plan, CATALOG, rules=FIRST_RULES).plan, "DIRECT")
    assert first != compile_view(sql, CATALOG).physical
