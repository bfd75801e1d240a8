"""Joins above a negation, over rows with ends or with negative tuples: the same answers, chosen by cost."""

from __future__ import annotations

import pytest

from everview.algebra import nodes as N
from everview.compile import compile_view
from everview.operators.base import Operator, stateful_operators
from everview.plan.explain import ExplainedPlan, explain_plans
from everview.plan.lower import Lowering
from everview.sql import plan_of
from everview.storage.plans import decode_plan, encode_plan
from tests.plan import test_lower
from tests.plan.measured import declared
from tests.sql.oracle import catalog

CATALOG = catalog()
W, V = "[RANGE 6 MICROSECONDS]", "[RANGE 4 MICROSECONDS]"
NEGATIONS = [
    f"SELECT k, v FROM s {W} EXCEPT ALL SELECT k, v FROM r {V}",
    f"SELECT k, v FROM s {W} EXCEPT SELECT k, v FROM r {V}",
    f"SELECT k, v FROM s {W} WHERE NOT EXISTS (SELECT 1 FROM r {V} WHERE r.k = s.k)",
    f"SELECT k, v FROM s {W} UNION ALL SELECT k, v FROM r {V}",
]
ABOVE = [
    f"SELECT a.v, q.v AS w FROM ({{}}) a JOIN r {W} AS q ON a.k = q.k",
    f"SELECT a.k, COUNT(*) AS n FROM ({{}}) a JOIN r {W} AS q ON a.k = q.k AND q.v < a.v + 2 GROUP BY a.k",
    f"SELECT DISTINCT a.v FROM ({{}}) a JOIN latest AS q ON a.k = q.k JOIN s {V} AS p ON p.v = q.v",
]


class _EveryJoin:
    def __contains__(self, node: object) -> bool:
        return True


def lower_without_ends(plan: N.Node, strategy: str) -> Operator:
    return Lowering(strategy, negative=_EveryJoin())(plan)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("sql", NEGATIONS)
def test_joins_over_rows_without_ends(sql: str, above: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_lower, "lower", lower_without_ends)
    plan = plan_of(above.format(sql), CATALOG)
    plan_of_operators = lower_without_ends(plan, "UPA")
    assert "NegativeTuples" in {o.kind for o in stateful_operators([plan_of_operators])}
    assert decode_plan(encode_plan(plan_of_operators)) == plan_of_operators
    for seed in range(2):
        test_lower.check({"v": plan}, seed)


LINKS = """
CREATE STREAM l1 (src INT, dst INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 9, distinct(src) => {0});
CREATE STREAM l2 (src INT, dst INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 9, distinct(src) => {0});
CREATE STREAM l3 (src INT, dst INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 9, distinct(src) => {0},
  distinct(dst) => 3);
"""


@pytest.mark.parametrize(
    ("sources", "kinds"),
    [(20, {"CopyCounts", "NegativeTuples", "Join"}), (20_000, {"Multiset", "Join"})],
)
def test_negative_tuples_above_a_negation_where_records_recur(sources: int, kinds: set[str]) -> None:
    """Below it, rows have ends: the operators there are those of UPA."""
    known = declared(LINKS.format(sources))
    minutes = "[RANGE 10 MINUTES]"
    sql = (
        f"SELECT a.src, l3.dst FROM (SELECT src FROM l1 {minutes} EXCEPT ALL SELECT src FROM l2 {minutes}) a"
        f" JOIN l3 {minutes} ON a.src = l3.src"
    )
    view = compile_view(sql, known)
    assert {o.kind for o in stateful_operators([view.physical])} == kinds
    explained = ExplainedPlan("view", "v", view.plan, view.rules, view.planned, choices=view.choices)
    shown = "Join above a negation: negative tuples" in str(explain_plans([explained], known))
    assert shown == ("NegativeTuples" in kinds)
