"""The PRIMARY KEY of a table that has a source: rows of a batch, one version for each key.

Files count in the order of their modification times, then of their names, as if each came on its own. In a
file the first row of a key is taken and further ones are rejected; a row of a later file takes the place of
the row with its key, from the begin of the step on. A record of another source counts as a file of its own:
those of Kafka in the order of offsets, others in the order of their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S
from pyspark.sql.pandas.types import to_arrow_schema

from everview.algebra.time import INFINITY
from everview.catalog import TableEntry
from everview.execute.catalyst import spark_schema
from everview.execute.tasks import RUN_LINES, ReadTask, by_trace, layout_of, read_lines, run_line, write_run
from everview.ingest.reading import BLOCK, FILE, ORIGINAL, TIME
from everview.ingest.refused import refused_rows, row_text, shown_text
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, consolidate_frame, stack_frames
from everview.operators.columnar.types import series_of
from everview.storage.files import Files
from everview.storage.runs import Run, TraceId

COMPARE_ON_DRIVER = 100_000  # rows of the table and new rows; up to so many are compared without a Spark job
INDEX = "_index"  # the position of a row in its part of a file
_HELD = "_held"  # rows of the table, as opposed to those that came
# The extra columns of new rows: their position in a file, and their original text.
_ROW_POSITION = {FILE: pl.String, TIME: pl.Int64, BLOCK: pl.Int64, INDEX: pl.Int64, ORIGINAL: pl.String}


def settle_keys(
    session: SparkSession,
    files: Files,
    entry: TableEntry,
    held: Sequence[Run],
    came: Sequence[Run],
    begin: int,
    step: int,
) -> dict[TraceId, tuple[Run, ...]]:
    """Write the changes of a table and the rejected rows of a batch that the intake has written."""
    task = KeyTask(entry, files, begin, step)
    if sum(run.rows for run in (*held, *came)) <= COMPARE_ON_DRIVER:
        read = [
            [_place_columns(files.read_frame(run.path), run, entry) for run in runs] for runs in (held, came)
        ]
        return by_trace(task.settle(*(stack_frames(frames) if frames else None for frames in read)))
    own = spark_schema(entry.columns.types)
    places = [
        S.StructField(c, S.StringType() if type_ == pl.String else S.LongType())
        for c, type_ in _ROW_POSITION.items()
    ]
    rows = [
        _read(session, files, came, S.StructType([*own, *places])).withColumn(_HELD, F.lit(False)),
        _read(session, files, held, own).select(
            "*", *(F.lit(None).cast(p.dataType).alias(p.name) for p in places), F.lit(True).alias(_HELD)
        ),
    ]
    # 0.0 and -0.0 are one key, and must come to one partition.
    keys = [F.col(c) + 0.0 if entry.columns.types[i].is_float else F.col(c) for i, c in _keys(entry)]
    together = reduce(DataFrame.unionAll, rows).repartition(session.sparkContext.defaultParallelism, *keys)
    lines = together.mapInArrow(task, RUN_LINES).collect()
    return read_lines((line.trace, line.run) for line in lines)


def _read(session: SparkSession, files: Files, runs: Sequence[Run], schema: S.StructType) -> DataFrame:
    layouts = tuple(layout_of(run, range(len(run.places))) if run.places else None for run in runs)
    paths = tuple(run.path for run in runs)
    read = ReadTask(paths, files, to_arrow_schema(schema, timezone="UTC"), layouts=layouts)
    parts = max(1, min(len(runs), session.sparkContext.defaultParallelism))
    return session.range(0, len(runs), 1, parts).mapInArrow(read, schema)


def _place_columns(rows: Frame, run: Run, entry: TableEntry) -> Frame:
    """Return the rows of a run with the columns that there are now."""
    none = {i: series_of([None], type_) for i, type_ in enumerate(entry.columns.types)}
    layout = layout_of(run, range(len(run.places)), none) if run.places else None
    return rows if layout is None else layout.place(rows)


def _keys(entry: TableEntry) -> list[tuple[int, str]]:
    names = entry.columns.names
    places = [names.index(entry.columns.find(name).name) for name in entry.key]
    return [(i, column(i)) for i in places]


@dataclass(frozen=True)
class KeyTask:
    """A task that compares new rows with those of their table; all rows of a key are in one call."""

    entry: TableEntry
    files: Files
    begin: int
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a line for each run that was written."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        sides = (frame.filter(pl.col(_HELD)), frame.filter(~pl.col(_HELD)))
        for trace, run in self.settle(*(None if side.is_empty() else side.drop(_HELD) for side in sides)):
            yield run_line(trace, run)

    def settle(self, held: Frame | None, came: Frame | None) -> Iterator[tuple[TraceId, Run]]:
        """Write the changes of the table and the rejected rows; yield the runs."""
        if came is None:
            return
        changed, twice = settle_versions(held, came, [c for _, c in _keys(self.entry)], self.begin)
        if not changed.is_empty():
            trace = TraceId("inbox", self.entry.name)
            yield trace, write_run(trace, changed, self.files, self.step)
        if not twice.is_empty():
            trace = TraceId("rejected", self.entry.name)
            text = row_text(twice, self.entry.columns.names)
            refused = refused_rows(self._reason(twice), text, self.step, self.begin)
            yield trace, write_run(trace, refused, self.files, self.step)

    def _reason(self, twice: Frame) -> pl.Series:
        values = [shown_text(twice.get_column(c)) for _, c in _keys(self.entry)]
        parts = [
            pl.lit(f"{', '.join(self.entry.key)}: "), pl.concat_str(values, separator=", "),
            pl.lit(" is the key of an earlier row of the file "), pl.col(FILE).str.replace("^file:/+", "/"),
            pl.lit("; give a key once in a file, and in a later file to replace its row"),
        ]  # fmt: skip
        return twice.select(pl.concat_str(parts)).to_series()


def settle_versions(held: Frame | None, came: Frame, keys: Sequence[str], begin: int) -> tuple[Frame, Frame]:
    """Return the changes of a table by new rows from an instant on, and rows that repeat a key of their file.

    `held` has the table's change rows, all of which hold from `begin` on if they are not retracted.
    """
    own = [c for c in came.columns if c not in (*_ROW_POSITION, *CHANGE)]
    ordered = came.sort(TIME, FILE, BLOCK, INDEX, *own, maintain_order=True)
    before = pl.int_range(pl.len()).over(*keys, FILE)
    again = (before > 0) & pl.col(FILE).is_not_null()
    versions = ordered.filter(~again).unique(keys, keep="last", maintain_order=True)
    times = [pl.lit(begin, pl.Int64).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL)]
    changes = [versions.select(*own, *times, pl.lit(1, pl.Int64).alias(N))]
    if held is not None:
        replaced = held.join(versions.select(keys), on=list(keys), how="semi")
        changes.append(replaced.select(*own, *times, -pl.col(N)))
    return consolidate_frame(stack_frames(changes)), ordered.filter(again)
