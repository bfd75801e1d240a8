"""The engine without Spark: explain and work_out."""

from __future__ import annotations

import pytest

from everview.algebra import nodes as N
from everview.catalog import Catalog
from everview.database import explain_text as explain
from everview.errors import EverviewError, PlanError
from everview.reference.work_out import work_out
from everview.sql.unparse import unparse
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
        "CREATE STREAM e TIMELINE ts AS SELECT ts FROM s",
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


@pytest.mark.parametrize("plan", [N.StrictDifference(S, R), N.MaxUnion(S, R), N.Coalesce(S), N.Split(S, 2)])
def test_a_plan_that_sql_has_no_words_for(plan: N.Node) -> None:
    with pytest.raises(PlanError, match="SQL has no words for"):
        unparse(N.Project(plan, (("v", S.column("v")),)))
