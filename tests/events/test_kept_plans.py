"""Event streams of a store outlive their plans: state and promises are those of the plan that is stored."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from everview import compile as compiling
from everview import operators as P
from everview.catalog import Catalog
from everview.compile import as_output
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.plan.views import KeptPlan
from everview.sql import bind_script, declare
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.clocks import Clock, StreamLine
from tests.events.properties import random_catalog

QUERY = """
CREATE STREAM o TIMELINE t0 AS SELECT x0.k, x1.ts AS t0 FROM p x0, q x1
  WHERE x1.ts BETWEEN x0.ts AND x0.ts + INTERVAL '5' MICROSECOND AND x0.k = 1
"""


def declared() -> Catalog:
    catalog = random_catalog()
    for statement in bind_script(QUERY, catalog):
        declare(statement, catalog)
    return catalog


def reopened(catalog: Catalog, plan: P.Operator) -> CompiledStore:
    """Return the store as a release compiles it that finds this plan in it."""
    stored = {plan.digest: encode_plan(plan)}
    kept = {"o": KeptPlan(plan.digest, plan.digest)}
    return compile_store(
        catalog, stored=StoredViews(kept, {}, (), lambda digest: decode_plan(stored[digest]))
    )


def test_a_plan_of_another_release_goes_on() -> None:
    """Trap 24: other rules give another plan; the one that the state belongs to is kept."""
    catalog = declared()
    with patch.object(compiling, "EVENT_RULES", ()):
        plan = compile_store(catalog).plans["o"]
    later = reopened(catalog, plan)
    assert later.views["o"].compiled.digest != plan.digest
    assert later.plans["o"] == plan
    assert set(later.outdated) == {"o"}


def test_a_promise_of_another_release_stands() -> None:
    """The bounds of the time lines belong to the plan: it may know less than an analysis would say today."""
    catalog = declared()
    today = compile_store(catalog)
    (clock,) = today.events["o"].line_clocks().values()
    assert str(clock) == "min(p.ts, q.ts)"
    output = as_output(today.plans["o"])
    careful = replace(output, lines=(P.EventWait(output.first_line, clock.less(100)),))
    found: dict[StreamLine, Clock] = reopened(catalog, careful).events["o"].line_clocks()
    assert found == {StreamLine("o", "t0"): clock.less(100)}
