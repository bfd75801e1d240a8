"""Layouts of random graphs: no two boxes overlap, and no edge runs through a box."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from everview.plan.explain.layout import LAYER_GAP, PictureLayout, lay_out

Graph = tuple[dict[int, tuple[float, float]], dict[int, list[int]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Boxes of random sizes; each reads at most two of those before it, perhaps the same one twice."""
    count = draw(st.integers(1, 14))
    sizes = {i: (draw(st.integers(20, 90)) * 1.0, draw(st.integers(20, 90)) * 1.0) for i in range(count)}
    inputs = {i: draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(count)}
    return sizes, inputs


def boxes(
    found: PictureLayout, sizes: dict[int, tuple[float, float]]
) -> list[tuple[float, float, float, float]]:
    """Begin and end of every box, along the flow and across it."""
    return [(x, x + sizes[i][0], y, y + sizes[i][1]) for i, (x, y) in found.corners.items()]


@given(graphs())
def test_boxes_do_not_overlap_and_lie_inside(graph: Graph) -> None:
    sizes, inputs = graph
    found = lay_out(sizes, inputs)
    placed = boxes(found, sizes)
    for n, (x1, x2, y1, y2) in enumerate(placed):
        assert x1 >= 0
        assert y1 >= -1e-6
        assert x2 <= found.size[0] + 1e-6
        assert y2 <= found.size[1] + 1e-6
        for a1, a2, b1, b2 in placed[n + 1 :]:
            assert x2 <= a1 or a2 <= x1 or y2 <= b1 + 1e-6 or b2 <= y1 + 1e-6


@given(graphs())
def test_who_is_read_lies_before_who_reads(graph: Graph) -> None:
    sizes, inputs = graph
    corners = lay_out(sizes, inputs).corners
    for number, below in inputs.items():
        assert all(corners[i][0] + sizes[i][0] + LAYER_GAP <= corners[number][0] + 1e-6 for i in below)


@given(graphs())
def test_edges_lead_from_box_to_box_and_through_none(graph: Graph) -> None:
    """A straight piece passes beside all boxes; a bend lies where no box is at all."""
    sizes, inputs = graph
    found = lay_out(sizes, inputs)
    assert len(found.routes) == sum(map(len, inputs.values()))
    for (producer, consumer, _), points in found.routes.items():
        x, y = found.corners[producer]
        assert points[0] == (x + sizes[producer][0], points[0][1])
        assert y < points[0][1] < y + sizes[producer][1]
        x, y = found.corners[consumer]
        assert points[-1][0] == x
        assert y < points[-1][1] < y + sizes[consumer][1]
        others = [b for i, b in zip(found.corners, boxes(found, sizes), strict=True) if i != producer]
        for i, (begin, end) in enumerate(pairwise(points)):
            assert begin[0] <= end[0]
            bends = i % 2 == 1
            assert bends or begin[1] == end[1]
            for x1, x2, y1, y2 in others:
                beside = not y1 - 1e-6 < begin[1] < y2 + 1e-6
                before = end[0] <= x1 + 1e-6 or x2 <= begin[0] + 1e-6
                assert before or (beside and not bends)


def test_where_edges_lead_far_there_is_room_to_follow_them() -> None:
    near, far = (
        lay_out(dict.fromkeys(range(count), (50.0, 250.0)), {0: [], **{i: [0] for i in range(1, count)}})
        for count in (3, 9)
    )
    assert near.corners[1][0] == 50 + LAYER_GAP
    assert far.corners[1][0] > 50 + LAYER_GAP
    assert {points[1][0] for points in far.routes.values()} == {50.0}, "they bend all the way"


def test_a_source_stands_next_to_who_reads_it() -> None:
    """A table that is joined at the end of a long plan is drawn there, not at the beginning."""
    chain = {i: [i - 1] if i else [] for i in range(8)}
    found = lay_out(dict.fromkeys(range(9), (10.0, 10.0)), {**chain, 7: [6, 8], 8: []})
    assert found.corners[8][0] == found.corners[6][0]


def test_a_plan_without_need_has_no_crossings() -> None:
    """Two chains that meet: the left one stays on its side."""
    inputs = {1: [2, 5], 2: [3], 3: [4], 4: [], 5: [6], 6: [7], 7: []}
    corners = lay_out(dict.fromkeys(inputs, (10.0, 10.0)), inputs).corners
    assert {corners[i][1] for i in (2, 3, 4)} == {0.0}
    assert {corners[i][1] for i in (5, 6, 7)} == {32.0}
    assert corners[1][1] == 16.0


def test_nothing_is_laid_out_as_nothing() -> None:
    assert lay_out({}, {}) == PictureLayout({}, {}, (0.0, 0.0))
