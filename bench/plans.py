"""Physical plans on whole frames in this process, without Spark and files: rows taken, emitted and kept.

State is in memory; of expressions those are evaluated that the papers' queries have. All operators are the
real ones.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from everview import operators as P
from everview.algebra.expressions import And, Comparison, Expression, IsNull, Not, Or
from everview.algebra.time import INFINITY
from everview.algebra.windows import Range
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, N, Slice, drop_ended
from everview.operators.project import column_expression

_COMPARED = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
             ">=": operator.ge}  # fmt: skip
_COMPACT_EVERY = 4  # steps


def polars_expression(expression: Expression) -> pl.Expr:
    """Return a condition, a column or a constant as an expression of Polars."""
    match expression:
        case And(left, right):
            return polars_expression(left) & polars_expression(right)
        case Or(left, right):
            return polars_expression(left) | polars_expression(right)
        case Not(operand):
            return ~polars_expression(operand)
        case IsNull(operand):
            return polars_expression(operand).is_null()
        case Comparison(name, left, right):
            return _COMPARED[name](polars_expression(left), polars_expression(right))
    return column_expression(expression)


@dataclass
class PlanRun:
    """Some plans that run together: equal parts once. Counts rows that operators take, emit and keep."""

    plans: Mapping[str, P.Operator]
    taken: Counter[P.Operator] = field(default_factory=Counter)
    emitted: Counter[P.Operator] = field(default_factory=Counter)
    outputs: dict[str, list[Frame]] = field(default_factory=dict)
    seconds: float = 0.0
    _states: dict[P.StatefulOperator, dict[str, Frame]] = field(default_factory=dict)
    _steps: int = 0
    _bound: int = BEFORE_ALL

    def step(self, given: Mapping[str, Frame], b0: int, b1: int) -> None:
        """Evaluate one slice over the new rows of each stream; counts CPU time."""
        began = time.process_time()
        slice_, done = Slice(b0, b1, first=b0 == BEFORE_ALL), dict[P.Operator, Frame]()
        found = {view: self._rows(plan, given, slice_, done) for view, plan in self.plans.items()}
        self._steps, self._bound = self._steps + 1, b1
        self.seconds += time.process_time() - began
        for view, rows in found.items():
            self.outputs.setdefault(view, []).append(rows)

    def _rows(
        self, node: P.Operator, given: Mapping[str, Frame], slice_: Slice, done: dict[P.Operator, Frame]
    ) -> Frame:
        if node not in done:
            below = [self._rows(i, given, slice_, done) for i in node.inputs]
            done[node] = rows = self._evaluate(node, below, given, slice_)
            self.taken[node] += sum(frame.height for frame in below)
            self.emitted[node] += rows.height
        return done[node]

    def _evaluate(
        self, node: P.Operator, below: Sequence[Frame], given: Mapping[str, Frame], slice_: Slice
    ) -> Frame:
        match node:
            case P.ScanOperator():
                return given[node.relation]
            case P.FilterOperator():
                return below[0].filter(polars_expression(node.condition))
            case P.ProjectOperator():
                columns = (polars_expression(e).alias(P.column(i)) for i, e in enumerate(node.outputs))
                return below[0].select(*columns, FROM, UNTIL, N)
            case P.TimeWindowOperator(window=Range(extent)):
                ends = pl.min_horizontal(UNTIL, pl.col(FROM) + extent)
                return below[0].with_columns(ends.alias(UNTIL))
            case P.StatefulOperator():
                return self._increment(node, below, slice_)
        return node.apply(below)

    def _increment(self, node: P.StatefulOperator, new: Sequence[Frame], slice_: Slice) -> Frame:
        state = self._states.setdefault(node, node.empty_state(new))
        result = node.increment(new, state, slice_)
        bound = node.expiry(slice_.b1)
        for part, rows in state.items():
            added = result.added.get(part)
            if added is not None and not added.is_empty():
                rows = pl.concat([rows, added], how="diagonal")
            if self._steps % _COMPACT_EVERY == 0:
                rows = node.compact(part, drop_ended(rows, bound), bound)
            state[part] = rows
        return result.output

    def state_rows(self) -> int:
        """Return how many rows all operators keep."""
        return sum(
            node.compact(part, drop_ended(rows, node.expiry(self._bound)), node.expiry(self._bound)).height
            for node, state in self._states.items()
            for part, rows in state.items()
        )

    def count(self, kind: type[P.Operator] | tuple[type[P.Operator], ...]) -> int:
        """Return how many rows the operators of a kind have taken."""
        return sum(rows for node, rows in self.taken.items() if isinstance(node, kind))

    def snapshot(self, view: str, at: int) -> list[tuple[object, ...]]:
        """Return the rows of a view at an instant, with their multiplicities."""
        rows = pl.concat(self.outputs[view])
        held = rows.filter((pl.col(FROM) <= at) & (pl.col(UNTIL) > at))
        record = [c for c in held.columns if c not in (FROM, UNTIL, N)]
        counted = held.group_by(record).agg(pl.col(N).sum()).filter(pl.col(N) != 0)
        return sorted(counted.rows(), key=repr)


def run_plans(
    plans: Mapping[str, P.Operator], streams: Mapping[str, Frame], bounds: Iterable[int]
) -> PlanRun:
    """Run plans over the rows of streams, in slices that end at these bounds."""
    run, b0 = PlanRun(plans), BEFORE_ALL
    for b1 in bounds:
        inside = (pl.col(FROM) > b0) & (pl.col(FROM) <= b1)
        run.step({name: rows.filter(inside) for name, rows in streams.items()}, b0, b1)
        b0 = b1
    return run


def as_stream(columns: Mapping[str, object], instants: object) -> Frame:
    """Return rows that arrive at some instants, as change rows; the instant is their last column."""
    frame = pl.DataFrame({**columns, FROM: instants})
    last = P.column(len(columns))
    return frame.with_columns(
        pl.col(FROM).cast(pl.Datetime("us", "UTC")).alias(last),
        pl.lit(INFINITY, pl.Int64).alias(UNTIL),
        pl.lit(1, pl.Int64).alias(N),
    ).select(*columns, last, FROM, UNTIL, N)
