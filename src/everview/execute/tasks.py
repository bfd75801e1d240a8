"""What Spark's tasks do: run a stage on one partition; write rows as runs, and read them.

A task reports what it wrote in lines that go back to the driver; it writes no files but runs. A task that is
run again writes the same runs or others; only those that a manifest names count.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from everview import operators as P
from everview.execute.exchange import LINE, SIDE, SlotLayout, slot
from everview.execute.job import RUN_LINES as RUN_LINES
from everview.execute.job import handed_on_schema
from everview.execute.lanes import ProjectionsByNumber
from everview.execute.program import Program, StageReport
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, pick_columns, stack_frames
from everview.operators.columnar.types import column_type
from everview.storage.files import Files
from everview.storage.records import decode_record, encode_record
from everview.storage.runs import Run, TraceId


@dataclass(frozen=True)
class StageTask:
    """A stage in one step, on any partition: rows come in a layout or split, and go on, or only lines do."""

    program: Program
    given: SlotLayout | ProjectionsByNumber
    handed_on: SlotLayout | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage; yield the rows that it hands on, and a report line."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        sides = frame.partition_by(SIDE, as_dict=True, include_key=False)
        beat = sides.get((-1,))
        partition = None if beat is None else int(beat[N][0])
        ports = [self._port(sides, i) for i in range(len(self.program.stage.ports))]
        done = self.program.run(ports, partition)
        before = beat[LINE][0] if beat is not None and LINE in beat.columns else None
        told = decode_record(before, list[StageReport]) if before else []
        line = encode_record([*told, done.report(self.program.number)]).decode()
        if self.handed_on is None:
            yield report_line(line)
        else:
            yield from _handed_on(done.handed_on, self.handed_on, line, partition or 0)
        freeze_imports()

    def _port(self, sides: dict[tuple[object, ...], Frame], side: int) -> Frame | None:
        """Return the rows of a port, their columns named by position again; None if there are none."""
        if not isinstance(self.given, SlotLayout):
            return self._split(sides, side, self.given)
        rows = sides.get((side,))
        if rows is None:
            return None
        names = {P.column(i): slot(s) for i, s in enumerate(self.given.sides[side])}
        return pick_columns(rows, names)

    def _split(
        self, sides: dict[tuple[object, ...], Frame], port: int, split: ProjectionsByNumber
    ) -> Frame | None:
        """Return the rows of a port, from rows that come once for all ports."""
        found = [
            projection.take(projection.wanted(sides[number,]))
            for number, takers in split.items()
            for taker, projection in takers
            if taker == port and (number,) in sides
        ]
        frames = [frame for frame in found if not frame.is_empty()]
        return stack_frames(frames) if frames else None


@functools.cache
def freeze_imports() -> None:
    """Exclude all imported modules from garbage collection, once in a process.

    Spark does that after every task, and it takes longer than a small task itself.
    """
    gc.collect()
    gc.freeze()


def _handed_on(
    parts: Sequence[Frame | None], layout: SlotLayout, line: str, partition: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the next stage reads, each part under its number, and a line for its partition."""
    frames = [_in_slots(part, layout, number) for number, part in enumerate(parts) if part is not None]
    told = pl.DataFrame({SIDE: [-1], LINE: [line], FROM: [0], UNTIL: [0], N: [partition]})
    slots = [pl.lit(None, column_type(t)).alias(slot(i)) for i, t in enumerate(layout.slots)]
    frames.append(told.select(pl.col(SIDE).cast(pl.Int32), LINE, *slots, *CHANGE))
    schema = to_arrow_schema(handed_on_schema(layout), timezone="UTC")
    yield from pl.concat(frames).to_arrow().cast(schema).to_batches()


def _in_slots(rows: Frame, layout: SlotLayout, number: int) -> Frame:
    places = {place: P.column(i) for i, place in enumerate(layout.sides[number])}
    slots = [
        (pl.col(places[i]) if i in places else pl.lit(None, column_type(t))).alias(slot(i))
        for i, t in enumerate(layout.slots)
    ]
    tag = pl.lit(number, pl.Int32).alias(SIDE)
    return rows.select(tag, pl.lit(None, pl.String).alias(LINE), *slots, *CHANGE)


@dataclass(frozen=True)
class WriteTask:
    """Writes rows as they come, as one run a partition, and reports the run."""

    trace: TraceId
    files: Files
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a line for the run that was written, if there were rows."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        yield run_line(self.trace, write_run(self.trace, frame, self.files, self.step))


def write_rows(rows: DataFrame, trace: TraceId, files: Files, step: int) -> tuple[Run, ...]:
    """Write rows; return the runs."""
    lines = rows.mapInArrow(WriteTask(trace, files, step), RUN_LINES).collect()
    return read_lines((line.trace, line.run) for line in lines).get(trace, ())


def write_run(trace: TraceId, frame: Frame, files: Files, step: int, *, merged: bool = False) -> Run:
    """Write a frame as a run under a name that no other attempt has; `merged` rows are in other runs too."""
    path = trace.merged_path(step) if merged else trace.unique_path(step)
    path, size = files.save_frame(path, frame)
    return Run.of(path, frame, size, step)


def run_line(trace: TraceId, run: Run) -> pa.RecordBatch:
    """Return the report line of a run."""
    return _line(encode_record(trace).decode(), encode_record(run).decode())


def report_line(text: str) -> pa.RecordBatch:
    """Return the report line of a task."""
    return _line("", text)


def _line(trace: str, run: str) -> pa.RecordBatch:
    columns = {"trace": [trace], "run": [run]}
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema([(name, pa.string()) for name in columns]))


def read_lines(lines: Iterable[tuple[str, str]]) -> dict[TraceId, tuple[Run, ...]]:
    """Return the runs of some report lines."""
    return by_trace((decode_record(trace, TraceId), decode_record(run, Run)) for trace, run in lines)


def by_trace(runs: Iterable[tuple[TraceId, Run]]) -> dict[TraceId, tuple[Run, ...]]:
    """Return runs by the traces that they belong to."""
    traces: dict[TraceId, tuple[Run, ...]] = {}
    for trace, run in runs:
        traces[trace] = (*traces.get(trace, ()), run)
    return traces


@dataclass(frozen=True)
class ColumnLayout:
    """Where the columns to read are in a file; -1: it does not have that one, which holds a constant.

    >>> rows = pl.DataFrame({"c0": [1, 2], "c1": ["a", "b"], FROM: [0, 0], UNTIL: [9, 9], N: [1, 1]})
    >>> ColumnLayout((1, -1), {1: pl.Series([7])}).place(rows).rows()
    [('a', 7, 0, 9, 1), ('b', 7, 0, 9, 1)]
    """

    places: tuple[int, ...]
    constants: Mapping[int, pl.Series]

    def place(self, rows: Frame) -> Frame:
        """Return the columns c0, c1, … and the change."""
        none = pl.Series([None], dtype=pl.Null)
        columns = [
            rows.get_column(P.column(place))
            if place >= 0
            else self.constants.get(i, none).new_from_index(0, rows.height)
            for i, place in enumerate(self.places)
        ]
        own = [values.alias(P.column(i)) for i, values in enumerate(columns)]
        return pl.DataFrame([*own, *(rows.get_column(c) for c in CHANGE)])


def layout_of(
    run: Run, positions: Sequence[int], constants: Mapping[int, pl.Series] = MappingProxyType({})
) -> ColumnLayout | None:
    """Return where columns are in the file of a run, by their present positions; None: where they should be.

    `constants` are for columns that the file does not have, by their place in the result.
    """
    places = tuple(run.places[p] for p in positions) if run.places else tuple(positions)
    return None if places == tuple(range(len(places))) else ColumnLayout(places, constants)


@dataclass(frozen=True)
class ReadTask:
    """Reads runs; the input rows are the numbers of the runs to read."""

    paths: tuple[str, ...]
    files: Files
    output: pa.Schema
    begins: tuple[int, int] | None = None
    layouts: tuple[ColumnLayout | None, ...] = ()  # of each run; None: as its file has them

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the runs; those that begin in (b0, b1], if these are given."""
        where = None
        if self.begins is not None:
            where = (pl.col(FROM) > self.begins[0]) & (pl.col(FROM) <= self.begins[1])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                frame = self.files.read_frame(self.paths[number], where=where)
                layout = self.layouts[number] if self.layouts else None
                frame = frame if layout is None else layout.place(frame)
                yield from frame.select(self.output.names).to_arrow().cast(self.output).to_batches()
