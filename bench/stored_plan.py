"""A whole plan without Spark: its operators with their state in files, as in a store with one partition.

What Catalyst evaluates in a store, Polars evaluates here: projections, equalities with constants and windows
of time are enough for the benchmarks. Rows emitted and kept are counted, and the CPU time of the steps.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_

import polars as pl

from everview import operators as P
from everview.algebra.expressions import Comparison, Expression, IsNull, Literal, Not, conjuncts
from everview.algebra.time import INFINITY
from everview.algebra.windows import Range
from everview.execute.program import policy_of
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, Slice, stack_frames
from everview.operators.columnar.types import cast_columns, empty_frame
from everview.operators.project import column_expression
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace
from everview.temporal.expiry import ExpiryBuckets

Given = Mapping[str, Frame]  # the new rows of each stream


@dataclass
class PlanCounts:
    """What the operators with state did in some steps: rows emitted, negative ones among them, rows kept."""

    steps: int = 0
    seconds: float = 0.0
    emitted: int = 0
    negative: int = 0
    answered: int = 0
    kept_rows: int = 0
    kept_bytes: int = 0

    @property
    def state_rows(self) -> float:
        """The rows of the state after a step, on average."""
        return self.kept_rows / max(self.steps, 1)

    @property
    def state_bytes(self) -> float:
        return self.kept_bytes / max(self.steps, 1)


@dataclass
class StoredPlan:
    """A physical plan with its state in a folder; `buckets` sets the number of expiry buckets."""

    plan: P.Operator
    folder: str
    buckets: int | None = None
    traces: dict[P.StatefulOperator, dict[str, tuple[Run, ...]]] = field(default_factory=dict)
    number: int = 0
    counts: PlanCounts = field(default_factory=PlanCounts)

    def step(self, given: Given, slice_: Slice) -> Frame:
        """Return the change rows that a step emits."""
        self.number += 1
        begin = time.process_time()
        output = self._rows(self.plan, given, slice_, {})
        self.counts.seconds += time.process_time() - begin
        self.counts.steps += 1
        self.counts.answered += output.height
        runs = [run for parts in self.traces.values() for runs in parts.values() for run in runs]
        self.counts.kept_rows += sum(run.rows for run in runs)
        self.counts.kept_bytes += sum(run.bytes for run in runs)
        return output

    def _rows(self, node: P.Operator, given: Given, slice_: Slice, done: dict[P.Operator, Frame]) -> Frame:
        if node in done:
            return done[node]
        below = [self._rows(each, given, slice_, done) for each in node.inputs]
        if isinstance(node, P.StatefulOperator):
            found = self._increment(node, below, slice_)
            self.counts.emitted += found.height
            self.counts.negative += int((found[N] < 0).sum())
        else:
            found = _evaluate(node, below, given)
        done[node] = found
        return found

    def _increment(self, node: P.StatefulOperator, new: list[Frame], slice_: Slice) -> Frame:
        state = node.empty_state(new)
        parts = {part.name: part for part in node.state}
        wanted = node.parts_to_read(new)
        for name, empty in state.items():
            if name in parts and parts[name].queue:
                state[name] = self._trace(node, name, parts).read(empty, due=(slice_.b0, slice_.b1))
            elif wanted is None or name in wanted:
                ends = node.ends_to_read(name, new)
                after = node.expiry(slice_.b0) if ends is None else None
                state[name] = self._trace(node, name, parts).read(empty, until_after=after, runs_due=ends)
        result = node.increment(new, state, slice_)
        bound = node.expiry(slice_.b1)
        kept = self.traces.setdefault(node, {})
        for name in {**kept, **result.added}:
            grown = self._trace(node, name, parts).drop_expired(bound)
            if name in result.added:
                grown = grown.append(result.added[name], self.number, bound)

            def shrink(rows: Frame, at: int, name: str = name) -> Frame:
                return node.compact(name, rows, at)

            kept[name] = grown.compact(shrink, self.number, bound).runs
        return cast_columns(result.output, node.types)

    def _trace(self, node: P.StatefulOperator, name: str, parts: Mapping[str, P.StatePart]) -> Trace:
        runs = self.traces.get(node, {}).get(name, ())
        part = parts.get(name)
        policy = policy_of(part, runs=runs)
        if self.buckets is not None and part is not None and part.expires_within is not None:
            policy = replace(policy, buckets=ExpiryBuckets(part.expires_within, self.buckets))
        files = Files(self.folder, durable=False)
        return Trace(TraceId("state", node.name, name), runs, files, policy)


def _evaluate(node: P.Operator, below: Sequence[Frame], given: Given) -> Frame:
    match node:
        case P.ScanOperator(name):
            return given.get(name, empty_frame(node.types))
        case P.UnionOperator():
            return stack_frames(list(below))
        case P.NegateOperator():
            return below[0].with_columns(-pl.col(N))
        case P.ProjectOperator():
            return node.apply(below)
        case P.FilterOperator():
            return below[0].filter(reduce(and_, map(_condition, conjuncts(node.condition))))
        case P.TimeWindowOperator(_, _, Range(extent)):
            return below[0].with_columns((pl.col(FROM) + extent).alias(UNTIL))
    raise TypeError(f"{node.kind} is not evaluated here")


def _condition(part: Expression) -> pl.Expr:
    match part:
        case Comparison("=", left, right):
            return column_expression(left) == column_expression(right)
        case Not(IsNull(operand)):
            return column_expression(operand).is_not_null()
        case Literal(value):
            return pl.lit(value)
    raise TypeError(f"{part} is not evaluated here")


def arrivals(columns: Mapping[str, object], instants: object) -> Frame:
    """Return rows of a stream that come at some instants, and hold for ever."""
    frame = pl.DataFrame(columns)
    frame = frame.with_columns(pl.Series(FROM, instants, dtype=pl.Int64))
    return frame.with_columns(pl.lit(INFINITY, pl.Int64).alias(UNTIL), pl.lit(1, pl.Int64).alias(N)).select(
        *columns, *CHANGE
    )


def snapshot_of(rows: Sequence[Frame], instant: int) -> Frame:
    """Return each record that holds at an instant, with how often, in a fixed order."""
    frame = pl.concat(rows)
    record = [name for name in frame.columns if name not in CHANGE]
    holds = frame.filter((pl.col(FROM) <= instant) & (pl.col(UNTIL) > instant))
    counted = holds.group_by(record).agg(pl.col(N).sum()).filter(pl.col(N) != 0)
    return counted.sort(record, nulls_last=True)
