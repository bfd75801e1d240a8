"""Allen's thirteen relations, one by one: which time lines are bounds, and what is kept for ever."""

from __future__ import annotations

import pytest

from tests.events.harness import EventScript

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
    script = EventScript.of(
        f"{streams} CREATE STREAM o TIMELINE t AS SELECT x.id, GREATEST(x.e, y.e) AS t FROM x JOIN y ON "
        f"{condition} AND x.b < x.e AND y.b < y.e"
    )
    timing = script.timing("o")  # GREATEST of both ends is valid for all of them
    (join,) = (t for t in timing.timing.walk() if len(t.inputs) == 2)
    kept = [side for side, part in (("x", "left"), ("y", "right")) if join.wait(part).clock is None]
    return " ".join(lines), " ".join(kept)


@pytest.mark.parametrize(("name", "condition", "lines", "kept", "short_lines", "short_kept"), RELATIONS)
def test_relation(
    name: str, condition: str, lines: str, kept: str, short_lines: str, short_kept: str
) -> None:
    assert found(condition) == (lines, kept), name
    assert found(condition + SHORT) == (short_lines, short_kept), name


def test_a_check_says_the_same_as_a_condition() -> None:
    """Decision 5: what CHECK says of every row of a stream need not be said in the query."""
    checked = STREAMS.replace("TIMELINE e)", "TIMELINE e, CHECK (e <= b + INTERVAL '1' HOUR))")
    assert found("x.e = y.b") == ("y", "x")
    # b is no time line and may be NULL: then CHECK is not false, and says nothing of e.
    assert found("x.e = y.b", checked) == ("y", "x")
    sure = checked.replace("b TIMESTAMP,", "b TIMESTAMP NOT NULL,")
    assert found("x.e = y.b", sure) == ("x y", "")
