"""DISTINCT below a join, counted: the join keeps and emits what is different, not all rows."""

from __future__ import annotations

from pathlib import Path

from bench.paper2 import generated_links
from bench.stored_plan import PlanCounts, StoredPlan
from everview.algebra.time import SECOND
from everview.compile import compile_view
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.rewrite import RULES, Rule
from everview.sql import plan_of


def run(rules: tuple[Rule, ...], folder: Path) -> PlanCounts:
    load = generated_links(600, per_source=60)
    catalog, window = load.catalog, "[RANGE 600 SECONDS]"
    sql = f"SELECT DISTINCT l1.src FROM l1 {window} JOIN l2 {window} ON l1.src = l2.src"
    view = compile_view(plan_of(sql, catalog), catalog, rules=rules)
    stored, b0 = StoredPlan(view.physical, str(folder)), BEFORE_ALL
    for number in range(30):
        begin, end = number * load.step, (number + 1) * load.step
        b1 = end * SECOND - 1
        stored.step(load.draw(begin, end), Slice(b0, b1, first=number == 0))
        b0 = b1
        if number == 20:
            stored.counts = PlanCounts()
    return stored.counts


def test_a_join_of_what_is_different(tmp_path: Path) -> None:
    without = tuple(rule for rule in RULES if rule.__name__ != "push_distinct_below_join")
    before, after = run(without, tmp_path / "before"), run(RULES, tmp_path / "after")
    assert 20 * after.emitted <= before.emitted
    assert after.state_rows < 0.6 * before.state_rows
