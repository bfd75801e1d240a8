"""Result types and the handling of NULL follow Spark SQL; the tables that say so are held to Spark itself."""

from __future__ import annotations

import re

import pytest

from everview.algebra.changes import ChangeRow
from everview.algebra.time import INFINITY
from everview.catalog import Catalog
from everview.errors import EverviewError
from everview.reference.meaning import meaning, snapshot_at
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create
from tests.sql.typed import ANSWERS, COLUMNS, EXPRESSIONS, ROWS, SET_OPERATIONS, Rows, same_rows


@pytest.fixture(scope="module")
def names() -> Catalog:
    made = Catalog()
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    script = f"CREATE TABLE e ({columns});" + "".join(f"CREATE TABLE {header};" for header in ROWS)
    for statement in bind_script(script, made):
        assert isinstance(statement, Create)
        made.add(statement.entry)
    return made


def types(sql: str, names: Catalog) -> list[str]:
    return [str(t) for t in plan_of(sql, names).schema.types]


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items())
def test_expressions(expression: str, expected: str, names: Catalog) -> None:
    assert types(f"SELECT {expression} AS r FROM e", names) == [expected]


@pytest.mark.parametrize(
    "words", ["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
)
@pytest.mark.parametrize(("sides", "expected"), SET_OPERATIONS.items(), ids=str)
def test_set_operations(words: str, sides: tuple[str, str], expected: str, names: Catalog) -> None:
    there, back = (f"SELECT {a} AS r FROM e {words} SELECT {b} FROM e" for a, b in (sides, sides[::-1]))
    assert types(there, names) == types(back, names) == [expected]


@pytest.mark.parametrize(
    "expression",
    ["i + word", "ts + 1", "day * 2", "ok + 1", "word - word", "-word", "sum(word)", "sum(ok)", "ts + ts"],
)
def test_what_has_no_type_is_refused(expression: str, names: Catalog) -> None:
    """Spark would read words as numbers here; a continuous query should say so itself, with CAST."""
    with pytest.raises(EverviewError):
        plan_of(f"SELECT {expression} AS r FROM e", names)


@pytest.mark.parametrize(("sql", "expected"), ANSWERS.items())
def test_answers(sql: str, expected: Rows, names: Catalog) -> None:
    inputs = {
        re.split(r"\W", header)[0]: [ChangeRow(row, 0, INFINITY) for row in rows]
        for header, rows in ROWS.items()
    }
    found = snapshot_at(meaning(plan_of(sql, names), inputs, range(1)), 0)
    rows = [e for e, n in found.items() for _ in range(n)]
    assert same_rows(rows, expected), rows
