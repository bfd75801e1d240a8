"""Runs the physical plan of an event query without a JVM: rows in steps through operators with state.

Filters and projections, which Catalyst evaluates in the engine, are evaluated row by row here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from everview.algebra.changes import ChangeRow, Record
from everview.algebra.evaluate import evaluate, holds
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST
from everview.algebra.types import DataType
from everview.algebra.values import normal
from everview.operators import (
    EventOperator,
    FilterOperator,
    Operator,
    ProjectOperator,
    ScanOperator,
    StatefulOperator,
    UnionOperator,
)
from everview.operators.columnar.frame import (
    BEFORE_ALL,
    CHANGE,
    HASH,
    UNTIL,
    Frame,
    Slice,
    drop_ended,
    record_columns,
)
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.types import column_type
from everview.reference.events import Bag
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, Clock, LineBounds

Tables = Mapping[str, Sequence[ChangeRow]]


def to_frame(rows: Sequence[ChangeRow], types: Sequence[DataType]) -> Frame:
    """Return change rows as a frame; times and dates are numbers in records."""
    columns = []
    for position, type_ in enumerate(types):
        wanted = column_type(type_)
        values = [row.record[position] for row in rows]
        plain = pl.Int64() if wanted.is_temporal() and not isinstance(wanted, pl.Date) else wanted
        columns.append(pl.Series(f"c{position}", values, plain).cast(wanted))
    change = [pl.Series(name, [row[i] for row in rows], pl.Int64()) for i, name in enumerate(CHANGE, 1)]
    return pl.DataFrame([*columns, *change])


def to_rows(frame: Frame) -> list[ChangeRow]:
    """Return a frame as change rows."""
    columns = record_columns(frame)
    plain = frame.select(
        *(pl.col(c).cast(pl.Int64) if frame.schema[c].is_temporal() else pl.col(c) for c in columns), *CHANGE
    )
    return [ChangeRow(tuple(normal(v) for v in row[:-3]), *row[-3:]) for row in plain.rows()]


def arrivals(records: Sequence[Record]) -> list[ChangeRow]:
    return [ChangeRow(record, LEAST, INFINITY) for record in records]


class EventDriver:
    """A physical plan with its state; `collect` says whether state is dropped when its wait is over."""

    def __init__(
        self, plan: Operator, rng: random.Random | None = None, collect: bool = True, partitions: int = 1
    ) -> None:
        self.plan = plan
        self.state: dict[str, dict[str, Frame]] = {}
        self.before: LineBounds = {}
        self.rng, self.collect, self.partitions = rng, collect, partitions
        self.touched = 0  # rows of state that were read, where only the due ones are

    def step(
        self,
        arrived: Mapping[str, Sequence[Record]],
        bounds: LineBounds,
        tables: Tables,
    ) -> Bag:
        """Return what the plan emits in a step, and keep its state for the next one."""
        new = {name: arrivals(rows) for name, rows in arrived.items()}
        old, now = self.before.get(STORE_BOUND, BEFORE_ALL), bounds.get(STORE_BOUND, NOT_BEGUN)
        new |= {name: [v for v in rows if old < v.from_ <= now] for name, rows in tables.items()}
        done: dict[Operator, Frame] = {}
        output = self._run(self.plan, new, bounds, done)
        self.before = bounds
        found: Bag = Counter()
        for row in to_rows(output):
            assert row.n > 0, "a row was taken back"
            found[row.record] += row.n
        return found

    def rows(self) -> int:
        """Return the number of rows in all states of event operators."""
        return sum(frame.height for name, parts in self.state.items() if not name.startswith("Version")
                   for frame in parts.values())  # fmt: skip

    def _clock(self, clock: Clock | None, bounds: LineBounds) -> int:
        if clock is None:  # for ever: until all streams have ended
            return ENDED if bounds and all(b >= ENDED for b in bounds.values()) else NOT_BEGUN
        return clock.value(bounds)

    def _run(
        self,
        node: Operator,
        new: Tables,
        bounds: LineBounds,
        done: dict[Operator, Frame],
    ) -> Frame:
        if node not in done:
            inputs = [self._run(below, new, bounds, done) for below in node.inputs]
            done[node] = self._evaluate(node, inputs, new, bounds)
        return done[node]

    def _evaluate(
        self,
        node: Operator,
        inputs: Sequence[Frame],
        new: Tables,
        bounds: LineBounds,
    ) -> Frame:
        match node:
            case ScanOperator(relation=name):
                return to_frame(new.get(name, ()), node.types)
            case UnionOperator():
                return pl.concat(inputs, how="vertical_relaxed").cast(dict(inputs[0].schema))
            case FilterOperator(condition=condition):
                schema = _schema(node.input)
                kept = [row for row in to_rows(inputs[0]) if holds(condition, schema, row.record)]
                return to_frame(kept, node.types)
            case ProjectOperator(outputs=outputs):
                schema = _schema(node.input)
                made = [
                    row._replace(record=tuple(evaluate(e, schema, row.record) for e in outputs))
                    for row in to_rows(inputs[0])
                ]
                return to_frame(made, node.types)
        assert isinstance(node, StatefulOperator)
        return self._increment(node, inputs, bounds)

    def _increment(self, node: StatefulOperator, inputs: Sequence[Frame], bounds: LineBounds) -> Frame:
        """Evaluate an operator in each partition, on the rows of its keys and its own state."""
        outputs = [
            self._increment_part(node, part, f"{node.name}/{number}", bounds)
            for number, part in enumerate(self._split(node, inputs))
        ]
        return pl.concat(outputs)

    def _split(self, node: StatefulOperator, inputs: Sequence[Frame]) -> list[list[Frame]]:
        if self.partitions == 1:
            return [list(inputs)]
        parts: list[list[Frame]] = [[] for _ in range(self.partitions)]
        for number, frame in enumerate(inputs):
            keys = [f"c{key[number]}" for key in node.keys if number < len(key)]
            for place in range(self.partitions):
                if node.is_broadcast(number):
                    parts[place].append(frame)
                else:
                    mine = pl.Series(hash_keys(frame, keys) % self.partitions == place, dtype=pl.Boolean)
                    parts[place].append(frame.filter(mine))
        return parts

    def _increment_part(
        self, node: StatefulOperator, inputs: Sequence[Frame], name: str, bounds: LineBounds
    ) -> Frame:
        clock = node.clock if isinstance(node, EventOperator) else Clock.line(STORE_BOUND)
        b0, b1 = self._clock(clock, self.before), self._clock(clock, bounds)
        state = self.state.setdefault(name, node.empty_state(inputs))
        read = dict(state)
        for part in node.state:
            if part.queue:  # a queue is read as far as it is due
                read[part.name] = state[part.name].filter(pl.col(UNTIL) <= b1)
                self.touched += read[part.name].height
            elif (ends := node.ends_to_read(part.name, inputs)) is not None:  # other rows change nothing
                read[part.name] = state[part.name].filter(pl.col(UNTIL) > ends[0], pl.col(UNTIL) <= ends[1])
        found = node.increment(inputs, read, Slice(b0, b1, first=not self.before))
        for part_name, added in found.added.items():
            grown = pl.concat([state[part_name], added], how="diagonal")
            if isinstance(node, EventOperator):
                upto = self._clock(node.waits[part_name].clock, bounds)
                read_once = part_name in {p.name for p in node.state if p.queue}
                if self.collect or read_once:
                    grown = drop_ended(grown, upto)
            state[part_name] = self._compacted(node, part_name, grown, b1)
        return found.output

    def _compacted(self, node: StatefulOperator, part: str, rows: Frame, bound: int) -> Frame:
        """Return a state as it is, compacted, without hashes or shuffled, at random."""
        if self.rng is None or not isinstance(node, EventOperator):
            return rows
        chance = self.rng.random()
        if chance < 0.3:
            return node.compact(part, rows, bound)
        if chance < 0.4:
            return rows.drop(HASH, strict=False)
        if chance < 0.5:
            return rows.sample(fraction=1, shuffle=True, seed=self.rng.randrange(1000))
        return rows


def _schema(node: Operator) -> Schema:
    return Schema.of(*((f"c{i}", t) for i, t in enumerate(node.types)))
