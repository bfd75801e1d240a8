"""Pictures of a view over time: its numbers as lines, its rows as bars from when until when they hold.

Both are drawn from the view's change stream. A notebook shows the picture, `print` a few lines of text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol
from xml.etree.ElementTree import Element

from everview.algebra.time import INFINITY, Chronon, format_timestamp
from everview.errors import PlanError, counted, nearest
from everview.explanation import drawing as D

MOST = 5_000  # changes in one picture
_LINES = 40  # rows of a timeline, and series of a plot
_NUMERIC = ("byte", "short", "integer", "long", "float", "double", "decimal")
_COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
_DASHES = ("", "7 3", "2 2", "9 3 2 3", "1 4")
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760.0, 190.0, 20.0, 34.0, 20.0
_PLOT_HEIGHT = 220.0
_CELLS = 60  # characters of a line of text

Record = tuple[str | None, ...]


@dataclass(frozen=True)
class Piece:
    """A record and from when until when it holds; None is an end that is not there."""

    record: Record
    from_: Chronon | None
    until: Chronon | None


def pieces(events: Iterable[tuple[str, Chronon | None, Record, Record | None]]) -> list[Piece]:
    """The pieces that a view's tags make; those that never end come last.

    >>> pieces([("+", 1, ("a",), None), ("u", 3, ("b",), ("a",))])
    [Piece(record=('a',), from_=1, until=3), Piece(record=('b',), from_=3, until=None)]
    """
    held: defaultdict[Record, list[Chronon | None]] = defaultdict(list)
    done: list[Piece] = []
    for tag, at, record, old in events:
        gone = record if tag == "-" else old
        if gone is not None:
            done.append(Piece(gone, held[gone].pop(0), at))
        if tag != "-":
            held[record].append(at)
    return done + [Piece(record, begin, None) for record, begins in held.items() for begin in begins]


@dataclass(frozen=True)
class Chart(ABC):
    """A view over time, ready to be drawn; `note` says what is left out."""

    title: str
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    note: str = ""

    @property
    def span(self) -> tuple[Chronon, Chronon]:
        """The time that is drawn: all that begins and ends in it, and a little more."""
        times = [t for p in self.pieces for t in (p.from_, p.until) if t is not None and t < INFINITY - 1]
        first, last = min(times, default=0), max(times, default=0)
        return first, last + max(1, (last - first) // 20)

    def place(self, t: Chronon | None, otherwise: float) -> float:
        """Where an instant lies, from 0 to 1."""
        first, last = self.span
        return otherwise if t is None else min(1.0, max(0.0, (t - first) / (last - first)))

    def label(self, record: Record, left_out: str | None = None) -> str:
        """A record as a person reads it."""
        shown = [
            f"{c}={'NULL' if v is None else v}"
            for c, v in zip(self.columns, record, strict=True)
            if c != left_out
        ]
        return " ".join(shown) or self.title

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

    def _frame(self, height: float) -> Element:
        """The paper, the title and the axis of time."""
        picture = D.new_picture(_WIDTH, height + _TOP + 44)
        D.text(picture, 10, 20, D.shortened(self.title, 60), 13, font_weight="bold")
        bottom = _TOP + height + 4
        D.line(picture, _LEFT, bottom, _WIDTH - _RIGHT, bottom, stroke=D.FAINT)
        first, last = self.span
        for i, anchor in enumerate(("start", "middle", "end")):
            x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * i / 2
            D.line(picture, x, bottom, x, bottom + 4, stroke=D.FAINT)
            shown = format_timestamp(first + (last - first) * i // 2).removesuffix(".000000")
            D.text(picture, x, bottom + 17, shown, 10, fill=D.FAINT, text_anchor=anchor)
        if self.note:
            D.text(picture, 10, bottom + 34, self.note, 10, fill=D.FAINT)
        return picture

    def _x(self, t: Chronon | None, otherwise: float) -> float:
        return _LEFT + (_WIDTH - _RIGHT - _LEFT) * self.place(t, otherwise)


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
        drawn = rows[:_LINES]
        picture = self._frame(_ROW * max(1, len(drawn)))
        for i, (record, parts) in enumerate(drawn):
            y = _TOP + _ROW * i
            D.text(picture, 10, y + 13, self.short_label(record, 27), 10)
            for piece in parts:
                begin, end = self._x(piece.from_, 0.0), self._x(piece.until, 1.0)
                group = D.group(picture, "piece", f"{self.label(record)}, {_when(piece)}")
                D.rectangle(
                    group, begin, y + 3, max(1.0, end - begin), _ROW - 6,
                    fill=_COLOURS[i % len(_COLOURS)], fill_opacity="0.7", rx="2",
                )  # fmt: skip
        if len(rows) > len(drawn):
            D.text(picture, _WIDTH - 120, 20, f"… and {len(rows) - len(drawn)} more", 10, fill=D.FAINT)
        return D.written(picture)

    def __str__(self) -> str:
        rows = list(self.rows().items())
        width = max((D.cells(self.label(r)) for r, _ in rows[:_LINES]), default=0)
        lines = []
        for record, parts in rows[:_LINES]:
            bar = [" "] * _CELLS
            for piece in parts:
                begin = int(self.place(piece.from_, 0.0) * (_CELLS - 1))
                end = int(self.place(piece.until, 1.0) * (_CELLS - 1))
                bar[begin : max(end, begin + 1)] = "█" * max(end - begin, 1)
            label = self.label(record)
            lines.append(f"{D.clean(label)}{' ' * (width - D.cells(label))} |{''.join(bar)}|")
        return "\n".join([*lines, _axis(self.span, width)])


@dataclass(frozen=True)
class Plot(Chart):
    """The numbers in one column of a view as lines, one for each combination of the other columns."""

    column: str = ""

    def series(self) -> dict[str, list[tuple[Piece, float]]]:
        """The pieces of each line, with their numbers, in order."""
        place = self.columns.index(self.column)
        found: dict[str, list[tuple[Piece, float]]] = {}
        for piece in sorted(self.pieces, key=lambda p: -INFINITY if p.from_ is None else p.from_):
            value = piece.record[place]
            if value is not None:
                label = self.label(piece.record, self.column)
                found.setdefault(label, []).append((piece, float(value)))
        return found

    def svg(self) -> str:
        series = list(self.series().items())
        values = [v for _, parts in series for _, v in parts if abs(v) < float("inf")]
        low, high = min(values, default=0.0), max(values, default=1.0)
        low, high = (low, high) if high > low else (low - 1, high + 1)
        drawn = series[:_LINES]
        height = max(_PLOT_HEIGHT, _ROW * len(drawn))
        picture = self._frame(height)

        def y_of(value: float) -> float:
            return _TOP + height - 5 - (value - low) / (high - low) * (height - 15)

        for value in (low, (low + high) / 2, high):
            D.text(picture, _LEFT - 6, y_of(value) + 3, f"{value:.6g}", 10, fill=D.FAINT, text_anchor="end")
            D.line(picture, _LEFT, y_of(value), _WIDTH - _RIGHT, y_of(value), stroke="#e4e7eb")
        for i, (label, parts) in enumerate(drawn):
            stroke = _stroke(i)
            at = _TOP + _ROW * i + 8
            D.line(picture, 10, at, 26, at, **stroke)
            D.text(picture, 31, at + 4, D.shortened(label, 17), 10)
            # Lines of equal numbers lie a little apart, so that none hides another.
            aside = (i - (len(drawn) - 1) / 2) * min(2.0, 8.0 / len(drawn))
            way = []
            before: Piece | None = None
            for piece, value in parts:
                if not isfinite(value):
                    continue
                joins = before is not None and before.until is not None and before.until == piece.from_
                y = y_of(value) + aside
                way.append(f"{'L' if joins else 'M'}{self._x(piece.from_, 0.0):.1f} {y:.1f}")
                way.append(f"L{self._x(piece.until, 1.0):.1f} {y:.1f}")
                before = piece
            D.path(picture, " ".join(way), **stroke)
        return D.written(picture)

    def __str__(self) -> str:
        series = list(self.series().items())[:_LINES]
        width = max((D.cells(label) for label, _ in series), default=0)
        lines = []
        for label, parts in series:
            values = [v for _, v in parts]
            low, high = min(values), max(values)
            bar = [" "] * _CELLS
            for piece, value in parts:
                begin = int(self.place(piece.from_, 0.0) * (_CELLS - 1))
                end = max(int(self.place(piece.until, 1.0) * (_CELLS - 1)), begin + 1)
                bar[begin:end] = "▁▂▃▄▅▆▇█"[_eighth(value, low, high)] * (end - begin)
            head = f"{D.clean(label)}{' ' * (width - D.cells(label))}"
            lines.append(f"{head} |{''.join(bar)}| {low:.6g} to {high:.6g}")
        return "\n".join([*lines, _axis(self.span, width)])


def _stroke(place: int) -> dict[str, str]:
    """How a line is drawn: there are only so many colours, then they come again in dashes."""
    turn, colour = divmod(place, len(_COLOURS))
    dashes = _DASHES[turn % len(_DASHES)]
    return {
        "stroke": _COLOURS[colour],
        "stroke_width": "2",
        **({"stroke_dasharray": dashes} if dashes else {}),
    }


def _eighth(value: float, low: float, high: float) -> int:
    place = 0.5 if not high > low else (value - low) / (high - low)
    return min(7, int(place * 8)) if place == place else 0


def _axis(span: tuple[Chronon, Chronon], width: int) -> str:
    first, last = (format_timestamp(t).removesuffix(".000000") for t in span)
    return " " * (width + 2) + first + last.rjust(_CELLS - len(first))


def _when(piece: Piece) -> str:
    begin = "-∞" if piece.from_ is None else format_timestamp(piece.from_)
    return f"{begin} to {'∞' if piece.until is None else format_timestamp(piece.until)}"


class Changing(Protocol):
    """An open store: who has the change streams of views."""

    def changes(self, view: str) -> Any:
        """The change stream of a view as tags."""


@dataclass(frozen=True)
class View:
    """A view of an open store, to be drawn."""

    db: Changing
    name: str

    def timeline(self) -> Timeline:
        """Its rows as bars."""
        columns, _, found, note = self._read()
        return Timeline(self.name, columns, found, note)

    def plot(self, column: str | None = None) -> Plot:
        """The numbers in a column as lines; without a name, in its last column of numbers."""
        columns, numeric, found, note = self._read()
        named = [c for c in columns if column is not None and c.casefold() == column.casefold()]
        if column is not None and not set(named) & set(numeric):
            raise PlanError(
                f"the view '{self.name}' has no column of numbers '{column}'",
                meant=nearest(column, numeric),
                choices=numeric,
            )
        if not numeric:
            raise PlanError(
                f"the view '{self.name}' has no column of numbers", next_step="draw it with timeline()"
            )
        return Plot(self.name, columns, found, note, named[0] if named else numeric[-1])

    def _read(self) -> tuple[tuple[str, ...], list[str], tuple[Piece, ...], str]:
        """The columns, those of numbers, the pieces, and what is left out."""
        frame = self.db.changes(self.name)
        fields = frame.schema.fields[2:-1]
        names = [f"c{i}" for i in range(len(fields))]
        texts = ", ".join(f"CAST({n} AS STRING)" for n in names)
        old = f"CAST(old AS STRUCT<{', '.join(f'{n}: STRING' for n in names)}>) AS old"
        shown = frame.toDF("tag", "at", *names, "old").selectExpr(
            "tag", "unix_micros(at) AS at", f"struct({texts}) AS record", old
        )
        rows: list[Any] = shown.limit(MOST + 1).collect()
        note = f"only the first {counted(MOST, 'change')} are drawn" if len(rows) > MOST else ""
        events = (
            (r.tag, r.at, tuple(r.record), None if r.old is None else tuple(r.old)) for r in rows[:MOST]
        )
        columns = tuple(f.name for f in fields)
        return columns, _numeric(fields), tuple(pieces(events)), note


def _numeric(fields: Sequence[Any]) -> list[str]:
    return [f.name for f in fields if f.dataType.typeName() in _NUMERIC]
