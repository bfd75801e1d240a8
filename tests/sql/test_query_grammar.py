"""The grammar of queries: what is no part of it is refused with its place, in whole sentences."""

from __future__ import annotations

import time

import pytest

from everview.errors import EverviewError
from everview.sql import bind_script, plan_of
from everview.sql import statements as S
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
    sql = "CREATE VIEW x AS SELECT k FROM s WHERE EXISTS ((SELECT k FROM r) ORDER BY k)"
    assert said(sql).startswith("ORDER BY without LIMIT may only end an ad hoc SELECT")


@pytest.mark.parametrize(
    "query", ["SELECT 1 FROM r WHERE r.k = s.k", "WITH a AS (SELECT k FROM r) SELECT * FROM a"]
)
def test_exists_takes_any_brackets(query: str) -> None:
    plain = plan_of(f"SELECT k FROM s WHERE EXISTS ({query})", known())
    assert plan_of(f"SELECT k FROM s WHERE EXISTS ((({query})))", known()) == plain


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        (
            "SELECT * FROM (ISTREAM(SELECT k, ts FROM s) x JOIN r ON x.k = r.k)",
            "SELECT * FROM ISTREAM(SELECT k, ts FROM s) x JOIN r ON x.k = r.k",
        ),
        (
            "(SELECT k, ts FROM s) [RANGE 3 SECONDS] UNION ALL SELECT k, ts FROM r",
            "SELECT * FROM (SELECT k, ts FROM s) [RANGE 3 SECONDS] UNION ALL SELECT k, ts FROM r",
        ),
        (
            "(SELECT k, ts FROM s) SYNC EVERY INTERVAL '3' SECOND EXCEPT SELECT k, ts FROM r",
            "SELECT * FROM (SELECT k, ts FROM s) SYNC EVERY INTERVAL '3' SECOND EXCEPT SELECT k, ts FROM r",
        ),
        ("(SELECT k, ts FROM s) [RANGE 3 SECONDS]", "SELECT * FROM (SELECT k, ts FROM s) [RANGE 3 SECONDS]"),
        (
            "ISTREAM(SELECT k, ts FROM s) UNION ALL SELECT k, ts, ts FROM r",
            "(ISTREAM(SELECT k, ts FROM s)) UNION ALL SELECT k, ts, ts FROM r",
        ),
        (
            "SELECT k, ts, ts FROM r UNION ALL ISTREAM(SELECT k, ts FROM s)",
            "SELECT k, ts, ts FROM r UNION ALL (ISTREAM(SELECT k, ts FROM s))",
        ),
    ],
)
def test_queries_in_brackets_and_in_stream_functions_stand_where_queries_do(sql: str, same: str) -> None:
    assert plan_of(sql, known()) == plan_of(same, known())


AS_OF = "end an ad hoc query with AS OF TIMESTAMP '…', or join a table with FOR SYSTEM_TIME AS OF s.ts"


@pytest.mark.parametrize(
    ("sql", "at", "what", "next_step"),
    [
        ("SELECT MAX(k ORDER BY v) FROM s", "k ORDER BY v", "ORDER BY in a call is not available", None),
        ("SELECT * FROM (SELECT k FROM s) TABLESAMPLE (9 ROWS)", "9", "TABLESAMPLE is not available", None),
        ("SELECT k FROM s VERSION AS OF 1", "VERSION AS OF 1",
         "VERSION AS OF behind a relation is not available", AS_OF),
        ("SELECT k FROM s TIMESTAMP AS OF '2026'", "TIMESTAMP AS OF '2026'",
         "TIMESTAMP AS OF behind a relation is not available", AS_OF),
        ("SELECT k FROM s FOR VERSION AS OF 1", "FOR VERSION AS OF 1",
         "FOR VERSION AS OF behind a relation is not available", AS_OF),
        ("SELECT k FROM s PIVOT (SUM(k) FOR v IN (1))", "PIVOT", "PIVOT is not available",
         "aggregate with FILTER (WHERE …), once for each value"),
        ("SELECT k FROM (SELECT k, v FROM s) PIVOT (SUM(k) FOR v IN (1))", "PIVOT", "PIVOT is not available",
         "aggregate with FILTER (WHERE …), once for each value"),
        ("SELECT k FROM s x UNPIVOT (a FOR b IN (k, v))", "UNPIVOT", "UNPIVOT is not available",
         "UNION ALL one SELECT for each column"),
        ("SELECT 'a' SIMILAR TO 'b'", "'a' SIMILAR TO 'b'", "SIMILAR TO is not available", "use RLIKE"),
        ("SELECT 'a' SIMILAR TO 'b' ESCAPE '#'", "'a' SIMILAR TO 'b'", "SIMILAR TO is not available",
         "use RLIKE"),
        ("SELECT * FROM (VALUES (DEFAULT))", "(DEFAULT)",
         "DEFAULT may only stand in the VALUES of INSERT", "write the value"),
        ("SELECT k FROM s LIMIT 2147483648", "LIMIT 2147483648", "LIMIT is at most 2147483647", None),
        ("SELECT k FROM s OFFSET 2147483648", "OFFSET 2147483648", "OFFSET is at most 2147483647", None),
        ("SELECT name FROM m WHERE name LIKE ANY ()", "name LIKE ANY ()",
         "LIKE ANY and LIKE ALL take patterns in brackets", None),
        ("SELECT name FROM m WHERE name LIKE ANY ('a', 'b') ESCAPE '!'", "ANY ('a', 'b')",
         "values of ANY and ALL follow LIKE and ILIKE only, without ESCAPE",
         "use IN (…), or join conditions by OR or AND"),
        ("CREATE TABLE q (a TIMESTAMP DEFAULT now())", "now()",
         "a DEFAULT is one value for all rows, and this is another one each time",
         "write it in the VALUES of INSERT"),
    ],
)  # fmt: skip
def test_what_is_not_available_is_said_in_its_own_words(
    sql: str, at: str, what: str, next_step: str | None
) -> None:
    assert said(sql) == message(sql, at, what, next_step)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, v FROM s", "SELECT * EXCEPT (ts) FROM s", "SELECT DISTINCT v, k FROM s",
        "SELECT v, COUNT(*) FROM s GROUP BY ALL", "SELECT k, v FROM s UNION SELECT v, k FROM r",
        "(SELECT k, v FROM s)", "SELECT s.k, r.k FROM s, r", "VALUES (1, 'a')", "SELECT k + 1, v AS x FROM s",
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"])
def test_order_by_all_is_by_each_column(query: str, order: str) -> None:
    (every,) = bind_script(f"{query} ORDER BY ALL {order} LIMIT 1", known())
    (each,) = bind_script(f"{query} ORDER BY 1 {order}, 2 {order} LIMIT 1", known())
    assert every == each


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT k, v AS all FROM s ORDER BY all", "SELECT k, v AS all FROM s ORDER BY 2"),
        ("SELECT k AS x FROM (SELECT k, v AS all FROM s) ORDER BY ALL",
         "SELECT k AS x FROM (SELECT k, v AS all FROM s) AS q ORDER BY q.all"),
    ],
)  # fmt: skip
def test_a_column_that_is_called_all_comes_first(sql: str, same: str) -> None:
    one, other = (next(iter(bind_script(text, known()))) for text in (sql, same))
    assert isinstance(one, S.Select)
    assert isinstance(other, S.Select)
    (mine,), (theirs,) = one.query.parts, other.query.parts
    assert [str(key.expression) for key in mine.order] == [str(key.expression) for key in theirs.order]


@pytest.mark.parametrize("order", ["ALL, k", "k, ALL", "s.all", "ALL + 1"])
def test_all_is_no_column(order: str) -> None:
    assert said(f"SELECT k FROM s ORDER BY {order}").startswith("there is no column '")


def test_limit_all_is_no_limit() -> None:
    (statement,) = bind_script("SELECT k FROM s LIMIT ALL", known())
    assert isinstance(statement, S.Select)
    assert statement.query.parts == ()


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("name LIKE ANY ('a%', '%b')", "name LIKE 'a%' OR name LIKE '%b'"),
        ("name LIKE SOME ('a%')", "name LIKE 'a%'"),
        ("name LIKE ALL ('a%', '%b')", "name LIKE 'a%' AND name LIKE '%b'"),
        ("name NOT LIKE ANY ('a%', '%b')", "NOT name LIKE 'a%' OR NOT name LIKE '%b'"),
        ("name NOT LIKE ALL ('a%', '%b')", "NOT name LIKE 'a%' AND NOT name LIKE '%b'"),
        ("name ILIKE ANY ('A%', '%B')", "name ILIKE 'A%' OR name ILIKE '%B'"),
    ],
)
def test_like_takes_several_patterns(condition: str, same: str) -> None:
    assert plan_of(f"SELECT {condition} AS a FROM m", known()) == plan_of(
        f"SELECT {same} AS a FROM m", known()
    )


def test_a_change_has_one_present() -> None:
    """now() in INSERT, UPDATE and DELETE is the moment of the statement."""
    before = time.time_ns() // 1000
    insert, update, delete = bind_script(
        "INSERT INTO s VALUES (1, 2, now()); UPDATE t SET name = CAST(current_timestamp() AS STRING);"
        " DELETE FROM t WHERE id = year(current_date())",
        known(),
    )
    assert isinstance(insert, S.Insert)
    assert before <= insert.rows[0][2] <= time.time_ns() // 1000
    assert isinstance(update, S.Update)
    assert isinstance(delete, S.Delete)
