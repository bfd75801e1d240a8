"""The queries of papers 1, 2 and 5 as SQL, with their rows: one store for all of them.

Paper 5 counts in time units and in minutes; here a unit is a minute after `START`, so `+<a,99>1` is what came
at 05:01. The rows are the papers' own where they print any (tests/golden has them on the level of the
reference), and those of the demos where they print none.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import everview
from everview.ui import demo

Row = dict[str, Any]

EPOCH = datetime(1970, 1, 1)
START = datetime(1993, 11, 3, 5)
DEMOS = Path(demo.__file__).with_name("demos")


def at(unit: float) -> datetime:
    """So many time units after the start."""
    return START + timedelta(minutes=unit)


def unit_of(moment: datetime) -> int:
    unit = (moment - START) / timedelta(minutes=1)
    assert unit == int(unit)
    return int(unit)


def demo_rows(name: str, file: str, begins: str) -> list[Row]:
    """The rows of a demo, moved so that the instant at which it begins is the start."""
    moved = START - datetime.fromisoformat(begins)
    with (DEMOS / name / file).open(encoding="utf-8", newline="") as lines:
        return [row | {"ts": datetime.fromisoformat(row["ts"]) + moved} for row in csv.DictReader(lines)]


# Paper 5: the parking lot and the rooms

PARKING = {
    "s1": demo_rows("parking", "entering.csv", "2010-02-01 08:00:00"),
    "s2": demo_rows("parking", "leaving.csv", "2010-02-01 08:00:00"),
}
TEMPERATURES = [
    (row["room"], int(row["temperature"]), int((row["ts"] - START).total_seconds()))
    for row in demo_rows("rooms", "temperature.csv", "2010-02-01 00:00:00")
]
BUILDINGS = {"a": 1, "b": 1, "c": 2}  # of 10.1
SEQUENCES = {"r": (89, 87, 79, 78), "s": (89, 79, 87, 78)}  # of 10.3.2
ROOMS = {
    "temperature": [{"room": r, "temperature": v, "ts": at(t)} for r, v, t in TEMPERATURES],
    "temperature_source": [
        {"room": r, "building": BUILDINGS[r], "temperature": v, "ts": at(t)} for r, v, t in TEMPERATURES
    ],
    "sequences": [
        {"room": r, "temperature": v, "ts": at(t)} for r, vs in SEQUENCES.items() for t, v in enumerate(vs, 1)
    ],
    "s2_of_9": [{"id": 1, "ts": at(t)} for t in range(7)],
    "s3_of_9": [{"id": 1, "ts": at(t)} for t in range(7)],
}

PAPER_5 = """
CREATE STREAM s1 (vid STRING, vtype STRING, vowner STRING, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM s2 (vid STRING, vtype STRING, vowner STRING, ts TIMESTAMP, TIMELINE ts);
CLOCK EVERY INTERVAL '1' MINUTE;

-- P1 and P2 (examples 2 and 3), P3 (4.5)
CREATE STREAMED VIEW park_lot AS SELECT vid, vtype FROM s1 EXCEPT ALL SELECT vid, vtype FROM s2;
CREATE STREAMED VIEW per_type AS SELECT p.vtype, COUNT(p.vid) AS vehicles FROM park_lot p GROUP BY p.vtype;
CREATE COMPLETE VIEW comp_park_lot AS
  SELECT vid, vtype, vowner FROM s1 EXCEPT ALL SELECT vid, vtype, vowner FROM s2;

-- P4 (1.2), and what CQL has for it; P5 over P4
CREATE VIEW park_lot_2 AS
  SELECT vid, vtype FROM s1 SYNC EVERY INTERVAL '2' MINUTE
  EXCEPT ALL SELECT vid, vtype FROM s2 SYNC EVERY INTERVAL '2' MINUTE;
CREATE VIEW case_2 AS RSTREAM(SELECT vid FROM park_lot SYNC EVERY INTERVAL '2' MINUTE);
CREATE VIEW case_2_count AS RSTREAM(SELECT COUNT(*) AS n FROM park_lot SYNC EVERY INTERVAL '2' MINUTE);
CREATE VIEW case_3 AS ISTREAM(SELECT vid, vtype FROM park_lot SYNC EVERY INTERVAL '2' MINUTE);
CREATE VIEW case_4 AS DSTREAM(SELECT vid, vtype FROM park_lot SYNC EVERY INTERVAL '2' MINUTE);
CREATE VIEW per_type_4 AS
  SELECT vtype, COUNT(vid) AS vehicles FROM park_lot_2 SYNC EVERY INTERVAL '4' MINUTE GROUP BY vtype;

-- P6 (example 7), P7 (example 4)
CREATE STREAMED VIEW police_sync AS SELECT r.ts FROM s1 r WHERE r.vtype = 'POLICE';
CREATE VIEW per_type_police AS
  SELECT vtype, COUNT(vid) AS vehicles FROM park_lot SYNC ON police_sync GROUP BY vtype;
CREATE STREAMED VIEW five_units_window AS
  SELECT r.vid, r.ts FROM s1 r WHERE NOW - INTERVAL '5' MINUTE < r.ts AND r.ts <= NOW;

-- T1 to T5 (3.2, examples 1, 2, 5, 8, 11)
CREATE STREAM temperature (room STRING, temperature INT, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM room_temp_str OVER temperature KEY (room);
CREATE VIEW figure_1 AS SELECT * FROM room_temp_str;
CREATE VIEW figure_2 AS SELECT * FROM room_temp_str SYNC EVERY INTERVAL '2' MINUTE;
CREATE STREAMED VIEW hot_rooms AS SELECT room, temperature FROM room_temp_str r WHERE r.temperature > 80;
CREATE VIEW very_hot AS SELECT room, temperature FROM room_temp_str WHERE temperature > 100;
CREATE STREAMED VIEW hot_rooms_2 AS
  SELECT room, temperature FROM room_temp_str SYNC EVERY INTERVAL '2' MINUTE r WHERE r.temperature > 80;
CREATE VIEW very_hot_4 AS
  SELECT room, temperature FROM room_temp_str SYNC EVERY INTERVAL '4' MINUTE WHERE temperature > 100;
CREATE VIEW very_hot_4_from_hot_rooms_2 AS
  SELECT room, temperature FROM hot_rooms_2 SYNC EVERY INTERVAL '4' MINUTE WHERE temperature > 100;
CREATE VIEW alarm AS SELECT ts FROM temperature WHERE temperature > 120;
CREATE VIEW very_hot_at_alarm AS
  SELECT room, temperature FROM room_temp_str SYNC ON alarm WHERE temperature > 100;

-- example 6: a synchronization stream from the clock
CREATE STREAMED VIEW sync_2 AS
  SELECT c.time_point FROM clock c WHERE unix_seconds(c.time_point) div 60 % 2 = 0;
CREATE VIEW hot_rooms_on_sync_2 AS
  SELECT room, temperature FROM room_temp_str SYNC ON sync_2 WHERE temperature > 80;

-- example 9, and the window join of 4.4
CREATE STREAM s2_of_9 (id INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM s3_of_9 (id INT, ts TIMESTAMP, TIMELINE ts);
CREATE VIEW figure_4 AS
  SELECT r2.id, r2.ts AS ts2, r3.ts AS ts3
  FROM s2_of_9 SYNC EVERY INTERVAL '2' MINUTE r2, s3_of_9 SYNC EVERY INTERVAL '3' MINUTE r3
  WHERE r2.id = r3.id;
CREATE VIEW window_join AS
  SELECT i.ts AS ts_i, j.ts AS ts_j FROM s2_of_9 i, s3_of_9 j
  WHERE i.ts - INTERVAL '5' MINUTE < j.ts AND j.ts < i.ts + INTERVAL '5' MINUTE;

-- 10.3.2, 10.5, 10.6
CREATE STREAM sequences (room STRING, temperature INT, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM sequence_rooms OVER sequences KEY (room);
CREATE VIEW sequence_r AS SELECT room, temperature FROM sequence_rooms WHERE room = 'r' AND temperature > 80;
CREATE VIEW sequence_s AS SELECT room, temperature FROM sequence_rooms WHERE room = 's' AND temperature > 80;
CREATE STREAM temperature_source (room STRING, building INT, temperature INT, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM building_rooms OVER temperature_source KEY (room);
CREATE STREAMED VIEW build_hot_rooms AS
  SELECT r.building, COUNT(r.room) AS cnt_rooms FROM building_rooms r WHERE temperature > 85
  GROUP BY r.building;
CREATE VIEW build_hot_rooms_2 AS
  SELECT v.building, v.cnt_rooms FROM build_hot_rooms SYNC EVERY INTERVAL '2' MINUTE v;
CREATE VIEW building_temperature AS
  SELECT building, temperature, COUNT(*) AS rooms
  FROM building_rooms SYNC EVERY INTERVAL '2' MINUTE WHERE temperature > 80 GROUP BY building, temperature;
CREATE VIEW building_groups AS
  SELECT building, SUM(rooms) AS rooms
  FROM building_temperature SYNC EVERY INTERVAL '2' MINUTE GROUP BY building;
CREATE VIEW temperature_groups AS
  SELECT temperature, SUM(rooms) AS rooms
  FROM building_temperature SYNC EVERY INTERVAL '4' MINUTE GROUP BY temperature;
CREATE VIEW temperature_groups_alone AS
  SELECT temperature, COUNT(*) AS rooms
  FROM building_rooms SYNC EVERY INTERVAL '4' MINUTE WHERE temperature > 80 GROUP BY temperature;
"""

# Paper 1: the highway, a stream for each of 20 measuring stations (2.2)

SECTIONS = range(1, 21)
HIGHWAY: dict[str, list[Row]] = {f"highway_stream{i}": [] for i in SECTIONS}
for _row in demo_rows("highway", "highway.csv", str(START)):
    HIGHWAY[f"highway_stream{_row.pop('station')}"].append(_row)

_AVERAGES = " UNION ALL ".join(
    f"SELECT AVG(speed) AS avg_speed, {i} AS section_id FROM highway_stream{i} [RANGE 15 MINUTES]"
    for i in SECTIONS
)
PAPER_1 = "".join(
    f"CREATE STREAM {name} (lane SMALLINT, speed FLOAT, length FLOAT, ts TIMESTAMP, TIMELINE ts);\n"
    for name in HIGHWAY
) + f"""
CREATE VIEW congested AS SELECT section_id FROM ({_AVERAGES}) WHERE avg_speed < 15;
CREATE VIEW averages AS {_AVERAGES};
CREATE VIEW sliding_window AS SELECT * FROM highway_stream1 [RANGE 15 MINUTES];
"""  # fmt: skip

# Paper 2: three links of a network (6.1), windows of 2000 time units; an hour before the start they begin

LINKS = {f"link{i}": demo_rows("links", f"link{i}.csv", "1993-09-14 01:00:00") for i in (1, 2, 3)}
QUERIES = {
    **{
        f"query_1_{protocol}": "SELECT a.src, a.payload, b.payload AS other"
        " FROM {1} a JOIN {2} b ON a.src = b.src"
        f" WHERE a.protocol = '{protocol}' AND b.protocol = '{protocol}'"
        for protocol in ("ftp", "telnet")
    },
    "query_2": "SELECT DISTINCT src FROM {1}",
    "query_2_pairs": "SELECT DISTINCT src, dst FROM {1}",
    "query_3": "SELECT src FROM {1} EXCEPT ALL SELECT src FROM {2}",
    "query_4": "SELECT a.src FROM (SELECT DISTINCT src FROM {1}) a"
    " JOIN (SELECT DISTINCT src FROM {2}) b ON a.src = b.src",
    # Figure 6: the negation above the join, and below it. Counting copies they differ, see the test.
    "query_5_above": "SELECT a.src FROM {1} a JOIN {3} c ON a.src = c.src WHERE c.protocol = 'ftp'"
    " EXCEPT ALL SELECT src FROM {2}",
    "query_5_below": "SELECT n.src FROM (SELECT src FROM {1} EXCEPT ALL SELECT src FROM {2}) n"
    " JOIN {3} c ON n.src = c.src WHERE c.protocol = 'ftp'",
    "query_5_above_by_value": "SELECT j.src FROM (SELECT a.src FROM {1} a JOIN {3} c ON a.src = c.src"
    " WHERE c.protocol = 'ftp') j WHERE NOT EXISTS (SELECT 1 FROM {2} b WHERE b.src = j.src)",
    "query_5_below_by_value": "SELECT n.src FROM (SELECT a.src FROM {1} a WHERE NOT EXISTS"
    " (SELECT 1 FROM {2} b WHERE b.src = a.src)) n JOIN {3} c ON n.src = c.src WHERE c.protocol = 'ftp'",
}
PAPER_2 = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, duration DOUBLE, protocol STRING, payload BIGINT, src STRING,"
    " dst STRING, TIMELINE ts);\n"
    for name in LINKS
) + "".join(
    f"CREATE VIEW {name} AS {sql.format(None, *(f'{link} [RANGE 2000 SECONDS]' for link in LINKS))};\n"
    for name, sql in QUERIES.items()
)


_TIMES = [row["ts"] for rows in (*PARKING.values(), *HIGHWAY.values(), *LINKS.values()) for row in rows]
FIRST_POINT, LAST_POINT = -58, 22  # the first even unit after the first row, the last one before the last
assert at(FIRST_POINT - 2) < min(_TIMES) < at(FIRST_POINT) < at(LAST_POINT) < max(_TIMES) < at(LAST_POINT + 2)


def fill(db: everview.Database) -> None:
    """All streams and views of the papers, after two runs; the first one ends amid the examples."""
    streams = {**PARKING, **ROOMS, **HIGHWAY, **LINKS}
    db.execute(PAPER_5 + PAPER_1 + PAPER_2)
    early = {name: at(15 if name in HIGHWAY else 6.5) for name in streams}
    for name, rows in streams.items():
        _put(db, name, [r for r in rows if r["ts"] <= early[name]])
    assert at(1) < EPOCH + timedelta(microseconds=db.run().bound) < at(3)
    for name, rows in streams.items():
        _put(db, name, [r for r in rows if r["ts"] > early[name]])
    db.run(finish=True)


def _put(db: everview.Database, name: str, rows: list[Row]) -> None:
    if rows:
        taken = db.insert(name, pa.Table.from_pylist(rows))  # as a table: its texts are converted
        assert (taken.rows, taken.late, taken.rejected) == (len(rows), 0, 0)


def tags(db: everview.Database, view: str) -> list[str]:
    """A view's tagged stream as the paper writes it, Tag<Attributes>Timestamp, in the order of time.

    What is taken away or updated must have been there.
    """
    shown = []
    there: Counter[tuple[Any, ...]] = Counter()
    found = collected(db.changes(view, "tags"))
    for tag, moment, *record, old in sorted(found, key=lambda r: (r[1], "-u+".index(r[0]), str(r))):
        gone = tuple(old) if tag == "u" else tuple(record) if tag == "-" else None
        if gone is not None:
            assert there[gone] > 0, (view, tag, moment, gone)
            there[gone] -= 1
        there[tuple(record)] += tag != "-"
        shown.append((unit_of(moment), f"{tag}<{','.join(map(_text, record))}>"))
    return [f"{change}{unit}" for unit, change in sorted(shown)]


def _text(value: object) -> str:
    return str(unit_of(value)) if isinstance(value, datetime) else str(value)


def snapshot(db: everview.Database, view: str, unit: float) -> list[str]:
    """What a view holds at an instant."""
    answer = db.query(f"SELECT * FROM {view}", as_of=at(unit).isoformat())
    return sorted(",".join(map(_text, row)) for row in collected(answer))


@dataclass(frozen=True)
class Held:
    """A record from when until when; None: always, or for ever."""

    record: tuple[Any, ...]
    begin: datetime | None
    end: datetime | None
    copies: int

    def at(self, moment: datetime) -> bool:
        return (self.begin is None or self.begin <= moment) and (self.end is None or moment < self.end)


def intervals(db: everview.Database, view: str) -> list[Held]:
    rows = collected(db.changes(view, "intervals"))
    return [Held(tuple(record), begin, end, n) for begin, end, n, *record in rows]


def collected(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of an answer; timestamps are UTC, whatever the zone of this machine."""
    times = [i for i, field in enumerate(frame.schema) if field.dataType.typeName() == "timestamp"]
    columns = [
        f"unix_micros(`{f.name}`)" if i in times else f"`{f.name}`" for i, f in enumerate(frame.schema)
    ]
    rows = [list(row) for row in frame.selectExpr(*columns).collect()]
    for row in rows:
        for i in times:
            row[i] = None if row[i] is None else EPOCH + timedelta(microseconds=row[i])
    return [tuple(row) for row in rows]
