"""What of a wide stream crosses the exchange and is kept: the columns that are read."""

from __future__ import annotations

from everview import operators as P
from everview.catalog import Catalog
from everview.compile import compile_view
from everview.operators.base import stateful_operators
from everview.sql import bind_script, declare

WIDE = ", ".join(f"c{i} STRING" for i in range(20))


def compiled(sql: str) -> P.Operator:
    catalog = Catalog()
    for name in ("a", "b"):
        for statement in bind_script(
            f"CREATE STREAM {name} (k INT, {WIDE}, ts TIMESTAMP, TIMELINE ts)", catalog
        ):
            declare(statement, catalog)
    return compile_view(sql, catalog).physical


def test_a_join_of_22_columns_has_ports_of_two_and_one() -> None:
    sql = "SELECT a.c7 FROM a [RANGE 10 SECONDS] JOIN b [RANGE 10 SECONDS] ON a.k = b.k"
    (join,) = stateful_operators([compiled(sql)])
    assert sorted(len(side.types) for side in join.inputs) == [1, 2]


def test_rows_that_are_only_counted_have_one_column() -> None:
    sql = "SELECT COUNT(*) AS n FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.c1 < b.c2"
    join, _ = stateful_operators([compiled(sql)])
    assert [len(side.types) for side in join.inputs] == [1, 1]


def test_rows_that_are_compared_whole_keep_their_columns() -> None:
    sql = (
        "SELECT c1 FROM (SELECT * FROM a [RANGE 9 SECONDS] EXCEPT ALL SELECT * FROM b [RANGE 9 SECONDS]) AS d"
    )
    (difference,) = stateful_operators([compiled(sql)])
    assert [len(side.types) for side in difference.inputs] == [22, 22]
