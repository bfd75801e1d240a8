"""The queries that the witness is asked about, by topic; each must bind, and mean what DuckDB says."""

from __future__ import annotations

from tests.sql.oracle import Case, at, versions

US = "MICROSECONDS"
S5, R5 = f"s [RANGE 5 {US}]", f"r [RANGE 5 {US}]"
S9, R9 = f"s [RANGE 9 {US}]", f"r [RANGE 9 {US}]"
M9 = f"m [RANGE 9 {US}]"
AS_OF = "n.since <= s.ts AND s.ts < n.till"

FILTERS = [
    f"SELECT k, v, ts FROM {S5} WHERE v > 0",
    f"SELECT k FROM {S5} WHERE NOT (v > 0)",
    f"SELECT k, v FROM {S5} WHERE v > 0 OR k = 1",
    f"SELECT k, v FROM {S5} WHERE (v > 0) IS NULL",
    f"SELECT k, v FROM {S5} WHERE v > 0 AND k > 0 OR NOT (k = 2 AND v = 0)",
    f"SELECT k, v FROM {S5} WHERE v IS NOT NULL AND v NOT BETWEEN k AND 1",
    f"SELECT k, v FROM {S5} WHERE k IN (0, 2) AND v NOT IN (0, 1)",
    f"SELECT k, v FROM {S5} WHERE k IN (v, 2)",
    f"SELECT k, v FROM {S5} WHERE k NOT IN (1, NULL)",
    f"SELECT k, v FROM {S5} WHERE k <=> v",
    f"SELECT k, v FROM {S5} WHERE k IS DISTINCT FROM v",
    f"SELECT k, v FROM {S5} WHERE (k = v) IS TRUE OR (k < v) IS NOT FALSE",
    f"SELECT k, v FROM {S5} WHERE NULL",
    f"SELECT k, ts FROM s WHERE ts >= {at(3)} AND ts - INTERVAL '4' MICROSECOND < {at(6)}",
    f"SELECT name, ok FROM {M9} WHERE ok",
    f"SELECT name, ok FROM {M9} WHERE NOT ok OR x > 1.5",
    f"SELECT name FROM {M9} WHERE name LIKE 'a%' OR name = ''",
]

EXPRESSIONS: list[str | Case] = [
    f"SELECT k + v AS a, k - v AS b, k * v AS c, -k AS d, k % 2 AS e, k / 2 AS f FROM {S5}",
    f"SELECT k / v AS a, k % v AS b, 1 / (v - v) AS c FROM {S5}",
    Case(
        f"SELECT v DIV 2 AS a, (v - 5) DIV 2 AS b FROM {S5}", f"SELECT v // 2, trunc((v - 5) / 2) FROM {S5}"
    ),
    f"SELECT k & 1 AS a, k | v AS b FROM {S5}",
    f"SELECT 2 + 3 * v AS a, (2 + 3) * v AS b, 7 - v - 1 AS c, 8 / 2 / 2 AS d, - - v AS e FROM {S5}",
    f"SELECT CASE WHEN v > 1 THEN 'big' WHEN v = 1 THEN 'one' END AS size, k FROM {S5}",
    f"SELECT CASE k WHEN 0 THEN 10 WHEN v THEN 20 ELSE v END AS c FROM {S5}",
    f"SELECT CASE WHEN k > 1 THEN 1 ELSE 2.5 END AS c, COALESCE(k, v, -1) AS d, NULLIF(k, v) AS e FROM {S5}",
    f"SELECT CAST(k AS DOUBLE) / 3 AS a, CAST(v AS STRING) AS b, CAST(k AS BOOLEAN) AS c FROM {S5}",
    f"SELECT CAST(d AS INT) AS a, CAST('7' AS INT) AS b FROM {M9} WHERE d = 2",
    Case(f"SELECT CAST(name AS INT) AS a FROM {M9}", f"SELECT TRY_CAST(name AS INT) AS a FROM {M9}"),
    f"SELECT ts + INTERVAL '3' MICROSECOND AS a, ts - {at(2)} AS b, ts > {at(4)} AS c FROM {S5}",
    f"SELECT GREATEST(k, v) AS a, LEAST(k, v, 1) AS b, ABS(k - 2) AS c FROM {S5}",
    f"SELECT upper(name) AS a, name || '!' AS b, length(name) AS c, substring(name, 1, 2) AS d FROM {M9}",
    f"SELECT d + 1 AS a, d * d AS b, d - 0.5 AS c, x * 2 AS e, d > x AS f FROM {M9}",
    f"SELECT *, k IS NULL AS missing FROM {S5}",
    "SELECT 1 AS one, 'x' AS word, NULL IS NULL AS yes",
]

WINDOWS = [
    "SELECT * FROM s",
    "SELECT * FROM s [UNBOUNDED]",
    "SELECT * FROM s [NOW]",
    "SELECT * FROM s [RANGE 1 MICROSECOND]",
    f"SELECT * FROM s [RANGE 6 {US} SLIDE 4 {US}]",
    f"SELECT * FROM s [RANGE 3 {US} SLIDE 5 {US}]",
    f"SELECT * FROM s [RANGE 4 {US} SLIDE 3 {US} LAG 2 {US} ORIGIN {at(1)}]",
    f"SELECT * FROM s [RANGE 5 {US} LAG 3 {US}]",
    f"SELECT * FROM s [TUMBLE 4 {US}]",
    f"SELECT * FROM s [TUMBLE 5 {US} ORIGIN {at(2)}]",
    f"SELECT * FROM s [FIXED 6 {US}]",
    f"SELECT * FROM s [FIXED 5 {US} ORIGIN {at(3)}]",
    f"SELECT * FROM s [SINCE {at(5)}]",
    f"SELECT * FROM s [UNTIL {at(7)}]",
    f"SELECT * FROM s [BETWEEN {at(3)} AND {at(8)}]",
    "SELECT * FROM s [ROWS 1]",
    "SELECT * FROM s [ROWS 3]",
    "SELECT * FROM s [ROWS 3 SLIDE 2]",
    "SELECT * FROM s [ROWS 2 SLIDE 3]",
    "SELECT name, seq FROM m [PARTITION BY ok ROWS 2 SLIDE 2]",
    "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [PARTITION BY k ROWS 3 SLIDE 3] GROUP BY k",
    "SELECT * FROM s [PARTITION BY k ROWS 1]",
    "SELECT * FROM s [PARTITION BY k, v ROWS 2]",
    "SELECT * FROM m [ROWS 2]",
    "SELECT name, seq FROM m [PARTITION BY ok ROWS 2]",
    f"SELECT * FROM s [RANGE 8 {US}] [ROWS 2]",
    f"SELECT COUNT(*) AS n, SUM(v) AS total FROM s [TUMBLE 5 {US}]",
    "SELECT k, COUNT(*) AS n FROM s [ROWS 4] GROUP BY k",
    "SELECT * FROM s WHERE NOW - INTERVAL '5' MICROSECOND < s.ts AND s.ts <= NOW",
    "SELECT * FROM s WHERE ts > NOW - INTERVAL '4' MICROSECOND AND v > 0",
    "SELECT * FROM s WHERE ts >= NOW - INTERVAL '4' MICROSECOND AND ts <= NOW - INTERVAL '2' MICROSECOND",
    "SELECT * FROM s WHERE ts BETWEEN NOW - INTERVAL '6' MICROSECOND AND NOW",
    "SELECT s.k, r.v FROM s JOIN r ON s.k = r.k WHERE s.ts > NOW - INTERVAL '5' MICROSECOND"
    " AND NOW - INTERVAL '3' MICROSECOND < r.ts",
]


def last_whole(size: int, slide: int, start: int = 0, rows: str = "s") -> str:
    """The rows of the last window that is over, with its ends, for DuckDB."""
    origin = at((start + size) % slide)
    end = f"(SELECT time_bucket(INTERVAL '{slide}' MICROSECOND, NOW, {origin}) AS window_end) AS w"
    return (
        f"(SELECT s.*, window_end - INTERVAL '{size}' MICROSECOND AS window_start, window_end"
        f" FROM {rows}, {end}"
        f" WHERE s.ts >= window_end - INTERVAL '{size}' MICROSECOND AND s.ts < window_end) AS s"
    )


SESSIONS: list[str | Case] = [
    f"SELECT * FROM s [SESSION 3 {US} PARTITION BY k]",
    f"SELECT * FROM s [SESSION 2 {US}]",
    f"SELECT name, seq, session_end FROM m [SESSION 4 {US} PARTITION BY ok, name]",
    f"SELECT k, v, session_start FROM s [SESSION 3 {US} PARTITION BY k]",
    f"SELECT k, session_start, COUNT(*) AS n, MAX(ts) AS last FROM s [SESSION 3 {US} PARTITION BY k]"
    " GROUP BY k, session_start",
    f"SELECT k, session_start, session_end, COUNT(*) AS n FROM s [SESSION 4 {US} PARTITION BY k]"
    " GROUP BY k, session_start, session_end",
    Case(
        f"SELECT * FROM SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), 3 {US})",
        "SELECT k, v, ts, session_start AS window_start, session_end AS window_end"
        f" FROM s [SESSION 3 {US} PARTITION BY k]",
    ),
    f"SELECT DISTINCT k FROM s [SESSION 3 {US} PARTITION BY k]",
    f"SELECT a.k, a.session_start, b.v FROM s [SESSION 3 {US} PARTITION BY k] AS a"
    f" JOIN {R5} AS b ON a.k = b.k",
    f"SELECT k FROM r [RANGE 9 {US}] EXCEPT SELECT k FROM s [SESSION 2 {US} PARTITION BY k]",
]

GROUPED = "window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total"
WINDOW_FUNCTIONS = [
    Case(f"SELECT * FROM TUMBLE(TABLE s, DESCRIPTOR(ts), 4 {US})", f"SELECT * FROM {last_whole(4, 4)}"),
    Case(
        f"SELECT * FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MICROSECOND, 2 {US}))",
        f"SELECT * FROM {last_whole(5, 5, 2)}",
    ),
    Case(
        f"SELECT * FROM HOP(TABLE s, DESCRIPTOR(ts), 2 {US}, 6 {US}) AS h",
        f"SELECT * FROM {last_whole(6, 2)}",
    ),
    Case(
        f"SELECT * FROM HOP(DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), SIZE => 7 {US}, SLIDE => 3 {US})",
        f"SELECT * FROM {last_whole(7, 3)}",
    ),
    Case(
        f"SELECT {GROUPED} FROM TUMBLE(TABLE s, DESCRIPTOR(ts), 5 {US}) GROUP BY window_start, window_end, k",
        f"SELECT {GROUPED} FROM {last_whole(5, 5)} GROUP BY window_start, window_end, k",
    ),
    Case(
        f"SELECT {GROUPED} FROM s"
        " GROUP BY window(ts, '6 microseconds', '3 microseconds', '1 microsecond'), k",
        f"SELECT {GROUPED} FROM {last_whole(6, 3, 1)} GROUP BY window_start, window_end, k",
    ),
    Case(
        "SELECT window.start, k, MAX(v) AS top FROM s [RANGE 8 MICROSECONDS] WHERE v > 0"
        " GROUP BY window(ts, '4 microseconds'), k",
        "SELECT window_start AS start, k, MAX(v) AS top FROM "
        + last_whole(4, 4, rows=f"s [RANGE 8 {US}]")
        + " WHERE v > 0 GROUP BY window_start, k",
    ),
    Case(
        f"SELECT a.k, a.window_end, b.v FROM TUMBLE(TABLE s, DESCRIPTOR(ts), 4 {US}) AS a"
        f" JOIN TUMBLE(TABLE s, DESCRIPTOR(ts), 4 {US}) AS b"
        " ON a.window_end = b.window_end AND a.k = b.k AND a.v < b.v",
        f"SELECT a.k, a.window_end, b.v FROM (SELECT * FROM {last_whole(4, 4)}) AS a"
        f" JOIN (SELECT * FROM {last_whole(4, 4)}) AS b"
        " ON a.window_end = b.window_end AND a.k = b.k AND a.v < b.v",
    ),
]

JOINS = [
    f"SELECT s.k, s.v, r.v AS w FROM {S5} JOIN {R9} ON s.k = r.k",
    f"SELECT a.v, b.v AS w FROM {S5} AS a JOIN {S9} AS b ON a.k = b.k AND a.v < b.v",
    f"SELECT s.k, r.k AS j FROM {S5} JOIN {R5} ON s.k <=> r.k",
    f"SELECT s.ts, r.ts AS u FROM {S9} JOIN {R9} ON r.ts BETWEEN s.ts AND s.ts + INTERVAL '3' MICROSECOND",
    f"SELECT s.k, r.k AS j FROM {S9} JOIN {R9} ON s.ts < r.ts AND (s.k = r.k OR s.v IS NULL)",
    f"SELECT s.k, r.k AS j FROM {S5}, {R5} WHERE s.v = r.v",
    f"SELECT s.k, r.v FROM {S5} CROSS JOIN {R5}",
    f"SELECT k, s.v, r.v AS w FROM {S5} JOIN {R5} USING (k)",
    f"SELECT * FROM (SELECT k, v FROM {S5}) AS a JOIN (SELECT k, ts FROM {R5}) AS b USING (k)",
    f"SELECT s.k, s.v, r.v AS w FROM {S5} LEFT JOIN {R5} ON s.k = r.k",
    f"SELECT s.k, s.v, r.v AS w FROM {S5} LEFT JOIN {R5} ON s.k = r.k AND s.v > 0 AND r.v > 0",
    f"SELECT s.k, r.k AS j FROM {S5} LEFT JOIN {R5} ON s.k = r.k WHERE r.k IS NULL",
    f"SELECT s.k, r.k AS j, r.v FROM {S5} RIGHT JOIN {R9} ON s.k = r.k",
    f"SELECT s.k, r.k AS j, s.v, r.v AS w FROM {S5} FULL JOIN {R9} ON s.k = r.k AND s.v <> r.v",
    f"SELECT k, s.v, r.v AS w FROM {S5} LEFT JOIN {R5} USING (k)",
    f"SELECT k, s.v, r.v AS w FROM {S5} RIGHT JOIN {R5} USING (k)",
    f"SELECT k, s.v, r.v AS w FROM {S5} FULL JOIN {R5} USING (k)",
    f"SELECT k, v, ts FROM {S5} LEFT SEMI JOIN {R9} ON s.k = r.k",
    f"SELECT k, v FROM {S5} LEFT ANTI JOIN {R9} ON s.k = r.k AND s.v < r.v",
    f"SELECT s.k, r.v, x.v AS w FROM {S5} JOIN {R5} ON s.k = r.k LEFT JOIN {S9} AS x ON x.v = r.v",
    "SELECT s.v, r.v AS w FROM s [ROWS 2] JOIN r [PARTITION BY k ROWS 1] ON s.k = r.k",
    f"SELECT s.k, r.v FROM s [TUMBLE 6 {US}] JOIN r [FIXED 4 {US}] ON s.k = r.k",
    f"SELECT s.k, t.name FROM {S9} JOIN t ON s.k = t.id",
    f"SELECT t.id, t.name, s.v FROM t JOIN {S9} ON s.k = t.id",
    f"SELECT s.k, t.name FROM {S9} LEFT JOIN t ON s.k = t.id AND t.name = 'x'",
    f"SELECT t.id, s.v FROM {S9} RIGHT JOIN t ON s.k = t.id",
    "SELECT a.id, b.name FROM t AS a JOIN t AS b ON a.id < b.id",
    f"SELECT s.k FROM {S9} LEFT ANTI JOIN t ON s.k = t.id",
    f"SELECT k, w FROM (SELECT k, v AS w FROM {S5}) AS a NATURAL JOIN (SELECT k, ts FROM {R9}) AS b",
]  # fmt: skip

# Over no rows DuckDB has a row for the set without keys; Spark has none.
_SOME = " HAVING COUNT(*) > 0"
_GROUPED = [
    f"SELECT k, v, COUNT(*) AS n, GROUPING(k) AS a, GROUPING(v) AS b FROM {S9} GROUP BY ROLLUP (k, v)",
    f"SELECT k, v, SUM(v) AS n FROM {S9} GROUP BY CUBE (k, v)",
    f"SELECT k + 1 AS j, CASE WHEN GROUPING(k + 1) = 1 THEN 'all' END AS w, COUNT(*) AS n FROM {S9}"
    " GROUP BY ROLLUP (k + 1)",
]
GROUPINGS: list[str | Case] = [
    *(Case(sql, sql + _SOME) for sql in _GROUPED),
    f"SELECT k, v, MAX(ts) AS n FROM {S9} GROUP BY GROUPING SETS ((k, v), (v), ()) HAVING COUNT(*) > 1",
    f"SELECT k, v, COUNT(*) AS n FROM {S9} GROUP BY k, ROLLUP (v)",
    f"SELECT COUNT(*) AS n, SUM(v) AS t FROM {S9} GROUP BY GROUPING SETS (())",
]

VALUES_OF_SUBQUERIES: list[str | Case] = [
    f"SELECT k, v - (SELECT AVG(v) FROM {R9}) AS d FROM {S5}",
    f"SELECT k, v FROM {S5} WHERE v > (SELECT AVG(v) FROM {R9})",
    f"SELECT k, v FROM {S5} WHERE v <= (SELECT MAX(r.v) FROM {R9} WHERE r.k = s.k)",
    f"SELECT k, (SELECT COUNT(*) FROM {R9} WHERE r.k = s.k) AS n FROM {S5}",
    f"SELECT k, (SELECT COUNT(*) + s.v FROM {R9} WHERE r.k = s.k AND r.v > 0) AS n FROM {S5}",
    f"SELECT k, (SELECT SUM(r.v) FROM {R9} WHERE r.k = s.k AND r.ts <= s.ts) AS n FROM {S5}",
    f"SELECT k, (SELECT COUNT(*) FROM {R9} WHERE r.k < s.k) AS n, (SELECT MAX(v) FROM {R5}) AS m FROM {S5}",
    f"SELECT k, (SELECT SUM(r.v * s.v) FROM {R9} WHERE r.k = s.k) AS n FROM {S5}",
    f"SELECT k, (SELECT COUNT(*) FROM {R9} WHERE r.k = s.k AND r.k = s.v) AS n FROM {S9}",
    f"SELECT COALESCE((SELECT MAX(k) FROM {R5}), (SELECT COUNT(*) FROM {S5})) AS x",
    f"SELECT k, (SELECT v FROM {R9} ORDER BY ts DESC, v DESC, k LIMIT 1) AS newest FROM {S5}",
    f"SELECT k, (SELECT 7) AS seven, EXISTS (SELECT 1 WHERE s.v > 0) AS e FROM {S5}",
    f"SELECT (SELECT COUNT(*) FROM {R5}) AS x WHERE EXISTS (SELECT 1 FROM {S5})",
    f"SELECT k, SUM(v) AS total, SUM(v) - (SELECT SUM(v) FROM {R9}) AS rest FROM {S9} GROUP BY k",
    f"SELECT k, SUM(v + (SELECT COUNT(*) FROM {R9})) AS total FROM {S9} GROUP BY k",
    f"SELECT k FROM {S9} GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM {R5})",
    f"SELECT COUNT(*) - (SELECT COUNT(*) FROM {R5}) AS d FROM {S9}",
    f"SELECT k, v FROM {S5} WHERE v = 0 OR k IN (SELECT k FROM {R9})",
    f"SELECT k, k IN (SELECT k FROM {R5}) AS a, k NOT IN (SELECT v FROM {R9}) AS b FROM {S5}",
    f"SELECT k, v IN (SELECT r.v FROM {R9} WHERE r.k = s.k) AS a FROM {S5}",
    f"SELECT k, EXISTS (SELECT 1 FROM {R5}) AS a, NOT EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k) AS b"
    f" FROM {S5}",
    f"SELECT k FROM {S5} WHERE v = 1 OR EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k AND r.v < s.v)",
    f"SELECT CASE WHEN EXISTS (SELECT * FROM {R5} WHERE r.k IS NULL) THEN k ELSE v END AS x FROM {S5}",
    *(
        f"SELECT k, v {operator} {word} (SELECT r.v FROM {R9} WHERE r.k = s.k) AS a,"
        f" v {operator} {word} (SELECT k FROM {R5}) AS b FROM {S5}"
        for operator in ("=", "<>", "<", "<=", ">", ">=")
        for word in ("ANY", "ALL")
    ),
    f"SELECT k FROM {S5} WHERE v > ALL (SELECT v FROM {R5} WHERE v IS NOT NULL)",
    f"SELECT k, (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {R9} GROUP BY k) AS g) AS most FROM {S5}",
]

SUBQUERIES = [
    f"SELECT k, v FROM {S5} WHERE k IN (SELECT k FROM {R9})",
    f"SELECT k, v FROM {S5} WHERE k NOT IN (SELECT k FROM {R9} WHERE k IS NOT NULL)",
    f"SELECT k, v FROM {S5} WHERE k NOT IN (SELECT k FROM {R5})",
    f"SELECT k, v FROM {S5} WHERE NOT (k IN (SELECT v FROM {R5})) AND v > 0",
    f"SELECT k, v FROM {S5} WHERE v + 1 IN (SELECT k * 2 FROM {R9})",
    f"SELECT k, v FROM {S5} WHERE (k, v) IN (SELECT k, v FROM {R9})",
    f"SELECT k, v FROM {S5} WHERE k IN (SELECT r.v FROM {R9} WHERE r.k = s.k)",
    f"SELECT k, v FROM {S5} WHERE k NOT IN (SELECT r.v FROM {R9} WHERE r.k = s.v)",
    f"SELECT k, v FROM {S5} WHERE EXISTS (SELECT * FROM {R5})",
    f"SELECT k, v FROM {S5} WHERE NOT EXISTS (SELECT 1 FROM {R5} WHERE r.v > 1)",
    f"SELECT k, v FROM {S5} WHERE EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k AND r.v < s.v)",
    f"SELECT k, v FROM {S5} WHERE NOT EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k AND r.ts > s.ts)",
    f"SELECT k, v FROM {S5} WHERE v > 0 AND EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k OR s.k IS NULL)"
    f" AND k NOT IN (SELECT v FROM {R5} WHERE v IS NOT NULL)",
    f"SELECT k FROM {S5} WHERE k IN (SELECT MAX(k) FROM {R9})",
    f"SELECT k FROM {S5} WHERE v IN (SELECT COUNT(*) FROM {R5} GROUP BY k)",
    f"SELECT k FROM {S5} WHERE k IN (SELECT k FROM {R5} UNION SELECT v FROM {R5})",
    f"SELECT k FROM {S5} WHERE EXISTS (SELECT 1 FROM {R9} WHERE r.k = s.k AND r.v IN (SELECT id FROM t))",
    f"SELECT id FROM t WHERE id NOT IN (SELECT k FROM {S9})",
    f"SELECT k, SUM(v) AS total FROM {S9} WHERE k IN (SELECT id FROM t) GROUP BY k",
]

SET_OPERATIONS = [
    f"SELECT k, v FROM {S5} {words} SELECT k, v FROM {R9}"
    for words in ("UNION ALL", "UNION", "EXCEPT ALL", "EXCEPT", "INTERSECT ALL", "INTERSECT")
] + [
    f"SELECT k FROM {S9} EXCEPT ALL SELECT k FROM {R5} UNION ALL SELECT v FROM {R5}",
    f"SELECT k FROM {S9} UNION SELECT v FROM {R5} INTERSECT SELECT k FROM {R9}",
    f"(SELECT k FROM {S9} UNION SELECT v FROM {R5}) INTERSECT ALL SELECT k FROM {R9}",
    f"SELECT k, 1.5 AS x FROM {S5} UNION ALL SELECT v, k FROM {R5}",
    f"SELECT k, NULL AS x FROM {S5} UNION SELECT v, k FROM {R5}",
    f"SELECT id FROM t EXCEPT SELECT k FROM {S9}",
    f"SELECT k FROM (SELECT k FROM {S5} UNION ALL SELECT k FROM {R5}) AS u WHERE k > 0",
    f"SELECT DISTINCT k FROM {S9}",
    f"SELECT DISTINCT k, v > 0 AS positive FROM {S9}",
    f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT v FROM {S9}) AS d",
]  # fmt: skip

AGGREGATES: list[str | Case] = [
    f"SELECT COUNT(*) AS n, COUNT(v) AS m, SUM(v) AS s, AVG(v) AS a, MIN(v) AS low, MAX(v) AS high FROM {S5}",
    "SELECT COUNT(*) AS n, SUM(v) AS s, MAX(ts) AS last FROM s [NOW]",
    f"SELECT STDDEV(v) AS sd, COUNT(DISTINCT v) AS kinds, SUM(DISTINCT v) AS once FROM {S9}",
    f"SELECT k, COUNT(*) AS n, COUNT(v) AS m, SUM(v) AS s, AVG(v) AS a FROM {S9} GROUP BY k",
    f"SELECT k, MIN(v) AS low, MAX(v) AS high, MAX(ts) AS last, STDDEV(v) AS sd FROM {S9} GROUP BY k",
    f"SELECT k, COUNT(DISTINCT v) AS kinds FROM {S9} GROUP BY k",
    f"SELECT k, COUNT(*) FILTER (WHERE v > 0) AS positive, SUM(v) FILTER (WHERE v > 1) AS large"
    f" FROM {S9} GROUP BY k",
    f"SELECT k, v, COUNT(*) AS n FROM {S9} GROUP BY k, v",
    f"SELECT COUNT(*) AS n FROM {S9} GROUP BY k",
    f"SELECT k FROM {S9} GROUP BY k",
    f"SELECT k + 1 AS next, COUNT(*) AS n FROM {S9} GROUP BY k + 1",
    f"SELECT v > 0 AS positive, SUM(k) AS total FROM {S9} GROUP BY 1",
    f"SELECT k % 2 AS parity, COUNT(*) AS n FROM {S9} GROUP BY parity",
    f"SELECT k, SUM(v) AS total FROM {S9} GROUP BY k HAVING COUNT(*) > 1",
    f"SELECT k, SUM(v) AS total FROM {S9} GROUP BY k HAVING SUM(v) > 1 AND k IS NOT NULL",
    f"SELECT k, SUM(v) AS total FROM {S9} GROUP BY k HAVING total > 1",
    f"SELECT COUNT(*) AS n FROM {S5} HAVING COUNT(*) > 2",
    f"SELECT SUM(v) + COUNT(*) * 2 AS a, MAX(v) - MIN(v) AS spread, SUM(k * v) / COUNT(*) AS b FROM {S9}",
    f"SELECT k, CASE WHEN COUNT(*) > 1 THEN 'many' ELSE 'one' END AS size FROM {S9} GROUP BY k",
    f"SELECT MAX(n) AS most, AVG(n) AS mean FROM (SELECT k, COUNT(*) AS n FROM {S9} GROUP BY k) AS g",
    f"SELECT SUM(d) AS sum, AVG(d) AS mean, SUM(x) AS total, AVG(x) AS middle, MAX(name) AS last FROM {M9}",
    f"SELECT ok, COUNT(*) AS n, MIN(d) AS least, STDDEV(x) AS sd FROM {M9} GROUP BY ok",
    f"SELECT s.k, COUNT(*) AS n, SUM(r.v) AS total FROM {S5} JOIN {R9} ON s.k = r.k GROUP BY s.k",
    f"SELECT s.k, COUNT(r.k) AS n FROM {S5} LEFT JOIN {R9} ON s.k = r.k GROUP BY s.k",
    f"SELECT k, COUNT(*) AS n FROM {S9} WHERE v > 0 GROUP BY ALL",
    f"SELECT k, BOOL_AND(v > 0) AS b, BOOL_OR(v > 1) AS c FROM {S9} GROUP BY k",
    Case(
        f"SELECT k, COUNT_IF(v > 0) AS a, COUNT_IF(v > 0) FILTER (WHERE v < 2) AS b FROM {S9} GROUP BY k",
        "SELECT k, COUNT(*) FILTER (WHERE v > 0), COUNT(*) FILTER (WHERE v > 0 AND v < 2)"
        f" FROM {S9} GROUP BY k",
    ),
    Case(f"SELECT EVERY(ok) AS a, ANY(ok) AS b, SOME(x > 1) FILTER (WHERE ok) AS c FROM {M9}",
         f"SELECT BOOL_AND(ok), BOOL_OR(ok), BOOL_OR(x > 1) FILTER (WHERE ok) FROM {M9}"),
    Case(f"SELECT k, ANY_VALUE(v) AS one FROM {S9} GROUP BY k", f"SELECT k, MIN(v) FROM {S9} GROUP BY k"),
    f"SELECT k, VARIANCE(v) AS a, VAR_POP(v) AS b, STDDEV_POP(v) AS c, VAR_SAMP(v) AS d FROM {S9} GROUP BY k",
    f"SELECT VAR_POP(x) AS a, STDDEV_SAMP(d) AS b, VARIANCE(DISTINCT v) AS c FROM {M9}, {S5}",
    f"SELECT k, MEDIAN(v) AS a, MEDIAN(DISTINCT v) FILTER (WHERE v < 2) AS b FROM {S9} GROUP BY k",
    Case(f"SELECT PERCENTILE(x, 0.9) AS a, PERCENTILE(d, 0) AS b, PERCENTILE(seq, 0.25) AS c FROM {M9}",
         f"SELECT quantile_cont(x, 0.9), quantile_cont(d::DOUBLE, 0), quantile_cont(seq, 0.25) FROM {M9}"),
    "SELECT COUNT(*) AS n, MIN(name) AS first FROM t",
    f"SELECT SUM(v) AS s FROM {S5} WHERE v > 99",
]  # fmt: skip

NESTED = [
    f"SELECT a.k, a.n FROM (SELECT k, COUNT(*) AS n FROM {S9} GROUP BY k) AS a WHERE a.n > 1",
    f"WITH a AS (SELECT k, v FROM {S5}), b AS (SELECT k, MAX(v) AS top FROM a GROUP BY k)"
    " SELECT a.k, a.v, b.top FROM a JOIN b ON a.k = b.k",
    f"WITH a (x, y) AS (SELECT k, v FROM {S5}) SELECT y FROM a WHERE x > 0",
    f"WITH a AS (SELECT k FROM {S5}) SELECT k FROM a UNION ALL SELECT k FROM a",
    f"SELECT d.x, d.y FROM (SELECT k, v FROM {S5}) AS d (x, y)",
    "SELECT * FROM fresh",
    f"SELECT k, v FROM fresh [RANGE 3 {US}] WHERE v > 0",
    "SELECT k, v, ts FROM fresh [ROWS 2]",
    f"SELECT * FROM pairs [TUMBLE 4 {US}]",
    "SELECT k, n FROM per_k WHERE n > 1",
    "SELECT * FROM summary",
    "SELECT p.k, p.n, q.most FROM per_k AS p JOIN summary AS q ON p.n = q.most",
    "SELECT k, COUNT(*) AS n, MAX(w) AS top FROM pairs GROUP BY k",
    "SELECT n, COUNT(*) AS groups FROM per_k GROUP BY n",
    "SELECT k, v FROM fresh EXCEPT SELECT k, v FROM pairs",
    "SELECT * FROM lonely",
    "SELECT f.k, p.total FROM fresh AS f LEFT JOIN per_k AS p ON f.k = p.k",
    "SELECT k FROM per_k WHERE k NOT IN (SELECT k FROM lonely)",
]  # fmt: skip

TAGGED_AND_SYNCHRONIZED: list[str | Case] = [
    "SELECT k, v FROM latest",
    "SELECT k, v FROM rooms",
    f"SELECT k, v FROM rooms [RANGE 6 {US}]",
    "SELECT COUNT(*) AS n, AVG(v) AS mean FROM rooms",
    "SELECT a.k, b.v FROM rooms AS a JOIN latest AS b ON a.k = b.v",
    "SELECT k, v FROM rooms SYNC EVERY INTERVAL '4' MICROSECOND",
    f"SELECT k, v FROM rooms SYNC EVERY INTERVAL '5' MICROSECOND ORIGIN {at(2)} AS q",
    "SELECT k, v FROM rooms SYNC ON ticks",
    f"SELECT k, SUM(v) AS total FROM {S9} SYNC EVERY INTERVAL '3' MICROSECOND GROUP BY k",
    f"SELECT a.k, b.v FROM {S9} SYNC EVERY INTERVAL '3' MICROSECOND AS a"
    " JOIN rooms SYNC EVERY INTERVAL '3' MICROSECOND AS b ON a.k = b.k",
    "SELECT a.k, b.n FROM latest SYNC ON ticks AS a LEFT JOIN per_k SYNC EVERY INTERVAL '4' MICROSECOND AS b"
    " ON a.k = b.k",
    "SELECT n FROM per_k SYNC EVERY INTERVAL '4' MICROSECOND",
    Case(
        f"SELECT s.k, nrr.name FROM {S9} JOIN nrr ON s.k = nrr.id",
        f"SELECT s.k, n.name FROM {S9} JOIN {versions('nrr')} AS n ON s.k = n.id AND {AS_OF}",
    ),
    Case(
        f"SELECT s.k, n.name FROM {S9} LEFT JOIN nrr AS n ON s.k = n.id",
        f"SELECT s.k, n.name FROM {S9} LEFT JOIN {versions('nrr')} AS n ON s.k = n.id AND {AS_OF}",
    ),
    Case(
        f"SELECT s.k, n.name FROM {S9} JOIN t FOR SYSTEM_TIME AS OF s.ts AS n ON s.k = n.id",
        f"SELECT s.k, n.name FROM {S9} JOIN {versions('t')} AS n ON s.k = n.id AND {AS_OF}",
    ),
]

BRACKETS: list[str | Case] = [
    f"SELECT * FROM (({S5} AS a JOIN {R9} AS b ON a.k = b.k) LEFT JOIN t ON b.v = t.id)",
    f"SELECT a.k, b.v, t.name FROM {S5} AS a LEFT JOIN ({R9} AS b JOIN t ON b.v = t.id) ON a.k = b.k",
    f"SELECT a.k, b.v, c.v AS w FROM {S5} AS a FULL JOIN ({R9} AS b LEFT JOIN {S9} AS c ON b.v = c.v)"
    " ON a.k = b.k",
    f"SELECT a.k, b.v FROM ({S5} AS a) RIGHT JOIN (({R5} AS b)) ON a.k = b.k",
    f"SELECT j.x FROM ((SELECT k, v FROM {S5}) AS d (x, y) JOIN {R9} ON d.x = r.k) AS j WHERE j.y > 0",
    f"SELECT * FROM ((SELECT k, v FROM {S5}) AS d (v, k))",
    f"(SELECT k FROM {S5}) UNION ALL ((SELECT v FROM {R5}) EXCEPT SELECT k FROM {R9})",
    f"SELECT * FROM (SELECT k FROM {S5}) AS a JOIN (SELECT k FROM {R9}) AS b ON a.k = b.k",
    f"SELECT x.v FROM (SELECT s.k, r.k, s.v FROM {S5} JOIN {R9} ON s.k = r.k) AS x",
    f"SELECT * EXCEPT (v) FROM {S5}",
    f"SELECT a.* EXCEPT (k), b.k FROM {S5} AS a JOIN {R9} AS b ON a.k = b.k",
    f"SELECT * FROM {S5} AS a NATURAL JOIN (SELECT v, 1 AS one, k FROM {R9}) AS b",
    f"SELECT * FROM (SELECT v, k FROM {S5}) AS a JOIN (SELECT k, v, 2 AS two FROM {R9}) AS b USING (v, k)",
    f"WITH a AS (SELECT k FROM {S5}) SELECT k FROM a UNION ALL"
    f" SELECT k FROM (WITH a AS (SELECT v AS k FROM {R5}) SELECT k FROM a) AS b",
    f"SELECT k, COUNT(DISTINCT v, ts) AS n FROM {S9} GROUP BY k",
    f"SELECT COUNT(DISTINCT k, v) AS n, COUNT(DISTINCT v, k) FILTER (WHERE k > 0) AS m FROM {S9}",
    f"SELECT COUNT(DISTINCT name, x) AS n, COUNT(DISTINCT d, ok, name) AS m FROM {M9}",
    f"SELECT TRY_CAST(name AS INT) AS a, TRY_CAST(x AS STRING) AS b FROM {M9} WHERE x = 0.5",
    f"SELECT k IN ('1', '2') AS b, k BETWEEN '1' AND '2' AS c FROM {S5}",
]  # fmt: skip

CONSTANTS: list[str | Case] = [
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (1, 'a')) AS w (k, word)",
    f"SELECT s.v, w.word FROM {S9} JOIN (VALUES (1, 'a'), (2, 'b')) AS w (k, word) ON s.k = w.k",
    f"SELECT w.k, s.v FROM (VALUES (0), (1), (7)) AS w (k) LEFT JOIN {S9} ON s.k = w.k",
    f"SELECT k FROM {S9} WHERE k IN (SELECT a FROM (VALUES (1), (NULL)) AS w (a))",
    f"SELECT k FROM {S9} WHERE k NOT IN (SELECT a FROM (VALUES (0), (1)) AS w (a))",
    f"SELECT a FROM (VALUES (0), (1), (9)) AS w (a) EXCEPT SELECT k FROM {S9}",
    f"VALUES (1, 2), (3, 4) UNION ALL SELECT k, v FROM {S5}",
    "SELECT MAX(a) AS most, COUNT(*) AS n FROM (VALUES (1.5), (2), (NULL)) AS w (a)",
]

ALL = "k NULLS FIRST, v NULLS FIRST, ts NULLS FIRST"
RANKS: list[str | Case] = [
    f"SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) AS place FROM {S9}",
    "SELECT k, DENSE_RANK() OVER (ORDER BY v NULLS FIRST) AS a, RANK() OVER (ORDER BY k NULLS LAST) AS b"
    f" FROM {S5}",
    f"SELECT k, v FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY {ALL}) <= 2",
    f"SELECT k, v FROM {S9} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY {ALL}) <= 2",
    f"SELECT k, v, place FROM (SELECT k, v, RANK() OVER (ORDER BY v DESC NULLS LAST) AS place FROM {R9})"
    " AS x WHERE place <= 2",
    "SELECT k, n FROM per_k QUALIFY RANK() OVER (ORDER BY n DESC NULLS LAST) <= 1",
    f"SELECT k, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC NULLS LAST) AS place FROM {S9} GROUP BY k",
    f"SELECT k, v, ts FROM latest ORDER BY {ALL} LIMIT 2",
    f"SELECT k, v, ts FROM {S9} ORDER BY {ALL} LIMIT 2 OFFSET 1",
    f"SELECT DISTINCT ON (k) k, v, ts FROM {S9} ORDER BY k NULLS FIRST, v DESC NULLS LAST, ts NULLS FIRST",
    f"SELECT k FROM {R5} WHERE k IN (SELECT k FROM {S9} ORDER BY {ALL} LIMIT 2)",
    f"(SELECT k FROM {S5} UNION ALL SELECT k FROM {R5}) ORDER BY k NULLS FIRST LIMIT 3",
]

OVERS: list[str | Case] = [
    f"SELECT k, v, LAG(v) OVER (PARTITION BY k ORDER BY ts, v NULLS FIRST) AS a FROM {S9}",
    f"SELECT v, LEAD(v, 2, 0) OVER (ORDER BY {ALL}) AS a, LAG(k, 1, v) OVER (ORDER BY {ALL}) AS b FROM {S5}",
    f"SELECT k, FIRST_VALUE(v) OVER w AS a, LAST_VALUE(v) OVER w AS b, NTH_VALUE(v, 2) OVER w AS c FROM {S9}"
    f" WINDOW w AS (PARTITION BY k ORDER BY {ALL} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "SELECT k, ts, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS a, COUNT(*) OVER (PARTITION BY k) AS b"
    f" FROM {S9}",
    "SELECT k, COUNT(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) AS a,"
    " MAX(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND FOLLOWING AND UNBOUNDED FOLLOWING) AS b"
    f" FROM {S9}",
    "SELECT k, v, AVG(v) OVER (ORDER BY k NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a,"
    " MIN(v) OVER (ORDER BY k DESC NULLS LAST RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM latest",
    f"SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY {ALL} ROWS 2 PRECEDING) AS a FROM s",
    "SELECT k, n, n - LAG(n) OVER (ORDER BY k NULLS FIRST) AS more, SUM(n) OVER () AS whole FROM per_k",
    f"SELECT k, SUM(COUNT(*)) OVER (ORDER BY k NULLS FIRST) AS n FROM {S9} GROUP BY k",
    f"SELECT k, v, SUM(v) FILTER (WHERE v > 1) OVER (PARTITION BY k) AS a FROM {S9} QUALIFY a > 2 OR k = 1",
    f"SELECT k, v, COUNT(*) OVER (PARTITION BY k) AS n FROM {S9} QUALIFY"
    f" ROW_NUMBER() OVER (PARTITION BY k ORDER BY {ALL}) <= 2",
    f"SELECT k, a FROM (SELECT k, LAG(v) OVER (PARTITION BY k ORDER BY {ALL}) AS a FROM {R9}) AS x"
    " WHERE k = 1",
    Case(
        f"SELECT k, LAG(v) IGNORE NULLS OVER (ORDER BY {ALL}) AS a, LAST(v, TRUE) OVER (ORDER BY {ALL}) AS b"
        f" FROM {S9}",
        f"SELECT k, LAG(v IGNORE NULLS) OVER (ORDER BY {ALL}) AS a,"
        f" LAST(v IGNORE NULLS) OVER (ORDER BY {ALL}) AS b FROM {S9}",
    ),
]

BY = [
    Case(
        f"SELECT k, MAX_BY(v, ts) AS a, MIN_BY(v, ts) AS b, FIRST(v) AS c, LAST(v) AS d FROM {S9} GROUP BY k",
        "SELECT k, first(v ORDER BY ts DESC, v DESC NULLS LAST) AS a,"
        " first(v ORDER BY ts, v NULLS FIRST) AS b, first(v ORDER BY ts, v NULLS FIRST) AS c,"
        f" first(v ORDER BY ts DESC, v DESC NULLS LAST) AS d FROM {S9} GROUP BY k",
    ),
    Case(
        "SELECT MAX_BY(k, v) FILTER (WHERE k <> 1) AS a, MIN_BY(k + v, v) AS b FROM latest",
        "SELECT first(k ORDER BY v DESC, k DESC NULLS LAST) FILTER (WHERE k <> 1 AND v IS NOT NULL) AS a,"
        " first(k + v ORDER BY v, k + v NULLS FIRST) FILTER (WHERE v IS NOT NULL) AS b FROM latest",
    ),
]

TOPICS = {
    "filter": FILTERS,
    "expression": EXPRESSIONS,
    "window": WINDOWS,
    "window function": WINDOW_FUNCTIONS,
    "session": SESSIONS,
    "join": JOINS,
    "subquery": SUBQUERIES,
    "value of a subquery": VALUES_OF_SUBQUERIES,
    "grouping sets": GROUPINGS,
    "set operation": SET_OPERATIONS,
    "aggregate": AGGREGATES,
    "nested": NESTED,
    "tagged and synchronized": TAGGED_AND_SYNCHRONIZED,
    "brackets and names": BRACKETS,
    "constants": CONSTANTS,
    "rank": RANKS,
    "over": OVERS,
    "greatest by": BY,
}
CASES = [
    Case(q.sql, q.duck, topic) if isinstance(q, Case) else Case(q, None, topic)
    for topic, queries in TOPICS.items()
    for q in queries
]
