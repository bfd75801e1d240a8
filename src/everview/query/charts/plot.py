"""The numbers of a view as lines: a panel for each column of numbers, a line for each key in all of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from xml.etree.ElementTree import Element

from everview.algebra.time import INFINITY
from everview.plan.explain import drawing as D
from everview.query.charts.chart import (
    CELLS,
    COLOURS,
    LEFT,
    LINES,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    Chart,
    Piece,
    axis,
)

_HEIGHT, _GAP = 220.0, 26.0  # of a panel, and between two
_DASHES = ("", "7 3", "2 2", "9 3 2 3", "1 4")

Line = list[tuple[Piece, float]]


@dataclass(frozen=True)
class Plot(Chart):
    """The numbers in some columns of a view; the `labels` are the columns that tell one line from another."""

    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def series(self) -> dict[str, dict[str, Line]]:
        """For each column its lines, by their labels: pieces with their numbers, in order."""
        ordered = sorted(self.pieces, key=lambda p: -INFINITY if p.from_ is None else p.from_)
        found: dict[str, dict[str, Line]] = {column: {} for column in self.values}
        for column, lines in found.items():
            place = self.columns.index(column)
            for piece in ordered:
                value = piece.record[place]
                if value is not None:
                    lines.setdefault(self.label(piece.record, self.labels), []).append((piece, float(value)))
        return found

    def svg(self) -> str:
        series = self.series()
        names = list(dict.fromkeys(name for lines in series.values() for name in lines))
        drawn = names[:LINES]
        legend = ROW * len(drawn) if any(drawn) else 0.0
        panels = _HEIGHT * len(series) + _GAP * (len(series) - 1)
        height = max(panels, legend)
        picture = self.frame(height)
        panel = (height - _GAP * (len(series) - 1)) / max(1, len(series))
        for i, (column, lines) in enumerate(series.items()):
            self._panel(picture, column, lines, drawn, TOP + i * (panel + _GAP), panel)
        for i, name in enumerate(drawn):
            if name:
                at = TOP + ROW * i + 8
                D.line(picture, 10, at, 26, at, **_stroke(i))
                D.text(picture, 31, at + 4, D.shortened(name, 17), 10)
        if len(names) > len(drawn):
            D.text(picture, WIDTH - 120, 20, f"… and {len(names) - len(drawn)} more", 10, fill=D.FAINT)
        return D.written(picture)

    def _panel(
        self,
        picture: Element,
        column: str,
        lines: dict[str, Line],
        drawn: list[str],
        top: float,
        height: float,
    ) -> None:
        """One column of numbers, with an axis of its own."""
        numbers = [v for line in lines.values() for _, v in line if isfinite(v)]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        low, high = (low, high) if high > low else (low - 1, high + 1)

        def y_of(value: float) -> float:
            return top + height - 5 - (value - low) / (high - low) * (height - 15)

        for value in (low, (low + high) / 2, high):
            D.text(picture, LEFT - 6, y_of(value) + 3, f"{value:.6g}", 10, fill=D.FAINT, text_anchor="end")
            D.line(picture, LEFT, y_of(value), WIDTH - RIGHT, y_of(value), stroke="#e4e7eb")
        # The name of the column stands above its panel, where no line is.
        D.text(picture, LEFT, top - 2, D.shortened(column, 60), 11, font_weight="bold")
        for i, name in enumerate(drawn):
            # Lines of equal numbers lie a little apart, so that none hides another.
            aside = (i - (len(drawn) - 1) / 2) * min(2.0, 8.0 / len(drawn))
            way = []
            before: Piece | None = None
            for piece, value in lines.get(name, ()):
                if not isfinite(value):
                    continue
                joins = before is not None and before.until is not None and before.until == piece.from_
                y = y_of(value) + aside
                way.append(f"{'L' if joins else 'M'}{self.x(piece.from_, 0.0):.1f} {y:.1f}")
                way.append(f"L{self.x(piece.until, 1.0):.1f} {y:.1f}")
                before = piece
            if way:
                D.path(picture, " ".join(way), **_stroke(i))

    def __str__(self) -> str:
        rows = [
            (" ".join(filter(None, (name, column))), line)
            for column, lines in self.series().items()
            for name, line in list(lines.items())[:LINES]
        ]
        width = max((D.cells(label) for label, _ in rows), default=0)
        shown = []
        for label, line in rows:
            values = [v for _, v in line]
            low, high = min(values), max(values)
            bar = [" "] * CELLS
            for piece, value in line:
                begin = int(self.place(piece.from_, 0.0) * (CELLS - 1))
                end = max(int(self.place(piece.until, 1.0) * (CELLS - 1)), begin + 1)
                bar[begin:end] = "▁▂▃▄▅▆▇█"[_eighth(value, low, high)] * (end - begin)
            head = f"{D.clean(label)}{' ' * (width - D.cells(label))}"
            shown.append(f"{head} |{''.join(bar)}| {low:.6g} to {high:.6g}")
        return "\n".join([*shown, axis(self.span, width)])


def _stroke(place: int) -> dict[str, str]:
    """How a line is drawn: there are only so many colours, then they come again in dashes."""
    turn, colour = divmod(place, len(COLOURS))
    dashes = _DASHES[turn % len(_DASHES)]
    return {
        "stroke": COLOURS[colour],
        "stroke_width": "2",
        **({"stroke_dasharray": dashes} if dashes else {}),
    }


def _eighth(value: float, low: float, high: float) -> int:
    place = 0.5 if not high > low else (value - low) / (high - low)
    return min(7, int(place * 8)) if place == place else 0
