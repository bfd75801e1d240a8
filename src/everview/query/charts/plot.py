"""The numbers of a view as lines: a panel for each numeric column, and in each panel a line for each key."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from xml.etree.ElementTree import Element

from everview.algebra.time import INFINITY
from everview.plan.explain import drawing as D
from everview.query.charts.chart import (
    CELLS,
    CHART_WIDTH,
    LEFT,
    LINE_COLOURS,
    MOST_DRAWN,
    RIGHT,
    ROW,
    TOP,
    Chart,
    RecordInterval,
    axis,
)

_HEIGHT, _GAP = 220.0, 26.0  # the height of a panel, the gap between two
_DASHES = ("", "7 3", "2 2", "9 3 2 3", "1 4")

Line = list[tuple[RecordInterval, float]]


@dataclass(frozen=True)
class Plot(Chart):
    """A line chart of the columns `values`; the columns `labels` identify a line."""

    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def series(self) -> dict[str, dict[str, Line]]:
        """Return the lines of each column by label: intervals with their numbers, ordered by start."""
        ordered = sorted(self.intervals, key=lambda p: -INFINITY if p.from_ is None else p.from_)
        found: dict[str, dict[str, Line]] = {column: {} for column in self.values}
        for column, lines in found.items():
            place = self.columns.index(column)
            for interval in ordered:
                value = interval.record[place]
                if value is not None:
                    lines.setdefault(self.label(interval.record, self.labels), []).append(
                        (interval, float(value))
                    )
        return found

    def svg(self) -> str:
        series = self.series()
        names = list(dict.fromkeys(name for lines in series.values() for name in lines))
        drawn = names[:MOST_DRAWN]
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
                D.text(picture, 31, at + 4, D.shorten_text(name, 17), 10)
        if len(names) > len(drawn):
            D.text(picture, CHART_WIDTH - 120, 20, f"… and {len(names) - len(drawn)} more", 10, fill=D.FAINT)
        return D.to_svg(picture)

    def _panel(
        self,
        picture: Element,
        column: str,
        lines: dict[str, Line],
        drawn: list[str],
        top: float,
        height: float,
    ) -> None:
        """Draw one numeric column with its own vertical axis."""
        numbers = [v for line in lines.values() for _, v in line if isfinite(v)]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        low, high = (low, high) if high > low else (low - 1, high + 1)

        def y_of(value: float) -> float:
            return top + height - 5 - (value - low) / (high - low) * (height - 15)

        for value in (low, (low + high) / 2, high):
            D.text(picture, LEFT - 6, y_of(value) + 3, f"{value:.6g}", 10, fill=D.FAINT, text_anchor="end")
            D.line(picture, LEFT, y_of(value), CHART_WIDTH - RIGHT, y_of(value), stroke="#e4e7eb")
        # The column name stands above the panel, so that no line crosses it.
        D.text(picture, LEFT, top - 2, D.shorten_text(column, 60), 11, font_weight="bold")
        for i, name in enumerate(drawn):
            # Shift each line a little, so that lines with equal values do not hide each other.
            aside = (i - (len(drawn) - 1) / 2) * min(2.0, 8.0 / len(drawn))
            way = []
            before: RecordInterval | None = None
            for interval, value in lines.get(name, ()):
                if not isfinite(value):
                    continue
                joins = before is not None and before.until is not None and before.until == interval.from_
                y = y_of(value) + aside
                way.append(f"{'L' if joins else 'M'}{self.x(interval.from_, 0.0):.1f} {y:.1f}")
                way.append(f"L{self.x(interval.until, 1.0):.1f} {y:.1f}")
                before = interval
            if way:
                D.path(picture, " ".join(way), **_stroke(i))

    def __str__(self) -> str:
        rows = [
            (" ".join(filter(None, (name, column))), line)
            for column, lines in self.series().items()
            for name, line in list(lines.items())[:MOST_DRAWN]
        ]
        width = max((D.cells(label) for label, _ in rows), default=0)
        shown = []
        for label, line in rows:
            values = [v for _, v in line]
            low, high = min(values), max(values)
            bar = [" "] * CELLS
            for interval, value in line:
                begin = int(self.place(interval.from_, 0.0) * (CELLS - 1))
                end = max(int(self.place(interval.until, 1.0) * (CELLS - 1)), begin + 1)
                bar[begin:end] = "▁▂▃▄▅▆▇█"[_eighth(value, low, high)] * (end - begin)
            head = f"{D.clean(label)}{' ' * (width - D.cells(label))}"
            shown.append(f"{head} |{''.join(bar)}| {low:.6g} to {high:.6g}")
        return "\n".join([*shown, axis(self.span, width)])


def _stroke(place: int) -> dict[str, str]:
    """Return the stroke of a line; after the last colour the colours repeat, dashed."""
    turn, colour = divmod(place, len(LINE_COLOURS))
    dashes = _DASHES[turn % len(_DASHES)]
    return {
        "stroke": LINE_COLOURS[colour],
        "stroke_width": "2",
        **({"stroke_dasharray": dashes} if dashes else {}),
    }


def _eighth(value: float, low: float, high: float) -> int:
    """Return the height of a value between low and high in eighths, from 0 to 7."""
    place = 0.5 if not high > low else (value - low) / (high - low)
    return min(7, int(place * 8)) if place == place else 0
