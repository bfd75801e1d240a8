"""The rows of a stream, read again from its source: for views that are created when the store has run.

Spark's log of a source names the files that were read, or the offsets of Kafka. Rows that were late or too
far ahead of the clock when they came are not taken now either: stream$late and stream$rejected have their
text, and as many rows with that text are left out. A file that is gone, or was changed since it was read, and
records that Kafka has removed (`read_kafka.py`) are not guessed: the stream then cannot be read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from everview import operators as P
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, STRING
from everview.catalog import StreamEntry, untaken_columns
from everview.errors import StoreError, format_count
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.kept import Kept, unite
from everview.execute.tasks import write_rows
from everview.ingest.batch_files import files_there
from everview.ingest.changed_files import files_with_times
from everview.ingest.differences import new_differences
from everview.ingest.read_kafka import OffsetRange, ranges_after, ranges_read, reads_kafka
from everview.ingest.reading import ORIGINAL, REASON, reads_files, source_name, strict_columns
from everview.ingest.refused import AHEAD, LEFT_BEHIND, row_text, split_refused
from everview.ingest.sources import open_source
from everview.operators.base import column
from everview.operators.columnar.frame import BEFORE_ALL, CHANGE, FROM, UNTIL, Frame, N
from everview.storage.checkpoint import CHECKPOINT, last_batch_read
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import ACCEPTED, ADMITTED, Run, TraceId
from everview.storage.source_log import read_files, source_offsets

ReadPart = str | OffsetRange  # the URI of a file, or records of a partition

_COPY = "_everview_copy"  # the number of a row among those of equal text
_GONE = "_everview_gone"  # how many of these were not taken
_WHY_UNTAKEN = (BIGINT, STRING, STRING)  # the step, the reason, the text


def is_replayable(entry: StreamEntry) -> bool:
    """Return whether the source of a stream can be read again, as far as its kind goes."""
    return reads_files(entry) or reads_kafka(entry)


def lost_rows(manifest: Manifest, entry: StreamEntry, kind: str) -> str | None:
    """Return how many rows of a stream are lost, of those counted when they came; None if all are there.

    `kind` is inbox for the rows of a stream that is fed by INSERT, or late or rejected.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = StreamEntry("s", Schema.of(("ts", TIMESTAMP), timeline="ts"), ())
    >>> lost_rows(Manifest(counts={"s": (5, 2, 0)}), s, "late")
    "2 late rows of 's' are lost"
    """
    counted = manifest.counts.get(entry.name, (0, 0, 0))[("inbox", "late", "rejected").index(kind)]
    admitted = manifest.admitted(entry.name) if kind == "inbox" else ()
    there = sum(run.rows for run in (*manifest.runs(TraceId(kind, entry.name)), *admitted))
    if there >= counted:
        return None
    rows = "row" if kind == "inbox" else f"{kind} row"
    verb = "is" if counted - there == 1 else "are"
    return f"{format_count(counted - there, rows)} of '{entry.name}' {verb} lost"


@dataclass(frozen=True)
class FilesRead:
    """The files that a stream has read, with the times that they had; those that are gone or have changed.

    `changed` has the path as a user writes it, and the present time.
    """

    times: Mapping[str, int]
    gone: tuple[str, ...] = ()
    changed: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, session: SparkSession, files: Files, entry: StreamEntry, manifest: Manifest
    ) -> FilesRead | str:
        """Return the files that were read up to a manifest; or why they are not known."""
        checkpoint, name = files.below(CHECKPOINT), source_name(entry)
        batch = last_batch_read(files, manifest)
        if batch is None and any(manifest.counts.get(entry.name, ())):
            return f"which files '{entry.name}' has read is not known any more"
        last = {} if batch is None else source_offsets(checkpoint, batch)
        read = read_files(checkpoint, name, last[name]) if name in last else {}
        read |= {u: time for u, (time, _) in manifest.reread.get(entry.name, {}).items() if u in read}
        there = files_with_times(read)
        unseen = [uri for uri in read if uri not in there]
        found = set(files_there(session, unseen)) if unseen else set()
        changed = {
            uri: there[uri][:2] for uri, time in read.items() if uri in there and there[uri][1] != time
        }
        return cls(read, tuple(uri for uri in unseen if uri not in found), changed)


@dataclass(frozen=True)
class Replay:
    """Files, or records of Kafka, that a store has read for a stream, to be read again."""

    entry: StreamEntry
    parts: tuple[ReadPart, ...]
    epochs: tuple[ReadingEpoch, ...] = ()

    @classmethod
    def of(
        cls,
        session: SparkSession,
        files: Files,
        entry: StreamEntry,
        manifest: Manifest,
        known: Collection[ReadPart] = (),
    ) -> Replay | str:
        """Return what was read up to a manifest, without known parts; or why it cannot be had."""
        if not is_replayable(entry):
            source = "" if entry.source is None else entry.source.format
            return f"what the source {source} of '{entry.name}' has sent cannot be read again"
        if entry.stamped:
            return (
                f"the clock stamps '{entry.stamped[0]}' of '{entry.name}' when rows come, which is only once"
            )
        for kind in ("late", "rejected"):
            lost = lost_rows(manifest, entry, kind)
            if lost is not None:
                return lost
        if reads_kafka(entry):
            return cls._of_records(session, files, entry, manifest, known)
        read = FilesRead.of(session, files, entry, manifest)
        if isinstance(read, str):
            return read
        for uri in read.gone:
            return f"'{entry.name}' has read the file {uri}, which is gone"
        for path, _ in read.changed.values():
            return f"'{entry.name}' has read the file {path}, which was changed since"
        return cls.of_files(files, entry, manifest, [uri for uri in read.times if uri not in known])

    @classmethod
    def _of_records(
        cls,
        session: SparkSession,
        files: Files,
        entry: StreamEntry,
        manifest: Manifest,
        known: Collection[ReadPart],
    ) -> Replay | str:
        """Return the records that a stream has read from Kafka; or why they cannot be read again."""
        counts, batch = manifest.counts.get(entry.name, ()), last_batch_read(files, manifest)
        if batch is None and any(counts):
            return f"which records '{entry.name}' has read is not known any more"
        if batch is None:
            return cls(entry, ())
        if entry.additions:
            return f"columns were added to '{entry.name}' after it was created, and it reads from Kafka"
        ranges = ranges_read(session, files.below(CHECKPOINT), entry, batch, sum(counts))
        if isinstance(ranges, str):
            return ranges
        later = ranges_after(ranges, known)
        epoch = ReadingEpoch(later, len(entry.columns), 0, INFINITY)
        return cls(entry, later, (epoch,) if later else ())

    @classmethod
    def of_files(cls, files: Files, entry: StreamEntry, manifest: Manifest, uris: Sequence[str]) -> Replay:
        """Return some of the files that a stream has read, to be read again."""
        again = manifest.reread.get(entry.name, {})
        return cls(entry, tuple(uris), tuple(_epochs(entry, files.below(CHECKPOINT), uris, again)))

    @property
    def amount(self) -> str:
        """How much is read again, in words."""
        if not reads_kafka(self.entry):
            return format_count(len(self.parts), "file")
        records = sum(part.end - part.begin for part in self.parts if isinstance(part, OffsetRange))
        return format_count(records, "record")

    def rows(self, kept: Kept, after_step: int = 0, with_text: bool = False) -> DataFrame | None:
        """Return the rows that were taken from these parts, as change rows; None if there are no parts.

        Of rows that were not taken, those of steps after `after_step` are left out. With `with_text`, a
        column has the text of each row.
        """
        parts = [self._rows_of(epoch, kept, after_step) for epoch in self.epochs]
        if not parts:
            return None
        rows = reduce(DataFrame.unionAll, parts)
        return rows if with_text else rows.drop(ORIGINAL)

    def _rows_of(self, epoch: ReadingEpoch, kept: Kept, after_step: int) -> DataFrame:
        session, entry = kept.session, replace(self.entry, read_as=epoch.columns)
        gone = _untaken(kept, entry, max(after_step, epoch.since - 1), epoch.until)
        ranges = [part for part in epoch.parts if isinstance(part, OffsetRange)]
        uris = None if ranges else epoch.files
        frame = open_source(session, entry, new_differences(session.sparkContext), uris, ranges or None)
        task = AcceptTask(entry)
        rows = frame.mapInArrow(task, task.schema)
        return rows if gone is None else _without(rows, gone)


@dataclass(frozen=True)
class ReadingEpoch:
    """What was read while a stream had so many columns: in the steps [since, until)."""

    parts: tuple[ReadPart, ...]
    columns: int
    since: int
    until: int

    @property
    def files(self) -> tuple[str, ...]:
        """The URIs of the files that were read."""
        return tuple(part for part in self.parts if isinstance(part, str))


def _epochs(
    entry: StreamEntry, checkpoint: Files, uris: Sequence[str], again: Mapping[str, tuple[int, int]]
) -> Iterator[ReadingEpoch]:
    """Yield the files by the columns that the stream had when they were read, if there are any.

    What was taken, late or rejected then is so now: values of columns that were added later do not count.
    `again` has the files that were read anew since, with the step.
    """
    left, since = list(uris), 0
    for addition in entry.additions:
        read = read_files(checkpoint, source_name(entry), addition.read) if addition.read >= 0 else {}
        read = {u: time for u, time in read.items() if again.get(u, (0, 0))[1] < addition.step}
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
    for kind, part in (("late", ""), ("rejected", ""), ("late", ADMITTED), ("late", ACCEPTED)):
        found = kept.manifest.runs(TraceId(kind, entry.name, part))
        runs = [run for run in found if run.step > after_step or not run.step]
        if runs:
            size = len(untaken_columns(entry, kind))
            places = list(range(size - 3, size))  # other columns may not be in older files
            step, reason, text = map(column, range(3))
            rows = kept.read(runs, _WHY_UNTAKEN, positions=places)
            rows = rows.where(f"{step} > {after_step} AND {step} < {long_sql(until)}")
            if kind == "rejected" or part == ACCEPTED:
                rows = rows.where(F.col(reason).contains(AHEAD) | F.col(reason).contains(LEFT_BEHIND))
            texts.append(rows.selectExpr(f"{text} AS {ORIGINAL}", N))
    if not texts:
        return None
    both = reduce(DataFrame.unionAll, texts)
    return both.groupBy(ORIGINAL).agg(F.sum(N).alias(_GONE))


def _without(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the rows without as many of each text as are to be left out; rows of equal text are equal."""
    copies = Window.partitionBy(ORIGINAL).orderBy(FROM)
    numbered = rows.withColumn(_COPY, F.row_number().over(copies)).join(gone, ORIGINAL, "left")
    return numbered.where(f"{_COPY} > coalesce({_GONE}, 0)").select(*rows.columns)


@dataclass(frozen=True)
class AcceptTask:
    """Returns the rows of a source that parse and have a value where they must, with their texts."""

    entry: StreamEntry
    now: int = INFINITY // 2  # the clock; which rows were ahead of it is known from stream$rejected

    @property
    def schema(self) -> S.StructType:
        """The columns of the rows: those of the stream, the change, and the text."""
        return spark_schema(self.entry.columns.types).add(ORIGINAL, S.StringType())

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
            good, _ = split_refused(rows, self.entry, self.now, 0)
            yield from self._shown(good, names).to_arrow().cast(output).to_batches()

    def _shown(self, rows: Frame, names: Sequence[str]) -> Frame:
        own = [column(i) for i in range(len(names))]
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
    runs = kept.manifest.admitted(entry.name)
    admitted = kept.new_rows(P.ScanOperator(entry.name, entry.columns.types), BEFORE_ALL, INFINITY, runs)
    return unite(found.rows(kept), admitted)
