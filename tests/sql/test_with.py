"""WITH stands before any query and changes nothing in it: what stands in and behind its brackets is kept."""

from __future__ import annotations

import pytest

from everview.errors import EverviewError
from everview.sql import bind_script, plan_of
from everview.sql import statements as S
from tests.sql.oracle import known

WITH = "WITH one AS (SELECT 1 AS x), ticked AS (SELECT ts FROM r) "
QUERIES = [
    "SELECT k FROM s",
    "SELECT k FROM s [RANGE 2 SECONDS] SYNC EVERY INTERVAL '3' SECOND",
    "(SELECT k, ts FROM s)",
    "((SELECT k, ts FROM s))",
    "(SELECT k, ts FROM s) [RANGE 2 SECONDS]",
    "((SELECT k, ts FROM s) [RANGE 2 SECONDS])",
    "(SELECT k, ts FROM s) SYNC EVERY INTERVAL '2' SECOND",
    "((SELECT k, ts FROM s) SYNC EVERY INTERVAL '2' SECOND)",
    "(SELECT k, ts FROM s) [RANGE 2 SECONDS] UNION ALL SELECT k, ts FROM r",
    "SELECT k, ts FROM r UNION ALL (SELECT k, ts FROM s) [RANGE 2 SECONDS]",
    "SELECT k FROM s EXCEPT (SELECT k FROM r INTERSECT SELECT v FROM r)",
    "VALUES (1, 'a'), (2, NULL)",
    "VALUES (1) AS w (x)",
    "(VALUES (1))",
    "VALUES (1) UNION ALL SELECT k FROM s",
    "SELECT k FROM s UNION VALUES (1)",
    "ISTREAM(SELECT k, ts FROM s)",
    "(DSTREAM(SELECT k, ts FROM s [RANGE 2 SECONDS]))",
    "RSTREAM(SELECT k FROM s) SYNC EVERY INTERVAL '2' SECOND",
    "ISTREAM(SELECT k, ts FROM s) UNION ALL SELECT k, ts, ts FROM r",
    "(WITH two AS (SELECT k FROM r) SELECT k FROM two) UNION ALL SELECT k FROM s",
]
ENDS = ["", "ORDER BY 1", "LIMIT 2", "ORDER BY 1 DESC LIMIT 2 OFFSET 1"]
AS_OF = ["", "AS OF TIMESTAMP '2026-01-01'"]


def asked(sql: str) -> object:
    (statement,) = bind_script(sql, known())
    assert isinstance(statement, S.Select)
    return statement.query


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("form", ["{}", "SELECT * FROM ({}) x", "SELECT k FROM s WHERE EXISTS ({})"])
def test_with_changes_no_plan(query: str, form: str) -> None:
    assert plan_of(form.format(WITH + query), known()) == plan_of(form.format(query), known())
    assert plan_of(form.format(f"{WITH}({query})"), known()) == plan_of(form.format(f"({query})"), known())


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("as_of", AS_OF)
def test_with_changes_no_part_of_an_answer(query: str, end: str, as_of: str) -> None:
    """ORDER BY, LIMIT, OFFSET and AS OF behind the query."""
    for text in (f"{query} {end} {as_of}", f"({query}) {end} {as_of}", f"({query} {end}) {as_of}"):
        assert asked(WITH + text) == asked(text)


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("WITH a AS (SELECT k FROM s) VALUES (1) UNION ALL SELECT * FROM a",
         "VALUES (1) UNION ALL SELECT * FROM (SELECT k FROM s) a"),
        ("WITH a AS (SELECT k, ts FROM s) (SELECT * FROM a) [RANGE 2 SECONDS]",
         "(SELECT * FROM (SELECT k, ts FROM s) a) [RANGE 2 SECONDS]"),
        ("WITH a AS (SELECT k, ts FROM s) ISTREAM(SELECT * FROM a)",
         "ISTREAM(SELECT * FROM (SELECT k, ts FROM s) a)"),
        ("WITH a AS (SELECT k FROM s) (WITH a AS (SELECT v FROM r) SELECT v FROM a)",
         "SELECT v FROM (SELECT v FROM r) a"),
        ("SELECT k FROM s WHERE EXISTS (WITH a AS (SELECT k, v FROM r) SELECT 1 FROM a WHERE a.k = s.k)",
         "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM (SELECT k, v FROM r) a WHERE a.k = s.k)"),
        ("SELECT k FROM s WHERE v NOT IN (WITH a AS (SELECT k, v FROM r) (SELECT v FROM a WHERE a.k = s.k))",
         "SELECT k FROM s WHERE v NOT IN (SELECT v FROM (SELECT k, v FROM r) a WHERE a.k = s.k)"),
    ],
)  # fmt: skip
def test_its_names_are_known(sql: str, same: str) -> None:
    assert plan_of(sql, known()) == plan_of(same, known())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
            "WITH stands before a SELECT, not before INSERT\n"
            "  line 1, column 22\n"
            "    WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a\n"
            "                         ^^^^^^\n"
            "  next: put WITH before the SELECT",
        ),
        (
            "WITH a AS (SELECT 1)",
            "expected a SELECT after WITH\n"
            "  line 1, column 21\n"
            "    WITH a AS (SELECT 1)\n"
            "                        ^",
        ),
    ],
)
def test_it_stands_before_queries_only(sql: str, message: str) -> None:
    with pytest.raises(EverviewError) as refused:
        list(bind_script(sql, known()))
    assert str(refused.value) == message
