"""Input projections: what each port of a stage takes of a row, computed by Catalyst and carried in the row.

A row comes once, however many ports take it. There are two kinds of such rows. Rows of a source: what
Catalyst computes for them before their first operator does not depend on the step, so it is part of the plan
that reads the source, which Spark plans and compiles once (a lane). And rows that stay in their partition
between two stages.

A time window is not part of that: a lane carries the timestamp, and the window is applied when a task reads
the rows (`LaneWindow`). So views that differ in their windows alone share what Catalyst computes and what is
written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.time import INFINITY, Grid
from everview.algebra.types import DataType
from everview.algebra.windows import Fixed, Range
from everview.execute.catalyst import Row
from everview.execute.exchange import partition_sql
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N
from everview.plan.stages import Stage
from everview.storage.runs import TraceId

LANE_TIME = "_time"  # in a piece: the timestamp by which a window is applied, in microseconds


@dataclass(frozen=True)
class InputProjection:
    """What a port takes of a row: columns, interval, n, the condition under which it does, and the partition.

    Each is SQL over the row, or after `named` the column that holds its value. Without a partition the row
    stays where it is, or with `broadcast` goes to every partition. `at_once` says that the rows are read in
    the step in which they come, whatever their timestamps. `time` is the timestamp, if the rows go into a
    window when they are read.
    """

    columns: tuple[str, ...]
    begin: str = FROM
    end: str = UNTIL
    n: str = N
    condition: str | None = None
    partition: str | None = None
    broadcast: bool = False
    at_once: bool = False
    time: str | None = None

    @classmethod
    def of(
        cls,
        row: Row,
        partition: str | None = None,
        broadcast: bool = False,
        at_once: bool = False,
        time: str | None = None,
    ) -> InputProjection:
        """Return the projection that takes a row as it is."""
        condition = " AND ".join(row.conditions) or None
        return cls(row.columns, row.begin, row.end, row.n, condition, partition, broadcast, at_once, time)

    def values(self) -> Iterator[str]:
        """Yield all that it computes or reads."""
        yield from (*self.columns, self.begin, self.end, self.n)
        yield from (text for text in (self.condition, self.partition, self.time) if text is not None)

    def named(self, names: Mapping[str, str]) -> InputProjection:
        """Return the projection over the columns that hold its values; what has no name is a column."""

        def name(text: str) -> str:
            return names.get(text, text)

        return InputProjection(
            tuple(map(name, self.columns)),
            name(self.begin),
            name(self.end),
            name(self.n),
            self.condition and name(self.condition),
            self.partition and name(self.partition),
            self.broadcast,
            self.at_once,
            self.time and name(self.time),
        )

    def wanted(self, rows: Frame) -> Frame:
        """Return the rows that the port takes, of rows that carry the values of the projection."""
        return rows if self.condition is None else rows.filter(pl.col(self.condition))

    def port(self, key: str) -> TraceId:
        """Return the trace of the pieces of a lane with this projection."""
        return TraceId("port", key, P.ARRIVALS if self.at_once else "")

    def take(self, rows: Frame, more: Mapping[str, str] = MappingProxyType({})) -> Frame:
        """Return what the port takes of wanted rows: the columns c0, c1, …, the change, and perhaps more."""
        columns = {P.column(i): c for i, c in enumerate(self.columns)}
        columns |= {FROM: self.begin, UNTIL: self.end, N: self.n, **more}
        columns |= {} if self.time is None else {LANE_TIME: self.time}
        return pl.DataFrame([rows.get_column(old).alias(new) for new, old in columns.items()])

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class LaneWindow:
    """A time window that is applied to rows with their timestamps, in the closed form of DESIGN section 4.

    >>> rows = pl.DataFrame({FROM: [3, 4], UNTIL: [9, INFINITY], N: [1, 1], LANE_TIME: [3, 3]})
    >>> LaneWindow(Range(5)).cut(rows).rows()
    [(3, 8, 1), (4, 8, 1)]
    >>> LaneWindow(Range(2, slide=10)).cut(rows).rows()
    []
    """

    window: Range | Fixed

    def cut(self, rows: Frame) -> Frame:
        """Return the rows that are in the window at all, with their intervals cut to those of the window."""
        begin, end = self._interval(rows.get_column(LANE_TIME).to_numpy())
        begin = np.maximum(rows.get_column(FROM).to_numpy(), begin)
        end = np.minimum(rows.get_column(UNTIL).to_numpy(), end)
        times = {FROM: pl.Series(FROM, begin), UNTIL: pl.Series(UNTIL, end)}
        columns = (times.get(c.name, c) for c in rows.get_columns() if c.name != LANE_TIME)
        cut = pl.DataFrame(list(columns))
        inside = begin < end
        return cut if inside.all() else cut.filter(pl.Series(inside))

    def _interval(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grid = self.window.grid
        if isinstance(self.window, Fixed):
            return times, _ceil(grid, _later(times, 1))
        begin = _later(times, self.window.lag)
        return _ceil(grid, begin), _ceil(grid, _later(begin, self.window.extent))


def _later(times: np.ndarray, length: int) -> np.ndarray:
    """Return instants so much later; none is after the end of time."""
    return np.minimum(times, INFINITY - length) + length if length else times


def _ceil(grid: Grid, times: np.ndarray) -> np.ndarray:
    """Return the first point of a grid at or after each instant."""
    return times if grid.step == 1 else times + (grid.origin - times) % grid.step


@dataclass(frozen=True)
class Lane:
    """The way of a stream's rows to a port of a stage: what the port takes of them, over c0, c1, …

    `key` stands for the scan and the projection: rows that were projected for one key fit every lane of it.
    `window` is applied when they are read.
    """

    scan: P.ScanOperator
    stage: int
    port: int
    row: Row
    projection: InputProjection
    window: LaneWindow | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        text = repr([self.scan.digest, self.projection, self.row.lets])
        object.__setattr__(self, "key", hashlib.blake2b(text.encode(), digest_size=12).hexdigest())


@lru_cache(maxsize=8)
def lanes_of(
    stages: tuple[Stage, ...], streams: frozenset[str], partitions: int, windows_later: bool = True
) -> tuple[Lane, ...]:
    """Return the ways of the rows of some streams to all ports that read them.

    With `windows_later` the windows that can be are applied when rows are read; else all are part of the row.
    """
    found: list[Lane] = []
    for number, stage in enumerate(stages):
        for place, port in enumerate(stage.ports):
            for path in port.paths:
                scan = path.base
                if not isinstance(scan, P.ScanOperator) or scan.source == "view":
                    continue
                if scan.relation not in streams:
                    continue
                names = [P.column(i) for i in range(len(scan.types))]
                row = Row.of(names, scan.types, f"_row{len(found)}")
                later = _window_to_apply(path.through) if windows_later else None
                row, time = _through(row, path.through, later)
                partition = partition_sql(row, port.route, partitions) if stage.exchanges else None
                broadcast = stage.exchanges and port.route is None
                at_once = scan.source == P.ARRIVALS
                projection = InputProjection.of(row, partition, broadcast, at_once, time)
                window = None if later is None else _lane_window(later)
                found.append(Lane(scan, number, place, row, projection, window))
    return tuple(found)


def _window_to_apply(through: Sequence[P.Operator]) -> P.TimeWindowOperator | None:
    """Return the window of a path, if it can be applied after all: nothing else looks at intervals."""
    windows = [node for node in through if isinstance(node, P.TimeWindowOperator)]
    others = (node for node in through if not isinstance(node, P.TimeWindowOperator))
    if len(windows) != 1 or _lane_window(windows[0]) is None:
        return None
    return windows[0] if all(isinstance(node, _WITHOUT_TIME) for node in others) else None


_WITHOUT_TIME = (P.FilterOperator, P.ProjectOperator, P.NegateOperator)


def _lane_window(node: P.TimeWindowOperator) -> LaneWindow | None:
    return LaneWindow(node.window) if isinstance(node.window, (Range, Fixed)) else None


def _through(
    row: Row, nodes: Sequence[P.Operator], later: P.TimeWindowOperator | None
) -> tuple[Row, str | None]:
    """Return the row after some operators but for a window to apply later, and the timestamp for that one."""
    time = None
    for node in nodes:
        if later is not None and node is later:
            column = row.columns[later.timestamp]
            time = f"unix_micros({column})"
            row = replace(row, conditions=(*row.conditions, f"({column} IS NOT NULL)"))
        else:
            row = row.through(node)
    return row, time


@dataclass(frozen=True)
class ProjectedRows:
    """Rows of one kind with the values of all projections over them, each once, beside `own` columns."""

    rows: tuple[Row, ...]
    projections: tuple[InputProjection, ...]
    own: tuple[str, ...] = ()

    @property
    def texts(self) -> dict[str, DataType]:
        """What is computed, with the types; what a row has anyway is not among it."""
        has = {*self.own, *CHANGE}
        found: dict[str, DataType] = {}
        for row, projection in zip(self.rows, self.projections, strict=True):
            types = [T.INT if t == T.VOID else t for t in row.types] + [T.BIGINT] * 3
            types += [T.BOOLEAN] * (projection.condition is not None)
            types += [T.INT] * (projection.partition is not None)
            types += [T.BIGINT] * (projection.time is not None)
            found |= dict(zip(projection.values(), types, strict=True))
        return {text: type_ for text, type_ in found.items() if text not in has}

    def lets(self) -> Iterator[list[str]]:
        """Yield what must be computed before, in rounds."""
        for i in range(max((len(row.lets) for row in self.rows), default=0)):
            rounds = [let for row in self.rows for let in row.lets[i : i + 1]]
            yield [f"{text} AS {name}" for let in rounds for name, text in let]

    def wanted(self) -> str | None:
        """Return the condition under which any port takes a row; None: always."""
        found = [p.condition for p in self.projections if p.condition is not None]
        if len(found) < len(self.projections):
            return None
        return " OR ".join(f"({c})" for c in dict.fromkeys(found))

    def named(self, places: Sequence[int]) -> tuple[InputProjection, ...]:
        """Return the projections over the columns that hold their values, at these places."""
        names = dict(zip(self.texts, map(projected_column, places), strict=True))
        return tuple(projection.named(names) for projection in self.projections)


def projected_column(position: int) -> str:
    """Return the name of a column that holds a value of a projection."""
    return f"b{position}"


# For each number that a row can have: the ports that take it, and their projections.
ProjectionsByNumber = Mapping[int, Sequence[tuple[int, InputProjection]]]
