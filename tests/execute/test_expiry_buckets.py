"""What is kept, counted: by δ* no more than is covered, by MAX over counts a row of each group."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.paper2 import QUERIES, Workload, generated_links, run_query
from bench.stored_plan import StoredPlan
from everview.algebra.time import SECOND
from everview.compile import compile_view
from everview.execute import program as programs
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.sql import plan_of

NOT_EXISTS = (
    "SELECT l1.src, l1.dst FROM l1 {w} WHERE NOT EXISTS (SELECT 1 FROM l3 {w} JOIN l2 {w}"
    " ON l3.src = l2.src WHERE l3.src = l1.src AND l2.protocol = 2 AND l3.protocol = 2)"
)


def run(sql: str, load: Workload, folder: Path, steps: int, strategy: str = "UPA") -> StoredPlan:
    catalog = load.catalog
    plan = compile_view(plan_of(sql.format(w=f"[RANGE {load.window} SECONDS]"), catalog), catalog)
    stored = StoredPlan(plan.physical, str(folder))
    b0 = BEFORE_ALL
    for number in range(steps):
        begin, end = number * load.step, (number + 1) * load.step
        b1 = end * SECOND - 1
        stored.step(load.draw(begin, end), Slice(b0, b1, first=number == 0))
        b0 = b1
    return stored


def test_what_coalesces_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """δ* over pairs of a join, whose ends are scattered, and the join with its keys."""
    monkeypatch.setattr(programs, "_SMALL_RUN", 100)
    load = generated_links(400, per_source=40)
    kept = run(NOT_EXISTS, load, tmp_path, 40).traces
    by_kind = {
        (node.kind, part): sum(r.rows for r in runs) for node, p in kept.items() for part, runs in p.items()
    }
    assert by_kind["Distinct", "covered"] <= 3 * load.sources
    assert by_kind["Join", "right"] <= 3 * load.sources


def test_delta_star_keeps_a_hundredth(tmp_path: Path) -> None:
    load = generated_links(2_000)
    sql = QUERIES["2, source"].format(w="[RANGE 2000 SECONDS]")
    ours, direct = (run_query(sql, load, strategy, None)[0] for strategy in ("UPA", "DIRECT"))
    assert 100 * ours.state_rows <= direct.state_rows
    assert ours.emitted <= direct.emitted


@pytest.mark.slow
def test_the_greatest_count_keeps_each_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MAX over counts, which are retracted: rows are split at the bound, and what was retracted is gone."""
    monkeypatch.setattr(programs, "_FAN", 2)
    load = generated_links(400, per_source=40)
    sql = "SELECT MAX(n) AS most FROM (SELECT src, COUNT(*) AS n FROM l1 {w} GROUP BY src) q"
    kept = run(sql, load, tmp_path, 60).traces
    rows = [each.rows for parts in kept.values() for each in parts.get("rows", ())]
    assert sum(rows) <= 4 * load.sources
