"""The evaluation of a slice as one Spark job: a chain of stages over the new rows.

The function that each task runs is a parameter. The last stage of a chain yields report lines only: a line
for each run that was written. The driver collects these lines and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import DataType
from everview.execute.catalyst import Row, column_value_sql, long_sql, null_sql, spark_schema, spark_type
from everview.execute.exchange import LINE, PARTITION, SIDE, Exchange, Leg, SlotLayout, by_number, slot
from everview.execute.lanes import InputProjection, ProjectedRows, ProjectionsByNumber, projected_column
from everview.operators.columnar.frame import CHANGE, N
from everview.operators.step_slices import StepSlices
from everview.plan.stages import Stage

Batches = Callable[[Iterable[Any]], Iterator[Any]]

# The report of a step: a line for each run that was written, or with no trace one line for a whole task.
RUN_LINES = "trace string, run string"


# Makes the function that Spark calls with rows in a layout, or with rows that several ports read. It yields
# rows in the other layout, or report lines.
Task = Callable[[SlotLayout | ProjectionsByNumber, SlotLayout | None], Batches]


@dataclass(frozen=True)
class _HandedOn:
    """The rows that a stage hands on, with the types of each numbered part."""

    frame: DataFrame
    layout: SlotLayout
    types: Sequence[tuple[DataType, ...]]

    def row(self, number: int, name: str) -> Row:
        return Row.of([slot(i) for i in self.layout.sides[number]], self.types[number], name)


def chain(
    session: SparkSession,
    stages: Sequence[Stage],
    scans: Mapping[P.ScanOperator, DataFrame | None],
    partitions: int,
    slices: StepSlices,
    tasks: Sequence[Task],
    woken: Container[int] = (),
) -> list[DataFrame]:
    """Return frames that together yield the report lines of a step; each operator runs in one of them, once.

    A stage in `woken` reads rows by itself: it runs in every partition, even if no rows come through Spark.
    """
    ends: list[DataFrame] = []
    handed_on: _HandedOn | None = None
    for number, (stage, task) in enumerate(zip(stages, tasks, strict=True)):
        read = _Reading(session, stage, scans, slices, handed_on)
        frames, given = read.to_their_place(partitions) if stage.exchanges else read.where_they_are()
        beats = handed_on is None and (stage.exchanges or number in woken)
        if not frames and not beats:
            continue
        if beats and frames and isinstance(given, SlotLayout):
            frames.append(Exchange(given, partitions, False).heartbeat(session))
        elif beats:
            frames.append(heartbeats(session, partitions))
        rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
        if PARTITION in rows.columns:
            rows = rows.repartitionById(partitions, F.col(PARTITION))
        types = [stage.types(register) for register in stage.handed_registers]
        out = SlotLayout.of(types) if types else None
        done = rows.mapInArrow(task(given, out), RUN_LINES if out is None else handed_on_schema(out))
        handed_on = None if out is None else _HandedOn(done, out, types)
        ends += [done] if out is None else []
    return ends


def heartbeats(session: SparkSession, partitions: int) -> DataFrame:
    """Return a frame with one row in each partition, for a stage that reads its own files."""
    return session.range(0, partitions, 1, partitions).selectExpr(f"-1 AS {SIDE}", f"id AS {N}")


def comes_alone(stage: Stage, scans: Mapping[P.ScanOperator, DataFrame | None], slices: StepSlices) -> bool:
    """Return whether a stage gets no rows through Spark."""
    return not any(_brings_rows(path.base, scans, slices) for port in stage.ports for path in port.paths)


def _brings_rows(
    base: P.Operator | int, scans: Mapping[P.ScanOperator, DataFrame | None], slices: StepSlices
) -> bool:
    """Return whether the base of a path sends rows through Spark."""
    if isinstance(base, P.ScanOperator):
        return scans[base] is not None
    return isinstance(base, int) or (isinstance(base, P.ConstantOperator) and slices.of_operator(base).first)


@dataclass(frozen=True)
class _Reading:
    """The inputs of one stage."""

    session: SparkSession
    stage: Stage
    scans: Mapping[P.ScanOperator, DataFrame | None]
    slices: StepSlices
    handed_on: _HandedOn | None

    def to_their_place(self, partitions: int) -> tuple[list[DataFrame], SlotLayout]:
        """Return the rows with their partitions, a copy for each port that reads them, and their layout."""
        layout = SlotLayout.of([port.types for port in self.stage.ports])
        exchange = Exchange(layout, partitions, self.handed_on is not None)
        from_stage: dict[int, list[Leg]] = {}
        frames = []
        for base, rows in self._rows().items():
            legs = [Leg(row, port, self.stage.ports[port].route) for port, row in rows]
            if isinstance(base, int):
                from_stage[base] = legs
            else:
                frame = _source(self.session, base, self.scans, self.slices)
                frames += [] if frame is None else [exchange.from_source(frame, legs)]
        if self.handed_on is not None:
            frames.insert(0, exchange.from_stage(self.handed_on.frame, from_stage))
        return frames, layout

    def where_they_are(self) -> tuple[list[DataFrame], ProjectionsByNumber]:
        """Return rows that stay in their partition, and the projections whose values they carry."""
        rows = self._rows()
        handed_on = [base for base in rows if isinstance(base, int)]
        sources = [base for base in rows if not isinstance(base, int)]
        first = 1 + max(handed_on, default=-1)
        numbers: dict[P.Operator | int, int] = {
            **{base: base for base in handed_on},
            **{base: first + i for i, base in enumerate(sources)},
        }
        staying = _Staying.of({numbers[base]: [row for _, row in taken] for base, taken in rows.items()})
        frames = []
        if self.handed_on is not None:
            frames.append(staying.several(self.handed_on.frame, handed_on))
        for base in sources:
            frame = _source(self.session, base, self.scans, self.slices)
            if frame is not None:
                line = [] if self.handed_on is None else [f"{null_sql(T.STRING)} AS {LINE}"]
                frames.append(staying.one(frame, numbers[base], line))
        split = {
            numbers[base]: tuple(
                zip([port for port, _ in taken], staying.projections(numbers[base]), strict=True)
            )
            for base, taken in rows.items()
        }
        return frames, split

    def _rows(self) -> dict[P.Operator | int, list[tuple[int, Row]]]:
        """Return, for each scan or part handed on, the ports that read it and the rows that they read.

        A scan without rows is left out: with many views, its SQL would take longer than the step.
        """
        found: dict[P.Operator | int, list[tuple[int, Row]]] = {}
        for number, port in enumerate(self.stage.ports):
            for path in port.paths:
                if not _brings_rows(path.base, self.scans, self.slices):
                    continue
                rows = found.setdefault(path.base, [])
                name = f"_row{sum(map(len, found.values()))}"
                if isinstance(path.base, int):
                    assert self.handed_on is not None
                    row = self.handed_on.row(path.base, name)
                else:
                    types = path.base.types
                    row = Row.of([P.column(i) for i in range(len(types))], types, name)
                rows.append((number, reduce(Row.through, path.through, row)))
        return found


@dataclass(frozen=True)
class _Staying:
    """Rows that stay in their partition: the projections of each numbered part, and their columns."""

    projected: Mapping[int, ProjectedRows]
    layout: SlotLayout

    @classmethod
    def of(cls, rows: Mapping[int, Sequence[Row]]) -> _Staying:
        projected = {n: ProjectedRows(tuple(r), tuple(map(InputProjection.of, r))) for n, r in rows.items()}
        return cls(projected, SlotLayout.of([list(p.texts.values()) for p in projected.values()]))

    def _texts(self, number: int) -> list[str]:
        """Return the SQL of each column for the rows of a number."""
        there = dict(zip(self._places(number), self.projected[number].texts, strict=True))
        return [there.get(i, null_sql(type_)) for i, type_ in enumerate(self.layout.slots)]

    def _places(self, number: int) -> tuple[int, ...]:
        return self.layout.sides[list(self.projected).index(number)]

    def projections(self, number: int) -> tuple[InputProjection, ...]:
        """Return the projections of a number over the columns that hold their values."""
        return self.projected[number].named(self._places(number))

    def one(self, frame: DataFrame, number: int, line: Sequence[str]) -> DataFrame:
        """Return rows that all have one number."""
        frame = self._prepared(frame, [number])
        wanted = self.projected[number].wanted()
        frame = frame if wanted is None else frame.where(wanted)
        columns = [f"{text} AS {projected_column(i)}" for i, text in enumerate(self._texts(number))]
        return frame.selectExpr(f"{number} AS {SIDE}", *line, *columns, *CHANGE)

    def several(self, frame: DataFrame, numbers: Sequence[int]) -> DataFrame:
        """Return rows with different numbers, and report lines."""
        frame = self._prepared(frame, numbers)
        wanted = by_number({n: self.projected[n].wanted() or "TRUE" for n in numbers}, "TRUE", SIDE)
        frame = frame if wanted == "TRUE" else frame.where(wanted)
        columns = [
            f"{by_number(dict(zip(numbers, texts, strict=True)), None, SIDE)} AS {projected_column(i)}"
            for i, texts in enumerate(zip(*(self._texts(n) for n in numbers), strict=True))
        ]
        return frame.selectExpr(SIDE, LINE, *columns, *CHANGE)

    def _prepared(self, frame: DataFrame, numbers: Sequence[int]) -> DataFrame:
        for number in numbers:
            for texts in self.projected[number].lets():
                frame = frame.selectExpr("*", *texts)
        return frame


def _source(
    session: SparkSession,
    source: P.Operator,
    scans: Mapping[P.ScanOperator, DataFrame | None],
    slices: StepSlices,
) -> DataFrame | None:
    """Return the new rows of a stream or a table; constants are new in the first step only."""
    if isinstance(source, P.ScanOperator):
        return scans[source]
    assert isinstance(source, P.ConstantOperator)
    if not slices.of_operator(source).first:
        return None
    return constant_rows(session, source)


def constant_rows(session: SparkSession, source: P.ConstantOperator) -> DataFrame:
    """Return constants as change rows that hold for ever, as literals that Catalyst evaluates."""
    names = [P.column(i) for i in range(len(source.types))]
    times = [f"{long_sql(t)} AS {name}" for t, name in zip((LEAST, INFINITY, 1), CHANGE, strict=True)]
    if not names or not source.records:
        values = [(*row, LEAST, INFINITY, 1) for row in source.records]
        return session.createDataFrame(values, spark_schema(source.types))
    rows = (", ".join(map(column_value_sql, row, source.types)) for row in source.records)
    values_sql = ", ".join(f"({row})" for row in rows)
    columns = ", ".join(names)
    return session.sql(f"SELECT {columns}, {', '.join(times)} FROM VALUES {values_sql} AS fixed ({columns})")


def handed_on_schema(layout: SlotLayout) -> S.StructType:
    """Return the schema of what a stage hands on: the side, the report line, the slots, the change."""
    slots = [S.StructField(slot(i), spark_type(t)) for i, t in enumerate(layout.slots)]
    times = [S.StructField(name, S.LongType()) for name in CHANGE]
    return S.StructType(
        [S.StructField(SIDE, S.IntegerType()), S.StructField(LINE, S.StringType()), *slots, *times]
    )


def rows_of(session: SparkSession, plan: P.Operator, scans: Mapping[P.ScanOperator, DataFrame]) -> DataFrame:
    """Return the rows of a plan without stateful operators, evaluated by Catalyst alone."""
    match plan:
        case P.ScanOperator():
            return scans[plan]
        case P.ConstantOperator():
            return constant_rows(session, plan)
        case P.UnionOperator(left=left, right=right):
            below = [rows_of(session, side, scans) for side in (left, right)]
            return below[0].unionAll(below[1])
    frame = rows_of(session, plan.inputs[0], scans)
    below_types = plan.inputs[0].types
    row = Row.of([P.column(i) for i in range(len(below_types))], below_types).through(plan)
    for let in row.lets:
        frame = frame.selectExpr("*", *(f"{text} AS {name}" for name, text in let))
    shown = frame.where(" AND ".join(row.conditions)) if row.conditions else frame
    columns = [f"{text} AS {P.column(i)}" for i, text in enumerate(row.columns)]
    times = [f"{text} AS {name}" for text, name in zip((row.begin, row.end, row.n), CHANGE, strict=True)]
    return shown.selectExpr(*columns, *times)
