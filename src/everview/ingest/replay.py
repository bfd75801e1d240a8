"""The rows of a stream, read again from its source: for views that are created when the store has run.

Spark's log of a source names the files that were read. Rows that were late or too far ahead of the clock
when they came are not taken now either: stream$late and stream$rejected have their text, and as many rows
with that text are left out. A file that is gone, or was changed since it was read, is not guessed: the
stream then cannot be read again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from everview.algebra.time import INFINITY
from everview.catalog import StreamEntry, untaken_columns
from everview.errors import StoreError, format_count
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.kept import Kept
from everview.execute.tasks import write_rows
from everview.ingest.batch_files import files_there
from everview.ingest.changed_files import files_with_times
from everview.ingest.differences import new_differences
from everview.ingest.reading import ORIGINAL, REASON, reads_files, source_name, strict_columns
from everview.ingest.refused import AHEAD, row_text, split_refused
from everview.ingest.sources import open_source
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N
from everview.storage.checkpoint import CHECKPOINT, last_batch_read
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId
from everview.storage.source_log import read_files, source_offsets

_COPY = "_everview_copy"  # the number of a row among those of equal text
_GONE = "_everview_gone"  # how many of these were not taken


def is_replayable(entry: StreamEntry) -> bool:
    """Return whether the source of a stream can be read again, as far as its kind goes."""
    return reads_files(entry)


def lost_rows(manifest: Manifest, entry: StreamEntry, kind: str) -> str | None:
    """Return how many rows of a stream are lost that were counted when they came; None if all are there.

    `kind` is inbox for the rows of a stream that is fed by INSERT, or late or rejected.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = StreamEntry("s", Schema.of(("ts", TIMESTAMP), timeline="ts"), ())
    >>> lost_rows(Manifest(counts={"s": (5, 2, 0)}), s, "late")
    "2 late rows of 's' are lost"
    """
    counted = manifest.counts.get(entry.name, (0, 0, 0))[("inbox", "late", "rejected").index(kind)]
    there = sum(run.rows for run in manifest.runs(TraceId(kind, entry.name)))
    if there >= counted:
        return None
    rows = "row" if kind == "inbox" else f"{kind} row"
    verb = "is" if counted - there == 1 else "are"
    return f"{format_count(counted - there, rows)} of '{entry.name}' {verb} lost"


@dataclass(frozen=True)
class Replay:
    """Files that a store has read for a stream, to be read again."""

    entry: StreamEntry
    uris: tuple[str, ...]
    epochs: tuple[ReadingEpoch, ...] = ()

    @classmethod
    def of(
        cls,
        session: SparkSession,
        files: Files,
        entry: StreamEntry,
        manifest: Manifest,
        known: Container[str] = (),
    ) -> Replay | str:
        """Return the files that were read up to a manifest, without known ones; or why they cannot be had."""
        if not is_replayable(entry):
            source = "" if entry.source is None else entry.source.format
            return f"what the source {source} of '{entry.name}' has sent cannot be read again"
        for kind in ("late", "rejected"):
            lost = lost_rows(manifest, entry, kind)
            if lost is not None:
                return lost
        checkpoint, name = files.below(CHECKPOINT), source_name(entry)
        batch = last_batch_read(files, manifest)
        if batch is None and any(manifest.counts.get(entry.name, ())):
            return f"which files '{entry.name}' has read is not known any more"
        last = {} if batch is None else source_offsets(checkpoint, batch)
        read = read_files(checkpoint, name, last[name]) if name in last else {}
        there = files_with_times(read)
        unseen = [uri for uri in read if uri not in there]
        found = set(files_there(session, unseen)) if unseen else set()
        for uri, time in read.items():
            if uri not in there and uri not in found:
                return f"'{entry.name}' has read the file {uri}, which is gone"
            if uri in there and there[uri][1] != time:
                return f"'{entry.name}' has read the file {there[uri][0]}, which was changed since"
        new = tuple(uri for uri in read if uri not in known)
        return cls(entry, new, tuple(_epochs(entry, checkpoint, new)))

    def rows(self, kept: Kept, after_step: int = 0) -> DataFrame | None:
        """Return the rows that were taken from these files, as change rows; None if there are no files.

        Of rows that were not taken, those of steps after `after_step` are left out.
        """
        parts = [self._rows_of(epoch, kept, after_step) for epoch in self.epochs]
        return reduce(DataFrame.unionAll, parts) if parts else None

    def _rows_of(self, epoch: ReadingEpoch, kept: Kept, after_step: int) -> DataFrame:
        session, entry = kept.session, replace(self.entry, read_as=epoch.columns)
        gone = _untaken(kept, entry, max(after_step, epoch.since - 1), epoch.until)
        frame = open_source(session, entry, new_differences(session.sparkContext), epoch.uris)
        task = AcceptTask(entry, gone is not None)
        rows = frame.mapInArrow(task, task.schema)
        return rows if gone is None else _without(rows, gone)


@dataclass(frozen=True)
class ReadingEpoch:
    """Files that were read while a stream had so many columns: in the steps [since, until)."""

    uris: tuple[str, ...]
    columns: int
    since: int
    until: int


def _epochs(entry: StreamEntry, checkpoint: Files, uris: Sequence[str]) -> Iterator[ReadingEpoch]:
    """Yield the files by the columns that the stream had when they were read, if there are any.

    What was taken, late or rejected then is so now: values of columns that were added later do not count.
    """
    left, since = list(uris), 0
    for addition in entry.additions:
        read = read_files(checkpoint, source_name(entry), addition.read) if addition.read >= 0 else {}
        before = tuple(uri for uri in left if uri in read)
        if before:
            yield ReadingEpoch(before, addition.before, since, addition.step)
        left, since = [uri for uri in left if uri not in read], addition.step
    if left:
        yield ReadingEpoch(tuple(left), len(entry.columns), since, INFINITY)


def _untaken(kept: Kept, entry: StreamEntry, after_step: int, until: int) -> DataFrame | None:
    """Return the texts of rows that parse and were not taken, with their numbers; None if there are none.

    Only those of the steps after one, and before another, count.
    """
    texts = []
    for kind in ("late", "rejected"):
        runs = [r for r in kept.manifest.runs(TraceId(kind, entry.name)) if r.step > after_step or not r.step]
        if runs:
            types = untaken_columns(entry, kind).types
            step, reason, text = (column(i) for i in range(len(types) - 3, len(types)))
            rows = kept.read(runs, types).where(f"{step} > {after_step} AND {step} < {long_sql(until)}")
            if kind == "rejected":
                rows = rows.where(F.col(reason).contains(AHEAD))
            texts.append(rows.selectExpr(f"{text} AS {ORIGINAL}", N))
    if not texts:
        return None
    both = texts[0] if len(texts) == 1 else texts[0].unionAll(texts[1])
    return both.groupBy(ORIGINAL).agg(F.sum(N).alias(_GONE))


def _without(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the rows without as many of each text as are gone; rows of equal text are equal."""
    copies = Window.partitionBy(ORIGINAL).orderBy(FROM)
    numbered = rows.withColumn(_COPY, F.row_number().over(copies)).join(gone, ORIGINAL, "left")
    return numbered.where(f"{_COPY} > coalesce({_GONE}, 0)").select(*rows.drop(ORIGINAL).columns)


@dataclass(frozen=True)
class AcceptTask:
    """Returns the rows of a source that parse and have a value where they must, as change rows."""

    entry: StreamEntry
    with_text: bool

    @property
    def schema(self) -> S.StructType:
        """The columns of the rows: those of the stream, the change, and the text if it is wanted."""
        rows = spark_schema(self.entry.columns.types)
        return rows.add(ORIGINAL, S.StringType()) if self.with_text else rows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the accepted rows of each batch."""
        names = self.entry.columns.names
        line = column(names.index(self.entry.timelines[0].column))
        output = to_arrow_schema(self.schema, timezone="UTC")
        for batch in batches:
            if not batch.num_rows:
                continue
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            rows = frame.filter(pl.col(REASON).is_null()).with_columns(
                pl.col(line).cast(pl.Int64).alias(FROM),
                pl.lit(INFINITY, pl.Int64).alias(UNTIL),
                pl.lit(1, pl.Int64).alias(N),
            )
            # Which rows were too far ahead of the clock is known from stream$rejected.
            good, _ = split_refused(rows, self.entry, INFINITY // 2, 0)
            yield from self._shown(good, names).to_arrow().cast(output).to_batches()

    def _shown(self, rows: Frame, names: Sequence[str]) -> Frame:
        own = [column(i) for i in range(len(names))]
        if not self.with_text:
            return rows.select(*own, *CHANGE)
        shown = names[: strict_columns(self.entry)]
        return rows.with_columns(row_text(rows, shown).alias(ORIGINAL)).select(*own, *CHANGE, ORIGINAL)


def write_waiting_rows(kept: Kept, replay: Replay, step: int) -> tuple[Run, ...]:
    """Write the rows of a source that begin after the bound to runs of its inbox; return these."""
    rows = replay.rows(kept)
    if rows is None:
        return ()
    later = rows.where(f"{FROM} > {long_sql(kept.manifest.bound)} AND {FROM} < {long_sql(INFINITY)}")
    return write_rows(later, TraceId("inbox", replay.entry.name), kept.files, step)


def replayed_rows(kept: Kept, entry: StreamEntry) -> DataFrame | None:
    """Return all rows of a stream that were taken from its source; raise an error if they cannot be had."""
    found = Replay.of(kept.session, kept.files, entry, kept.manifest)
    if isinstance(found, str):
        view = f"CREATE VIEW … AS SELECT … FROM {entry.name} […]"
        raise StoreError(found, next_step=f"make a view over it and ask the view: {view}")
    return found.rows(kept)
