"""TIMELINE … ARRIVAL, CHECK and PUNCTUATE WHEN: parsed, bound, kept in the catalog, printed again."""

from __future__ import annotations

import json

import pytest

from everview.catalog import Catalog, Lateness, StreamEntry
from everview.compile import stream_facts
from everview.errors import EverviewError
from everview.query.create import create_sql
from everview.sql import bind_script, check_conditions, declare

SQL = """CREATE STREAM clicks (
  usr STRING, kind STRING, `check` INT, b TIMESTAMP, e TIMESTAMP, received TIMESTAMP,
  TIMELINE e LATENESS INTERVAL '5' SECOND, TIMELINE received ARRIVAL,
  CHECK (usr <> ''), CHECK (b <= e AND `check` > 0)
) PUNCTUATE WHEN kind = 'heartbeat' OR usr IS NULL IDLE AFTER INTERVAL '30' SECOND"""


def catalog_of(sql: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_script(sql, catalog):
        declare(statement, catalog)
    return catalog


def clicks(catalog: Catalog) -> StreamEntry:
    entry = catalog.get("clicks")
    assert isinstance(entry, StreamEntry)
    return entry


def test_the_entry_has_them() -> None:
    entry = clicks(catalog_of(SQL))
    assert entry.timelines == (Lateness("e", 5_000_000), Lateness("received", arrival=True))
    assert entry.checks == ("usr <> ''", "b <= e AND `check` > 0")
    assert entry.punctuate == "kind = 'heartbeat' OR usr IS NULL"
    assert entry.idle_after == 30_000_000


def test_they_survive_the_catalog_and_show_create() -> None:
    catalog = catalog_of(SQL)
    assert Catalog.from_json(catalog.to_json()).get("clicks") == clicks(catalog)
    assert clicks(catalog_of(create_sql(clicks(catalog), 1))) == clicks(catalog)


def test_a_catalog_without_them_reads_as_before() -> None:
    catalog = catalog_of("CREATE STREAM clicks (e TIMESTAMP, TIMELINE e)")
    (entry,) = json.loads(catalog.to_json())["entries"]
    assert not {"checks", "punctuate"} & entry.keys()
    assert entry["timelines"] == [{"column": "e", "lateness": 0}]
    assert Catalog.from_json(catalog.to_json()).get("clicks") == clicks(catalog)


def test_a_check_is_known_to_the_analysis() -> None:
    facts = stream_facts(catalog_of(SQL))["clicks"]
    assert facts.check is not None
    assert {c.name for c in facts.check.columns()} == {"usr", "b", "e", "check"}


def test_a_new_name_stands_in_the_conditions() -> None:
    sql = """CREATE STREAM clicks (usr STRING, e TIMESTAMP, TIMELINE e, CHECK (clicks.usr <> 'clicks.usr'))
      PUNCTUATE WHEN Clicks.usr = 'end'; ALTER STREAM clicks RENAME TO `my clicks`"""
    entry = catalog_of(sql).get("my clicks")
    assert isinstance(entry, StreamEntry)
    assert entry.checks == ("`my clicks`.usr <> 'clicks.usr'",)
    assert entry.punctuate == "`my clicks`.usr = 'end'"
    assert {c.relation for e in check_conditions(entry) for c in e.columns()} == {"my clicks"}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "CREATE STREAM s (ts TIMESTAMP, TIMELINE ts ARRIVAL LATENESS INTERVAL '1' SECOND)",
            "the time line 'ts' is stamped on ARRIVAL, so no row of it is late",
        ),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts ARRIVAL ARRIVAL)", "ARRIVAL stands twice"),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts, CHECK (tz > 1))", "there is no column 'tz'"),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts, CHECK (ts))", "CHECK needs a condition"),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts, CHECK ())", "expected a condition"),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts) PUNCTUATE ts > 1", "expected WHEN"),
        ("CREATE STREAM s (ts TIMESTAMP, TIMELINE ts) PUNCTUATE WHEN ts", "PUNCTUATE WHEN needs a condition"),
        ("CREATE TABLE t (k INT, CHECK (k > 1))", "a table has no CHECK"),
    ],
)
def test_what_is_refused(sql: str, message: str) -> None:
    with pytest.raises(EverviewError) as caught:
        catalog_of(sql)
    assert message in str(caught.value)
    assert "line 1, column" in str(caught.value)
