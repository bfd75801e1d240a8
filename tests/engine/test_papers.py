"""The papers' queries through the engine: every query that papers 1, 2 and 5 print or describe, in one store.

What paper 5 calls a tagged stream is compared as the paper writes it; paper 1's numbers with the paper's, and
its query with means worked out here; paper 2's queries with DuckDB.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.numbers import round_to_single
from tests.engine.papers import (
    EPOCH,
    FIRST_POINT,
    HIGHWAY,
    LAST_POINT,
    LINKS,
    QUERIES,
    SECTIONS,
    TEMPERATURES,
    Row,
    at,
    collected,
    fill,
    intervals,
    snapshot,
    tags,
)
from tests.engine.test_real_data import SECOND, Case, compare, ranged
from tests.golden.test_paper_1 import RAW, cut
from tests.golden.test_paper_5 import READINGS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def papers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[everview.Database]:
    """All the papers' streams and views in one store, after two runs."""
    with everview.connect(str(tmp_path_factory.mktemp("papers") / "store"), spark, partitions=2) as db:
        fill(db)
        yield db


# Paper 5


@pytest.mark.parametrize(
    ("view", "stream"),
    [
        pytest.param(
            "park_lot",
            "+<v1,CAR>0 +<v2,BUS>1 +<v3,CAR>1 -<v3,CAR>2 +<v4,TRUCK>3 -<v2,BUS>4 +<p1,POLICE>5 +<v5,CAR>6"
            " -<p1,POLICE>7 +<v6,CAR>8 +<v7,BUS>9 -<v4,TRUCK>10 +<p1,POLICE>11 +<v8,CAR>12 -<v6,CAR>12",
            id="P1, the vehicles in the lot",
        ),
        pytest.param(
            "per_type",
            "+<CAR,1>0 +<BUS,1>1 u<CAR,2>1 u<CAR,1>2 +<TRUCK,1>3 -<BUS,1>4 +<POLICE,1>5 u<CAR,2>6"
            " -<POLICE,1>7 u<CAR,3>8 +<BUS,1>9 -<TRUCK,1>10 +<POLICE,1>11",
            id="P2, how many of each type",
        ),
        pytest.param(
            "park_lot_2",
            "+<v1,CAR>0 +<v2,BUS>2 +<v4,TRUCK>4 -<v2,BUS>4 +<p1,POLICE>6 +<v5,CAR>6 -<p1,POLICE>8"
            " +<v6,CAR>8 +<v7,BUS>10 -<v4,TRUCK>10 +<p1,POLICE>12 +<v8,CAR>12 -<v6,CAR>12",
            id="P4, every 2 minutes",
        ),
        pytest.param(
            "case_3",
            "+<v1,CAR,0>0 +<v2,BUS,2>2 +<v4,TRUCK,4>4 +<p1,POLICE,6>6 +<v5,CAR,6>6"
            " +<v6,CAR,8>8 +<v7,BUS,10>10 +<p1,POLICE,12>12 +<v8,CAR,12>12",
            id="P4, case 3: the insertions alone",
        ),
        pytest.param(
            "case_4",
            "+<v2,BUS,4>4 +<p1,POLICE,8>8 +<v4,TRUCK,10>10 +<v6,CAR,12>12",
            id="P4, case 4: the deletions alone",
        ),
        pytest.param(
            "per_type_4",
            "+<CAR,1>0 +<TRUCK,1>4 u<CAR,3>8 +<BUS,1>12 +<POLICE,1>12 -<TRUCK,1>12",
            id="P5, P2 every 4 minutes over P4",
        ),
        pytest.param("police_sync", "+<5>5 +<11>11", id="P6, its synchronization stream"),
        pytest.param(
            "per_type_police",
            "+<CAR,1>5 +<POLICE,1>5 +<TRUCK,1>5 +<BUS,1>11 -<TRUCK,1>11 u<CAR,3>11",
            id="P6, P2 when a police car comes",
        ),
        pytest.param(
            "five_units_window",
            "+<v1,0>0 +<v2,1>1 +<v3,1>1 +<v4,3>3 +<p1,5>5 -<v1,0>5 +<v5,6>6 -<v2,1>6 -<v3,1>6 +<v6,8>8"
            " -<v4,3>8 +<v7,9>9 -<p1,5>10 +<p1,11>11 -<v5,6>11 +<v8,12>12 -<v6,8>13 -<v7,9>14 -<p1,11>16"
            " -<v8,12>17",
            id="P7, the last 5 units",
        ),
        pytest.param(
            "hot_rooms",
            "+<a,99>1 u<a,95>4 +<b,103>5 +<c,108>6 u<c,122>7 -<b,103>9 u<a,101>10 u<c,88>11",
            id="T1, above 80",
        ),
        pytest.param(
            "very_hot",
            "+<b,103>5 +<c,108>6 u<c,122>7 -<b,103>9 +<a,101>10 -<c,122>11",
            id="T2, above 100",
        ),
        pytest.param(
            "hot_rooms_2",
            "+<a,99>2 u<a,95>4 +<b,103>6 +<c,108>6 u<c,122>8 -<b,103>10 u<a,101>10 u<c,88>12",
            id="T3, above 80 every 2",
        ),
        pytest.param(
            "hot_rooms_on_sync_2",
            "+<a,99>2 u<a,95>4 +<b,103>6 +<c,108>6 u<c,122>8 -<b,103>10 u<a,101>10 u<c,88>12",
            id="T3, on the synchronization stream of example 6",
        ),
        pytest.param(
            "very_hot_4",
            "+<b,103>8 +<c,122>8 +<a,101>12 -<b,103>12 -<c,122>12",
            id="T4, above 100 every 4",
        ),
        pytest.param(
            "very_hot_4_from_hot_rooms_2",
            "+<b,103>8 +<c,122>8 +<a,101>12 -<b,103>12 -<c,122>12",
            id="T4, answered from T3 (example 11)",
        ),
        pytest.param(
            "very_hot_at_alarm", "+<b,103>7 +<c,122>7", id="T5, above 100 when one reports above 120"
        ),
        pytest.param("sequence_r", "+<r,89>1 u<r,87>2 -<r,87>3", id="10.3.2, 89 87 79 78"),
        pytest.param("sequence_s", "+<s,89>1 -<s,89>2 +<s,87>3 -<s,87>4", id="10.3.2, 89 79 87 78"),
        pytest.param("build_hot_rooms", "+<1,1>1 u<1,2>5 +<2,1>6 u<1,1>9", id="10.5, BuildHotRooms"),
        pytest.param(
            "build_hot_rooms_2", "+<1,1>2 u<1,2>6 +<2,1>6 u<1,1>10", id="10.5, BuildHotRooms every 2"
        ),
        pytest.param(
            "building_groups",
            "+<1,1>2 u<1,2>6 +<2,1>6 u<1,1>10",
            id="10.6, BuildingGroups over a shared view",
        ),
        *(
            pytest.param(
                view,
                "+<95,1>4 +<103,1>8 +<122,1>8 +<88,1>12 +<101,1>12 -<95,1>12 -<103,1>12 -<122,1>12",
                id=f"10.6, TemperatureGroups {how}",
            )
            for view, how in (
                ("temperature_groups_alone", "alone"),
                ("temperature_groups", "over a shared view"),
            )
        ),
    ],
)
def test_paper_5_tagged_stream(papers: everview.Database, view: str, stream: str) -> None:
    assert tags(papers, view) == sorted(stream.split(), key=by_time)


def by_time(tag: str) -> tuple[int, str]:
    change, _, unit = tag.partition(">")
    return int(unit), change


def test_the_rows_of_the_rooms_begin_with_those_of_figure_1() -> None:
    assert TEMPERATURES[:4] == READINGS


FIGURE_1 = ["", "a,99,1", "a,99,1 b,75,2", "a,99,1 b,75,2 c,80,3", "a,95,4 b,75,2 c,80,3"]
FIGURE_2 = ["", "", "a,99,1 b,75,2", "a,99,1 b,75,2", "a,95,4 b,75,2 c,80,3"]


@pytest.mark.parametrize(
    ("view", "unit", "content"),
    [
        pytest.param(view, unit, content, id=f"{view} at {unit}")
        for view, contents in (("figure_1", FIGURE_1), ("figure_2", FIGURE_2))
        for unit, content in enumerate(contents)
    ],
)
def test_paper_5_contents_in_the_figure(
    papers: everview.Database, view: str, unit: int, content: str
) -> None:
    assert snapshot(papers, view, unit) == content.split()


def test_paper_5_figure_3_the_relation_to_stream_operator(papers: everview.Database) -> None:
    assert tags(papers, "figure_2")[:4] == ["+<a,99,1>2", "+<b,75,2>2", "+<c,80,3>4", "u<a,95,4>4"]


def test_paper_5_p3_is_joe_does_car_in_the_lot(papers: everview.Database) -> None:
    """Right now; and Ann Lee's, which was there for a minute."""
    asked = "SELECT * FROM comp_park_lot c WHERE c.vowner = '{}'"
    assert collected(papers.query(asked.format("JOE DOE"))) == [("v1", "CAR", "JOE DOE")]
    assert collected(papers.query(asked.format("ANN LEE"))) == []
    then = papers.query(asked.format("ANN LEE"), as_of=at(1).isoformat())
    assert collected(then) == [("v3", "CAR", "ANN LEE")]


def test_paper_5_p4_case_1_the_whole_answer_every_2_minutes(papers: everview.Database) -> None:
    assert snapshot(papers, "park_lot_2", 5) == ["v1,CAR", "v4,TRUCK"]
    assert snapshot(papers, "park_lot_2", 6) == ["p1,POLICE", "v1,CAR", "v4,TRUCK", "v5,CAR"]


def test_paper_5_p4_case_2_all_of_it_again_every_2_minutes(papers: everview.Database) -> None:
    inside = ["v1", "v1 v2", "v1 v4", "v1 v4 v5 p1", "v1 v4 v5 v6", "v1 v5 v6 v7", "v1 v5 v7 p1 v8"]
    wanted = [f"+<{vid},{2 * i}>{2 * i}" for i, vids in enumerate(inside) for vid in vids.split()]
    streamed = tags(papers, "case_2")
    assert streamed[: len(wanted)] == sorted(wanted, key=by_time)
    assert by_time(streamed[-1])[0] == LAST_POINT


def test_paper_5_p4_case_2_over_what_holds_at_every_instant(papers: everview.Database) -> None:
    """A count is there before the first row and after the last; it is streamed from the first to the last."""
    first = FIRST_POINT // 2
    counts = [*[0] * -first, 1, 2, 2, 4, 4, 4, *[5] * (LAST_POINT // 2 - 5)]
    assert tags(papers, "case_2_count") == [f"+<{n},{2 * i}>{2 * i}" for i, n in enumerate(counts, first)]


def test_paper_5_example_6_a_synchronization_stream_from_the_clock(papers: everview.Database) -> None:
    assert tags(papers, "sync_2") == [f"+<{t}>{t}" for t in range(FIRST_POINT, LAST_POINT + 1, 2)]


def test_paper_5_example_9_full_and_partial_points(papers: everview.Database) -> None:
    """Figure 4: 2 reflects S3 up to 0, 3 and 4 are partial too, 5 is no point, 6 is full."""
    found = intervals(papers, "figure_4")
    for unit, (left, right) in {0: (0, 0), 2: (2, 0), 3: (2, 3), 4: (4, 3), 5: (4, 3), 6: (6, 6)}.items():
        there = Counter(held.record for held in found if held.at(at(unit)))
        assert there == {(1, at(i), at(j)): 1 for i in range(left + 1) for j in range(right + 1)}, unit


def test_paper_5_4_4_a_window_join(papers: everview.Database) -> None:
    """Two rows are joined when the later one comes; less than 5 apart, as the predicate says."""
    near = {(i, j): max(i, j) for i in range(7) for j in range(7) if abs(i - j) < 5}
    wanted = [f"+<{i},{j}>{later}" for (i, j), later in near.items()]
    assert tags(papers, "window_join") == sorted(wanted, key=by_time)


# Paper 1


def test_paper_1_2_6_a_sliding_window_of_15_minutes(papers: everview.Database) -> None:
    found = sorted(intervals(papers, "sliding_window"), key=lambda held: str(held.begin))
    assert [(h.record[0], f"{h.begin:%H:%M:%S}", f"{h.end:%H:%M:%S}") for h in found] == [
        (5, "05:00:08", "05:15:08"),
        (2, "05:01:32", "05:16:32"),
        (4, "05:02:16", "05:17:16"),
    ]
    assert [round_to_single(h.record[1]) for h in found] == [row[1] for row in RAW]


def test_paper_1_4_3_2_8_the_average_speeds_of_a_station(papers: everview.Database) -> None:
    """Without rows SQL's average is NULL."""
    found = [h for h in intervals(papers, "averages") if h.record[1] == 1]
    listing = [
        (cut(h.record[0]), "" if h.begin is None else f"{h.begin:%H:%M:%S}")
        for h in sorted(found, key=lambda h: str(h.begin or ""))
    ]
    assert listing == [
        (None, ""),
        ("18.280", "05:00:08"),
        ("19.805", "05:01:32"),
        ("19.766", "05:02:16"),
        ("20.510", "05:15:08"),
        ("19.690", "05:16:32"),
        (None, "05:17:16"),
    ]
    assert [h.end for h in found if h.begin is not None and f"{h.begin:%M:%S}" == "17:16"] == [None]


def test_paper_1_2_2_where_the_average_speed_is_below_15(papers: everview.Database) -> None:
    """At every instant at which anything changes, against means worked out here row by row."""
    averages, congested = intervals(papers, "averages"), intervals(papers, "congested")
    width = timedelta(minutes=15)
    begins = {row["ts"] for rows in HIGHWAY.values() for row in rows}
    below = 0
    for moment in sorted(begins | {ts + width for ts in begins}):
        means = {i: mean_at(HIGHWAY[f"highway_stream{i}"], moment, width) for i in SECTIONS}
        shown = {h.record[1]: h.record[0] for h in averages if h.at(moment)}
        assert shown.keys() == means.keys()
        for section, mean in means.items():
            assert (shown[section] is None) == (mean is None)
            assert mean is None or math.isclose(shown[section], mean, rel_tol=1e-12)
        slow = {(i,): 1 for i, mean in means.items() if mean is not None and mean < 15}
        assert Counter(h.record for h in congested if h.at(moment)) == slow
        below += len(slow)
    assert below > 10


def mean_at(rows: list[Row], moment: datetime, width: timedelta) -> float | None:
    speeds = [round_to_single(float(r["speed"])) for r in rows if r["ts"] <= moment < r["ts"] + width]
    return sum(speeds) / len(speeds) if speeds else None


# Paper 2


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    """The links in another engine."""
    connection = duckdb.connect(config={"threads": 1})
    for name, rows in LINKS.items():
        frame = pl.DataFrame(rows).with_columns(  # noqa: F841 (read by DuckDB by its name)
            pl.col("payload").cast(pl.Int64), pl.col("ts").dt.epoch("us").alias("at")
        )
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return connection


def moments() -> list[int]:
    """Every instant at which a row comes or goes; the first of them, AS OF which is asked, in their midst."""
    times = {(row["ts"] - EPOCH) // timedelta(microseconds=1) for rows in LINKS.values() for row in rows}
    found = sorted(times | {t + 2000 * SECOND for t in times})
    return [*found[30:], *found[:30]]


@pytest.mark.parametrize("name", QUERIES)
def test_paper_2_query_against_duckdb(
    papers: everview.Database, duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    witness = QUERIES[name].format(None, *(ranged(link, 2000 * SECOND) for link in LINKS))
    compare(papers, duck, Case(name, "", witness), moments())


def test_paper_2_figure_6_the_two_plans_of_query_5(papers: everview.Database) -> None:
    """Equal if the negation goes by values; equation 1 counts copies, and (v1 - v2)·w is not v1·w - v2."""
    by_value = [history(papers, f"query_5_{plan}_by_value") for plan in ("above", "below")]
    assert by_value[0] == by_value[1] != {}
    counted = [history(papers, f"query_5_{plan}") for plan in ("above", "below")]
    assert counted[0] != counted[1]


def history(db: everview.Database, view: str) -> dict[tuple[Any, ...], int]:
    return {(h.record, h.begin, h.end): h.copies for h in intervals(db, view)}
