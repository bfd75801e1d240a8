"""Every rule: its fixture of titled pairs, and before ≡ after under the reference on random inputs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.explain import explain
from everview.catalog import Catalog
from everview.reference.meaning import meaning
from everview.rewrite import RULES, rewrite
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create
from tests.sql.oracle import DOMAIN, catalog, random_inputs
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

FIXTURES = Path(__file__).parent / "fixtures"
STREAMS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
"""
ORACLE = catalog()


def streams() -> Catalog:
    made = Catalog()
    for statement in bind_script(STREAMS, made):
        assert isinstance(statement, Create)
        made.add(statement.entry)
    return made


def cases(text: str) -> list[tuple[str, str, str]]:
    """(title, SQL, EXPLAIN text after the rule) of a fixture."""
    found = []
    for part in text.split("-- title: ")[1:]:
        head, _, after = part.partition("\n----\n")
        title, _, sql = head.partition("\n")
        found.append((title, sql.strip(), after.strip()))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_fixture(rule, regenerate: bool) -> None:  # type: ignore[no-untyped-def]
    path = FIXTURES / f"{rule.__name__}.sql.txt"
    known = streams()
    written = []
    for title, sql, wanted in cases(path.read_text()):
        after = explain(rewrite(plan_of(sql, known), (rule,)).plan)
        written.append(f"-- title: {title}\n{sql}\n----\n{after}\n")
        assert regenerate or after == wanted, title
    assert written
    if regenerate:
        path.write_text("\n".join(written))


def check(plan: N.Node, seed: int) -> None:
    better = rewrite(plan).plan
    assert better.schema == plan.schema
    inputs = random_inputs(random.Random(seed))
    assert meaning(better, inputs, DOMAIN) == meaning(plan, inputs, DOMAIN)
    assert rewrite(better).plan == better, "the rules do not come to rest"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_before_is_after(case) -> None:  # type: ignore[no-untyped-def]
    plan = plan_of(case.sql, ORACLE)
    check(plan, seed=len(case.sql))


@given(queries(), st.integers(0, 10**6))
@settings(max_examples=25)
def test_before_is_after_on_random_queries(sql: str, seed: int) -> None:
    check(plan_of(sql, ORACLE), seed)


def test_a_comma_join_gets_its_key() -> None:
    plan = plan_of("SELECT s.v FROM s, r WHERE s.k = r.k AND s.v > 1 AND r.v > 2", streams())
    result = rewrite(plan)
    assert result.fired == ("push_filter_below_join", "merge_filter_into_join")
    assert explain(result.plan) == (
        "Project s.v\n"
        "  Join ON s.k = r.k\n"
        "    Filter s.v > 1\n"
        "      Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)\n"
        "    Filter r.v > 2\n"
        "      Stream r (k INT, v INT, ts TIMESTAMP TIMELINE)"
    )
