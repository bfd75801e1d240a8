"""The demos: what the engine gives is what the definitions say, and has the papers' numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import everview
from everview.algebra.changes import ChangeRow, are_equivalent
from everview.algebra.time import INFINITY
from everview.errors import EverviewError
from everview.reference.work_out import work_out
from everview.ui import demo as demos
from everview.ui.replay import ReplayedRow, due_batches, read_rows, without_sources

FOLDER = Path(demos.__file__).with_name("demos")
Views = dict[str, list[ChangeRow]]
STRINGS = ("vid", "vtype", "vowner", "room", "protocol", "src", "dst")


def script_of(name: str) -> str:
    return (FOLDER / name / "demo.sql").read_text("utf-8")


def by_definition(name: str) -> dict[str, list[ChangeRow]]:
    """Every view and event stream of a demo by the papers' definitions, without Spark."""
    inserts = "".join(
        f"INSERT INTO {event.stream} VALUES ({', '.join(map(literal, event.row.items()))});"
        for event in read_rows(demos.DEMOS[name].inputs, FOLDER / name)
    )
    streams: list[str] = []
    views: list[str] = []
    for statement in without_sources(script_of(name)).split(";"):
        is_source = "CREATE STREAM" in statement and "SELECT" not in statement
        (streams if is_source else views).append(statement)
    answers = work_out(";".join(streams) + ";" + inserts + ";".join(views))
    return {answer.name: answer.rows for answer in answers}


def require_right(name: str, found: dict[str, list[ChangeRow]]) -> None:
    wanted = by_definition(name)
    assert found.keys() == wanted.keys()
    for view, rows in found.items():
        assert are_equivalent(rows, wanted[view]), view


def literal(column: tuple[str, str]) -> str:
    name, value = column
    return f"TIMESTAMP '{value}'" if name == "ts" else f"'{value}'" if name in STRINGS else value


def rows_of(db: everview.Database, view: str) -> list[ChangeRow]:
    frame = db.changes(view, "intervals")
    columns = [
        f"unix_micros(`{f.name}`)" if f.dataType.typeName() == "timestamp" else f"`{f.name}`"
        for f in frame.schema
    ]
    rows = frame.selectExpr(*columns).collect()
    return [ChangeRow(tuple(r[3:]), r[0], INFINITY if r[1] is None else r[1], r[2]) for r in rows]


def shown(
    spark: SparkSession, name: str, speed: float | None = None
) -> tuple[str, dict[str, list[ChangeRow]]]:
    """What a demo prints, and what its views hold at its end."""
    found: Views = {}

    @contextmanager
    def connect(path: str, partitions: int) -> Iterator[everview.Database]:
        with everview.connect(path, spark, partitions) as db:
            yield db
            views = [e.name for e in db.catalog if e.kind in ("view", "event stream")]
            found.update({view: rows_of(db, view) for view in views})

    out = io.StringIO()
    demos.show_demo(name, Console(file=out, width=80), connect, speed)
    return out.getvalue(), found


PRINTED = {
    "highway": [
        "  SELECT station, AVG(speed) AS avg_speed FROM highway [RANGE 15 MINUTES] GROUP BY station;",
        "1        5     18.28  5.27    1993-11-03 05:00:08",
        "1993-11-03T05:00:08.000000  1993-11-03T05:01:32.000000  1  1        18.28",
        "1993-11-03T05:01:32.000000  1993-11-03T05:02:16.000000  1  1        19.805",
        "1993-11-03T05:02:16.000000  1993-11-03T05:15:08.000000  1  1        19.766666666666666",
        "1993-11-03T05:15:08.000000  1993-11-03T05:16:32.000000  1  1        20.509999999999998",
        "1993-11-03T05:16:32.000000  1993-11-03T05:17:16.000000  1  1        19.69",
    ],
    "parking": [
        "vid  vtype  vowner\nv1   CAR    JOE DOE\n",
        '-    2010-02-01T08:02:00.000000  v3   CAR     NULL',
    ],
    "rooms": [
        "+    2010-02-01T00:00:01.000000  a     99           NULL",
        'u    2010-02-01T00:00:04.000000  a     95           {"room": "a", "temperature": 99}',
        "+    2010-02-01T00:00:02.000000  a     99           NULL",
    ],
    "metro": [
        "+    2026-01-01T10:20:00.000000  1        2026-01-01T10:20:00.000000  2       NULL",
        "+    2026-01-01T11:30:00.000000  2        2026-01-01T10:30:00.000000  2026-01-01T11:30:00.000000  ",
        "station  since                       deadline\n2        2026-01-01T10:30:00.000000  ",
    ],
    "links": ["Query 5, a join over the negation:\nfrom "],
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", demos.DEMOS)
def test_a_demo_shows_what_the_definitions_say(spark: SparkSession, name: str) -> None:
    printed, found = shown(spark, name)
    require_right(name, found)
    for part in PRINTED[name]:
        assert part in printed
    assert printed.index("What goes in:") < printed.index("What comes out:") < printed.index("Why:")


@pytest.mark.spark
def test_a_replay_comes_to_the_same(spark: SparkSession) -> None:
    printed, found = shown(spark, "rooms", speed=10)
    require_right("rooms", found)
    assert "2010-02-01 00:00:11  " in printed, "the last row came in"
    assert "hot:\ntag  at" in printed


def test_rows_are_due_at_their_time() -> None:
    """At twice the speed; the work on the first row takes so long that two more become due."""
    now = [100.0]
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    rows = [ReplayedRow(second, "s", {}) for second in (0.0, 4.0, 5.0, 10.0)]
    found = []
    for due in due_batches(rows, 2.0, lambda: now[0], sleep):
        found.append([event.second for event in due])
        now[0] += 2.5
    assert found == [[0.0], [4.0, 5.0], [10.0]]
    assert slept == [0.0, 0.0, 0.0]
    found.clear()
    slept.clear()
    assert [len(due) for due in due_batches(rows, 2.0, lambda: now[0], sleep)] == [1, 1, 1, 1]
    assert slept == [0.0, 2.0, 0.5, 2.5]


def test_all_demos_are_listed() -> None:
    out = io.StringIO()
    demos.list_demos(Console(file=out, width=60))
    assert [line.split(" ")[0] for line in out.getvalue().splitlines()] == [*demos.DEMOS, ""]


def test_a_demo_that_is_not_there() -> None:
    with pytest.raises(EverviewError, match="there is no demo 'room'") as refused:
        demos.show_demo("room", Console(), everview.connect)
    assert refused.value.meant == "rooms"
