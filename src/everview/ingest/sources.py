"""The sources of a store as one streaming frame: Spark reads, records its progress, and retries.

Sources differ in their columns. They are united with the number of the source and the union of their
columns; a row that does not parse comes with the reason and its original text instead of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from everview.algebra.time import INFINITY
from everview.catalog import FedEntry, StreamEntry, given_entry
from everview.execute.catalyst import null_sql
from everview.execute.exchange import SlotLayout, slot
from everview.execute.lanes import InputProjection, Lane, ProjectedRows, projected_column
from everview.ingest.batch_files import files_there
from everview.ingest.clauses import with_computed_columns, with_conditions, with_made_columns
from everview.ingest.differences import ColumnDifference, new_differences
from everview.ingest.read_csv import open_csv
from everview.ingest.read_decoded import open_decoded
from everview.ingest.read_json import open_json
from everview.ingest.read_kafka import OffsetRange
from everview.ingest.read_parquet import open_parquet
from everview.ingest.read_typed import open_typed
from everview.ingest.reading import (
    FILE_POSITION,
    ORIGINAL,
    PART,
    PUNCTUATES,
    REASON,
    SOURCE,
    explain_read_error,
    has_parts,
    has_versions,
)
from everview.ingest.spark_rows import cast_rows
from everview.operators.base import column
from everview.operators.columnar.frame import FROM, UNTIL, N


@dataclass(frozen=True)
class Sources:
    """All sources of a store, in one frame; rows of source i have i in the column SOURCE.

    `projections` has for each source the input projections of its lanes, by the keys of the lanes.
    `differences` is an accumulator: tasks add how the columns of files differ from those declared. `in_slots`
    puts the columns of one source, by its number, into the slots of all sources.
    """

    entries: tuple[FedEntry, ...]
    frame: DataFrame
    layout: SlotLayout
    projections: tuple[Mapping[str, InputProjection], ...]
    in_slots: Callable[[DataFrame, int], DataFrame]
    differences: Accumulator[frozenset[ColumnDifference]] | None = None

    @classmethod
    def open(
        cls,
        session: SparkSession,
        entries: Sequence[FedEntry],
        lanes: Sequence[Lane],
        heartbeat: bool = False,
    ) -> Sources:
        """Open every source under its own name, so that other sources can be added and dropped.

        Rows have extra columns for what their lanes need. A heartbeat lets the bound advance when no data
        comes: without new rows Spark runs no batch.
        """
        found = new_differences(session.sparkContext)
        frames = [open_source(session, e, found) for e in entries]
        placed = cls._placed(frames, entries, lanes, _heartbeat(session) if heartbeat else None)
        return replace(placed, differences=found)

    @classmethod
    def _placed(
        cls,
        frames: Sequence[DataFrame],
        entries: Sequence[FedEntry],
        lanes: Sequence[Lane] = (),
        heartbeat: DataFrame | None = None,
    ) -> Sources:
        mine = [{lane.key: lane for lane in lanes if lane.scan.relation == e.name} for e in entries]
        projected = [
            ProjectedRows(
                tuple(lane.row for lane in of_one.values()),
                tuple(lane.projection for lane in of_one.values()),
                tuple(column(i) for i in range(len(e.columns))),
            )
            for of_one, e in zip(mine, entries, strict=True)
        ]
        layout = SlotLayout.of([e.columns.types for e in entries])
        beside = SlotLayout.of([list(c.texts.values()) for c in projected])
        beside_change = _beside_change(entries)

        def in_slots(frame: DataFrame, number: int) -> DataFrame:
            changes = _with_change(frame, entries[number])
            return _in_slots(changes, number, layout, projected[number], beside, beside_change)

        placed = [in_slots(frame, i) for i, frame in enumerate(frames)]
        if heartbeat is not None:
            placed.append(_in_slots(heartbeat, -1, layout, ProjectedRows((), ()), beside, beside_change))
        projections = tuple(
            dict(zip(of_one, rows.named(places), strict=True))
            for of_one, rows, places in zip(mine, projected, beside.sides, strict=True)
        )
        return cls(tuple(entries), reduce(DataFrame.unionAll, placed), layout, projections, in_slots)

    def with_files(self, frame: DataFrame, files: Mapping[str, Sequence[str]]) -> DataFrame:
        """Return a batch in which the rows of some sources are those of just the files given, as URIs."""
        if not files:
            return frame
        assert self.differences is not None
        apart = {i: e for i, e in enumerate(self.entries) if e.name in files}
        others = frame.where(f"{SOURCE} NOT IN ({', '.join(map(str, apart))})")
        there = {i: files_there(frame.sparkSession, files[e.name]) for i, e in apart.items()}
        read = [
            self.in_slots(open_source(frame.sparkSession, e, self.differences, there[i]), i)
            for i, e in apart.items()
            if there[i]
        ]
        return reduce(DataFrame.unionAll, read, others)

    @classmethod
    def of_frame(cls, rows: DataFrame, entry: FedEntry, lossless: bool = True) -> Sources:
        """Return an inserted frame as the source of a stream or a table; columns are found by name."""
        shown = cast_rows(rows, entry, REASON, lossless).selectExpr(
            "*", f"CAST(NULL AS STRING) AS {ORIGINAL}"
        )
        return cls._placed([with_conditions(with_computed_columns(shown, entry), entry)], [entry])


def _heartbeat(session: SparkSession) -> DataFrame:
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).name("heartbeat").load()
    return beats.selectExpr(*(f"CAST(NULL AS STRING) AS {name}" for name in (REASON, ORIGINAL)), *_CHANGE)


_CHANGE = (f"CAST(NULL AS BIGINT) AS {FROM}", f"{INFINITY}L AS {UNTIL}", f"1L AS {N}")


def _with_change(frame: DataFrame, entry: FedEntry) -> DataFrame:
    """Return the columns c0, c1, … with the change; when rows of tables begin is not known yet."""
    columns = [column(i) for i in range(len(entry.columns))]
    begin = _CHANGE[0]
    if isinstance(entry, StreamEntry):
        line = columns[entry.columns.names.index(entry.timelines[0].column)]
        begin = f"unix_micros({line}) AS {FROM}"
    more = [c for c in (*FILE_POSITION, PUNCTUATES, PART) if c in frame.columns]
    return frame.selectExpr(*columns, REASON, ORIGINAL, *more, begin, *_CHANGE[1:])


def _beside_change(entries: Sequence[FedEntry]) -> dict[str, str]:
    """Return the columns, with their types, that rows of some sources have beside their values."""
    versions = any(map(has_versions, entries))
    punctuated = any(isinstance(e, StreamEntry) and e.punctuate is not None for e in entries)
    found = FILE_POSITION if versions else {}
    found = found | ({PUNCTUATES: "BOOLEAN"} if punctuated else {})
    return found | ({PART: "STRING"} if any(map(has_parts, entries)) else {})


def _in_slots(
    frame: DataFrame,
    number: int,
    layout: SlotLayout,
    projected: ProjectedRows,
    beside: SlotLayout,
    types: Mapping[str, str],
) -> DataFrame:
    """Return the columns of one source in their slots, and the columns for its lanes in others."""
    for texts in projected.lets():
        frame = frame.selectExpr("*", *texts)
    own = {} if number < 0 else {place: column(i) for i, place in enumerate(layout.sides[number])}
    more = {} if number < 0 else dict(zip(beside.sides[number], projected.texts, strict=True))
    slots = [f"{own.get(i, null_sql(t))} AS {slot(i)}" for i, t in enumerate(layout.slots)]
    slots += [f"{more.get(i, null_sql(t))} AS {projected_column(i)}" for i, t in enumerate(beside.slots)]
    others = [c if c in frame.columns else f"CAST(NULL AS {t}) AS {c}" for c, t in types.items()]
    return frame.selectExpr(f"{number} AS {SOURCE}", *slots, REASON, ORIGINAL, *others, FROM)


def open_source(
    session: SparkSession,
    entry: FedEntry,
    found: Accumulator[frozenset[ColumnDifference]],
    files: Sequence[str] | None = None,
    ranges: Sequence[OffsetRange] | None = None,
) -> DataFrame:
    """Open one source: the columns of its stream or table, the reason of a refused row, its original text.

    It is a stream, or, if files or ranges of Kafka's offsets are given, the rows of those.
    """
    source = entry.source
    assert source is not None
    try:
        given = given_entry(entry)
        if source.decoding is not None:
            frame = open_decoded(session, given, source, files, ranges)
        elif source.format in _WITH_COLUMNS:
            frame = _WITH_COLUMNS[source.format](session, given, source, found, files)
        elif source.format == "json":
            frame = open_json(session, given, source, files)
        else:
            frame = open_typed(session, given, source, files, ranges)
    except (PySparkException, Py4JJavaError) as error:
        hadoop = session._jvm.org.apache.hadoop.util.VersionInfo.getVersion()  # type: ignore[union-attr]
        raise explain_read_error(entry, error, {"spark": session.version, "hadoop": hadoop}) from error
    return with_conditions(with_made_columns(frame, entry), entry)


# Formats whose files name their columns.
_WITH_COLUMNS = {"csv": open_csv, "parquet": open_parquet}
