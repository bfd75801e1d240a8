"""Brackets around a query or a relation change nothing, as in algebra; what stands behind them is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.over import Rank
from everview.algebra.text import expression_sql
from everview.errors import EverviewError
from everview.sql import bind_script, plan_of
from everview.sql import statements as S
from tests.sql.oracle import known

W = "s [RANGE 5 SECONDS]"
# Each | may be followed by an opening bracket, each ¦ before it in the text by the closing one of it.
QUERIES = [
    f"SELECT a.k, b.v FROM |{W} AS a¦ JOIN |r AS b¦ ON a.k = b.k WHERE a.v > 0",
    f"SELECT a.k FROM ||{W} AS a¦ LEFT JOIN |t¦ ON a.k = t.id¦ JOIN r ON r.k = a.k",
    "SELECT a.k FROM s AS a FULL JOIN (|r AS b JOIN |t¦ ON b.v = t.id¦) ON a.k = b.k",
    f"SELECT x.k FROM ||SELECT k FROM |{W}¦¦¦ AS x",
    f"|SELECT k FROM |{W}¦¦ UNION ALL |SELECT k FROM |r¦¦",
    "||SELECT k FROM s¦ EXCEPT |SELECT k FROM r¦¦",
    "SELECT k FROM s WHERE k IN (|SELECT k FROM |r¦ WHERE r.v = s.v¦)",
    "SELECT k FROM |s¦ WHERE |EXISTS (|SELECT 1 FROM |r¦¦)¦ AND |k > 0¦",
    "SELECT k FROM |s¦ WHERE |NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW¦",
    "SELECT k FROM |rooms SYNC EVERY INTERVAL '2' SECOND¦",
    "SELECT a FROM ||VALUES (1), (2)¦¦ AS w (a)",
    "SELECT s.k FROM |s¦ JOIN |t FOR SYSTEM_TIME AS OF s.ts¦ ON t.id = s.k",
    "|WITH c AS (|SELECT k FROM |s¦¦) SELECT k FROM |c¦¦",
]


def bracketed(marked: str, choices: list[int]) -> str:
    """The query with so many brackets at each place; a subquery or VALUES in FROM has one pair at least."""
    open_places: list[int] = []
    text, used = "", iter(choices)
    for position, sign in enumerate(marked):
        if sign == "|":
            inner, before = marked[position:].lstrip("|"), marked[:position].rstrip(" |")
            query = inner.startswith(("SELECT", "VALUES")) and not marked[position + 1 :].startswith("|")
            count = int(query and before.endswith("FROM")) + next(used, 0)
            open_places.append(count)
            text += "(" * count
        elif sign == "¦":
            text += ")" * open_places.pop()
        else:
            text += sign
    return text


@pytest.mark.parametrize("marked", QUERIES)
@given(choices=st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_brackets_change_no_plan(marked: str, choices: list[int]) -> None:
    plain = plan_of(bracketed(marked, []), known())
    text = bracketed(marked, choices)
    again = plan_of(text, known())
    assert again == plain, text
    assert again.schema == plain.schema, text


@pytest.mark.parametrize(
    ("inner", "behind"),
    [
        ("SELECT k, v, ts FROM s", "[RANGE 2 SECONDS]"),
        ("SELECT k, v, ts FROM s", "SYNC EVERY INTERVAL '2' SECOND"),
        ("SELECT k, v, ts FROM s", "AS x (a, b, c)"),
        ("s", "[ROWS 2]"),
        ("s JOIN t ON s.k = t.id", "[NOW]"),
        ("s JOIN t ON s.k = t.id", "SYNC ON ticks"),
        ("s JOIN t ON s.k = t.id", "AS j"),
    ],
)
def test_what_stands_behind_brackets_is_kept(inner: str, behind: str) -> None:
    """In brackets of its own, too; and it matters."""
    bare, one, two = (
        plan_of(f"SELECT * FROM {text}", known())
        for text in (f"({inner})", f"({inner}) {behind}", f"(({inner}) {behind})")
    )
    assert one == two
    assert one != bare


QUERIES = ["SELECT k FROM s WHERE k IN {}", "SELECT k FROM {}", "SELECT v FROM s UNION {}"]
BRACKETS = ["(SELECT k FROM s {})", "((SELECT k FROM s) {})", "(((SELECT k FROM s)) {})"]


@pytest.mark.parametrize("query", [*QUERIES, "CREATE VIEW v AS {}"])
def test_the_order_of_a_subquery_is_refused_in_any_brackets(query: str) -> None:
    for text in BRACKETS:
        with pytest.raises(EverviewError, match="may only end an ad hoc SELECT") as refused:
            list(bind_script(query.format(text.format("ORDER BY k")), known()))
        assert refused.value.place is not None


@pytest.mark.parametrize("clause", ["LIMIT 1", "OFFSET 1", "ORDER BY k DESC LIMIT 2"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_limit_of_a_subquery_is_taken_in_any_brackets(query: str, clause: str) -> None:
    one, *others = (plan_of(query.format(text.format(clause)), known()) for text in BRACKETS)
    assert any(isinstance(node, Rank) for node in one.walk())
    assert others == [one, one]


@pytest.mark.parametrize("text", ["SELECT k FROM s {}", "(SELECT k FROM s) {}", "((SELECT k FROM s) {})"])
def test_a_part_of_an_ad_hoc_query_is_taken_in_any_brackets(text: str) -> None:
    (statement,) = bind_script(text.format("ORDER BY v DESC LIMIT 2 OFFSET 1"), known())
    assert isinstance(statement, S.Select)
    (part,) = statement.query.parts
    assert (part.limit, part.offset) == (2, 1)
    assert [expression_sql(key.expression) for key in part.order] == ["v"]
    assert statement.query.names == ("k",)
