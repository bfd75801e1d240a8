"""Windows: which part of a stream counts at an instant (paper 4; paper 1, 2.6; DESIGN section 4).

A time window is solved for one tuple: a record with timestamp ts is in the window exactly during
`interval(ts)`. Paper 4's own form, the scope function of an instant, is in `reference/scope.py`; a property
test shows that both give the same contents at every instant. A window of rows has no such closed
form: its end is the arrival that pushes a record out.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.text import name_sql
from everview.algebra.time import (
    INFINITY,
    MICROSECOND,
    Chronon,
    Grid,
    Interval,
    add_duration,
    duration_text,
    timestamp_sql,
)  # fmt: skip
from everview.errors import AlgebraError


@dataclass(frozen=True)
class Range:
    """RANGE extent SLIDE slide LAG lag ORIGIN origin: the sliding window of paper 4, 3.3.

    From ⌈ts+lag⌉ until ⌈ts+lag+extent⌉ on the grid of slides; never seen if these are equal.

    >>> Range(5).interval(3), Range(10, slide=10).interval(3), Range(2, slide=10).interval(3)
    (Interval(from_=3, until=8), Interval(from_=10, until=20), None)
    """

    extent: int
    slide: int = MICROSECOND
    lag: int = 0
    origin: Chronon = 0

    def __post_init__(self) -> None:
        if self.extent <= 0:
            raise AlgebraError(
                f"a window of RANGE {duration_text(self.extent)} holds nothing",
                next_step="give a range of at least one microsecond",
            )
        if self.slide <= 0:
            raise AlgebraError(
                f"SLIDE {duration_text(self.slide)} never moves on",
                next_step="give a slide of at least one microsecond, or leave it out",
            )
        if self.lag < 0:
            raise AlgebraError(f"LAG {duration_text(self.lag)} would show rows before they come")
        # Any point of a grid is its origin: windows that mean the same are equal.
        object.__setattr__(self, "origin", self.origin % self.slide)

    @property
    def grid(self) -> Grid:
        return Grid(self.slide, self.origin)

    def interval(self, ts: Chronon) -> Interval | None:
        begin = add_duration(ts, self.lag)
        return _proper(self.grid.ceil(begin), self.grid.ceil(add_duration(begin, self.extent)))

    def __str__(self) -> str:
        if self == NOW:
            return "NOW"
        tumbles = self.slide == self.extent and self.slide > MICROSECOND
        text = f"{'TUMBLE' if tumbles else 'RANGE'} {duration_text(self.extent)}"
        if self.slide > MICROSECOND and not tumbles:
            text += f" SLIDE {duration_text(self.slide)}"
        if self.lag:
            text += f" LAG {duration_text(self.lag)}"
        if self.origin:
            text += f" ORIGIN {timestamp_sql(self.origin)}"
        return text


NOW = Range(MICROSECOND)


def tumble(extent: int, lag: int = 0, origin: Chronon = 0) -> Range:
    """Return the window TUMBLE extent: each slide shows the extent that has just ended (paper 4, 3.3)."""
    return Range(extent, slide=extent, lag=lag, origin=origin)


@dataclass(frozen=True)
class Fixed:
    """FIXED extent: from ts until the next section begins (paper 1, 2.6 and equation 10).

    >>> Fixed(10).interval(3), Fixed(10).interval(10)
    (Interval(from_=3, until=10), Interval(from_=10, until=20))
    """

    extent: int
    origin: Chronon = 0

    def __post_init__(self) -> None:
        if self.extent <= 0:
            raise AlgebraError(
                f"a window of FIXED {duration_text(self.extent)} holds nothing",
                next_step="give an extent of at least one microsecond",
            )
        object.__setattr__(self, "origin", self.origin % self.extent)

    @property
    def grid(self) -> Grid:
        return Grid(self.extent, self.origin)

    def interval(self, ts: Chronon) -> Interval | None:
        return _proper(ts, self.grid.after(ts))

    def __str__(self) -> str:
        text = f"FIXED {duration_text(self.extent)}"
        return text + (f" ORIGIN {timestamp_sql(self.origin)}" if self.origin else "")


@dataclass(frozen=True)
class Band:
    """SINCE lower, UNTIL upper, BETWEEN lower AND upper, UNBOUNDED: landmarks and bands (paper 4, 3.3).

    Both ends are inclusive; None leaves a side open.

    >>> Band(lower=5).interval(4), Band(upper=5).interval(5).from_, str(Band())
    (None, 5, 'UNBOUNDED')
    """

    lower: Chronon | None = None
    upper: Chronon | None = None

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise AlgebraError(
                f"no row lies BETWEEN {timestamp_sql(self.lower)} AND {timestamp_sql(self.upper)}",
                next_step="write the earlier instant first",
            )

    def interval(self, ts: Chronon) -> Interval | None:
        if self.lower is not None and ts < self.lower:
            return None
        if self.upper is not None and ts > self.upper:
            return None
        return _proper(ts, INFINITY)

    def __str__(self) -> str:
        if self.lower is not None and self.upper is not None:
            return f"BETWEEN {timestamp_sql(self.lower)} AND {timestamp_sql(self.upper)}"
        if self.lower is not None:
            return f"SINCE {timestamp_sql(self.lower)}"
        return "UNBOUNDED" if self.upper is None else f"UNTIL {timestamp_sql(self.upper)}"


@dataclass(frozen=True)
class Rows:
    """ROWS count, or per partition PARTITION BY … ROWS count: the most recent rows (paper 4, 3.2).

    Rows of one instant are ordered by the stream's SEQUENCE BY columns, then by all columns. With a slide,
    the window moves at every so many arrivals only (the progression step of paper 4).
    """

    count: int
    partition_by: tuple[str, ...] = ()
    slide: int = 1

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise AlgebraError(
                f"a window of ROWS {self.count} holds nothing", next_step="ask for at least one row"
            )
        if self.slide <= 0:
            raise AlgebraError(
                f"SLIDE {self.slide} never moves on",
                next_step="give a slide of at least one row, or leave it out",
            )

    def __str__(self) -> str:
        keys = f"PARTITION BY {', '.join(map(name_sql, self.partition_by))} " if self.partition_by else ""
        return f"{keys}ROWS {self.count}" + (f" SLIDE {self.slide}" if self.slide > 1 else "")


TimeWindow = Range | Fixed | Band
AnyWindow = TimeWindow | Rows


def _proper(from_: Chronon, until: Chronon) -> Interval | None:
    return Interval(from_, until) if from_ < until else None
