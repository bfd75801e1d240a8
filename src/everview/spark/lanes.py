"""What ports take of a row, brought along in the row itself: it comes once, however many ports want it.

Two kinds of rows come so. Those of a source, before it is known how far time goes: what Catalyst has to do
with them before their first kernel does not depend on the step, so it is part of the plan that reads the
source, which Spark makes and compiles once (lanes). And those that stay in their partition (splits).
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from everview.algebra import types as T
from everview.algebra.types import DataType
from everview.spark import physical as P
from everview.spark.catalyst import CHANGE, Row
from everview.spark.exchange import partition_sql
from everview.spark.fuse import Stage


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a port takes of a row, as SQL.

    `place` is the partition; without one a row goes everywhere, or stays wherever it is.
    """

    row: Row
    place: str | None = None
    everywhere: bool = False

    @property
    def condition(self) -> str | None:
        """When the port takes the row; None: always."""
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


@dataclass(frozen=True, kw_only=True)
class Lane(Taken):
    """The way of a stream's rows to a port of a stage, over the columns c0, c1, … and the change."""

    scan: P.Scan
    stage: int
    port: int
    key: str = field(init=False)

    def __post_init__(self) -> None:
        row = self.row
        parts = [self.scan.digest, row.columns, row.begin, row.end, row.n, row.conditions, row.lets]
        text = repr([*parts, self.place, self.everywhere])
        object.__setattr__(self, "key", hashlib.blake2b(text.encode(), digest_size=12).hexdigest())


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
                found.append(
                    Lane(scan=base, stage=number, port=place, row=row, place=to, everywhere=everywhere)
                )
    return tuple(found)


@dataclass(frozen=True)
class Carried:
    """What a task must know of it: in which columns of the row that came what a port takes lies."""

    columns: tuple[str, ...]
    begin: str
    end: str
    n: str
    condition: str | None = None
    place: str | None = None
    everywhere: bool = False

    def needs(self) -> Iterator[str]:
        """All columns that are taken or looked at."""
        yield from (*self.columns, self.begin, self.end, self.n)
        yield from (c for c in (self.condition, self.place) if c is not None)


@dataclass(frozen=True)
class Carriage:
    """What rows of one kind bring along for all who take them: named texts beside `own` columns."""

    taken: tuple[Taken, ...]
    own: tuple[str, ...] = ()

    @property
    def texts(self) -> dict[str, DataType]:
        """What is worked out, each text once; what a row has anyway is not among it."""
        has = {*self.own, *CHANGE}
        return {text: type_ for taken in self.taken for text, type_ in taken.texts() if text not in has}

    def lets(self) -> Iterator[list[str]]:
        """What must be worked out before, in rounds."""
        for i in range(max((len(taken.row.lets) for taken in self.taken), default=0)):
            rounds = [let for taken in self.taken for let in taken.row.lets[i : i + 1]]
            yield [f"{text} AS {name}" for let in rounds for name, text in let]

    def wanted(self) -> str | None:
        """When anybody takes a row; None: always."""
        conditions = [taken.condition for taken in self.taken]
        found = [c for c in conditions if c is not None]
        return " OR ".join(f"({c})" for c in dict.fromkeys(found)) if len(found) == len(conditions) else None

    def carried(self, names: Mapping[str, str]) -> tuple[Carried, ...]:
        """The same for a task; `names` has the columns in which the texts come."""

        def name(text: str) -> str:
            return names.get(text, text)

        return tuple(
            Carried(
                tuple(map(name, taken.row.columns)),
                name(taken.row.begin),
                name(taken.row.end),
                name(taken.row.n),
                taken.condition and name(taken.condition),
                taken.place and name(taken.place),
                taken.everywhere,
            )
            for taken in self.taken
        )


def brought(position: int) -> str:
    """The name of a column for what rows bring along."""
    return f"b{position}"


# For each number that a row can bear, the ports that take of it, and what.
Split = Mapping[int, Sequence[tuple[int, Carried]]]
