"""The change rows of a view or an event stream, read from the files of a store without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from everview import operators as P
from everview.algebra.schema import Schema
from everview.algebra.time import Chronon
from everview.catalog import Catalog
from everview.compile import CompiledEventStream, CompiledView
from everview.execute.catalyst import spark_schema
from everview.execute.event_bounds import kept_bounds
from everview.ingest.bounds import LAST
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame
from everview.operators.columnar.lazy import pl
from everview.sinks.tags import may_change, position_columns
from everview.storage.files import Files
from everview.storage.history import horizons
from everview.storage.manifest import Manifest
from everview.storage.runs import REPLACED, Run, TraceId
from everview.temporal.clocks import STORE_BOUND, LineBounds, StreamLine

BUCKET = 1_000_000  # so many rows are worked on at once


@dataclass(frozen=True)
class ViewRows:
    """The rows of one view in the state of a manifest; rows of the same `key` are worked on together."""

    files: Files
    manifest: Manifest
    catalog: Catalog
    name: str
    view: CompiledView
    key: tuple[int, ...] | None = None

    @property
    def schema(self) -> Schema:
        return self.view.plan.schema

    @property
    def begin(self) -> Chronon:
        """The instant from which its changes are kept: before it, only what held then is known."""
        known = horizons(self.manifest, self.catalog).get(TraceId("view", self.name), BEFORE_ALL)
        return max(self.manifest.since.get(self.name, BEFORE_ALL), known)

    def bound(self, step: int) -> Chronon:
        """Return up to where it was known after a step."""
        bounds = kept_bounds(self.manifest, step)
        if isinstance(self.view, CompiledEventStream):
            return bounds.get(self.view.first_line, BEFORE_ALL)
        clock = self.view.clock
        return bounds.get(STORE_BOUND, BEFORE_ALL) if clock is None else clock.value(bounds)

    def changed(self, after: int, upto: int) -> Iterator[Frame]:
        """Yield the rows that begin or end between two steps, in parts of which each has all rows of a key.

        Of an event stream, the rows that became known between them, as rows that begin then.
        """
        if isinstance(self.view, CompiledEventStream):
            early, late = kept_bounds(self.manifest, after), kept_bounds(self.manifest, upto)
            new = _visible(self.view, late) & ~_visible(self.view, early)
            yield from self._parts(self._runs(BEFORE_ALL, LAST), new)
            return
        begin, end = self.bound(after), min(self.bound(upto), LAST)
        runs = self._runs(begin, end)
        times = ((pl.col(c) > begin) & (pl.col(c) <= end) for c in (FROM, UNTIL))
        yield from self._parts(runs, pl.any_horizontal(*times))

    def all_rows(self, step: int) -> Iterator[Frame]:
        """Yield all rows that are kept, in parts of which each has all rows of a key.

        Of an event stream, those that were known after a step.
        """
        yield from self._parts(self._runs(BEFORE_ALL, LAST + 1), self._shown(step))

    def rows_of(self, keys: Frame) -> Frame:
        """Return all rows of some keys, by the names of their columns."""
        there = (self._read(run, present, None) for run, present in self._runs(BEFORE_ALL, LAST + 1))
        found = [rows.join(keys, on=keys.columns, how="semi", nulls_equal=True) for rows in there]
        return pl.concat([self._empty(), *found])

    def _shown(self, step: int) -> pl.Expr | None:
        """Return the condition that rows were known after a step, where not all that are kept were."""
        if isinstance(self.view, CompiledEventStream):
            return _visible(self.view, kept_bounds(self.manifest, step))
        return None

    def _runs(self, after: int, upto: int) -> list[tuple[Run, bool]]:
        """Return the runs with rows that may begin or end in a part of time, and which are of the present.

        The others are of the definition that the view had before it was replaced.
        """
        found = [(run, True) for run in self.manifest.runs(TraceId("view", self.name))]
        replaced = self.manifest.replaced.get(self.name)
        if replaced is not None and not replaced.anew:
            found += [(run, False) for run in self.manifest.runs(TraceId("view", self.name, REPLACED))]
        begin = self._present_from
        return [
            (run, present)
            for run, present in found
            if may_change(run.least_from, run.greatest_from, run.least_until, run.greatest_until, after, upto)
            or (present and after < begin <= upto)
        ]

    @property
    def _present_from(self) -> Chronon:
        """The instant from which on the present definition of the view counts."""
        replaced = self.manifest.replaced.get(self.name)
        return BEFORE_ALL if replaced is None or replaced.anew else replaced.at

    def _parts(self, runs: list[tuple[Run, bool]], where: pl.Expr | None) -> Iterator[Frame]:
        """Yield the rows of some runs; where they are many, by the hash of their keys."""
        by = position_columns(len(self.schema) if self.key is None else self.key)
        number = sum(run.rows for run, _ in runs) // BUCKET + 1 if by else 1
        for part in range(number):
            chosen = where
            if number > 1:
                own = pl.struct(by).hash(0) % number == part
                chosen = own if where is None else own & where
            frames = [self._read(run, present, chosen) for run, present in runs]
            yield pl.concat([self._empty(), *frames])

    def _empty(self) -> Frame:
        """Return no rows, with the types of the columns."""
        return pl.DataFrame(schema=self._types)

    @cached_property
    def _types(self) -> dict[str, pl.DataType]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(spark_schema(self.schema.types), timezone="UTC")
        empty = pl.from_arrow(schema.empty_table())
        assert isinstance(empty, pl.DataFrame)
        return dict(empty.schema)

    def _read(self, run: Run, present: bool, where: pl.Expr | None) -> Frame:
        frame = self._clipped(
            self.files.read_frame(run.path, rows=run.rows).select(list(self._types)), present
        )
        frame = frame if where is None else frame.filter(where)
        return frame if dict(frame.schema) == self._types else frame.cast(self._types)  # type: ignore[arg-type]

    def _clipped(self, frame: Frame, present: bool) -> Frame:
        """Return rows as far as they hold when the changes are kept, and the definition counts."""
        begin = max(self.begin, self._present_from if present else BEFORE_ALL)
        if begin == BEFORE_ALL:
            return frame
        later = frame.filter(pl.col(UNTIL) > begin)
        return later.with_columns(pl.max_horizontal(pl.col(FROM), pl.lit(begin)).alias(FROM))


def _visible(event: CompiledEventStream, bounds: LineBounds) -> pl.Expr:
    """Return the condition that a row of an event stream is known by one of its time lines (def. 26)."""
    known = [
        pl.col(P.column(line.column or 0)).dt.timestamp("us") <= bounds[StreamLine(event.name, name)]
        for name, line in zip(event.lines, event.output.lines, strict=True)
        if StreamLine(event.name, name) in bounds
    ]
    return pl.any_horizontal(*known).fill_null(False) if known else pl.lit(False)
