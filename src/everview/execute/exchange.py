"""The exchange before a stage: all rows that its ports read, as one frame that is partitioned by key.

A row has a column for its partition and one for the port that reads it (its side). Columns of different ports
with the same type share a slot, so that rows stay narrow. Each partition gets one heartbeat row with side -1,
so that time moves where no data came; its `_n` is the partition, and it carries reports of earlier stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.types import DataType
from everview.execute.catalyst import Row, null_sql
from everview.operators.columnar.frame import FROM, UNTIL, N

PARTITION, SIDE, LINE, LEG = "_partition", "_side", "_line", "_leg"


@dataclass(frozen=True)
class SlotLayout:
    """The slot of each column of each side, and the types of the slots."""

    sides: tuple[tuple[int, ...], ...]
    slots: tuple[DataType, ...]

    @classmethod
    def of(cls, sides: Sequence[Sequence[DataType]]) -> SlotLayout:
        """Return a layout in which columns of the same type on different sides share a slot.

        >>> from everview.algebra.types import INT, STRING
        >>> SlotLayout.of([[INT, STRING], [STRING, STRING]]).sides
        ((0, 1), (1, 2))
        """
        slots: list[DataType] = []
        placed = []
        for types in sides:
            free = list(range(len(slots)))
            places = []
            for type_ in types:
                found = next((i for i in free if slots[i] == type_), None)
                if found is None:
                    slots.append(type_)
                    found = len(slots) - 1
                else:
                    free.remove(found)
                places.append(found)
            placed.append(tuple(places))
        return cls(tuple(placed), tuple(slots))


def slot(position: int) -> str:
    """Return the name of a slot."""
    return f"s{position}"


@dataclass(frozen=True)
class Leg:
    """A row as a port reads it, the side of the port, and the columns that decide the partition.

    A route of None leads to every partition.
    """

    row: Row
    side: int
    route: tuple[int, ...] | None


@dataclass(frozen=True)
class Exchange:
    """The exchange of one stage: the layout of its rows, and whether they carry reports of earlier stages."""

    layout: SlotLayout
    partitions: int
    lines: bool

    def from_source(self, frame: DataFrame, legs: Sequence[Leg]) -> DataFrame:
        """Return the rows of a source, each once for every leg."""
        if len(legs) == 1:
            return self._selected(frame, dict(enumerate(legs)), tagged=False)
        copies = frame.selectExpr("*", f"explode({_tags(range(len(legs)))}) AS {LEG}")
        return self._selected(copies, dict(enumerate(legs)))

    def from_stage(self, frame: DataFrame, legs: Mapping[int, Sequence[Leg]]) -> DataFrame:
        """Return the rows that a stage hands on, once for every leg of their number, and its reports."""
        tagged = list(enumerate((number, leg) for number in legs for leg in legs[number]))
        cases = " ".join(
            f"WHEN {number} THEN {_tags(tag for tag, (base, _) in tagged if base == number)}"
            for number in legs
        )
        copies = frame.selectExpr("*", f"explode(CASE {SIDE} {cases} ELSE array(-1) END) AS {LEG}")
        return self._selected(copies, {tag: leg for tag, (_, leg) in tagged}, line=LINE)

    def heartbeat(self, session: SparkSession) -> DataFrame:
        """Return the heartbeat: a row for each partition."""
        slots = [f"{null_sql(t)} AS {slot(i)}" for i, t in enumerate(self.layout.slots)]
        line = [f"'' AS {LINE}"] if self.lines else []
        times = [f"0L AS {FROM}", f"0L AS {UNTIL}", f"id AS {N}"]
        beats = session.range(0, self.partitions, 1, 1)
        return beats.selectExpr(f"CAST(id AS INT) AS {PARTITION}", f"-1 AS {SIDE}", *line, *slots, *times)

    def _selected(
        self, frame: DataFrame, legs: Mapping[int, Leg], tagged: bool = True, line: str | None = None
    ) -> DataFrame:
        """Return the rows in their slots; rows with a report pass unchanged, their partition is in n."""

        def by_tag(texts: Iterable[str], otherwise: str | None = None) -> str:
            cases = dict(zip(legs, texts, strict=True))
            return (
                by_number(cases, otherwise if line else None, LEG) if tagged else next(iter(cases.values()))
            )

        rows = [leg.row for leg in legs.values()]
        for texts in _lets(legs):
            frame = frame.selectExpr("*", *texts)
        condition = by_tag((" AND ".join(row.conditions) or "TRUE" for row in rows), "TRUE")
        frame = frame if condition == "TRUE" else frame.where(condition)
        sides = [leg.side for leg in legs.values()]
        places = [
            dict(zip(self.layout.sides[s], r.columns, strict=True)) for s, r in zip(sides, rows, strict=True)
        ]
        slots = [
            f"{by_tag(p.get(i, null_sql(t)) for p in places)} AS {slot(i)}"
            for i, t in enumerate(self.layout.slots)
        ]
        times = [
            f"{by_tag(row.begin for row in rows)} AS {FROM}",
            f"{by_tag(row.end for row in rows)} AS {UNTIL}",
            f"{by_tag((row.n for row in rows), N)} AS {N}",
        ]
        lines = [f"{line or null_sql(T.STRING)} AS {LINE}"] if self.lines else []
        side = f"{by_tag(map(str, sides), '-1')} AS {SIDE}"
        return frame.selectExpr(*self._partition(legs, by_tag), side, *lines, *slots, *times)

    def _partition(self, legs: Mapping[int, Leg], by_tag: Callable[[Iterable[str], str], str]) -> list[str]:
        """Return the partition column; a row for every partition is copied once for each."""
        own = f"CAST({N} AS INT)"
        places = [partition_sql(leg.row, leg.route, self.partitions) for leg in legs.values()]
        if all(place is not None for place in places):
            return [f"{by_tag((place or '' for place in places), own)} AS {PARTITION}"]
        every = f"sequence(0, {self.partitions - 1})"
        lists = (every if place is None else f"array({place})" for place in places)
        return [f"explode({by_tag(lists, f'array({own})')}) AS {PARTITION}"]


def _lets(legs: Mapping[int, Leg]) -> Iterator[list[str]]:
    """Yield the named texts to compute first, in rounds."""
    rounds = max(len(leg.row.lets) for leg in legs.values())
    for i in range(rounds):
        yield [
            f"{text} AS {name}"
            for leg in legs.values()
            for let in leg.row.lets[i : i + 1]
            for name, text in let
        ]


def _tags(tags: Iterable[int]) -> str:
    return f"array({', '.join(map(str, tags))})"


def by_number(texts: Mapping[int, str], otherwise: str | None, number: str) -> str:
    """Return a CASE over a number in the row, or the text itself if all texts are equal."""
    different = set(texts.values())
    if len(different) == 1 and otherwise in (None, *different):
        return different.pop()
    cases = " ".join(f"WHEN {tag} THEN {text}" for tag, text in texts.items())
    return f"CASE {number} {cases}{'' if otherwise is None else f' ELSE {otherwise}'} END"


def partition_sql(row: Row, route: tuple[int, ...] | None, partitions: int) -> str | None:
    """Return the SQL of a row's partition, a hash of its route; None if it goes to every partition."""
    if route is None:
        return None
    if not route or partitions == 1:
        return "0"
    values = [_hashable(row.columns[i], row.types[i]) for i in route]
    return f"CAST(pmod(xxhash64({', '.join(values)}), {partitions}L) AS INT)"


def _hashable(text: str, type_: DataType) -> str:
    """Return SQL with equal bits for equal values: integers as BIGINT, floats as DOUBLE, -0.0 as 0.0."""
    if type_.is_integer:
        return f"CAST({text} AS BIGINT)"
    return f"IF({text} = 0, 0D, CAST({text} AS DOUBLE))" if type_.is_float else text
