"""Pictures of plans: well-formed, each operator once, nothing on top of anything else, all text escaped."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.windows import Band
from everview.explain import explain_script as explanation_of
from everview.plan.explain import ExplainedOperator, ExplainedPart, Explanation
from everview.plan.explain.boxes import BOX_WIDTH, draw_window
from everview.plan.explain.drawing import SANS, cells, clean, fitting, shorten_text, wrap_text
from everview.plan.explain.picture import PATTERN_COLOURS
from everview.temporal.update_patterns import Edge, Pattern
from tests.plan.pictures import Rectangle, boxes, groups, read_picture

ROOT = Path(__file__).parents[2]
STREAMS = """
CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND);
CREATE STREAM r (k INT, w INT, ts TIMESTAMP, TIMELINE ts);
CREATE TABLE names (id INT, name STRING, PRIMARY KEY (id));
"""
AGGREGATE = "CREATE VIEW a AS SELECT k, SUM(v) AS v FROM s [RANGE 15 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
EXCEPT = """CREATE VIEW e AS SELECT s.k, s.v FROM s [RANGE 1 MINUTE] JOIN r [RANGE 5 MINUTES] ON s.k = r.k
            EXCEPT ALL SELECT k, v FROM s [RANGE 1 MINUTE] WHERE v IN (SELECT w FROM r);"""
JOINED = "CREATE VIEW j AS SELECT s.k, s.v, r.w FROM s [RANGE 1 HOUR] JOIN r [RANGE 1 HOUR] ON s.k = r.k;"
TEN = JOINED + "".join(
    f"CREATE VIEW v{i} AS SELECT k, SUM(v) AS total FROM j WHERE w > {i} GROUP BY k;" for i in range(10)
)
DEEP = """
CREATE TAGGED STREAM latest OVER s KEY (k);
CREATE VIEW hot AS SELECT k, v FROM latest SYNC EVERY INTERVAL '2' MINUTE WHERE v > 80;
CREATE VIEW per_k AS SELECT k, COUNT(*) AS n, MAX(v) AS top FROM hot GROUP BY k HAVING COUNT(*) > 2;
CREATE VIEW named AS SELECT b.name, p.n, p.top FROM per_k p JOIN names b ON p.k = b.id;
SELECT DISTINCT n FROM named WHERE top > 90;
"""
WINDOWS = "".join(
    f"SELECT k FROM s [{window}];"
    for window in (
        "NOW", "RANGE 5 MINUTES", "TUMBLE 5 MINUTES", "FIXED 5 MINUTES", "ROWS 3",
        "PARTITION BY k, v ROWS 100",
        "SINCE TIMESTAMP '2026-01-01 00:00:00'", "UNTIL TIMESTAMP '2026-01-01 00:00:00'",
        "RANGE 5 MINUTES SLIDE 1 MINUTE LAG 30 SECONDS ORIGIN TIMESTAMP '2026-01-01 00:00:01'",
    )
)  # fmt: skip
SCRIPTS = {
    "aggregate": AGGREGATE,
    "except": EXCEPT,
    "ten": TEN,
    "deep": DEEP,
    "windows": WINDOWS,
    "all": AGGREGATE + EXCEPT + TEN + DEEP + WINDOWS,
}
scripts = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)


def drawn(script: str) -> tuple[Explanation, Element]:
    found = explanation_of(STREAMS + script)
    return found, read_picture(found.svg())


@scripts
def test_every_operator_is_drawn_once(script: str) -> None:
    found, picture = drawn(script)
    assert [int(g.attrib["data-id"]) for g in groups(picture, "operator")] == [o.id for o in found.operators]
    for group, operator in zip(groups(picture, "operator"), found.operators, strict=True):
        assert (group.findtext("title") or "").startswith(f"#{operator.id} {operator.text}")


@pytest.mark.slow
@scripts
def test_no_two_boxes_overlap_and_all_lie_on_the_paper(script: str) -> None:
    _, picture = drawn(script)
    paper = Rectangle(0, 0, float(picture.attrib["width"]), float(picture.attrib["height"]))
    placed = list(boxes(picture).values())
    for i, box in enumerate(placed):
        assert paper.holds(box.x, box.y)
        assert paper.holds(box.x + box.width, box.y + box.height)
        assert not any(box.overlaps(other) for other in placed[i + 1 :])


@pytest.mark.slow
@scripts
def test_patterns_lie_on_no_box_and_on_no_other(script: str) -> None:
    found, picture = drawn(script)
    pills = [Rectangle.of(r) for g in groups(picture, "pattern") for r in g.iter("rect")]
    assert len(pills) == sum(len(o.inputs) for o in found.operators)
    for i, pill in enumerate(pills):
        assert not any(pill.overlaps(box) for box in boxes(picture).values())
        assert not any(pill.overlaps(other) for other in pills[i + 1 :])


@pytest.mark.slow
@scripts
def test_edges_have_the_colour_of_their_pattern(script: str) -> None:
    found, picture = drawn(script)
    by_id = {o.id: o for o in found.operators}
    for edge in groups(picture, "edge"):
        producer = int((edge.findtext("title") or "").split()[0].removeprefix("#"))
        (path,) = edge.iter("path")
        assert path.get("stroke") == PATTERN_COLOURS[by_id[producer].edge.pattern]
        assert path.get("marker-end") == f"url(#arrow-{by_id[producer].edge.pattern.name})"


@scripts
def test_text_stays_inside_its_box(script: str) -> None:
    """By the widths of DejaVu, the widest of the fonts that are asked for."""
    _, picture = drawn(script)
    for group in groups(picture, "operator"):
        (box,) = (Rectangle.of(r) for r in group.iter("rect") if r.get("class") == "box")
        for text in group.iter("text"):
            size = float(text.attrib["font-size"])
            width = size * 0.61 * cells(text.text or "")
            anchor = text.get("text-anchor", "start")
            left = float(text.attrib["x"]) - {"start": 0, "middle": width / 2, "end": width}[anchor]
            assert box.holds(left, float(text.attrib["y"]))
            assert left + width <= box.x + box.width + 1


def test_a_shared_operator_has_several_edges() -> None:
    found, picture = drawn(TEN)
    (joined,) = (o.id for o in found.operators if o.name == "j")
    leaving = [g for g in groups(picture, "edge") if (g.findtext("title") or "").startswith(f"#{joined} ")]
    assert len(leaving) == 10


def test_titles_windows_time_lines_notes_and_legend_are_drawn() -> None:
    _, picture = drawn(AGGREGATE + "SELECT s.k FROM s SYNC EVERY INTERVAL '2' MINUTE JOIN r ON s.k = r.k;")
    words = [text.text for text in picture.iter("text")]
    for said in (
        "view a",
        "query",
        "15 min",
        "moves every 1 min",
        "late 5 s",
        "bound newest ts − 5 s",
        "MON",
    ):
        assert said in words
    assert "full sync points: every 2 minutes; partial: every instant" in words
    assert len(groups(picture, "window")) == 1
    assert len(groups(picture, "timeline")) == 2


def test_names_with_a_meaning_in_xml_are_escaped() -> None:
    script = """
        CREATE STREAM `<a & "b" 'c' 🚗>` (`x]]>y` INT, `道路` STRING, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW `</svg><script>alert(1)</script>` AS
          SELECT `道路` FROM `<a & "b" 'c' 🚗>` [ROWS 3] WHERE `道路` <> '<&>' AND `x]]>y` < 3;
    """
    svg = explanation_of(script).svg()
    assert "<script" not in svg
    picture = read_picture(svg)
    words = [text.text for text in picture.iter("text")]
    assert "view </svg><script>alert(1…" in words
    assert "Stream `<a & \"b\" 'c' 🚗>`" in words
    tooltips = [title.text or "" for title in picture.iter("title")]
    assert any("`<a & \"b\" 'c' 🚗>`.`道路` <> '<&>'" in tooltip for tooltip in tooltips)


def test_a_long_text_is_cut_and_whole_in_the_tooltip() -> None:
    long = "SELECT " + ", ".join(f"v + {i} AS a_column_with_a_long_name_{i}" for i in range(40)) + " FROM s"
    found, picture = drawn(long)
    (box,) = (b for i, b in boxes(picture).items() if i == found.parts[0].root)
    assert box.height < 120
    assert box.width == BOX_WIDTH
    (whole,) = (g.findtext("title") for g in groups(picture, "operator") if g.get("data-id") == "1")
    assert whole is not None
    assert "s.v + 39 AS a_column_with_a_long_name_39 · " in whole


@given(st.text(), st.text(min_size=1), st.booleans())
def test_any_text_gives_a_picture(text: str, name: str, signed: bool) -> None:
    """Also with characters that XML cannot hold at all."""
    operators = (
        ExplainedOperator(1, "View", f"View {name}", Edge(Pattern.STR, signed), (2,), name=name, readers=1),
        ExplainedOperator(2, "Filter", f"Filter {text}", Edge(Pattern.MON), (), readers=1),
    )
    picture = read_picture(Explanation(operators, (ExplainedPart("view", name, 1, growth=(text,)),)).svg())
    assert len(boxes(picture)) == 2


@given(st.text(), st.integers(4, 30), st.integers(1, 4))
def test_wrapped_text_fits(text: str, most: int, lines: int) -> None:
    found = wrap_text(text, most, lines)
    assert len(found) <= lines
    assert all(cells(row) <= most for row in found)
    if len(found) < lines:
        assert "".join(found).replace(" ", "") == "".join(clean(text).split())


@given(st.text(), st.integers(1, 30))
def test_shortened_text_fits(text: str, most: int) -> None:
    assert cells(shorten_text(text, most)) <= most


def test_the_picture_in_the_readme(regenerate: bool) -> None:
    """docs/parking.svg shows the script that stands in README.md."""
    readme = (ROOT / "README.md").read_text("utf-8")
    script = readme.partition("cat > parking.sql <<'SQL'\n")[2].partition("> SQL\n")[0]
    svg = explanation_of("\n".join(line.removeprefix("> ") for line in script.splitlines())).svg() + "\n"
    shown = ROOT / "docs" / "parking.svg"
    if regenerate:
        shown.write_text(svg, "utf-8")
    assert shown.read_text("utf-8") == svg


def test_few_characters_fit_into_little_room() -> None:
    assert fitting(0, 10, SANS) == 4
    assert fitting(60, 10, SANS) == 10


def test_every_window_has_a_picture() -> None:
    picture = Element("svg")
    draw_window(Band(), picture, 0, 0)
    assert len(list(picture.iter("rect"))) == 1
    with pytest.raises(TypeError, match="no picture of str"):
        draw_window("RANGE", picture, 0, 0)
