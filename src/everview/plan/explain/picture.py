"""Draw an explanation: a box for each operator, edges with their update pattern, notes, a legend.

The sources are at the bottom and the results at the top, as in the text. A plan that would be too wide for a
page is drawn from left to right, unless that picture is larger still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement

from everview.plan.explain import drawing as D
from everview.plan.explain.boxes import BOX_WIDTH, Box
from everview.plan.explain.layout import LAYER_GAP, PictureLayout, Point, lay_out
from everview.plan.explain.operators import ExplainedOperator, ExplainedPart
from everview.temporal.update_patterns import Edge, Pattern

PATTERN_COLOURS = {
    Pattern.MON: "#2f855a",
    Pattern.WKS: "#2b6cb0",
    Pattern.WK: "#b7600b",
    Pattern.STR: "#c53030",
}
PATTERN_MEANINGS = {
    Pattern.MON: "append-only",
    Pattern.WKS: "expires in order",
    Pattern.WK: "expires at known times",
    Pattern.STR: "ends when nobody could know",
}
_MARGIN = 24.0
_LEAST_WIDTH, _PAGE = 620.0, 1600.0
_NOTE, _LEGEND = 16.0, 18.0


def render_picture(operators: Sequence[ExplainedOperator], parts: Sequence[ExplainedPart]) -> str:
    """Return a graph of operators as SVG."""
    boxes = {o.id: Box(o, tuple(part.title for part in parts if part.root == o.id)) for o in operators}
    inputs = {o.id: o.inputs for o in operators}
    upright = lay_out({i: (b.height, BOX_WIDTH) for i, b in boxes.items()}, inputs)
    sideways = lay_out({i: (BOX_WIDTH, b.height) for i, b in boxes.items()}, inputs)
    if upright.size[1] <= _PAGE or max(upright.size) < max(sideways.size) * 0.9:
        return _drawn(boxes, parts, upright, to_right=False)
    return _drawn(boxes, parts, sideways, to_right=True)


def _drawn(
    boxes: dict[int, Box], parts: Sequence[ExplainedPart], layout: PictureLayout, to_right: bool
) -> str:
    flow, cross = layout.size
    wide, tall = (flow, cross) if to_right else (cross, flow)
    width = max(wide, _LEAST_WIDTH) + 2 * _MARGIN
    left = (width - wide) / 2
    notes = _notes(parts, D.fitting(width - 2 * _MARGIN, 11))
    below = _MARGIN + tall + 26
    legend = below + _NOTE * len(notes) + 10
    picture = D.new_picture(width, legend + _LEGEND * 3 + _MARGIN)

    def at(point: Point) -> Point:
        """Return the position in the picture; in an upright one the flow runs against y."""
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
    return D.to_svg(picture)


def _notes(parts: Sequence[ExplainedPart], most: int) -> list[tuple[int, str]]:
    """Return the notes on whole plans as indents and lines, each plan under its title."""
    rows: list[tuple[int, str]] = []
    for part in parts:
        if part.lines:
            rows.append((0, D.shorten_text(part.title, most)))
            rows += [(12, row) for said in part.lines for row in D.wrap_text(said, most - 4, 4)]
    return rows


# Edges


def _arrow_heads(picture: Element) -> None:
    heads = SubElement(picture, "defs")
    for pattern, colour in PATTERN_COLOURS.items():
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
    picture: Element,
    boxes: dict[int, Box],
    layout: PictureLayout,
    at: Callable[[Point], Point],
    to_right: bool,
) -> None:
    for (producer, consumer, place), points in layout.routes.items():
        flows = boxes[producer].operator.edge
        side = ("left ", "right ")[place] if len(boxes[consumer].operator.inputs) == 2 else ""
        whole = D.group(picture, "edge", f"#{producer} → {side}#{consumer}: {flows}")
        _draw_edge(whole, [at(point) for point in points], flows, to_right)
    for (
        producer,
        _,
        _,
    ), points in layout.routes.items():  # drawn after all edges, so that no edge crosses a label
        _draw_pattern(picture, at(points[-1]), boxes[producer].operator.edge, to_right)


def _draw_edge(parent: Element, points: Sequence[Point], flows: Edge, to_right: bool) -> None:
    D.path(
        parent,
        _curve(points, to_right),
        stroke=PATTERN_COLOURS[flows.pattern],
        stroke_width="1.8",
        marker_end=f"url(#arrow-{flows.pattern.name})",
    )


def _draw_pattern(parent: Element, end: Point, flows: Edge, to_right: bool) -> None:
    """Draw the pattern in a pill before the arrow head, where no two edges overlap."""
    colour = PATTERN_COLOURS[flows.pattern]
    whole = D.group(parent, "pattern")
    wide = 7.0 * len(str(flows)) + 13
    x, y = (end[0] - LAYER_GAP * 0.2 - wide / 2, end[1]) if to_right else (end[0], end[1] + LAYER_GAP * 0.34)
    D.rectangle(whole, x - wide / 2, y - 7.5, wide, 15, rx="7", fill=D.PAPER, stroke=colour)
    D.text(whole, x, y + 3.7, str(flows), 10, fill=colour, text_anchor="middle", font_weight="bold")


def _curve(points: Sequence[Point], to_right: bool) -> str:
    """Return a path that is straight within layers and bends between; two points make a straight line."""
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
    for i, (pattern, words) in enumerate(PATTERN_MEANINGS.items()):
        left, top = x + 290 * (i % 2), y + _LEGEND * (i // 2) + 8
        D.line(whole, left, top, left + 26, top, stroke=PATTERN_COLOURS[pattern], stroke_width="3")
        D.text(whole, left + 34, top + 4, f"{words} ({pattern.name})", 10.5, fill=PATTERN_COLOURS[pattern])
    top = y + _LEGEND * 2 + 8
    D.text(whole, x + 34, top + 4, "may be retracted (±)", 10.5)
