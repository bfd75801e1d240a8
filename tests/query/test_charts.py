"""Pictures of a view over time: the right intervals, in a picture that any reader can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import everview
from everview.errors import EverviewError
from everview.query.charts import Plot, RecordInterval, TimelineChart, record_intervals

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 1_000_000


def shapes(svg: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(SVG + kind))


def test_pieces_of_equal_records_are_told_apart() -> None:
    events = [("+", None, ("a",), None), ("+", 2, ("a",), None), ("-", 5, ("a",), None)]
    assert record_intervals(events) == [RecordInterval(("a",), None, 5), RecordInterval(("a",), 2, None)]


def test_a_timeline_has_a_bar_for_every_piece() -> None:
    parts = (
        RecordInterval(("a",), 0, 4 * SECOND),
        RecordInterval(("<&'\x00",), 2 * SECOND, None),
        RecordInterval(("a",), None, 0),
    )
    chart = TimelineChart("rooms", ("room",), parts, "a note")
    svg = chart._repr_html_()
    bars = [bar for group in shapes(svg, "g") for bar in group.iter(SVG + "rect")]
    assert len(bars) == 3
    by_title = {group.find(SVG + "title").text: group.find(SVG + "rect") for group in shapes(svg, "g")}  # type: ignore[union-attr]
    first = by_title["room=a, 1970-01-01T00:00:00.000000 to 1970-01-01T00:00:04.000000"]
    second = next(bar for title, bar in by_title.items() if title.endswith("to ∞"))
    assert float(second.get("x")) > float(first.get("x"))
    assert "a note" in {t.text for t in shapes(svg, "text")}
    assert str(chart).splitlines()[0].startswith("room=a")
    assert "█" in str(chart)


def test_a_plot_has_a_line_for_every_combination_of_the_other_columns() -> None:
    parts = (
        RecordInterval(("car", "1"), 0, 2 * SECOND),
        RecordInterval(("car", "3"), 2 * SECOND, None),
        RecordInterval(("bus", "2"), SECOND, 3 * SECOND),
        RecordInterval(("bus", None), 3 * SECOND, None),
    )
    chart = Plot("per_type", ("vtype", "n"), parts, values=("n",), labels=("vtype",))
    assert {label: [v for _, v in line] for label, line in chart.series()["n"].items()} == {
        "vtype=car": [1.0, 3.0],
        "vtype=bus": [2.0],
    }
    car, bus = (path.get("d") for path in shapes(chart._repr_svg_(), "path"))
    assert (car or "").count("M") == 1, "a change is a step, not a gap"
    assert (bus or "").count("L") == 1
    assert "vtype=car n |" in str(chart)
    assert "1 to 3" in str(chart)


def test_no_line_of_a_plot_hides_another() -> None:
    """Equal numbers lie apart, no two lines are drawn alike; what is not finite is left out."""
    parts = tuple(RecordInterval((str(i), "7"), 0, SECOND) for i in range(20))
    infinite = RecordInterval(("0", "inf"), SECOND, 2 * SECOND)
    drawn = shapes(Plot("v", ("k", "n"), (*parts, infinite), values=("n",), labels=("k",)).svg(), "path")
    assert len({path.get("d") for path in drawn}) == 20
    assert len({(path.get("stroke"), path.get("stroke-dasharray")) for path in drawn}) == 20
    assert not any("inf" in (path.get("d") or "") for path in drawn)


def test_a_long_label_of_a_bar_has_the_values_alone() -> None:
    chart = TimelineChart(
        "v",
        ("vid", "vowner"),
        (RecordInterval(("v1", None), 0, None), RecordInterval(("v2", "CITY MOST_DRAWN LTD"), 0, None)),
    )
    texts = [text.text for text in shapes(chart.svg(), "text")]
    assert "vid=v1 vowner=NULL" in texts
    assert "v2 CITY MOST_DRAWN LTD" in texts


def test_an_empty_view_is_drawn_empty() -> None:
    assert shapes(TimelineChart("v", ("a",), ())._repr_html_(), "g") == []
    assert shapes(Plot("v", ("a",), (), values=("a",))._repr_html_(), "path") == []


@pytest.mark.spark
def test_views_of_a_store(spark: Any, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (`k k` STRING, v DOUBLE, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW sums AS SELECT `k k`, SUM(v) AS total FROM s [RANGE 5 SECONDS] GROUP BY `k k`;
            CREATE VIEW keys AS SELECT `k k` FROM s [RANGE 5 SECONDS];
            INSERT INTO s VALUES ('a', 1.5, TIMESTAMP '1970-01-01 00:00:01'),
                                 ('a', 2, TIMESTAMP '1970-01-01 00:00:03');
        """)
        db.run()
        with pytest.raises(EverviewError, match="there is no stream, table or view 'sum'"):
            db.view("sum")
        bars = db.timeline("SUMS")
        assert bars.intervals == (
            RecordInterval(("a", "1.5"), SECOND, 3 * SECOND),
            RecordInterval(("a", "3.5"), 3 * SECOND, None),
        )
        plot = db.view("sums").plot()
        assert [v for _, v in plot.series()["total"]["k k=a"]] == [1.5, 3.5]
        with pytest.raises(EverviewError, match="has no column of numbers 'totl'") as refused:
            db.view("sums").plot("totl")
        assert refused.value.meant == "total"
        with pytest.raises(EverviewError, match="has no column of numbers"):
            db.view("keys").plot()


def test_two_aggregates_have_a_panel_each() -> None:
    parts = (
        RecordInterval(("car", "1", "10"), 0, 2 * SECOND),
        RecordInterval(("car", "2", "30"), 2 * SECOND, None),
        RecordInterval(("bus", "1", "5"), SECOND, None),
    )
    chart = Plot("v", ("kind", "n", "total"), parts, values=("n", "total"), labels=("kind",))
    assert {
        column: {name: [v for _, v in line] for name, line in lines.items()}
        for column, lines in chart.series().items()
    } == {
        "n": {"kind=car": [1.0, 2.0], "kind=bus": [1.0]},
        "total": {"kind=car": [10.0, 30.0], "kind=bus": [5.0]},
    }
    drawn = shapes(chart.svg(), "path")
    assert [path.get("stroke") for path in drawn] == ["#2563eb", "#d97706"] * 2, "a key has one colour"
    assert all((path.get("d") or "").count("M") == 1 for path in drawn), "a change is a step, not a gap"
    assert {"n", "total"} <= {t.text for t in shapes(chart.svg(), "text")}
    assert [line.split("|")[0].strip() for line in str(chart).splitlines()[:-1]] == [
        "kind=car n", "kind=bus n", "kind=car total", "kind=bus total",
    ]  # fmt: skip


def test_a_timeline_has_the_newest_rows() -> None:
    chart = TimelineChart(
        "v", ("k",), tuple(RecordInterval((str(i),), i * SECOND, (i + 1) * SECOND) for i in range(50))
    )
    texts = [text.text for text in shapes(chart.svg(), "text")]
    assert "k=49" in texts
    assert "k=9" not in texts
    assert "10 earlier rows" in texts
    assert str(chart).splitlines()[0].startswith("k=10 ")


def test_a_range_is_the_axis() -> None:
    chart = TimelineChart(
        "v", ("k",), (RecordInterval(("a",), None, 5 * SECOND),), "", 2 * SECOND, 9 * SECOND
    )
    assert chart.span == (2 * SECOND, 9 * SECOND)
    assert TimelineChart("v", ("k",), (), "", 2 * SECOND, None).span[0] == 2 * SECOND


@pytest.mark.spark
def test_the_newest_changes_and_a_range_of_time(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k;
        """)
        db.insert("s", [{"k": "old", "v": 7, "ts": "1970-01-01 00:00:00"}])
        db.insert("s", [{"k": "a", "v": i, "ts": f"1970-01-01 00:00:{i:02}"} for i in range(1, 21)])
        db.run()
        whole = db.view("sums").plot()
        assert whole.note == ""
        assert {name: len(line) for name, line in whole.series()["n"].items()} == {"k=old": 1, "k=a": 20}
        assert list(whole.series()) == ["n", "total"]

        asked = db.view("sums").plot("n", since="1970-01-01T00:00:05", until="1970-01-01T00:00:08")
        assert asked.span == (5 * SECOND, 8 * SECOND)
        line = [(p.from_, p.until, v) for p, v in asked.series()["n"]["k=a"]]
        assert line == [
            (None, 6 * SECOND, 5.0),
            (6 * SECOND, 7 * SECOND, 6.0),
            (7 * SECOND, 8 * SECOND, 7.0),
            (8 * SECOND, None, 8.0),
        ]
        assert [v for _, v in asked.series()["n"]["k=old"]] == [1.0], "it holds all the time"

        monkeypatch.setattr("everview.query.charts.view.MOST_CHANGES", 4)
        newest = db.timeline("sums")
        assert newest.note == "only the newest changes are drawn, those after 1970-01-01T00:00:16.000000"
        assert {p.record for p in newest.intervals if p.until is None} == {
            ("a", "20", "210"),
            ("old", "1", "7"),
        }
        assert len(newest.intervals) == 6

        for wrong, said in (
            ("noon", "since: 'noon' is no timestamp"),
            ("9999-01-01", "ends before it begins"),
        ):
            with pytest.raises(EverviewError, match=said):
                db.timeline("sums", since=wrong, until="2026-01-01")
