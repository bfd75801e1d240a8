"""Computed columns of CREATE STREAM: what is bound, what is refused, and what the catalog keeps."""

from __future__ import annotations

import pytest

from everview.algebra.types import INT, TIMESTAMP
from everview.catalog import Catalog, StreamEntry
from everview.errors import EverviewError
from everview.query.create import create_sql
from everview.sql import bind_script, declare
from everview.sql.statements import Insert

CLICKS = """
CREATE STREAM clicks (usr STRING, ms BIGINT, at TIMESTAMP AS (timestamp_millis(ms)), received TIMESTAMP,
                      size INT AS length(usr), TIMELINE at, TIMELINE received ARRIVAL, CHECK (size > 1));
"""


def catalog_of(sql: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_script(sql, catalog):
        if not isinstance(statement, Insert):
            declare(statement, catalog)
    return catalog


def stream_of(catalog: Catalog) -> StreamEntry:
    entry = list(catalog)[-1]
    assert isinstance(entry, StreamEntry)
    return entry


def test_types_and_texts() -> None:
    entry = stream_of(catalog_of(CLICKS))
    assert entry.computed == (("at", "timestamp_millis(ms)"), ("size", "length(usr)"))
    assert (entry.columns.find("at").type, entry.columns.find("size").type) == (TIMESTAMP, INT)
    more = "odd AS (k % 2 = 1) NOT NULL, two AS (k + 1) * 2 NOT NULL"
    flag = stream_of(catalog_of(f"CREATE STREAM s (k INT, {more}, ts TIMESTAMP, TIMELINE ts)"))
    assert flag.computed == (("odd", "k % 2 = 1"), ("two", "(k + 1) * 2"))
    assert flag.not_null == ("odd", "two")
    plain = "CREATE STREAM s (ms BIGINT, ts {} AS {}, TIMELINE ts)"
    forms = [
        plain.format("", "timestamp_millis(ms)"),
        plain.format("TIMESTAMP", "(timestamp_millis(ms))"),
        plain.format("GENERATED ALWAYS", "(timestamp_millis(ms))"),
        plain.format("TIMESTAMP GENERATED ALWAYS", "( timestamp_millis(ms) )"),
    ]
    assert len({stream_of(catalog_of(sql)) for sql in forms}) == 1, "four spellings, one stream"


def test_the_catalog_and_show_create_have_them() -> None:
    catalog = catalog_of(CLICKS)
    entry = stream_of(catalog)
    assert stream_of(Catalog.from_json(catalog.to_json())) == entry
    assert '"format": 3' in catalog.to_json(), "an earlier release would look for the columns in files"
    assert stream_of(catalog_of(create_sql(entry, 1))) == entry


def test_values_of_insert() -> None:
    catalog = catalog_of(CLICKS)
    for values in (
        "VALUES ('ann', 5)",
        "VALUES ('ann', 5, DEFAULT, NULL, NULL)",
        "(usr, ms) VALUES ('ann', 5)",
    ):
        [insert] = bind_script(f"INSERT INTO clicks {values}", catalog)
        assert isinstance(insert, Insert)
        assert insert.rows == (("ann", 5, 5000, None, 3),)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"{CLICKS} INSERT INTO clicks (usr, ms, at) VALUES ('ann', 5, TIMESTAMP '2026-01-01')",
         "the column 'at' is computed, so no value can be given"),
        (f"{CLICKS} INSERT INTO clicks VALUES ('a', 5)", "CHECK (size > 1) of the stream 'clicks' does not"),
        ("CREATE STREAM s (ms BIGINT, ts TIMESTAMP AS (ms), TIMELINE ts)",
         "the column 'ts' is computed as BIGINT, and is declared as TIMESTAMP"),
        ("CREATE STREAM s (ms BIGINT, ts TIMESTAMP AS (timestamp_millis(ms)), d AS to_date(ts), TIMELINE ts)",
         "a computed column reads the columns that rows bring, and 'ts' is none of these"),
        ("CREATE STREAM s (k INT, d AS year(ts), ts TIMESTAMP, TIMELINE ts ARRIVAL)",
         "a computed column reads the columns that rows bring, and 'ts' is none of these"),
        ("CREATE STREAM s (k INT, n AS max(k), ts TIMESTAMP, TIMELINE ts)", "an aggregate cannot stand"),
        ("CREATE STREAM s (k INT, n AS rand(), ts TIMESTAMP, TIMELINE ts)", "rand is not a function of its"),
        ("CREATE STREAM s (k INT, n AS NULL, ts TIMESTAMP, TIMELINE ts)", "the column 'n' has no type"),
        ("CREATE STREAM s (k INT, n INT AS, ts TIMESTAMP, TIMELINE ts)", "expected an expression"),
        ("CREATE STREAM s (k INT, n INT AS (k) DEFAULT 1, ts TIMESTAMP, TIMELINE ts)", "so its DEFAULT is"),
        ("CREATE STREAM s (ts AS timestamp_millis(5), TIMELINE ts)", "all columns of the stream 's' are"),
        ("CREATE STREAM s (k INT, ts AS timestamp_millis(k), TIMELINE ts ARRIVAL)", "the clock cannot stamp"),
        ("CREATE TABLE t (k INT, l INT AS (k + 1))", "only a column of CREATE STREAM can be computed"),
    ],
)  # fmt: skip
def test_refusals(sql: str, message: str) -> None:
    with pytest.raises(EverviewError) as error:
        catalog_of(sql)
    assert message in str(error.value)
    assert "line" in str(error.value), "it has its place"
