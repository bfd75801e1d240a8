"""REPLAY: late and rejected rows of a stream that count from now on.

A late row keeps its timestamp and begins just after the bound: what was known up to there stays as it is. It
leaves stream$late for a part of its own, which counts as rows of the stream. A rejected row is read again
from the files of its stream, with the columns that there are now, and found by its text; what still cannot
be read stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from everview import operators as P
from everview.algebra.expressions import Expression
from everview.algebra.time import INFINITY
from everview.catalog import StreamEntry, untaken_columns
from everview.errors import StoreError
from everview.execute.catalyst import long_sql, spark_schema
from everview.execute.guards import catalyst_sql
from everview.execute.kept import Kept, empty_rows
from everview.ingest.changed_files import FILE_CHANGED
from everview.ingest.differences import new_differences
from everview.ingest.reading import ORIGINAL, reads_files
from everview.ingest.replay import AcceptTask, FilesRead, Replay
from everview.ingest.sources import open_source
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, N
from everview.plan.positions import bind_positions
from everview.storage.files import Files
from everview.storage.manifest import Manifest

_COPY = "_everview_copy"  # the number of a row among those of equal text


@dataclass(frozen=True)
class AdmittedRows:
    """Late or rejected rows that count from now on, with the columns of late rows, and those that stay.

    `refused` is how many were chosen and stay, because they still cannot be read.
    """

    rows: DataFrame
    left: DataFrame
    refused: int = 0


def rows_to_admit(
    kept: Kept, entry: StreamEntry, kind: str, where: Expression | None, now: int
) -> AdmittedRows:
    """Return the late or rejected rows of a stream for which a condition holds."""
    name, columns = f"{entry.name}${kind}", untaken_columns(entry, kind)
    rows = kept.all_rows(P.ScanOperator(name, columns.types))
    condition = "true" if where is None else catalyst_sql(bind_positions(where, columns.under(name)))
    chosen, others = rows.where(f"({condition})"), rows.where(f"NOT coalesce(({condition}), false)")
    if kind == "late":
        return AdmittedRows(_from_now_on(chosen, kept.manifest, entry), others)
    of_a_file = F.col(column(1)).contains(FILE_CHANGED)
    found, still = _read_again(kept, entry, chosen.where(~of_a_file), now)
    refused = still.count()
    left = others.unionAll(chosen.where(of_a_file)).unionAll(still)
    return AdmittedRows(_from_now_on(found, kept.manifest, entry), left, refused)


def _from_now_on(rows: DataFrame, manifest: Manifest, entry: StreamEntry) -> DataFrame:
    """Return rows that begin just after the bound, or at their own timestamp if that is later."""
    line = column(entry.columns.names.index(entry.timelines[0].column))
    begin = f"greatest(unix_micros({line}), {long_sql(manifest.bound + 1)})"
    times = {FROM: F.expr(begin), UNTIL: F.expr(long_sql(INFINITY)), N: F.expr("1L")}
    return rows.withColumns(times)


def _read_again(kept: Kept, entry: StreamEntry, chosen: DataFrame, now: int) -> tuple[DataFrame, DataFrame]:
    """Return chosen rejected rows that can be read now, with the columns of late rows, and the others."""
    late = untaken_columns(entry, "late")
    empty = empty_rows(kept.session, spark_schema(late.types))
    if chosen.isEmpty():
        return empty, chosen
    if not reads_files(entry):
        source = "" if entry.source is None else entry.source.format
        raise StoreError(
            f"the rejected rows of '{entry.name}' cannot be read again: its source {source} is no files",
            next_step="send them again",
        )
    read = FilesRead.of(kept.session, kept.files, entry, kept.manifest)
    if isinstance(read, str):
        raise StoreError(read, next_step="put the rows into a new file")
    uris = [uri for uri in read.times if uri not in read.gone and uri not in read.changed]
    found: list[DataFrame] = []
    for epoch in Replay.of_files(kept.files, entry, kept.manifest, uris).epochs:
        mine = chosen.where(f"{column(0)} >= {epoch.since} AND {column(0)} < {long_sql(epoch.until)}")
        frame = open_source(kept.session, entry, new_differences(kept.session.sparkContext), epoch.files)
        task = AcceptTask(entry, now)
        parsed = _number_rows(frame.mapInArrow(task, task.schema), ORIGINAL, FROM)
        found.append(_match_texts(parsed, mine, entry))
    if not found:
        return empty, chosen
    admitted = reduce(DataFrame.unionAll, found).localCheckpoint()
    size = len(late)
    why = [column(i) for i in range(size - 3, size)]
    gone = admitted.groupBy(*why).agg(F.count(F.lit(1))).toDF("_step", "_reason", "_text", "_gone")
    each = chosen.withColumn(
        _COPY, F.row_number().over(Window.partitionBy(column(0), column(1), column(2)).orderBy(FROM))
    )
    same = f"{column(0)} = _step AND {column(1)} <=> _reason AND {column(2)} <=> _text"
    still = each.join(gone, F.expr(same), "left").where(f"{_COPY} > coalesce(_gone, 0)")
    return admitted, still.select(*chosen.columns)


def _number_rows(rows: DataFrame, text: str, order: str) -> DataFrame:
    return rows.withColumn(_COPY, F.row_number().over(Window.partitionBy(text).orderBy(order)))


def _match_texts(parsed: DataFrame, chosen: DataFrame, entry: StreamEntry) -> DataFrame:
    """Return as many rows of each text as were chosen, each with the step and the reason of one of these."""
    own = [column(i) for i in range(len(entry.columns))]
    size = len(own)
    numbered = _number_rows(chosen, column(2), column(0))
    why = numbered.selectExpr(
        f"{column(0)} AS _step", f"{column(1)} AS _reason", f"{column(2)} AS _text", f"{_COPY} AS _number"
    )
    both = parsed.join(why, F.expr(f"{ORIGINAL} = _text AND {_COPY} = _number"))
    said = [f"{name} AS {column(size + i)}" for i, name in enumerate(("_step", "_reason", "_text"))]
    return both.selectExpr(*own, *said, *CHANGE)


def count_corrections(files: Files, manifest: Manifest, entry: StreamEntry) -> int:
    """Return how many re-admitted rows of a stream begin after their own timestamp."""
    place = entry.columns.names.index(entry.timelines[0].column)
    return sum(_corrections(files, run.path, run.places, place) for run in manifest.admitted(entry.name))


def _corrections(files: Files, path: str, places: Sequence[int], place: int) -> int:
    line = column(places[place] if places else place)
    rows = files.read_frame(path, [line, FROM])
    return rows.filter(pl.col(FROM) > pl.col(line).cast(pl.Int64)).height
