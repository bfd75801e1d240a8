"""Broken SQL: a corpus of every kind of statement, and random mutations of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

CORPUS = """
CREATE STREAM n (a INT, b STRING, c DECIMAL(10,2), ts TIMESTAMP, up TIMESTAMP,
                 TIMELINE ts LATENESS INTERVAL '5' SECOND SEQUENCE BY (a, b), TIMELINE up)
FROM csv('data/*.csv', header => true, sep => ';', maxFilesPerTrigger => 5) IDLE AFTER INTERVAL '30' SECOND

CREATE STREAM n (host STRING, `load` DOUBLE, ts TIMESTAMP, TIMELINE ts) FROM socket('localhost', 9999)

CREATE STREAM n (a BIGINT, ts TIMESTAMP, TIMELINE ts) FROM kafka(subscribe => 'x', kafka.port => -1)

CREATE TAGGED STREAM n OVER s KEY (k, v) DELETE WHEN v = 0 OR k IS NULL

CREATE NON RETROACTIVE TABLE n (id INT, name STRING, PRIMARY KEY (id)) FROM parquet('stations/')

CREATE TABLE n (id INT, name STRING, PRIMARY KEY (id, name))

CREATE OR REPLACE COMPLETE VIEW n WITH (history => INTERVAL '1' DAY) AS
SELECT k, COUNT(*) AS c FROM s [RANGE 5 MINUTES] GROUP BY k

CREATE STREAMED VIEW n WITH (history => 'forever') AS SELECT DISTINCT k FROM s UNION SELECT k FROM r

CREATE STREAM n TIMELINE a, b AS SELECT s.k, s.ts AS a, r.ts AS b FROM s
JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR

INSERT INTO s VALUES (1, 2, TIMESTAMP '2026-01-01 00:00:01'), (NULL, -1, '2026-01-01T00:00:02Z')

INSERT INTO t (name, id) VALUES ('it''s', 1 + 1), (upper('x'), CAST('7' AS INT)) AT TIMESTAMP '2026-01-01'

INSERT INTO t SELECT k, 'x' FROM s [ROWS 3] WHERE v > 0

UPDATE t SET name = concat(name, '!'), id = id + 1 WHERE id = 1 AT TIMESTAMP '2026-01-01 10:00:00'

DELETE FROM t WHERE id IN (1, 2) OR name LIKE 'a%' AT TIMESTAMP '2026-01-01 10:00:00'

DROP VIEW IF EXISTS nothing CASCADE

DROP VIEW per_k CASCADE

DROP TAGGED STREAM rooms

SHOW STREAMS; SHOW TABLES; SHOW VIEWS; -- and a comment
DESCRIBE s; DESC t

CLOCK EVERY INTERVAL '1' SECOND; SET answer_from_views = off

EXPLAIN SELECT k FROM s [NOW] WHERE v > 0 /* why */

SELECT k, v AS w
FROM s [RANGE 15 MINUTES SLIDE 1 MINUTE LAG 30 SECONDS ORIGIN TIMESTAMP '2026-01-01 00:00:05']
ORDER BY k DESC NULLS LAST, 2 LIMIT 5 OFFSET 2 AS OF TIMESTAMP '2026-01-01 00:00:00'

SELECT a.*, b.ts AS later FROM s [TUMBLE 10 MINUTES] AS a
JOIN (SELECT k, ts FROM r [FIXED 1 HOUR]) b USING (k)

SELECT z.* FROM s [SINCE TIMESTAMP '2026-01-01'], r [UNTIL TIMESTAMP '2026-01-01 12:00:00'] AS z
WHERE s.k < z.k

SELECT COUNT(*) FROM s [BETWEEN TIMESTAMP '2026-01-01' AND TIMESTAMP '2026-01-02'] HAVING COUNT(*) > 1

SELECT * FROM s [PARTITION BY k, v ROWS 3] [ROWS 2]

SELECT * FROM s WHERE NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW AND (v > 0 OR k IN (1, 2, NULL))

SELECT s.k, CASE WHEN s.v > 1 THEN 'a' WHEN s.v IS NULL THEN NULL ELSE upper(t.name) END AS word,
       CAST(s.v AS DECIMAL(5,2)) / 3, -s.k % 2, s.ts - INTERVAL '1 02:03:04.5' DAY TO SECOND,
       1.5e3, 0.5, 7L, X'1F'
FROM s LEFT JOIN t ON s.k = t.id AND t.name RLIKE '^a' FULL JOIN r ON r.k <=> s.k

SELECT k, SUM(v) FILTER (WHERE v > 0) AS total, COUNT(DISTINCT v), AVG(v), STDDEV(v), MIN(ts) FROM s
GROUP BY 1 HAVING total > 1

SELECT k FROM s
WHERE k NOT IN (SELECT r.k FROM r WHERE r.v = s.v) AND NOT EXISTS (SELECT 1 FROM t WHERE id = k)

WITH a (x) AS (SELECT k FROM s), b AS (SELECT x FROM a EXCEPT ALL SELECT k FROM r)
SELECT b.x FROM b LEFT SEMI JOIN a ON a.x = b.x INTERSECT SELECT id FROM t

SELECT s.k, n.name FROM s JOIN t FOR SYSTEM_TIME AS OF s.ts AS n ON s.k = n.id LEFT ANTI JOIN r ON r.k = s.k

RSTREAM(SELECT k FROM rooms SYNC EVERY INTERVAL '2' MINUTE ORIGIN TIMESTAMP '2026-01-01')
SYNC EVERY INTERVAL '4' MINUTE

ISTREAM(SELECT k FROM rooms SYNC ON ticks); DSTREAM(SELECT DISTINCT k FROM s [ROWS 3])

SELECT EXTRACT(HOUR FROM ts), TRIM(BOTH 'x' FROM 'xax'), SUBSTRING('abc' FROM 2 FOR 1), POSITION('a' IN 'ba'),
       date_trunc('hour', ts), coalesce(k, v, 0), if(k > 0, 1, 2), k BETWEEN 1 AND 2, k IS DISTINCT FROM v,
       ~k, k << 1, k || 'x', NOT (k = 1) IS TRUE FROM s CROSS JOIN t

SELECT `odd``name`.k FROM (SELECT k, ts FROM s) [RANGE 2 SECONDS] AS `odd``name` NATURAL JOIN r
""".strip().split("\n\n")
"""At least one statement of every kind, with all that it may have."""

_TOKENS = re.compile(r"\s+|\w+|'(?:[^'\\]|\\.|'')*'|`[^`]*`|--[^\n]*|<=>|[<>=!|]{2}|.", re.DOTALL)
_CHARACTERS = [
    *"'\"`\\;,.()[]{}<>=!@#$%^&*-+/|~?:_ \t\n\r\0éßİ漢²٣🙂\u200b\ufeff\u202e\ud800",
    *("''", "\\'", "--", "/*", "*/", "\x1b[31m", "$$", "::", "=>", "->", "||", "{{x}}", "{%", "@x", ":x"),
]
_NUMBERS = [
    "0", "-0", "1", "-1", "00000", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "99999999999999999999L", "1e400", "-1e400", "1e-400", "1e99999999999", "1.",
    ".5", "1.5.5", "0x1F", "0b1", "1_000", "NaN", "1e", "1Y", "999Y", "1.5L", "1BD", "1e5BD",
    "9" * 39, "9" * 5000, "0" * 5000, "0." + "3" * 60,
]  # fmt: skip
_WORDS = [
    "SELECT", "FROM", "WHERE", "NULL", "NOT", "AS", "ON", "BY", "GROUP", "ORDER", "UNION", "JOIN",
    "NOW", "ROWS", "RANGE", "INTERVAL", "TIMESTAMP", "DATE", "CAST", "CASE", "WHEN", "END", "EXISTS",
    "IN", "BETWEEN", "SYNC", "EVERY", "OVER", "PARTITION", "VALUES", "WITH", "LATERAL", "PIVOT",
    "UNNEST", "TABLESAMPLE", "QUALIFY", "WINDOW", "ARRAY", "MAP", "STRUCT", "LIKE", "ANY", "ALL",
    "SOME", "ESCAPE", "AT", "OF", "TIMELINE", "KEY", "FILTER", "DISTINCT", "HAVING", "LIMIT", "FETCH",
    "NATURAL", "SEMI", "ANTI", "FULL", "USING", "EXCEPT", "INTERSECT", "ISTREAM", "k", "s", "t", "ts",
    "count", "sum", "rand", "uuid", "explode", "current_timestamp", "grouping", "cube", "rollup",
    "sets", "*",
]  # fmt: skip


def tokens(sql: str) -> list[str]:
    """The words, numbers, strings, signs and blanks of a text; together they are the text."""
    return _TOKENS.findall(sql)


def mutated(chance: random.Random) -> str:
    """A random text: a statement of the corpus after some mutations."""
    parts = tokens(chance.choice(CORPUS))
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        parts = chance.choice(_MUTATIONS)(parts, chance)
    return "".join(parts)


Mutation = Callable[[list[str], random.Random], list[str]]


def _deleted(parts: list[str], chance: random.Random) -> list[str]:
    i = chance.randrange(len(parts) + 1)
    return parts[:i] + parts[i + chance.choice([1, 1, 2, 5]) :]


def _swapped(parts: list[str], chance: random.Random) -> list[str]:
    swapped = list(parts)
    if len(parts) > 1:
        i, j = chance.sample(range(len(parts)), 2)
        swapped[i], swapped[j] = swapped[j], swapped[i]
    return swapped


def _doubled(parts: list[str], chance: random.Random) -> list[str]:
    i = chance.randrange(len(parts) + 1)
    piece = parts[i : i + chance.choice([1, 2, 4, 10])]
    return parts[:i] + [*piece, " "] * chance.choice([1, 1, 1, 30]) + parts[i:]


def _with_characters(parts: list[str], chance: random.Random) -> list[str]:
    """Random characters, also inside of words."""
    text = "".join(parts)
    i = chance.randrange(len(text) + 1)
    return tokens(text[:i] + "".join(chance.choices(_CHARACTERS, k=chance.choice([1, 1, 2, 4]))) + text[i:])


def _truncated(parts: list[str], chance: random.Random) -> list[str]:
    text = "".join(parts)
    i = chance.randrange(len(text) + 1)
    return tokens(text[:i] if chance.random() < 0.8 else text[i:])


def _other_numbers(parts: list[str], chance: random.Random) -> list[str]:
    return [chance.choice(_NUMBERS) if p.isdigit() and chance.random() < 0.5 else p for p in parts]


def _other_words(parts: list[str], chance: random.Random) -> list[str]:
    words = [i for i, p in enumerate(parts) if p.strip()]
    changed = list(parts)
    for i in chance.sample(words, min(len(words), chance.choice([1, 1, 2]))):
        changed[i] = chance.choice(_WORDS + _NUMBERS)
    return changed


def _grafted(parts: list[str], chance: random.Random) -> list[str]:
    """A piece of another statement instead of a piece of this one."""
    other = tokens(chance.choice(CORPUS))
    i, j = chance.randrange(len(parts) + 1), chance.randrange(len(other))
    grafted, gone = chance.choice([1, 3, 8, 20]), chance.choice([0, 1, 5])
    return [*parts[:i], " ", *other[j : j + grafted], " ", *parts[i + gone :]]


def _bracketed(parts: list[str], chance: random.Random) -> list[str]:
    i = chance.randrange(len(parts) + 1)
    j = min(len(parts), i + chance.choice([1, 3, 9]))
    opening, closing = chance.choice(
        [("(", ")"), ("[", "]"), ("ISTREAM(", ")"), ("(SELECT ", ")"), ("CAST(", " AS INT)")]
    )
    return [*parts[:i], opening, *parts[i:j], closing, *parts[j:]]


_MUTATIONS: tuple[Mutation, ...] = (
    _deleted,
    _swapped,
    _doubled,
    _with_characters,
    _truncated,
    _other_numbers,
    _other_words,
    _grafted,
    _bracketed,
)

LONG = {
    "brackets": "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "open brackets": "SELECT " + "(" * 3000,
    "square brackets": "SELECT * FROM s " + "[NOW] " * 3000,
    "queries in brackets": "(" * 1000 + "SELECT 1" + ")" * 1000,
    "subqueries": "SELECT * FROM (" * 500 + "SELECT k FROM s" + ") AS a" * 500,
    "nested EXISTS": "SELECT 1 FROM s WHERE EXISTS (" * 300 + "SELECT 1 FROM s" + ")" * 300,
    "negations": "SELECT " + "NOT " * 5000 + "TRUE",
    "minuses": "SELECT " + "- " * 5000 + "1",
    "sums": "SELECT 1" + " + 1" * 5000,
    "concatenations": "SELECT 'a'" + " || 'a'" * 5000,
    "conditions": "SELECT k FROM s WHERE k = 1" + " AND k = 1" * 5000,
    "alternatives": "SELECT k FROM s WHERE k = 1" + " OR k = 1" * 5000,
    "calls": "SELECT " + "abs(" * 2000 + "1" + ")" * 2000,
    "casts": "SELECT " + "CAST(" * 2000 + "1" + " AS INT)" * 2000,
    "cases": "SELECT " + "CASE WHEN TRUE THEN " * 1000 + "1" + " END" * 1000,
    "branches": "SELECT CASE " + "WHEN k = 1 THEN 2 " * 3000 + "END FROM s",
    "unions": "SELECT k FROM s" + " UNION SELECT k FROM s" * 1000,
    "joins": "SELECT a.k FROM s AS a" + "".join(f" JOIN s AS a{i} ON a.k = a{i}.k" for i in range(300)),
    "columns": "SELECT " + ", ".join(f"k + {i} AS c{i}" for i in range(3000)) + " FROM s",
    "values": "INSERT INTO t VALUES " + ", ".join(f"({i}, 'x')" for i in range(5000)),
    "items": f"SELECT k IN ({', '.join(map(str, range(10000)))}) FROM s",
    "statements": "SHOW VIEWS;" * 5000,
    "a long name": f"SELECT {'k' * 100_000} FROM s",
    "a long string": f"SELECT '{'x' * 1_000_000}'",
    "a long number": f"SELECT {'9' * 100_000}",
    "a long exponent": f"SELECT 1e{'9' * 1000}",
    "a long comment": f"SELECT 1 /* {'x' * 1_000_000} */",
    "nested comments": "SELECT 1 " + "/*" * 3000 + "*/" * 3000,
    "quotes": "'" * 10_001,
    "blanks": " " * 1_000_000,
    "semicolons": ";" * 10_000,
    "backslashes": "SELECT '" + "\\" * 10_001,
    "a wide table": "CREATE TABLE n (" + ", ".join(f"c{i} INT" for i in range(2000)) + ")",
    "types": "CREATE TABLE n (a " + "ARRAY<" * 1000 + "INT" + ">" * 1000 + ")",
    "intervals": "SELECT k FROM s [RANGE " + "-" * 1000 + "5 SECONDS]",
    "common tables": "WITH a0 AS (SELECT k FROM s), "
    + ", ".join(f"a{i} AS (SELECT k FROM a{i - 1})" for i in range(1, 300))
    + " SELECT k FROM a299",
    "joins without ON": "SELECT 1 FROM s" + "".join(f" JOIN s AS a{i}" for i in range(40)),
}
"""Very long and deeply nested texts."""
