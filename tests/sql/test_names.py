"""Names that SQL gives, of which several may be equal, and those of the plan: the one never for the other."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow
from everview.algebra.time import INFINITY
from everview.algebra.windows import Rows
from everview.errors import EverviewError
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.sql.unparse import unparse
from tests.sql.oracle import known

ROWS = {
    name: [ChangeRow((k, v, t), t, INFINITY) for k, v, t in ((1, 7, 1), (2, 8, 2), (2, 8, 3), (1, 8, 3))]
    for name in ("s", "r")
}
NAMES = ["k", "K", "k_2", "k_2_2", "v", "v_2"]


@given(names=st.lists(st.sampled_from(NAMES), min_size=4, max_size=4), chosen=st.integers(0, 3))
def test_a_window_is_partitioned_by_the_column_of_that_name(names: list[str], chosen: int) -> None:
    """Equal to the same query with names that all differ."""
    key = names[chosen]
    assume([n.casefold() for n in names].count(key.casefold()) == 1)
    columns = ["k", "v", "k % 2", "5"]

    def query(given: list[str], by: str) -> str:
        items = ", ".join(f"{c} AS {n}" for c, n in zip(columns, given, strict=True))
        return f"SELECT * FROM (SELECT {items}, ts FROM s) [PARTITION BY {by} ROWS 1] x"

    plain = ["a", "b", "c", "d"]
    plan = plan_of(query(names, key), known())
    expected = meaning(plan_of(query(plain, plain[chosen]), known()), ROWS, range(6))
    assert meaning(plan, ROWS, range(6)) == expected
    assert plan_of(unparse(plan), known()) == plan


def test_a_window_behind_a_join_in_brackets_is_partitioned_by_the_users_name() -> None:
    plan = plan_of(
        "SELECT * FROM ((SELECT k, v AS k, ts, 5 AS k_2 FROM s) JOIN t ON TRUE) [PARTITION BY k_2 ROWS 1]",
        known(),
    )
    (window,) = (n.window for n in plan.walk() if isinstance(n, N.Window))
    assert window == Rows(1, ("k_2_2",))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM (SELECT k, v AS k, ts FROM s) [PARTITION BY k ROWS 1]",
            "the column 'k' is ambiguous\n"
            "  line 1, column 59\n"
            "    SELECT * FROM (SELECT k, v AS k, ts FROM s) [PARTITION BY k ROWS 1]\n"
            "                                                              ^\n"
            "  next: give one of them another name with AS",
        ),
        (
            "SELECT * FROM (SELECT k, v AS k, ts FROM s) [PARTITION BY k_2 ROWS 1]",
            "there is no column 'k_2'\n"
            "  line 1, column 59\n"
            "    SELECT * FROM (SELECT k, v AS k, ts FROM s) [PARTITION BY k_2 ROWS 1]\n"
            "                                                              ^^^\n"
            "  choices: k, k, ts",
        ),
        (
            "SELECT * FROM (m JOIN (s FULL JOIN r USING (k)) ON TRUE) [PARTITION BY k ROWS 1]",
            "'k' is a column of both sides of a FULL join, and no row is partitioned by that\n"
            "  line 1, column 72\n"
            "    SELECT * FROM (m JOIN (s FULL JOIN r USING (k)) ON TRUE) [PARTITION BY k ROWS 1]\n"
            "                                                                           ^\n"
            "  next: select it in a subquery and put the window behind that",
        ),
    ],
)
def test_a_key_that_no_column_has_is_refused(sql: str, message: str) -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of(sql, known())
    assert str(refused.value) == message


W = "[RANGE 5 MICROSECONDS]"
PAIR = "((SELECT k, ts FROM s) JOIN (SELECT k FROM r) ON TRUE)"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM (s _r1 JOIN r b ON _r1.k = b.k) {W} JOIN (SELECT k, v FROM s) ON TRUE",
        f"SELECT * FROM {PAIR} {W} JOIN s AS _r1 ON TRUE",
        f"SELECT * FROM {PAIR} {W} JOIN {PAIR} {W} ON TRUE",
        f"SELECT * FROM (SELECT k FROM s) JOIN {PAIR} {W} ON TRUE JOIN (r _R2) ON TRUE",
    ],
)
def test_subqueries_without_a_name_have_one_of_their_own(sql: str) -> None:
    """A name that stands nowhere in the query, in whatever brackets."""
    plan = plan_of(sql, known())
    assert plan_of(unparse(plan), known()).schema == plan.schema
    for node in plan.walk():
        names = [(f.name.casefold(), (f.relation or "").casefold()) for f in node.schema]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "relations",
    [
        "(SELECT k, ts FROM s){} JOIN (SELECT k, v FROM r){} USING (k)",
        "(SELECT k, v FROM r){} JOIN (SELECT k, ts FROM s){} USING (k)",
        "(SELECT k, ts FROM s){} JOIN (SELECT v FROM r){} ON TRUE",
    ],
)
def test_a_predicate_window_takes_a_subquery_without_a_name(relations: str) -> None:
    where = "WHERE ts > NOW - INTERVAL '3' MICROSECOND"
    named = plan_of(f"SELECT v FROM {relations.format(' a', ' b')} {where}", known())
    plain = plan_of(f"SELECT v FROM {relations.format('', '')} {where}", known())
    assert meaning(plain, ROWS, range(9)) == meaning(named, ROWS, range(9))
    assert [n.window for n in plain.walk() if isinstance(n, N.Window)] == [
        n.window for n in named.walk() if isinstance(n, N.Window)
    ]
