"""Every rule: its fixture of titled pairs, and before ≡ after under the reference on random inputs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.explain import explain
from everview.catalog import Catalog
from everview.plan.estimates import flow_of_nodes
from everview.plan.statistics import declared_statistics
from everview.reference.meaning import meaning
from everview.rewrite import RULES, Costs, rewrite, rules_with_costs
from everview.rewrite.cost import Flow
from everview.rewrite.rules import Rule
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

FIXTURES = Path(__file__).parent / "fixtures"
STREAMS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k));
CREATE NON RETROACTIVE TABLE n (k INT, name STRING, PRIMARY KEY (k));
CREATE VIEW ticks AS SELECT ts FROM r;
CREATE TAGGED STREAM latest OVER s KEY (k);
CREATE TAGGED STREAM rooms OVER s KEY (k) DELETE WHEN v = 0;
CREATE STREAM measured (k INT, x DOUBLE, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM levels OVER measured KEY (k);
"""
ORACLE = catalog()


def streams() -> Catalog:
    made = Catalog()
    for statement in bind_script(STREAMS, made):
        assert isinstance(statement, Create)
        made.add(statement.entry)
    return made


@dataclass(frozen=True)
class RuleCase:
    """A case of a fixture: a query, the rules that prepare it, and its plan after the rule."""

    title: str
    prepared_by: tuple[str, ...]
    sql: str
    after: str

    @classmethod
    def parse(cls, text: str) -> RuleCase:
        head, _, after = text.partition("\n----\n")
        title, _, sql = head.partition("\n")
        prepared_by: tuple[str, ...] = ()
        if sql.startswith("-- after: "):
            names, _, sql = sql.removeprefix("-- after: ").partition("\n")
            prepared_by = tuple(names.split(", "))
        return cls(title, prepared_by, sql.strip(), after.strip())

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in RULES if rule.__name__ in self.prepared_by)

    def __str__(self) -> str:
        prepared = f"-- after: {', '.join(self.prepared_by)}\n" if self.prepared_by else ""
        return f"-- title: {self.title}\n{prepared}{self.sql}\n----\n{self.after}\n"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_fixture(rule, regenerate: bool) -> None:  # type: ignore[no-untyped-def]
    path = FIXTURES / f"{rule.__name__}.sql.txt"
    known = streams()
    written = []
    for case in map(RuleCase.parse, path.read_text().split("-- title: ")[1:]):
        prepared = rewrite(plan_of(case.sql, known), case.rules).plan
        costs = Costs(flow_of_nodes(lambda: declared_statistics(known)))
        after = explain(rewrite(prepared, rules_with_costs((rule,), costs)).plan)
        written.append(str(replace(case, after=after)))
        assert regenerate or after == case.after, case.title
    assert written
    if regenerate:
        path.write_text("\n".join(written))


def check(plan: N.Node, *seeds: int) -> N.Node:
    """Compare before and after for the inputs of each seed; return the plan after the rules."""
    better = rewrite(plan).plan
    assert better.schema == plan.schema
    for seed in seeds:
        inputs = random_inputs(random.Random(seed))
        assert meaning(better, inputs, DOMAIN) == meaning(plan, inputs, DOMAIN)
    assert rewrite(better).plan == better, "the rules do not come to rest"
    return better


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_before_is_after(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, ORACLE)
    check(plan, len(case.sql))


@given(queries(), st.integers(0, 10**6))
@settings(max_examples=settings().max_examples)
def test_before_is_after_on_random_queries(sql: str, seed: int) -> None:
    check(plan_of(sql, ORACLE), seed)


DISTINCT_JOINS = [
    "SELECT DISTINCT {c} FROM s [RANGE 6 MICROSECONDS] JOIN r [RANGE 4 MICROSECONDS]"
    " ON s.k = r.k AND s.v < r.v + 1",
    "SELECT DISTINCT {c} FROM s [RANGE 6 MICROSECONDS] JOIN r ON s.k = r.k",
    "SELECT DISTINCT {c} FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM r) AS s"
    " JOIN r [ROWS 3] ON s.v = r.v",
    "SELECT DISTINCT {c} FROM s [RANGE 6 MICROSECONDS] JOIN latest AS r ON s.k = r.k"
    " JOIN s AS q ON q.v = s.v",
]


@pytest.mark.parametrize("columns", ["s.k", "r.v, s.v", "s.k + r.v AS x", "*"])
@pytest.mark.parametrize("sql", DISTINCT_JOINS)
def test_distinct_below_joins(sql: str, columns: str) -> None:
    """Whatever it costs: DISTINCT below a join of any rows changes no answer."""

    def few_distinct(node: N.Node) -> Flow:
        rate = 0.01 if isinstance(node, N.Distinct) else 1.0
        return Flow(rate, rate, 100 * rate, 100 * rate, (10.0,) * len(node.schema))

    plan = plan_of(sql.format(c=columns), ORACLE)
    rules = rules_with_costs(RULES, Costs(few_distinct))
    better = rewrite(plan, rules)
    assert "push_distinct_below_join" in better.fired
    assert better.plan.schema == plan.schema
    assert rewrite(better.plan, rules).plan == better.plan
    for seed in range(4):
        inputs = random_inputs(random.Random(seed))
        assert meaning(better.plan, inputs, DOMAIN) == meaning(plan, inputs, DOMAIN)


NEGATIONS = [
    "SELECT s.v, r.v AS w FROM s {w} JOIN r {w} ON s.k = r.k WHERE NOT EXISTS"
    " (SELECT 1 FROM r [RANGE 2 MICROSECONDS] AS q WHERE q.v = s.v)",
    "SELECT s.v, r.v AS w FROM s {w} JOIN r {w} ON s.k = r.k WHERE r.v NOT IN"
    " (SELECT v FROM s [RANGE 2 MICROSECONDS])",
    "SELECT s.v, q.v AS w FROM s {w}, latest AS r, s {w} AS q WHERE s.k = r.k AND r.k = q.k AND NOT EXISTS"
    " (SELECT 1 FROM r [RANGE 2 MICROSECONDS] AS p WHERE p.v < q.v)",
    "SELECT s.v FROM s {w} JOIN s {w} AS r ON s.k = r.k WHERE NOT EXISTS"
    " (SELECT 1 FROM s AS p WHERE p.v = r.v AND p.k = s.k)",
]


@pytest.mark.parametrize("sql", NEGATIONS)
def test_negation_below_joins(sql: str) -> None:
    """Whatever it costs: a negation by value below a join of any rows changes no answer."""

    def many_pairs(node: N.Node) -> Flow:
        rate = 100.0 if any(isinstance(part, N.Join) for part in node.walk()) else 1.0
        return Flow(rate, rate, 100 * rate, 100 * rate, (10.0,) * len(node.schema))

    plan = plan_of(sql.format(w="[RANGE 6 MICROSECONDS]"), ORACLE)
    rules = rules_with_costs(RULES, Costs(many_pairs))
    better = rewrite(plan, rules)
    assert ("push_negation_below_join" in better.fired) == ("p.k = s.k" not in sql)
    assert better.plan.schema == plan.schema
    assert rewrite(better.plan, rules).plan == better.plan
    for seed in range(4):
        inputs = random_inputs(random.Random(seed))
        assert meaning(better.plan, inputs, DOMAIN) == meaning(plan, inputs, DOMAIN)


DEEP = "s"
for _ in range(20):
    DEEP = f"(SELECT k + k AS k FROM {DEEP} AS q)"

# Queries that a rule got wrong once, or for which the rules did not come to rest.
TRAPS = [
    # A condition on the padded side is true for padded rows, too.
    "SELECT s.v FROM s LEFT JOIN r ON s.k = r.k AND s.k = r.v WHERE r.k <=> NULL",
    "SELECT s.v, r.ts FROM s LEFT JOIN r ON s.k = r.k AND s.k = r.v WHERE r.k = 1",
    # An integer literal beside a decimal has another type than a column with that value.
    "SELECT q.d FROM (SELECT d, 3 AS c FROM m) AS q WHERE q.d / q.c > 0.4166668",
    "SELECT c, d FROM (SELECT 3 AS c, d, COUNT(*) AS n FROM m GROUP BY c, d) AS q WHERE d / c > 0.4166668",
    # 0.0 and -0.0 are equal, but not the same.
    "SELECT CAST(CASE WHEN ok THEN 0.0D ELSE -0.0D END AS STRING) AS c, 1 + 1 AS z FROM m",
    "SELECT q.x FROM (SELECT x FROM m) AS q WHERE CAST(q.x AS STRING) = '-0.0'",
    # TRUE AND x is no x where x has no type.
    "SELECT TRUE AND q.x AS y, q.x OR FALSE AS z FROM (SELECT NULL AS x FROM s) AS q",
    "SELECT REPEAT('x', 100000) AS c FROM s",
    # A row that a filter drops still replaces the previous one of its key; a condition may be NULL.
    "SELECT k, v FROM rooms WHERE v > 1 AND k IS NOT NULL AND k <> 2",
    "SELECT a.k, b.v FROM latest [RANGE 6 MICROSECONDS] AS a JOIN rooms AS b ON a.k = b.k WHERE a.v < 2",
    "SELECT k, COUNT(*) AS n FROM latest SYNC ON ticks WHERE v <> 1 OR k = 0 GROUP BY k",
    # The order of rows with equal timestamps stays that of SEQUENCE BY below a filter.
    "SELECT name, x, seq FROM m [PARTITION BY name ROWS 1] WHERE name <> 'a'",
    f"SELECT k FROM {DEEP} AS q WHERE k > 0",
    f"SELECT k FROM s WHERE {' OR '.join(f'k = {i}' for i in range(200))}",
]


@pytest.mark.slow
@pytest.mark.parametrize("sql", TRAPS, ids=lambda sql: sql[:60])
def test_traps(sql: str) -> None:
    better = check(plan_of(sql, ORACLE), *range(5))
    assert len(explain(better)) < 10_000


def test_a_comma_join_gets_its_key() -> None:
    plan = plan_of("SELECT s.v FROM s, r WHERE s.k = r.k AND s.v > 1 AND r.v > 2", streams())
    result = rewrite(plan)
    assert result.fired == (
        "push_filter_below_join", "merge_filter_into_join", "order_joins", "prune_columns"
    )  # fmt: skip
    assert explain(result.plan) == (
        "Project s.v\n"
        "  Join ON s.k = r.k\n"
        "    Project r.k\n"
        "      Filter r.v > 2\n"
        "        Stream r (k INT, v INT, ts TIMESTAMP TIMELINE)\n"
        "    Project s.k, s.v\n"
        "      Filter s.v > 1\n"
        "        Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)"
    )


@pytest.mark.parametrize("order", list(permutations(("s", "r", "s AS q"))), ids=", ".join)
def test_every_order_of_from_gives_one_plan(order: tuple[str, ...]) -> None:
    sql = "SELECT s.v, q.v AS w FROM {} WHERE s.k = q.k AND q.v = r.v AND r.k > 1"
    known = streams()
    relations = "s, r, s AS q", ", ".join(order)
    first, other = (explain(rewrite(plan_of(sql.format(r), known)).plan) for r in relations)
    assert other == first
    assert "Product" not in first
