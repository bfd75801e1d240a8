"""EXPLAIN of event queries: bounds, what is kept until when, the relations of times, growth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everview.errors import TemporalError
from everview.explain import explain_script
from tests.events.harness import worked_queries

GOLDEN = Path(__file__).parent / "explained.txt"


def test_worked_queries(regenerate: bool) -> None:
    parts = []
    for query in worked_queries():
        script = query.sql.split("-- run; then")[0]
        parts.append(f"#### {query.title}\n\n{explain_script(script)}\n")
    found = "\n".join(parts)
    if regenerate:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


STREAMS = """
CREATE STREAM a (k INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM b (k INT, ts TIMESTAMP, TIMELINE ts);
"""


def last_lines(sql: str, count: int) -> list[str]:
    return str(explain_script(STREAMS + sql)).splitlines()[-count:]


def test_state_that_grows_is_said() -> None:
    sql = "CREATE STREAM o TIMELINE ts AS SELECT b.k, b.ts FROM a JOIN b ON b.ts > a.ts"
    assert last_lines(sql, 1) == [
        "  grows without bound: Join ON b.ts > a.ts keeps its left input for ever, "
        "bound it: b.ts <= a.ts + INTERVAL '1' HOUR"
    ]


def test_a_stream_that_is_always_empty_is_said() -> None:
    sql = "CREATE STREAM o TIMELINE ts AS SELECT b.ts FROM a JOIN b ON b.ts > a.ts AND b.ts < a.ts"
    assert last_lines(sql, 1) == ["  its conditions can never hold at once: the stream is always empty"]


def test_cases_and_constants() -> None:
    sql = """CREATE STREAM o TIMELINE ts AS SELECT b.ts FROM a JOIN b
        ON a.ts >= TIMESTAMP '2026-01-01 00:00:00'
        AND (b.ts = a.ts OR b.ts = a.ts + INTERVAL '1' MINUTE AND b.k = 1)"""
    assert last_lines(sql, 10) == [
        "  case 1 of 2: `b.ts = a.ts`",
        "  times: TIMESTAMP '2026-01-01 00:00:00' ≤ a.ts; b.ts = a.ts",
        "  distances  to a.ts  to b.ts",
        "  from a.ts        0        0",
        "  from b.ts        0        0",
        "  case 2 of 2: `b.ts = a.ts + INTERVAL '1' MINUTE AND b.k = 1`",
        "  times: TIMESTAMP '2026-01-01 00:00:00' ≤ a.ts; b.ts = a.ts + 1 min",
        "  distances  to a.ts  to b.ts",
        "  from a.ts        0    1 min",
        "  from b.ts  − 1 min        0",
    ]


def test_json_has_the_clocks() -> None:
    sql = """CREATE STREAM o TIMELINE due AS SELECT a.ts + INTERVAL '5' SECOND AS due FROM a
        WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k
                          AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND)"""
    document = json.loads(explain_script(STREAMS + sql).json())
    (part,) = document["parts"]
    assert part["bounds"] == {
        "due": [
            [{"stream": "a", "line": "ts", "minus": -5_000_000, "reaches": None}],
            [{"stream": "b", "line": "ts", "minus": 0, "reaches": None}],
        ]
    }
    (waits,) = (o["waits"] for o in document["operators"] if "waits" in o)
    assert [(w["part"], w["until"]) for w in waits] == [("left", "a.ts"), ("right", "b.ts")]
    assert waits[0]["clock"] == [[{"stream": "b", "line": "ts", "minus": 5_000_000, "reaches": None}]]


def test_a_query_that_could_never_answer_is_refused() -> None:
    sql = "CREATE STREAM o TIMELINE ts AS SELECT a.ts FROM a CROSS JOIN b"
    with pytest.raises(TemporalError, match="'ts' bounds no rows of 'b'"):
        explain_script(STREAMS + sql)


def test_a_time_line_that_answers_and_keeps_a_side_for_ever() -> None:
    """R5 with the other time line: it is not refused, and what grows is said."""
    sql = """CREATE STREAM o TIMELINE came AS SELECT a.k, a.ts AS began, b.ts AS came
        FROM a JOIN b ON b.k = a.k AND b.ts >= a.ts"""
    assert last_lines(sql, 1) == [
        "  grows without bound: Join ON b.k = a.k AND b.ts >= a.ts keeps its left input for ever, "
        "bound it: b.ts <= a.ts + INTERVAL '1' HOUR"
    ]


def test_too_many_cases_are_said() -> None:
    """81 cases: what is known of the times is then what all of them have in common."""
    apart = " AND ".join(f"{{0}}.ts <> a.ts + INTERVAL '{n}' SECOND" for n in range(1, 9))
    near = f"{{0}}.ts BETWEEN a.ts AND a.ts + INTERVAL '9' SECOND AND {apart}"
    sql = f"""CREATE STREAM o TIMELINE ts AS SELECT a.ts
        FROM a JOIN b ON {near.format("b")} JOIN b c ON {near.format("c")}"""
    assert last_lines(sql, 6) == [
        "  more than 64 cases: one weaker case stands for all of them",
        "  times: a.ts ≤ b.ts ≤ a.ts + 9 s; a.ts ≤ c.ts ≤ a.ts + 9 s",
        "  distances  to a.ts  to b.ts  to c.ts",
        "  from a.ts        0      9 s      9 s",
        "  from b.ts        0        0      9 s",
        "  from c.ts        0      9 s        0",
    ]
