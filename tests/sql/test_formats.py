"""FORMAT and METADATA: what is declared, what is refused, and that the statement can be written again."""

from __future__ import annotations

import pytest

from everview.algebra.time import SECOND
from everview.catalog import Catalog, Decoding, Source, StreamEntry
from everview.errors import EverviewError
from everview.query.create import create_sql
from everview.sql import bind_script, declare

KAFKA = "kafka(kafka.bootstrap.servers => 'b:1', subscribe => 't')"


def made(sql: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_script(sql, catalog):
        declare(statement, catalog)
    return catalog


def source_of(sql: str) -> Source:
    entry = made(sql).get("s")
    assert isinstance(entry, StreamEntry)
    assert entry.source is not None
    return entry.source


@pytest.mark.parametrize("format_", ["json", "CSV", "debezium"])
def test_a_format_decodes_the_columns(format_: str) -> None:
    sql = f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM {KAFKA} FORMAT {format_}"
    found = source_of(f"{sql} IDLE AFTER INTERVAL '2' SECOND")
    assert found.decoding is not None
    assert found.decoding.format == format_.partition("(")[0].lower()


def test_metadata_and_options_are_kept() -> None:
    sql = f"""CREATE STREAM s (k INT, id STRING METADATA FROM 'key' NOT NULL, offset BIGINT METADATA,
                               trace STRING METADATA FROM 'headers.trace-id', ms BIGINT,
                               ts TIMESTAMP AS (timestamp_millis(ms)), TIMELINE ts)
              FROM {KAFKA} FORMAT json(timestampFormat => 'yyyy')"""
    catalog = made(sql)
    entry = catalog.get("s")
    assert isinstance(entry, StreamEntry)
    assert entry.source is not None
    metadata = (("id", "key"), ("offset", "offset"), ("trace", "headers.trace-id"))
    assert entry.source.decoding == Decoding("json", (("timestampFormat", "yyyy"),), metadata)
    assert ("includeHeaders", "true") in entry.source.options
    assert Catalog.from_json(catalog.to_json()) == catalog
    assert '"format": 5' in catalog.to_json(), "an earlier release would not decode the records"
    written = create_sql(entry, SECOND)
    assert "id STRING METADATA FROM 'key' NOT NULL" in written
    assert made(written).get("s") == entry


def test_a_table_has_a_format() -> None:
    catalog = made(f"CREATE TABLE s (k INT PRIMARY KEY, v STRING) FROM {KAFKA} FORMAT json")
    assert made(create_sql(catalog.get("s"), SECOND)).get("s") == catalog.get("s")


@pytest.mark.parametrize(
    ("declared", "source", "said"),
    [
        ("k INT", f"{KAFKA} FORMAT jsn", "there is no FORMAT jsn"),
        ("k INT", "csv('in') FORMAT json", "the rows of csv have columns already"),
        ("k INT", f"{KAFKA} FORMAT json(header => true)", "FORMAT json has no option 'header'"),
        ("k INT", f"{KAFKA} FORMAT json(locale => 'a', LOCALE => 'b')", "the option 'LOCALE' stands twice"),
        ("k INT", f"{KAFKA} FORMAT csv('path')", "options are written as name => value"),
        ("k INT METADATA FROM 'key'", KAFKA, "METADATA is for columns of a source with FORMAT"),
        ("k INT METADATA FROM 'kye'", f"{KAFKA} FORMAT json", "a record has no metadata 'kye'"),
        ("k INT METADATA FROM key", f"{KAFKA} FORMAT json", "expected what the column holds"),
        ("k INT METADATA FROM 'op'", f"{KAFKA} FORMAT json", "a record has no metadata 'op'"),
    ],
)
def test_mistakes_are_named(declared: str, source: str, said: str) -> None:
    with pytest.raises(EverviewError) as refused:
        made(f"CREATE STREAM s ({declared}, ts TIMESTAMP, TIMELINE ts) FROM {source}")
    assert str(refused.value).startswith(said)
    assert "line 1" in str(refused.value)


def test_no_column_is_added_to_what_is_decoded() -> None:
    sql = f"CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM {KAFKA} FORMAT json;"
    with pytest.raises(EverviewError, match="decoded by FORMAT json, and none can be added"):
        made(sql + "ALTER STREAM s ADD COLUMN w INT")


def test_a_column_may_be_called_metadata_or_format() -> None:
    entry = made("CREATE STREAM s (metadata INT, format INT, ts TIMESTAMP, TIMELINE ts)").get("s")
    assert isinstance(entry, StreamEntry)
    assert entry.columns.names == ("metadata", "format", "ts")
