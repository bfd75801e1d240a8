"""A Spark session of the user's own: Java's usual stack, and settings that change what SQL means."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

SCRIPT = """
import os
import sys
from pyspark.sql import SparkSession
import everview

os.environ["PYSPARK_PYTHON"] = sys.executable

settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.literal.pickMinimumPrecision": "false",
    "spark.sql.variable.substitute": "true",
    "spark.sql.x": "replaced",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
with everview.connect(sys.argv[1], spark=session) as db:
    db.execute('''
        CREATE STREAM s (c STRING, p STRING, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW v AS SELECT length(c) AS n, c RLIKE '(a|b)*c' AS constant, c RLIKE p AS data,
                                c RLIKE 'b$' AS plain FROM s;
        CREATE STREAM r (k INT, t STRING, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW w AS SELECT k, '${spark.sql.x}' AS a, '${env:HOME}' AS b, "tab\\\\t" AS c,
          CAST('2026-01-01 00:00:00' AS STRING) = CAST(TIMESTAMP '2026-01-01 00:00:00' AS STRING) AS d,
          hour(CAST(t AS TIMESTAMP)) AS e, k / 0 AS f, CAST('x' AS INT) AS g, T AS `h`,
          CAST(1.5 AS DECIMAL(38, 18)) * CAST(3 AS DECIMAL(38, 18)) AS i, 12.50 / 3 AS j
        FROM r WHERE t <> '${y}';
    ''')
    db.insert("r", [{"k": 1, "t": "2026-01-01 05:00:00", "ts": "2026-01-01 00:00:00"}])
    for at, n in enumerate((100, 200, 201, 3000, 30000)):
        row = {"c": "ab" * n, "p": "((a|b)*)c", "ts": f"2026-01-01 00:00:0{at}"}
        db.insert("s", [row])
    db.run(finish=True)
    answers = sorted(tuple(r) for r in db.query("SELECT n, constant, data, plain FROM v").collect())
    print("answers:", answers)
    print("meant:", [tuple(r) for r in db.query("SELECT *, '${z}' AS z FROM w").collect()])
session.stop()
"""


@pytest.mark.spark
def test_no_setting_of_the_session_changes_an_answer(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "store")], capture_output=True, text=True, timeout=300
    )
    rows = [(200, False, False), (400, False, False), (402, None, None), (6000, None, None)]
    wanted = [(*row, True) for row in (*rows, (60000, None, None))]
    assert f"answers: {wanted}" in ran.stdout, ran.stderr[-3000:]
    texts = ("${spark.sql.x}", "${env:HOME}", "tab\t", True)
    meant = (
        1,
        *texts,
        5,
        None,
        None,
        "2026-01-01 05:00:00",
        Decimal("4.500000"),
        Decimal("4.166667"),
        "${z}",
    )
    assert f"meant: {[meant]}" in ran.stdout
