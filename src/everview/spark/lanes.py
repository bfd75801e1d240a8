"""Lanes: how the rows of a stream come to the ports of stages, before it is known how far time goes.

What Catalyst has to do with a row of a source before its first kernel does not depend on the step. So it is
part of the plan that reads the source, which Spark makes once: each row comes with what every port takes of
it. What is the same in every step, Spark also compiles only once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from everview.algebra import types as T
from everview.algebra.types import DataType
from everview.spark import physical as P
from everview.spark.catalyst import FROM, UNTIL, N, Row
from everview.spark.exchange import partition_sql
from everview.spark.fuse import Stage


@dataclass(frozen=True)
class Lane:
    """The way of a stream's rows to a port of a stage, over the columns c0, c1, … and the change.

    `place` is the partition as SQL; without one a row goes everywhere, or stays wherever it is.
    """

    scan: P.Scan
    stage: int
    port: int
    row: Row
    place: str | None
    everywhere: bool
    key: str = field(init=False)

    def __post_init__(self) -> None:
        row = self.row
        parts = [self.scan.digest, row.columns, row.begin, row.end, row.n, row.conditions, row.lets]
        text = repr([*parts, self.place, self.everywhere])
        object.__setattr__(self, "key", hashlib.blake2b(text.encode(), digest_size=12).hexdigest())

    @property
    def condition(self) -> str | None:
        """When a row takes this way, as SQL; None: always."""
        return " AND ".join(self.row.conditions) or None

    def texts(self) -> Iterator[tuple[str, DataType]]:
        """All that must be worked out for it, with the types."""
        row = self.row
        for text, type_ in zip(row.columns, row.types, strict=True):
            yield text, T.INT if type_ == T.VOID else type_
        yield from ((text, T.BIGINT) for text in (row.begin, row.end, row.n))
        if self.condition is not None:
            yield self.condition, T.BOOLEAN
        if self.place is not None:
            yield self.place, T.INT


def lanes(stages: Sequence[Stage], streams: Container[str], partitions: int) -> tuple[Lane, ...]:
    """The ways of the rows of some streams to all ports that read them."""
    found: list[Lane] = []
    for number, stage in enumerate(stages):
        for place, port in enumerate(stage.ports):
            for path in port.paths:
                base = path.base
                if not isinstance(base, P.Scan) or base.kind != "rows" or base.name not in streams:
                    continue
                names = [P.column(i) for i in range(len(base.types))]
                row = reduce(Row.through, path.through, Row.of(names, base.types, f"_row{len(found)}"))
                to = partition_sql(row, port.route, partitions) if stage.exchanges else None
                everywhere = stage.exchanges and port.route is None
                found.append(Lane(base, number, place, row, to, everywhere))
    return tuple(found)


@dataclass(frozen=True)
class Carried:
    """What a task must know of a lane: in which columns of the row that came what it takes lies."""

    key: str
    columns: tuple[str, ...]
    begin: str
    end: str
    n: str
    condition: str | None
    place: str | None
    everywhere: bool

    def needs(self) -> Iterator[str]:
        """All columns that it takes or looks at."""
        yield from (*self.columns, self.begin, self.end, self.n)
        yield from (c for c in (self.condition, self.place) if c is not None)


@dataclass(frozen=True)
class Carriage:
    """What rows of one source bring along for their lanes: named texts beside their own columns."""

    lanes: tuple[Lane, ...]
    own: int

    @property
    def texts(self) -> dict[str, DataType]:
        """What is worked out for the lanes, each text once; what a row has anyway is not among it."""
        has = {*(P.column(i) for i in range(self.own)), FROM, UNTIL, N}
        return {text: type_ for lane in self.lanes for text, type_ in lane.texts() if text not in has}

    def lets(self) -> Iterator[list[str]]:
        """What must be worked out before, in rounds."""
        for i in range(max((len(lane.row.lets) for lane in self.lanes), default=0)):
            rounds = [let for lane in self.lanes for let in lane.row.lets[i : i + 1]]
            yield [f"{text} AS {name}" for let in rounds for name, text in let]

    def carried(self, names: Mapping[str, str]) -> tuple[Carried, ...]:
        """The lanes for a task; `names` has the columns in which the texts come."""

        def name(text: str) -> str:
            return names.get(text, text)

        return tuple(
            Carried(
                lane.key,
                tuple(map(name, lane.row.columns)),
                name(lane.row.begin),
                name(lane.row.end),
                name(lane.row.n),
                lane.condition and name(lane.condition),
                lane.place and name(lane.place),
                lane.everywhere,
            )
            for lane in self.lanes
        )
