"""EXPLAIN COST: figures at each operator, the forecast, and the choices that were made by cost."""

from __future__ import annotations

import json
import math
import re
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from everview import operators as P
from everview.catalog import Catalog, StreamEntry
from everview.compile import compile_view
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import EverviewError
from everview.explain import explain_script
from everview.plan.estimates import Estimates
from everview.plan.explain import MeasuredSize, MeasuredStore
from everview.plan.statistics import Statistics, declared_statistics
from everview.plan.views import load_no_plan
from everview.query.create import create_sql
from everview.sql import bind_script, declare
from everview.storage.manifest import Manifest
from everview.storage.statistics import measured_statistics
from everview.without_spark import explain_text, read_catalog
from tests.lanes import one_in
from tests.plan.measured import declared
from tests.sql.oracle import catalog as oracle_catalog
from tests.sql.queries import CASES

STREAMS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 1000, distinct(k) => 5000);
CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 20, distinct(k) => 5000);
CREATE STREAM q (v INT, ts TIMESTAMP, TIMELINE ts) WITH (rate => 5);
"""
COUNTS = "SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k"
PAIRS = (
    "SELECT s.v AS sv, q.v FROM s [RANGE 1 MINUTE], r [RANGE 1 HOUR], q [RANGE 10 SECONDS]"
    " WHERE s.k = r.k AND q.v = r.v"
)
FORECAST = "forecast: at 1,000 rows/s of s it keeps about 65,000 rows, 2.34 MB, and emits about 3,650 rows/s"


def test_the_plain_plan_has_a_forecast_where_rates_are_declared() -> None:
    assert str(explain_script(STREAMS + COUNTS)).splitlines()[-1] == FORECAST
    undeclared = STREAMS.replace(" WITH (rate => 1000, distinct(k) => 5000)", "")
    assert "rows/s" not in str(explain_script(undeclared + COUNTS))


def test_figures_stand_at_every_operator_on_demand() -> None:
    lines = str(explain_script(STREAMS + "EXPLAIN COST " + COUNTS)).splitlines()
    assert lines[1].endswith("· ≈ 3,650 rows/s · keeps ≈ 65,000 rows, 2.34 MB")
    assert lines[-2:] == [
        FORECAST,
        "cost: ≈ 14,300 rows/s (9,300 emitted, 1,650 probed, 1,000 written, 2,350 rewritten)",
    ]
    asked = explain_script(STREAMS + COUNTS, cost=True)
    assert asked.text().splitlines() == lines
    aggregate = json.loads(asked.json())["operators"][1]
    assert round(aggregate["figures"]["state_rows"]) == 65_000
    assert "keeps ≈ 65,000 rows" in asked.svg()
    assert "forecast: at 1,000 rows/s of s" in asked.svg()


def test_rejected_join_orders_are_shown_with_their_cost() -> None:
    explained = explain_script(STREAMS + PAIRS, cost=True)
    lines = str(explained).splitlines()[-3:]
    assert [line.split(",")[0] for line in lines] == [
        "join order: (r ⋈ q) ⋈ s",
        "  rejected: (r ⋈ s) ⋈ q",
        "  rejected: r ⋈ (s ⋈ q)",
    ]
    (choice,) = json.loads(explained.json())["parts"][-1]["choices"]
    assert choice["chosen"]["cost"] < choice["rejected"][0]["cost"] < choice["rejected"][1]["cost"]
    assert "choices" not in json.loads(explain_script(STREAMS + COUNTS).json())["parts"][0]


def test_a_store_that_has_run_has_measured_figures_beside_them() -> None:
    catalog = declared(STREAMS)
    (aggregate,) = [o for o in all_operators(compile_view(COUNTS, catalog).physical) if o.kind == "Aggregate"]
    known = declared_statistics(catalog)
    faster = replace(known.relations["s"], rate=2000.0, known="measured")
    kept = {aggregate.name.casefold(): MeasuredSize(66_000, 3_000_000)}
    measured = MeasuredStore(Statistics({**known.relations, "s": faster}), kept)
    lines = str(explain_script(COUNTS, catalog, cost=True, measured=measured)).splitlines()
    assert lines[1].endswith("keeps ≈ 125,000 rows, 4.5 MB · measured 66,000 rows, 3 MB")
    assert "at 2,000 rows/s of s (measured) it keeps" in lines[-2]


def test_a_store_is_measured_without_spark(tmp_path: Path) -> None:
    """Also one that was written before statistics were kept."""
    with tarfile.open(Path(__file__).parents[1] / "stores" / "manifest-3.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    path = str(tmp_path)
    shown = explain_text("SELECT * FROM totals", read_catalog(path), cost=True, path=path)
    assert re.search(r"Aggregate .* · keeps ≈ 100 rows, 4 kB · measured \d+ rows, .*B", shown), shown
    assert "measured" not in explain_text("SELECT * FROM totals", read_catalog(path), path=path)


def test_rates_are_measured_by_the_manifest() -> None:
    catalog = declared(STREAMS)
    ran = Manifest(
        bound=100_000_000,
        present=100_000_000,
        start=0,
        newest={"s": {"ts": 100_000_000}, "q": {"ts": 50_000_000}},
        counts={"s": (50_000, 0, 0), "q": (20, 0, 0)},
        marks=((1, 20_000_000), (2, 60_000_000), (3, 100_000_000)),
    )
    found = measured_statistics(ran, catalog)
    assert (found.relations["s"].rate, found.relations["s"].known, found.step) == (500.0, "measured", 40.0)
    assert found.relations["q"] == declared_statistics(catalog).relations["q"], "too few rows to measure"
    assert measured_statistics(Manifest(), catalog) == declared_statistics(catalog)


def all_operators(plan: P.Operator) -> set[P.Operator]:
    return {plan}.union(*map(all_operators, plan.inputs))


# A plan does not flap


def with_view(catalog: Catalog, name: str, sql: str) -> None:
    for statement in bind_script(f"CREATE VIEW {name} AS {sql}", catalog):
        declare(statement, catalog)


def measured_by(rates: dict[str, float]) -> CompiledStore:
    """A store with a view, planned when these rates had been measured."""
    catalog = declared(STREAMS)
    with_view(catalog, "first", PAIRS)
    return compile_store(catalog, statistics=lambda known: rates_of(known, rates))


def rates_of(catalog: Catalog, rates: dict[str, float]) -> Statistics:
    known = declared_statistics(catalog)
    return replace(known, relations={n: replace(r, rate=rates[n]) for n, r in known.relations.items()})


THEN = {"s": 1000.0, "r": 20.0, "q": 5.0}
NOW = {"s": 0.01, "r": 20.0, "q": 5000.0}


def test_a_view_keeps_its_plan_when_the_store_measures_other_rates() -> None:
    then = measured_by(THEN)
    assert then.views["first"].compiled != measured_by(NOW).views["first"].compiled, "the rates do matter"
    kept = {"first": Manifest.from_json(Manifest(plans={"first": then.views["first"].keep()}).to_json())}
    stored = StoredViews(kept["first"].plans, {}, (), load_no_plan)
    catalog = then.catalog.copy()
    with_view(catalog, "equal", PAIRS)
    with_view(catalog, "other", PAIRS.replace("s.v AS sv", "s.k AS sv"))
    now = compile_store(catalog, None, None, stored, statistics=lambda known: rates_of(known, NOW))
    assert not now.outdated
    assert now.views["first"].physical == then.views["first"].physical
    assert now.views["equal"].physical == now.views["first"].physical, "equal views share all their state"
    assert now.views["other"].choices[0].chosen.text != now.views["first"].choices[0].chosen.text


def test_a_view_of_a_store_that_kept_no_statistics_is_planned_by_what_is_declared() -> None:
    then = measured_by(THEN)
    kept = {"first": replace(then.views["first"].keep(), statistics=None)}
    stored = StoredViews(kept, {}, (), load_no_plan)
    stores = [
        compile_store(then.catalog, None, None, stored, statistics=partial(rates_of, rates=rates))
        for rates in (THEN, NOW)
    ]
    plans = [store.views["first"] for store in stores]
    assert plans[0].compiled == plans[1].compiled
    assert not plans[1].outdated


def test_a_view_without_a_choice_keeps_no_statistics() -> None:
    catalog = declared(STREAMS)
    with_view(catalog, "v", COUNTS)
    assert compile_store(catalog).views["v"].keep().statistics is None


def test_statistics_are_rounded_and_renamed() -> None:
    rates = rates_of(declared(STREAMS), {"s": 1100.0, "r": 19.0, "q": 0.0})
    measured = {n: replace(r, known="measured") for n, r in rates.relations.items() if n != "r"}
    known = replace(rates, relations={**rates.relations, **measured}).rounded()
    assert [known.relations[n].rate for n in "srq"] == [1024.0, 19.0, 0.0], "r is not measured"
    assert known.renamed({"S": "T"}).relations["t"] == known.relations["s"]


# The figures of any query


@pytest.mark.parametrize("case", one_in(20, CASES, lambda c: c.sql))
def test_estimates_of_any_query_are_numbers(case) -> None:  # type: ignore[no-untyped-def]
    catalog = oracle_catalog()
    estimates = Estimates(declared_statistics(catalog))
    for operator in all_operators(compile_view(case.sql, catalog).physical):
        found = estimates(operator)
        for number in (found.flow.rate, found.flow.events, found.work.total, found.state_rows):
            assert math.isfinite(number), operator.kind
            assert number >= 0, operator.kind


# What is declared


def test_what_is_declared_of_a_stream_is_kept_and_shown() -> None:
    catalog = declared(STREAMS)
    entry = catalog.get("s")
    assert isinstance(entry, StreamEntry)
    assert (entry.expected.rate, entry.expected.distinct) == (1000.0, (("k", 5000),))
    assert create_sql(entry, catalog.clock_grain).endswith(")\nWITH (rate => 1000, distinct(k) => 5000);")
    again = declared(create_sql(entry, catalog.clock_grain))
    assert again.get("s") == entry
    assert Catalog.from_json(catalog.to_json()).get("s") == entry


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("rte => 5", "a stream has no option 'rte'"),
        ("rate => 'fast'", "rate is a number above 0"),
        ("rate => 0", "rate is a number above 0"),
        ("rate => 1, rate => 2", "the option 'rate' stands twice"),
        ("distinct => 2", "distinct needs a column"),
        ("distinct(x) => 2", "no column 'x'"),
        ("distinct(k) => 2, distinct(K) => 3", "distinct(k) stands twice"),
        ("5", "options are written as name => value"),
    ],
)
def test_what_cannot_be_declared(options: str, error: str) -> None:
    with pytest.raises(EverviewError) as refused:
        declared(f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) WITH ({options})")
    assert error in str(refused.value)
