"""An explanation as a picture: boxes for operators, edges with their update pattern, a legend, notes.

The sources are at the bottom and the answers at the top, as in the text. A plan that would be too wide for a
page is drawn from left to right, unless that is larger still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement

from everview.plan.explain import drawing as D
from everview.plan.explain.boxes import WIDTH, Box
from everview.plan.explain.layout import LAYER_GAP, Layout, Point, lay_out
from everview.plan.explain.operators import ExplainedOperator, Part
from everview.temporal.patterns import Edge, Pattern

COLOURS = {
    Pattern.MON: "#2f855a",
    Pattern.WKS: "#2b6cb0",
    Pattern.WK: "#b7600b",
    Pattern.STR: "#c53030",
}
MEANINGS = {
    Pattern.MON: "append-only",
    Pattern.WKS: "expires in order",
    Pattern.WK: "expires at known times",
    Pattern.STR: "ends when nobody could know",
}
_MARGIN = 24.0
_LEAST_WIDTH, _PAGE = 620.0, 1600.0
_NOTE, _LEGEND = 16.0, 18.0


def picture_of(operators: Sequence[ExplainedOperator], parts: Sequence[Part]) -> str:
    """The SVG of a graph of operators."""
    boxes = {o.id: Box(o, tuple(part.title for part in parts if part.root == o.id)) for o in operators}
    inputs = {o.id: o.inputs for o in operators}
    upright = lay_out({i: (b.height, WIDTH) for i, b in boxes.items()}, inputs)
    sideways = lay_out({i: (WIDTH, b.height) for i, b in boxes.items()}, inputs)
    if upright.size[1] <= _PAGE or max(upright.size) < max(sideways.size) * 0.9:
        return _drawn(boxes, parts, upright, to_right=False)
    return _drawn(boxes, parts, sideways, to_right=True)


def _drawn(boxes: dict[int, Box], parts: Sequence[Part], layout: Layout, to_right: bool) -> str:
    flow, cross = layout.size
    wide, tall = (flow, cross) if to_right else (cross, flow)
    width = max(wide, _LEAST_WIDTH) + 2 * _MARGIN
    left = (width - wide) / 2
    notes = _notes(parts, D.fitting(width - 2 * _MARGIN, 11))
    below = _MARGIN + tall + 26
    legend = below + _NOTE * len(notes) + 10
    picture = D.new_picture(width, legend + _LEGEND * 3 + _MARGIN)

    def at(point: Point) -> Point:
        """Flow and cross on paper; upward the flow runs against y."""
        along, beside = point
        return (left + along, _MARGIN + beside) if to_right else (left + beside, _MARGIN + tall - along)

    _arrow_heads(picture)
    _draw_edges(picture, boxes, layout, at, to_right)
    for number, box in boxes.items():
        x, y = at(layout.corners[number])
        box.draw(picture, x, y if to_right else y - box.height)
    for i, (indent, note) in enumerate(notes):
        weight = "normal" if indent else "bold"
        D.text(picture, _MARGIN + indent, below + _NOTE * i, note, 11, font_weight=weight)
    _draw_legend(picture, _MARGIN, legend)
    return D.written(picture)


def _notes(parts: Sequence[Part], most: int) -> list[tuple[int, str]]:
    """What is said of whole plans, each plan under its title: indent and line."""
    rows: list[tuple[int, str]] = []
    for part in parts:
        if part.lines:
            rows.append((0, D.shortened(part.title, most)))
            rows += [(12, row) for said in part.lines for row in D.wrapped(said, most - 4, 4)]
    return rows


# Edges


def _arrow_heads(picture: Element) -> None:
    heads = SubElement(picture, "defs")
    for pattern, colour in COLOURS.items():
        marker = SubElement(
            heads,
            "marker",
            {
                "id": f"arrow-{pattern.name}",
                "viewBox": "0 0 8 8",
                "refX": "7.5",
                "refY": "4",
                "markerWidth": "7",
                "markerHeight": "7",
                "orient": "auto",
            },
        )
        SubElement(marker, "path", {"d": "M0 0L8 4L0 8z", "fill": colour})


def _draw_edges(
    picture: Element, boxes: dict[int, Box], layout: Layout, at: Callable[[Point], Point], to_right: bool
) -> None:
    for (producer, consumer, place), points in layout.routes.items():
        flows = boxes[producer].operator.edge
        side = ("left ", "right ")[place] if len(boxes[consumer].operator.inputs) == 2 else ""
        whole = D.group(picture, "edge", f"#{producer} → {side}#{consumer}: {flows}")
        _draw_edge(whole, [at(point) for point in points], flows, to_right)
    for (producer, _, _), points in layout.routes.items():  # above all edges, so that none crosses a word
        _draw_pattern(picture, at(points[-1]), boxes[producer].operator.edge, to_right)


def _draw_edge(parent: Element, points: Sequence[Point], flows: Edge, to_right: bool) -> None:
    D.path(
        parent,
        _curve(points, to_right),
        stroke=COLOURS[flows.pattern],
        stroke_width="1.8",
        marker_end=f"url(#arrow-{flows.pattern.name})",
    )


def _draw_pattern(parent: Element, end: Point, flows: Edge, to_right: bool) -> None:
    """The pattern in a pill before the arrow head: there every edge has room of its own."""
    colour = COLOURS[flows.pattern]
    whole = D.group(parent, "pattern")
    wide = 7.0 * len(str(flows)) + 13
    x, y = (end[0] - LAYER_GAP * 0.2 - wide / 2, end[1]) if to_right else (end[0], end[1] + LAYER_GAP * 0.34)
    D.rectangle(whole, x - wide / 2, y - 7.5, wide, 15, rx="7", fill=D.PAPER, stroke=colour)
    D.text(whole, x, y + 3.7, str(flows), 10, fill=colour, text_anchor="middle", font_weight="bold")


def _curve(points: Sequence[Point], to_right: bool) -> str:
    """Straight through layers, bent between them: points come in pairs, begin and end of a straight piece."""
    x, y = points[0]
    way = f"M{x:.1f} {y:.1f}"
    for i, (there, then) in enumerate(points[1:], 1):
        if i % 2:
            way += f"L{there:.1f} {then:.1f}"
        else:
            half = ((there - x) / 2, 0.0) if to_right else (0.0, (then - y) / 2)
            way += (
                f"C{x + half[0]:.1f} {y + half[1]:.1f} {there - half[0]:.1f} {then - half[1]:.1f}"
                f" {there:.1f} {then:.1f}"
            )
        x, y = there, then
    return way


def _draw_legend(picture: Element, x: float, y: float) -> None:
    whole = D.group(picture, "legend")
    for i, (pattern, words) in enumerate(MEANINGS.items()):
        left, top = x + 290 * (i % 2), y + _LEGEND * (i // 2) + 8
        D.line(whole, left, top, left + 26, top, stroke=COLOURS[pattern], stroke_width="3")
        D.text(whole, left + 34, top + 4, f"{words} ({pattern.name})", 10.5, fill=COLOURS[pattern])
    top = y + _LEGEND * 2 + 8
    D.text(whole, x + 34, top + 4, "may be retracted (±)", 10.5)
