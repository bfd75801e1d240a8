"""Clocks: the stream bound functions of paper 3 (definitions 22 and 24), and what must be known of inputs.

A clock is computed from the bounds of the input streams alone. A row whose time p is at or before the clock
is final: no row can still come that would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from everview.algebra.text import name_sql
from everview.algebra.time import INFINITY, LEAST, format_timestamp, length_text, unit_of
from everview.temporal.distances import Attribute

ENDED = INFINITY - 1  # the bound of a stream that has ended
NOT_BEGUN = LEAST - 1  # the bound of a stream that has not begun


@dataclass(frozen=True)
class StreamLine:
    """A time line of a stream, of which the store knows a bound."""

    stream: str
    column: str

    def __str__(self) -> str:
        return f"{name_sql(self.stream)}.{name_sql(self.column)}" if self.stream else self.column


STORE_BOUND = StreamLine("", "b1")  # the bound of the store: up to it the versions of tables are final

LineBounds = Mapping[StreamLine, int]


@dataclass(frozen=True)
class Moment:
    """The bound of a time line, less a length of time; with `reaches`, ∞ from that bound on.

    >>> line = StreamLine("brigade", "ts")
    >>> print(Moment(line, 3_600_000_000), Moment(line, -1), Moment(line, 3_599_999_999))
    brigade.ts − 1 h brigade.ts + 1 µs brigade.ts − (1 h − 1 µs)
    >>> Moment(line, 5).value({line: 7}), Moment(line, 5).value({line: ENDED}) == ENDED
    (2, True)
    """

    line: StreamLine
    minus: int = 0
    reaches: int | None = None

    def value(self, bounds: LineBounds) -> int:
        """Return the instant; the ends of time stay what they are."""
        bound = bounds.get(self.line, NOT_BEGUN)
        if self.reaches is not None:
            return ENDED if bound >= self.reaches else NOT_BEGUN
        if bound >= ENDED or bound <= NOT_BEGUN:
            return max(NOT_BEGUN, min(ENDED, bound))
        return max(NOT_BEGUN, min(ENDED, bound - self.minus))

    def __str__(self) -> str:
        if self.reaches is not None:
            return f"∞ once {self.line} ≥ {format_timestamp(self.reaches)}"
        return str(self.line) + offset_text(-self.minus)


def offset_text(length: int) -> str:
    """Return a length of time as it stands behind a time: with its sign, or nothing.

    >>> offset_text(3_600_000_000), offset_text(-300_000_001), offset_text(0)
    (' + 1 h', ' − (5 min + 1 µs)', '')
    """
    if not length:
        return ""
    sign, size = ("+", length) if length > 0 else ("−", -length)
    if unit_of(size)[1] != "MICROSECOND" or size < 1000:
        return f" {sign} {length_text(size)}"
    for apart in (1, -1, 2, -2, 3, -3, 4, -4):  # of comparisons with <
        if unit_of(size + apart)[1] not in ("MICROSECOND", "MILLISECOND"):
            inner = "−" if apart > 0 else "+"
            return f" {sign} ({length_text(size + apart)} {inner} {length_text(abs(apart))})"
    return f" {sign} {length_text(size)}"


@dataclass(frozen=True)
class Clock:
    """min over `parts` of max over their moments (paper 3, definition 24); without parts, ∞.

    >>> fire, brigade = StreamLine("fire", "ts"), StreamLine("brigade", "ts")
    >>> clock = Clock.earliest([(Moment(fire, -60_000_000),), (Moment(brigade),), (Moment(brigade, -1),)])
    >>> print(clock), clock.value({fire: 10, brigade: 7})
    min(fire.ts + 1 min, brigade.ts)
    (None, 7)
    """

    parts: tuple[tuple[Moment, ...], ...] = ()

    @classmethod
    def line(cls, line: StreamLine) -> Clock:
        return cls(((Moment(line),),))

    @classmethod
    def earliest(cls, parts: Iterable[Sequence[Moment]]) -> Clock:
        """Return the clock of some parts; those that are never the least are left out."""
        distinct = list(dict.fromkeys(_latest(part) for part in parts))
        kept: list[tuple[Moment, ...]] = []
        for number, part in enumerate(distinct):
            others = [*kept, *distinct[number + 1 :]]
            if not any(_is_never_later(other, part) for other in others):
                kept.append(part)
        return cls(tuple(kept))

    def value(self, bounds: LineBounds) -> int:
        """Return the instant up to which all is known."""
        return min((max(m.value(bounds) for m in part) for part in self.parts), default=ENDED)

    def holding(self, bounds: LineBounds) -> tuple[StreamLine, ...]:
        """Return the time lines that hold it back: those of its least parts."""
        least = self.value(bounds)
        found = [part for part in self.parts if max(m.value(bounds) for m in part) == least]
        return tuple(dict.fromkeys(m.line for part in found for m in part))

    def less(self, length: int) -> Clock:
        """Return the clock that is always a length of time behind this one."""
        return self._changed(lambda m: m if m.reaches is not None else Moment(m.line, m.minus + length))

    def reaching(self, instant: int) -> Clock:
        """Return the clock that is ∞ once this one has reached an instant."""
        return self._changed(
            lambda m: m if m.reaches is not None else Moment(m.line, reaches=instant + m.minus)
        )

    def renamed(self, names: Mapping[str, str]) -> Clock:
        """Return the clock with the new names of some streams.

        >>> print(Clock.line(StreamLine("fire", "ts")).less(1000).renamed({"fire": "alarm"}))
        alarm.ts − 1 ms
        """

        def rename(moment: Moment) -> Moment:
            line = moment.line
            return replace(moment, line=StreamLine(names.get(line.stream, line.stream), line.column))

        return self._changed(rename)

    def _changed(self, change: Callable[[Moment], Moment]) -> Clock:
        return Clock(tuple(tuple(change(m) for m in part) for part in self.parts))

    @property
    def lag(self) -> int:
        """How far it is behind the bounds, at most; by this the better one of two clocks is chosen."""
        behind = (min((0 if m.reaches is not None else m.minus) for m in part) for part in self.parts)
        return max(behind, default=-INFINITY)

    @property
    def lines(self) -> tuple[StreamLine, ...]:
        return tuple(dict.fromkeys(m.line for part in self.parts for m in part))

    def __str__(self) -> str:
        texts = [_choice("max", [str(m) for m in part]) for part in self.parts]
        return _choice("min", texts) if texts else "∞"


def _choice(word: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{word}({', '.join(texts)})"


def _latest(part: Sequence[Moment]) -> tuple[Moment, ...]:
    """Return the moments of a part without those that are never the latest."""
    kept: list[Moment] = []
    for number, moment in enumerate(part):
        others = [*kept, *part[number + 1 :]]
        if not any(_is_before(moment, other) for other in others):
            kept.append(moment)
    return tuple(kept)


def _is_before(one: Moment, other: Moment) -> bool:
    """Return whether one moment is never after another."""
    if one.line != other.line:
        return False
    if one.reaches is None and other.reaches is None:
        return other.minus <= one.minus
    return one.reaches is not None and other.reaches is not None and other.reaches <= one.reaches


def _is_never_later(part: Sequence[Moment], than: Sequence[Moment]) -> bool:
    return all(any(_is_before(moment, other) for other in than) for moment in part)


@dataclass(frozen=True)
class Origin:
    """The stream that a requirement is about, and the name that it has in the query; or a table AS OF a time.

    >>> print(Origin("brigade", "a").rows, "·", Origin("stations", "stations", is_table=True).row)
    rows of 'brigade' (a) · a version of the table 'stations'
    """

    stream: str
    alias: str
    is_table: bool = False

    def __str__(self) -> str:
        named = "" if self.alias.casefold() == self.stream.casefold() else f" ({self.alias})"
        return f"'{self.stream}'{named}"

    @property
    def rows(self) -> str:
        return f"versions of the table {self}" if self.is_table else f"rows of {self}"

    @property
    def row(self) -> str:
        return f"a version of the table {self}" if self.is_table else f"a row of {self}"


@dataclass(frozen=True)
class Alternative:
    """attribute + plus ≤ clock."""

    attribute: Attribute
    clock: Clock
    plus: int = 0


@dataclass(frozen=True)
class Requirement:
    """What must be known so that no row of an input is missing: one of the alternatives (definitions 3, 22).

    Of a stream with several time lines, any of them will do. `back` is the look-back: how far before the time
    of the first alternative rows of the inputs can matter; None: any time before it.
    """

    alternatives: tuple[Alternative, ...]
    origins: tuple[Origin, ...]
    back: int | None = 0


@dataclass(frozen=True)
class Wait:
    """The wait of the rows of an operator: a row is final, and can be dropped, when its column ≤ clock.

    `part` says which rows wait, `name` is the column's. Without a clock the rows wait for ever. Without a
    column, all rows wait for the same.
    """

    part: str
    column: int | None
    name: str
    clock: Clock | None

    def __str__(self) -> str:
        if self.clock is None:
            return f"{self.part} for ever"
        if not self.clock.parts:
            return f"{self.part} not at all"
        return f"{self.part} until {self.name} ≤ {self.clock}"
