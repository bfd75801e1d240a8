"""The grammar of queries: what is no part of it is refused with its place, in whole sentences."""

from __future__ import annotations

import pytest

from everview.errors import EverviewError
from everview.sql import bind_script, plan_of
from tests.sql.oracle import known


def said(sql: str) -> str:
    """What a person is told about a statement."""
    with pytest.raises(EverviewError) as refused:
        list(bind_script(sql, known()))
    return str(refused.value)


def message(sql: str, at: str, what: str, next_step: str | None = None) -> str:
    """A whole message about the last such words of a statement in one line."""
    start = sql.rindex(at)
    lines = [what, f"  line 1, column {start + 1}", f"    {sql}", f"    {' ' * start}{'^' * len(at)}"]
    return "\n".join(lines + ([f"  next: {next_step}"] if next_step else []))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k + 1 AS k FROM s |> WHERE k > 2",
        "SELECT DISTINCT v FROM s |> AGGREGATE COUNT(*) AS n",
        "FROM s |> SELECT 1 AS one",
        "(SELECT k FROM s) |> SELECT k",
        "SELECT * FROM (SELECT k FROM s |> SELECT k)",
        "SELECT k FROM s UNION SELECT k FROM r |> SELECT k",
        "SELECT k FROM s WHERE k IN (SELECT k FROM r |> SELECT k)",
        "VALUES (1) |> SELECT *",
        "CREATE VIEW x AS SELECT k FROM s |> WHERE k > 2",
    ],
)
def test_pipes_are_refused(sql: str) -> None:
    assert said(sql) == message(sql, "|>", "|> is not available", "write a subquery: FROM (SELECT …)")


@pytest.mark.parametrize("relation", ["s", "(SELECT k, ts FROM s)", "(s)"])
@pytest.mark.parametrize("between", [" ", " x "])
def test_sync_stands_once(relation: str, between: str) -> None:
    first, second = "SYNC EVERY INTERVAL '7' SECOND", "SYNC EVERY INTERVAL '5' SECOND"
    sql = f"SELECT * FROM {relation} {first}{between}{second}"
    assert said(sql) == message(sql, second, "SYNC stands twice", "leave one of them out")


AFTER_COMMA = "expected the name of a stream, a table or a view after this comma"


@pytest.mark.parametrize("sql", ["SELECT k FROM s,", "SELECT k FROM s, WHERE k > 1", "SELECT * FROM (s,)"])
def test_no_comma_is_dropped(sql: str) -> None:
    assert said(sql) == message(sql, ",", AFTER_COMMA)


def test_exists_has_one_query() -> None:
    sql = "SELECT k FROM s WHERE EXISTS ((SELECT k FROM r), 1)"
    assert said(sql) == message(sql, ",", AFTER_COMMA)
    sql = "CREATE VIEW x AS SELECT k FROM s WHERE EXISTS ((SELECT k FROM r) LIMIT 0)"
    assert said(sql).startswith("LIMIT may only end an ad hoc SELECT")


@pytest.mark.parametrize(
    "query", ["SELECT 1 FROM r WHERE r.k = s.k", "WITH a AS (SELECT k FROM r) SELECT * FROM a"]
)
def test_exists_takes_any_brackets(query: str) -> None:
    plain = plan_of(f"SELECT k FROM s WHERE EXISTS ({query})", known())
    assert plan_of(f"SELECT k FROM s WHERE EXISTS ((({query})))", known()) == plain
