"""What REPLAY refuses, and says. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from everview import connect
from everview.errors import PlanError

SCRIPT = """
    CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM points (at TIMESTAMP, TIMELINE at);
    CREATE NON RETROACTIVE TABLE t (k INT, name STRING);
    CREATE VIEW times AS SELECT ts FROM s;
    CREATE VIEW other_times AS SELECT at FROM points;
"""


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k FROM s [ROWS 2]", "a window of rows, which holds the rows with the latest timestamps"),
        (
            "SELECT s.k, name FROM s JOIN t ON s.k = t.k",
            "a join with a table as it was at the timestamp of a row",
        ),
        ("SELECT k FROM s SYNC ON times", "SYNC ON, whose points are the timestamps of rows"),
    ],
)
def test_views_that_look_at_timestamps_refuse_corrections(sql: str, why: str, tmp_path: Path) -> None:
    with connect(str(tmp_path / "store")) as db:
        db.execute(f"{SCRIPT} CREATE VIEW v AS {sql}; CREATE VIEW over AS SELECT * FROM v;")
        with pytest.raises(PlanError) as refused:
            db.execute("REPLAY s$late")
    assert str(refused.value) == (
        f"the rows of 's$late' cannot count from now on: the view 'v' has {why}\n"
        "  next: everview rewind --to TS, an instant before their timestamps, takes them in as if they had "
        "been in time"
    )


def test_a_view_of_late_rows_keeps_them(tmp_path: Path) -> None:
    with connect(str(tmp_path / "store")) as db:
        db.execute(f"{SCRIPT} CREATE VIEW lates AS SELECT COUNT(*) AS n FROM s$late")
        with pytest.raises(PlanError) as refused:
            db.execute("REPLAY s$late WHERE k = 1")
        assert str(refused.value) == (
            "the view 'lates' reads 's$late', from which no row can be taken away\n"
            "  next: DROP VIEW lates first"
        )
        assert str(db.execute("REPLAY s$rejected")) == (
            "no row of 's$rejected' counts now: there is none, or none for which the condition holds"
        )


def test_other_views_do_not_matter(tmp_path: Path) -> None:
    with connect(str(tmp_path / "store")) as db:
        db.execute(f"""{SCRIPT}
            CREATE VIEW v AS SELECT k FROM s [RANGE 1 MINUTE] SYNC ON other_times;
            CREATE VIEW w AS SELECT at FROM points [ROWS 3];
            CREATE VIEW x AS SELECT DISTINCT k FROM s SYNC EVERY INTERVAL '1' MINUTE;
        """)
        assert str(db.execute("REPLAY s$late")).startswith("no row of 's$late' counts now")
