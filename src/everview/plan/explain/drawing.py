"""The SVG shapes of a picture, and the width of text.

The width of a text is estimated from its number of characters, a little too large, so that the text fits
whichever font the reader has.
"""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

SANS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"

_NEVER = "\ufffe\uffff"
_PER_CHARACTER = {SANS: 0.6, MONO: 0.61}  # the width of a character as a fraction of the font size


def new_picture(width: float, height: float) -> Element:
    """Return an empty SVG with a white background."""
    picture = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"0 0 {_number(width)} {_number(height)}",
            "font-family": SANS,
        },
    )
    rectangle(picture, 0, 0, width, height, fill=PAPER)
    return picture


def to_svg(picture: Element) -> str:
    """Return the picture as SVG text, with XML special characters escaped."""
    return ElementTree.tostring(picture, encoding="unicode")


def group(parent: Element, kind: str, tooltip: str = "", **attributes: str) -> Element:
    """Add a group of shapes with a tooltip."""
    found = SubElement(parent, "g", {"class": kind, **_names(attributes)})
    if tooltip:
        SubElement(found, "title").text = clean(tooltip)
    return found


def rectangle(parent: Element, x: float, y: float, width: float, height: float, **attributes: str) -> Element:
    place = {"x": x, "y": y, "width": width, "height": height}
    return SubElement(parent, "rect", {**{k: _number(v) for k, v in place.items()}, **_names(attributes)})


def line(parent: Element, x1: float, y1: float, x2: float, y2: float, **attributes: str) -> Element:
    place = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return SubElement(parent, "line", {**{k: _number(v) for k, v in place.items()}, **_names(attributes)})


def path(parent: Element, way: str, **attributes: str) -> Element:
    return SubElement(parent, "path", {"d": way, "fill": "none", **_names(attributes)})


def text(
    parent: Element, x: float, y: float, content: str, size: float = 11, font: str = SANS, **attributes: str
) -> Element:
    """Add a line of text; y is its baseline."""
    place = {"x": _number(x), "y": _number(y), "font-size": _number(size)}
    if font != SANS:
        place["font-family"] = font
    found = SubElement(parent, "text", {**place, "fill": INK, **_names(attributes)})
    found.text = clean(content)
    return found


def _names(attributes: dict[str, str]) -> dict[str, str]:
    """Return attributes under their SVG names: stroke_width becomes stroke-width."""
    return {name.replace("_", "-"): value for name, value in attributes.items()}


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def clean(content: str) -> str:
    """Return the text on one line, with characters that XML does not allow replaced.

    >>> clean("a\\x00b\\n c")
    'a\\ufffdb  c'
    """
    kept = (" " if c in "\n\t\r" else c for c in content)
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in _NEVER else c for c in kept)


def cells(content: str) -> int:
    """Return the width of a text in characters; wide East Asian characters and emoji count as two.

    >>> cells("ab"), cells("道路"), cells("🚗")
    (2, 4, 2)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in content)


def fitting(width: float, size: float, font: str = SANS) -> int:
    """Return how many characters of a font fit into a width, at least 4."""
    return max(4, int(width / (size * _PER_CHARACTER[font])))


def shorten_text(content: str, most: int) -> str:
    """Return the text, cut to at most `most` characters.

    >>> shorten_text("temperature", 8), shorten_text("room", 8)
    ('tempera…', 'room')
    """
    if cells(content) <= most:
        return content
    kept = ""
    for character in content:
        if cells(kept + character) > most - 1:
            break
        kept += character
    return f"{kept}…"


def wrap_text(content: str, most: int, lines: int) -> list[str]:
    """Break the text at blanks into lines of at most `most` characters; the last line may be cut.

    >>> wrap_text("came.vid, came.vtype, came.ts", 12, 2)
    ['came.vid,', 'came.vtype,…']
    """
    found: list[str] = []
    words = clean(content).split()
    while words and len(found) < lines - 1:
        row = words.pop(0)
        while words and cells(f"{row} {words[0]}") <= most:
            row += f" {words.pop(0)}"
        if cells(row) > most:  # a word longer than a line
            head = shorten_text(row, most)[:-1]
            words.insert(0, row[len(head) :])
            row = head
        found.append(row)
    rest = " ".join(words)
    return [*found, shorten_text(rest, most)] if rest else found
