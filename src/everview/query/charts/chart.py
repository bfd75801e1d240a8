"""What all pictures of a view share: the pieces that are drawn, the paper, the axis of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from everview.algebra.time import INFINITY, Chronon, format_timestamp
from everview.plan.explain import drawing as D

LINES = 40  # rows of a timeline, and lines of a plot
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
WIDTH, LEFT, RIGHT, TOP, ROW = 760.0, 190.0, 20.0, 34.0, 20.0
CELLS = 60  # characters of a line of text

Record = tuple[str | None, ...]


@dataclass(frozen=True)
class Piece:
    """A record and from when until when it holds; None is an end that is not there."""

    record: Record
    from_: Chronon | None
    until: Chronon | None


Event = tuple[str, Chronon | None, Record, Record | None]  # a tag, when, the record, and the one before


def pieces(events: Iterable[Event], before: Iterable[Record] = ()) -> list[Piece]:
    """The pieces that a view's tags make; those that never end come last.

    The records that held `before` the first event begin at no known time.

    >>> pieces([("+", 1, ("a",), None), ("u", 3, ("b",), ("a",))])
    [Piece(record=('a',), from_=1, until=3), Piece(record=('b',), from_=3, until=None)]
    """
    held: defaultdict[Record, list[Chronon | None]] = defaultdict(list)
    for record in before:
        held[record].append(None)
    done: list[Piece] = []
    for tag, at, record, old in events:
        gone = record if tag == "-" else old
        if gone is not None:
            done.append(Piece(gone, held[gone].pop(0) if held[gone] else None, at))
        if tag != "-":
            held[record].append(at)
    return done + [Piece(record, begin, None) for record, begins in held.items() for begin in begins]


@dataclass(frozen=True)
class Chart(ABC):
    """A view over time, ready to be drawn: all of it, or a range; `note` says what is left out."""

    title: str
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    note: str = ""
    since: Chronon | None = None
    until: Chronon | None = None

    @property
    def span(self) -> tuple[Chronon, Chronon]:
        """The time that is drawn: what is asked for, or else all that begins and ends, and a little more."""
        times = [t for p in self.pieces for t in (p.from_, p.until) if t is not None and t < INFINITY - 1]
        asked = [t for t in (self.since, self.until) if t is not None]
        first = self.since if self.since is not None else min([*times, *asked], default=0)
        last = max([*times, *asked, first])
        if self.until is not None:
            return first, max(self.until, first + 1)
        return first, last + max(1, (last - first) // 20)

    def place(self, t: Chronon | None, otherwise: float) -> float:
        """Where an instant lies, from 0 to 1."""
        first, last = self.span
        return otherwise if t is None else min(1.0, max(0.0, (t - first) / (last - first)))

    def label(self, record: Record, shown: Container[str] | None = None) -> str:
        """A record as a person reads it: all columns, or some."""
        named = zip(self.columns, record, strict=True)
        parts = [f"{c}={'NULL' if v is None else v}" for c, v in named if shown is None or c in shown]
        return " ".join(parts)

    def short_label(self, record: Record, most: int) -> str:
        """The same beside a bar: without the names of columns where there is no room for them."""
        whole = self.label(record)
        values = " ".join("NULL" if v is None else v for v in record)
        return whole if D.cells(whole) <= most else D.shortened(values, most)

    @abstractmethod
    def svg(self) -> str:
        """The picture."""

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()

    def frame(self, height: float) -> Element:
        """The paper, the title and the axis of time."""
        picture = D.new_picture(WIDTH, height + TOP + 44)
        D.text(picture, 10, 20, D.shortened(self.title, 60), 13, font_weight="bold")
        bottom = TOP + height + 4
        D.line(picture, LEFT, bottom, WIDTH - RIGHT, bottom, stroke=D.FAINT)
        first, last = self.span
        for i, anchor in enumerate(("start", "middle", "end")):
            x = LEFT + (WIDTH - RIGHT - LEFT) * i / 2
            D.line(picture, x, bottom, x, bottom + 4, stroke=D.FAINT)
            shown = format_timestamp(first + (last - first) * i // 2).removesuffix(".000000")
            D.text(picture, x, bottom + 17, shown, 10, fill=D.FAINT, text_anchor=anchor)
        if self.note:
            D.text(picture, 10, bottom + 34, self.note, 10, fill=D.FAINT)
        return picture

    def x(self, t: Chronon | None, otherwise: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * self.place(t, otherwise)


def axis(span: tuple[Chronon, Chronon], width: int) -> str:
    first, last = (format_timestamp(t).removesuffix(".000000") for t in span)
    return " " * (width + 2) + first + last.rjust(CELLS - len(first))


def when(piece: Piece) -> str:
    begin = "-∞" if piece.from_ is None else format_timestamp(piece.from_)
    return f"{begin} to {'∞' if piece.until is None else format_timestamp(piece.until)}"
