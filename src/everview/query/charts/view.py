"""Read a view of an open store for a chart: its newest changes, or those of a range of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from everview.algebra.time import LEAST, Chronon, instant_words, parse_timestamp
from everview.errors import PlanError, nearest
from everview.query.charts.chart import MOST_DRAWN, ChartEvent, ChartRecord, RecordInterval, record_intervals
from everview.query.charts.plot import Plot
from everview.query.charts.timeline import TimelineChart

MOST_CHANGES = 5_000  # the most changes in a chart, and the most records valid at its start
_NUMERIC = ("byte", "short", "integer", "long", "float", "double", "decimal")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Instant = str | datetime | date | None


class Changing(Protocol):
    """An open store that can read the change stream of a view."""

    def changes(self, view: str) -> Any:
        """Return the change stream of a view in the tag encoding."""


@dataclass(frozen=True)
class _Read:
    """The data of a chart: columns, numeric columns, intervals, a note on what is left out, the range."""

    columns: tuple[str, ...]
    numeric: tuple[str, ...]
    intervals: tuple[RecordInterval, ...]
    note: str
    since: Chronon | None
    until: Chronon | None


@dataclass(frozen=True)
class ChartView:
    """A view of an open store that can be drawn; `key` names its key columns, if a key is known.

    A chart shows the newest changes; `since` and `until` select a range of time.
    """

    db: Changing
    name: str
    key: tuple[str, ...] | None = None

    def timeline(self, since: Instant = None, until: Instant = None) -> TimelineChart:
        """Return a chart of its rows as bars."""
        read = self._read(since, until)
        return TimelineChart(self.name, read.columns, read.intervals, read.note, read.since, read.until)

    def plot(self, column: str | None = None, since: Instant = None, until: Instant = None) -> Plot:
        """Return a line chart of a numeric column; by default of all numeric columns outside the key."""
        read = self._read(since, until)
        numeric = read.numeric
        named = [c for c in numeric if column is not None and c.casefold() == column.casefold()]
        if column is not None and not named:
            raise PlanError(
                f"the view '{self.name}' has no column of numbers '{column}'",
                meant=nearest(column, numeric),
                choices=numeric,
            )
        if not numeric:
            raise PlanError(
                f"the view '{self.name}' has no column of numbers", next_step="draw it with timeline()"
            )
        values = tuple(named) or self._values(read)
        labels = tuple(c for c in self._labels(read) if c not in values)
        return Plot(
            self.name, read.columns, read.intervals, read.note, read.since, read.until, values, labels
        )

    def _labels(self, read: _Read) -> tuple[str, ...]:
        """Return the columns that identify a line: the key, or else the columns that are not numeric."""
        if self.key is not None:
            return self.key
        return tuple(c for c in read.columns if c not in read.numeric) or read.columns[:-1]

    def _values(self, read: _Read) -> tuple[str, ...]:
        """Return the numeric columns that are not labels; if there are none, the last numeric column."""
        labels = self._labels(read)
        return tuple(c for c in read.numeric if c not in labels) or read.numeric[-1:]

    def _read(self, since: Instant, until: Instant) -> _Read:
        first, last = chronon_of(since, "since"), chronon_of(until, "until")
        if first is not None and last is not None and first >= last:
            raise PlanError("the range ends before it begins", next_step="give an earlier since")
        frame = self.db.changes(self.name)
        fields = frame.schema.fields[2:-1]
        names = [f"c{i}" for i in range(len(fields))]
        texts = ", ".join(f"CAST({n} AS STRING) AS {n}" for n in names)
        old = f"CAST(old AS STRUCT<{', '.join(f'{n}: STRING' for n in names)}>) AS old"
        shown = frame.toDF("tag", "at", *names, "old").selectExpr(
            "tag", "unix_micros(at) AS at", f"struct({texts}) AS record", old
        )
        if last is not None:
            shown = shown.where(f"at IS NULL OR at <= {last}L")
        newest = shown if first is None else shown.where(f"at > {first}L")
        placed = newest.selectExpr("*", "instr('-u+', tag) AS place")
        ordered = placed.orderBy("at", "place", ascending=False)
        rows: list[Any] = ordered.limit(MOST_CHANGES + 1).collect()
        note = ""
        if len(rows) > MOST_CHANGES:
            # The limit may have cut off changes of the oldest instant, so the chart starts after it.
            first = rows[-1].at
            rows = [row for row in rows if row.at != first]
            note = f"only the newest changes are drawn, those after {instant_words(first or LEAST)}"
        events: list[ChartEvent] = [
            (r.tag, r.at, tuple(r.record), None if r.old is None else tuple(r.old)) for r in reversed(rows)
        ]
        before = [] if first is None and not note else _records_held(shown, first)
        if len(before) > MOST_CHANGES:
            before = before[:MOST_CHANGES]
            note = f"{note or 'drawn are'} and {MOST_CHANGES:,} of the rows that held at the beginning"
        numeric = tuple(f.name for f in fields if f.dataType.typeName() in _NUMERIC)
        found = tuple(record_intervals(events, before))
        return _Read(tuple(f.name for f in fields), numeric, found, note, first, last)


def _records_held(shown: Any, at: Chronon | None) -> list[ChartRecord]:
    """Return the records valid at an instant with their multiplicity, from all changes up to it."""
    early = shown.where("at IS NULL" if at is None else f"at IS NULL OR at <= {at}L")
    counted = early.selectExpr(
        "inline(array(struct(record, IF(tag = '-', -1, 1) AS n), "
        "struct(old AS record, IF(tag = 'u', -1, 0) AS n)))"
    )
    held = counted.where("n <> 0").groupBy("record").sum("n").where("`sum(n)` > 0").limit(MOST_CHANGES + 1)
    return [tuple(row[0]) for row in held.collect() for _ in range(min(row[1], MOST_DRAWN))]


def chronon_of(instant: Instant, what: str = "") -> Chronon | None:
    """Convert a text, datetime or date to a chronon; without a time zone it is in UTC.

    >>> chronon_of(date(1970, 1, 2), "since") == chronon_of("1970-01-02", "since") == 86_400_000_000
    True
    """
    if instant is None:
        return None
    if isinstance(instant, datetime):
        return (instant.replace(tzinfo=instant.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(instant, date):
        return chronon_of(datetime(instant.year, instant.month, instant.day, tzinfo=UTC), what)
    found = parse_timestamp(instant) if isinstance(instant, str) else None
    if found is None:
        raise PlanError(
            f"{what}: {instant!r} is no timestamp".removeprefix(": "),
            next_step="write it as 2026-01-31T23:59:59 (UTC)",
        )
    return found
