"""Expressions and queries with the types and the rows that Spark SQL (ANSI mode off) gives them.

`test_types.py` holds the binder to these tables; `tests/execute/test_types.py` holds the tables to Spark.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

COLUMNS = {
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "i": "INT",
    "big": "BIGINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "m": "DECIMAL(5,2)",
    "w": "DECIMAL(38,10)",
    "z": "DECIMAL(38,0)",
    "ok": "BOOLEAN",
    "word": "STRING",
    "raw": "BINARY",
    "day": "DATE",
    "ts": "TIMESTAMP",
}
"""The columns of the relation `e` that all expressions read."""

LITERALS = {
    "1": "INT",
    "2147483647": "INT",
    "2147483648": "BIGINT",
    "-2147483648": "INT",
    "9223372036854775807": "BIGINT",
    "9223372036854775808": "DECIMAL(19,0)",
    "1Y": "TINYINT",
    "-128Y": "TINYINT",
    "1S": "SMALLINT",
    "1L": "BIGINT",
    "1.5": "DECIMAL(2,1)",
    "0.05": "DECIMAL(2,2)",
    "0.00": "DECIMAL(2,2)",
    "100.0": "DECIMAL(4,1)",
    "-12.50": "DECIMAL(4,2)",
    "1.": "DECIMAL(1,0)",
    ".5": "DECIMAL(1,1)",
    "1e3": "DOUBLE",
    "1.5D": "DOUBLE",
    "1.5F": "FLOAT",
    "1.50BD": "DECIMAL(3,2)",
    "'x'": "STRING",
    "TRUE": "BOOLEAN",
    "X'1F'": "BINARY",
    "DATE '2020-01-01'": "DATE",
    "TIMESTAMP '2020-01-01 00:00:00'": "TIMESTAMP",
    "INTERVAL '1' DAY": "INTERVAL",
    "INTERVAL '1 02:03:04' DAY TO SECOND": "INTERVAL",
    "CAST(NULL AS SMALLINT)": "SMALLINT",
}

ARITHMETIC = {
    # Integers: the wider of the two; / is never whole, DIV always is.
    "tiny + tiny": "TINYINT",
    "tiny + small": "SMALLINT",
    "tiny + 1": "INT",
    "small * i": "INT",
    "i + big": "BIGINT",
    "i - 1": "INT",
    "i % 2": "INT",
    "tiny % big": "BIGINT",
    "i / i": "DOUBLE",
    "tiny / 2": "DOUBLE",
    "big / big": "DOUBLE",
    "i DIV 2": "BIGINT",
    "tiny DIV tiny": "BIGINT",
    "m DIV 2": "BIGINT",
    "-tiny": "TINYINT",
    "-m": "DECIMAL(5,2)",
    "NULL + i": "INT",
    # Floating point
    "i + f": "FLOAT",
    "big * f": "FLOAT",
    "f + x": "DOUBLE",
    "f / f": "DOUBLE",
    "f / i": "DOUBLE",
    "i * x": "DOUBLE",
    "m + f": "DOUBLE",
    "m * x": "DOUBLE",
    "m / x": "DOUBLE",
    # Decimals: room for what can come out, up to 38 digits
    "m + m": "DECIMAL(6,2)",
    "m - w": "DECIMAL(38,9)",
    "m * m": "DECIMAL(11,4)",
    "m / m": "DECIMAL(13,8)",
    "m % m": "DECIMAL(5,2)",
    "m + i": "DECIMAL(13,2)",
    "m + big": "DECIMAL(23,2)",
    "m * tiny": "DECIMAL(9,2)",
    "m + 1": "DECIMAL(6,2)",
    "m * 10": "DECIMAL(8,2)",
    "m / 2": "DECIMAL(9,6)",
    "1 / m": "DECIMAL(9,6)",
    "m + 0.5": "DECIMAL(6,2)",
    "1.5 * 2.25": "DECIMAL(6,3)",
    "1.0 / 3": "DECIMAL(7,6)",
    "w + w": "DECIMAL(38,9)",
    "w * w": "DECIMAL(38,6)",
    "w / w": "DECIMAL(38,6)",
    "w * m": "DECIMAL(38,6)",
    "z + m": "DECIMAL(38,2)",
    # Bits
    "tiny & tiny": "TINYINT",
    "tiny | i": "INT",
    "i ^ big": "BIGINT",
    "~tiny": "TINYINT",
    "~big": "BIGINT",
    "tiny << 1": "INT",
    "big >> 2": "BIGINT",
}

TIME = {
    "ts + INTERVAL '5' SECOND": "TIMESTAMP",
    "INTERVAL '5' SECOND + ts": "TIMESTAMP",
    "ts - INTERVAL '1' DAY": "TIMESTAMP",
    "ts - ts": "INTERVAL",
    "ts - day": "INTERVAL",
    "day - day": "INTERVAL",
    "day + 1": "DATE",
    "1 + day": "DATE",
    "day - tiny": "DATE",
    "day + small": "DATE",
    "day + INTERVAL '1' DAY": "DATE",
    "day - INTERVAL '2' DAYS": "DATE",
    "INTERVAL '1' DAY + day": "DATE",
    "day + INTERVAL '1' HOUR": "TIMESTAMP",
    "day + INTERVAL '1' MONTH": "DATE",
    "INTERVAL '1' YEAR + ts": "TIMESTAMP",
    "ts - INTERVAL '1-6' YEAR TO MONTH": "TIMESTAMP",
    "INTERVAL '1' HOUR + day": "TIMESTAMP",
    "INTERVAL '1' DAY + INTERVAL '1' HOUR": "INTERVAL",
    "INTERVAL '5' SECOND * 2": "INTERVAL",
    "i * INTERVAL '5' SECOND": "INTERVAL",
    "-INTERVAL '5' SECOND": "INTERVAL",
    "EXTRACT(YEAR FROM ts)": "INT",
    "EXTRACT(HOUR FROM ts)": "INT",
    "EXTRACT(SECOND FROM ts)": "DECIMAL(8,6)",
    "EXTRACT(SECOND FROM day)": "DECIMAL(8,6)",
    "second(ts)": "INT",
    "date_trunc('hour', ts)": "TIMESTAMP",
    "trunc(day, 'month')": "DATE",
    "CAST(ts AS DATE)": "DATE",
    "CAST(ts AS BIGINT)": "BIGINT",
    "datediff(day, day)": "INT",
    "unix_micros(ts)": "BIGINT",
    "months_between(ts, ts)": "DOUBLE",
}

WIDENING = {
    "CASE WHEN ok THEN tiny ELSE small END": "SMALLINT",
    "CASE WHEN ok THEN 1 ELSE 2.5 END": "DECIMAL(11,1)",
    "CASE WHEN ok THEN 1 END": "INT",
    "CASE WHEN ok THEN NULL ELSE m END": "DECIMAL(5,2)",
    "CASE WHEN ok THEN i ELSE f END": "FLOAT",
    "CASE WHEN ok THEN m ELSE x END": "DOUBLE",
    "CASE WHEN ok THEN m ELSE f END": "DOUBLE",
    "CASE WHEN ok THEN m ELSE big END": "DECIMAL(22,2)",
    "CASE WHEN ok THEN m ELSE w END": "DECIMAL(38,10)",
    "CASE WHEN ok THEN w ELSE z END": "DECIMAL(38,0)",
    "CASE WHEN ok THEN m ELSE z END": "DECIMAL(38,0)",
    "CASE WHEN ok THEN day ELSE ts END": "TIMESTAMP",
    "CASE i WHEN 1 THEN 'a' WHEN 2 THEN NULL ELSE word END": "STRING",
    "coalesce(i, big)": "BIGINT",
    "coalesce(NULL, i, m)": "DECIMAL(12,2)",
    "nvl(i, x)": "DOUBLE",
    "coalesce(i, 'n/a')": "STRING",
    "coalesce('07', i)": "STRING",
    "nvl(i, '07')": "STRING",
    "ifnull(i, '07')": "STRING",
    "nvl2(i, i, '07')": "STRING",
    "if(true, i, '07')": "STRING",
    "CASE WHEN true THEN i ELSE '07' END": "STRING",
    "nullif(i, '07')": "INT",
    "if(ok, tiny, big)": "BIGINT",
    "nullif(i, big)": "INT",
    "greatest(i, m)": "DECIMAL(12,2)",
    "least(day, ts)": "TIMESTAMP",
    "i > m": "BOOLEAN",
    "i IN (1, 2.5)": "BOOLEAN",
    "word || i": "STRING",
    "abs(m)": "DECIMAL(5,2)",
    "round(m, 1)": "DECIMAL(5,1)",
    "round(m, -1)": "DECIMAL(4,0)",
    "mod(m, 10)": "DECIMAL(4,2)",
    "ceil(m)": "DECIMAL(4,0)",
    "ceil(x)": "BIGINT",
    "sqrt(i)": "DOUBLE",
    "length(word)": "INT",
    "CAST(m AS DECIMAL(10,4))": "DECIMAL(10,4)",
    "CAST(i AS DECIMAL)": "DECIMAL(10,0)",
}

AGGREGATES = {
    "count(*)": "BIGINT",
    "count(DISTINCT word)": "BIGINT",
    "sum(tiny)": "BIGINT",
    "sum(big)": "BIGINT",
    "sum(f)": "DOUBLE",
    "sum(m)": "DECIMAL(15,2)",
    "sum(w)": "DECIMAL(38,10)",
    "sum(z)": "DECIMAL(38,0)",
    "sum(m * m)": "DECIMAL(21,4)",
    "sum(i) / count(*)": "DOUBLE",
    "sum(i) + 0.5": "DECIMAL(22,1)",
    "sum(INTERVAL '1' DAY)": "INTERVAL",
    "avg(i)": "DOUBLE",
    "avg(f)": "DOUBLE",
    "avg(m)": "DECIMAL(9,6)",
    "avg(w)": "DECIMAL(38,14)",
    "avg(z)": "DECIMAL(38,4)",
    "avg(ts - ts)": "INTERVAL",
    "min(tiny)": "TINYINT",
    "max(day)": "DATE",
    "max(word)": "STRING",
    "min(m)": "DECIMAL(5,2)",
    "stddev(i)": "DOUBLE",
    "stddev(m)": "DOUBLE",
    "sum(m) FILTER (WHERE ok)": "DECIMAL(15,2)",
}

EXPRESSIONS = {**LITERALS, **ARITHMETIC, **TIME, **WIDENING, **AGGREGATES}

SET_OPERATIONS = {
    ("tiny", "i"): "INT",
    ("i", "big"): "BIGINT",
    ("i", "f"): "FLOAT",
    ("f", "x"): "DOUBLE",
    ("i", "m"): "DECIMAL(12,2)",
    ("m", "big"): "DECIMAL(22,2)",
    ("m", "w"): "DECIMAL(38,10)",
    ("m", "z"): "DECIMAL(38,0)",
    ("m", "f"): "DOUBLE",
    ("day", "ts"): "TIMESTAMP",
    ("NULL", "word"): "STRING",
    ("day", "NULL"): "DATE",
    ("1", "2.5"): "DECIMAL(11,1)",
}
"""The columns on both sides of UNION, EXCEPT and INTERSECT, and what they become."""

NAN, INF = float("nan"), float("inf")
ROWS = {
    "a (i INT, x DOUBLE)": [(1, 0.0), (1, -0.0), (None, NAN), (None, NAN), (None, None), (2, INF)],
    "b (i INT, x DOUBLE)": [(1, 0.0), (None, None), (None, None), (3, NAN)],
}
"""Two relations in which NULL, NaN and the two zeros meet."""

Rows = list[tuple[object, ...]]
ANSWERS: dict[str, Rows] = {
    "SELECT DISTINCT i FROM a": [(1,), (2,), (None,)],
    "SELECT DISTINCT x FROM a": [(0.0,), (INF,), (NAN,), (None,)],
    "SELECT i, count(*) FROM a GROUP BY i": [(1, 2), (2, 1), (None, 3)],
    "SELECT x, count(*) FROM a GROUP BY x": [(0.0, 2), (INF, 1), (NAN, 2), (None, 1)],
    "SELECT count(i), count(x), count(DISTINCT i), count(DISTINCT x), count(*) FROM a": [(3, 5, 2, 3, 6)],
    "SELECT sum(i), min(i), max(x), min(x) FROM a": [(4, 1, NAN, 0.0)],
    "SELECT sum(i), avg(i), stddev(i), count(i) FROM a WHERE i > 9": [(None, None, None, 0)],
    "SELECT i, sum(x) FROM a WHERE i > 9 GROUP BY i": [],
    "SELECT i FROM a UNION SELECT i FROM b": [(1,), (2,), (3,), (None,)],
    "SELECT i, x FROM a UNION SELECT i, x FROM b": [
        (1, 0.0), (2, INF), (3, NAN), (None, NAN), (None, None),
    ],
    "SELECT i FROM a EXCEPT SELECT i FROM b": [(2,)],
    "SELECT i FROM a EXCEPT ALL SELECT i FROM b": [(1,), (2,), (None,)],
    "SELECT i FROM a INTERSECT SELECT i FROM b": [(1,), (None,)],
    "SELECT i FROM a INTERSECT ALL SELECT i FROM b": [(1,), (None,), (None,)],
    "SELECT x FROM a EXCEPT SELECT x FROM b": [(INF,)],
    "SELECT x FROM a INTERSECT SELECT x FROM b": [(0.0,), (NAN,), (None,)],
    "SELECT i FROM a WHERE i IN (SELECT i FROM b)": [(1,), (1,)],
    "SELECT i FROM a WHERE i NOT IN (SELECT i FROM b)": [],
    "SELECT i FROM a WHERE i NOT IN (SELECT i FROM b WHERE i IS NOT NULL)": [(2,)],
    "SELECT i FROM a WHERE i NOT IN (SELECT i FROM b WHERE i > 9)": [
        (1,), (1,), (2,), (None,), (None,), (None,),
    ],
    "SELECT i FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.i = a.i)": [(2,), (None,), (None,), (None,)],
    "SELECT a.i, b.i AS j FROM a JOIN b ON a.i <=> b.i WHERE a.x IS NULL": [(None, None), (None, None)],
    "SELECT a.x, b.x AS y FROM a JOIN b ON a.x = b.x": [(0.0, 0.0), (0.0, 0.0), (NAN, NAN), (NAN, NAN)],
    "SELECT i FROM b UNION ALL SELECT CAST(1.50 AS DECIMAL(3,2))": [
        (Decimal("1.00"),), (None,), (None,), (Decimal("3.00"),), (Decimal("1.50"),),
    ],
    # What a type of its own brings with it
    "SELECT EXTRACT(SECOND FROM TIMESTAMP '2020-01-01 00:00:01.5')": [(Decimal("1.500000"),)],
    "SELECT EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:59.000001')": [(Decimal("59.000001"),)],
    "SELECT CAST(DATE '2020-02-28' + INTERVAL '2' DAY AS STRING)": [("2020-03-01",)],
    "SELECT CAST(DATE '2024-01-31' + INTERVAL '1' MONTH AS STRING)": [("2024-02-29",)],
    "SELECT CAST(INTERVAL '1-1' YEAR TO MONTH + DATE '2024-01-31' AS STRING)": [("2025-02-28",)],
    "SELECT CAST(TIMESTAMP '2024-02-29 12:30:00.5' - INTERVAL '1' YEAR AS STRING)": [
        ("2023-02-28 12:30:00.5",),
    ],
    "SELECT CAST(TIMESTAMP '1969-12-31 23:59:59.999999' + INTERVAL '1 year 2 months' AS STRING)": [
        ("1971-02-28 23:59:59.999999",),
    ],
    "SELECT CAST(1 + DATE '2020-02-28' AS STRING)": [("2020-02-29",)],
    "SELECT CAST(INTERVAL '36' HOUR + DATE '2020-02-28' AS STRING)": [("2020-02-29 12:00:00",)],
    "SELECT ~CAST(5 AS TINYINT), -(-2147483648), -128Y": [(-6, -2147483648, -128)],
    "SELECT round(1.255, 2), mod(7.5, 2), 7 DIV 2, 7 / 2, 1 / 0": [
        (Decimal("1.26"), Decimal("1.5"), 3, 3.5, None),
    ],
    "SELECT avg(CAST(1.000000000000000001 AS DECIMAL(38,18)))": [(Decimal("1.0000000000000000010000"),)],
    "SELECT CASE WHEN i > 1 THEN 1 ELSE 0.5 END FROM b": [
        (Decimal("0.5"),), (Decimal("0.5"),), (Decimal("0.5"),), (Decimal("1.0"),),
    ],
}  # fmt: skip


def same_rows(left: Rows, right: Rows) -> bool:
    """As multisets; NaN is NaN."""

    def plain(value: Any) -> Any:
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    return Counter(tuple(map(plain, e)) for e in left) == Counter(tuple(map(plain, e)) for e in right)
