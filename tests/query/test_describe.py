"""DESCRIBE and the state of a store, from a catalog and a manifest. No JVM."""

from __future__ import annotations

import json

import pytest

from everview.algebra.time import INFINITY, SECOND
from everview.catalog import Catalog
from everview.query.describe import Facts, describe_entry
from everview.query.report import Report
from everview.query.status import store_status
from everview.sql import bind_script, declare, relation_of
from everview.storage.manifest import Manifest
from everview.temporal.clocks import STORE_BOUND, Clock

SCRIPT = """
CREATE STREAM clicks (usr STRING NOT NULL, ms BIGINT, ts TIMESTAMP, seen TIMESTAMP,
  TIMELINE ts LATENESS INTERVAL '5' SECOND SEQUENCE BY (ms), TIMELINE seen)
  FROM csv('in/*.csv', header => true) MAX AHEAD NONE IDLE AFTER INTERVAL '30' SECOND;
CREATE NON RETROACTIVE TABLE users (usr STRING, name STRING DEFAULT 'nobody', PRIMARY KEY (usr));
CREATE TAGGED STREAM last OVER clicks KEY (usr) DELETE WHEN ms = 0;
CREATE COMPLETE VIEW counts (who, clicks) WITH (history => INTERVAL '1' DAY) AS
  SELECT usr, COUNT(*)
  FROM clicks [RANGE 1 HOUR] GROUP BY usr;
"""
MANIFEST = Manifest(
    step=4,
    bound=7 * SECOND,
    bounds={"clicks": {"ts": 7 * SECOND, "seen": 9 * SECOND}},
    present=9 * SECOND,
    counts={"clicks": (1200, 2, 1)},
    since={"counts": 3 * SECOND},
    heard={"clicks": 0},
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    names = Catalog()
    for statement in bind_script(SCRIPT, names):
        declare(statement, names)
    return names


def described(catalog: Catalog, name: str, manifest: Manifest = MANIFEST) -> Report:
    return describe_entry(catalog.get(name), Facts(catalog, manifest, relation_of(name, catalog)))


TEXTS = {
    "clicks": """\
stream clicks
  usr   STRING     NOT NULL
  ms    BIGINT
  ts    TIMESTAMP  TIMELINE LATENESS 5 SECONDS
  seen  TIMESTAMP  TIMELINE
source: csv('in/*.csv', header => 'true')
sequence by: ms
max ahead: without a limit
idle after: 30 SECONDS
watermark: 1970-01-01T00:00:07.000000
rows: 1,200 taken, 2 late, 1 rejected
used by: last, counts""",
    "users": """\
table users
  usr   STRING  KEY
  name  STRING  DEFAULT 'nobody'
source: INSERT
updates: count for later rows only (NON RETROACTIVE)""",
    "last": """\
tagged stream last
  usr   STRING     KEY
  ms    BIGINT
  ts    TIMESTAMP  TIMELINE
  seen  TIMESTAMP  TIMELINE
over: clicks
delete when: ms = 0
update pattern: WK±, rows end at times that are known, and may be taken back
watermark: 1970-01-01T00:00:07.000000""",
    "counts": """\
view counts
  who     STRING  KEY
  clicks  BIGINT
definition: SELECT usr, COUNT(*) FROM clicks [RANGE 1 HOUR] GROUP BY usr
keeps: its changes and its present answer (COMPLETE)
history: 1 DAY
update pattern: WK±, rows end at times that are known, and may be taken back
watermark: 1970-01-01T00:00:07.000000
complete since: 1970-01-01T00:00:03.000000
reads: clicks""",
    "clock": """\
stream clock
  time_point  TIMESTAMP  TIMELINE
source: the clock, every 1 SECOND""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_entry_as_lines(catalog: Catalog, name: str) -> None:
    assert str(described(catalog, name)) == TEXTS[name]


def test_an_entry_for_a_program(catalog: Catalog) -> None:
    (view,) = described(catalog, "counts").records
    assert json.loads(json.dumps(view)) == {
        "kind": "view",
        "name": "counts",
        "columns": [
            {"name": "who", "type": "STRING", "note": "KEY"},
            {"name": "clicks", "type": "BIGINT"},
        ],
        "definition": "SELECT usr, COUNT(*)\n  FROM clicks [RANGE 1 HOUR] GROUP BY usr",
        "keeps": "its changes and its present answer (COMPLETE)",
        "history": "1 DAY",
        "update_pattern": "WK±",
        "watermark": "1970-01-01T00:00:07.000000",
        "complete_since": "1970-01-01T00:00:03.000000",
        "reads": ["clicks"],
    }
    (stream,) = described(catalog, "clicks").records
    assert stream["rows"] == {"taken": 1200, "late": 2, "rejected": 1}
    assert described(catalog, "users").rows == (
        {"name": "usr", "type": "STRING", "note": "KEY"},
        {"name": "name", "type": "STRING", "note": "DEFAULT 'nobody'"},
    )


@pytest.mark.parametrize("manifest", [Manifest(), Manifest(bound=INFINITY - 1, finished=True)])
def test_no_raw_number_at_the_ends_of_time(catalog: Catalog, manifest: Manifest) -> None:
    texts = [str(described(catalog, name, manifest)) for name in TEXTS]
    texts.append(str(store_status(catalog, manifest, {"clicks": 3}, 0)))
    assert not any("µs" in text or "922337" in text for text in texts)


def test_an_idle_stream_holds_nothing_back(catalog: Catalog) -> None:
    now = 31 * SECOND
    status = store_status(catalog, MANIFEST, {}, now)
    assert [s.note for s in status.streams] == ["idle", ""]
    assert store_status(catalog, MANIFEST, {"clicks": 1}, 0).streams[0].note == "holds time back"


def test_rows_that_event_queries_have_taken_do_not_wait() -> None:
    """Only rows that a view or a table AS OF reads by the bound of the store are said to wait."""
    made = Catalog()
    script = """
        CREATE STREAM fire (station INT, ts TIMESTAMP, TIMELINE ts);
        CREATE STREAM brigade (station INT, ts TIMESTAMP, TIMELINE ts);
        CREATE STREAM exits (station INT, ts TIMESTAMP, TIMELINE ts);
        CREATE STREAM doors (station INT, ts TIMESTAMP, TIMELINE ts);
        CREATE TABLE stations (station INT, name STRING);
        CREATE STREAM unanswered TIMELINE ts AS SELECT station, ts FROM fire WHERE NOT EXISTS
          (SELECT 1 FROM brigade b WHERE b.station = fire.station
           AND b.ts BETWEEN fire.ts AND fire.ts + INTERVAL '1' HOUR);
        CREATE VIEW arrived AS SELECT station FROM brigade [RANGE 1 HOUR];
        CREATE STREAM opened TIMELINE at AS
          SELECT station, at FROM ISTREAM(SELECT station FROM doors [RANGE 1 HOUR]);
        CREATE STREAM named TIMELINE ts AS SELECT f.ts, s.name FROM fire f
          JOIN stations FOR SYSTEM_TIME AS OF f.ts s ON s.station = f.station;
    """
    for statement in bind_script(script, made):
        declare(statement, made)
    waiting = {"fire": 1, "brigade": 2, "exits": 3, "doors": 4, "stations": 5}
    status = store_status(made, MANIFEST, waiting, 0)
    assert [line.split(":")[0] for line in status.waits] == [
        "2 rows of brigade wait", "3 rows of exits wait", "4 rows of doors wait", "5 rows of stations wait",
    ]  # fmt: skip
    assert {s.name: s.waiting for s in status.streams} == {**waiting, "fire": 0}


def test_an_event_stream_that_goes_by_the_bound_of_the_store_names_who_holds_it() -> None:
    """Versions of tables and ISTREAM are known up to the bound of the store: that of its slowest streams."""
    made = Catalog()
    script = """
        CREATE STREAM fire (station INT, ts TIMESTAMP, TIMELINE ts);
        CREATE STREAM exits (station INT, ts TIMESTAMP, TIMELINE ts) IDLE AFTER INTERVAL '1' SECOND;
        CREATE TABLE stations (station INT, name STRING);
        CREATE STREAM named TIMELINE ts AS SELECT f.ts, s.name FROM fire f
          JOIN stations FOR SYSTEM_TIME AS OF f.ts s ON s.station = f.station;
    """
    for statement in bind_script(script, made):
        declare(statement, made)
    bounds = {"fire": {"ts": 9 * SECOND}, "exits": {"ts": 7 * SECOND}}
    manifest = Manifest(
        step=4, bound=7 * SECOND, bounds=bounds, present=9 * SECOND, heard={"fire": 0, "exits": 0}
    )
    clocks = {"ts": Clock.line(STORE_BOUND)}
    waits = "ts is known to 1970-01-01T00:00:07.000000: exits is known to 1970-01-01T00:00:07.000000"
    facts = Facts(made, manifest, relation_of("named", made), clocks)
    assert f"waits: {waits}" in describe_entry(made.get("named"), facts).text
    status = store_status(made, manifest, {}, 0, clocks={"named": clocks})
    assert status.waits == (f"named: {waits}",)
