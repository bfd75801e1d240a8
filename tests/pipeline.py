"""A plan run by its kernels, without Spark: what Catalyst would evaluate is evaluated row by row.

For tests only. The plan, the kernels and their state are the real ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from everview.algebra import types as T
from everview.algebra.changes import ChangeRow
from everview.algebra.evaluate import evaluate, holds
from everview.algebra.schema import Field, Schema
from everview.algebra.time import INFINITY
from everview.algebra.values import normal
from everview.kernels.frame import CHANGE, LEAST, Frame, Slice, alive
from everview.runtime.stage import compact, empty_state, run_kernel
from everview.spark import physical as P

_POLARS = {
    T.BOOLEAN: pl.Boolean, T.TINYINT: pl.Int8, T.SMALLINT: pl.Int16, T.INT: pl.Int32, T.BIGINT: pl.Int64,
    T.FLOAT: pl.Float32, T.DOUBLE: pl.Float64, T.STRING: pl.String, T.BINARY: pl.Binary, T.DATE: pl.Int32,
    T.TIMESTAMP: pl.Int64, T.INTERVAL: pl.Int64, T.VOID: pl.Int32,
}  # fmt: skip


def polars_type(type_: T.DataType) -> pl.DataType | type[pl.DataType]:
    return pl.Decimal(type_.precision, type_.scale) if type_.is_decimal else _POLARS[type_]


def to_frame(rows: Sequence[ChangeRow], types: Sequence[T.DataType]) -> Frame:
    """Change rows as a frame with the columns c0, c1, …"""
    columns: dict[str, list[object]] = {P.column(i): [r.record[i] for r in rows] for i in range(len(types))}
    columns |= {name: [r[i] for r in rows] for i, name in enumerate(CHANGE, 1)}
    schema = {P.column(i): polars_type(t) for i, t in enumerate(types)}
    return pl.DataFrame(columns, schema={**schema, **dict.fromkeys(CHANGE, pl.Int64)})


def to_rows(frame: Frame) -> list[ChangeRow]:
    return [ChangeRow(tuple(normal(v) for v in r[:-3]), *r[-3:]) for r in frame.rows()]


@dataclass
class Pipeline:
    """A physical plan with the state of its kernels."""

    plan: P.Physical
    rng: random.Random = field(default_factory=random.Random)
    states: dict[P.Physical, dict[str, Frame]] = field(default_factory=dict)

    def step(self, given: Mapping[str, Sequence[ChangeRow]], slice_: Slice) -> list[ChangeRow]:
        """The change rows that a step emits; equal parts of the plan run once."""
        done: dict[P.Physical, Frame] = {}
        return to_rows(self._frame(self.plan, given, slice_, done))

    def _frame(
        self,
        node: P.Physical,
        given: Mapping[str, Sequence[ChangeRow]],
        slice_: Slice,
        done: dict[P.Physical, Frame],
    ) -> Frame:
        if node not in done:
            below = [self._frame(i, given, slice_, done) for i in node.inputs]
            done[node] = (
                self._kernel(node, below, slice_)
                if isinstance(node, P.KERNELS)
                else _rows(node, below, given, slice_)
            )
        return done[node]

    def _kernel(self, node: P.Physical, new: list[Frame], slice_: Slice) -> Frame:
        state = self.states.setdefault(node, empty_state(node, new))
        result = run_kernel(node, new, state, slice_)
        for part, added in result.added.items():
            rows = alive(pl.concat([state[part], added], how="diagonal"), slice_.b1)
            state[part] = compact(node, part, rows, slice_.b1) if self.rng.random() < 0.5 else rows
        return result.output


def _rows(
    node: P.Physical, below: list[Frame], given: Mapping[str, Sequence[ChangeRow]], slice_: Slice
) -> Frame:
    """What Catalyst does, a row at a time."""
    match node:
        case P.Scan():
            return to_frame(given.get(node.name, []), node.types)
        case P.Constant():
            rows = [ChangeRow(r, LEAST, INFINITY) for r in node.rows] if slice_.first else []
            return to_frame(rows, node.types)
        case P.Merge():
            return pl.concat(below)
    schema = Schema(tuple(Field(P.column(i), t) for i, t in enumerate(node.inputs[0].types)))
    rows = to_rows(below[0])
    match node:
        case P.Select():
            rows = [r for r in rows if holds(node.condition, schema, r.record)]
        case P.Compute():
            rows = [
                r._replace(record=tuple(evaluate(e, schema, r.record) for e in node.outputs)) for r in rows
            ]
        case P.Negative():
            rows = [r._replace(n=-r.n) for r in rows]
        case P.Restrict():
            rows = [x for r in rows if (x := _restricted(r, node)) is not None]
        case P.Warp():
            moved = [r._replace(from_=node.grid.ceil(r.from_), until=node.grid.ceil(r.until)) for r in rows]
            rows = [r for r in moved if r.from_ < r.until]
    return to_frame(rows, node.types)


def _restricted(row: ChangeRow, node: P.Restrict) -> ChangeRow | None:
    ts = row.record[node.timestamp]
    interval = node.window.interval(ts) if isinstance(ts, int) else None
    if interval is None:
        return None
    from_, until = max(row.from_, interval.from_), min(row.until, interval.until)
    return row._replace(from_=from_, until=until) if from_ < until else None
