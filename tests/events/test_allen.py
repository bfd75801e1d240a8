"""Allen's thirteen relations, one by one: which time lines are bounds, and what is kept for ever."""

from __future__ import annotations

import pytest

from everview.temporal.clocks import Wait
from tests.events.harness import EventScript
from tests.events.test_worked_queries import QUERIES, at

STREAMS = """
CREATE STREAM x (id INT, b TIMESTAMP, e TIMESTAMP, TIMELINE e);
CREATE STREAM y (id INT, b TIMESTAMP, e TIMESTAMP, TIMELINE e);
"""
SHORT = " AND x.e <= x.b + INTERVAL '1' HOUR AND y.e <= y.b + INTERVAL '1' HOUR"

# relation, condition, valid time lines, kept for ever; the same with intervals of at most an hour.
RELATIONS = [
    ("before", "x.e < y.b", "y", "x", "y", "x"),
    ("meets", "x.e = y.b", "y", "x", "x y", ""),
    ("overlaps", "x.b < y.b AND y.b < x.e AND x.e < y.e", "y", "x", "x y", ""),
    ("starts", "x.b = y.b AND x.e < y.e", "y", "x", "x y", ""),
    ("during", "x.b > y.b AND x.e < y.e", "y", "x", "x y", ""),
    ("finishes", "x.b > y.b AND x.e = y.e", "x y", "", "x y", ""),
    ("equals", "x.b = y.b AND x.e = y.e", "x y", "", "x y", ""),
    ("finished by", "x.b < y.b AND x.e = y.e", "x y", "", "x y", ""),
    ("contains", "x.b < y.b AND x.e > y.e", "x", "y", "x y", ""),
    ("started by", "x.b = y.b AND x.e > y.e", "x", "y", "x y", ""),
    ("overlapped by", "y.b < x.b AND x.b < y.e AND y.e < x.e", "x", "y", "x y", ""),
    ("met by", "y.e = x.b", "x", "y", "x y", ""),
    ("after", "y.e < x.b", "x", "y", "x", "y"),
]


def found(condition: str, streams: str = STREAMS) -> tuple[str, str]:
    """Return the sides whose end is a valid time line, and those that are kept for ever."""
    lines = []
    for side in ("x", "y"):
        script = EventScript.of(
            f"{streams} CREATE STREAM o TIMELINE t AS SELECT x.id, {side}.e AS t FROM x JOIN y ON "
            f"{condition} AND x.b < x.e AND y.b < y.e"
        )
        try:
            script.timing("o")
        except AssertionError:
            continue
        lines.append(side)
    kept = [side for side, wait in zip("xy", waits(condition, streams), strict=True) if wait.clock is None]
    return " ".join(lines), " ".join(kept)


def waits(condition: str, streams: str = STREAMS) -> tuple[Wait, Wait]:
    """Return how long the rows of x and y are kept."""
    script = EventScript.of(
        f"{streams} CREATE STREAM o TIMELINE t AS SELECT x.id, GREATEST(x.e, y.e) AS t FROM x JOIN y ON "
        f"{condition} AND x.b < x.e AND y.b < y.e"
    )
    timing = script.timing("o")  # GREATEST of both ends is valid for all of them
    (join,) = (t for t in timing.timing.walk() if len(t.inputs) == 2)
    return join.wait("left"), join.wait("right")


@pytest.mark.parametrize(("name", "condition", "lines", "kept", "short_lines", "short_kept"), RELATIONS)
def test_relation(
    name: str, condition: str, lines: str, kept: str, short_lines: str, short_kept: str
) -> None:
    assert found(condition) == (lines, kept), name
    assert found(condition + SHORT) == (short_lines, short_kept), name


# How long x and y are kept where intervals last at most an hour.
KEPT_SHORT = {
    "before": ("for ever", "until y.e ≤ x.e + 2 µs"),
    "meets": ("until x.e ≤ y.e − 1 h", "until y.e ≤ x.e + 1 µs"),
    "overlaps": ("until x.e ≤ y.e − (1 h − 1 µs)", "until y.e ≤ x.e + 1 µs"),
    "starts": ("until x.e ≤ y.e − (1 h − 1 µs)", "until y.e ≤ x.e + 1 µs"),
    "during": ("until x.e ≤ y.e − (1 h − 2 µs)", "until y.e ≤ x.e + 1 µs"),
    "finishes": ("until x.e ≤ y.e", "until y.e ≤ x.e"),
    "equals": ("until x.e ≤ y.e", "until y.e ≤ x.e"),
    "finished by": ("until x.e ≤ y.e", "until y.e ≤ x.e"),
    "contains": ("until x.e ≤ y.e + 1 µs", "until y.e ≤ x.e − (1 h − 2 µs)"),
    "started by": ("until x.e ≤ y.e + 1 µs", "until y.e ≤ x.e − (1 h − 1 µs)"),
    "overlapped by": ("until x.e ≤ y.e + 1 µs", "until y.e ≤ x.e − (1 h − 1 µs)"),
    "met by": ("until x.e ≤ y.e + 1 µs", "until y.e ≤ x.e − 1 h"),
    "after": ("until x.e ≤ y.e + 2 µs", "for ever"),
}


@pytest.mark.parametrize(("name", "condition"), [relation[:2] for relation in RELATIONS])
def test_how_long_rows_are_kept(name: str, condition: str) -> None:
    """The earlier side is kept for the hour that an interval lasts; the conditions make it a little less."""
    found_waits = tuple(str(wait).partition(" ")[2] for wait in waits(condition + SHORT))
    assert found_waits == KEPT_SHORT[name]


def test_before_and_after_need_a_bound_of_the_time_between() -> None:
    between = SHORT + " AND y.b <= x.e + INTERVAL '2' HOUR"
    assert found("x.e < y.b" + between) == ("x y", "")
    assert str(waits("x.e < y.b" + between)[0]) == "left until x.e ≤ y.e − 3 h"
    between = SHORT + " AND x.b <= y.e + INTERVAL '2' HOUR"
    assert found("y.e < x.b" + between) == ("x y", "")
    assert str(waits("y.e < x.b" + between)[1]) == "right until y.e ≤ x.e − 3 h"


def test_points_meet_at_equal_instants() -> None:
    """Two points at the same instant meet; the CASE of E10 asks for that before it asks for equals."""
    script = EventScript.of(QUERIES["E10"].sql)
    point = (1, at("10:00:00"), at("10:00:00"))
    script.rows["x"], script.rows["y"] = [point], [point]
    ((row, _),) = script.answers()["allen"].items()
    assert row[2] == "meets"


def test_a_check_says_the_same_as_a_condition() -> None:
    """Decision 5: what CHECK says of every row of a stream need not be said in the query."""
    checked = STREAMS.replace("TIMELINE e)", "TIMELINE e, CHECK (e <= b + INTERVAL '1' HOUR))")
    assert found("x.e = y.b") == ("y", "x")
    # b is no time line and may be NULL: then CHECK is not false, and says nothing of e.
    assert found("x.e = y.b", checked) == ("y", "x")
    sure = checked.replace("b TIMESTAMP,", "b TIMESTAMP NOT NULL,")
    assert found("x.e = y.b", sure) == ("x y", "")
