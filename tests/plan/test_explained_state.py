"""EXPLAIN names the operators and the state that there are after a run: no more, and no less. No JVM.

A query is compiled once; the same compiled view is explained and run, in random slices with its state in
files. What EXPLAIN names is compared with the traces that ever had rows.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, to_pairs
from everview.compile import CompiledView, compile_view
from everview.errors import EverviewError
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.plan.explain import ExplainedPlan, explain_plans
from tests.lanes import one_in
from tests.pipeline import StagedPipeline
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

CATALOG = catalog()

State = set[tuple[str, str]]  # the name of an operator, and of a part of its state


def explained(view: CompiledView) -> State:
    """The operators and parts that EXPLAIN names."""
    plan = ExplainedPlan("view", "v", N.View("v", view.plan), view.rules, view.planned)
    data = json.loads(explain_plans([plan], CATALOG).json())
    named = [
        (physical["name"].casefold(), part["part"])
        for operator in data["operators"]
        for physical in operator["operators"]
        for part in physical["state"]
    ]
    assert len(named) == len(set(named)), "an operator is named twice"
    for operator in data["operators"]:
        shown = {part["what"] for part in operator["keeps"]}
        kept = {part["what"] for physical in operator["operators"] for part in physical["state"]}
        if operator["kind"] != "View":
            assert shown - {"both inputs"} == kept - ({"left input", "right input"} - shown)
            assert bool(shown) == bool(kept)
    return set(named)


def kept(view: CompiledView, seed: int) -> State:
    """The operators and parts that have rows after any step of a run."""
    rng = random.Random(seed)
    inputs = many_rows(rng)
    pipeline = StagedPipeline({"v": view.physical}, rng, rng.randrange(1, 3))
    found: State = set()
    bounds = sorted(rng.sample(range(1, DOMAIN.stop), 5))
    b0 = BEFORE_ALL
    for number, b1 in enumerate(bounds):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        pipeline.step(new, Slice(b0, b1, first=number == 0))
        found |= {
            (trace.owner, trace.part)
            for trace, runs in pipeline.traces.items()
            if trace.kind == "state" and runs
        }
        b0 = b1
    return found


def many_rows(rng: random.Random) -> dict[str, list[ChangeRow]]:
    """The rows of several small inputs: of every value some, so that something meets something."""
    found: dict[str, list[ChangeRow]] = {}
    for _ in range(6):
        for name, rows in random_inputs(rng).items():
            # A table does not know when its rows will go: they are retracted.
            found.setdefault(name, []).extend(to_pairs(rows) if name in ("t", "nrr") else rows)
    return found


@pytest.mark.parametrize("case", one_in(20, CASES, lambda c: c.sql))
def test_queries_name_what_they_keep(case) -> None:  # type: ignore[no-untyped-def]
    view = compile_view(case.sql, CATALOG)
    named, found = explained(view), set[tuple[str, str]]()
    for seed in range(12):
        found |= kept(view, seed)
        assert found <= named, f"not named: {found - named}"
        if found == named:
            return
    if "v > 99" not in case.sql:  # no row ever comes to its aggregate
        assert found == named, f"named, but empty: {named - found}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.k, r.v FROM s [RANGE 5 MICROSECONDS] LEFT JOIN r [RANGE 9 MICROSECONDS]"
        " ON s.k = r.k AND s.v > 0",
        "SELECT k FROM s [RANGE 5 MICROSECONDS] WHERE NOT EXISTS (SELECT 1 FROM r [NOW] WHERE s.v > 0)",
        "SELECT k FROM s [RANGE 5 MICROSECONDS] WHERE NOT EXISTS (SELECT 1 FROM r [NOW] WHERE s.v > r.v)",
        "SELECT k, COUNT(*) AS n FROM s SYNC EVERY INTERVAL '7' MICROSECOND GROUP BY k",
        "ISTREAM(SELECT k FROM s SYNC EVERY INTERVAL '7' MICROSECOND)",
        "ISTREAM(SELECT k FROM s)",
    ],
)
def test_conditions_of_one_side_and_rows_that_begin_later(sql: str) -> None:
    view = compile_view(sql, CATALOG)
    found = set.union(*(kept(view, seed) for seed in range(8)))
    assert found == explained(view)


@pytest.mark.slow
@settings(max_examples=60)
@given(queries(), st.integers(0, 10**6))
def test_random_queries_keep_nothing_that_is_not_named(sql: str, seed: int) -> None:
    try:
        view = compile_view(sql, CATALOG)
    except EverviewError:
        return
    assert kept(view, seed) <= explained(view)
