"""SHOW CREATE: a statement that makes the same entry again. No JVM."""

from __future__ import annotations

import pytest
from hypothesis import given

from everview.catalog import Catalog, Entry
from everview.errors import EverviewError
from everview.query.create import create_sql
from everview.sql import bind_script, declare
from everview.sql import statements as S
from tests.query.entries import ENTRIES

BELOW = "CREATE STREAM below (k INT, v INT, ts TIMESTAMP, TIMELINE ts);"


def catalog() -> Catalog:
    names = Catalog()
    for statement in bind_script(BELOW, names):
        declare(statement, names)
    return names


@given(ENTRIES.filter(lambda e: e.name.casefold() not in ("below", "clock")))
def test_what_is_shown_makes_the_same_entry(entry: Entry) -> None:
    (made,) = bind_script(create_sql(entry, 1), catalog())
    assert isinstance(made, S.Create)
    assert made.entry == entry


def test_the_whole_text() -> None:
    script = """
    CREATE STREAM clicks (usr STRING, `order` DECIMAL(10, 2), ms BIGINT, at TIMESTAMP, seen TIMESTAMP,
      TIMELINE at LATENESS INTERVAL '5' SECOND SEQUENCE BY (ms, usr), TIMELINE seen)
      FROM kafka(kafka.bootstrap.servers => 'localhost:9092', subscribe => 'clicks')
      IDLE AFTER INTERVAL '30' SECOND;
    CREATE NON RETROACTIVE TABLE stations (id INT, name STRING, PRIMARY KEY (id)) FROM parquet('stations/');
    CREATE TAGGED STREAM last OVER clicks KEY (usr) DELETE WHEN ms = 0;
    CREATE COMPLETE VIEW v WITH (history => INTERVAL '1' DAY) AS SELECT usr FROM last;
    """
    names = Catalog()
    for statement in bind_script(script, names):
        declare(statement, names)
    assert [create_sql(entry, names.clock_grain) for entry in names] == [
        "CREATE STREAM clicks (\n  usr STRING,\n  `order` DECIMAL(10,2),\n  ms BIGINT,\n  `at` TIMESTAMP,\n"
        "  seen TIMESTAMP,\n  TIMELINE `at` LATENESS INTERVAL '5' SECOND SEQUENCE BY (ms, usr),\n"
        "  TIMELINE seen\n)\n"
        "FROM kafka(kafka.bootstrap.servers => 'localhost:9092', subscribe => 'clicks')\n"
        "IDLE AFTER INTERVAL '30' SECOND;",
        "CREATE NON RETROACTIVE TABLE stations (\n  id INT,\n  name STRING,\n  PRIMARY KEY (id)\n)\n"
        "FROM parquet('stations/');",
        "CREATE TAGGED STREAM last OVER clicks KEY (usr)\nDELETE WHEN ms = 0;",
        "CREATE COMPLETE VIEW v WITH (history => INTERVAL '1' DAY) AS\nSELECT usr FROM last;",
    ]


@pytest.mark.parametrize("sql", ["SHOW CREATE STREAM below", "show create table BELOW;"])
def test_it_is_asked_for_by_name(sql: str) -> None:
    assert list(bind_script(sql, catalog())) == [S.ShowCreate("below")]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SHOW CREATE VIEW below",
            "'below' is a stream\n  line 1, column 18\n    SHOW CREATE VIEW below\n"
            "                     ^^^^^\n  next: write SHOW CREATE STREAM",
        ),
        (
            "SHOW CREATE below",
            "expected what to show\n  line 1, column 13\n    SHOW CREATE below\n                ^^^^^\n"
            "  choices: STREAM, TABLE, VIEW, SINK",
        ),
        (
            "SHOW CREATE TABLE bellow",
            "there is no stream, table or view 'bellow'\n  line 1, column 19\n    SHOW CREATE TABLE bellow\n"
            "                      ^^^^^^\n  did you mean 'below'?\n  choices: below",
        ),
    ],
)
def test_what_is_wrong_is_said(sql: str, said: str) -> None:
    with pytest.raises(EverviewError) as caught:
        list(bind_script(sql, catalog()))
    assert str(caught.value) == said
