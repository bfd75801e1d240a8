"""Time: chronons, half-open intervals, grids (paper 1, 2.4 and 4.3.2; paper 4, 3.3).

Time is a discrete line. A chronon is an int: microseconds since 1970-01-01 UTC. ∞ is the
largest 64-bit value and is itself never an instant at which something holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from everview.errors import AlgebraError

Chronon = int

INFINITY: Chronon = 2**63 - 1
LEAST: Chronon = -(2**63) + 1  # one below it is the bound before the first step
# A table that changes before any stream has a row changes at one of the first chronons: these have an order,
# but no date.
UNDATED: Chronon = LEAST + 2**40

# What was there before all has a date only as a value: 0001-01-02, the first that Python has in every zone.
UNDATED_VALUE: Chronon = -62_135_510_400_000_000

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

UNITS = {
    "WEEK": WEEK,
    "DAY": DAY,
    "HOUR": HOUR,
    "MINUTE": MINUTE,
    "SECOND": SECOND,
    "MILLISECOND": MILLISECOND,
    "MICROSECOND": MICROSECOND,
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALENDAR = 146_097 * DAY  # 400 years, after which the calendar repeats
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?"
)


def add_duration(t: Chronon, by: int) -> Chronon:
    """Return t + by; ∞ stays ∞, and the ends of the line are not passed.

    >>> add_duration(INFINITY, -5) == INFINITY, add_duration(2, 3), add_duration(INFINITY - 1, 10) == INFINITY
    (True, 5, True)
    """
    return t if t == INFINITY else max(LEAST, min(INFINITY, t + by))


@dataclass(frozen=True, order=True)
class Interval:
    """[from_, until): all instants from `from_` up to but not including `until` (paper 1, 2.4)."""

    from_: Chronon
    until: Chronon

    def __post_init__(self) -> None:
        if self.from_ >= self.until:
            raise AlgebraError(f"an interval must end after it begins: [{self.from_}, {self.until})")

    def __contains__(self, t: Chronon) -> bool:
        return self.from_ <= t < self.until

    def overlaps(self, other: Interval) -> bool:
        """Return whether the two share an instant (paper 1, 4.3.2).

        >>> Interval(0, 5).overlaps(Interval(4, 9)), Interval(0, 5).overlaps(Interval(5, 9))
        (True, False)
        """
        return self.from_ < other.until and self.until > other.from_

    def intersect(self, other: Interval) -> Interval | None:
        """Return the instants that both hold, or None (paper 1, 4.3.2).

        >>> Interval(0, 5).intersect(Interval(3, 9))
        Interval(from_=3, until=5)
        """
        if not self.overlaps(other):
            return None
        return Interval(max(self.from_, other.from_), min(self.until, other.until))

    def subtract(self, other: Interval) -> tuple[Interval, ...]:
        """Return intersect⁻¹ (paper 1, 4.3.2): the maximal parts of this one that the other does not cover.

        The paper's formula gives ∅ when the two do not overlap, its words give the whole interval;
        its algorithms only ask where they do overlap. The words are what is meant here.

        >>> Interval(0, 9).subtract(Interval(3, 5))
        (Interval(from_=0, until=3), Interval(from_=5, until=9))
        """
        if not self.overlaps(other):
            return (self,)
        parts = []
        if self.from_ < other.from_:
            parts.append(Interval(self.from_, other.from_))
        if other.until < self.until:
            parts.append(Interval(other.until, self.until))
        return tuple(parts)


@dataclass(frozen=True)
class Grid:
    """The points origin + k·step for all integers k: where slides and synchronizations happen."""

    step: int
    origin: Chronon = 0

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise AlgebraError(f"a grid needs a step of at least one microsecond, not {self.step}")

    def ceil(self, x: Chronon) -> Chronon:
        """Return ⌈x⌉, the first grid point ≥ x; ∞ stays ∞, as does an instant beyond the last point.

        >>> Grid(10).ceil(21), Grid(10).ceil(30), Grid(10, origin=3).ceil(-4)
        (30, 30, 3)
        """
        if x == INFINITY:
            return INFINITY
        return min(INFINITY, self.origin - ((self.origin - x) // self.step) * self.step)

    def after(self, x: Chronon) -> Chronon:
        """Return the first grid point > x."""
        return INFINITY if x == INFINITY else self.ceil(x + 1)

    def __contains__(self, x: Chronon) -> bool:
        return (x - self.origin) % self.step == 0

    def points(self, start: Chronon, stop: Chronon) -> Iterator[Chronon]:
        """Yield the grid points p with start ≤ p < stop."""
        point = self.ceil(start)
        while point < stop:
            yield point
            point += self.step

    def within(self, other: Grid) -> bool:
        """Return whether every point of this grid is one of the other's (paper 5, proposition 1).

        >>> Grid(4).within(Grid(2)), Grid(2).within(Grid(4)), Grid(4, 1).within(Grid(2))
        (True, False, False)
        """
        return self.step % other.step == 0 and self.origin in other

    def common(self, other: Grid) -> Grid | None:
        """Return the points that both grids have, again a grid; None if there are none.

        >>> Grid(2).common(Grid(3))
        Grid(step=6, origin=0)
        >>> Grid(2).common(Grid(4, origin=1)) is None
        True
        """
        gcd = math.gcd(self.step, other.step)
        apart = other.origin - self.origin
        if apart % gcd:
            return None
        # The Chinese remainder theorem: the multiple of our step that lands on the other's grid.
        steps = apart // gcd * pow(self.step // gcd, -1, other.step // gcd) % (other.step // gcd)
        step = math.lcm(self.step, other.step)
        return Grid(step, (self.origin + steps * self.step) % step)


def parse_timestamp(text: str, offset: int = 0) -> Chronon | None:
    """Return the chronon of an ISO timestamp or date, or None if it is none.

    Without a zone of its own the text is read `offset` microseconds east of UTC.

    >>> parse_timestamp("1970-01-01 00:00:01"), parse_timestamp("1970-01-02"), parse_timestamp("noon")
    (1000000, 86400000000, None)
    >>> parse_timestamp("1970-01-01T02:00:00.5+02:00")
    500000
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    cycles, since_1970 = divmod(int(year) - 1970, 400)
    time = int(hour or 0), int(minute or 0), int(second or 0)
    try:
        moment = datetime(1970 + since_1970, int(month), int(day), *time, tzinfo=UTC)
    except ValueError:
        return None
    micros = int(((fraction or "") + "000000")[:6])
    if zone is not None:
        offset = _zone_offset(zone)
    t = cycles * CALENDAR + (moment - _EPOCH) // timedelta(microseconds=1) + micros - offset
    return t if UNDATED <= t < INFINITY else None


def _zone_offset(zone: str) -> int:
    if zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
    offset = int(hours) * HOUR + int(minutes) * MINUTE
    return -offset if zone[0] == "-" else offset


def format_timestamp(t: Chronon) -> str:
    """Return ISO 8601 with microseconds, in UTC; ∞ for the end of the line, -∞ for instants without a date.

    Years beyond 9999 have a sign, as in Spark.

    >>> format_timestamp(1_000_000), format_timestamp(INFINITY), format_timestamp(LEAST)
    ('1970-01-01T00:00:01.000000', '∞', '-∞')
    >>> format_timestamp(INFINITY - 1)
    '+294247-01-10T04:00:54.775806'
    """
    if t >= INFINITY:
        return "∞"
    if t < UNDATED:
        return "-∞"
    cycles, rest = divmod(t, CALENDAR)  # Python's dates end with the year 9999
    moment = _EPOCH + timedelta(microseconds=rest)
    year = moment.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{moment.strftime('-%m-%dT%H:%M:%S.%f')}"


def instant_words(t: Chronon) -> str:
    """Return an instant as it stands in a sentence: the ends of time in words.

    >>> instant_words(0), instant_words(INFINITY - 1), instant_words(LEAST - 1)
    ('1970-01-01T00:00:00.000000', 'the end of time', 'the beginning of time')
    """
    if t >= INFINITY - 1:
        return "the end of time"
    return "the beginning of time" if t < UNDATED else format_timestamp(t)


def instant_column(t: Chronon) -> Chronon:
    """Return an instant as a value of a TIMESTAMP column; what has held since ever has one of the first.

    >>> instant_column(5), format_timestamp(instant_column(LEAST))
    (5, '0001-01-02T00:00:00.000000')
    """
    return t if t > UNDATED else UNDATED_VALUE


def timestamp_sql(t: Chronon) -> str:
    """Return the shortest SQL literal for the instant.

    >>> timestamp_sql(0), timestamp_sql(1_500_000)
    ("TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '1970-01-01 00:00:01.5'")
    """
    text = format_timestamp(t).replace("T", " ")
    return f"TIMESTAMP '{text.rstrip('0').rstrip('.') if '.' in text else text}'"


def unit_of(duration: int) -> tuple[int, str]:
    """Return a duration as a count of the largest unit that divides it.

    >>> unit_of(15 * MINUTE), unit_of(90 * SECOND), unit_of(0)
    ((15, 'MINUTE'), (90, 'SECOND'), (0, 'SECOND'))
    """
    if duration == 0:
        return 0, "SECOND"
    name, size = next((n, s) for n, s in UNITS.items() if duration % s == 0)
    return duration // size, name


def duration_text(duration: int) -> str:
    """Return a duration as it is written in a window bracket: `15 MINUTES`.

    >>> duration_text(15 * MINUTE), duration_text(SECOND)
    ('15 MINUTES', '1 SECOND')
    """
    count, unit = unit_of(duration)
    return f"{count} {unit}" if count == 1 else f"{count} {unit}S"


def interval_sql(duration: int) -> str:
    """Return a duration as a SQL literal: `INTERVAL '15' MINUTE`.

    >>> interval_sql(2 * HOUR)
    "INTERVAL '2' HOUR"
    """
    count, unit = unit_of(duration)
    return f"INTERVAL '{count}' {unit}"


_SHORT_UNITS = {
    "WEEK": "wk",
    "DAY": "d",
    "HOUR": "h",
    "MINUTE": "min",
    "SECOND": "s",
    "MILLISECOND": "ms",
    "MICROSECOND": "µs",
}


def length_text(length: int) -> str:
    """Return a length of time as it stands behind an operator.

    >>> length_text(10_000_000), length_text(90_000_000), length_text(1)
    ('10 s', '90 s', '1 µs')
    """
    count, unit = unit_of(length)
    return f"{count} {_SHORT_UNITS[unit]}"
