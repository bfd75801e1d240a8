"""One odd row, or one view, does not stop the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import EverviewError
from tests.engine.feeding import rows

pytestmark = pytest.mark.spark

SCRIPT = r"""
CREATE STREAM s (c STRING, p STRING, n INT, b BIGINT, d DATE, ts TIMESTAMP, TIMELINE ts);
CREATE VIEW counted AS SELECT COUNT(*) AS n FROM s;
CREATE VIEW matched AS
  SELECT c LIKE p AS l, c RLIKE p AS r, c ILIKE p AS i, regexp_extract(c, p, n) AS e FROM s;
CREATE VIEW computed AS
  SELECT split_part(c, ',', n) AS s, getbit(b, n) AS g, timestamp_millis(b) AS t, add_months(d, n) AS a,
         repeat(c, n) AS x, INTERVAL '1' DAY * b AS w, ts + INTERVAL '1' DAY * b AS u
  FROM s;
CREATE VIEW unknown AS SELECT CASE WHEN NULL THEN n ELSE b END AS v FROM s WHERE NOT (NULL AND n > 0);
CREATE VIEW chosen AS SELECT MAX(c) AS c FROM s WHERE c LIKE p OR CAST(d AS TIMESTAMP) > ts;
INSERT INTO s VALUES
  ('a', 'a\\', 0, 9223372036854775807, DATE '+5881580-07-11', TIMESTAMP '2026-01-01 00:00:01'),
  ('b', '(', 2147483647, -9223372036854775808, DATE '-5877641-06-23', TIMESTAMP '2026-01-01 00:00:02'),
  ('c', 'c', 0, 0, DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:03');
"""


def test_odd_rows_give_nulls(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute(SCRIPT)
        db.run()
        assert rows(db.query("SELECT n FROM counted")) == {(3,): 1}
        wanted = {(None, None, None, None): 1, (False, None, False, None): 1, (True, True, True, "c"): 1}
        assert rows(db.query("SELECT l, r, i, e FROM matched")) == wanted
        found = db.query(
            "SELECT s, g, x, t IS NULL AS t, a IS NULL AS a, w IS NULL AS w, u IS NULL AS u FROM computed"
        )
        assert rows(found) == {
            (None, 1, "", True, False, True, True): 1,
            ("", None, None, True, True, True, True): 1,
            (None, 0, "", False, False, False, False): 1,
        }
        assert rows(db.query("SELECT v FROM unknown")) == {(2**63 - 1,): 1, (0,): 1}
        assert rows(db.query("SELECT c FROM chosen")) == {("c",): 1}


def test_a_pattern_that_only_java_can_judge_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """When the store has run, and before; the view is not made, and the others go on."""
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute("CREATE STREAM s (c STRING, ts TIMESTAMP, TIMELINE ts); CREATE VIEW v AS SELECT c FROM s")
        db.execute("INSERT INTO s VALUES ('a', TIMESTAMP '2026-01-01 00:00:01')")
        db.run()
        with pytest.raises(EverviewError) as refusal:
            db.execute("CREATE VIEW w AS SELECT c FROM s WHERE c RLIKE '(?<=(a|bc)*)d'")
        assert str(refusal.value) == (
            "'(?<=(a|bc)*)d' in the view 'w' is no regular expression: "
            "Look-behind group does not have an obvious maximum length near index 10\n"
            "  line 1, column 31\n"
            "    SELECT c FROM s WHERE c RLIKE '(?<=(a|bc)*)d'\n"
            "                                  ^^^^^^^^^^^^^^^\n"
            "  next: a backslash, written \\\\, before a character makes it stand for itself"
        )
        assert "w" not in db.catalog
        db.execute("INSERT INTO s VALUES ('b', TIMESTAMP '2026-01-01 00:00:02')")
        db.run()
        assert rows(db.query("SELECT c FROM v")) == {("a",): 1, ("b",): 1}
