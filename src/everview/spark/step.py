"""One step of a pipeline as one Spark job: the physical plan over the new rows.

What runs inside a kernel's task is handed in: `task(node, layout)` yields the function that Spark calls
with the Arrow batches of one partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from everview.algebra.changes import Record
from everview.algebra.time import INFINITY, LEAST
from everview.spark import physical as P
from everview.spark.catalyst import row_by_row, spark_schema
from everview.spark.exchange import Layout, exchange

Batches = Callable[[Iterable[Any]], Iterator[Any]]


class Step:
    """Builds the frames of a step; equal parts of its plans are built, and run, once."""

    def __init__(
        self,
        session: SparkSession,
        scans: Mapping[P.Scan, DataFrame],
        partitions: int,
        first: bool,
        task: Callable[[P.Physical, Layout], Batches],
    ) -> None:
        self.session = session
        self.scans = scans
        self.partitions = partitions
        self.first = first
        self.task = task
        self.built: dict[P.Physical, DataFrame] = {}
        self.persisted: list[DataFrame] = []

    def frames(self, plans: Iterable[P.Physical]) -> list[DataFrame]:
        """The change rows that each plan emits in this step."""
        plans = list(plans)
        readers = _readers(plans)
        return [self._frame(plan, readers) for plan in plans]

    def done(self) -> None:
        """Lets go of what was kept for several readers."""
        for frame in self.persisted:
            frame.unpersist()

    def _frame(self, node: P.Physical, readers: Counter[P.Physical]) -> DataFrame:
        if node not in self.built:
            below = [self._frame(i, readers) for i in node.inputs]
            frame = self._made(node, below)
            if isinstance(node, P.KERNELS) and readers[node] > 1:
                # A kernel writes its state: read by two, it must still run once.
                frame = frame.persist()
                self.persisted.append(frame)
            self.built[node] = frame
        return self.built[node]

    def _made(self, node: P.Physical, below: list[DataFrame]) -> DataFrame:
        match node:
            case P.Scan():
                return self.scans[node]
            case P.Constant():
                return self._constant(node.rows if self.first else (), node)
            case P.Merge():
                return below[0].unionAll(below[1])
        if not isinstance(node, P.KERNELS):
            return row_by_row(node, below[0])
        frame, layout = exchange(node, below, self.partitions, self.session)
        return frame.mapInArrow(self.task(node, layout), spark_schema(node.types))

    def _constant(self, rows: Iterable[Record], node: P.Constant) -> DataFrame:
        values = [(*row, LEAST, INFINITY, 1) for row in rows]
        return self.session.createDataFrame(values, spark_schema(node.types))


def _readers(plans: Iterable[P.Physical]) -> Counter[P.Physical]:
    """How many nodes read each node."""
    counts: Counter[P.Physical] = Counter()
    seen: set[P.Physical] = set()

    def walk(node: P.Physical) -> None:
        counts[node] += 1
        if node not in seen:
            seen.add(node)
            for below in node.inputs:
                walk(below)

    for plan in plans:
        walk(plan)
    return counts
