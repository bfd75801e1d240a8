"""Explanations of whole scripts: what they say, and that text, JSON and picture say the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from everview.catalog import Catalog
from everview.errors import EverviewError, TemporalError
from everview.explain import explain_script as explanation_of
from everview.plan.explain import Explanation
from everview.plan.explain.text import remarks
from everview.sql import bind_script, declare
from everview.without_spark import explain_text as explain
from tests.lanes import one_in
from tests.plan.pictures import boxes, groups, read_picture
from tests.sql.oracle import SCRIPT, VIEWS
from tests.sql.queries import CASES

STREAMS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND);
CREATE STREAM r (k INT, w INT, ts TIMESTAMP, TIMELINE ts);
"""


def test_windows_as_columns_sessions_and_slides() -> None:
    script = (
        STREAMS
        + """
        CREATE VIEW open AS SELECT k, session_start, COUNT(*) AS n FROM s [SESSION 10 SECONDS PARTITION BY k]
          GROUP BY k, session_start;
        CREATE VIEW ends AS SELECT k, session_end FROM s [SESSION 10 SECONDS PARTITION BY k];
        CREATE VIEW pairs AS SELECT v FROM s [PARTITION BY k ROWS 2 SLIDE 2];
        CREATE VIEW sections AS SELECT k, window_end FROM TUMBLE(TABLE s, DESCRIPTOR(ts), 10 SECONDS);
    """
    )
    assert (
        explain(script)
        == """\
View open  · may be retracted (WK±) · state: its changes, 1 wk
  Project k, session_start, `count(*)` AS n  · may be retracted (WK±)
    Aggregate count(*) BY s.k, s.session_start  · may be retracted (WK±) · state: a value per \
group, 10 s; ends to come, 10 s, in expiry buckets
      Session [SESSION 10 SECONDS PARTITION BY k] without session_end  · expires within 10 s (WK) · \
state: the rows of the open session per k, until it is over
        #5 Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts − 5 s
rules: prune_columns

View ends  · may be retracted (STR±) · state: its changes, 1 wk
  Project s.k, s.session_end  · may be retracted (STR±)
    Session [SESSION 10 SECONDS PARTITION BY k]  · may be retracted (STR±) · state: the rows of the \
open session per k, until it is over
      = #5 Stream s, shared  · append-only (MON)

View pairs  · may be retracted (WK±) · state: its changes, 1 wk
  Project s.v  · may be retracted (WK±)
    Window [PARTITION BY k ROWS 2 SLIDE 2]  · may be retracted (WK±) · state: the last 2 rows per \
k, and those that wait for the next slide, until pushed out
      = #5 Stream s, shared  · append-only (MON)

View sections  · expires within 20 s (WKS) · state: its changes, 1 wk
  Project s.k, s.window_end  · expires within 20 s (WKS)
    Alias s  · expires within 20 s (WKS)
      Project s.k, timestamp_micros((unix_micros(s.ts) - pmod(unix_micros(s.ts), 10000000L)) + \
10000000L) AS window_end  · expires within 20 s (WKS)
        Window [TUMBLE 10 SECONDS LAG 1 MICROSECOND]  · expires within 20 s (WKS)
          = #5 Stream s, shared  · append-only (MON)
rules: prune_columns"""
    )


def test_a_script_with_views_that_share() -> None:
    script = (
        STREAMS
        + """
        CREATE VIEW near AS SELECT s.k, s.v FROM s [RANGE 10 SECONDS] JOIN r [RANGE 10 SECONDS] ON s.k = r.k;
        CREATE VIEW per_k AS SELECT k, COUNT(*) AS n FROM near GROUP BY k;
        CREATE VIEW kinds AS SELECT DISTINCT v FROM s [RANGE 10 SECONDS] WHERE v > 3;
        SELECT k FROM near;
    """
    )
    assert (
        explain(script)
        == """\
#1 View near  · expires within 10 s (WK) · state: its changes, 1 wk
  Project s.k, s.v  · expires within 10 s (WK)
    Join ON s.k = r.k  · expires within 10 s (WK) · state: both inputs, 10 s
      Project r.k  · expires within 10 s (WKS)
        Window [RANGE 10 SECONDS]  · expires within 10 s (WKS)
          Stream r (k INT, w INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts
      Project s.k, s.v  · expires within 10 s (WKS)
        Window [RANGE 10 SECONDS]  · expires within 10 s (WKS)
          #9 Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts − 5 s
rules: order_joins, prune_columns

View per_k  · may be retracted (WK±) · state: its changes, 1 wk
  Project k, `count(*)` AS n  · may be retracted (WK±)
    Aggregate count(*) BY near.k  · may be retracted (WK±) · state: a value per group, 10 s; \
ends to come, 10 s, in expiry buckets
      = #1 View near, shared  · expires within 10 s (WK)

View kinds  · expires within 10 s (WK) · state: its changes, 1 wk
  Distinct  · expires within 10 s (WK) · δ*, state: what is covered, 10 s
    Project s.v  · expires within 10 s (WKS)
      Window [RANGE 10 SECONDS]  · expires within 10 s (WKS)
        Filter s.v > 3  · append-only (MON)
          = #9 Stream s, shared  · append-only (MON)
rules: push_filter_below_window

Project near.k  · expires within 10 s (WK)
  = #1 View near, shared  · expires within 10 s (WK)"""
    )


def test_the_whole_plan_has_its_word_too() -> None:
    script = (
        STREAMS
        + """
        CREATE VIEW slow AS SELECT s.k FROM s SYNC EVERY INTERVAL '2' MINUTE
          JOIN r SYNC EVERY INTERVAL '3' MINUTE ON s.k = r.k WHERE s.v > 1;
    """
    )
    assert explain(script).splitlines()[-3:] == [
        "rules: push_filter_below_join, push_filter_below_sync, prune_columns",
        "full sync points: every 6 minutes; partial: every 2 minutes, every 3 minutes",
        "grows with every distinct record: Join ON s.k = r.k keeps both inputs for ever, "
        "put a window on s or r",
    ]


def test_a_view_says_what_it_keeps_itself() -> None:
    script = (
        STREAMS
        + """
        CREATE COMPLETE VIEW a WITH (history => INTERVAL '1' DAY) AS SELECT k FROM s;
        SELECT k FROM a;
    """
    )
    assert explain(script).startswith(
        "#1 View a  · append-only (MON) · state: its present answer; its changes, 1 d\n"
    )


def test_the_bounds_of_streams() -> None:
    script = """
        CREATE STREAM a (x INT, ts TIMESTAMP, TIMELINE ts) FROM csv('a/*.csv');
        CREATE STREAM b (x INT, ts TIMESTAMP, sent TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND,
                         TIMELINE sent) IDLE AFTER INTERVAL '30' SECOND FROM json('b/*.json');
        CREATE STREAM c TIMELINE ts AS SELECT x, ts FROM a WHERE x > 1;
        SELECT x FROM a; SELECT x FROM b; SELECT x FROM c; SELECT time_point FROM clock; SELECT x FROM a$late;
    """
    bounds = re.findall(r"Stream (\S+) \(.*\)  · append-only \(MON\)(.*)", explain(script))
    assert bounds == [
        ("a", " · bound newest ts − 1 µs"),
        ("b", " · bound newest ts − 5 s − 1 µs, newest sent − 1 µs · idle after 30 s"),
        (
            "c",
            " · state: rows that wait, until the bound has passed them · bound as far as its query is final",
        ),
        ("`clock`", " · bound the present"),
        ("`a$late`", ""),
    ]
    origins = {o.name: o.source.origin for o in explanation_of(script).operators if o.source is not None}
    assert origins == {
        "a": "csv",
        "b": "json",
        "c": "an event query",
        "clock": "the clock, every 1 s",
        "a$late": "the late rows of a",
    }


def test_an_event_query_keeps_what_its_conditions_need() -> None:
    script = (
        STREAMS
        + """
        CREATE VIEW fresh AS ISTREAM(SELECT k, ts FROM r [RANGE 5 SECONDS]);
        CREATE STREAM met TIMELINE ts AS SELECT s.k, f.ts FROM s JOIN fresh f ON s.k = f.k AND f.ts >= s.ts;
        CREATE VIEW n AS SELECT COUNT(*) AS n FROM met;
    """
    )
    assert explain(script).split("\n\n")[1:] == ["""\
Event stream met  · bound of ts: min(s.ts, b1)
  #6 Project s.k, f.ts  · append-only (MON)
    Join ON s.k = f.k AND f.ts >= s.ts  · append-only (MON) · state: left input, for ever; \
right input, until f.ts ≤ s.ts
      Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts − 5 s
      Alias f  · append-only (MON)
        = #1 View fresh, shared  · append-only (MON)
  times: s.ts ≤ f.ts; f.at = f.ts
  distances  to s.ts  to f.ts  to f.at
  from s.ts        0        ∞        ∞
  from f.ts        0        0        0
  from f.at        0        0        0
  grows without bound: Join ON s.k = f.k AND f.ts >= s.ts keeps its left input for ever, \
bound it: f.at <= s.ts + INTERVAL '1' HOUR""", """\
View n  · may be retracted (WK±) · state: its changes, 1 wk
  Project `count(*)` AS n  · may be retracted (WK±)
    Aggregate count(*)  · may be retracted (WK±) · state: one value
      Stream met (k INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · state: rows that wait, \
until the bound has passed them · bound as far as its query is final
        = #6 Project, shared  · append-only (MON)"""]  # fmt: skip


def test_a_tagged_stream() -> None:
    script = STREAMS + "CREATE TAGGED STREAM latest OVER s KEY (k); SELECT v FROM latest;"
    assert (
        explain(script)
        == """\
Tagged stream latest
  #1 View latest  · may be retracted (WK±)
    Tagged KEY (k)  · may be retracted (WK±) · state: the latest row per k, until replaced
      Stream s (k INT, v INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts − 5 s

Project latest.v  · may be retracted (WK±)
  = #1 View latest, shared  · may be retracted (WK±)"""
    )


def test_the_same_query_twice_is_one_operator() -> None:
    found = explanation_of(STREAMS + "SELECT k FROM s; EXPLAIN SELECT k FROM s;")
    assert [(part.title, part.root) for part in found.parts] == [("query 1", 1), ("query 2", 1)]
    assert found.text().splitlines()[-1] == "= #1 Project, shared  · append-only (MON)"


def test_growth_of_a_shared_operator_is_said_once() -> None:
    view = "CREATE VIEW a AS SELECT s.k FROM s JOIN r ON s.k = r.k;"
    assert explain(STREAMS + view + "SELECT * FROM a; SELECT k + 1 AS k FROM a").count("grows") == 1


def test_growth_of_each_operator_is_said() -> None:
    """Two that grow alike are two."""
    views = "CREATE VIEW a AS SELECT k FROM s EXCEPT ALL SELECT k FROM r;"
    views += "CREATE VIEW b AS SELECT k, v FROM s EXCEPT ALL SELECT k, w FROM r;"
    said = "grows with every distinct record: Difference keeps copies of each record for ever, "
    said += "put a window on s or r"
    assert [part.growth for part in explanation_of(STREAMS + views).parts] == [(said,), (said,)]


def test_nothing_to_explain_is_an_empty_text() -> None:
    found = explanation_of(STREAMS)
    assert (found.text(), found.operators) == ("", ())
    assert json.loads(found.json()) == {"parts": [], "operators": []}
    assert boxes(read_picture(found.svg())) == {}


def test_it_prints_as_text_and_a_notebook_shows_the_picture() -> None:
    found = explanation_of(STREAMS + "SELECT k FROM s")
    assert str(found) == repr(found) == found.text() == found.shown()
    assert found._repr_html_() == found.svg() == found.shown("svg")
    assert found.shown("svg").startswith("<svg ")
    assert found.shown("json") == found.json()


def test_another_format_is_refused() -> None:
    with pytest.raises(EverviewError) as refused:
        explain("SELECT 1", format="jsn")
    assert str(refused.value) == (
        "a plan is not shown as 'jsn'\n  did you mean 'json'?\n  choices: text, svg, json"
    )


def test_the_same_script_has_the_same_explanation() -> None:
    script = STREAMS + "SELECT s.k FROM s JOIN r ON s.k = r.k EXCEPT SELECT k FROM s [NOW]"
    one, other = explanation_of(script), explanation_of(script)
    assert one == other
    for name in ("text", "json", "svg"):
        assert one.shown(name) == other.shown(name)


def test_nothing_slow_is_loaded() -> None:
    code = f"""
import sys
from everview.without_spark import explain_text
for name in ("text", "svg", "json"):
    explain_text({STREAMS!r} + "SELECT DISTINCT k FROM s [NOW]", format=name)
print([m for m in ("pyspark", "polars", "pyarrow", "pandas", "numpy") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# The three ways to show it

WHOLE = SCRIPT + "".join(f"CREATE VIEW {name} AS {sql};\n" for name, sql in VIEWS.items())


def check_that_all_say_the_same(found: Explanation) -> None:
    data: dict[str, Any] = json.loads(found.json())
    text = found.text().splitlines()
    picture = read_picture(found.svg())
    drawn = {int(g.attrib["data-id"]): g.findtext("title") or "" for g in groups(picture, "operator")}
    assert list(drawn) == [o["id"] for o in data["operators"]] == [o.id for o in found.operators]
    for operator, written in zip(found.operators, data["operators"], strict=True):
        said = remarks(operator)
        line = f"{operator.text}  · {' · '.join([operator.flow, *said])}"
        assert any(row.endswith(line) for row in text)
        assert all(remark in drawn[operator.id] for remark in said)
        assert operator.flow in drawn[operator.id]
        assert operator.flow == f"{written['changes']} ({operator.edge})"
        assert written["text"] == operator.text
        assert written["pattern"] + "±" * written["signed"] == str(operator.edge)
        for kept in written["keeps"]:
            assert kept["what"] in said[0]
            assert kept["how_long"] in said[0]
    edges = [below for o in data["operators"] for below in o["inputs"]]
    assert len(groups(picture, "edge")) == len(groups(picture, "pattern")) == len(edges)
    references = [row for row in text if row.lstrip().startswith("= #")]
    assert len(references) == len(edges) + len(data["parts"]) - len(data["operators"])
    words = " ".join(e.text or "" for e in picture.iter("text")).split()
    for part, written in zip(found.parts, data["parts"], strict=True):
        assert (list(part.rules), list(part.growth)) == (written["rules"], written["growth"])
        for said_of_all in part.lines:
            assert said_of_all in [row.strip() for row in text]
            assert set(said_of_all.split()) <= set(words)


@pytest.mark.parametrize("case", one_in(10, CASES[::4], lambda c: c.sql))
def test_all_say_the_same_of_a_query(case) -> None:  # type: ignore[no-untyped-def]
    check_that_all_say_the_same(explanation_of(WHOLE + case.sql))


@pytest.mark.slow
def test_all_say_the_same_of_many_queries() -> None:
    check_that_all_say_the_same(explanation_of(WHOLE + ";\n".join(case.sql for case in CASES)))


CREATES = {
    "view": "CREATE VIEW few AS SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY k",
    "event stream": "CREATE STREAM few TIMELINE ts AS SELECT k, ts FROM s WHERE v > 1",
    "tagged stream": "CREATE TAGGED STREAM few OVER s KEY (k)",
}


@pytest.mark.parametrize("kind", CREATES)
def test_explain_create_shows_what_create_would_make(kind: str) -> None:
    """And makes nothing: the statement can be executed after it, and explained again, also as another one."""
    sql = CREATES[kind]
    catalog = Catalog()
    for statement in bind_script(STREAMS, catalog):
        declare(statement, catalog)
    before = catalog.to_json()
    asked = explanation_of(f"EXPLAIN {sql}", catalog)
    assert (catalog.to_json(), asked.text()) == (before, explanation_of(sql, catalog).text())
    assert asked.json() == explanation_of(sql, catalog).json()
    assert asked.svg() == explanation_of(sql, catalog).svg()
    twice = explanation_of(f"EXPLAIN {sql}; {sql.replace('few', 'many')}", catalog)
    assert [part.name for part in twice.parts] == ["few", "many"]


def test_explain_create_or_replace_and_of_what_could_never_answer() -> None:
    script = (
        STREAMS + "CREATE VIEW few AS SELECT k FROM s; EXPLAIN CREATE OR REPLACE VIEW few AS SELECT v FROM s"
    )
    assert explain(script).endswith("""
View few  · append-only (MON) · state: its changes, 1 wk
  Project s.v  · append-only (MON)
    = #3 Stream s, shared  · append-only (MON)""")
    with pytest.raises(TemporalError, match="'ts' bounds no rows of 'r'"):
        explain(STREAMS + "EXPLAIN CREATE STREAM o TIMELINE ts AS SELECT s.ts FROM s CROSS JOIN r")
