"""The rows of a view as bars over the time in which they are valid."""

from __future__ import annotations

from everview.algebra.time import INFINITY
from everview.plan.explain import drawing as D
from everview.query.charts.chart import (
    CELLS,
    CHART_WIDTH,
    LINE_COLOURS,
    MOST_DRAWN,
    RIGHT,
    ROW,
    TOP,
    Chart,
    ChartRecord,
    RecordInterval,
    axis,
    when,
)


class TimelineChart(Chart):
    """A chart with a bar for each interval of each row."""

    def rows(self) -> dict[ChartRecord, list[RecordInterval]]:
        """Return the intervals of each record, ordered by the first start."""
        found: dict[ChartRecord, list[RecordInterval]] = {}
        for interval in sorted(self.intervals, key=lambda p: -INFINITY if p.from_ is None else p.from_):
            found.setdefault(interval.record, []).append(interval)
        return found

    def svg(self) -> str:
        rows = list(self.rows().items())
        drawn = rows[-MOST_DRAWN:]  # the rows that start last
        picture = self.frame(ROW * max(1, len(drawn)))
        for i, (record, parts) in enumerate(drawn):
            y = TOP + ROW * i
            D.text(picture, 10, y + 13, self.short_label(record, 27), 10)
            for interval in parts:
                begin, end = self.x(interval.from_, 0.0), self.x(interval.until, 1.0)
                group = D.group(picture, "interval", f"{self.label(record)}, {when(interval)}")
                D.rectangle(
                    group, begin, y + 3, max(1.0, end - begin), ROW - 6,
                    fill=LINE_COLOURS[i % len(LINE_COLOURS)], fill_opacity="0.7", rx="2",
                )  # fmt: skip
        if len(rows) > len(drawn):
            earlier = f"{len(rows) - len(drawn):,} earlier rows"
            D.text(picture, CHART_WIDTH - RIGHT, 20, earlier, 10, fill=D.FAINT, text_anchor="end")
        return D.to_svg(picture)

    def __str__(self) -> str:
        rows = list(self.rows().items())[-MOST_DRAWN:]
        width = max((D.cells(self.label(r)) for r, _ in rows), default=0)
        lines = []
        for record, parts in rows:
            bar = [" "] * CELLS
            for interval in parts:
                begin = int(self.place(interval.from_, 0.0) * (CELLS - 1))
                end = int(self.place(interval.until, 1.0) * (CELLS - 1))
                bar[begin : max(end, begin + 1)] = "█" * max(end - begin, 1)
            label = self.label(record)
            lines.append(f"{D.clean(label)}{' ' * (width - D.cells(label))} |{''.join(bar)}|")
        return "\n".join([*lines, axis(self.span, width)])
