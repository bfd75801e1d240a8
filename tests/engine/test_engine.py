"""The engine without Spark: explain and work_out."""

from __future__ import annotations

import pytest

from everview.algebra import nodes as N
from everview.algebra.time import INFINITY
from everview.catalog import Catalog
from everview.errors import EverviewError, PlanError
from everview.reference.work_out import work_out
from everview.sql.unparse import unparse
from everview.without_spark import explain_text as explain
from tests.streams import R, S

STREAM = "CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);"


def test_explain_leaves_the_catalog_alone() -> None:
    catalog = Catalog()
    explain(STREAM + "SELECT v FROM s", catalog)
    assert "s" not in catalog


def test_explain_refuses_what_could_not_run() -> None:
    with pytest.raises(EverviewError, match="never taken back"):
        explain(STREAM + "CREATE TAGGED STREAM t OVER s KEY (v); SELECT v FROM t [ROWS 2]")


@pytest.mark.parametrize(
    "more",
    [
        "DROP STREAM s",
        "SELECT v FROM s",
        "CREATE VIEW c AS SELECT time_point FROM clock",
        "CREATE VIEW l AS SELECT v FROM s$late",
        "CREATE TABLE t (id INT); INSERT INTO t VALUES (1) AT TIMESTAMP '2026-01-01 00:00:00'",
    ],
)
def test_work_out_refuses_what_it_would_get_wrong(more: str) -> None:
    with pytest.raises(PlanError, match="work_out"):
        work_out(STREAM + more)


def test_work_out_a_sliding_window() -> None:
    answers = work_out(
        STREAM
        + """
        CREATE VIEW n AS SELECT COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS];
        INSERT INTO s VALUES (1, TIMESTAMP '1970-01-01 00:00:01');
        """
    )
    assert [(r.record, r.from_ // 10**6, r.until // 10**6) for r in answers[0].rows[1:2]] == [((1,), 2, 6)]


def test_work_out_an_event_stream_and_a_view_over_it() -> None:
    answers = work_out(
        STREAM
        + """
        CREATE TABLE names (v INT, name STRING);
        INSERT INTO s VALUES (1, TIMESTAMP '1970-01-01 00:00:01'), (2, TIMESTAMP '1970-01-01 00:00:03');
        INSERT INTO names VALUES (1, 'one');
        CREATE STREAM alone TIMELINE until AS SELECT a.v, a.ts + INTERVAL '2' SECOND AS until FROM s a
          WHERE NOT EXISTS (SELECT 1 FROM s b WHERE b.ts > a.ts AND b.ts < a.ts + INTERVAL '2' SECOND);
        CREATE STREAM named TIMELINE until AS SELECT n.name, a.until
          FROM alone a JOIN names FOR SYSTEM_TIME AS OF a.until n ON n.v = a.v;
        CREATE VIEW last AS SELECT v FROM alone [RANGE 1 SECOND];
        """
    )
    second = 10**6
    found = {a.name: [(r.record, r.from_ // second, r.until // second) for r in a.rows] for a in answers}
    assert found == {
        "alone": [((1, 3 * second), 3, INFINITY // second), ((2, 5 * second), 5, INFINITY // second)],
        "named": [(("one", 3 * second), 3, INFINITY // second)],
        "last": [((1,), 3, 4), ((2,), 5, 6)],
    }


@pytest.mark.parametrize("plan", [N.StrictDifference(S, R), N.MaxUnion(S, R), N.Coalesce(S), N.Split(S, 2)])
def test_a_plan_that_sql_has_no_words_for(plan: N.Node) -> None:
    with pytest.raises(PlanError, match="SQL has no words for"):
        unparse(N.Project(plan, (("v", S.column("v")),)))
