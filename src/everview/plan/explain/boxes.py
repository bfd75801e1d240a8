"""Draw one operator as a box: its text, its window or time lines on a time axis, its state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from xml.etree.ElementTree import Element

from everview.algebra.time import MICROSECOND, format_timestamp, length_text
from everview.algebra.windows import NOW, Band, Fixed, Range, Rows
from everview.plan.explain import drawing as D
from everview.plan.explain.operators import ExplainedOperator, TimeLine
from everview.plan.explain.text import remarks, state_words

BOX_WIDTH = 252.0
_MARGIN = 10.0
_INSIDE = BOX_WIDTH - 2 * _MARGIN
_BAND, _HEAD, _LINE, _GLYPH = 19.0, 22.0, 14.0, 36.0
_MOST_DETAILS, _MOST_KEEPS = 3, 4

_FILL = {"Stream": "#eef6ff", "Table": "#fff8e6", "NonRetroactiveTable": "#fff8e6", "View": "#f1f5f0"}
_WINDOW, _STATE, _AXIS, _PALE = "#3b82c4", "#f4f0fa", "#52606d", "#cbd2d9"


@dataclass(frozen=True)
class Box:
    """An operator, and the titles of the views and queries whose root it is."""

    operator: ExplainedOperator
    titles: tuple[str, ...] = ()

    @property
    def details(self) -> list[str]:
        most = D.fitting(_INSIDE, 10.5, D.MONO)
        return D.wrap_text(self.operator.details, most, _MOST_DETAILS)

    @property
    def kept(self) -> list[str]:
        """Return the state in words, and in EXPLAIN COST the figures."""
        fit = D.fitting(_INSIDE, 10.5)
        figures = self.operator.figures
        said = [] if figures is None else [row for w in figures.words() for row in D.wrap_text(w, fit, 2)]
        return [*D.wrap_text(state_words(self.operator), fit, _MOST_KEEPS), *said]

    @property
    def lines(self) -> tuple[TimeLine, ...]:
        return () if self.operator.source is None else self.operator.source.lines

    @property
    def origin(self) -> list[str]:
        source = self.operator.source
        if source is None:
            return []
        idle = "" if source.idle_after is None else f", idle after {length_text(source.idle_after)}"
        return D.wrap_text(f"from {source.origin}{idle}", D.fitting(_INSIDE, 10.5), 2)

    @property
    def head(self) -> float:
        """Return the height of the head; a view with a title needs none."""
        return 2.0 if self.titles and self.operator.kind == "View" else _HEAD

    @property
    def height(self) -> float:
        body = self.head + _LINE * (len(self.details) + len(self.origin)) + _GLYPH * len(self.lines)
        body += _GLYPH if self.operator.window is not None else 0
        body += 6 if self.head == _HEAD else 2
        kept = _LINE * len(self.kept) + 7 if self.kept else 0
        return _BAND * len(self.titles) + body + kept

    def draw(self, picture: Element, x: float, y: float) -> None:
        """Draw the box with its upper left corner at a point."""
        operator = self.operator
        whole = D.group(picture, "operator", self._tooltip(), data_id=str(operator.id))
        fill = _FILL.get(operator.kind, D.PAPER)
        D.rectangle(
            whole, x, y, BOX_WIDTH, self.height, rx="6", fill=fill, stroke=D.INK,
            stroke_width="2" if self.titles else "1", **{"class": "box"},
        )  # fmt: skip
        at = y + self._draw_titles(whole, x, y)
        if self.head == _HEAD:
            self._draw_head(whole, x, at)
        at += self.head
        for row in self.details:
            at += _LINE
            D.text(whole, x + _MARGIN, at - 4, row, 10.5, D.MONO)
        for row in self.origin:
            at += _LINE
            D.text(whole, x + _MARGIN, at - 4, row, 10.5, fill=D.FAINT)
        if operator.window is not None:
            glyph = D.group(whole, "window", str(operator.window))
            draw_window(operator.window, glyph, x + _MARGIN, at)
            at += _GLYPH
        for time_line in self.lines:
            _draw_time_line(whole, time_line, x + _MARGIN, at)
            at += _GLYPH
        self._draw_kept(whole, x, y)

    def _draw_titles(self, whole: Element, x: float, y: float) -> float:
        if self.titles:
            D.rectangle(whole, x, y, BOX_WIDTH, _BAND * len(self.titles), rx="5", fill=D.INK)
        for i, title in enumerate(self.titles):
            shown = D.shorten_text(title, D.fitting(_INSIDE, 12) - 5)
            D.text(whole, x + _MARGIN, y + i * _BAND + 13.5, shown, 11.5, fill=D.PAPER, font_weight="bold")
        if self.titles and self.head != _HEAD:
            D.text(
                whole, x + BOX_WIDTH - _MARGIN, y + 13.5, self._number, 10.5, fill=_PALE, text_anchor="end"
            )
        return _BAND * len(self.titles)

    def _draw_head(self, whole: Element, x: float, y: float) -> None:
        head = D.shorten_text(self.operator.label, D.fitting(_INSIDE, 13) - len(self._number) - 2)
        D.text(whole, x + _MARGIN, y + 16, head, 12.5, font_weight="bold")
        D.text(whole, x + BOX_WIDTH - _MARGIN, y + 16, self._number, 10.5, fill=D.FAINT, text_anchor="end")

    def _draw_kept(self, whole: Element, x: float, y: float) -> None:
        """Draw the state at the bottom of the box."""
        if not self.kept:
            return
        tall = _LINE * len(self.kept) + 6
        top = y + self.height - tall - 1
        D.rectangle(whole, x + 1, top, BOX_WIDTH - 2, tall, rx="5", fill=_STATE)
        for i, row in enumerate(self.kept):
            D.text(whole, x + _MARGIN, top + 3 + _LINE * (i + 1) - 4, row, 10.5, fill="#4c2889")

    @property
    def _number(self) -> str:
        return f"#{self.operator.id}"

    def _tooltip(self) -> str:
        return " · ".join(
            [f"{self._number} {self.operator.text}", self.operator.flow, *remarks(self.operator)]
        )


# Time axes: the present is at the right

_NOW = 0.86


def _axis(parent: Element, x: float, y: float) -> None:
    right = x + _INSIDE
    D.path(parent, f"M{x:.1f} {y:.1f}H{right:.1f}m-5 -3l5 3l-5 3", stroke=_AXIS, stroke_width="1")


def _tick(parent: Element, x: float, y: float, name: str, anchor: str = "middle") -> None:
    D.line(parent, x, y - 4, x, y + 4, stroke=_AXIS)
    D.text(parent, x, y + 13, name, 8.5, fill=_AXIS, text_anchor=anchor)


def _bar(parent: Element, x: float, y: float, start: float, end: float, fill: str = _WINDOW) -> None:
    D.rectangle(parent, x + _INSIDE * start, y - 4, _INSIDE * (end - start), 8, rx="2", fill=fill)


def _label(parent: Element, x: float, y: float, at: float, words: str) -> None:
    D.text(parent, x + _INSIDE * at, y - 8, words, 9, fill=_WINDOW, text_anchor="middle")


@singledispatch
def draw_window(window: object, parent: Element, x: float, y: float) -> None:
    """Draw the part of time that a window covers, as a bar on a time axis."""
    raise TypeError(f"no picture of {type(window).__name__}")


@draw_window.register
def _(window: Range, parent: Element, x: float, y: float) -> None:
    """Draw a range that moves by SLIDE and ends LAG before the present."""
    y += 19
    _axis(parent, x, y)
    if window == NOW:
        _bar(parent, x, y, _NOW - 0.01, _NOW + 0.01)
        _tick(parent, x + _INSIDE * _NOW, y, "now")
        return
    slides = window.slide > MICROSECOND
    end = _NOW - (0.12 if slides else 0) - (0.16 if window.lag else 0)
    start = max(0.08, end - 0.5)
    _bar(parent, x, y, start, end)
    _label(parent, x, y, (start + end) / 2, length_text(window.extent))
    _tick(parent, x + _INSIDE * _NOW, y, "now")
    if window.lag:
        D.text(parent, x + _INSIDE * (end + _NOW) / 2, y - 8, f"lag {length_text(window.lag)}", 8.5,
               fill=_AXIS, text_anchor="middle")  # fmt: skip
    if slides:
        for k in range(5):
            D.line(parent, x + _INSIDE * (end - 0.12 * k), y + 3, x + _INSIDE * (end - 0.12 * k), y + 7,
                   stroke=_AXIS)  # fmt: skip
        D.text(parent, x + _INSIDE * (end - 0.5), y + 14, f"moves every {length_text(window.slide)}", 8.5,
               fill=_AXIS)  # fmt: skip


@draw_window.register
def _(window: Fixed, parent: Element, x: float, y: float) -> None:
    """Draw fixed sections; the bar reaches from the start of the current one to the present."""
    y += 19
    _axis(parent, x, y)
    for at in (0.12, 0.42, 0.72):
        D.line(parent, x + _INSIDE * at, y - 6, x + _INSIDE * at, y + 6, stroke=_AXIS)
    _bar(parent, x, y, 0.72, _NOW)
    _label(parent, x, y, 0.57, f"sections of {length_text(window.extent)}")
    _tick(parent, x + _INSIDE * _NOW, y, "now")


@draw_window.register
def _(window: Band, parent: Element, x: float, y: float) -> None:
    """Draw the time between two landmarks, from one, or up to one."""
    y += 15
    _axis(parent, x, y)
    start = 0.03 if window.lower is None else 0.2
    end = 0.95 if window.upper is None else 0.75
    _bar(parent, x, y, start, end)
    if window.lower is not None:
        _tick(parent, x + _INSIDE * start, y, format_timestamp(window.lower)[:19])
    if window.upper is not None:
        _tick(parent, x + _INSIDE * end, y, format_timestamp(window.upper)[:19])


@draw_window.register
def _(window: Rows, parent: Element, x: float, y: float) -> None:
    """Draw the most recent rows as short bars."""
    y += 19
    _axis(parent, x, y)
    beads = min(window.count, 6)
    for k in range(8):
        fill = _WINDOW if k < beads else "#d5dde5"
        _bar(parent, x, y, _NOW - 0.02 - 0.09 * k, _NOW + 0.02 - 0.09 * k, fill)
    per = f" per {', '.join(window.partition_by)}" if window.partition_by else ""
    words = D.shorten_text(f"the last {window.count}{per}", 32)
    D.text(parent, x, y - 8, words, 9, fill=_WINDOW)
    _tick(parent, x + _INSIDE * _NOW, y, "now")


def _draw_time_line(parent: Element, time_line: TimeLine, x: float, y: float) -> None:
    """Draw a time line: all rows up to the bound are known, later ones may still arrive."""
    found = D.group(parent, "timeline", f"{time_line.column}: bound {time_line.bound}")
    y += 15
    _axis(found, x, y)
    late = bool(time_line.lateness)
    bound = 0.62 if late else _NOW - 0.03
    _bar(found, x, y, 0, bound, "#9ccfa6")
    if late:
        _bar(found, x, y, bound, _NOW, "#f6d9a8")
        D.text(found, x + _INSIDE * (bound + _NOW) / 2, y - 6, f"late {length_text(time_line.lateness)}", 8.5,
               fill=_AXIS, text_anchor="middle")  # fmt: skip
    D.text(found, x, y - 6, D.shorten_text(time_line.column, 20), 9, D.MONO, fill=_AXIS)
    D.line(found, x + _INSIDE * bound, y - 6, x + _INSIDE * bound, y + 6, stroke=D.INK)
    D.text(found, x + _INSIDE, y + 15, D.shorten_text(f"bound {time_line.bound}", 44), 9, text_anchor="end")
