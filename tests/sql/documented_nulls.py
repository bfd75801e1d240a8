"""The expressions of which docs/sql.md says that they give NULL, bound."""

from __future__ import annotations

import re
from pathlib import Path

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.catalog import Catalog
from everview.sql import bind_script, declare, plan_of

_PAGE = Path(__file__).parents[2] / "docs/sql.md"
_TABLE = re.compile(r"<!-- nulls -->\n(.*?)<!-- end of nulls -->", re.S)


def documented_nulls() -> dict[str, Expression]:
    """Each expression of the table, by its text."""
    found = _TABLE.search(_PAGE.read_text("utf-8"))
    assert found is not None
    examples = [line.split(" | ", 1)[1] for line in found[1].splitlines()[2:]]
    return {text: _bound(text) for row in examples for text in re.findall(r"`([^`]+)`", row)}


def _bound(text: str) -> Expression:
    catalog = Catalog()
    for statement in bind_script("CREATE STREAM s (i INT, ts TIMESTAMP, TIMELINE ts)", catalog):
        declare(statement, catalog)
    plan = plan_of(f"SELECT {text} AS x FROM s", catalog)
    assert isinstance(plan, N.Project)
    return plan.columns[0][1]
