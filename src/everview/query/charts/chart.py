"""The parts that all charts share: intervals of records, the frame, the time axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from everview.algebra.time import INFINITY, Chronon, format_timestamp
from everview.plan.explain import drawing as D

MOST_DRAWN = 40  # the most rows of a timeline, and the most lines of a plot
LINE_COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
CHART_WIDTH, LEFT, RIGHT, TOP, ROW = 760.0, 190.0, 20.0, 34.0, 20.0
CELLS = 60  # characters in the bar of a line of text

ChartRecord = tuple[str | None, ...]


@dataclass(frozen=True)
class RecordInterval:
    """A record and the interval in which it is valid; None is an open end."""

    record: ChartRecord
    from_: Chronon | None
    until: Chronon | None


# A tag, its instant, the record, and for an update the record that it replaces.
ChartEvent = tuple[str, Chronon | None, ChartRecord, ChartRecord | None]


def record_intervals(
    events: Iterable[ChartEvent], before: Iterable[ChartRecord] = ()
) -> list[RecordInterval]:
    """Return the intervals that tagged changes make; those without an end come last.

    Records that were valid `before` the first event have an open start.

    >>> record_intervals([("+", 1, ("a",), None), ("u", 3, ("b",), ("a",))])
    [RecordInterval(record=('a',), from_=1, until=3), RecordInterval(record=('b',), from_=3, until=None)]
    """
    held: defaultdict[ChartRecord, list[Chronon | None]] = defaultdict(list)
    for record in before:
        held[record].append(None)
    done: list[RecordInterval] = []
    for tag, at, record, old in events:
        gone = record if tag == "-" else old
        if gone is not None:
            done.append(RecordInterval(gone, held[gone].pop(0) if held[gone] else None, at))
        if tag != "-":
            held[record].append(at)
    return done + [RecordInterval(record, begin, None) for record, begins in held.items() for begin in begins]


@dataclass(frozen=True)
class Chart(ABC):
    """A view over all time or over a range, ready to be drawn; `note` says what is left out."""

    title: str
    columns: tuple[str, ...]
    intervals: tuple[RecordInterval, ...]
    note: str = ""
    since: Chronon | None = None
    until: Chronon | None = None

    @property
    def span(self) -> tuple[Chronon, Chronon]:
        """Return the range of the time axis: the range asked for, or all starts and ends plus 5 %."""
        times = [t for p in self.intervals for t in (p.from_, p.until) if t is not None and t < INFINITY - 1]
        asked = [t for t in (self.since, self.until) if t is not None]
        first = self.since if self.since is not None else min([*times, *asked], default=0)
        last = max([*times, *asked, first])
        if self.until is not None:
            return first, max(self.until, first + 1)
        return first, last + max(1, (last - first) // 20)

    def place(self, t: Chronon | None, otherwise: float) -> float:
        """Return the position of an instant on the time axis, from 0 to 1; `otherwise` for an open end."""
        first, last = self.span
        return otherwise if t is None else min(1.0, max(0.0, (t - first) / (last - first)))

    def label(self, record: ChartRecord, shown: Container[str] | None = None) -> str:
        """Return a record as `column=value` pairs, of all columns or of those in `shown`."""
        named = zip(self.columns, record, strict=True)
        parts = [f"{c}={'NULL' if v is None else v}" for c, v in named if shown is None or c in shown]
        return " ".join(parts)

    def short_label(self, record: ChartRecord, most: int) -> str:
        """Return the label of a bar; drop the column names if it is longer than `most` characters."""
        whole = self.label(record)
        values = " ".join("NULL" if v is None else v for v in record)
        return whole if D.cells(whole) <= most else D.shorten_text(values, most)

    @abstractmethod
    def svg(self) -> str:
        """Return the chart as SVG."""

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()

    def frame(self, height: float) -> Element:
        """Return a new picture with the title, the time axis and the note."""
        picture = D.new_picture(CHART_WIDTH, height + TOP + 44)
        D.text(picture, 10, 20, D.shorten_text(self.title, 60), 13, font_weight="bold")
        bottom = TOP + height + 4
        D.line(picture, LEFT, bottom, CHART_WIDTH - RIGHT, bottom, stroke=D.FAINT)
        first, last = self.span
        for i, anchor in enumerate(("start", "middle", "end")):
            x = LEFT + (CHART_WIDTH - RIGHT - LEFT) * i / 2
            D.line(picture, x, bottom, x, bottom + 4, stroke=D.FAINT)
            shown = format_timestamp(first + (last - first) * i // 2).removesuffix(".000000")
            D.text(picture, x, bottom + 17, shown, 10, fill=D.FAINT, text_anchor=anchor)
        if self.note:
            D.text(picture, 10, bottom + 34, self.note, 10, fill=D.FAINT)
        return picture

    def x(self, t: Chronon | None, otherwise: float) -> float:
        """Return the horizontal position of an instant in the picture."""
        return LEFT + (CHART_WIDTH - RIGHT - LEFT) * self.place(t, otherwise)


def axis(span: tuple[Chronon, Chronon], width: int) -> str:
    """Return the time axis of a text chart whose labels have this width."""
    first, last = (format_timestamp(t).removesuffix(".000000") for t in span)
    return " " * (width + 2) + first + last.rjust(CELLS - len(first))


def when(interval: RecordInterval) -> str:
    """Return the start and end of an interval as text."""
    begin = "-∞" if interval.from_ is None else format_timestamp(interval.from_)
    return f"{begin} to {'∞' if interval.until is None else format_timestamp(interval.until)}"
