"""Plans that run on random rows with declared rates, and count what each operator emits, writes and keeps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from everview import operators as P
from everview.algebra.changes import ChangeRow
from everview.algebra.time import INFINITY, SECOND
from everview.algebra.types import TIMESTAMP
from everview.catalog import Catalog, StreamEntry
from everview.operators.columnar.frame import BEFORE_ALL, Frame, Slice, drop_ended
from everview.sql import bind_script, declare
from tests.pipeline import Given, Pipeline


def declared(script: str) -> Catalog:
    """Return a catalog with the streams and tables of a script."""
    catalog = Catalog()
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    return catalog


def draw_rows(catalog: Catalog, seconds: int, rng: random.Random) -> dict[str, list[ChangeRow]]:
    """Return rows of all streams at their declared rates, with values drawn evenly from the declared ones."""
    rows: dict[str, list[ChangeRow]] = {}
    for entry in catalog:
        if not isinstance(entry, StreamEntry) or entry.expected.rate is None:
            continue
        counts = dict(entry.expected.distinct)
        instants = sorted(rng.sample(range(1, seconds * SECOND), int(entry.expected.rate * seconds)))
        rows[entry.name] = [
            ChangeRow(
                tuple(
                    at if f.type == TIMESTAMP else rng.randrange(counts.get(f.name, 100))
                    for f in entry.columns
                ),
                at,
                INFINITY,
            )
            for at in instants
        ]
    return rows


@dataclass
class MeasuredPipeline(Pipeline):
    """A plan whose rows are counted; state is compacted in every step."""

    emitted: Counter[P.Operator] = field(default_factory=Counter)
    written: Counter[P.Operator] = field(default_factory=Counter)

    def _frame(self, node: P.Operator, given: Given, slice_: Slice, done: dict[P.Operator, Frame]) -> Frame:
        known = node in done
        frame = super()._frame(node, given, slice_, done)
        if not known:
            self.emitted[node] += frame.height
        return frame

    def _kernel(self, node: P.StatefulOperator, new: list[Frame], slice_: Slice) -> Frame:
        state = self.states.setdefault(node, node.empty_state(new))
        result = node.increment(new, state, slice_)
        for part in state:
            added = result.added.get(part)
            self.written[node] += 0 if added is None else added.height
            rows = state[part] if added is None else pl.concat([state[part], added], how="diagonal")
            bound = node.expiry(slice_.b1)
            state[part] = node.compact(part, drop_ended(rows, bound), bound)
        return result.output

    def kept(self, node: P.Operator) -> dict[str, int]:
        """Return the rows of each part of an operator's state."""
        found = self.states.get(node, {}) if isinstance(node, P.StatefulOperator) else {}
        return {part: rows.height for part, rows in found.items()}

    @property
    def work(self) -> int:
        """The rows that all operators with state have emitted and written."""
        return sum(self.emitted[node] + self.written[node] for node in self.states)


def run_measured(
    plan: P.Operator, rows: Mapping[str, list[ChangeRow]], warm: int, seconds: int, step: int = 1
) -> MeasuredPipeline:
    """Run a plan in steps of some seconds; what is emitted and written in the first `warm` is not counted."""
    pipeline = MeasuredPipeline(plan)
    b0 = BEFORE_ALL
    for end in range(step, seconds + 1, step):
        b1 = end * SECOND
        given = {name: [r for r in of if b0 < r.from_ <= b1] for name, of in rows.items()}
        pipeline.step(given, Slice(b0, b1, first=b0 == BEFORE_ALL))
        if end <= warm:
            pipeline.emitted.clear()
            pipeline.written.clear()
        b0 = b1
    return pipeline
