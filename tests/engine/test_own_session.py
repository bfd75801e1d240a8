"""A Spark session of the user's own, with Java's usual stack: no text makes a search overflow it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os
import sys
from pyspark.sql import SparkSession
import everview

os.environ["PYSPARK_PYTHON"] = sys.executable

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
with everview.connect(sys.argv[1], spark=session) as db:
    db.execute('''
        CREATE STREAM s (c STRING, p STRING, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW v AS SELECT length(c) AS n, c RLIKE '(a|b)*c' AS constant, c RLIKE p AS data,
                                c RLIKE 'b$' AS plain FROM s;
    ''')
    for at, n in enumerate((100, 200, 201, 3000, 30000)):
        row = {"c": "ab" * n, "p": "((a|b)*)c", "ts": f"2026-01-01 00:00:0{at}"}
        db.insert("s", [row])
    db.run(finish=True)
    answers = sorted(tuple(r) for r in db.query("SELECT n, constant, data, plain FROM v").collect())
    print("answers:", answers)
session.stop()
"""


def test_no_text_overflows_the_stack(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "store")], capture_output=True, text=True, timeout=300
    )
    rows = [(200, False, False), (400, False, False), (402, None, None), (6000, None, None)]
    wanted = [(*row, True) for row in (*rows, (60000, None, None))]
    assert f"answers: {wanted}" in ran.stdout, ran.stderr[-3000:]
