"""The queries of papers 2 and 5 over generated streams, as workloads of the cost model."""

from __future__ import annotations

WARM, SECONDS = 12, 20

_LINK = (
    "CREATE STREAM {} (src INT, dst INT, protocol INT, ts TIMESTAMP, TIMELINE ts)"
    " WITH (rate => 40, distinct(src) => 60, distinct(dst) => 200, distinct(protocol) => 4);"
)
STREAMS = (
    "".join(_LINK.format(name) for name in ("l1", "l2", "l3"))
    + """
CREATE STREAM temperature (room INT, building INT, celsius INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 60, distinct(room) => 50, distinct(building) => 8, distinct(celsius) => 30);
CREATE STREAM humidity (room INT, percent INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 20, distinct(room) => 50, distinct(percent) => 100);
CREATE TAGGED STREAM rooms OVER temperature KEY (room);
CREATE TAGGED STREAM moist OVER humidity KEY (room);
"""
)

_R = "[RANGE 10 SECONDS]"

QUERIES = {
    "paper 2, query 1": f"SELECT l1.src, l2.dst FROM l1 {_R} JOIN l2 {_R} ON l1.src = l2.src"
    " WHERE l1.protocol = 1 AND l2.protocol = 1",
    "paper 2, query 2": f"SELECT DISTINCT src FROM l1 {_R}",
    "paper 2, query 2 by pairs": f"SELECT DISTINCT src, dst FROM l1 {_R}",
    "paper 2, query 3": f"SELECT src FROM l1 {_R} EXCEPT ALL SELECT src FROM l2 {_R}",
    "paper 2, query 4": f"SELECT DISTINCT l1.src FROM l1 {_R} JOIN l2 {_R} ON l1.src = l2.src"
    " WHERE l1.protocol = 1 AND l2.protocol = 1",
    "paper 2, query 5": f"SELECT a.src, l3.dst FROM"
    f" (SELECT src FROM l1 {_R} EXCEPT ALL SELECT src FROM l2 {_R}) a"
    f" JOIN l3 {_R} ON a.src = l3.src WHERE l3.protocol = 1",
    "INTERSECT ALL": f"SELECT src FROM l1 {_R} INTERSECT ALL SELECT src FROM l2 {_R}",
    "EXCEPT": f"SELECT src FROM l1 {_R} EXCEPT SELECT src FROM l2 {_R} WHERE protocol = 1",
    "LEFT JOIN": f"SELECT l1.src, l2.dst FROM l1 {_R} LEFT JOIN l2 {_R}"
    " ON l1.src = l2.src AND l2.protocol = 1",
    "NOT IN keys": f"SELECT src, dst FROM l1 {_R} WHERE NOT EXISTS"
    f" (SELECT 1 FROM l2 {_R} WHERE l2.src = l1.src AND l2.protocol = 1)",
    "counts per source": f"SELECT src, COUNT(*) AS n FROM l1 {_R} GROUP BY src",
    "counts on a grid": "SELECT src, COUNT(*) AS n FROM l1 [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY src",
    "counts of ever": "SELECT src, COUNT(*) AS n FROM l1 GROUP BY src",
    "greatest": f"SELECT protocol, MAX(dst) AS most FROM l1 {_R} GROUP BY protocol",
    "rows": "SELECT src, dst FROM l1 [PARTITION BY src ROWS 3]",
    "paper 5, rooms": "SELECT room, celsius FROM rooms WHERE celsius = 1",
    "paper 5, synchronized": "SELECT room, celsius FROM rooms SYNC EVERY INTERVAL '7' SECOND",
    "paper 5, joined": "SELECT r.room, r.celsius, m.percent FROM rooms r JOIN moist m ON r.room = m.room",
    "paper 5, buildings": "SELECT building, AVG(celsius) AS mean FROM rooms GROUP BY building",
    "paper 5, windowed": f"SELECT room, AVG(celsius) AS mean FROM temperature {_R} GROUP BY room",
}

JOIN_STREAMS = """
CREATE STREAM slow (k INT, v INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 2, distinct(k) => 20, distinct(v) => 10);
CREATE STREAM fast (k INT, v INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 30, distinct(k) => 20, distinct(v) => 400);
CREATE STREAM keyed (k INT, v INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 12, distinct(k) => 300, distinct(v) => 10);
CREATE STREAM coded (k INT, v INT, ts TIMESTAMP, TIMELINE ts)
  WITH (rate => 10, distinct(k) => 300, distinct(v) => 400);
"""

_SHORT = "[RANGE 2 SECONDS]"
_LONG = "[RANGE 6 SECONDS]"

JOINS = {
    "a chain": f"SELECT a.ts AS t, c.v FROM slow {_LONG} a, fast {_LONG} b, keyed {_LONG} c"
    " WHERE a.k = b.k AND a.v = c.v",
    "a star": f"SELECT a.ts AS t FROM fast {_SHORT} a, slow {_LONG} b, coded {_LONG} c"
    " WHERE a.k = b.k AND a.v = c.v",
    "windows": f"SELECT a.ts AS t FROM coded {_LONG} a, fast {_SHORT} b, slow {_LONG} c"
    " WHERE a.v = b.v AND b.k = c.k",
    "a ring": f"SELECT a.ts AS t FROM slow {_LONG} a, keyed {_LONG} b, coded {_SHORT} c"
    " WHERE a.v = b.v AND b.k = c.k AND c.k = a.k",
    "four": f"SELECT a.ts AS t FROM slow {_LONG} a, fast {_SHORT} b, keyed {_LONG} c, coded {_LONG} d"
    " WHERE a.k = b.k AND b.v = d.v AND d.k = c.k",
    "four in a star": f"SELECT a.ts AS t FROM fast {_SHORT} a, slow {_LONG} b, coded {_LONG} c,"
    f" keyed {_SHORT} d"
    " WHERE a.k = b.k AND a.v = c.v AND c.k = d.k",
}
