"""Pictures read back for tests: the shapes of an SVG."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


def read_picture(svg: str) -> Element:
    """The picture; its elements by their plain names."""
    return ElementTree.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1))


def groups(picture: Element, kind: str) -> list[Element]:
    return [g for g in picture.iter("g") if g.get("class") == kind]


@dataclass(frozen=True)
class Rectangle:
    """A rectangle on paper."""

    x: float
    y: float
    width: float
    height: float

    @classmethod
    def of(cls, shape: Element) -> Rectangle:
        return cls(*(float(shape.attrib[name]) for name in ("x", "y", "width", "height")))

    def overlaps(self, other: Rectangle) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height


def boxes(picture: Element) -> dict[int, Rectangle]:
    """The box of every operator by its number."""
    return {
        int(g.attrib["data-id"]): Rectangle.of(next(r for r in g.iter("rect") if r.get("class") == "box"))
        for g in groups(picture, "operator")
    }
