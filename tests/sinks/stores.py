"""A store whose steps are made by hand, without Spark: sinks need its files only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from everview.catalog import Catalog, SinkEntry
from everview.compile_store import CompiledStore, compile_store
from everview.execute.tasks import write_run
from everview.operators.columnar.frame import BEFORE_ALL, CHANGE
from everview.sinks.runner import SinkRunner, new_sink
from everview.sql import statements as S
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId
from everview.storage.store import Settings, Store
from everview.without_spark import bind_on_copy

SCRIPT = """
    CREATE STREAM s (k INT, v STRING, ts TIMESTAMP, TIMELINE ts);
    CREATE VIEW latest AS SELECT k, MAX(v) AS v FROM s GROUP BY k;
    CREATE VIEW pairs AS SELECT k, v FROM s;
"""
FOREVER = 2**63 - 1
SECOND = 1_000_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
_TYPES = {"c0": pl.Int32, "c1": pl.String, **dict.fromkeys(CHANGE, pl.Int64)}


class HandmadeStore:
    """A store with the views `latest`, of which k is the key, and `pairs`, to which rows are only added.

    `table` is what `latest` has.
    """

    def __init__(self, folder: Path, script: str = SCRIPT, spark: Any = None) -> None:
        self.store = Store.open(str(folder), Settings(partitions=1), create=True).lock()
        self.catalog = self.store.load_catalog()
        self.runner = SinkRunner(self.store, lambda: spark)
        self.table: dict[int | None, str | None] = {}
        if not self.catalog.entries:
            self.catalog = _catalog(script)
            self.store.save_catalog(self.catalog)

    @property
    def manifest(self) -> Manifest:
        return self.store.manifest()

    @property
    def views(self) -> CompiledStore:
        return compile_store(self.catalog)

    def sink(self, sql: str) -> SinkEntry:
        """Create a sink as the pipeline does."""
        [made] = bind_on_copy(sql, self.catalog)
        assert isinstance(made, S.CreateSink)
        sink = new_sink(made.sink)
        self.runner.create(sink, self.views)
        self.catalog.add_sink(sink)
        self.store.save_catalog(self.catalog)
        return sink

    def step(self, values: dict[int | None, str | None], write: bool = True) -> None:
        """Make a step in which keys have new values; None: the key goes."""
        number = self.manifest.step + 1
        at = max(self.manifest.bound, START) + SECOND
        rows: list[tuple[Any, ...]] = []
        for k, v in values.items():
            if k in self.table:
                rows.append((k, self.table[k], at, FOREVER, -1))
            if v is not None:
                rows.append((k, v, at, FOREVER, 1))
        self.table = {k: v for k, v in {**self.table, **values}.items() if v is not None}
        self.write_step({"latest": rows, "pairs": [row for row in rows if row[-1] > 0]}, number, at)
        if write:
            self.runner.write_all(self.views, at_once=True)

    def write_step(self, rows: dict[str, list[tuple[Any, ...]]], number: int, bound: int) -> None:
        """Write the manifest of a step with new rows of views."""
        before = self.manifest
        traces = {}
        for view, new in rows.items():
            if new:
                trace = TraceId("view", view)
                frame = pl.DataFrame(new, schema=_TYPES, orient="row")
                traces[trace] = (*before.runs(trace), write_run(trace, frame, self.store.files, number))
        marks = (*before.marks, (number, bound))
        self.store.write_manifest(
            replace(before, step=number, bound=bound, present=bound, marks=marks).with_traces(traces)
        )

    def close(self) -> None:
        self.runner.close()
        self.store.close()


def _catalog(script: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_on_copy(script, catalog):
        assert isinstance(statement, S.Create)
        catalog.add(statement.entry)
    return catalog


assert BEFORE_ALL < START
