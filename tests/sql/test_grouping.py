"""A column that is neither grouped nor aggregated is refused, whatever names the columns have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.errors import EverviewError
from everview.sql import plan_of
from tests.sql.oracle import known


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        (
            "SELECT `count(*)` AS a, COUNT(*) AS n FROM (SELECT k, v, COUNT(*) FROM s GROUP BY k, v)"
            " GROUP BY v > 0",
            "count(*)",
        ),
        ("SELECT `k + 1` AS a FROM (SELECT k, v AS `k + 1` FROM s) GROUP BY k + 1", "k + 1"),
        (
            "SELECT k_2 FROM (SELECT k AS a, v AS k_2 FROM s) JOIN r x ON a = x.k JOIN r y ON a = y.k"
            " GROUP BY x.k, y.k",
            "k_2",
        ),
        (
            "SELECT k FROM (SELECT k, v AS `k + 1` FROM s) GROUP BY k HAVING `k + 1` > 1",
            "k + 1",
        ),
    ],
)
def test_a_column_is_not_taken_for_one_of_the_aggregate(sql: str, column: str) -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of(sql, known())
    assert refused.value.what == f"the column '{column}' is neither grouped nor aggregated"
    assert refused.value.place is not None


def test_the_whole_message() -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of("SELECT `k + 1` FROM (SELECT k, v AS `k + 1` FROM s) GROUP BY k + 1", known())
    assert str(refused.value) == (
        "the column 'k + 1' is neither grouped nor aggregated\n"
        "  line 1, column 8\n"
        "    SELECT `k + 1` FROM (SELECT k, v AS `k + 1` FROM s) GROUP BY k + 1\n"
        "           ^^^^^^^\n"
        "  next: add `k + 1` to GROUP BY, or aggregate it: max(`k + 1`)"
    )


# Names that columns of an Aggregate have by themselves.
NAMES = ["k", "k_2", "k + 1", "v > 0", "count(*)", "max(k)", "a"]
KEYS = ["{k}", "{k} + 1", "{v} > 0", "{k} % 2"]


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=3, max_size=3, unique=True),
    key=st.sampled_from(KEYS),
    clause=st.sampled_from(["SELECT {0}, COUNT(*), MAX({1})", "SELECT COUNT(*), MAX({1}), {0} IS NULL"]),
)
def test_only_the_key_itself_is_grouped(names: list[str], key: str, clause: str) -> None:
    """Whatever the third column is called, it is not the first, the second, a count or a maximum."""
    first, second, third = (f"`{n}`" for n in names)
    over = f"(SELECT k AS {first}, v AS {second}, k * v AS {third} FROM s)"
    grouped = key.format(k=first, v=second)
    with pytest.raises(EverviewError, match="neither grouped nor aggregated"):
        plan_of(f"{clause.format(third, first)} FROM {over} GROUP BY {grouped}", known())
    plan_of(f"{clause.format(grouped, third)} FROM {over} GROUP BY {grouped}", known())
