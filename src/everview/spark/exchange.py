"""Rows to the place of their key: several inputs of a kernel cross one exchange as one frame.

A row knows its partition and its side. Columns of the two sides that have the same type share a slot,
so that rows stay narrow. A row of side -1 comes to every partition: time moves where no data came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from everview.algebra.types import DataType
from everview.spark import physical as P
from everview.spark.catalyst import CHANGE, spark_type

PARTITION, SIDE = "_partition", "_side"


@dataclass(frozen=True)
class Layout:
    """Which slot each column of each side goes into, and the types of the slots."""

    sides: tuple[tuple[int, ...], ...]
    slots: tuple[DataType, ...]

    @classmethod
    def of(cls, sides: Sequence[Sequence[DataType]]) -> Layout:
        """Slots are shared by columns of the same type on different sides.

        >>> from everview.algebra.types import INT, STRING
        >>> Layout.of([[INT, STRING], [STRING, STRING]]).sides
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
    """The name of a slot."""
    return f"s{position}"


def routes(node: P.Physical) -> tuple[tuple[int, ...] | None, ...]:
    """Per input the columns whose values decide the partition; None: every row goes to every partition."""
    match node:
        case P.JoinKernel() | P.VersionKernel():
            if not node.left_keys:
                return tuple(range(len(node.left.types))), None
            return node.left_keys, node.right_keys
        case P.SweepKernel():
            return (tuple(range(node.keys)),)
        case P.RowsKernel():
            return (node.partition,)
        case P.LatestKernel():
            return (node.key,)
        case P.PointsKernel():
            return tuple(range(len(node.types))), None
    return tuple(tuple(range(len(i.types))) for i in node.inputs)


def exchange(
    node: P.Physical, inputs: Sequence[DataFrame], partitions: int, session: SparkSession
) -> tuple[DataFrame, Layout]:
    """All inputs of a kernel in one frame, each row in its partition."""
    layout = Layout.of([i.types for i in node.inputs])
    sides = [
        _side(frame, side, layout, keys, partitions)
        for side, (frame, keys) in enumerate(zip(inputs, routes(node), strict=True))
    ]
    united = reduce(DataFrame.unionAll, [*sides, _heartbeat(layout, partitions, session)])
    return united.repartitionById(partitions, F.col(PARTITION)), layout


def _side(
    frame: DataFrame, side: int, layout: Layout, keys: tuple[int, ...] | None, partitions: int
) -> DataFrame:
    places = {place: P.column(i) for i, place in enumerate(layout.sides[side])}
    slots = [
        (F.col(places[i]) if i in places else F.lit(None).cast(spark_type(t))).alias(slot(i))
        for i, t in enumerate(layout.slots)
    ]
    return frame.select(_partition(keys, frame, partitions), F.lit(side).alias(SIDE), *slots, *CHANGE)


def _partition(keys: tuple[int, ...] | None, frame: DataFrame, partitions: int) -> SparkColumn:
    if keys is None:
        return F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))).alias(PARTITION)
    if not keys:
        return F.lit(0).alias(PARTITION)
    columns = [_hashable(frame, P.column(k)) for k in keys]
    return F.pmod(F.xxhash64(*columns), F.lit(partitions)).cast("int").alias(PARTITION)


def _hashable(frame: DataFrame, name: str) -> SparkColumn:
    """Floats such that equal ones have equal bits: -0.0 as 0.0."""
    if frame.schema[name].dataType.typeName() in ("float", "double"):
        return F.when(F.col(name) == 0, F.lit(0.0)).otherwise(F.col(name).cast("double"))
    return F.col(name)


def _heartbeat(layout: Layout, partitions: int, session: SparkSession) -> DataFrame:
    nothing = [F.lit(None).cast(spark_type(t)).alias(slot(i)) for i, t in enumerate(layout.slots)]
    times = [F.lit(0).cast("long").alias(name) for name in CHANGE]
    beats = session.range(0, partitions, 1, 1)
    return beats.select(F.col("id").cast("int").alias(PARTITION), F.lit(-1).alias(SIDE), *nothing, *times)
