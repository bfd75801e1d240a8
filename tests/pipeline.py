"""A plan run by its kernels, without Spark: the operators of Catalyst are evaluated row by row.

For tests only. The plan, its stages, the kernels and their state in files are the real ones; only the
exchange is simulated, with another hash in every test.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl
import pyarrow.fs as arrow_fs

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.changes import ChangeRow
from everview.algebra.evaluate import evaluate, holds
from everview.algebra.schema import Field, Schema
from everview.algebra.time import INFINITY, LEAST, instant_column
from everview.algebra.values import normal
from everview.execute.prepare import StepStages
from everview.execute.program import StageReport
from everview.operators.columnar.frame import CHANGE, Frame, Slice, drop_ended
from everview.operators.columnar.types import column_type
from everview.operators.step_slices import StepSlices
from everview.plan.stages import Path, Port, Stage
from everview.storage.files import Files
from everview.storage.records import decode_record, encode_record
from everview.storage.runs import Run, TraceId

Given = Mapping[str, Sequence[ChangeRow]]

# Instants are integers in a record.
_COUNTS = {T.DATE: pl.Int32, T.TIMESTAMP: pl.Int64, T.INTERVAL: pl.Int64}


def to_frame(rows: Sequence[ChangeRow], types: Sequence[T.DataType]) -> Frame:
    """Return change rows as a frame with the columns c0, c1, …"""
    if not rows:
        return _empty_frame(tuple(types)).clone()
    columns = []
    for i, type_ in enumerate(types):
        values, counted = [r.record[i] for r in rows], _COUNTS.get(type_)
        column = pl.Series(P.column(i), values, dtype=counted or column_type(type_))
        columns.append(column if counted is None else column.cast(column_type(type_)))
    times = [pl.Series(name, [r[i] for r in rows], dtype=pl.Int64) for i, name in enumerate(CHANGE, 1)]
    return pl.DataFrame([*columns, *times])


@cache
def _empty_frame(types: tuple[T.DataType, ...]) -> Frame:
    columns = {P.column(i): column_type(t) for i, t in enumerate(types)}
    return pl.DataFrame(schema={**columns, **dict.fromkeys(CHANGE, pl.Int64)})


def to_rows(frame: Frame) -> list[ChangeRow]:
    """Return the rows of a frame, with instants as integers."""
    if frame.is_empty():
        return []
    columns = [c.to_physical() if c.dtype.is_temporal() else c for c in frame.get_columns()]
    return [ChangeRow(tuple(normal(v) for v in r[:-3]), *r[-3:]) for r in pl.DataFrame(columns).rows()]


@dataclass
class Pipeline:
    """A physical plan with the state of its kernels, node by node."""

    plan: P.Operator
    rng: random.Random = field(default_factory=random.Random)
    states: dict[P.StatefulOperator, dict[str, Frame]] = field(default_factory=dict)

    def step(self, given: Given, slice_: Slice) -> list[ChangeRow]:
        """Return the change rows that a step emits; equal parts of the plan run once."""
        done: dict[P.Operator, Frame] = {}
        return to_rows(self._frame(self.plan, given, slice_, done))

    def _frame(self, node: P.Operator, given: Given, slice_: Slice, done: dict[P.Operator, Frame]) -> Frame:
        if node not in done:
            below = [self._frame(i, given, slice_, done) for i in node.inputs]
            done[node] = (
                self._kernel(node, below, slice_)
                if isinstance(node, P.StatefulOperator)
                else _rows(node, below, given, StepSlices(slice_))
            )
        return done[node]

    def _kernel(self, node: P.StatefulOperator, new: list[Frame], slice_: Slice) -> Frame:
        state = self.states.setdefault(node, node.empty_state(new))
        result = node.increment(new, state, slice_)
        for part, added in result.added.items():
            bound = node.expiry(slice_.b1)
            rows = drop_ended(pl.concat([state[part], added], how="diagonal"), bound)
            state[part] = node.compact(part, rows, bound) if self.rng.random() < 0.5 else rows
        return result.output


class StagedPipeline:
    """Plans in stages, on several partitions, with their state in runs."""

    def __init__(
        self,
        plans: Mapping[str, P.Operator],
        rng: random.Random,
        partitions: int = 1,
        fused: bool = True,
        files: Files | None = None,
    ) -> None:
        self.plans, self.rng, self.partitions, self.fused = plans, rng, partitions, fused
        self.files = files or Files("store", filesystem=arrow_fs._MockFileSystem())
        self.traces: dict[TraceId, tuple[Run, ...]] = {}
        self.number = 0
        self.salt = rng.random()

    def step(self, given: Given, slice_: Slice | StepSlices) -> dict[str, list[ChangeRow]]:
        """Return the change rows that a step emits for each view."""
        slices = slice_ if isinstance(slice_, StepSlices) else StepSlices(slice_)
        prepared = StepStages.of(self.plans, self.traces, fused=self.fused)
        programs = prepared.programs(self.files, self.partitions, self.traces, self.number, slices)
        reports: list[StageReport] = []
        handed_on: list[Frame] = []
        for stage, program in zip(prepared.stages, programs, strict=True):
            ports = [self._port(port, given, slices, handed_on) for port in stage.ports]
            handed_on = [to_frame([], stage.types(r)) for r in stage.handed_registers]
            for partition in range(self.partitions):
                own = [_none_if_empty(port[partition]) for port in ports]
                done = program.run(own, partition if stage.exchanges or self.rng.random() < 0.5 else None)
                reports += decode_record(encode_record([done.report(program.number)]), list[StageReport])
                handed_on = [
                    rows if more is None else pl.concat([rows, more])
                    for rows, more in zip(handed_on, done.handed_on, strict=True)
                ]
        return self._commit(prepared, reports)

    def _commit(self, prepared: StepStages, reports: list[StageReport]) -> dict[str, list[ChangeRow]]:
        self.rng.shuffle(reports)
        done = prepared.read_reports(reports, self.traces)
        emitted: dict[str, list[ChangeRow]] = {}
        for view in self.plans:
            trace = TraceId("view", view)
            runs = done.traces.get(trace, ())[len(self.traces.get(trace, ())) :]
            emitted[view] = [row for run in runs for row in to_rows(self.files.read_frame(run.path))]
            assert done.changes.get(view, 0) == len(emitted[view])
        self.traces |= done.traces
        self.number += 1
        return emitted

    def _port(self, port: Port, given: Given, slices: StepSlices, handed_on: list[Frame]) -> list[Frame]:
        """Return the rows of a port in each partition."""
        frames = [_follow_path(path, given, slices, handed_on) for path in port.paths]
        rows = to_rows(pl.concat(frames)) if frames else []
        parts: list[list[ChangeRow]] = [[] for _ in range(self.partitions)]
        for row in rows:
            for partition in self._partitions(port, row):
                parts[partition].append(row)
        return [to_frame(part, port.types) for part in parts]

    def _partitions(self, port: Port, row: ChangeRow) -> Sequence[int]:
        if port.route is None:
            return range(self.partitions)
        if not port.route:
            return [0]
        values = [_hashable(row.record[i]) for i in port.route]
        return [hash((self.salt, *values)) % self.partitions]


def _hashable(value: object) -> object:
    """Return a value such that values with equal hashes in Spark are equal, whatever their width."""
    return repr(value + 0.0) if isinstance(value, float) else value


def _none_if_empty(frame: Frame) -> Frame | None:
    return None if frame.is_empty() else frame


def _follow_path(path: Path, given: Given, slices: StepSlices, handed_on: list[Frame]) -> Frame:
    frame = handed_on[path.base] if isinstance(path.base, int) else _rows(path.base, [], given, slices)
    for node in path.through:
        frame = _rows(node, [frame], given, slices)
    return frame


def _rows(node: P.Operator, below: list[Frame], given: Given, slices: StepSlices) -> Frame:
    """Evaluate an operator of Catalyst row by row."""
    match node:
        case P.ScanOperator():
            rows = given.get(f"{node.relation} arrivals" if node.source == P.ARRIVALS else node.relation, [])
            if isinstance(node, P.DomainScanOperator):
                rows = given.get(f"{node.relation} in domain", rows)
                own = slices.of_clock(node.clock)
                rows = [r for r in rows if own.b0 < r.from_ <= own.b1]
            return to_frame(rows, node.types)
        case P.ConstantOperator():
            first = slices.of_operator(node).first
            rows = [ChangeRow(r, LEAST, INFINITY) for r in node.records] if first else []
            return to_frame(rows, node.types)
        case P.UnionOperator():
            return pl.concat(below)
    schema = Schema(tuple(Field(P.column(i), t) for i, t in enumerate(node.inputs[0].types)))
    rows = to_rows(below[0])
    match node:
        case P.FilterOperator():
            rows = [r for r in rows if holds(node.condition, schema, r.record)]
        case P.ProjectOperator():
            rows = [
                r._replace(record=tuple(evaluate(e, schema, r.record) for e in node.outputs)) for r in rows
            ]
        case P.EventOutputOperator():
            rows = to_rows(node.apply(below))
        case P.StampOperator():
            rows = [r._replace(record=(*r.record, instant_column(r.from_))) for r in rows]
        case P.NegateOperator():
            rows = [r._replace(n=-r.n) for r in rows]
        case P.TimeWindowOperator():
            rows = [x for r in rows if (x := _apply_window(r, node)) is not None]
        case P.SyncEveryOperator():
            moved = [r._replace(from_=node.grid.ceil(r.from_), until=node.grid.ceil(r.until)) for r in rows]
            rows = [r for r in moved if r.from_ < r.until]
        case _:
            raise TypeError(f"{type(node).__name__} is not evaluated row by row")
    return to_frame(rows, node.types)


def _apply_window(row: ChangeRow, node: P.TimeWindowOperator) -> ChangeRow | None:
    ts = row.record[node.timestamp]
    interval = node.window.interval(ts) if isinstance(ts, int) else None
    if interval is None:
        return None
    from_, until = max(row.from_, interval.from_), min(row.until, interval.until)
    return row._replace(from_=from_, until=until) if from_ < until else None


def shape(stages: Sequence[Stage]) -> list[list[str]]:
    """Return the kinds of the kernels of each stage."""
    return [[n.node.kind for n in stage.nodes if n.kernel is not None] for stage in stages]
