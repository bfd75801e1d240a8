"""The rows of a view as bars, from when until when they hold."""

from __future__ import annotations

from everview.algebra.time import INFINITY
from everview.plan.explain import drawing as D
from everview.query.charts.chart import (
    CELLS,
    COLOURS,
    LINES,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    Chart,
    Piece,
    Record,
    axis,
    when,
)


class Timeline(Chart):
    """The rows of a view as bars."""

    def rows(self) -> dict[Record, list[Piece]]:
        """The pieces of each record, in the order in which they first come."""
        found: dict[Record, list[Piece]] = {}
        for piece in sorted(self.pieces, key=lambda p: -INFINITY if p.from_ is None else p.from_):
            found.setdefault(piece.record, []).append(piece)
        return found

    def svg(self) -> str:
        rows = list(self.rows().items())
        drawn = rows[-LINES:]  # the newest
        picture = self.frame(ROW * max(1, len(drawn)))
        for i, (record, parts) in enumerate(drawn):
            y = TOP + ROW * i
            D.text(picture, 10, y + 13, self.short_label(record, 27), 10)
            for piece in parts:
                begin, end = self.x(piece.from_, 0.0), self.x(piece.until, 1.0)
                group = D.group(picture, "piece", f"{self.label(record)}, {when(piece)}")
                D.rectangle(
                    group, begin, y + 3, max(1.0, end - begin), ROW - 6,
                    fill=COLOURS[i % len(COLOURS)], fill_opacity="0.7", rx="2",
                )  # fmt: skip
        if len(rows) > len(drawn):
            earlier = f"{len(rows) - len(drawn):,} earlier rows"
            D.text(picture, WIDTH - RIGHT, 20, earlier, 10, fill=D.FAINT, text_anchor="end")
        return D.written(picture)

    def __str__(self) -> str:
        rows = list(self.rows().items())[-LINES:]
        width = max((D.cells(self.label(r)) for r, _ in rows), default=0)
        lines = []
        for record, parts in rows:
            bar = [" "] * CELLS
            for piece in parts:
                begin = int(self.place(piece.from_, 0.0) * (CELLS - 1))
                end = int(self.place(piece.until, 1.0) * (CELLS - 1))
                bar[begin : max(end, begin + 1)] = "█" * max(end - begin, 1)
            label = self.label(record)
            lines.append(f"{D.clean(label)}{' ' * (width - D.cells(label))} |{''.join(bar)}|")
        return "\n".join([*lines, axis(self.span, width)])
