"""The rows of a stream when the store is taken back in time.

Rows that begin after the bound wait in the inbox again: those that are kept there, those of files and of
Kafka, which are read again, and late rows that are not late any more. A file that changed since it was read
is read as it is now; the late and rejected rows that it had are forgotten. Which these are is known by their
text: as many rows stay as the other files have of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from everview import operators as P
from everview.algebra.text import name_sql, string_sql
from everview.algebra.time import INFINITY, instant_words
from everview.catalog import FedEntry, StreamEntry, TableEntry, untaken_columns
from everview.execute.catalyst import long_sql
from everview.execute.kept import Kept, unite
from everview.execute.tasks import write_rows
from everview.ingest.differences import new_differences
from everview.ingest.late import known_from
from everview.ingest.reading import ORIGINAL, REASON, reads_files, strict_columns
from everview.ingest.refused import AFTER_THE_END, LEFT_BEHIND, REJECTION_REASON, row_text, split_refused
from everview.ingest.replay import FilesRead, Replay
from everview.ingest.sources import open_source
from everview.operators.base import column
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, N
from everview.storage.arrivals import PartTimes, latest
from everview.storage.manifest import Manifest
from everview.storage.runs import ACCEPTED, ADMITTED, Run, TraceId

_COPY = "_everview_copy"  # the number of a row among those of equal text
_THERE = "_everview_there"  # how many rows of that text there are
_UNTAKEN = (("late", ""), ("rejected", ""), ("late", ADMITTED), ("late", ACCEPTED))  # kinds and parts


def lowered_bounds(manifest: Manifest, to: int) -> Manifest:
    """Return a manifest in which no bound is after an instant, and which is not finished.

    >>> before = Manifest(bound=9, bounds={"s": {"ts": 9}, "r": {"ts": 3}}, finished=True)
    >>> after = lowered_bounds(before, 5)
    >>> after.bound, after.bounds, after.finished
    (5, {'s': {'ts': 5}, 'r': {'ts': 3}}, False)
    """
    bounds, punctuated = (
        {name: {line: min(b, to) for line, b in own.items()} for name, own in found.items()}
        for found in (manifest.bounds, manifest.punctuated)
    )
    bound = min(manifest.bound, to)
    return replace(manifest, bound=bound, bounds=bounds, punctuated=punctuated, finished=False)


def _lowered_parts(
    parts: Mapping[str, PartTimes], newest: Mapping[str, int], to: int, reject_after: int = INFINITY
) -> dict[str, PartTimes]:
    """Return the times of the parts of a source: none is newer than the rows that are left.

    Of several parts, one that had rows which are rejected now may have nothing else after the instant: it
    then holds the bound back until a row comes.

    >>> _lowered_parts({"t-0": PartTimes({"ts": 9}, {"ts": 8}), "t-1": PartTimes({"ts": 4})}, {"ts": 7}, 5)
    {'t-0': PartTimes(newest={'ts': 7}, punctuated={'ts': 5}, heard=0), \
't-1': PartTimes(newest={'ts': 4}, punctuated={}, heard=0)}
    >>> two = {"t-0": PartTimes({"ts": 9}), "t-1": PartTimes({"ts": 6})}
    >>> _lowered_parts(two, {"ts": 7}, 5, reject_after=8)["t-0"].newest
    {'ts': 5}
    """
    last = {
        part: {} if len(parts) > 1 and max(times.newest.values(), default=to) > reject_after else newest
        for part, times in parts.items()
    }
    return {
        part: PartTimes(
            {line: min(t, last[part].get(line, to)) for line, t in times.newest.items()},
            {line: min(t, to) for line, t in times.punctuated.items()},
            times.heard,
        )
        for part, times in parts.items()
    }


def with_files_as_they_are(manifest: Manifest, changed: Mapping[str, FilesRead], step: int) -> Manifest:
    """Return a manifest that records changed files as read in their present state."""
    reread, told = dict(manifest.reread), dict(manifest.changed)
    for name, read in changed.items():
        times = {uri: (time, step) for uri, (_, time) in read.changed.items()}
        reread[name] = {**reread.get(name, {}), **times}
        told[name] = {**told.get(name, {}), **dict(read.changed.values())}
    return replace(manifest, reread=reread, changed=told)


def rows_no_longer_late(kept: Kept, entry: StreamEntry) -> DataFrame | None:
    """Return the late rows of a stream that are after the bounds of a manifest, with all their columns."""
    rows = _untaken_rows(kept, entry, "late")
    return None if rows is None else rows.where(_is_later(kept.manifest, entry))


def rows_after_the_end(kept: Kept, entry: TableEntry) -> int:
    """Return how many rows of a table were rejected because the store had been run to its end."""
    rows = _untaken_rows(kept, entry, "rejected")
    return 0 if rows is None else rows.where(F.col(column(1)) == AFTER_THE_END).count()


def _is_later(manifest: Manifest, entry: StreamEntry) -> str:
    """Return the condition that all timestamps of a row are after the bounds of the stream."""
    bounds, names = manifest.bounds.get(entry.name, {}), entry.columns.names
    lines = {line.column: column(names.index(line.column)) for line in entry.timelines}
    later = [
        f"unix_micros({lines[name]}) > {long_sql(bound)}"
        for name, bound in bounds.items()
        if name in lines and bound > BEFORE_ALL
    ]
    return " AND ".join(later) or "true"


def _untaken_rows(kept: Kept, entry: FedEntry, kind: str, part: str = "") -> DataFrame | None:
    """Return the rows of stream$late or stream$rejected, or re-admitted ones; None if there are none."""
    scan = P.ScanOperator(f"{entry.name}${kind}", untaken_columns(entry, kind).types)
    runs = kept.manifest.runs(TraceId(kind, entry.name, part))
    return kept.new_rows(scan, BEFORE_ALL, INFINITY, runs) if runs else None


@dataclass(frozen=True)
class StreamRewind:
    """A stream of a store whose bounds have fallen; `kept` has the manifest with the fallen bounds.

    With `read`, its files are read again; the rows of their present state count. With `records`, records of
    Kafka are. Rows with a timestamp after `reject_after` are rejected.
    """

    kept: Kept
    entry: StreamEntry
    step: int
    now: int
    to: int
    read: FilesRead | None
    records: Replay | None = None
    reject_after: int | None = None

    def manifest(self) -> Manifest:
        """Return the manifest with the rows of the stream as they are now."""
        if self.read is None or not self.read.changed:
            return self._taken_back()
        found = replace(self, kept=self._kept_with(self._as_other_files_have()))
        return found._taken_back()

    def _kept_with(self, manifest: Manifest) -> Kept:
        return Kept(self.kept.session, self.kept.files, manifest, self.kept.catalog)

    def _taken_back(self) -> Manifest:
        """Return the manifest with rows that are not late any more in the inbox, and no longer late."""
        manifest, entry = self.kept.manifest, self.entry
        inbox, late = TraceId("inbox", entry.name), TraceId("late", entry.name)
        again, untaken = rows_no_longer_late(self.kept, entry), _untaken_rows(self.kept, entry, "late")
        moved = 0 if again is None else again.count()
        counts = manifest.counts.get(entry.name, (0, 0, 0))
        counts = (counts[0] + moved, counts[1] - moved, counts[2])
        taken = None if again is None or not moved else self._as_rows(again)
        known, changed = self._known_newest(), dict[TraceId, tuple[Run, ...]]()
        runs = manifest.runs(inbox)
        whole = self._all_rows()
        if whole is not None or self.read is not None or self.records is not None:
            rows, runs, far = unite(whole, taken), (), 0
            if rows is not None and self.reject_after is not None:
                far, rows, changed = self._left_behind(rows)
            number, newest = self._newest(rows, known)
            if self.read is not None and (self.read.gone or self.read.changed):
                counts = (number + far + sum(run.rows for run in manifest.admitted(entry.name)), *counts[1:])
            counts = (counts[0] - far, counts[1], counts[2] + far)
        else:
            rows, newest = taken, self._newest(taken, known)[1]
        if rows is not None:
            kept = rows if entry.source is None else rows.where(f"{FROM} > {long_sql(manifest.bound)}")
            runs = (*runs, *self._write(kept.drop(ORIGINAL), inbox))
        changed[inbox] = runs
        if untaken is not None and moved:
            changed[late] = self._write(untaken.where(f"NOT ({_is_later(manifest, entry)})"), late)
        for part in (ADMITTED, ACCEPTED):
            changed |= self._admitted(TraceId("late", entry.name, part))
        parts = dict(manifest.parts)
        if entry.name in parts:
            parts[entry.name] = _lowered_parts(parts[entry.name], newest, self.to, self._last_instant)
        return replace(
            manifest.with_traces(changed),
            counts={**manifest.counts, entry.name: counts},
            newest={**manifest.newest, entry.name: newest},
            parts=parts,
        )

    @property
    def _last_instant(self) -> int:
        """The instant up to which rows count."""
        return INFINITY if self.reject_after is None else self.reject_after

    def _as_rows(self, late: DataFrame) -> DataFrame:
        """Return late rows as rows of the stream, with their texts."""
        own = [column(i) for i in range(len(self.entry.columns))]
        times = [f"unix_micros({self._line}) AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}", f"1L AS {N}"]
        return late.selectExpr(*own, *times, f"{column(len(own) + 2)} AS {ORIGINAL}")

    @property
    def _line(self) -> str:
        """The column of the first time line."""
        return column(self.entry.columns.names.index(self.entry.timelines[0].column))

    @property
    def _is_unread(self) -> bool:
        """Whether rows of its source that do not wait cannot be had again."""
        return self.entry.source is not None and not reads_files(self.entry) and self.records is None

    def _known_newest(self) -> Mapping[str, int]:
        """Return the newest timestamps of the manifest that still count after the rewind.

        There are none where all rows are read again, because files have changed or rows are rejected.
        """
        newest = self.kept.manifest.newest.get(self.entry.name, {})
        if self._is_unread:
            return {name: min(time, self.to) for name, time in newest.items()}
        whole = self.read is not None and bool(self.read.gone or self.read.changed)
        return {} if whole or self.reject_after is not None else newest

    def _all_rows(self) -> DataFrame | None:
        """Return all rows of files, or those of the inbox if some may have to leave it; with their texts."""
        manifest, entry = self.kept.manifest, self.entry
        if self.read is not None:
            files = [uri for uri in self.read.times if uri not in self.read.gone]
            return Replay.of_files(self.kept.files, entry, manifest, files).rows(self.kept, with_text=True)
        if self.records is not None:
            return self.records.rows(self.kept, with_text=True)
        runs = manifest.runs(TraceId("inbox", entry.name))
        if not runs or not (self._is_unread or self.reject_after is not None):
            return None
        scan = P.ScanOperator(entry.name, entry.columns.types)
        rows = self.kept.new_rows(scan, BEFORE_ALL, INFINITY, runs)
        shown = ", ".join(f"{column(i)} AS {name_sql(f.name)}" for i, f in enumerate(entry.columns))
        return None if rows is None else rows.selectExpr("*", f"to_json(struct({shown})) AS {ORIGINAL}")

    def _left_behind(self, rows: DataFrame) -> tuple[int, DataFrame, dict[TraceId, tuple[Run, ...]]]:
        """Return how many rows lie after the instant up to which rows count, the others, and all rejected."""
        assert self.reject_after is not None
        far, near = (f"unix_micros({self._line}) {sign} {self.reject_after}L" for sign in (">", "<="))
        trace = TraceId("rejected", self.entry.name)
        name = self.entry.timelines[0].column
        reason = string_sql(f"{name} is after {instant_words(self.reject_after)}{LEFT_BEHIND}")
        said = [f"{self.step}L AS {column(0)}", f"{reason} AS {column(1)}", f"{ORIGINAL} AS {column(2)}"]
        begin = long_sql(known_from(self.kept.manifest))
        times = [f"{begin} AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}", f"1L AS {N}"]
        runs = self._write(rows.where(far).selectExpr(*said, *times), trace)
        number = sum(run.rows for run in runs)
        return number, rows.where(near), {trace: (*self.kept.manifest.runs(trace), *runs)}

    def _admitted(self, trace: TraceId) -> dict[TraceId, tuple[Run, ...]]:
        """Return re-admitted rows that begin at the latest just after the bound, or at their own timestamp.

        One with a timestamp after the bound is a correction no longer.
        """
        manifest = self.kept.manifest
        if all(run.greatest_from <= manifest.bound for run in manifest.runs(trace)):
            return {}
        rows = _untaken_rows(self.kept, self.entry, trace.kind, trace.part)
        assert rows is not None
        begin = f"greatest(unix_micros({self._line}), least({FROM}, {long_sql(manifest.bound + 1)}))"
        return {trace: self._write(rows.withColumn(FROM, F.expr(begin)), trace)}

    def _newest(self, rows: DataFrame | None, known: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
        """Return how many rows there are, and the newest time of each time line, no earlier than known."""
        if rows is None:
            return 0, known
        names = self.entry.columns.names
        lines = [line.column for line in self.entry.timelines]
        times = [F.expr(f"max(unix_micros({column(names.index(line))}))") for line in lines]
        [(number, *found)] = rows.agg(F.count(F.lit(1)), *times).collect()
        return number, latest(known, {n: t for n, t in zip(lines, found, strict=True) if t is not None})

    def _write(self, rows: DataFrame, trace: TraceId) -> tuple[Run, ...]:
        return write_rows(rows, trace, self.kept.files, self.step)

    # Files that changed

    def _as_other_files_have(self) -> Manifest:
        """Return the manifest without the late and rejected rows that changed files had.

        It has the rows of these files that are rejected now.
        """
        manifest, entry, read = self.kept.manifest, self.entry, self.read
        assert read is not None
        others = [uri for uri in read.times if uri not in read.changed and uri not in read.gone]
        epochs = Replay.of_files(self.kept.files, entry, manifest, others).epochs
        changed: dict[TraceId, tuple[Run, ...]] = {}
        for kind, part in _UNTAKEN:
            rows, trace = _untaken_rows(self.kept, entry, kind, part), TraceId(kind, entry.name, part)
            step, _, text = (column(i) for i in _last_three(len(untaken_columns(entry, kind))))
            left: list[DataFrame] = []
            for epoch in epochs:
                if rows is None:
                    break
                mine = rows.where(f"{step} >= {epoch.since} AND {step} < {long_sql(epoch.until)}")
                texts = self._texts(epoch.files, epoch.columns, refused=None)
                left.append(_as_many_as(mine, text, step, texts))
            if kind == "rejected":
                left.append(self._refused_now(tuple(read.changed)))
            runs = tuple(run for rows_left in left for run in self._write(rows_left, trace))
            changed[trace] = runs
        counted = [sum(r.rows for r in changed[TraceId(k, entry.name)]) for k in ("late", "rejected")]
        counts = {**manifest.counts, entry.name: (manifest.counts.get(entry.name, (0,))[0], *counted)}
        return replace(manifest.with_traces(changed), counts=counts)

    def _refused_now(self, uris: tuple[str, ...]) -> DataFrame:
        """Return the rows of some files that are rejected now, as rows of stream$rejected."""
        refused = self._texts(uris, len(self.entry.columns), refused=True)
        begin = long_sql(known_from(self.kept.manifest))
        said = [f"{self.step}L AS {column(0)}", f"{REASON} AS {column(1)}", f"{ORIGINAL} AS {column(2)}"]
        return refused.selectExpr(
            *said, f"{begin} AS {FROM}", f"{long_sql(INFINITY)} AS {UNTIL}", f"1L AS {N}"
        )

    def _texts(self, uris: tuple[str, ...], columns: int, refused: bool | None) -> DataFrame:
        """Return the texts of the rows of some files, with the reason if a row is rejected now.

        `refused` says whether only such rows, only others, or all are wanted.
        """
        session, entry = self.kept.session, replace(self.entry, read_as=columns)
        frame = open_source(session, entry, new_differences(session.sparkContext), uris)
        found = frame.mapInArrow(RowTextTask(entry, self.now), RowTextTask.schema)
        return found if refused is None else found.where(f"({REASON} IS NOT NULL) = {refused}")


def _last_three(size: int) -> range:
    return range(size - 3, size)


def _as_many_as(rows: DataFrame, text: str, step: str, texts: DataFrame) -> DataFrame:
    """Return as many rows of each text as there are of it in `texts`, the oldest first."""
    counted = texts.groupBy(ORIGINAL).agg(F.count(F.lit(1)).alias(_THERE))
    numbered = rows.withColumn(_COPY, F.row_number().over(Window.partitionBy(text).orderBy(step)))
    joined = numbered.join(counted, F.expr(f"{text} <=> {ORIGINAL}"), "left")
    return joined.where(f"{_COPY} <= coalesce({_THERE}, 0)").select(*rows.columns)


@dataclass(frozen=True)
class RowTextTask:
    """Returns the text of each row of a source, and the reason if it is rejected at a time of the clock."""

    entry: StreamEntry
    now: int
    schema = S.StructType().add(REASON, S.StringType()).add(ORIGINAL, S.StringType())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the reasons and the texts of each batch."""
        names = self.entry.columns.names[: strict_columns(self.entry)]
        output = to_arrow_schema(self.schema)
        for batch in batches:
            if not batch.num_rows:
                continue
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            wrong = frame.filter(pl.col(REASON).is_not_null()).select(REASON, ORIGINAL)
            parsed = frame.filter(pl.col(REASON).is_null())
            good, refused = split_refused(parsed, self.entry, self.now, 0)
            parts = [wrong.cast(pl.String), _show_row(good, None, names)]
            if not refused.is_empty():
                parts.append(_show_row(refused, refused[REJECTION_REASON], names))
            yield from pl.concat(parts).to_arrow().cast(output).to_batches()


def _show_row(rows: pl.DataFrame, reason: pl.Series | None, names: tuple[str, ...]) -> pl.DataFrame:
    said = pl.Series([None] * rows.height, dtype=pl.String) if reason is None else reason.cast(pl.String)
    return pl.DataFrame([said.alias(REASON), row_text(rows, names).cast(pl.String).alias(ORIGINAL)])


def visible_from(kept: Kept, entry: FedEntry, step: int) -> Manifest:
    """Return the manifest with late and rejected rows that are known at the latest just after the bound."""
    manifest, changed = kept.manifest, {}
    begin = known_from(manifest)
    for kind in ("late", "rejected"):
        trace = TraceId(kind, entry.name)
        if any(run.greatest_from > begin for run in manifest.runs(trace)):
            rows = _untaken_rows(kept, entry, kind)
            assert rows is not None
            clipped = rows.withColumn(FROM, F.expr(f"least({FROM}, {long_sql(begin)})"))
            changed[trace] = write_rows(clipped, trace, kept.files, step)
    return manifest.with_traces(changed)
