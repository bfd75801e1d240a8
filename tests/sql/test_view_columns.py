"""CREATE VIEW v (p, q): the names are kept in the catalog, and read back; older catalogs have none."""

from __future__ import annotations

import json

from everview.catalog import Catalog, ViewEntry
from everview.sql import bind_script, view_plan
from everview.sql import statements as S
from tests.sql.oracle import catalog


def made(sql: str) -> tuple[Catalog, ViewEntry]:
    names = catalog()
    for statement in bind_script(sql, names):
        assert isinstance(statement, S.Create)
        names.add(statement.entry, statement.replace)
    entry = statement.entry
    assert isinstance(entry, ViewEntry)
    return names, entry


def test_names_are_kept_and_read_back() -> None:
    names, entry = made("CREATE VIEW v (p, q) AS SELECT s.k, r.k FROM s JOIN r ON s.v = r.v")
    again = Catalog.from_json(names.to_json())
    assert again.get("v") == entry
    assert view_plan(entry, again).schema.names == ("p", "q")


def test_a_catalog_without_names_of_columns_is_read() -> None:
    names, entry = made("CREATE VIEW v AS SELECT k FROM s")
    body = json.loads(names.to_json())
    assert not any("column_names" in e for e in body["entries"])
    assert Catalog.from_json(json.dumps(body)).get("v") == entry


def test_the_same_view_in_other_words_is_the_same() -> None:
    same = "CREATE VIEW v (p) AS SELECT k FROM s; CREATE VIEW v (p) AS (SELECT `s`.k FROM (s))"
    assert made(same)[1] == made("CREATE VIEW v (p) AS SELECT k FROM s")[1]


def test_if_not_exists_changes_nothing() -> None:
    sql = "CREATE VIEW v AS SELECT k FROM s; CREATE {} IF NOT EXISTS v {}"
    for kind, rest in (
        ("VIEW", "AS SELECT nothing FROM nowhere"),
        ("STREAM", "(x INT, ts TIMESTAMP, TIMELINE ts)"),
        ("STREAM", "TIMELINE ts AS SELECT nothing FROM nowhere"),
        ("TABLE", "(x INT)"),
        ("TAGGED STREAM", "OVER nowhere KEY (k)"),
    ):
        assert made(sql.format(kind, rest))[1].sql == "SELECT k FROM s"
    assert made("CREATE VIEW IF NOT EXISTS v AS SELECT v FROM s")[1].sql == "SELECT v FROM s"
