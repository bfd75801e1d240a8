"""One step of a pipeline as one Spark job: a chain of stages over the new rows.

What runs inside a stage's tasks is handed in. A stage that hands nothing on yields lines only: what its tasks
tell is all that comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import DataType
from everview.spark import physical as P
from everview.spark.catalyst import CHANGE, N, Row, spark_schema, spark_type
from everview.spark.exchange import LINE, PARTITION, SIDE, Exchange, Layout, Leg, slot
from everview.spark.fuse import Stage

Batches = Callable[[Iterable[Any]], Iterator[Any]]

# What comes back of a step: a line for each run that was written, or with no trace one for all of a task.
LINES = "trace string, run string"


# Makes the function that Spark calls, for rows in a layout; it yields rows in the other one, or lines.
Task = Callable[[Layout, Layout | None], Batches]


@dataclass(frozen=True)
class _HandedOn:
    """The rows that a stage hands on, and for each of their numbers the columns."""

    frame: DataFrame
    layout: Layout
    types: Sequence[tuple[DataType, ...]]

    def row(self, number: int) -> Row:
        columns = [slot(i) for i in self.layout.sides[number]]
        return Row.of(columns, self.types[number], f"_row{number}")


def chain(
    session: SparkSession,
    stages: Sequence[Stage],
    scans: Mapping[P.Scan, DataFrame | None],
    partitions: int,
    first: bool,
    tasks: Sequence[Task],
    woken: Container[int] = (),
) -> list[DataFrame]:
    """Frames that together yield the lines of a step; each kernel is in one of them, once.

    A stage in `woken` finds rows by itself: it runs in every partition, also if none come to it.
    """
    ends: list[DataFrame] = []
    handed_on: _HandedOn | None = None
    for number, (stage, task) in enumerate(zip(stages, tasks, strict=True)):
        given = Layout.of([port.types for port in stage.ports])
        exchange = Exchange(given, partitions if stage.exchanges else None, handed_on is not None)
        frames = _read(session, stage, exchange, scans, first, handed_on)
        beats = handed_on is None and (stage.exchanges or number in woken)
        if not frames and not beats:
            continue
        if not frames:
            rows = heartbeats(session, partitions)
        else:
            frames += [exchange.heartbeat(session, partitions)] if beats else []
            rows = reduce(DataFrame.unionAll, frames)
            rows = rows.repartitionById(partitions, F.col(PARTITION)) if stage.exchanges else rows
        types = [stage.types(register) for register in stage.hands_on]
        out = Layout.of(types) if types else None
        done = rows.mapInArrow(task(given, out), LINES if out is None else handed_on_schema(out))
        handed_on = None if out is None else _HandedOn(done, out, types)
        ends += [done] if out is None else []
    return ends


def heartbeats(session: SparkSession, partitions: int) -> DataFrame:
    """A row in each partition, and nothing else: who has all it needs has to be told only to run."""
    return session.range(0, partitions, 1, partitions).selectExpr(f"-1 AS {SIDE}", f"id AS {N}")


def comes_alone(stage: Stage, scans: Mapping[P.Scan, DataFrame | None], first: bool) -> bool:
    """Whether nothing comes to a stage through Spark."""
    bases = [path.base for port in stage.ports for path in port.paths]
    return not any(
        isinstance(base, int)
        or (isinstance(base, P.Scan) and scans[base] is not None)
        or (isinstance(base, P.Constant) and first)
        for base in bases
    )


def _read(
    session: SparkSession,
    stage: Stage,
    exchange: Exchange,
    scans: Mapping[P.Scan, DataFrame | None],
    first: bool,
    handed_on: _HandedOn | None,
) -> list[DataFrame]:
    """All that a stage reads, in parts of the same columns."""
    from_stage: dict[int, Leg] = {}
    from_source: dict[P.Physical, list[Leg]] = {}
    for side, port in enumerate(stage.ports):
        for path in port.paths:
            base = path.base
            if isinstance(base, int):
                assert handed_on is not None
                from_stage[base] = Leg(_along(handed_on.row(base), path.through), side, port.route)
            else:
                legs = from_source.setdefault(base, [])
                row = Row.of([P.column(i) for i in range(len(base.types))], base.types, f"_row{len(legs)}")
                legs.append(Leg(_along(row, path.through), side, port.route))
    frames = [] if handed_on is None else [exchange.from_stage(handed_on.frame, from_stage)]
    for source, legs in from_source.items():
        frame = _source(session, source, scans, first)
        frames += [] if frame is None else [exchange.from_source(frame, legs)]
    return frames


def _along(row: Row, through: Iterable[P.Physical]) -> Row:
    return reduce(Row.through, through, row)


def _source(
    session: SparkSession, source: P.Physical, scans: Mapping[P.Scan, DataFrame | None], first: bool
) -> DataFrame | None:
    """The new rows of a stream or a table; constants are new in the first step only."""
    if isinstance(source, P.Scan):
        return scans[source]
    assert isinstance(source, P.Constant)
    if not first:
        return None
    values = [(*row, LEAST, INFINITY, 1) for row in source.rows]
    return session.createDataFrame(values, spark_schema(source.types))


def handed_on_schema(layout: Layout) -> S.StructType:
    """The columns of what a stage hands on: which of its rows this is, or a line, and the slots."""
    slots = [S.StructField(slot(i), spark_type(t)) for i, t in enumerate(layout.slots)]
    times = [S.StructField(name, S.LongType()) for name in CHANGE]
    return S.StructType(
        [S.StructField(SIDE, S.IntegerType()), S.StructField(LINE, S.StringType()), *slots, *times]
    )


def rows_of(
    session: SparkSession, plan: P.Physical, scans: Mapping[P.Scan, DataFrame], first: bool = True
) -> DataFrame:
    """The rows of a plan without kernels, which Catalyst alone evaluates: c0, c1, … and the change."""
    match plan:
        case P.Scan() | P.Constant():
            found = _source(session, plan, scans, first)
            return session.createDataFrame([], spark_schema(plan.types)) if found is None else found
        case P.Merge(left=left, right=right):
            below = [rows_of(session, side, scans, first) for side in (left, right)]
            return below[0].unionAll(below[1])
    frame = rows_of(session, plan.inputs[0], scans, first)
    below_types = plan.inputs[0].types
    row = Row.of([P.column(i) for i in range(len(below_types))], below_types).through(plan)
    for let in row.lets:
        frame = frame.selectExpr("*", *(f"{text} AS {name}" for name, text in let))
    shown = frame.where(" AND ".join(row.conditions)) if row.conditions else frame
    columns = [f"{text} AS {P.column(i)}" for i, text in enumerate(row.columns)]
    times = [f"{text} AS {name}" for text, name in zip((row.begin, row.end, row.n), CHANGE, strict=True)]
    return shown.selectExpr(*columns, *times)
